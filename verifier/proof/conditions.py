"""Conditions on elements: linear inequalities between tensors' elements and real attributes, read off a rule's predicates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from rewrites.rule import Requires
from verifier.proof.knowledge import Bound


class NotUnderstood(Exception):
    """A condition that says more than linear inequalities."""


def _exact(number: float) -> Fraction:
    if not math.isfinite(number):
        raise NotUnderstood
    return Fraction(str(number))


class _Linear:
    """A linear combination of elements at one index; comparing it says something about them."""

    def __init__(self, paths: _Paths, coefficients: Mapping[str, Fraction], constant: Fraction = Fraction(0)) -> None:
        self.paths, self.constant = paths, constant
        self.coefficients = {name: c for name, c in coefficients.items() if c}

    def _operand(self, other: Any) -> _Linear:
        if isinstance(other, _Linear):
            return other
        if isinstance(other, (int, float)) and not isinstance(other, bool):
            return _Linear(self.paths, {}, _exact(other))
        raise NotUnderstood

    def __add__(self, other: Any) -> _Linear:
        right = self._operand(other)
        names = {**self.coefficients, **right.coefficients}
        summed = {n: self.coefficients.get(n, Fraction(0)) + right.coefficients.get(n, Fraction(0)) for n in names}
        return _Linear(self.paths, summed, self.constant + right.constant)

    __radd__ = __add__

    def __neg__(self) -> _Linear:
        return self * -1

    def __sub__(self, other: Any) -> _Linear:
        return self + -self._operand(other)

    def __rsub__(self, other: Any) -> _Linear:
        return self._operand(other) - self

    def __mul__(self, number: Any) -> _Linear:
        if not isinstance(number, (int, float)):
            raise NotUnderstood
        factor = _exact(number)
        return _Linear(self.paths, {n: c * factor for n, c in self.coefficients.items()}, self.constant * factor)

    __rmul__ = __mul__

    def _says(self, relation: str, difference: _Linear) -> _Statement:
        return _Statement(self.paths, Bound(relation, tuple(sorted(difference.coefficients.items())), difference.constant))

    def __ge__(self, other: Any) -> Any:
        return self._says(">=", self - other)

    def __gt__(self, other: Any) -> Any:
        return self._says(">", self - other)

    def __le__(self, other: Any) -> Any:
        return self._says(">=", self._operand(other) - self)

    def __lt__(self, other: Any) -> Any:
        return self._says(">", self._operand(other) - self)

    def __eq__(self, other: object) -> Any:
        return self._says("==", self - self._operand(other))

    def __ne__(self, other: object) -> Any:
        return self._says("!=", self - self._operand(other))

    __hash__ = object.__hash__


class _Statement:
    """A statement about elements; asking whether it is true follows both answers."""

    def __init__(self, paths: _Paths, bound: Bound) -> None:
        self.paths, self.bound = paths, bound

    def __bool__(self) -> bool:
        return self.paths.decide(self)

    def all(self) -> _Statement:
        return self

    def __and__(self, other: Any) -> Any:
        return other if bool(self) else False


class _Paths:
    def __init__(self, plan: list[bool]) -> None:
        self.plan = plan
        self.taken: list[tuple[_Statement, bool]] = []

    def decide(self, statement: _Statement) -> bool:
        position = len(self.taken)
        answer = self.plan[position] if position < len(self.plan) else True
        self.taken.append((statement, answer))
        return answer


def bounds_from(condition: Requires) -> list[Bound]:
    """What the condition says of every element; nothing for a condition that is not a conjunction of linear inequalities."""
    pending: list[list[bool]] = [[]]
    ways: list[list[Bound]] = []
    while pending:
        paths = _Paths(pending.pop())
        answer = _ask(condition.predicate, [_Linear(paths, {name: Fraction(1)}) for name in condition.names])
        if answer is None or len(paths.taken) > 8:
            return []
        for position in range(len(paths.plan), len(paths.taken)):
            pending.append([a for _, a in paths.taken[:position]] + [False])
        if answer:
            ways.append([statement.bound for statement, holds in paths.taken if holds])
    return ways[0] if len(ways) == 1 else []


def _ask(predicate: Callable[..., Any], arguments: list[Any]) -> bool | None:
    try:
        result = predicate(*arguments)
        return bool(result) if isinstance(result, (_Statement, bool)) else None
    except (NotUnderstood, TypeError, AttributeError):
        return None


__all__ = ["NotUnderstood", "bounds_from"]
