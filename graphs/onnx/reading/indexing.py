"""Reading at positions: negative positions count from the end."""

from __future__ import annotations

from typing import Any

import torch

from graphs.onnx.reading.registry import Node, reads
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
    size = node.type(0).shape[axis]
    positions = positions if positions.type.dtype == "int64" else positions.to(torch.int64)
    if node.tensor(1) is None or bool((node.tensor(1) < 0).any()):
        positions = torch.where(torch.lt(positions, 0), torch.add(positions, size), positions)
    return node.apply(Gather(axis), x, positions)


@reads("GatherND")
def gather_nd(node: Node) -> Any:
    """x at tuples of positions: the last axis of the positions is the tuple."""
    x, positions = node.inputs()
    depth = node.type(1).shape[-1]
    if node.attribute("batch_dims", 0) or not isinstance(depth, int):
        raise Unsupported("GatherND: batch axes are not covered")
    parts = torch.unbind(positions if positions.type.dtype == "int64" else positions.to(torch.int64), -1)
    return node.apply(Index(0), x, *parts)


@reads("TopK")
def top_k(node: Node) -> Any:
    if not node.attribute("largest", 1) or not node.attribute("sorted", 1):
        raise Unsupported("TopK: the smallest, or in no order, is not covered")
    x = node[0]
    return node.apply(TopK(node.sizes(1)[0], canonical_axis(node.attribute("axis", -1), x.ndim)), x)


@reads("OneHot")
def one_hot(node: Node) -> Any:
    """The second of two values where the class is, the first elsewhere; a class outside is nowhere."""
    positions, depth, values = node[0], node.sizes(1)[0], node[2]
    shape = list(positions.shape)
    axis = node.attribute("axis", -1)
    axis = axis + len(shape) + 1 if axis < 0 else axis
    if not isinstance(depth, int) or positions.type.dtype not in ("int64", "int32", "float32"):
        raise Unsupported("OneHot: the number of classes must be a number")
    from operators.constants import Arange

    classes = node.apply(Arange(0, depth, 1, "int64")).reshape(*[1] * axis, depth, *[1] * (len(shape) - axis))
    positions = positions if positions.type.dtype == "int64" else positions.to(torch.int64)
    wrapped = torch.where(torch.lt(positions, 0), torch.add(positions, depth), positions)
    hit = torch.eq(wrapped.reshape(*shape[:axis], 1, *shape[axis:]), classes)
    return torch.where(hit, values[1], values[0])
