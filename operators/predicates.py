"""Python predicates over symbolic sizes as the formulas they compute, and formulas with sizes put in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from operators.expressions import Atom, Dim, Expression, substitute
from operators.formulas import (
    Comparison,
    Formula,
    Junction,
    Negation,
    Truth,
    UndecidedError,
    all_of,
    any_of,
    at_least_zero,
    decisions,
    equal,
    join,
    negate,
)  # fmt: skip


def substitute_formula(formula: Truth, values: Mapping[Atom, Dim]) -> Truth:
    """The statement with atoms replaced; a plain bool once it is decided."""
    if isinstance(formula, Comparison):
        value = substitute(formula.expression, values)
        return equal(value, 0) if formula.relation == "==" else at_least_zero(value)
    if isinstance(formula, Negation):
        return negate(substitute_formula(formula.formula, values))
    if isinstance(formula, Junction):
        return join(formula.connective, tuple(substitute_formula(part, values) for part in formula.formulas))
    return formula


def statement_of(predicate: Callable[[], Any], most_paths: int = 256) -> Truth:
    """The formula a Python predicate over symbolic values computes, `and`, `or`, `not`, `in` and `if` included.

    Each time Python asks whether a formula is true, both answers are followed; the statement is the disjunction over
    the paths of (the answers on the path and the result).
    Raises: UndecidedError when there are more than `most_paths` paths.
    """
    pending: list[list[bool]] = [[]]
    alternatives: list[Truth] = []
    explored = 0
    while pending:
        plan = pending.pop()
        explored += 1
        if explored > most_paths:
            raise UndecidedError(f"the condition takes more than {most_paths} paths")
        taken: list[tuple[Formula, bool]] = []

        def decide(formula: Formula, plan: list[bool] = plan, taken: list[tuple[Formula, bool]] = taken) -> bool:
            for known, answer in taken:
                if known == formula:
                    return answer
            answer = plan[len(taken)] if len(taken) < len(plan) else True
            taken.append((formula, answer))
            return answer

        decisions.append(decide)
        try:
            result = predicate()
        finally:
            decisions.pop()
        if isinstance(result, Expression):
            result = negate(equal(result, 0))
        elif not isinstance(result, Formula):
            result = bool(result)
        for known, answer in taken:
            if result == known:  # `a and b` returns the very statement that was found false
                result = answer
        for position in range(len(plan), len(taken)):
            pending.append([answer for _, answer in taken[:position]] + [False])
        alternatives.append(all_of(*(f if answer else negate(f) for f, answer in taken), result))
    return any_of(*alternatives)
