"""Writing at positions, and running products: written out step by step where there are few steps of known number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from graphs.onnx.reading.registry import Node, reads
from operators.constants import Arange
from operators.operator import Unsupported, canonical_axis

MOST_STEPS = 32
"""More writes than these are kept as they are."""

_JOIN: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda old, new: new,
    "add": torch.add,
    "mul": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
}


def _known(node: Node, shape: Sequence[Any]) -> tuple[int, ...]:
    if not all(isinstance(dim, int) for dim in shape) or math.prod(shape) > MOST_STEPS:
        raise Unsupported(f"{node.name}: more than {MOST_STEPS} writes, or an unknown number, are not covered")
    return tuple(shape)


def _hits(node: Node, x: Any, axis: int, position: Any) -> Any:
    """Where an axis of x is at a position that may count from the end."""
    size = x.type.shape[axis]
    steps = node.apply(Arange(0, size, 1, "int64")).reshape(size, *[1] * (x.ndim - axis - 1))
    if isinstance(position, int):
        return torch.eq(steps, position)
    position = position if position.type.dtype == "int64" else position.to(torch.int64)
    return torch.eq(steps, torch.where(torch.lt(position, 0), position + size, position))


def _written(node: Node, x: Any, places: Sequence[Any], value: Any) -> Any:
    """x with a value joined in at one position of each of its first axes, None for a whole one."""
    join = _JOIN[node.attribute("reduction", "none")]
    here: Any = None
    for axis, place in enumerate(places):
        if place is not None:
            hit = _hits(node, x, axis, place)
            here = hit if here is None else torch.logical_and(here, hit)
    return torch.where(here, join(x, value.expand(*x.shape)), x)


@reads("ScatterElements", "Scatter")
def scatter_elements(node: Node) -> Any:
    """Each element of the updates goes to its own place, but along one axis to the position that is given for it."""
    x, positions, updates = node.inputs()
    axis = canonical_axis(node.attribute("axis", 0), x.ndim) + x.ndim
    for index in itertools.product(*map(range, _known(node, node.type(1).shape))):
        places: list[Any] = list(index)
        places[axis] = positions[index]
        x = _written(node, x, places, updates[index])
    return x


@reads("ScatterND")
def scatter_nd(node: Node) -> Any:
    """Each slice of the updates goes to the place that a tuple of positions names."""
    x, positions, updates = node.inputs()
    shape = node.type(1).shape
    depth = shape[-1]
    if not isinstance(depth, int):
        raise Unsupported("ScatterND: the length of the tuples must be a number")
    for index in itertools.product(*map(range, _known(node, shape[:-1]))):
        places = [positions[(*index, place)] for place in range(depth)]
        x = _written(node, x, places, updates[index] if index else updates)
    return x


@reads("CumProd")
def running_product(node: Node) -> Any:
    x = node[0]
    axis = canonical_axis(node.integers(1)[0], x.ndim) + x.ndim
    (count,) = _known(node, (node.type(0).shape[axis],))
    if not count:
        return x
    order = list(range(count))[:: -1 if node.attribute("reverse", 0) else 1]
    parts: dict[int, Any] = {}
    product: Any = torch.ones_like(x.select(axis, 0))
    for place in order:
        before, product = product, torch.mul(product, x.select(axis, place))
        parts[place] = before if node.attribute("exclusive", 0) else product
    return torch.stack([parts[place] for place in range(count)], axis)
