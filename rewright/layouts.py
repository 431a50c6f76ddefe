"""Convolutions in channels-last memory: on processors their kernels convert other layouts at every call, there and back.

Laying out a tensor in another way changes no element, which is the law `ContiguousChangesNothing`; operators that keep the layout of what
they read carry it from one convolution to the next. Whether it pays is for the clock to say: nothing here has a price.
"""

from __future__ import annotations

from costs.kernels import computed_from_constants
from graphs.graph import Graph, Value
from operators.casts import Contiguous
from rewrites.library.layout import ContiguousChangesNothing

LAW = ContiguousChangesNothing
"""The rule under whose certificate layouts are changed."""

_CONVOLUTIONS = ("Conv2d", "ConvTranspose2d")
_KEEPING = ("BatchNorm", "MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "Cat", "Pad", "Interpolate")


def channels_last(graph: Graph) -> tuple[Graph, int]:
    """The graph with every convolution of images reading channels-last memory, and how many tensors are laid out anew for that.

    Outputs of the graph that would be channels-last are laid out as they were.
    """
    result = graph.copy()
    free = computed_from_constants(result)
    changed: set[Value] = set()
    number = 0
    for node in result.topological_order():
        if node in free:
            continue
        kind = type(result.operator(node)).__name__
        operands = [value for value in result.operands(node) if value is not None and value.node not in free]
        if kind in _CONVOLUTIONS:
            if operands and operands[0] not in changed:
                changed.add(_laid_out(result, operands[0], "channels_last"))
                number += 1
            changed.add(Value(node))
        elif _keeps(result, node, operands, changed):
            changed.update(Value(node, output) for output in range(len(result.types(node))))
    for value in dict.fromkeys(result.outputs):
        if value in changed and result.type(value).ndim == 4:
            plain = result.add(Contiguous(), value)
            result.outputs = [plain if output == value else output for output in result.outputs]
    return result, number


def _laid_out(graph: Graph, value: Value, layout: str) -> Value:
    """The value in another layout; whoever read the value, but the graph's caller, reads this instead."""
    returned = list(graph.outputs)
    new = graph.add(Contiguous(layout), value)
    readers = [(user, position) for user, output, position in graph.users(value.node) if output == value.output and user != new.node]
    for user, position in readers:
        graph.network.remove_edge(value.node, user, key=(value.output, position))
        graph.network.add_edge(new.node, user, key=(new.output, position))
    graph.outputs = returned
    return new


def _keeps(graph: Graph, node: int, operands: list[Value], changed: set[Value]) -> bool:
    """The node puts out channels-last memory, because the largest tensors that it reads are."""
    operator = graph.operator(node)
    if graph.types(node)[0].ndim != 4 or not (type(operator).pointwise or type(operator).__name__ in _KEEPING):
        return False
    images = [value for value in operands if graph.type(value).ndim == 4]
    shape = graph.types(node)[0].shape
    whole = [value for value in images if graph.type(value).shape == shape] or images
    return bool(whole) and all(value in changed for value in whole)


__all__ = ["LAW", "channels_last"]
