"""What holds wherever a value is defined: divisors are not zero, roots are of numbers ≥ 0, logarithms of numbers > 0.

A law that may change what happens where its pattern is undefined is proved under what the pattern's own domains say, never under
those of its replacement: x·x/x = x holds so, and x = x·x/x does not. And what counts for nothing in a replacement must have a
value: 0 is not 0·(1/(x − 17)) at 17.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from operators.formulas import Formula
from verifier.proof.algebra import Symbolic, _value
from verifier.proof.knowledge import current
from verifier.proof.laws import inverse
from verifier.proof.readable import factor_text
from verifier.proof.reductions import INFINITY, is_inhabited
from verifier.proof.signs import direction, is_nonnegative, is_nonzero, is_positive, polynomial_of
from verifier.proof.terms import Factor, Function, Read, Value


def learn_domains(value: Value) -> bool:
    """Teach what must hold for the value to be a number; whether anything of it was new.

    Terms that count only under a condition, and sums that may be empty, teach nothing. At the top of a term an infinity is as good as NaN;
    inside a function it may come out as a number again (e^(−1/0²) = 0), and only NaN is sure to come through.
    """
    if INFINITY in value.key:
        return False
    before = len(current().nonzero) + len(current().nonnegative)
    _learn_each(value, top=True)
    return len(current().nonzero) + len(current().nonnegative) > before


def _learn_each(value: Value, top: bool) -> None:
    for product in value.terms:
        counts = is_inhabited(product.bound, product.guards) if product.bound else not product.guards
        if counts and not any(factor.idempotent for factor, _ in product.factors):
            for factor, _ in product.factors:
                if not factor.free & set(product.bound):
                    _learn(factor, top)


def _learn(factor: Factor, top: bool) -> None:
    if not isinstance(factor, Function) or factor.name not in _STRICT:
        return
    (argument,) = factor.arguments
    if polynomial_of(argument) is not None:
        return
    if factor.name in ("sqrt", "log"):
        current().nonnegative.add(direction(argument))
        if argument.factor is not None:
            current().nonnegative.add(argument.factor.key)
    if top and factor.name in ("inverse", "log"):
        _learn_nonzero(argument)
    _learn_each(argument, top=False)


def _learn_nonzero(argument: Value) -> None:
    """A product is not zero, and neither is any of its factors; nor is what a root is of."""
    current().nonzero.update((direction(argument), direction(-argument)))
    if argument.single is not None:
        product, _ = argument.single
        if not product.bound and not product.guards:
            for factor, _ in product.factors:
                current().nonzero.add(factor.key)
                if isinstance(factor, Function) and factor.name == "sqrt":
                    _learn_nonzero(factor.arguments[0])


_STRICT = frozenset({"inverse", "sqrt", "log", "exp", "sigmoid", "sin", "cos", "atan", "erf"})
"""Functions of one number that give NaN of NaN."""


class NotDefined(RuntimeError):
    """A side may be undefined where its normal form is a number."""


class Watching(Symbolic):
    """The prover's algebra, keeping which functions were asked for values that they may not have."""

    def __init__(self, unrolled: int) -> None:
        super().__init__(unrolled)
        self._asked: dict[_Look, str] = {}

    def apply(self, name: str, *arguments: Any) -> Value:
        operands = [_value(argument) for argument in arguments]
        result = super().apply(name, *operands)
        if name not in _QUOTIENTS and name not in _OF_PARTIAL_DOMAIN:
            return result
        divided = operands[1] if name in _QUOTIENTS else None
        given = {factor.key for operand in operands for factor in _partial(operand)}
        for factor in _partial(result if divided is None else inverse(divided)):
            if factor.key not in given and not _is_within(factor, current().assumptions):
                self._asked[_look(factor)] = factor_text(factor)
        for factor in _partial(divided) if divided is not None else ():
            self._asked.pop(_look(factor), None)  # an infinite divisor gives 0
        return result

    def check(self, *forms: Value) -> None:
        """Raises: NotDefined where a function that was asked stands in none of the normal forms."""
        standing = {_look(factor) for form in forms for factor in _partial(form)}
        standing |= {(name, *about) for kind, *about in standing if kind == "log" for name in ("inverse", "sqrt")}  # type: ignore[misc]
        for look, text in self._asked.items():
            if not any(_alike(look, other) for other in standing):
                raise NotDefined(f"the replacement's {text} counts for nothing, and may have no value")


_Look = tuple[str, frozenset[str], str]
"""A function, the tensors on whose elements its argument depends, and the argument without indices, but where it sums: sums may be
written in other ways."""

_QUOTIENTS = frozenset({"divide", "floor_divide", "remainder", "trunc_divide", "trunc_remainder"})
_OF_PARTIAL_DOMAIN = frozenset({"sqrt", "rsqrt", "log", "log1p", "power", "asin", "acos", "acosh", "atanh"})
_PARTIAL: dict[str, Callable[..., bool] | None] = {
    "inverse": is_nonzero, "sqrt": is_nonnegative, "log": is_positive, "power": is_positive,
    "asin": None, "acos": None, "acosh": None, "atanh": None,
}  # fmt: skip
"""Functions of part of the reals, and what says that a value lies there, where something does."""


def _look(factor: Function) -> _Look:
    tensors = frozenset(tensor for argument in factor.arguments for tensor in _tensors(argument))
    written = ", ".join(argument.key for argument in factor.arguments)
    return factor.name, tensors, "" if "Σ" in written else _without_indices(written)


def _without_indices(written: str) -> str:
    shorter = re.sub(r"\[[^\[\]]*\]", "", written)
    return shorter if shorter == written else _without_indices(shorter)


def _alike(one: _Look, other: _Look) -> bool:
    return one[:2] == other[:2] and (not one[2] or not other[2] or one[2] == other[2])


def _tensors(value: Value) -> Iterator[str]:
    for product in value.terms:
        for factor, _ in product.factors:
            if isinstance(factor, Read):
                yield factor.tensor
            for part in factor.parts():
                yield from _tensors(part)


def _partial(value: Value) -> Iterator[Function]:
    """The reciprocals, roots, logarithms and other functions of part of the reals of which the value is made."""
    for product in value.terms:
        for factor, _ in product.factors:
            if isinstance(factor, Function) and factor.name in _PARTIAL:
                yield factor
            for part in factor.parts():
                yield from _partial(part)


def _is_within(factor: Function, guards: Iterable[Formula]) -> bool:
    """The function's argument is known to lie in its domain; sizes are other questions' matter."""
    argument = factor.arguments[0]
    known = _PARTIAL[factor.name]
    return polynomial_of(argument) is not None or (known is not None and known(argument, guards))


__all__ = ["NotDefined", "Watching", "learn_domains"]
