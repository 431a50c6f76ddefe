"""Reshaping, permuting, slicing, joining: with ONNX's ways of writing a size."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from graphs.onnx.bounds import at_least, at_most, is_positive
from graphs.onnx.reading.registry import Node, reads
from operators.constants import Arange, Eye
from operators.expressions import Dim, Expression, divide_exactly, product
from operators.layout import Expand, Permute, Reshape, Slice, resolve_size
from operators.operator import Unsupported, canonical_axis, is_known_equal
from operators.sources import Full


def _axes_of(node: Node, position: int, since: int = 13) -> tuple[int, ...] | None:
    """Axes that are an input since an opset, an attribute before."""
    if node.opset >= since:
        return node.integers(position) if node.has(position) else None
    given = node.attribute("axes")
    return None if given is None else tuple(given)


@reads("Reshape")
def reshape(node: Node) -> Any:
    """A 0 keeps the size of the axis (unless `allowzero`), a −1 takes what is left."""
    x = node[0]
    wanted: list[Dim] = list(node.sizes(1)) if node.opset >= 5 else node.attribute("shape")
    shape = node.type(0).shape
    if not node.attribute("allowzero", 0):
        if any(isinstance(dim, Expression) for dim in wanted) and any(isinstance(dim, int) and dim == 0 for dim in wanted[len(shape) :]):
            raise Unsupported("Reshape: a 0 beyond the axes of x")
        wanted = [shape[axis] if isinstance(dim, int) and dim == 0 else dim for axis, dim in enumerate(wanted)]
    return node.apply(Reshape(resolve_size(wanted, shape)), x)


@reads("Flatten")
def flatten(node: Node) -> Any:
    """All axes before `axis` as one, and all from it on."""
    x, shape = node[0], node.type(0).shape
    axis = node.attribute("axis", 1)
    axis += len(shape) if axis < 0 else 0
    return node.apply(Reshape((product(shape[:axis]), product(shape[axis:]))), x)


@reads("Squeeze")
def squeeze(node: Node) -> Any:
    x, shape = node[0], node.type(0).shape
    axes = _axes_of(node, 1)
    if axes is None:
        if not all(isinstance(dim, int) for dim in shape):
            raise Unsupported("Squeeze: which axes are of size 1 depends on sizes")
        gone = {axis for axis, dim in enumerate(shape) if dim == 1}
    else:
        gone = {axis + len(shape) if axis < 0 else axis for axis in axes}
        # A symbolic size must be 1 at run time: for any other the model has no meaning.
        if not all(isinstance(shape[axis], Expression) or shape[axis] == 1 for axis in gone):
            raise Unsupported(f"Squeeze: axes {sorted(gone)} of {node.type(0)} are not known to be of size 1")
    return node.apply(Reshape(tuple(dim for axis, dim in enumerate(shape) if axis not in gone)), x)


@reads("Unsqueeze")
def unsqueeze(node: Node) -> Any:
    x, shape = node[0], list(node.type(0).shape)
    axes = _axes_of(node, 1)
    if axes is None:
        raise Unsupported("Unsqueeze: axes must be given")
    rank = len(shape) + len(axes)
    for axis in sorted(axis + rank if axis < 0 else axis for axis in axes):
        shape.insert(axis, 1)
    return node.apply(Reshape(tuple(shape)), x)


@reads("Transpose")
def transpose(node: Node) -> Any:
    x = node[0]
    order = node.attribute("perm") or list(reversed(range(x.ndim)))
    return node.apply(Permute.of([axis - x.ndim for axis in order]), x) if x.ndim else x


@reads("Concat")
def concat(node: Node) -> Any:
    parts = node.inputs()
    return parts[0] if len(parts) == 1 else torch.cat(parts, node.attribute("axis", 1))


@reads("Split")
def split(node: Node) -> Any:
    x, axis, count = node[0], node.attribute("axis", 0), len(node.proto.output)
    size = node.type(0).shape[axis]
    if node.opset >= 13:
        sizes: Any = node.sizes(1) if node.has(1) else None
    else:
        given = node.attribute("split")
        sizes = None if given is None else tuple(given)
    if sizes is None:
        parts = node.attribute("num_outputs", count)
        if not isinstance(size, int):
            even = divide_exactly(size, parts)
            if even is None:
                raise Unsupported(f"Split: {size} is not known to be a multiple of {parts}")
            sizes = (even,) * parts
        else:
            most = -(-size // parts)
            sizes = tuple(max(min(most, size - most * part), 0) for part in range(parts))
    return torch.split(x, list(sizes), axis)


@reads("Slice")
def slice_(node: Node) -> Any:
    """Ends are clamped; negative ones count from the end; a negative step goes backwards."""
    x = node[0]
    axes: Any
    steps: Any
    if node.opset < 10:
        starts, ends = node.attribute("starts"), node.attribute("ends")
        axes, steps = node.attribute("axes", list(range(len(starts)))), [1] * len(starts)
    else:
        starts, ends = node.sizes(1), node.sizes(2)
        axes = node.integers(3) if node.has(3) else range(len(starts))
        steps = node.integers(4) if node.has(4) else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = canonical_axis(axis, x.ndim, "Slice")
        x = _sliced(node, x, place, start, end, step)
    return x


def _sliced(node: Node, x: Any, axis: int, start: Any, end: Any, step: int) -> Any:
    size = x.type.shape[axis]
    if step < 0:
        if not all(isinstance(value, int) for value in (size, start, end)):
            raise Unsupported("Slice: a negative step needs sizes that are numbers")
        picked = range(size)[slice(max(start, -size), end if end >= -size else None, step)]
        if not len(picked):
            return node.apply(Slice(axis, 0, 0), x)
        return node.apply(Slice(axis, picked[-1], picked[0] + 1, -step), x).flip((axis,))
    first, last = _clamped(start, size), _clamped(end, size)
    last = at_least(first, last)
    if is_known_equal(first, 0) and is_known_equal(last, size) and step == 1:
        return x
    return node.apply(Slice(axis, first, last, step), x)


ENDLESS = 10**9
"""No axis is so long: an end of a slice beyond it is the end of the axis."""


def _clamped(value: Dim, size: Dim) -> Dim:
    """One end of a slice as a position between 0 and the size."""
    if isinstance(value, int):
        if value < 0:
            return at_least(size + value, 0) if value > -(2**31) else 0
        if value >= ENDLESS:
            return size
        return at_most(value, size)
    if not is_positive(value):
        if is_positive(-value) and is_positive(size + value):
            raise Unsupported(f"Slice: {value} counts from the end only where it is not 0")
        rest = size - value
        if isinstance(rest, int) and rest > 0:  # the size less a number; below 0 it would count from the end
            raise Unsupported(f"Slice: {value} may be negative")
        raise Unsupported(f"Slice: {value} may count from the end")
    return at_most(value, size)


@reads("Expand")
def expand(node: Node) -> Any:
    """Broadcasting both ways: a 1 in the wanted size keeps the size of x."""
    x, shape, wanted = node[0], node.type(0).shape, node.sizes(1)
    rank = max(len(shape), len(wanted))
    mine, theirs = (1,) * (rank - len(shape)) + tuple(shape), (1,) * (rank - len(wanted)) + tuple(wanted)
    size: list[Dim] = []
    for own, want in zip(mine, theirs, strict=True):
        if is_known_equal(want, 1) or is_known_equal(own, want):
            size.append(own)
        elif is_known_equal(own, 1):
            size.append(want)
        else:
            raise Unsupported(f"Expand: {own} may broadcast with {want} or not")
    return node.apply(Expand(tuple(size)), x)


@reads("Tile")
def tile(node: Node) -> Any:
    return node[0].repeat(*node.sizes(1))


@reads("Pad")
def pad(node: Node) -> Any:
    """Padding of the start of every axis, then of the ends; negative padding cuts."""
    x, rank = node[0], node.type(0).ndim
    mode = node.attribute("mode", "constant")
    if node.opset < 11:
        amounts, value, axes = tuple(node.attribute("pads")), node.attribute("value", 0.0), None
    else:
        amounts, value = node.sizes(1), node.operand(2, 1) if node.has(2) else 0
        axes = node.integers(3) if node.has(3) else None
    places = range(rank) if axes is None else [axis % rank for axis in axes]
    before: list[Dim] = [0] * rank
    after: list[Dim] = [0] * rank
    for position, axis in enumerate(places):
        before[axis], after[axis] = amounts[position], amounts[position + len(places)]
    first = next((axis for axis in range(rank) if not (_is_zero(before[axis]) and _is_zero(after[axis]))), rank)
    if first == rank:
        return x
    sides: list[Any] = [amount for axis in reversed(range(first, rank)) for amount in (before[axis], after[axis])]
    if mode == "constant":
        if hasattr(value, "shape"):
            value = value.reshape(())
        return F.pad(x, tuple(sides), value=value)
    return _mirrored(x, sides, {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}[mode])


def _is_zero(amount: Dim) -> bool:
    return isinstance(amount, int) and amount == 0


def _mirrored(x: Any, sides: list[Any], mode: str) -> Any:
    """torch pads the last one to three axes after at least one more."""
    padded = len(sides) // 2
    if any(isinstance(amount, int) and amount < 0 for amount in sides) or padded > 3:
        raise Unsupported(f"Pad: mode {mode} with negative padding, or of more than 3 axes, is not covered")
    rank = x.ndim
    if rank - padded in (1, 2):
        return F.pad(x, tuple(sides), mode=mode)
    lead = 2 if rank - padded <= 0 else 1
    whole = x.reshape(*[1] * lead, *x.shape) if rank - padded <= 0 else x.flatten(0, rank - padded - 1)
    result = F.pad(whole, tuple(sides), mode=mode)
    return result.reshape(*x.shape[: rank - padded], *result.shape[lead:]) if rank > padded else result.reshape(result.shape[lead:])


@reads("ConstantOfShape")
def constant_of_shape(node: Node) -> Any:
    from graphs.onnx.types import tensor_of

    value = node.attribute("value")
    content = torch.zeros(1) if value is None else tensor_of(value)
    return node.apply(Full(node.sizes(0), str(content.dtype).removeprefix("torch.")), content.reshape(()).item())


@reads("EyeLike")
def eye_like(node: Node) -> Any:
    from graphs.onnx.types import dtype_of

    rows, columns = node.type(0).shape
    wanted = node.attribute("dtype")
    if node.attribute("k", 0):
        raise Unsupported("EyeLike: another diagonal is not covered")
    return node.apply(Eye(rows, columns, node.type(0).dtype if wanted is None else dtype_of(wanted)))


@reads("Range")
def range_(node: Node) -> Any:
    start, stop, step = (node.sizes(position)[0] for position in range(3))
    if not isinstance(step, int) or node.type(0).dtype not in ("int64", "int32", "int16"):
        raise Unsupported("Range: the step must be a number, of integers")
    if isinstance(start, int) and isinstance(stop, int):
        stop = start + max(-(-(stop - start) // step), 0) * step
    elif step < 0 or not is_positive(stop - start):
        raise Unsupported(f"Range: from {start} to {stop} may be empty")
    return node.apply(Arange(start, stop, step, node.type(0).dtype))


@reads("Trilu")
def triangle(node: Node) -> Any:
    x, diagonal = node[0], node.integers(1)[0] if node.has(1) else 0
    return torch.triu(x, diagonal) if node.attribute("upper", 1) else torch.tril(x, diagonal)


@reads("DepthToSpace")
def depth_to_space(node: Node) -> Any:
    x, (n, c, h, w), b = node[0], node[0].shape, node.attribute("blocksize")
    if node.attribute("mode", "DCR") == "DCR":
        return x.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // (b * b), h * b, w * b)
    return x.reshape(n, c // (b * b), b, b, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // (b * b), h * b, w * b)


@reads("SpaceToDepth")
def space_to_depth(node: Node) -> Any:
    x, (n, c, h, w), b = node[0], node[0].shape, node.attribute("blocksize")
    blocks = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 3, 5, 1, 2, 4) if node.attribute("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return blocks.permute(*order).reshape(n, c * b * b, h // b, w // b)


@reads("Shape", "Size")
def sizes(node: Node) -> Any:
    """Only read here where the sizes are not known: the general case is `graphs.onnx.known`."""
    raise Unsupported(f"{node.name}: the rank of the input is not known")
