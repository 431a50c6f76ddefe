"""Which condition a refuted rule lacks: the weakest conjunction of at most two candidates under which it is proved."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from operators.expressions import Expression, Symbol, remainder
from operators.formulas import Formula, Truth, at_least_zero, equal
from rewrites.cases import Case, TracedCase, cases, trace_case
from rewrites.rule import Rule
from rewrites.signature import ChoiceVariable, IntegerVariable, RealVariable, TensorVariable
from verifier.proof.conditions import bounds_from
from verifier.proof.facts import Contradiction, solved
from verifier.proof.knowledge import Bound, Knowledge
from verifier.proof.prove import prove
from verifier.proof.refute import Refuter
from verifier.proof.solver import OutOfTime, clock


@dataclass(frozen=True)
class Candidate:
    """A condition: facts about sizes, bounds on elements, or one value of a choice."""

    text: str
    facts: tuple[Truth, ...] = ()
    bounds: tuple[Bound, ...] = ()
    choice: tuple[str, object] | None = None

    def admits(self, case: Case) -> bool:
        """The case is one of which the condition allows."""
        return self.choice is None or dict(case.choices).get(self.choice[0]) == self.choice[1]


@dataclass(frozen=True)
class Suggestion:
    """Conditions under which the rule is proved, with the seconds the search took."""

    conditions: tuple[Candidate, ...]
    seconds: float

    def __str__(self) -> str:
        return "holds if " + " and ".join(candidate.text for candidate in self.conditions)


def candidates(rule: type[Rule]) -> list[Candidate]:
    """Conditions worth trying, weaker kinds first: signs, orders, divisibility, oddness, equal sizes, sizes of 0 or 1, choices."""
    signature = rule.signature()
    integers = [s for v in signature.variables if isinstance(v, IntegerVariable) for s in v.symbols]
    sizes = [s for s in signature.symbols.values() if s not in integers]
    reals = [v.name for v in signature.variables if isinstance(v, RealVariable)]
    tensors = [v.name for v in signature.variables if isinstance(v, TensorVariable) and v.kind != "bool"]
    choices = [v for v in signature.variables if isinstance(v, ChoiceVariable)]
    return [
        *(Candidate(f"{s} ≥ 0", (at_least_zero(_dim(s)),)) for s in integers),
        *_signs([*reals, *tensors]),
        *_orders(reals),
        *(Candidate(f"{name} == {n}", bounds=(Bound("==", ((name, Fraction(1)),), Fraction(-n)),)) for n in (0, 1) for name in reals),
        *(Candidate(f"{s} ≥ 1", (at_least_zero(_dim(s) - 1),)) for s in [*integers, *sizes]),
        *(_divides(a, b) for a, b in itertools.permutations([*sizes, *integers], 2) if a not in integers),
        *(Candidate(f"{s} is odd", (equal(remainder(_dim(s), 2), 1),)) for s in [*sizes, *integers]),
        *(Candidate(f"{a} == {b}", (equal(_dim(a), _dim(b)),)) for a, b in itertools.combinations([*integers, *sizes], 2)),
        *(Candidate(f"{s} == {number}", (equal(_dim(s), number),)) for number in (1, 0) for s in integers),
        *(Candidate(f"{s} == 1", (equal(_dim(s), 1),)) for s in sizes),
        *(Candidate(f"{v.name} == {c!r}", choice=(v.name, c)) for v in choices for c in v.choices),
    ]


def _dim(symbol: Symbol) -> Expression:
    return Expression.of(symbol)


def _divides(a: Symbol, b: Symbol) -> Candidate:
    return Candidate(f"{a} % {b} == 0", (equal(remainder(_dim(a), _dim(b)), 0), at_least_zero(_dim(b) - 1)))


def _signs(names: Sequence[str]) -> Iterator[Candidate]:
    for name in names:
        one = ((name, Fraction(1)),)
        for text, bound in (("!= 0", Bound("!=", one)), (">= 0", Bound(">=", one)), ("> 0", Bound(">", one))):
            yield Candidate(f"{name} {text}", bounds=(bound,))


def _orders(names: Sequence[str]) -> Iterator[Candidate]:
    for low, high in itertools.permutations(names, 2):
        yield Candidate(f"{low} <= {high}", bounds=(Bound(">=", ((high, Fraction(1)), (low, Fraction(-1)))),))


def suggest(rule: type[Rule], seconds: float = 60.0, most: int = 2) -> Suggestion | None:
    """The weakest conjunction of at most `most` candidate conditions under which every case of the rule is proved, if one is found.

    A candidate that leaves no instance, or under which a counterexample is drawn, is passed over without a proof. Where the cases are
    proved without any (the rule is wrong in rounding, where integers wrap, for more dims), no condition of these kinds mends it.
    """
    begin, started = time.monotonic(), clock()
    traced = [trace_case(rule, case) for case in cases(rule)]
    known = [[b for condition in t.value_conditions for b in bounds_from(condition)] for t in traced]
    pool = candidates(rule)
    if _is_enough((), traced, known):
        return None
    for count in range(1, most + 1):
        for chosen in itertools.combinations(pool, count):
            if clock() - started > seconds:
                return None
            if _is_enough(chosen, traced, known):
                return Suggestion(chosen, time.monotonic() - begin)
    return None


def _is_enough(chosen: Sequence[Candidate], traced: Sequence[TracedCase], known: Sequence[list[Bound]]) -> bool:
    facts = [fact for candidate in chosen for fact in candidate.facts]
    bounds = [bound for candidate in chosen for bound in candidate.bounds]
    admitted = [(t, own) for t, own in zip(traced, known, strict=True) if all(candidate.admits(t.case) for candidate in chosen)]
    if not admitted or not all(_has_instance([*t.facts, *facts]) for t, _ in admitted):
        return False
    for t, own in admitted:
        if Refuter(t.pattern, t.replacement, [*t.facts, *facts], [*own, *bounds]).model(draws=6, tries=200) is not None:
            return False
    return all(
        prove(t.pattern, t.replacement, [*t.facts, *facts], [*own, *bounds], t.replacement_requires, timeout=3.0).proved
        for t, own in admitted
    )


def _has_instance(facts: Sequence[Truth]) -> bool:
    """The facts are not known to contradict one another."""
    try:
        _, remaining = solved(facts)
        return not Knowledge([fact for fact in remaining if isinstance(fact, Formula)], seconds=2.0).solver.contradictory(())
    except (Contradiction, OutOfTime):
        return False
