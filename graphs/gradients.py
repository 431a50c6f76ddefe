"""Gradients as graphs: the vector-Jacobian products of a graph, built from its operators' own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from graphs.graph import Graph, Value
from graphs.trace import Proxy, TraceError, trace
from operators.arithmetic import Add
from operators.expressions import Dim, product
from operators.operator import Operator, ShapeError, TensorType, kind_of
from operators.sources import Constant, Full, Scalar


class NoGradient(NotImplementedError):
    """An operator whose gradient is not written as a graph."""


@dataclass(frozen=True)
class BackwardOf(Operator):
    """What computes the gradients of an operator that has none written as a graph; only its costs are known.

    gradients of the outputs, operands   ->   a gradient per floating operand   Assumes: twice the operator's arithmetic
    """

    name: str
    results: tuple[TensorType, ...]
    arithmetic: Dim

    multiple: ClassVar[bool] = True

    def outputs(self, *operands: TensorType) -> tuple[TensorType, ...]:
        return self.results

    def flops(self, *operands: TensorType) -> Dim:
        return self.arithmetic


Missing = Callable[[Graph, Graph, int, Sequence[Value], NoGradient], "list[Value | None]"]
"""Gives the gradients of a node's operands where its operator cannot: the graph, the one that grows, the node, and what arrives."""


def gradient_graph(graph: Graph) -> Graph:
    """The graph extended by an input `cotangent k` for each output k; its outputs are the gradients of the floating inputs in order.

    Raises: NoGradient.
    """
    result = graph.copy()
    gradients = _backward(graph, result, set(graph.network), _refuse)
    result.outputs = [
        gradients.get(Value(node)) or _zeros(result, graph.types(node)[0])
        for node in graph.inputs
        if kind_of(graph.types(node)[0].dtype) == "float" and not graph.types(node)[0].weak
    ]
    return result


def training_graph(graph: Graph) -> Graph:
    """The graph with its parameters as inputs, and with their gradients as further outputs: what one step of training computes.

    Where an operator has no gradient written as a graph, `BackwardOf` stands for it, so that the result has costs but cannot be run.
    Raises: NoGradient when there is no parameter.
    """
    forward, parameters = _with_parameters_as_inputs(graph)
    if not parameters:
        raise NoGradient("training: the model must have parameters, got none")
    needed = _depending_on(forward, parameters)
    result = forward.copy()
    gradients = _backward(forward, result, needed, _stand_in)
    result.outputs = [*forward.outputs, *(gradients[Value(node)] for node in parameters if Value(node) in gradients)]
    result.remove_dead()
    return result


def _with_parameters_as_inputs(graph: Graph) -> tuple[Graph, list[int]]:
    """A copy of the graph in which each parameter is an input; the nodes of these inputs."""
    copied = Graph()
    known: dict[Value, Value] = {}
    parameters = []
    for node in dict.fromkeys([*graph.inputs, *graph.topological_order()]):
        operator, types = graph.operator(node), graph.types(node)
        if isinstance(operator, Constant) and isinstance(graph.constants[operator.name], torch.nn.Parameter):
            new = copied.input(operator.name, types[0]).node
            parameters.append(new)
        else:
            if isinstance(operator, Constant):
                copied.constants[operator.name] = graph.constants[operator.name]
            new = copied.add(operator, *(None if value is None else known[value] for value in graph.operands(node)), types=types).node
        known.update({Value(node, output): Value(new, output) for output in range(len(types))})
    copied.outputs = [known[value] for value in graph.outputs]
    return copied, parameters


def _depending_on(graph: Graph, nodes: Sequence[int]) -> set[int]:
    found = set(nodes)
    for node in graph.topological_order():
        if any(producer in found for producer in graph.network.pred[node]):
            found.add(node)
    return found


def _backward(graph: Graph, result: Graph, needed: set[int], missing: Missing) -> dict[Value, Value]:
    """The gradients of the needed nodes' values, as values of the result."""
    gradients: dict[Value, Value] = {}
    for position, output in enumerate(graph.outputs):
        if kind_of(graph.type(output).dtype) == "float" and output.node in needed:
            _accumulate(result, gradients, output, result.input(f"cotangent {position}", graph.type(output)))
    for node in reversed(graph.topological_order()):
        arriving = [gradients.get(Value(node, output)) for output in range(len(graph.types(node)))]
        operands = graph.operands(node)
        if node in needed and operands and any(gradient is not None for gradient in arriving):
            _through(graph, result, gradients, node, arriving, needed, missing)
    return gradients


def _through(
    graph: Graph,
    result: Graph,
    gradients: dict[Value, Value],
    node: int,
    arriving: Sequence[Value | None],
    needed: set[int],
    missing: Missing,
) -> None:
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

    values: list[Value | None]
    try:
        values = list(
            trace(backward, [*(Proxy(result, value) for value in filled), *(_operand(graph, result, value) for value in operands)], result)
        )
    except (NotImplementedError, TraceError, ShapeError, TypeError, AttributeError) as error:
        values = missing(graph, result, node, filled, NoGradient(f"{operator}: {error}"))
        places = list(range(len(operands)))
    for place, value in zip(places, values, strict=True):
        operand = operands[place]
        if value is not None and operand is not None and operand.node in needed and kind_of(graph.type(operand).dtype) == "float":
            _accumulate(result, gradients, operand, value)


def _refuse(graph: Graph, result: Graph, node: int, arriving: Sequence[Value], error: NoGradient) -> list[Value | None]:
    raise error


def _stand_in(graph: Graph, result: Graph, node: int, arriving: Sequence[Value], error: NoGradient) -> list[Value | None]:
    """A node that costs what the gradients of an operator may cost."""
    operands = graph.operands(node)
    types = tuple(None if value is None else graph.type(value) for value in operands)
    places = [place for place, type in enumerate(types) if type is not None and not type.weak and kind_of(type.dtype) == "float"]
    results = tuple(type for place in places if (type := types[place]) is not None)
    try:
        arithmetic = 2 * graph.operator(node).flops(*types)
    except NotImplementedError:
        arithmetic = 2 * sum((product(type.shape) for type in graph.types(node)), start=0)
    stand_in = BackwardOf(str(graph.operator(node)), results, arithmetic)
    new = result.add(stand_in, *arriving, *operands, types=results).node
    found: list[Value | None] = [None] * len(operands)
    for output, place in enumerate(places):
        found[place] = Value(new, output)
    return found


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


__all__ = ["BackwardOf", "NoGradient", "gradient_graph", "training_graph"]
