"""Questions to Z3 about single elements: whether any satisfy statements on floating-point numbers, bit vectors or machine integers."""

from __future__ import annotations

from typing import Any

from verifier.steps import limit
from verifier.wrapped_integers import NotTranslated, on_whole_numbers

_ANSWERED: dict[str, bool] = {}
"""Questions by their text: the cases of one rule often ask the same."""


def unsatisfiable(asked: list[Any], with_functions: bool, milliseconds: int) -> bool:
    """No elements satisfy the statements; several of Z3's ways are tried."""
    import z3

    question = "\n".join(statement.sexpr() for statement in asked)
    if question not in _ANSWERED:
        blasting = z3.Then("simplify", "fpa2bv", "simplify", "solve-eqs", "bit-blast", "sat")
        solvers = [z3.Solver()] if with_functions else [blasting.solver(), z3.SolverFor("QF_FP")]
        answer = False
        for solver in solvers:
            limit(solver, milliseconds)
            solver.add(*asked)
            result = solver.check()
            answer = result == z3.unsat
            if result != z3.unknown:
                break
        else:
            answer = not with_functions and _no_whole_numbers(asked, milliseconds)
        _ANSWERED[question] = answer
    return _ANSWERED[question]


def _no_whole_numbers(asked: list[Any], milliseconds: int) -> bool:
    """No machine integers satisfy the statements, by Z3's integers."""
    import z3

    try:
        statements = on_whole_numbers(asked)
    except NotTranslated:
        return False
    # In a context of their own, as what was asked before changes the order in which Z3 sees terms, and with it whether it finds the answer.
    context = z3.Context()
    solver = z3.Solver(ctx=context)
    limit(solver, milliseconds)
    solver.add(*(statement.translate(context) for statement in statements))
    return bool(solver.check() == z3.unsat)


__all__ = ["unsatisfiable"]
