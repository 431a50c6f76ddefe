"""Control flow decided while reading: the branch of an If whose condition is known, the rounds of a Scan or Loop of known length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import torch

from graphs.onnx.reading.expansion import inline
from graphs.onnx.reading.registry import Node, reads
from operators.foreign import UNTYPED, Foreign
from operators.layout import Select
from operators.operator import TensorType, Unsupported

MOST_ROUNDS = 64
"""Longer ones are kept as they are: written out, they would be too large to be of use."""


@reads("If")
def branch(node: Node) -> Any:
    """One of two graphs, where it is known which."""
    condition = _condition(node)
    if condition is None and node.proto is node.reader.current:
        condition = node.reader.choices.get(node.reader.number)
        if condition is None:
            node.reader.undecided.append(node.reader.number)
    if condition is None and node.reader.both:
        return _both(node)
    if condition is None:
        raise Unsupported("If: the condition depends on data or on sizes")
    return inline(node, node.graph("then_branch" if condition else "else_branch"), [], foreign=True)


def _condition(node: Node) -> bool | None:
    held = node.tensor(0)
    known = held if held is not None else node.reader.entries[node.proto.input[0]].sizes
    (condition,) = [None] if known is None else known.reshape(-1)[:1].tolist() or [None]
    return condition if isinstance(condition, bool) else None


def _both(node: Node) -> Any:
    """Both graphs, and a node that stands for the choice between their outputs; it has no meaning, and nothing runs it."""
    graph, mark = node.reader.graph, node.reader.graph.mark()
    results = [inline(node, node.graph(name), [], foreign=True) for name in ("then_branch", "else_branch")]
    node.reader.in_branches.update(range(mark, graph.mark()))
    pairs = list(zip(*results, strict=True))
    if any(one is None or other is None for one, other in pairs):
        raise Unsupported("If: a branch has no value for an output")
    types = [tuple(graph.type(one.value) for one in pair) for pair in pairs]
    kinds = tuple(one if one == other else TensorType((), UNTYPED) for one, other in types)
    condition = node.reader.value(node.proto.input[0])
    return node.apply(Foreign("If", "", (), (), kinds), condition, *(result for branch in results for result in branch))


@reads("Scan")
def scan(node: Node) -> Any:
    """The body for each slice in turn; what is carried goes from round to round, the other outputs are stacked."""
    body = node.graph("body")
    slices = node.attribute("num_scan_inputs")
    if node.opset < 9:
        raise Unsupported("Scan: of opset 8, with lengths, is not covered")
    carried = [node[position] for position in range(node.count - slices)]
    inputs = [node[position] for position in range(node.count - slices, node.count)]
    axes = [axis % x.ndim for axis, x in zip(node.attribute("scan_input_axes", [0] * slices), inputs, strict=True)]
    backwards = node.attribute("scan_input_directions", [0] * slices)
    rounds = _rounds(inputs[0].type.shape[axes[0]])
    outputs: list[list[Any]] = [[] for _ in range(len(body.output) - len(carried))]
    for step in range(rounds):
        parts = [
            node.apply(Select(axis - x.ndim, rounds - 1 - step if back else step), x)
            for x, axis, back in zip(inputs, axes, backwards, strict=True)
        ]
        results = inline(node, body, [*carried, *parts])
        carried = list(results[: len(carried)])
        for place, one in zip(outputs, results[len(carried) :], strict=True):
            place.append(one)
    return (*carried, *_stacked(outputs, node.attribute("scan_output_axes", [0] * len(outputs)), node.attribute("scan_output_directions")))


@reads("Loop")
def loop(node: Node) -> Any:
    """The body a known number of times."""
    body = node.graph("body")
    if not node.has(0):
        raise Unsupported("Loop: how often it runs depends on data")
    rounds = _rounds(node.sizes(0)[0])
    if node.has(1) and node.array(1).reshape(-1).tolist() != [True]:
        raise Unsupported("Loop: whether it runs depends on data")
    if not _goes_on(body):
        raise Unsupported("Loop: when it ends depends on data")
    carried = [node[position] for position in range(2, node.count)]
    outputs: list[list[Any]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    goes_on = node.held(torch.tensor(True))
    for step in range(rounds):
        results = inline(node, body, [node.held(torch.tensor(step)), goes_on, *carried])
        carried = list(results[1 : 1 + len(carried)])
        for place, one in zip(outputs, results[1 + len(carried) :], strict=True):
            place.append(one)
    if outputs and not rounds:
        raise Unsupported("Loop: no rounds, and outputs of every round")
    return (*carried, *_stacked(outputs, [0] * len(outputs), None))


def _goes_on(body: onnx.GraphProto) -> bool:
    """The condition that the body hands on is the one it was given, or always true."""
    name, given = body.output[0].name, body.input[1].name
    for node in body.node:
        if name in node.output:
            if node.op_type == "Identity":
                name = node.input[0]
            elif node.op_type == "Constant":
                return bool(onnx.numpy_helper.to_array(onnx.helper.get_attribute_value(node.attribute[0])).all())
    return bool(name == given)


def _rounds(size: Any) -> int:
    if not isinstance(size, int) or not 0 <= size <= MOST_ROUNDS:
        raise Unsupported(f"the number of rounds must be a number up to {MOST_ROUNDS}, got {size}")
    return size


def _stacked(outputs: Sequence[list[Any]], axes: Sequence[int], directions: Sequence[int] | None) -> list[Any]:
    result = []
    for position, (parts, axis) in enumerate(zip(outputs, axes, strict=True)):
        if not parts:
            raise Unsupported("no rounds, and outputs of every round")
        ordered = parts[::-1] if directions and directions[position] else parts
        result.append(torch.stack(ordered, axis))
    return result
