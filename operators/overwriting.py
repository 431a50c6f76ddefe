"""Writing into a tensor, or into a part of it, as the tensor that results: what functional graphs have for `x[0] = y` and `x.copy_(y)`."""

from __future__ import annotations

from typing import Any

from operators.axes import inserted, replaced, sizes
from operators.binding import Applied, Unsupported, alias
from operators.casts import Copy, cast
from operators.expressions import Dim
from operators.joining import Cat
from operators.layout import Bound, Expand, Reshape, Select, Slice
from operators.operator import canonical_axis, is_known_equal
from operators.pointwise import dtype_of
from operators.sources import Full


@alias("copy")
def _copy(input: Any, src: Any, non_blocking: bool = False) -> Bound:
    """src in the shape and dtype of input, in memory of its own."""
    part = Applied(*cast(src, input.dtype))
    return Copy(), [part if sizes(src) == sizes(input) else Applied(Expand(sizes(input)), [part])]


@alias("fill")
def _fill(input: Any, value: Any) -> Bound:
    """One number everywhere, given as such or as a tensor of no axes, in the dtype of input and in memory of its own."""
    if not hasattr(value, "shape"):
        return Full(sizes(input), dtype_of(input)), [value]
    return Copy(), [Applied(Expand(sizes(input)), [Applied(*cast(value, input.dtype))])]


@alias("zero")
def _zero(input: Any) -> Bound:
    """Zero everywhere, in the dtype of input."""
    return _fill(input, 0)


@alias("select_scatter")
def _select_scatter(input: Any, src: Any, dim: int, index: int) -> Bound:
    """input, with src at one position of an axis."""
    shape = sizes(input)
    axis = canonical_axis(dim, len(shape), "select_scatter")
    position = Select.of(axis, index, shape[axis]).position(shape[axis])
    part = Applied(Reshape(inserted(sizes(src), axis, 1)), [src])
    return _with_part(input, part, axis, position, position + 1)


@alias("slice_scatter")
def _slice_scatter(input: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Bound:
    """input, with src between two positions of an axis."""
    shape = sizes(input)
    axis = canonical_axis(dim, len(shape), "slice_scatter")
    place = Slice.of(axis, start, end, step, shape[axis])
    if place.step != 1:
        raise Unsupported(f"slice_scatter: step must be 1, got {step}")
    part = Applied(Expand(replaced(shape, axis, place.stop - place.start)), [src])
    return _with_part(input, part, axis, place.start, place.stop)


def _with_part(x: Any, part: Applied, axis: int, start: Dim, stop: Dim) -> Bound:
    """x with the part in place of what stands from start to before stop; what is known to be empty is left out."""
    size = sizes(x)[axis]
    before = [] if is_known_equal(start, 0) else [Applied(Slice(axis, 0, start), [x])]
    after = [] if is_known_equal(stop, size) else [Applied(Slice(axis, stop, size), [x])]
    parts = [*before, part, *after]
    return (Cat(axis), parts) if len(parts) > 1 else (Copy(), parts)
