"""Rewrite rules: what a rule is, the library of laws, matching and applying them."""

from rewrites.rule import Change, Equality, Requires, Rule
from rewrites.signature import Axis, Pair, RuleDefinitionError, Triple, Weight

__all__ = ["Axis", "Change", "Equality", "Pair", "Requires", "Rule", "RuleDefinitionError", "Triple", "Weight"]
