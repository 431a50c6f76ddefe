"""Gradients as graphs: the vector-Jacobian product of a traced side, built from its operators' own, and proved equal for all sizes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from graphs.graph import Graph, Value
from graphs.trace import Proxy, TraceError, trace
from operators.arithmetic import Add
from operators.operator import ShapeError, TensorType, collecting_obligations, kind_of
from operators.sources import Full, Scalar
from rewrites.cases import Case, TracedCase, cases
from rewrites.rule import Rule
from verifier.instances import Ground
from verifier.proof.conditions import bounds_from
from verifier.proof.prove import VACUOUS, prove

_SECONDS_PER_CASE = 5.0


class NoGradient(NotImplementedError):
    """A side with an operator whose gradient is not written as a graph."""


def gradient_graph(graph: Graph) -> Graph:
    """The graph extended by an input `cotangent k` for each output k; its outputs are the gradients of the floating inputs in order.

    Raises: NoGradient.
    """
    result = graph.copy()
    gradients: dict[Value, Value] = {}
    for position, output in enumerate(graph.outputs):
        if kind_of(graph.type(output).dtype) == "float":
            _accumulate(result, gradients, output, result.input(f"cotangent {position}", graph.type(output)))
    for node in reversed(graph.topological_order()):
        arriving = [gradients.get(Value(node, output)) for output in range(len(graph.types(node)))]
        operands = graph.operands(node)
        if operands and any(gradient is not None for gradient in arriving):
            _through(graph, result, gradients, node, arriving)
    result.outputs = [
        gradients.get(Value(node)) or _zeros(result, graph.types(node)[0])
        for node in graph.inputs
        if kind_of(graph.types(node)[0].dtype) == "float" and not graph.types(node)[0].weak
    ]
    return result


def _through(graph: Graph, result: Graph, gradients: dict[Value, Value], node: int, arriving: Sequence[Value | None]) -> None:
    """The gradients of a node's operands, added to those that arrive elsewhere."""
    operator, operands = graph.operator(node), graph.operands(node)
    filled = [gradient or _zeros(result, type) for gradient, type in zip(arriving, graph.types(node), strict=True)]
    places: list[int] = []

    def backward(*arguments: Any) -> list[Any]:
        out_grad, given = arguments[: len(filled)], arguments[len(filled) :]
        found = operator.gradient(out_grad if operator.multiple else out_grad[0], *given)
        kept = [(place, gradient) for place, gradient in enumerate(found) if gradient is not None and operands[place] is not None]
        places.extend(place for place, _ in kept)
        return [gradient for _, gradient in kept]

    try:
        values = trace(
            backward, [*(Proxy(result, value) for value in filled), *(_operand(graph, result, value) for value in operands)], result
        )
    except (NotImplementedError, TraceError, ShapeError, TypeError, AttributeError) as error:
        raise NoGradient(f"{operator}: {error}") from error
    for place, value in zip(places, values, strict=True):
        operand = operands[place]
        assert operand is not None
        if kind_of(graph.type(operand).dtype) == "float":
            _accumulate(result, gradients, operand, value)


def _operand(graph: Graph, result: Graph, value: Value | None) -> Any:
    if value is None:
        return None
    operator = graph.operator(value.node)
    if isinstance(operator, Scalar) and isinstance(operator.value, (bool, int, float)):
        return operator.value
    return Proxy(result, value)


def _accumulate(graph: Graph, gradients: dict[Value, Value], value: Value, gradient: Value) -> None:
    known = gradients.get(value)
    gradients[value] = gradient if known is None else graph.add(Add(), known, gradient)


def _zeros(graph: Graph, type: TensorType) -> Value:
    return graph.add(Full(type.shape, type.dtype), graph.scalar(0.0))


def gradients_proved(rule: type[Rule], grounds: dict[Case, Ground], deadline: float) -> bool:
    """Both sides' gradients are equal for all sizes in every case of the rule, over the reals.

    Assumes: operators' gradients are right (they are held against torch's autograd) where the functions are differentiable.
    """
    proved = False
    for case in cases(rule):
        traced = (grounds.get(case) or Ground(rule, case, 0)).trace
        left = min(_SECONDS_PER_CASE, deadline - time.monotonic())
        if not isinstance(traced, TracedCase) or left <= 0:
            return False
        try:
            with collecting_obligations() as owed:
                sides = gradient_graph(traced.pattern), gradient_graph(traced.replacement)
        except NoGradient:
            return False
        bounds = [bound for condition in traced.value_conditions for bound in bounds_from(condition)]
        outcome = prove(*sides, traced.facts, bounds, [*owed, *traced.replacement_requires], left)
        if outcome.status == VACUOUS:
            continue
        if not outcome.proved:
            return False
        proved = True
    return proved


__all__ = ["NoGradient", "gradient_graph", "gradients_proved"]
