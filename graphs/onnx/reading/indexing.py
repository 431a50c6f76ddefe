"""Reading at positions: negative positions count from the end."""

from __future__ import annotations

from typing import Any

import torch

from graphs.onnx.reading.registry import Node, reads
from operators.constants import Arange
from operators.extremes import ArgMax
from operators.indexing import Gather, Index, TopK
from operators.layout import Select
from operators.operator import Unsupported, canonical_axis


@reads("Gather")
def gather(node: Node) -> Any:
    """x at positions along an axis; one known position is a selection."""
    x, axis = node[0], canonical_axis(node.attribute("axis", 0), node.type(0).ndim)
    positions, size = node.tensor(1), node.type(0).shape[axis]
    if positions is not None and positions.ndim == 0:
        index = int(positions)
        if isinstance(size, int) and not -size <= index < size:
            raise Unsupported(f"Gather: position {index} is outside an axis of {size}")
        if index >= 0 or isinstance(size, int):
            return node.apply(Select(axis, index + size if index < 0 else index), x)
    return _indexed(node, x, axis, node[1])


def _indexed(node: Node, x: Any, axis: int, positions: Any) -> Any:
    if positions.type.dtype not in ("int64", "int32"):
        raise Unsupported(f"{node.name}: positions of {positions.type.dtype} are not covered")
    if positions.type.dtype == "int32":
        positions = positions.to(torch.int64)
    first = axis + x.ndim
    return node.apply(Index(first), x, positions)


@reads("GatherElements")
def gather_elements(node: Node) -> Any:
    x, positions = node.inputs()
    axis = canonical_axis(node.attribute("axis", 0), x.ndim)
    size: Any = node.type(0).shape[axis]
    positions = positions if positions.type.dtype == "int64" else positions.to(torch.int64)
    if node.tensor(1) is None or bool((node.tensor(1) < 0).any()):
        positions = torch.where(torch.lt(positions, 0), positions + size, positions)
    return node.apply(Gather(axis), x, positions)


@reads("GatherND")
def gather_nd(node: Node) -> Any:
    """x at tuples of positions: the last axis of the positions is the tuple."""
    x, positions = node.inputs()
    depth = node.type(1).shape[-1]
    batch = node.attribute("batch_dims", 0)
    if not isinstance(depth, int):
        raise Unsupported("GatherND: the length of the tuples must be a number")
    parts = list(torch.unbind(positions if positions.type.dtype == "int64" else positions.to(torch.int64), -1))
    shape = node.type(1).shape[:-1]
    own = [
        node.apply(Arange(0, shape[axis], 1, "int64")).reshape(*[1] * axis, shape[axis], *[1] * (len(shape) - axis - 1))
        for axis in range(batch)
    ]
    return node.apply(Index(0), x, *own, *parts)


@reads("ReverseSequence")
def reverse_sequence(node: Node) -> Any:
    """Of each sequence the first elements in reverse, the others as they are."""
    x, lengths = node.inputs()
    time, batch = node.attribute("time_axis", 0), node.attribute("batch_axis", 1)
    shape = node.type(0).shape
    order = (time, batch)
    steps = node.apply(Arange(0, shape[time], 1, "int64")).reshape(*[shape[time] if axis == time else 1 for axis in sorted(order)])
    counts = lengths.to(torch.int64).reshape(*[shape[batch] if axis == batch else 1 for axis in sorted(order)])
    places = torch.where(torch.lt(steps, counts), torch.sub(torch.sub(counts, 1), steps), steps)
    own = node.apply(Arange(0, shape[batch], 1, "int64")).reshape(*[shape[batch] if axis == batch else 1 for axis in sorted(order)])
    if sorted(order) != [0, 1]:
        raise Unsupported("ReverseSequence: only of the first two axes")
    return node.apply(Index(0), x, *((places, own) if time == 0 else (own, places)))


@reads("Hardmax")
def hardmax(node: Node) -> Any:
    """1 at the first largest element along an axis, else 0; before opset 13 along all axes from this one on."""
    x: Any = node[0]
    axis = canonical_axis(node.attribute("axis", -1 if node.opset >= 13 else 1), x.ndim)
    rows = x.flatten(axis + x.ndim) if node.opset < 13 and axis != -1 else x
    axis = -1 if rows is not x else axis
    length = rows.type.shape[axis]
    best = node.apply(ArgMax(axis, True), rows)
    steps = node.apply(Arange(0, length, 1, "int64")).reshape(length, *[1] * (-axis - 1))
    return torch.eq(best, steps).to(getattr(torch, x.type.dtype)).reshape(x.type.shape)


@reads("TopK")
def top_k(node: Node) -> Any:
    if not node.attribute("largest", 1) or not node.attribute("sorted", 1):
        raise Unsupported("TopK: the smallest, or in no order, is not covered")
    if node.wants(1):
        raise Unsupported("TopK: the positions of equal elements in their order are not covered")
    x = node[0]
    return node.apply(TopK(node.sizes(1)[0], canonical_axis(node.attribute("axis", -1), x.ndim)), x)


@reads("OneHot")
def one_hot(node: Node) -> Any:
    """The second of two values where the class is, the first elsewhere; a class outside is nowhere."""
    positions, values = node[0], node[2]
    depth = int(node.number(1)) if node.tensor(1) is not None else node.sizes(1)[0]
    shape = list(positions.shape)
    axis = node.attribute("axis", -1)
    axis = axis + len(shape) + 1 if axis < 0 else axis
    if not isinstance(depth, int) or positions.type.dtype not in ("int64", "int32", "float32"):
        raise Unsupported("OneHot: the number of classes must be a number")
    classes = node.apply(Arange(0, depth, 1, "int64")).reshape(*[1] * axis, depth, *[1] * (len(shape) - axis))
    positions = positions if positions.type.dtype == "int64" else positions.to(torch.int64)
    wrapped = torch.where(torch.lt(positions, 0), torch.add(positions, depth), positions)
    hit = torch.eq(wrapped.reshape(*shape[:axis], 1, *shape[axis:]), classes)
    return torch.where(hit, values[1], values[0])
