"""One operator against torch's own kernel: meaning, dtype, shape, gradient, refusals, symbolic sizes, emission, and the passes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from graphs.emit import to_module
from graphs.evaluate import evaluate
from graphs.graph import Graph
from graphs.passes import simplify
from operators.comparison import Where
from operators.operator import OPERATORS, TensorType, kind_of
from operators.samples.agreement import ROWS, Disagreement, as_tuple, cases, check_gradient, check_meaning, check_refusal
from operators.samples.drawing import Case, type_of
from operators.samples.symbolic import NEEDS_NUMBERS, check_symbolic
from rewright.fuzzing.comparing import Different, Reference, must_agree, must_be_equal
from rewright.fuzzing.finding import Problem, problem_of

Drawn = tuple[Case, int, int, int, bool, list[list[bool]]]


GRAPHS_EVERY = 4
"""Of so many examples one also goes through emission and the passes, which take most of the time and depend less on the values."""


def variety(name: str) -> int:
    """How many times the examples of a plain function the operator needs: it grows with attributes and optional operands."""
    kind = OPERATORS[name]
    return 1 + (len(fields(kind)) + len(kind.absent)) // 2  # type: ignore[arg-type]


def names() -> list[str]:
    """The operators that have sample calls."""
    return sorted(ROWS)


def examples_of(name: str) -> SearchStrategy[Drawn]:
    """A case of the operator, and what decides the changes made to it."""
    named = st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=3, max_size=3)
    return st.tuples(cases(name), st.integers(0, 9999), st.integers(0, 3), st.integers(0, 3), st.booleans(), named)


def check(name: str, drawn: Drawn) -> Problem | None:
    """The first way in which the operator and torch disagree on the case."""
    case, seed, which, axis, change, named = drawn
    row = ROWS[name]
    parts = ("meaning", "gradient", "refusal", "symbolic", "emission", "passes")
    for part in parts if seed % GRAPHS_EVERY == GRAPHS_EVERY - 1 else parts[:4]:
        try:
            if part == "meaning":
                check_meaning(row, case)
            elif part == "gradient" and row.gradient:
                check_gradient(row, case, seed)
            elif part == "refusal":
                check_refusal(case, which, axis, change)
            elif part == "symbolic" and name not in NEEDS_NUMBERS:
                check_symbolic(case, named, which, axis, change)
            elif part == "emission" and not row.random:
                check_emission(case)
            elif part == "passes" and not row.random and (row.exact or _is_wide(case)):
                check_passes(case)
        except NotImplementedError:
            continue  # no gradient is declared for this case
        except (Disagreement, Different) as error:
            return Problem(f"{name}: {part}", f"{name}: {part}: {error}", script_of(name, drawn))
        except Exception as error:  # whatever the declaration raises on a case that torch takes is a fault of it
            found = problem_of(error, f"{name}: {part}: {case}", script_of(name, drawn))
            return Problem(f"{name}: {part}: {found.cause}", found.text, found.script)
    return None


def check_emission(case: Case) -> None:
    """A graph of this one operator gives what the operator gives, evaluated and as an emitted module.

    Raises: Different.
    """
    graph, tensors = graph_of(case)
    if graph is None:
        return
    expected = as_tuple(case.operator.run(*case.operands))
    must_be_equal("evaluated graph", expected, tuple(evaluate(graph, tensors)))
    emitted = to_module(graph)(*tensors)
    must_be_equal("emitted module", expected, as_tuple(emitted))


def check_passes(case: Case) -> None:
    """The graph simplified, over inputs and over constants, what it gives read by something that depends on a further input.

    Raises: Different.
    """
    for constant in (False, True):
        graph, tensors = graph_of(case, constant)
        if graph is None:
            return
        flag = graph.input("flag", TensorType((), "bool"))
        tensors.append(torch.tensor(True))
        graph.outputs = [graph.add(Where(), flag, value, value) for value in graph.outputs]
        before = Reference(graph.copy(), tensors)
        expected = before.values()
        simplify(graph)
        found = list(evaluate(graph, tensors))
        if constant:  # a kernel may round otherwise for operands that lie elsewhere in memory
            must_agree("folded constants", before, expected, found)
        else:
            must_be_equal("simplified graph", tuple(expected), tuple(found))


def graph_of(case: Case, constant: bool = False) -> tuple[Graph | None, list[torch.Tensor]]:
    """A graph of the operator over its tensors, as inputs or as constants; None where it has none, or results that are no tensors."""
    graph = Graph()
    values: list[Any] = []
    tensors = []
    for position, operand in enumerate(case.operands):
        if isinstance(operand, torch.Tensor):
            tensors.append(operand)
            values.append(graph.constant(f"c{position}", operand) if constant else graph.input(f"x{position}", type_of(operand)))
        else:
            values.append(None if operand is None else graph.scalar(operand))
    if not tensors:
        return None, tensors
    first = graph.add(case.operator, *values)
    graph.outputs = [first._replace(output=output) for output in range(len(graph.types(first.node)))]
    return (None if any(graph.type(value).weak for value in graph.outputs) else graph), [] if constant else tensors


def _is_wide(case: Case) -> bool:
    """Constants are folded in float64: what is in float64 anyhow comes out bit for bit."""
    types = [type_of(operand) for operand in case.operands if isinstance(operand, torch.Tensor)]
    types += case.operator.outputs(*(None if operand is None else type_of(operand) for operand in case.operands))
    return {type.dtype for type in types if kind_of(type.dtype) in ("float", "complex")} <= {"float64"}


def script_of(name: str, drawn: Drawn) -> str:
    """Code that checks the same case again; exit status 1 when it still fails."""
    case, *rest = drawn
    operands = [
        f"torch.tensor({o.tolist()}, dtype={o.dtype}).reshape({list(o.shape)})" if isinstance(o, torch.Tensor) else repr(o)
        for o in case.operands
    ]
    kind = type(case.operator)
    fields = ", ".join(f"{field}={value!r}" for field, value in case.operator.attributes.items())
    return "\n".join(
        [
            f'"""{name}: its declaration against torch\'s own kernel, on one case."""',
            "",
            "import sys",
            "",
            "import torch",
            "",
            f"from {kind.__module__} import {kind.__name__}",
            "from operators.samples.drawing import Case",
            "from rewright.fuzzing.operators import check",
            "",
            "inf, nan = float('inf'), float('nan')",
            f"operator = {kind.__name__}({fields})",
            f"operands = [{', '.join(operands)}]",
            f"problem = check({name!r}, (Case(operator, operands), {', '.join(map(repr, rest))}))",
            "print(problem.text if problem else 'no difference')",
            "sys.exit(problem is not None)",
            "",
        ]
    )


__all__ = ["check", "check_emission", "check_passes", "examples_of", "names", "script_of", "variety"]
