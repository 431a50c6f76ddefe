"""What is known while a proof runs: facts about sizes, least values of symbols, signs of tensors' elements."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from operators.expressions import Atom, Dim, Expression, Extreme, Quotient, Symbol, divide_exactly, substitute
from operators.formulas import Comparison, Formula, Truth, at_least_zero
from verifier.proof.solver import OutOfTime, Solver, clock
from verifier.verdict import OUT_OF_TIME


@dataclass(frozen=True, eq=True)
class Index(Symbol):
    """An index variable, free (of the output element) or bound by a sum; no size or attribute has its name."""


@dataclass(frozen=True)
class Bound:
    """Σ coefficient · element + constant `relation` 0 at every index, relation one of >= > == !=; tensors name elements."""

    relation: str
    coefficients: tuple[tuple[str, Fraction], ...]
    constant: Fraction = Fraction(0)


SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


class SplitNeeded(Exception):
    """An index over `extent` must be written in two digits, the lower of radix `radix`; the proof starts anew with it."""

    def __init__(self, extent: Dim, radix: Dim) -> None:
        super().__init__(f"an index over {extent} must be split at {radix}")
        self.extent, self.radix = extent, radix


class Knowledge:
    """Facts and what follows from them at a glance; `bounds` are what is known of tensors' elements.

    `values` maps a tensor's name to `positive`, `nonnegative` or `nonzero`. `splits` maps an extent to the radix of its lower digit;
    `nonzero` and `nonnegative` hold the keys of factors and the directions of values (see `signs.direction`) that are known not to be zero
    or not to be negative; `assumptions` the guards under which an element is being computed,
    `chosen` the values that are 0 or 1 there, and which of the two; `computing` is the graph's node of which it is one, and
    whether what that gives flows into the output by one way alone;
    `digits` remembers what the digit rule made of guards; `partial` is set when a quotient was cancelled that is not defined over
    an empty range.
    """

    def __init__(
        self,
        facts: Iterable[Truth] = (),
        lower: Mapping[Symbol, int] | None = None,
        bounds: Sequence[Bound] = (),
        seconds: float = 10.0,
    ) -> None:
        self.lower: dict[Symbol, int] = dict(lower or {})
        self.bounds = tuple(bounds)
        self.values = _signs(self.bounds)
        self.facts: list[Formula] = []
        self.splits: dict[Expression, Dim] = {}
        self.deadline = clock() + seconds
        self.nonzero: set[str] = set()
        self.nonnegative: set[str] = set()
        self.partial = False
        self.assumptions: tuple[Formula, ...] = ()
        self.chosen: tuple[tuple[Any, bool], ...] = ()
        self.computing: tuple[int, bool] = (-1, False)
        self._evident: dict[Expression, bool] = {}
        self.digits: dict[Any, list[Truth]] = {}
        self._counter = itertools.count(1)
        self.extents: dict[Symbol, Dim] = {}
        for fact in facts:
            self.add(fact)
        self.solver = Solver(self.facts, self.lower, self.deadline)

    def add(self, fact: Truth) -> None:
        """Learn a fact; `s − c ≥ 0` for a symbol raises its least value."""
        self._evident.clear()
        self.digits.clear()
        if isinstance(fact, bool):
            if not fact:
                raise ValueError("a fact is plainly false")
            return
        if isinstance(fact, Comparison) and fact.relation == ">=":
            monomials = [m for m in fact.expression.terms if m]
            if len(monomials) == 1 and len(monomials[0]) == 1 and fact.expression.terms[monomials[0]] == 1:
                (atom,) = monomials[0]
                if isinstance(atom, Symbol):
                    self.lower[atom] = max(self.lower.get(atom, -fact.expression.terms.get((), 0)), -fact.expression.terms.get((), 0))
                    return
        if fact not in self.facts:
            self.facts.append(fact)
            self.solver = Solver(self.facts, self.lower, self.deadline)

    def check_time(self) -> None:
        """Raises: OutOfTime when the proof's time is used up."""
        if clock() > self.deadline:
            raise OutOfTime(f"the proof {OUT_OF_TIME}")

    def fresh(self, stem: str) -> Index:
        """A new index variable."""
        return Index(f"{stem}{str(next(self._counter)).translate(SUBSCRIPTS)}")

    def evidently_nonnegative(self, value: Dim) -> bool:
        """value ≥ 0 by the signs of its coefficients and the least values of its symbols, or by one fact more."""
        if isinstance(value, int):
            return value >= 0
        found = self._evident.get(value)
        if found is None:
            found = self._evident[value] = self._is_evidently_nonnegative(value)
        return found

    def _is_evidently_nonnegative(self, value: Expression) -> bool:
        if self._positive_polynomial(value):
            return True
        for fact in self.facts:
            if isinstance(fact, Comparison) and fact.relation == ">=" and any(m in fact.expression.terms for m in value.terms if m):
                rest = value - fact.expression
                if isinstance(rest, int):
                    if rest >= 0:
                        return True
                elif self._positive_polynomial(rest):
                    return True
        return False

    def _positive_polynomial(self, value: Expression) -> bool:
        if all(c < 0 for c in value.terms.values()):
            return False
        if all(c > 0 for c in value.terms.values()):
            return all(self._nonnegative_atom(a) for m in value.terms for a in m)
        shift: dict[Atom, Dim] = {s: Expression.of(s) + self.lower[s] for s in value.symbols if self.lower.get(s, 0)}
        shifted = substitute(value, shift) if shift else value
        if isinstance(shifted, int):
            return shifted >= 0
        return all(c >= 0 and all(self._nonnegative_atom(a) for a in m) for m, c in shifted.terms.items())

    def _nonnegative_atom(self, atom: Atom) -> bool:
        if isinstance(atom, Symbol):
            return atom in self.lower and self.lower[atom] >= 0
        if isinstance(atom, Quotient):
            return self.evidently_nonnegative(atom.numerator) and self.evidently_nonnegative(atom.denominator)
        if isinstance(atom, Extreme):
            parts = [self.evidently_nonnegative(part) for part in (atom.left, atom.right)]
            return any(parts) if atom.name == "max" else all(parts)
        return False

    def evidently_positive(self, value: Dim) -> bool:
        """value ≥ 1 at a glance."""
        return self.evidently_nonnegative(value - 1)

    def proves(self, goal: Truth, assumptions: Iterable[Truth] = (), linear: bool = False) -> bool:
        """The goal follows from the facts and the assumptions; with `linear`, by linear arithmetic alone (quick)."""
        if isinstance(goal, bool) and goal:
            return True
        if isinstance(goal, Comparison) and goal.relation == ">=" and self.evidently_nonnegative(goal.expression):
            return True
        return self.solver.proves(goal, assumptions, linear)

    def digits_of(self, extent: Dim) -> Sequence[Dim]:
        """The extents of the digits in which an index over `extent` is written, by the splits asked for so far."""
        radix = self.splits.get(Expression.of(extent))
        if radix is None or not self.may_split(extent, radix):
            return (extent,)
        upper = divide_exactly(extent, radix)
        assert upper is not None
        return (*self.digits_of(upper), *self.digits_of(radix))

    def may_split(self, extent: Dim, radix: Dim) -> bool:
        """An index over `extent` is a digit of radix `radix` below another: both extents are whole and not negative."""
        upper = divide_exactly(extent, radix)
        trivial = any(isinstance(part, int) and part == 1 for part in (upper, radix))
        return upper is not None and not trivial and self.evidently_nonnegative(radix) and self.evidently_nonnegative(upper)

    def wants_split(self, extent: Dim, radix: Dim) -> bool:
        """The split may be made and is not made yet."""
        return Expression.of(extent) not in self.splits and self.may_split(extent, radix)


def _signs(bounds: Iterable[Bound]) -> dict[str, str]:
    """Signs of single tensors' elements."""
    signs: dict[str, str] = {}
    for bound in bounds:
        if len(bound.coefficients) != 1 or bound.relation == "==":
            continue
        ((name, coefficient),) = bound.coefficients
        edge = -bound.constant / coefficient
        sign = None
        if bound.relation == "!=":
            sign = "nonzero" if edge == 0 else None
        elif coefficient > 0:
            sign = "positive" if edge > 0 or (edge == 0 and bound.relation == ">") else "nonnegative" if edge == 0 else None
        elif edge < 0 or (edge == 0 and bound.relation == ">"):
            sign = "nonzero"
        if sign is not None:
            signs[name] = sign if name not in signs or signs[name] == sign else "positive" if "nonnegative" in (sign, signs[name]) else sign
    return signs


_current: ContextVar[Knowledge] = ContextVar("knowledge")


def current() -> Knowledge:
    """The knowledge in force."""
    return _current.get()


@contextmanager
def knowing(knowledge: Knowledge) -> Iterator[Knowledge]:
    """Let the knowledge be in force inside the block."""
    token = _current.set(knowledge)
    try:
        yield knowledge
    finally:
        _current.reset(token)


def below_quotients(index: Symbol, extent: Expression) -> Iterator[Truth]:
    """For extent = ⌊n/d⌋ + c with d ≥ 1: d·index ≤ n + d·(c − 1), which follows from index < extent."""
    for atom in extent.atoms:
        if isinstance(atom, Quotient) and extent.terms.get((atom,)) == 1:
            rest = extent - Expression.of(atom)
            if (isinstance(rest, int) or atom not in rest.atoms) and current().evidently_positive(atom.denominator):
                yield at_least_zero(atom.numerator + atom.denominator * (rest - 1) - atom.denominator * Expression.of(index))


def range_of(index: Symbol, extent: Dim) -> tuple[Truth, Truth]:
    """0 ≤ index < extent, as two statements."""
    return at_least_zero(Expression.of(index)), at_least_zero(extent - Expression.of(index) - 1)
