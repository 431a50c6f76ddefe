"""Conditions on elements as statements for Z3: one real unknown for each tensor or real attribute, one integer for each size."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from rewrites.rule import Requires
from verifier.steps import limit


class NotAStatement(TypeError):
    """A condition that says more than comparisons of elements."""


class Element:
    """An element in a condition: arithmetic and comparisons make statements."""

    def __init__(self, term: Any) -> None:
        self.term = term

    def _with(self, other: Any, operation: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, Element):
            other = other.term
        if not isinstance(other, (int, float)) and not hasattr(other, "sexpr"):
            raise NotAStatement(str(other))
        if isinstance(other, float) and not abs(other) < float("inf"):
            raise NotAStatement(str(other))
        import z3

        if isinstance(self.term, z3.BitVecRef) and (
            isinstance(other, float)
            or (isinstance(other, int) and not -(2 ** (self.term.size() - 1)) <= other < 2 ** (self.term.size() - 1))
        ):
            raise NotAStatement(f"{other} among {self.term.size()}-bit integers")
        return operation(self.term, other)

    def __add__(self, other: Any) -> Element:
        return Element(self._with(other, lambda a, b: a + b))

    def __radd__(self, other: Any) -> Element:
        return Element(self._with(other, lambda a, b: b + a))

    def __sub__(self, other: Any) -> Element:
        return Element(self._with(other, lambda a, b: a - b))

    def __rsub__(self, other: Any) -> Element:
        return Element(self._with(other, lambda a, b: b - a))

    def __mul__(self, other: Any) -> Element:
        return Element(self._with(other, lambda a, b: a * b))

    __rmul__ = __mul__

    def __neg__(self) -> Element:
        return Element(-self.term)

    def __abs__(self) -> Element:
        import z3

        return Element(z3.fpAbs(self.term) if isinstance(self.term, z3.FPRef) else z3.If(self.term >= 0, self.term, -self.term))

    abs = __abs__

    def __lt__(self, other: Any) -> Statement:
        return Statement(self._with(other, lambda a, b: a < b))

    def __le__(self, other: Any) -> Statement:
        return Statement(self._with(other, lambda a, b: a <= b))

    def __gt__(self, other: Any) -> Statement:
        return Statement(self._with(other, lambda a, b: a > b))

    def __ge__(self, other: Any) -> Statement:
        return Statement(self._with(other, lambda a, b: a >= b))

    def __eq__(self, other: object) -> Statement:  # type: ignore[override]
        return Statement(self._with(other, _equal))

    def __ne__(self, other: object) -> Statement:  # type: ignore[override]
        import z3

        return Statement(z3.Not(self._with(other, _equal)))

    __hash__ = object.__hash__


def _equal(a: Any, b: Any) -> Any:
    import z3

    return z3.fpEQ(a, b) if isinstance(a, z3.FPRef) else a == b


class Statement:
    """The truth of a comparison; may be joined, not asked."""

    def __init__(self, term: Any) -> None:
        self.term = term

    def all(self) -> Statement:
        return self

    def __and__(self, other: Statement) -> Statement:
        import z3

        return Statement(z3.And(self.term, other.term))

    def __or__(self, other: Statement) -> Statement:
        import z3

        return Statement(z3.Or(self.term, other.term))

    def __invert__(self) -> Statement:
        import z3

        return Statement(z3.Not(self.term))

    def __bool__(self) -> bool:
        raise NotAStatement("asked whether it is true")


def statement(condition: Requires, whole: Collection[str] = ()) -> Any:
    """The condition as a Z3 term over reals (integers for the names in `whole`); None where it says more than comparisons of elements."""
    import z3

    return statement_on(condition, {name: (z3.Int if name in whole else z3.Real)(name) for name in condition.names})


def statement_on(condition: Requires, terms: Mapping[str, Any]) -> Any:
    """The condition on the given Z3 terms by name; None where it says more than comparisons of elements."""
    import z3

    try:
        answer = condition.predicate(*(Element(terms[name]) for name in condition.names))
    except (NotAStatement, AttributeError, TypeError, KeyError, z3.Z3Exception):
        return None
    if isinstance(answer, bool):
        return z3.BoolVal(answer)
    return answer.term if isinstance(answer, Statement) else None


def impossible(conditions: Sequence[Requires], milliseconds: int = 2000) -> bool:
    """Z3 shows that no element meets all of the conditions (those that it understands)."""
    import z3

    solver = z3.Solver()
    limit(solver, milliseconds)
    solver.add(*(term for term in map(statement, conditions) if term is not None))
    return bool(solver.check() == z3.unsat)


def models(
    conditions: Sequence[Requires], whole: Collection[str], ranges: Mapping[str, tuple[int, int]], source: random.Random, count: int = 16
) -> list[dict[str, float]]:
    """Joint values of the conditions' names that meet all conditions Z3 understands, pushed apart by preferring drawn values."""
    import z3

    terms = [term for condition in conditions if (term := statement(condition, whole)) is not None]
    names = sorted({name for condition in conditions for name in condition.names})
    unknowns = {name: (z3.Int if name in whole else z3.Real)(name) for name in names}
    solver = z3.Solver()
    limit(solver, 300)
    solver.add(
        *terms,
        *(bound for name, (low, high) in ranges.items() if name in unknowns for bound in (unknowns[name] >= low, unknowns[name] <= high)),
    )
    found: list[dict[str, float]] = []
    for _ in range(count):
        if not terms or solver.check() != z3.sat:
            break
        depth = solver.num_scopes()
        for name in source.sample(names, len(names)):
            solver.push()
            near = source.choice((0, 1, -1, 2, 3, 5, -7, 10, 31, 64, 100, 1000))
            solver.add(unknowns[name] >= near, unknowns[name] <= near + source.choice((0, 1, 8)))
            if solver.check() != z3.sat:
                solver.pop()
        if solver.check() == z3.sat:
            model = solver.model()
            found.append({name: _number(model.eval(unknown, model_completion=True)) for name, unknown in unknowns.items()})
        while solver.num_scopes() > depth:
            solver.pop()
    return found


def _number(value: Any) -> float:
    import z3

    if z3.is_int_value(value):
        return int(value.as_long())
    if z3.is_rational_value(value):
        return float(value.as_fraction())
    return float(value.approx(12).as_fraction())


__all__ = ["Element", "Statement", "impossible", "models", "statement", "statement_on"]
