"""Axes and sizes as operators keep them: counted from the end, so that one operator fits tensors of any rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from operators.expressions import Dim, plain
from operators.operator import Unsupported, canonical_axis


def sizes(x: Any) -> tuple[Dim, ...]:
    """The shape of an operand of `bind`, as plain dims."""
    return tuple(plain(size) for size in x.shape)


def axes_of(dim: Any, rank: int, who: str) -> tuple[int, ...]:
    """A torch `dim` argument (one axis, several, or None or () for all) as ascending axes counted from the end."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(-rank, 0))
    listed = dim if isinstance(dim, (tuple, list)) else (dim,)
    axes = sorted(canonical_axis(axis, rank, who) for axis in listed)
    if len(set(axes)) != len(axes):
        raise Unsupported(f"{who}: axes must be distinct, got {tuple(listed)}")
    return tuple(axes) if rank else ()


def without(shape: Sequence[Any], axes: Sequence[int], keep: bool = False) -> tuple[Any, ...]:
    """The shape with these axes removed, or set to 1 when they are kept."""
    rank = len(shape)
    if keep:
        return tuple(1 if axis - rank in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis - rank not in axes)


def replaced(at: Sequence[Any], axis: int, index: Any) -> tuple[Any, ...]:
    """The index (or shape) with the entry of one axis replaced."""
    result = list(at)
    result[axis] = index
    return tuple(result)


def inserted(at: Sequence[Any], axis: int, index: Any) -> tuple[Any, ...]:
    """The index (or shape) with a new entry that ends up at `axis`, counted from the end."""
    position = len(at) + 1 + axis
    return (*at[:position], index, *at[position:])


def removed(at: Sequence[Any], axis: int) -> tuple[Any, ...]:
    """The index (or shape) without the entry of one axis."""
    position = len(at) + axis
    return (*at[:position], *at[position + 1 :])


def over(
    word: Callable[[Dim, Callable[[Any], Any]], Any],
    shape: Sequence[Dim],
    axes: Sequence[int],
    at: Sequence[Any],
    keep: bool,
    body: Callable[[tuple[Any, ...]], Any],
) -> Any:
    """`word` (total, largest, …) of `body(index)` over every index of `axes`; the other axes are read from the output index `at`."""
    rank = len(shape)
    others = [axis for axis in range(-rank, 0) if axis not in axes]
    fixed = {axis: at[rank + axis] for axis in others} if keep else dict(zip(others, at, strict=True))

    def nest(left: Sequence[int], index: dict[int, Any]) -> Any:
        if not left:
            return body(tuple(index[axis] for axis in range(-rank, 0)))
        return word(shape[left[0]], lambda i: nest(left[1:], {**index, left[0]: i}))

    return nest(tuple(axes), fixed)
