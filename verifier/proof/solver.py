"""Z3 on statements about integers: quantifier-free, with a limit per question; an unanswered question is a no."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from operators.expressions import Atom, Expression, Extreme, Quotient, Symbol, plain
from operators.formulas import Comparison, Formula, Junction, Negation, Truth, at_least_zero, negate
from verifier.steps import limit
from verifier.verdict import OUT_OF_TIME


def clock() -> float:
    """Seconds that this thread has computed: budgets of proofs are counted in them, so that a busy machine decides as an idle one."""
    return time.thread_time()


class OutOfTime(TimeoutError):
    """The proof used up its time; what was asked stays undecided."""


class Translation:
    """Integer expressions and statements as Z3 terms.

    In linear mode a product of unknowns is one unknown of its own, about which little is known: what is unsatisfiable
    then is unsatisfiable.
    """

    def __init__(self, linear: bool, lower: Mapping[Symbol, int]) -> None:
        import z3

        self.z3 = z3
        self.linear, self.lower = linear, lower
        self.unknowns: dict[str, Any] = {}
        self.constraints: list[Any] = []
        self.abstracted = False

    def unknown(self, name: str) -> Any:
        """The Z3 integer of this name."""
        found = self.unknowns.get(name)
        if found is None:
            found = self.unknowns[name] = self.z3.Int(name)
        return found

    def expression(self, value: Any) -> Any:
        """An integer expression."""
        if isinstance(value, int):
            return self.z3.IntVal(value)
        parts = []
        for monomial, coefficient in value.terms.items():
            product = self.monomial(monomial)
            if product is None:
                parts.append(self.z3.IntVal(coefficient))
            else:
                parts.append(product if coefficient == 1 else coefficient * product)
        return parts[0] if len(parts) == 1 else self.z3.Sum(parts) if parts else self.z3.IntVal(0)

    def monomial(self, monomial: tuple[Atom, ...]) -> Any:
        """A product of unknowns; None for the empty product."""
        if not monomial:
            return None
        if not self.linear or len(monomial) == 1:
            result = self.atom(monomial[0])
            for atom in monomial[1:]:
                result = result * self.atom(atom)
            return result
        name = "*".join(atom.key for atom in monomial)
        known = name in self.unknowns
        result = self.unknown(name)
        self.abstracted = True
        if not known and all(isinstance(atom, Symbol) and self.lower.get(atom, -1) >= 0 for atom in monomial):
            self.constraints.append(result >= 0)
            for position, atom in enumerate(monomial):
                rest = monomial[:position] + monomial[position + 1 :]
                if all(self.lower[other] >= 1 for other in rest if isinstance(other, Symbol)):
                    self.constraints.append(result >= self.atom(atom))
        return result

    def atom(self, atom: Atom) -> Any:
        """One unknown, with what defines it where it is a function of others."""
        known = atom.key in self.unknowns
        result = self.unknown(atom.key)
        if known:
            return result
        if isinstance(atom, Symbol) and atom in self.lower:
            self.constraints.append(result >= self.lower[atom])
        elif isinstance(atom, Quotient):
            whole = atom.denominator * Expression.of(atom)
            rest = atom.numerator - whole
            exact = self.z3.And(self.formula(at_least_zero(rest)), self.formula(at_least_zero(atom.denominator - rest - 1)))
            self.constraints.append(self.z3.Implies(self.expression(atom.denominator) >= 1, exact))
        elif isinstance(atom, Extreme):
            left, right = self.expression(atom.left), self.expression(atom.right)
            self.constraints.append(self.z3.Or(result == left, result == right))
            bounds = (result >= left, result >= right) if atom.name == "max" else (result <= left, result <= right)
            self.constraints.extend(bounds)
        return result

    def formula(self, formula: Truth) -> Any:
        """A statement."""
        if isinstance(formula, bool):
            return self.z3.BoolVal(formula)
        if isinstance(formula, Comparison):
            value = self.expression(plain(formula.expression))
            return value == 0 if formula.relation == "==" else value >= 0
        if isinstance(formula, Negation):
            return self.z3.Not(self.formula(formula.formula))
        if isinstance(formula, Junction):
            join = self.z3.And if formula.connective == "and" else self.z3.Or
            return join([self.formula(part) for part in formula.formulas])
        raise TypeError(f"not a statement about sizes: {formula!r}")


class Solver:
    """Answers whether statements follow from the facts; answers are kept. `deadline` is of `clock`."""

    def __init__(self, facts: Iterable[Formula], lower: Mapping[Symbol, int], deadline: float, milliseconds: int = 1500) -> None:
        self.facts = tuple(facts)
        self.lower = lower
        self.deadline = deadline
        self.milliseconds = milliseconds
        self.queries = 0
        self._answers: dict[tuple[frozenset[Truth], Truth, bool], bool] = {}
        self._known: dict[bool, tuple[tuple[int, int], Translation, list[Any]]] = {}

    def proves(self, goal: Truth, assumptions: Iterable[Truth] = (), linear: bool = False) -> bool:
        """The goal follows from the facts and the assumptions, for all integers; with `linear`, by linear arithmetic alone."""
        if isinstance(goal, bool) and goal:
            return True
        given = frozenset(assumptions)
        if goal in given:
            return True
        question = (given, goal, linear)
        if question not in self._answers:
            asked = lambda t: [t.formula(f) for f in given] + [t.formula(negate(goal))]  # noqa: E731
            self._answers[question] = self.unsatisfiable(asked, linear)
        return self._answers[question]

    def contradictory(self, assumptions: Iterable[Truth]) -> bool:
        """The assumptions cannot hold together under the facts."""
        return self.proves(False, assumptions)

    def unsatisfiable(self, statements: Callable[[Translation], list[Any]], linear_only: bool = False) -> bool:
        """No integers satisfy the facts and the statements, which are built on the given translation."""
        holds, abstracted = self._check(statements, True)
        if holds or linear_only or not abstracted:
            return holds
        return self._check(statements, False)[0]

    def _check(self, statements: Callable[[Translation], list[Any]], linear: bool) -> tuple[bool, bool]:
        left = int((self.deadline - clock()) * 1000)
        if left <= 0:
            raise OutOfTime(f"the proof {OUT_OF_TIME}")
        translation, facts = self._translated(linear)
        asked = statements(translation)
        solver = translation.z3.Solver()
        limit(solver, self.milliseconds, at_most=left)
        solver.add(*translation.constraints, *facts, *asked)
        self.queries += 1
        return bool(solver.check() == translation.z3.unsat), translation.abstracted

    def _translated(self, linear: bool) -> tuple[Translation, list[Any]]:
        """A translation of its own that has the facts already, and the facts on it."""
        stamp = len(self.lower), sum(self.lower.values())  # least values only grow
        if linear not in self._known or self._known[linear][0] != stamp:
            first = Translation(linear, self.lower)
            self._known[linear] = stamp, first, [first.formula(fact) for fact in self.facts]
        _, kept, facts = self._known[linear]
        translation = Translation(linear, self.lower)
        translation.unknowns, translation.constraints = dict(kept.unknowns), list(kept.constraints)
        translation.abstracted = kept.abstracted
        return translation, facts


__all__ = ["OutOfTime", "Solver", "Translation", "clock"]
