"""What holds wherever a value is defined: divisors are not zero, roots are of numbers ≥ 0, logarithms of numbers > 0.

A law that may change what happens where its pattern is undefined is proved under what the pattern's own domains say, never under
those of its replacement: x·x/x = x holds so, and x = x·x/x does not. And what counts for nothing in a replacement must have a
value: 0 is not 0·(1/(x − 17)) at 17.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from operators.expressions import Symbol
from operators.formulas import Formula, Truth, all_of, any_of, formula_symbols
from operators.predicates import substitute_formula
from verifier.proof.algebra import Symbolic, _value
from verifier.proof.knowledge import Index, current, range_of
from verifier.proof.laws import inverse
from verifier.proof.matching import equations_between, solutions
from verifier.proof.readable import factor_text
from verifier.proof.reductions import INFINITY, is_inhabited
from verifier.proof.signs import direction, is_nonnegative, is_nonzero, is_positive, polynomial_of
from verifier.proof.terms import Factor, Function, Product, Value


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
    """The prover's algebra, keeping which functions were asked for values that they may not have, and under which guards."""

    def __init__(self, unrolled: int) -> None:
        super().__init__(unrolled)
        self._asked: dict[tuple[str, frozenset[Formula]], _Occurrence] = {}

    def apply(self, name: str, *arguments: Any) -> Value:
        operands = [_value(argument) for argument in arguments]
        result = super().apply(name, *operands)
        if name not in _QUOTIENTS and name not in _OF_PARTIAL_DOMAIN:
            return result
        divided = operands[1] if name in _QUOTIENTS else None
        given = {found.factor.key for operand in operands for found in _partial(operand)}
        assumed = frozenset(current().assumptions)
        for found in _partial(result if divided is None else inverse(divided)):
            if found.factor.key not in given and not _is_within(found.factor, assumed):
                guards = assumed | found.guards
                self._asked[found.factor.key, guards] = _Occurrence(found.factor, guards)
        return result

    def check(self, output: Collection[Symbol], *forms: Value) -> None:
        """The forms are of the element at these indices of the output.

        Raises: NotDefined where a function that was asked stands in none of the normal forms, at the same element.
        """
        standing = [found for form in forms for found in _partial(form)]
        for asked in self._asked.values():
            if not asked.is_among(standing, output):
                raise NotDefined(f"the replacement's {factor_text(asked.factor)} counts for nothing, and may have no value")


@dataclass(frozen=True)
class _Occurrence:
    """A function of part of the reals, and what holds where it counts."""

    factor: Function
    guards: frozenset[Formula]

    def is_among(self, others: Iterable[_Occurrence], output: Collection[Symbol]) -> bool:
        """Wherever this counts, one of the others counts too and has the same argument."""
        found = [condition for other in others for condition in self.conditions_of(other, output)]
        extents = current().extents
        ranges = {fact for index in self.loose(output) if index in extents for fact in range_of(index, extents[index])}
        return current().proves(any_of(*found), self.guards | ranges)

    def conditions_of(self, other: _Occurrence, output: Collection[Symbol]) -> Iterator[Truth]:
        """When the other counts and has the same argument, for choices of the indices that sum around it."""
        names = {self.factor.name, "log"} if self.factor.name in ("inverse", "sqrt") else {self.factor.name}
        if other.factor.name not in names or len(other.factor.arguments) != len(self.factor.arguments):
            return
        lead = Product(self.loose(output), self.guards, ((self.factor, 1),))
        moved = Product(other.loose(output), other.guards, ((other.factor, 1),)).renamed()
        ((factor, _),) = moved.factors
        for chosen in solutions(equations_between(self.factor, factor), lead, moved, bijective=False):
            if all(mine.key == theirs.replaced(chosen).key for mine, theirs in zip(self.factor.arguments, factor.parts(), strict=True)):
                yield all_of(*(substitute_formula(guard, chosen) for guard in moved.guards))

    def loose(self, output: Collection[Symbol]) -> tuple[Index, ...]:
        """The indices of the sums around the function."""
        symbols = self.factor.free.union(*map(formula_symbols, self.guards))
        return tuple(sorted((symbol for symbol in symbols if isinstance(symbol, Index) and symbol not in output), key=str))


_QUOTIENTS = frozenset({"divide", "floor_divide", "remainder", "trunc_divide", "trunc_remainder"})
_OF_PARTIAL_DOMAIN = frozenset({"sqrt", "rsqrt", "log", "log1p", "power", "asin", "acos", "acosh", "atanh"})
_PARTIAL: dict[str, Callable[..., bool] | None] = {
    "inverse": is_nonzero, "sqrt": is_nonnegative, "log": is_positive, "power": is_positive,
    "asin": None, "acos": None, "acosh": None, "atanh": None,
}  # fmt: skip
"""Functions of part of the reals, and what says that a value lies there, where something does."""


def _partial(value: Value, guards: frozenset[Formula] = frozenset()) -> Iterator[_Occurrence]:
    """The reciprocals, roots, logarithms and other functions of part of the reals of which the value is made."""
    for product in value.terms:
        inner = guards | product.guards
        for factor, _ in product.factors:
            if isinstance(factor, Function) and factor.name in _PARTIAL:
                yield _Occurrence(factor, inner)
            for part in factor.parts():
                yield from _partial(part, inner)


def _is_within(factor: Function, guards: Iterable[Formula]) -> bool:
    """The function's argument is known to lie in its domain; sizes are other questions' matter."""
    argument = factor.arguments[0]
    known = _PARTIAL[factor.name]
    return polynomial_of(argument) is not None or (known is not None and known(argument, guards))


__all__ = ["NotDefined", "Watching", "learn_domains"]
