"""A rule read from right to left."""

from __future__ import annotations

import typing
from collections.abc import Callable
from types import FunctionType
from typing import Any

from rewrites.rule import Rule, remembered
from rewrites.signature import RuleDefinitionError


@remembered
def reverse(rule: type[Rule]) -> type[Rule]:
    """The rule that rewrites `rule`'s replacement into its pattern, under the same conditions and those for this direction.

    Raises: RuleDefinitionError when the replacement does not bind every variable of the pattern.
    """
    name = f"{rule.__name__}Reversed"
    for side in (rule.pattern, rule.replacement):
        if not isinstance(side, FunctionType):
            raise RuleDefinitionError(f"{name}: both sides of {rule.__name__} must be plain functions to be exchanged")
    annotations = typing.get_type_hints(rule.pattern, include_extras=True)
    body = {
        "__doc__": f"{rule.statement()} (From right to left.)",
        "__module__": rule.__module__,
        "source": rule.source,
        "equality": rule.equality,
        "requires": [*rule.requires, *rule.requires_reversed],
        "trainable": rule.trainable,
        "pattern": staticmethod(_annotated(rule.replacement, annotations)),
        "replacement": staticmethod(_annotated(rule.pattern, {})),
    }
    return type(name, (Rule,), body)


def _annotated(function: Callable[..., Any], annotations: dict[str, Any]) -> Callable[..., Any]:
    """A copy of the function with these annotations."""
    copied = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copied.__annotations__ = annotations
    copied.__doc__ = function.__doc__
    return copied
