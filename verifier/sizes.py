"""Sizes and integer attributes that satisfy a rule's conditions: drawn and repaired, or found by Z3 where drawing rarely succeeds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from operators.expressions import Dim, Expression, Extreme, Quotient, Symbol
from operators.formulas import Comparison, Formula, Junction, Negation, Truth, formula_symbols
from verifier.steps import limit

Assignment = dict[str, int]

DIMS = (2, 1, 3, 2, 0, 1, 5, 4, 3, 7, 6, 8, 2, 3, 13, 17)
"""Sizes that are drawn: one, two, primes, composites, nothing."""
ATTRIBUTES = (1, 2, 0, 1, 3, 2, -1, 4, 5, -2)
"""Integer attributes that are drawn, a little past what is usual."""


def code_of(value: Dim) -> str:
    """A Python expression for the dim, with the values of its symbols in `v`."""
    if isinstance(value, int):
        return f"({value})"
    terms = []
    for monomial, coefficient in value.terms.items():
        terms.append("*".join([f"({coefficient})", *(_atom_code(atom) for atom in monomial)]))
    return "(" + (" + ".join(terms) or "0") + ")"


def _atom_code(atom: Any) -> str:
    if isinstance(atom, Symbol):
        return f"v[{atom.name!r}]"
    if isinstance(atom, Quotient):
        return f"({code_of(atom.numerator)} // {code_of(atom.denominator)})"
    if isinstance(atom, Extreme):
        return f"{atom.name}({code_of(atom.left)}, {code_of(atom.right)})"
    raise TypeError(f"not an atom of sizes: {atom}")


def formula_code(formula: Truth) -> str:
    """A Python expression for the statement, with the values of its symbols in `v`."""
    if isinstance(formula, bool):
        return str(formula)
    if isinstance(formula, Comparison):
        return f"({code_of(formula.expression)} {formula.relation} 0)"
    if isinstance(formula, Negation):
        return f"(not {formula_code(formula.formula)})"
    if isinstance(formula, Junction):
        return "(" + f" {formula.connective} ".join(map(formula_code, formula.formulas)) + ")"
    raise TypeError(f"not a statement about sizes: {formula!r}")


def evaluator(formula: Truth) -> Callable[[Mapping[str, int]], bool]:
    """The statement as a function of the values of its symbols; false where it divides by zero."""
    compiled = eval(f"lambda v: {formula_code(formula)}", {"max": max, "min": min})

    def holds(values: Mapping[str, int]) -> bool:
        try:
            return bool(compiled(values))
        except ZeroDivisionError:
            return False

    return holds


def flattened(facts: Iterable[Truth]) -> list[Truth]:
    """The facts with conjunctions taken apart."""
    result: list[Truth] = []
    for fact in facts:
        if isinstance(fact, Junction) and fact.connective == "and":
            result += flattened(fact.formulas)
        else:
            result.append(fact)
    return result


class SizeModel:
    """The assignments of integers to `names` that satisfy `facts`; `attributes` are the names that are no dims.

    `landmarks` are numbers that the rule mentions: dims are drawn around them as well.
    """

    def __init__(self, names: Sequence[str], attributes: Iterable[str], facts: Iterable[Truth], landmarks: Iterable[int] = ()) -> None:
        self.dims = DIMS + tuple(number + step for number in landmarks for step in (0, 1, -1))
        self.facts = flattened(facts)
        self.limits = _limits(self.facts)
        mentioned = {symbol.name for fact in self.facts for symbol in formula_symbols(fact)}
        self.names = list(dict.fromkeys([*names, *sorted(mentioned)]))
        self.attributes = set(attributes)
        self._checks = [evaluator(fact) for fact in self.facts]
        self._repairs = _repairs(self.facts)

    def admits(self, values: Mapping[str, int]) -> bool:
        """The assignment satisfies every fact."""
        return all(check(values) for check in self._checks)

    def draw(self, source: random.Random) -> Assignment | None:
        """One assignment, drawn and repaired along the equalities; None when it does not satisfy the facts."""
        few = source.random() < 0.25
        pick = source.choice((1, 2, 3)) if few else None
        values: Assignment = {}
        for name in self.names:
            drawn = source.choice(self._drawn(name))
            values[name] = pick if pick is not None and name not in self.attributes else drawn
        for name, solve in self._repairs:
            try:
                solved = solve(values)
            except ZeroDivisionError:
                return None
            if solved is not None:
                values[name] = solved
        return values if self.admits(values) else None

    def _drawn(self, name: str) -> tuple[int, ...]:
        """What is drawn for a name; for an attribute also where the conditions end."""
        return ATTRIBUTES + self.limits.get(name, ()) if name in self.attributes else self.dims

    def pool(self, seed: int, count: int = 24, tries: int = 400) -> list[Assignment]:
        """Up to `count` different assignments, the smallest first; empty when none was found."""
        source = random.Random(seed)
        found: dict[tuple[int, ...], Assignment] = {}
        for _ in range(tries):
            values = self.draw(source)
            if values is not None:
                found.setdefault(tuple(values.values()), values)
            if len(found) >= count:
                break
        if len(found) < count // 4:
            for values in self.solved(source, count // 2):
                found.setdefault(tuple(values.values()), values)
        return sorted(found.values(), key=self.weight)

    def weight(self, values: Mapping[str, int]) -> tuple[int, ...]:
        """How complicated an assignment is: empty dims last, then by magnitude."""
        empty = sum(1 for name, value in values.items() if value == 0 and name not in self.attributes)
        return (empty, sum(map(abs, values.values())), *values.values())

    def solved(self, source: random.Random, count: int, also: Iterable[Truth] = ()) -> list[Assignment]:
        """Assignments from Z3's models, pushed apart by preferring drawn values; `also` are further facts."""
        import z3

        from verifier.proof.solver import Translation

        extra = list(also)
        checks = [evaluator(fact) for fact in extra]
        found: list[Assignment] = []
        for bound in (8, 64, 4096):
            solver = z3.Solver()
            limit(solver, 400)
            solver.set("random_seed", source.randrange(1 << 16))
            translation = Translation(linear=False, lower={})
            asked = [translation.formula(fact) for fact in [*self.facts, *extra]]
            unknowns = {name: translation.unknown(name) for name in self.names}
            solver.add(*translation.constraints, *asked)
            for name, unknown in unknowns.items():
                solver.add(unknown <= bound, unknown >= (-bound if name in self.attributes else 0))
            if solver.check() != z3.sat:
                continue
            for _ in range(count):
                solver.push()
                for name in source.sample(self.names, len(self.names)):
                    solver.push()
                    solver.add(unknowns[name] == source.choice(self._drawn(name)))
                    if solver.check() != z3.sat:
                        solver.pop()
                if solver.check() == z3.sat:
                    model = solver.model()
                    values = {name: model.eval(unknown, model_completion=True).as_long() for name, unknown in unknowns.items()}
                    if self.admits(values) and all(check(values) for check in checks):
                        found.append(values)
                while solver.num_scopes():
                    solver.pop()
            if found:
                break
        return found

    def impossible(self, milliseconds: int = 2000) -> bool:
        """Z3 shows that no integers satisfy the facts."""
        import z3

        from verifier.proof.solver import Translation

        solver = z3.Solver()
        limit(solver, milliseconds)
        translation = Translation(linear=False, lower={})
        asked = [translation.formula(fact) for fact in self.facts]
        solver.add(*translation.constraints, *asked)
        return bool(solver.check() == z3.unsat)

    def smaller(self, values: Assignment) -> Iterable[Assignment]:
        """Admissible assignments a step smaller, one name lowered at a time (repaired where an equality demands it)."""
        for name in self.names:
            for lower in _lower(values[name], name in self.attributes):
                changed = values | {name: lower}
                if self.admits(changed):
                    yield changed
                    continue
                for other, solve in self._repairs:
                    if other == name:
                        continue
                    try:
                        solved = solve(changed)
                    except ZeroDivisionError:
                        continue
                    repaired = changed if solved is None else changed | {other: solved}
                    if repaired != changed and self.admits(repaired) and self.weight(repaired) < self.weight(values):
                        yield repaired


def _lower(value: int, attribute: bool) -> list[int]:
    if not attribute:
        return [c for c in dict.fromkeys((1, 2, value // 2, value - 1)) if 1 <= c < value] if value else [1, 2]
    candidates = [0, 1, value // 2, value - 1] if value > 0 else [1, 0, value + 1] if value < 0 else []
    return [c for c in dict.fromkeys(candidates) if (abs(c), c < 0) < (abs(value), value < 0)]


def _limits(facts: Iterable[Truth]) -> dict[str, tuple[int, ...]]:
    """For each symbol that a fact bounds by a small number, that number."""
    found: dict[str, tuple[int, ...]] = {}
    for fact in facts:
        if not isinstance(fact, Comparison) or fact.relation != ">=":
            continue
        terms = dict(fact.expression.terms)
        number = terms.pop((), 0)
        if len(terms) != 1:
            continue
        ((monomial, coefficient),) = terms.items()
        if len(monomial) == 1 and isinstance(monomial[0], Symbol):
            limit = -(number // coefficient) if coefficient > 0 else number // -coefficient
            if 5 < abs(limit) <= _LARGEST_LIMIT:
                found[monomial[0].name] = (*found.get(monomial[0].name, ()), limit)
    return found


_LARGEST_LIMIT = 64
"""Attributes are drawn where conditions end up to here: one more bit than a word has, not windows of a thousand positions."""


def _repairs(facts: Iterable[Truth]) -> list[tuple[str, Callable[[Mapping[str, int]], int | None]]]:
    """For each equality a symbol that it fixes, with the function that computes it from the others."""
    repairs = []
    for fact in facts:
        if not isinstance(fact, Comparison) or fact.relation != "==":
            continue
        expression = fact.expression
        for monomial, coefficient in expression.terms.items():
            if len(monomial) != 1 or not isinstance(monomial[0], Symbol):
                continue
            symbol = monomial[0]
            rest = Expression({m: c for m, c in expression.terms.items() if m != monomial}).collapse()
            if isinstance(rest, Expression) and symbol in rest.symbols:
                continue
            repairs.append((symbol.name, _solution(rest, coefficient)))
            break
    return repairs


def _solution(rest: Dim, coefficient: int) -> Callable[[Mapping[str, int]], int | None]:
    compiled = eval(f"lambda v: {code_of(rest)}", {"max": max, "min": min})

    def solve(values: Mapping[str, int]) -> int | None:
        value = compiled(values)
        return None if value % coefficient else -value // coefficient

    return solve


def negated_any(goals: Sequence[Truth]) -> Formula | bool:
    """At least one of the goals fails."""
    from operators.formulas import any_of, negate

    return any_of(*map(negate, goals))


__all__ = ["ATTRIBUTES", "DIMS", "Assignment", "SizeModel", "evaluator", "flattened", "negated_any"]
