"""The prover's algebra: `element` runs on it unchanged and yields values in normal form."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from operators.expressions import Dim, Expression, divide_exactly, plain, product
from operators.formulas import Comparison, Formula, Truth, equal, negate
from operators.meaning import ravel
from verifier.proof import functions, piecewise
from verifier.proof.binders import Binder
from verifier.proof.guards import conjuncts, divided, index_parts, interval
from verifier.proof.knowledge import Index, SplitNeeded, current, range_of
from verifier.proof.normalise import summed_over, unless, where
from verifier.proof.reductions import infinity, largest_over
from verifier.proof.terms import Value, as_value

UNROLLED = 1
"""Sums over a known number of terms up to this many are written out."""


class Symbolic:
    """Interprets the words of `operators.meaning` on `Value`s; indices are integer expressions.

    Assumes: `unravel` is asked for indices within the product of its sizes.
    """

    def __init__(self, unrolled: int = UNROLLED) -> None:
        self.unrolled = unrolled

    def constant(self, number: Any) -> Value:
        if isinstance(number, Value):
            return number
        if isinstance(number, Expression):
            return as_value(plain(number))
        if isinstance(number, float) and not math.isfinite(number):
            if number != number:
                raise NotImplementedError("a constant that is not a number")
            return infinity() if number > 0 else -infinity()
        return functions.real(number) if isinstance(number, float) else Value.of(number)

    def _over(self, extent: Dim, body: Callable[[Any], Any], reduce: Callable[[Index, Sequence[Truth], Value], Value]) -> Value:
        knowledge = current()
        extents = knowledge.digits_of(plain(extent))
        digits = [knowledge.fresh("k") for _ in extents]
        for digit, size in zip(digits, extents, strict=True):
            knowledge.extents[digit] = size
        result = _value(body(ravel([Expression.of(digit) for digit in digits], extents)))
        for digit, size in zip(reversed(digits), reversed(extents), strict=True):
            result = reduce(digit, range_of(digit, size), result)
        return result

    def total(self, extent: Dim, body: Callable[[Any], Any]) -> Value:
        if isinstance(extent, int) and extent <= self.unrolled:
            return sum((_value(body(i)) for i in range(extent)), Value({}))
        return self._over(extent, body, summed_over)

    def multiplied(self, extent: Dim, body: Callable[[Any], Any]) -> Value:
        if isinstance(extent, int) and extent <= max(self.unrolled, 4):
            result = Value.of(1)
            for i in range(extent):
                result = result * _value(body(i))
            return result
        index = current().fresh("k")
        current().extents[index] = plain(extent)
        return functions.product_over(index, plain(extent), _value(body(Expression.of(index))))

    def extreme(self, name: str, extent: Dim, body: Callable[[Any], Any]) -> Value:
        if name == "min":
            return -self.extreme("max", extent, lambda i: -_value(body(i)))
        if isinstance(extent, int) and extent <= self.unrolled:
            result = -infinity()
            for i in range(extent):
                result = piecewise.maximum(result, _value(body(i)))
            return result
        return self._over(extent, body, largest_over)

    def position(self, name: str, extent: Dim, body: Callable[[Any], Any]) -> Value:
        index = current().fresh("k")
        current().extents[index] = plain(extent)
        value = _value(body(Expression.of(index)))
        return Value.of(Binder("position of max", index, plain(extent), value if name == "max" else -value))

    def when(self, condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Value:
        if isinstance(condition, Formula):
            with assuming(condition):
                yes = _value(then())
            with assuming(negate(condition)):
                no = _value(otherwise())
            return where(condition, yes) + unless(condition, no)
        if isinstance(condition, Value):
            if condition.number is None:
                with choosing(condition, True):
                    yes = _value(then())
                with choosing(condition, False):
                    no = _value(otherwise())
                return no + condition * (yes - no) if not _infinite(yes, no) else condition * yes + (piecewise.ONE - condition) * no
            condition = condition.number != 0
        return _value(then()) if condition else _value(otherwise())

    def unravel(self, flat: Any, sizes: Sequence[Dim], body: Callable[..., Any]) -> Value:
        flat = plain(flat)
        radices = [plain(size) for size in sizes]
        digits: list[Dim] = []
        rest = flat
        for radix in reversed(radices[1:]):
            step = _divide(rest, radix)
            if step is None:
                return self._one_point(flat, radices, body)
            rest, digit = step
            digits.append(digit)
        first: Dim = 0 if radices and _is_one(radices[0]) else rest
        return _value(body(*([first] if radices else []), *reversed(digits)))

    def _one_point(self, flat: Dim, sizes: Sequence[Dim], body: Callable[..., Any]) -> Value:
        knowledge = current()
        digits = [knowledge.fresh("k") for _ in sizes]
        for digit, size in zip(digits, sizes, strict=True):
            knowledge.extents[digit] = size
        names = [Expression.of(digit) for digit in digits]
        result = where(equal(flat, ravel(names, sizes)), _value(body(*names)))
        for digit, size in zip(reversed(digits), reversed(sizes), strict=True):
            result = summed_over(digit, range_of(digit, size), result)
        return result

    def apply(self, name: str, *arguments: Any) -> Value:
        return functions.named(name)(*map(_value, arguments))

    def compare(self, relation: str, left: Any, right: Any) -> Value:
        return piecewise.compare(relation, _value(left), _value(right))

    def convert(self, value: Any, source: str, target: str) -> Value:
        item = _value(value)
        if target == "bool":
            return item if source == "bool" else piecewise.ONE - piecewise.is_zero(item)
        return piecewise.truncation(item) if "int" in target and "float" in source else item

    def as_index(self, value: Any) -> Any:
        return value if isinstance(value, (int, Expression)) else piecewise.as_index(value)

    def as_value(self, index: Any) -> Value:
        return _value(plain(index))


@contextmanager
def assuming(condition: Truth) -> Iterator[None]:
    """Inside the block elements are computed that count only where the condition holds."""
    knowledge = current()
    before = knowledge.assumptions
    learned = tuple(part for part in conjuncts(condition) if isinstance(part, Comparison))
    knowledge.assumptions = tuple(dict.fromkeys(before + learned))
    try:
        yield
    finally:
        knowledge.assumptions = before


@contextmanager
def choosing(truth: Value, holds: bool) -> Iterator[None]:
    """Inside the block elements are computed that count only where the value, 0 or 1, is 1 (`holds`), or 0."""
    knowledge = current()
    before = knowledge.chosen
    knowledge.chosen = (*before, (truth, holds))
    try:
        yield
    finally:
        knowledge.chosen = before


def _is_assumed(value: Dim) -> bool:
    """value ≥ 0 follows at a glance from one of the assumptions."""
    knowledge = current()
    known = [a.expression for a in knowledge.assumptions if isinstance(a, Comparison) and a.relation == ">="]
    return knowledge.evidently_nonnegative(value) or any(knowledge.evidently_nonnegative(value - e) for e in known)


def _value(item: Any) -> Value:
    if isinstance(item, Value):
        return item
    if isinstance(item, Formula):
        return piecewise.truth(item)
    if isinstance(item, Expression):
        return as_value(plain(item))
    return Value.of(item)


def _infinite(*values: Value) -> bool:
    return any("∞" in value.key for value in values if value.height)


def _is_one(dim: Dim) -> bool:
    return isinstance(dim, int) and dim == 1


def _divide(value: Dim, radix: Dim) -> tuple[Dim, Dim] | None:
    """Quotient and remainder of an index in range; None when they are not evident.

    Raises: SplitNeeded when splitting an index variable makes them evident.
    """
    if isinstance(value, int) and isinstance(radix, int):
        return divmod(value, radix) if radix else (0, 0)
    if _is_one(radix):
        return value, 0
    parts = divided(value, radix)
    if parts is None:
        return None
    upper, lower = parts
    span = interval(lower, {})
    knowledge = current()
    if span is not None and knowledge.evidently_nonnegative(span[0]) and knowledge.evidently_nonnegative(radix - span[1] - 1):
        return upper, lower
    if _is_assumed(lower) and _is_assumed(radix - lower - 1):
        return upper, lower
    split = index_parts(lower)
    for index, coefficient in split[0].items() if split else ():
        extent = knowledge.extents.get(index)
        smaller = divide_exactly(radix, coefficient)
        if extent is not None and smaller is not None and knowledge.wants_split(extent, smaller):
            raise SplitNeeded(extent, smaller)
    return None


__all__ = ["Symbolic", "product"]
