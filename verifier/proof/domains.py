"""What holds wherever a value is defined: divisors are not zero, roots are of numbers ≥ 0, logarithms of numbers > 0.

A law that may change what happens where its pattern is undefined is proved under what the pattern's own domains say, never under
those of its replacement: x·x/x = x holds so, and x = x·x/x does not. And what counts for nothing must have a value, in the replacement
always (0 is not 0·(1/(x − 17)) at 17), in the pattern as well where no change of NaN and infinities is declared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from operators.expressions import Symbol
from operators.formulas import Formula, Truth, all_of, any_of, formula_symbols
from operators.predicates import substitute_formula
from verifier.proof.algebra import Symbolic, _value
from verifier.proof.compare import with_opposite_guards
from verifier.proof.knowledge import Index, current, range_of
from verifier.proof.laws import inverse
from verifier.proof.matching import equations_between, solutions
from verifier.proof.normalise import set_truth
from verifier.proof.readable import factor_text
from verifier.proof.reductions import INFINITY, is_inhabited
from verifier.proof.signs import direction, is_nonnegative, is_nonzero, is_positive, polynomial_of
from verifier.proof.terms import Factor, Function, Product, Value


@dataclass
class _Learned:
    """Keys and directions (see `signs.direction`) that are not zero, and not negative."""

    nonzero: set[str] = field(default_factory=set)
    nonnegative: set[str] = field(default_factory=set)


def learn_domains(value: Value) -> bool:
    """Teach what must hold for the value to be a number; whether anything of it was new.

    Only what must hold whichever way its conditions go. Terms that count only under a guard, and sums that may be empty, teach nothing.
    At the top of a term an infinity is as good as NaN; inside a function it may come out as a number again (e^(−1/0²) = 0), and only NaN
    is sure to come through.
    """
    if INFINITY in value.key:
        return False
    ways: list[_Learned] = []
    for _, (chosen,) in _by_truths(value):
        ways.append(_Learned())
        _learn_each(chosen, True, ways[-1])
    knowledge = current()
    before = len(knowledge.nonzero) + len(knowledge.nonnegative)
    knowledge.nonzero |= set.intersection(*(way.nonzero for way in ways))
    knowledge.nonnegative |= set.intersection(*(way.nonnegative for way in ways))
    return len(knowledge.nonzero) + len(knowledge.nonnegative) > before


def _learn_each(value: Value, top: bool, learned: _Learned) -> None:
    for product in _sure(value):
        if is_inhabited(product.bound, product.guards) if product.bound else not product.guards:
            for factor, _ in product.factors:
                if not factor.free & set(product.bound):
                    _learn(factor, top, learned)


def _sure(value: Value) -> Iterator[Product]:
    """The terms that count wherever their guards hold: a sum that is masked, or taken away from another one in part, may not."""
    joined = with_opposite_guards(value) or value
    masked = {bool(product.bound) for product in joined.terms if any(factor.idempotent for factor, _ in product.factors)}
    yield from (product for product in joined.terms if bool(product.bound) not in masked)


def _learn(factor: Factor, top: bool, learned: _Learned) -> None:
    if not isinstance(factor, Function) or factor.name not in _STRICT:
        return
    (argument,) = factor.arguments
    if polynomial_of(argument) is not None:
        return
    if factor.name in ("sqrt", "log"):
        learned.nonnegative.add(direction(argument))
        if argument.factor is not None:
            learned.nonnegative.add(argument.factor.key)
    if top and factor.name in ("inverse", "log"):
        _learn_nonzero(argument, learned)
    _learn_each(argument, False, learned)


def _learn_nonzero(argument: Value, learned: _Learned) -> None:
    """A product is not zero, and neither is any of its factors; nor is what a root is of."""
    learned.nonzero.update((direction(argument), direction(-argument)))
    if argument.single is not None:
        product, _ = argument.single
        if not product.bound and not product.guards:
            for factor, _ in product.factors:
                learned.nonzero.add(factor.key)
                if isinstance(factor, Function) and factor.name == "sqrt":
                    _learn_nonzero(factor.arguments[0], learned)


_MOST_TRUTHS = 6


def _by_truths(*values: Value) -> Iterator[tuple[dict[Factor, bool], list[Value]]]:
    """The values for every choice of the factors that are 0 or 1, but for those within sums.

    Raises: NotDefined where there are too many.
    """
    truths = {f for value in values for p in value.terms for f, _ in p.factors if f.idempotent and not f.free & set(p.bound)}
    if len(truths) > _MOST_TRUTHS:
        raise NotDefined("there are too many conditions to say what is defined")
    ordered = sorted(truths, key=lambda factor: factor.key)
    for choice in itertools.product((True, False), repeat=len(ordered)):
        chosen = dict(zip(ordered, choice, strict=True))
        yield chosen, [_under(value, chosen) for value in values]


def _under(value: Value, chosen: Mapping[Factor, bool]) -> Value:
    for truth, holds in chosen.items():
        value = set_truth(value, truth, holds)
    return value


_STRICT = frozenset({"inverse", "sqrt", "log", "exp", "sigmoid", "sin", "cos", "atan", "erf"})
"""Functions of one number that give NaN of NaN."""


class NotDefined(RuntimeError):
    """A side may be undefined where its normal form is a number."""


class Watching(Symbolic):
    """The prover's algebra, keeping which functions were asked for values that they may not have, and under which conditions."""

    def __init__(self, side: str, unrolled: int) -> None:
        super().__init__(unrolled)
        self.side = side
        self._asked: dict[tuple[str, frozenset[Formula], tuple[tuple[str, bool], ...]], _Asked] = {}
        self._nodes: dict[str, set[tuple[int, bool]]] = {}

    def apply(self, name: str, *arguments: Any) -> Value:
        operands = [_value(argument) for argument in arguments]
        result = super().apply(name, *operands)
        if name not in _QUOTIENTS and name not in _OF_PARTIAL_DOMAIN:
            return result
        given = {found.factor.key for operand in operands for found in _partial(operand)}
        knowledge = current()
        assumed = frozenset(knowledge.assumptions)
        for chosen, (value,) in _by_truths(inverse(operands[1]) if name in _QUOTIENTS else result):
            truths = (*knowledge.chosen, *((Value.of(truth), holds) for truth, holds in chosen.items()))
            for found in _partial(value):
                if found.factor.key not in given and not _is_within(found.factor, assumed):
                    guards = assumed | found.guards
                    key = found.factor.key, guards, tuple((truth.key, holds) for truth, holds in truths)
                    self._asked[key] = _Asked(_Occurrence(found.factor, guards), truths)
                    self._nodes.setdefault(found.factor.key, set()).add(knowledge.computing)
        if name in _QUOTIENTS:  # an infinite divisor gives 0
            infinite = {found.factor.key for found in _partial(operands[1]) if found.factor.name == "inverse"}
            self._asked = {key: one for key, one in self._asked.items() if key[0] not in infinite or not self._flows_alone(key[0])}
        return result

    def _flows_alone(self, key: str) -> bool:
        """One node alone asked for the function, and what it gave is used in one place."""
        return len(self._nodes[key]) == 1 and all(alone for _, alone in self._nodes[key])

    @property
    def asked(self) -> bool:
        """Something was asked for a value that it may not have."""
        return bool(self._asked)

    def check(self, output: Collection[Symbol], *forms: Value) -> None:
        """The forms are of the element at these indices of the output.

        Raises: NotDefined where a function that was asked stands in none of the normal forms, at the same element.
        """
        if not self._asked:
            return
        for chosen, values in _by_truths(*forms):
            strict = [found for value in values for found in _partial(value, sure=True, strict=True)]
            compared = [part for truth in chosen for part in truth.parts()]
            anywhere = [replace(found, top=True) for value in [*values, *compared] for found in _partial(value, sure=True)]
            for asked in self._asked.values():
                standing = anywhere if self._flows_alone(asked.occurrence.factor.key) else strict
                if asked.counts(chosen) and not asked.occurrence.is_among(standing, output):
                    text = factor_text(asked.occurrence.factor)
                    raise NotDefined(f"the {self.side}'s {text} may have no value, and nothing shows that its output then has none")


def watching(unrolled: int, where_defined: bool) -> tuple[Symbolic, Watching]:
    """Algebras for both sides: of what may change where the pattern is undefined, only the replacement is watched."""
    return Symbolic(unrolled) if where_defined else Watching("pattern", unrolled), Watching("replacement", unrolled)


@dataclass(frozen=True)
class _Occurrence:
    """A function of part of the reals, and what holds where it counts; `top` where no other function stands around it."""

    factor: Function
    guards: frozenset[Formula]
    top: bool = True

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
        if not other.top and self.factor.name != "sqrt":
            return  # an infinity inside a function may come out as a number again
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


@dataclass(frozen=True)
class _Asked:
    """A function that was asked for a value, where these values are 1, or 0."""

    occurrence: _Occurrence
    truths: tuple[tuple[Value, bool], ...]

    def counts(self, chosen: Mapping[Factor, bool]) -> bool:
        """What was asked may count under this choice."""
        numbers = [(_under(truth, chosen).number, holds) for truth, holds in self.truths]
        return all(number is None or bool(number) == holds for number, holds in numbers)


_QUOTIENTS = frozenset({"divide", "floor_divide", "remainder", "trunc_divide", "trunc_remainder"})
_OF_PARTIAL_DOMAIN = frozenset({"sqrt", "rsqrt", "log", "log1p", "power", "asin", "acos", "acosh", "atanh"})
_PARTIAL: dict[str, Callable[..., bool] | None] = {
    "inverse": is_nonzero, "sqrt": is_nonnegative, "log": is_positive, "power": is_positive,
    "asin": None, "acos": None, "acosh": None, "atanh": None,
}  # fmt: skip
"""Functions of part of the reals, and what says that a value lies there, where something does."""


def _partial(
    value: Value, guards: frozenset[Formula] = frozenset(), sure: bool = False, strict: bool = False, top: bool = True
) -> Iterator[_Occurrence]:
    """The reciprocals, roots, logarithms and other functions of part of the reals of which the value is made.

    With `sure`, those in terms that count whatever the truths in sums are; with `strict`, those without which the value is none: where they
    are undefined, so is what they stand in.
    """
    for product in _sure(value) if sure else value.terms:
        inner = guards | product.guards
        for factor, _ in product.factors:
            if isinstance(factor, Function) and factor.name in _PARTIAL:
                yield _Occurrence(factor, inner, top)
            if not strict or (isinstance(factor, Function) and factor.name in _STRICT):
                for part in factor.parts():
                    yield from _partial(part, inner, sure, strict, False)


def _is_within(factor: Function, guards: Iterable[Formula]) -> bool:
    """The function's argument is known to lie in its domain; sizes are other questions' matter."""
    argument = factor.arguments[0]
    known = _PARTIAL[factor.name]
    return polynomial_of(argument) is not None or (known is not None and known(argument, guards))


__all__ = ["NotDefined", "Watching", "learn_domains", "watching"]
