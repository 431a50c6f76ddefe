"""Rewrite rules: what a rule is, the library of laws, matching and applying them."""

from rewrites.apply import Applied, RewriteError, apply, apply_in_place
from rewrites.match import Absent, Match, explain, find_all, find_matches
from rewrites.overlay import NearMiss
from rewrites.reverse import reverse
from rewrites.rule import Change, Equality, Requires, Rule
from rewrites.signature import Axis, Pair, RuleDefinitionError, Triple, Weight

__all__ = [
    "Absent", "Applied", "Axis", "Change", "Equality", "Match", "NearMiss", "Pair", "Requires", "RewriteError", "Rule",
    "RuleDefinitionError", "Triple", "Weight", "apply", "apply_in_place", "explain", "find_all", "find_matches", "reverse",
]  # fmt: skip
