"""Whether a rule is well formed: its cases, traced sides, the agreement of shapes and dtypes for all sizes by Z3, triviality."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch

from graphs.graph import Graph, Value
from operators.binding import torch_aliases
from operators.formulas import Formula, Truth, equal
from operators.operator import Effect, Operator
from operators.sources import Constant, Input, Scalar
from rewrites.cases import TracedCase
from rewrites.rule import Rule
from verifier.instances import Ground
from verifier.proof.solver import OutOfTime, Solver, clock
from verifier.sizes import Assignment, negated_any
from verifier.verdict import OUT_OF_TIME


@dataclass
class Shapes:
    """What Z3 says of one case: `agreed` for all sizes, or what is open, with sizes at which it may fail."""

    agreed: bool = True
    problem: str = ""
    models: list[Assignment] = field(default_factory=list)


def agreement(ground: Ground, deadline: float) -> Shapes:
    """Whether the outputs of a traced case agree in shape and dtype, and the replacement's operators take their operands, for all sizes."""
    traced = ground.trace
    assert isinstance(traced, TracedCase)
    left = [traced.pattern.type(value) for value in traced.pattern.outputs]
    right = [traced.replacement.type(value) for value in traced.replacement.outputs]
    if len(left) != len(right):
        return Shapes(False, f"the pattern has {len(left)} outputs, the replacement {len(right)}")
    goals: list[tuple[Truth, str]] = [(goal, f"the replacement requires {goal}") for goal in traced.replacement_requires]
    for position, (a, b) in enumerate(zip(left, right, strict=True)):
        if a.dtype != b.dtype:
            return Shapes(False, f"output {position} is {a.dtype} by the pattern, {b.dtype} by the replacement")
        if len(a.shape) != len(b.shape):
            return Shapes(False, f"output {position} has {len(a.shape)} axes by the pattern, {len(b.shape)} by the replacement")
        goals += [
            (equal(m, n), f"output {position}, axis {axis}: {m} by the pattern, {n} by the replacement")
            for axis, (m, n) in enumerate(zip(a.shape, b.shape, strict=True))
        ]
    return _proved(ground, goals, traced.facts, deadline)


def _proved(ground: Ground, goals: Sequence[tuple[Truth, str]], facts: Sequence[Formula], deadline: float) -> Shapes:
    solver = Solver(facts, {}, clock() + deadline - time.monotonic())
    open_goals: list[tuple[Truth, str]] = []
    try:
        open_goals = [(goal, text) for goal, text in goals if goal is not True and not solver.proves(goal)]
    except OutOfTime:
        return Shapes(False, f"Z3 {OUT_OF_TIME} on the shapes")
    if not open_goals:
        return Shapes()
    import random

    negated = negated_any([goal for goal, _ in open_goals])
    models = ground.model.solved(random.Random(ground.seed), 3, also=[negated])
    return Shapes(False, f"not for all sizes: {open_goals[0][1]}", models)


def is_trivial(traced: TracedCase) -> bool:
    """Both sides are one graph, wherever torch takes the pattern, and are written alike.

    Different calls for one graph (`movedim` for `permute`, axis −1 for 2) are a rule like any other, whose proof is short.
    """
    forms: list[list[str]] = []
    same = same_code(traced.rule)
    if not same and (traced.narrowed or _words(traced.rule.pattern) != _words(traced.rule.replacement)):
        return False
    for graph in (traced.pattern, traced.replacement):
        known: dict[int, str] = {}
        forms.append([_form(graph, value, known) for value in graph.outputs])
    return forms[0] == forms[1]


def _words(function: Any) -> set[str]:
    """The calls for which torch has another call as well, and the numbers below 0, that a function is written with.

    `view` is another call than `reshape`: torch refuses it where the elements do not lie one after the other. A number below 0 may be an
    axis counted from the end; other numbers may be written or left to a default.
    """
    names, found = {*torch_aliases(), "view"}, set[str]()
    pending: list[CodeType] = [function.__code__]
    while pending:
        code = pending.pop()
        found |= {name for name in code.co_names if name in names}
        pending += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        found |= {repr(constant) for constant in code.co_consts if not isinstance(constant, (CodeType, str)) and "-" in repr(constant)}
    return found


def _form(graph: Graph, value: Value, known: dict[int, str]) -> str:
    node = value.node
    if node not in known:
        operator = graph.operator(node)
        inside = ", ".join("-" if operand is None else _form(graph, operand, known) for operand in graph.operands(node))
        draw = f"#{_draws_before(graph, node)}" if operator.effects & (Effect.RANDOM | Effect.UNKNOWN) else ""
        if isinstance(operator, Input):
            known[node] = f"%{operator.name}"
        elif isinstance(operator, Constant):
            known[node] = _content(graph.constants[operator.name])
        else:
            known[node] = f"{operator}{draw}({inside})"
    return f"{known[node]}.{value.output}"


def text(graph: Graph) -> str:
    """A graph as text, its constants by their content."""
    return "\n".join([str(graph), *(f"{name} = {_content(tensor)}" for name, tensor in graph.constants.items())])


def same_code(rule: type[Rule]) -> bool:
    """Both functions have the same code."""
    left, right = rule.pattern.__code__, rule.replacement.__code__
    return (left.co_code, left.co_consts, left.co_names, left.co_varnames) == (
        right.co_code,
        right.co_consts,
        right.co_names,
        right.co_varnames,
    )


def _content(tensor: torch.Tensor) -> str:
    """A constant tensor by its type and bytes."""
    flat = tensor.detach().cpu().contiguous().flatten()
    return f"{tensor.dtype}{list(tensor.shape)}{hashlib.sha256(flat.view(torch.uint8).numpy().tobytes()).hexdigest()}"


def _draws_before(graph: Graph, node: int) -> int:
    return sum(1 for other in graph.network if other < node and graph.operator(other).effects & (Effect.RANDOM | Effect.UNKNOWN))


_EXACT = {
    "Negative", "Absolute", "Sign", "Floor", "Ceil", "Trunc", "Round", "Maximum", "Minimum", "Clamp", "Relu", "Relu6", "Where", "Cast",
    "Full", "Cat", "Stack", "Split", "Unbind", "Pad", "Reshape", "Permute", "Expand", "Slice", "Select", "Flip", "Roll", "Repeat",
    "RepeatInterleave", "Tril", "Triu", "Identity", "Copy", "Contiguous", "Detach", "Gather", "Index", "IndexSelect", "Embedding",
    "OneHot", "TopK", "Arange", "Eye", "Amax", "Amin", "MaxAlong", "MinAlong", "ArgMax", "ArgMin", "MaxPool1d", "MaxPool2d",
    "MaxPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AllGather", "Shard", "Replicate",
}  # fmt: skip
"""Operators that choose or move elements and round nothing."""


def both_round(traced: TracedCase) -> bool:
    """Each side has an operator whose result is rounded (arithmetic, not mere choice or movement of elements)."""
    return all(any(_rounds(graph.operator(node)) for node in graph.live()) for graph in (traced.pattern, traced.replacement))


def copies(traced: TracedCase) -> bool:
    """The pattern copies a tensor on purpose."""
    return any(type(traced.pattern.operator(node)).__name__ == "Copy" for node in traced.pattern.live())


def _rounds(operator: Operator) -> bool:
    silent = isinstance(operator, (Input, Constant, Scalar)) or operator.aliases or type(operator).__name__ in _EXACT
    return not silent and type(operator).__module__ != "operators.comparison"


def effects_of(traced: TracedCase) -> tuple[Effect, Effect]:
    """What the operators of each side do besides computing."""
    sides = []
    for graph in (traced.pattern, traced.replacement):
        effect = Effect.PURE
        for node in graph.network:
            effect |= graph.operator(node).effects_on(*(None if v is None else graph.type(v) for v in graph.operands(node)))
        sides.append(effect & ~Effect.ALIASES)
    return sides[0], sides[1]


def too_late(deadline: float) -> bool:
    """The time is up."""
    return time.monotonic() > deadline


__all__ = ["Shapes", "agreement", "both_round", "copies", "effects_of", "is_trivial", "same_code", "text", "too_late"]
