"""The proof for all shapes: facts, shapes, elements."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphs.graph import Graph
from operators.expressions import Atom, Dim, Expression, Symbol, plain
from operators.formulas import Formula, Truth, at_least_zero, equal, formula_symbols
from operators.meaning import interpreted_by, ravel
from operators.operator import collecting_obligations
from operators.predicates import substitute_formula
from verifier.proof.algebra import UNROLLED, Symbolic, _value
from verifier.proof.compare import Comparison_, missing_split
from verifier.proof.domains import NotDefined, Watching, learn_domains
from verifier.proof.equalities import single_numbers, solved_equalities
from verifier.proof.facts import Contradiction, attribute_facts, flattened, size_factors, size_facts, solved, with_sizes
from verifier.proof.knowledge import Bound, Index, Knowledge, SplitNeeded, below_quotients, knowing
from verifier.proof.readable import value_text
from verifier.proof.solver import OutOfTime, clock
from verifier.proof.terms import Value
from verifier.proof.unfold import Unfolded, type_name
from verifier.sizes import evaluator

PROVED, UNDECIDED, VACUOUS = "proved", "undecided", "vacuous"
WHERE_DEFINED = "where the pattern is defined"


@dataclass(frozen=True)
class NormalForms:
    """Both sides of one output at `index` in normal form, with the index maps that matched them.

    `digits` maps the index variables of which `index` is made to their extents.
    """

    at: tuple[Dim, ...]
    digits: Mapping[Symbol, Dim]
    left: Value
    right: Value
    maps: tuple[str, ...] = ()

    @property
    def index(self) -> tuple[str, ...]:
        """The index as text."""
        return tuple(map(str, self.at))


@dataclass(frozen=True)
class Proof:
    """What the proof for all shapes came to: `status` is proved, undecided or vacuous.

    `scope` says what is assumed; `reason` why it is undecided; `unmatched` the smallest terms left over.
    """

    status: str
    seconds: float
    scope: tuple[str, ...] = ()
    reason: str = ""
    unmatched: tuple[str, ...] = ()
    forms: tuple[NormalForms, ...] = field(default=(), repr=False)

    @property
    def proved(self) -> bool:
        return self.status == PROVED


Element = Callable[[tuple[Any, ...]], Any]


@dataclass(frozen=True)
class Output:
    """One output of both sides: its shape and what its elements are."""

    shape: tuple[Dim, ...]
    left: Element
    right: Element


def prove_elements(
    shape: Sequence[Dim],
    left: Element,
    right: Element,
    facts: Iterable[Truth] = (),
    bounds: Sequence[Bound] = (),
    timeout: float = 10.0,
) -> Proof:
    """Whether left(index) = right(index) at every index of the shape, for all sizes that satisfy the facts.

    Symbols of the shape are sizes ≥ 0; `bounds` are what is known of tensors' elements.
    """
    known = [*facts, *(at_least_zero(Expression.of(s)) for dim in shape if isinstance(dim, Expression) for s in dim.symbols)]
    return _Attempts(lambda: [Output(tuple(map(plain, shape)), left, right)], known, bounds, timeout).run(lambda knowledge: "")


@dataclass
class _Attempts:
    """Proof attempts: for all sizes, then for sizes of at least 1; each starts anew when indices need more digits."""

    outputs: Callable[[], Sequence[Output]]
    facts: Sequence[Truth]
    bounds: Sequence[Bound]
    timeout: float
    begin: float = field(default_factory=time.monotonic)
    started: float = field(default_factory=clock)
    positive: Sequence[Truth] | None = None
    partial: bool = False
    where_defined: bool = False
    domains: bool = False
    comparison: Callable[[], Comparison_] = Comparison_

    def run(self, missing: Callable[[Knowledge], str]) -> Proof:
        """The first attempt that proves; else the outcome of the first."""
        first = self._attempt(self.facts, missing)
        if first.proved or first.status == VACUOUS:
            return self._scoped(first, "all sizes ≥ 0")
        positive = at_least_one(self.facts) if self.positive is None else self.positive
        if not positive or any(fact is False for fact in positive):
            return self._scoped(first, "all sizes ≥ 0")
        again = self._attempt([*self.facts, *positive], missing)
        return self._scoped(again, "all sizes ≥ 1") if again.proved else self._scoped(first, "all sizes ≥ 0")

    def _scoped(self, proof: Proof, sizes: str) -> Proof:
        defined = (WHERE_DEFINED,) if self.domains and proof.proved else ()
        return replace(proof, seconds=time.monotonic() - self.begin, scope=(sizes, *defined, *proof.scope))

    def _attempt(self, facts: Sequence[Truth], missing: Callable[[Knowledge], str]) -> Proof:
        splits: dict[Expression, Dim] = {}
        forms: list[NormalForms] = []
        partial = False
        try:
            if not has_instance(facts, self._knowledge(facts)):
                return Proof(VACUOUS, 0.0, reason="no sizes satisfy the conditions")
            reason = missing(self._knowledge(facts))
            if reason:
                return Proof(UNDECIDED, 0.0, reason=reason)
            for position in range(len(self.outputs())):
                form, proved, unmatched = self._output(position, facts, splits)
                partial = partial or self.partial
                forms.append(form)
                if not proved:
                    return Proof(UNDECIDED, 0.0, reason="terms are left that cancel nowhere", unmatched=unmatched, forms=tuple(forms))
        except (OutOfTime, NotImplementedError, NotDefined, TooManyDigits, RecursionError) as error:
            return Proof(UNDECIDED, 0.0, reason=str(error), forms=tuple(forms))
        if partial:
            return Proof(UNDECIDED, 0.0, reason="a quotient is not defined over an empty range", forms=tuple(forms))
        return Proof(PROVED, 0.0, forms=tuple(forms))

    def _knowledge(self, facts: Sequence[Truth]) -> Knowledge:
        return Knowledge(facts, bounds=self.bounds, seconds=self.timeout - (clock() - self.started))

    def _output(self, position: int, facts: Sequence[Truth], splits: dict[Expression, Dim]) -> tuple[NormalForms, bool, tuple[str, ...]]:
        compared, numbers = self._compared(position, facts, splits, UNROLLED)
        if compared[1]:
            return compared
        partial = self.partial
        others = [(WRITTEN_OUT, False)] if numbers else []
        others += [(UNROLLED, True)] if self.where_defined else []
        for unrolled, domains in others:
            try:
                other, _ = self._compared(position, facts, dict(splits), unrolled, domains)
            except (OutOfTime, NotImplementedError, NotDefined, TooManyDigits, RecursionError):
                continue
            if other[1]:
                self.domains = self.domains or domains
                return other
            self.partial = partial
        return compared

    def _compared(
        self, position: int, facts: Sequence[Truth], splits: dict[Expression, Dim], unrolled: int, domains: bool = False
    ) -> tuple[tuple[NormalForms, bool, tuple[str, ...]], bool]:
        """One output with sums up to a number of terms written out; whether there are more that could be.

        With `domains`, where the left side is defined.
        """
        for _ in range(24):
            knowledge = self._knowledge(facts)
            knowledge.splits.update(splits)
            try:
                with knowing(knowledge):
                    algebras = (
                        Symbolic(unrolled) if self.where_defined else Watching("pattern", unrolled),
                        Watching("replacement", unrolled),
                    )
                    compared = _compare_output(lambda: self.outputs()[position], knowledge, self.comparison(), domains, algebras)
                    self.partial = knowledge.partial
                    return compared, any(isinstance(size, int) and unrolled < size <= WRITTEN_OUT for size in knowledge.extents.values())
            except SplitNeeded as needed:
                splits[Expression.of(needed.extent)] = needed.radix
        raise TooManyDigits("indices need too many digits")


WRITTEN_OUT = 9
"""Sums of at most so many terms are written out where they are not proved equal as they stand: a kernel's positions, one by one."""


def at_least_one(facts: Iterable[Truth], factors: Iterable[Symbol] = ()) -> list[Truth]:
    """Sizes of which the facts say that they are ≥ 0, and factors of sizes of which they say nothing, are ≥ 1."""
    lower = Knowledge(fact for fact in facts if fact is not False).lower
    sizes = sorted({s for s, least in lower.items() if least == 0} | {s for s in factors if s not in lower}, key=str)
    return [at_least_zero(Expression.of(s) - 1) for s in sizes]


def has_instance(facts: Sequence[Truth], knowledge: Knowledge) -> bool:
    """Sizes that satisfy the facts are drawn, or at least Z3 does not say that there are none."""
    statements = [fact for fact in facts if isinstance(fact, Formula)]
    holds = [evaluator(fact) for fact in statements]
    names = sorted({s.name for fact in statements for s in formula_symbols(fact)})
    chance = random.Random(0)
    for _ in range(150):
        pool = chance.choice(((1, 2, 3), (1, 2), (1,), (0, 1, 2, 3, 5), (2, 4, 6, 8)))
        sizes = {name: chance.choice(pool) for name in names}
        if all(hold(sizes) for hold in holds):
            return True
    return not knowledge.solver.contradictory(())


class TooManyDigits(RuntimeError):
    """Indices would have to be written in more digits than make sense."""


def _compare_output(
    unfolded: Callable[[], Output], knowledge: Knowledge, comparison: Comparison_, domains: bool, algebras: tuple[Symbolic, Symbolic]
) -> tuple[NormalForms, bool, tuple[str, ...]]:
    output = unfolded()
    at: list[Dim] = []
    made: dict[Symbol, Dim] = {}
    for dim in output.shape:
        extents = knowledge.digits_of(dim)
        digits = [knowledge.fresh("i") for _ in extents]
        for digit, extent in zip(digits, extents, strict=True):
            knowledge.extents[digit] = extent
            knowledge.add(at_least_zero(Expression.of(digit)))
            knowledge.add(at_least_zero(extent - Expression.of(digit) - 1))
            if isinstance(extent, Expression):
                knowledge.add(at_least_zero(extent - 1))
                for fact in below_quotients(digit, extent):
                    knowledge.add(fact)
        at.append(ravel([Expression.of(digit) for digit in digits], extents))
        made.update(zip(digits, extents, strict=True))
    with interpreted_by(algebras[0]):
        left = _value(output.left(tuple(at)))
    learned = domains and learn_domains(left)
    if domains and not learned:
        return NormalForms(tuple(at), made, left, left), False, ()
    while learned:
        output = unfolded()  # elements are computed once
        with interpreted_by(algebras[0]):
            left = _value(output.left(tuple(at)))
        learned = learn_domains(left)
    with interpreted_by(algebras[1]):
        right = _value(output.right(tuple(at)))
    proved = comparison.equal(left, right)
    if proved:
        for algebra in algebras:
            if isinstance(algebra, Watching):
                algebra.check(made, left, right)
    else:
        needed = missing_split(comparison.unmatched)
        if needed is not None:
            raise needed
    smallest = sorted((value_text(Value({p: c})) for p, c in comparison.unmatched), key=lambda text: (len(text), text))[:2]
    return NormalForms(tuple(at), made, left, right, tuple(dict.fromkeys(comparison.maps))), proved, tuple(smallest)


def prove(
    left: Graph,
    right: Graph,
    facts: Iterable[Truth] = (),
    bounds: Sequence[Bound] = (),
    owed: Iterable[Truth] = (),
    timeout: float = 10.0,
    comparison: Callable[[], Comparison_] = Comparison_,
    where_defined: bool = False,
) -> Proof:
    """Whether two graphs over inputs of the same names are equal, for all sizes that satisfy the facts.

    Facts include what the left graph's operators require of sizes; `owed` is what the right graph's require, and is proved.
    `bounds` are what is known of inputs' elements; `comparison` makes what decides whether two elements are equal. With `where_defined`
    the sides need to be equal only where the left one is defined (no division by zero, no root or logarithm outside its domain).
    """
    begin, started = time.monotonic(), clock()
    given = [*facts, *size_facts(left), *attribute_facts(left)]
    try:
        sizes, remaining = solved(given)
    except Contradiction as error:
        return Proof(VACUOUS, time.monotonic() - begin, reason=str(error))
    positive = [substitute_formula(fact, sizes) for fact in at_least_one(flattened(given), size_factors(left))]

    known, bounds = solved_equalities(bounds, single_numbers(left, right))

    def outputs() -> list[Output]:
        ours, theirs = Unfolded(left, sizes, defined=True, known=known), Unfolded(right, sizes, defined=False, known=known)
        pairs = zip(left.outputs, right.outputs, strict=True)
        return [Output(ours.type(a).shape, ours.tensor(a).__getitem__, theirs.tensor(b).__getitem__) for a, b in pairs]

    def missing(knowledge: Knowledge) -> str:
        with knowing(knowledge):
            return _shapes_differ(left, right, sizes, knowledge) or _owed([*owed, *size_facts(right)], sizes, knowledge)

    with collecting_obligations():
        attempts = _Attempts(
            outputs, remaining, bounds, timeout, begin, started, positive, comparison=comparison,
            where_defined=where_defined and not any(type_name(left.operator(node)) == "IsNaN" for node in left),
        )  # fmt: skip
        return attempts.run(missing)


def _shapes_differ(left: Graph, right: Graph, sizes: dict[Atom, Dim], knowledge: Knowledge) -> str:
    if len(left.outputs) != len(right.outputs):
        return f"the sides have {len(left.outputs)} and {len(right.outputs)} outputs"
    for a, b in zip(left.outputs, right.outputs, strict=True):
        one, other = with_sizes(left.type(a), sizes), with_sizes(right.type(b), sizes)
        if one.dtype != other.dtype:
            return f"the sides' dtypes differ: {one} and {other}"
        if len(one.shape) != len(other.shape) or not all(
            knowledge.proves(equal(x, y)) for x, y in zip(one.shape, other.shape, strict=True)
        ):
            return f"the sides' shapes are not known to be equal: {one} and {other}"
    return ""


def _owed(owed: Iterable[Truth], sizes: dict[Atom, Dim], knowledge: Knowledge) -> str:
    for condition in owed:
        statement = substitute_formula(condition, sizes)
        if not knowledge.proves(statement):
            return f"the right side requires {statement}, which does not follow from the conditions"
    return ""


__all__ = ["PROVED", "UNDECIDED", "VACUOUS", "WHERE_DEFINED", "Formula", "Index", "NormalForms", "Proof", "prove", "prove_elements"]
