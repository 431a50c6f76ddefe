"""Reductions along axes; without axes along all of them, or along none."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from graphs.onnx.reading.pointwise import in_dtype
from graphs.onnx.reading.registry import Node, reads
from operators.extremes import ArgMax, ArgMin
from operators.operator import Unsupported, canonical_axis, is_known_equal

_AXES_INPUT = {"ReduceSum": 13}
"""Since which opset the axes are an input; 18 elsewhere."""


def _axes(node: Node, rank: int) -> tuple[int, ...] | None:
    """The axes to reduce; None for none of them."""
    given: Any
    if node.opset >= _AXES_INPUT.get(node.name, 18):
        given = node.integers(1) if node.has(1) else ()
        if not given and node.attribute("noop_with_empty_axes", 0):
            return None
    else:
        given = node.attribute("axes", ())
    return tuple(given) if given else tuple(range(rank))


def _reduce(node: Node, function: Any, x: Any, axes: tuple[int, ...]) -> Any:
    if not axes:
        raise Unsupported(f"{node.name}: a tensor without axes is not covered")
    return function(x, axes, keepdim=bool(node.attribute("keepdims", 1)))


def _declare(name: str, function: Any, before: Any = None, after: Any = None) -> None:
    @reads(name)
    def read(node: Node) -> Any:
        x = node[0]
        axes = _axes(node, x.ndim)
        dtype = x.type.dtype
        if before is not None:
            x = before(x)
        if axes is not None and x.ndim:
            x = _reduce(node, function, x, axes)
        if after is not None:
            x = after(x)
        return x if x.type.dtype == dtype else x.to(getattr(torch, dtype))


def _square(x: Any) -> Any:
    return torch.mul(x, x)


def _product(x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    from graphs.trace import add_application
    from operators.reductions import Product

    return add_application(x.graph, Product(tuple(sorted(canonical_axis(axis, x.ndim) for axis in axes)), keepdim), [x])


def _largest(x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    return _extreme(x, axes, keepdim, torch.amax, float("-inf"))


def _smallest(x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    return _extreme(x, axes, keepdim, torch.amin, float("inf"))


def _extreme(x: Any, axes: tuple[int, ...], keepdim: bool, function: Any, of_nothing: float) -> Any:
    """Of no elements, the infinity, or the end of the integers."""
    if not any(is_known_equal(x.type.shape[axis], 0) for axis in axes):
        return function(x, axes, keepdim=keepdim)
    dtype = getattr(torch, x.type.dtype)
    fill = of_nothing
    if not dtype.is_floating_point:
        ends = (False, True) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
        fill = ends[of_nothing > 0]
    return torch.full_like(torch.sum(x, axes, keepdim=keepdim), fill, dtype=dtype)


_declare("ReduceSum", torch.sum)
_declare("ReduceMean", torch.mean)
_declare("ReduceMax", _largest)
_declare("ReduceMin", _smallest)
_declare("ReduceProd", _product)
_declare("ReduceL1", torch.sum, before=torch.abs)
_declare("ReduceL2", torch.sum, before=_square, after=torch.sqrt)
_declare("ReduceSumSquare", torch.sum, before=_square)
_declare("ReduceLogSum", torch.sum, after=torch.log)
_declare("ReduceLogSumExp", torch.logsumexp)


@reads("ArgMax", "ArgMin")
def where_extreme(node: Node) -> Any:
    """The first position of the extreme element, or the last."""
    x = node[0]
    axis = canonical_axis(node.attribute("axis", 0), x.ndim)
    operator = (ArgMax if node.name == "ArgMax" else ArgMin)(axis, bool(node.attribute("keepdims", 1)))
    if not node.attribute("select_last_index", 0):
        return node.apply(operator, x)
    position = node.apply(operator, x.flip((axis,)))
    return node.type(0).shape[axis] - 1 - position


@reads("CumSum")
def cumulative_sum(node: Node) -> Any:
    x = node[0]
    axis = canonical_axis(node.integers(1)[0], x.ndim)
    if node.attribute("reverse", 0):
        x = x.flip((axis,))
    if node.attribute("exclusive", 0):  # the element itself is left out: everything moves up by one
        later = (0, 0) * (-axis - 1)
        size: Any = node.type(0).shape[axis]
        x = F.pad(x, (*later, 1, 0)).narrow(axis, 0, size)
    y = torch.cumsum(x, axis)
    y = in_dtype(y, x.type.dtype)
    return y.flip((axis,)) if node.attribute("reverse", 0) else y
