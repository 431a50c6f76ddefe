"""Resizing images: each output position reads x at one position (nearest) or between two per axis (linear).

The sizes are numbers: where an output position reads is rounded as torch rounds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from operators.axes import sizes
from operators.expressions import Dim, product
from operators.formulas import equal
from operators.meaning import constant, when
from operators.operator import Operator, ShapeError, TensorType, Unsupported, alias, operator, require
from operators.pointwise import floating

Bound = tuple[Operator, Sequence[Any]]


def at_each(index: Any, count: int, body: Callable[[int], Any]) -> Any:
    """`body(index)` for an index below count that may be symbolic, by cases."""
    if isinstance(index, int):
        return body(index)
    result = body(count - 1)
    for case in reversed(range(count - 1)):
        result = when(equal(index, case), partial(body, case), partial(_given, result))
    return result


def _given(value: Any) -> Any:
    return value


@operator(onnx="Resize")
class Interpolate(Operator):
    """x resized to `size` along its axes of positions.

    `mode` is "nearest", "nearest-exact", "linear", "bilinear" or "trilinear"; `corners` aligns the centres of the corner elements;
    `scales` are the factors torch reads positions by, where they were given and not to be recomputed from the sizes.

    x: [n, c, *s]   ->   [n, c, *size]
    """

    size: tuple[int, ...]
    mode: str = "nearest"
    corners: bool = False
    scales: tuple[float, ...] | None = None

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        require(self, x.ndim == len(self.size) + 2, f"x must have {len(self.size) + 2} axes, got {x}")
        if not all(isinstance(dim, int) for dim in (*x.shape[2:], *self.size)):
            raise ShapeError(f"Interpolate: positions must be numbers, got {x}")
        require(self, all(dim > 0 for dim in (*x.shape[2:], *self.size)), f"positions must not be empty, got {x}")
        return (*x.shape[:2], *self.size)

    def dtype(self, *operands: TensorType) -> str:
        return floating(self, operands[0])

    def flops(self, *operands: TensorType) -> Dim:
        taps = 1 if self.mode.startswith("nearest") else 2 ** len(self.size)
        return (2 * taps - 1 if taps > 1 else 0) * product(self.shape(*operands))

    def taps(self, axis: int, i: int, size: int) -> list[tuple[int, float]]:
        """The positions of x that output position i reads along an axis of this size, with their weights."""
        out = self.size[axis]
        step = size / out if self.scales is None else 1 / self.scales[axis]
        if self.mode == "nearest":
            return [(min(int(i * step), size - 1), 1.0)]
        if self.mode == "nearest-exact":
            return [(min(int((i + 0.5) * step), size - 1), 1.0)]
        if self.corners:
            place = i * (size - 1) / (out - 1) if out > 1 else 0.0
        else:
            place = max((i + 0.5) * step - 0.5, 0.0)
        low = min(int(place), size - 1)
        fraction = min(max(place - low, 0.0), 1.0)
        return [(low, 1 - fraction), (min(low + 1, size - 1), fraction)]

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands

        def read(axis: int, index: tuple[int, ...]) -> Any:
            if axis == len(self.size):
                return x[(*at[:2], *index)]
            return at_each(at[2 + axis], self.size[axis], lambda i: weigh(axis, index, self.taps(axis, i, x.shape[2 + axis])))

        def weigh(axis: int, index: tuple[int, ...], taps: list[tuple[int, float]]) -> Any:
            if len(taps) == 1:
                return read(axis + 1, (*index, taps[0][0]))
            (low, of_low), (high, of_high) = taps
            return constant(of_low) * read(axis + 1, (*index, low)) + constant(of_high) * read(axis + 1, (*index, high))

        return read(0, ())

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        corners = self.corners if not self.mode.startswith("nearest") else None
        if self.scales is None:
            return F.interpolate(tensors[0], size=self.size, mode=self.mode, align_corners=corners)
        return F.interpolate(tensors[0], scale_factor=self.scales, mode=self.mode, align_corners=corners, recompute_scale_factor=False)


@alias("interpolate upsample")
def _interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Bound:
    if antialias or mode not in ("nearest", "nearest-exact", "linear", "bilinear", "trilinear"):
        raise Unsupported(f"Interpolate: mode {mode}{' with antialias' if antialias else ''} is not covered")
    shape = sizes(input)[2:]
    if size is not None:
        return _resized(input, tuple(size) if isinstance(size, (tuple, list)) else (size,) * len(shape), mode, bool(align_corners), None)
    factors = tuple(scale_factor) if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * len(shape)
    scales = None if recompute_scale_factor else tuple(float(factor) for factor in factors)
    return _resized(input, _scaled(shape, factors), mode, bool(align_corners), scales)


def _scaled(shape: Sequence[Dim], factors: Sequence[Any]) -> tuple[Any, ...]:
    if not all(isinstance(dim, int) and isinstance(factor, (int, float)) for dim, factor in zip(shape, factors, strict=True)):
        raise Unsupported("Interpolate: sizes and factors must be numbers")
    return tuple(int(float(dim) * factor) for dim, factor in zip(shape, factors, strict=True))


def _resized(input: Any, size: tuple[Any, ...], mode: str, corners: bool, scales: tuple[float, ...] | None) -> Bound:
    if not all(isinstance(dim, int) for dim in (*size, *sizes(input)[2:])):
        raise Unsupported("Interpolate: sizes must be numbers")
    return Interpolate(size, mode, corners, scales), [input]


def _declare_upsample(name: str, mode: str, linear: bool) -> None:
    @alias(name)
    def bind(input: Any, output_size: Any, *args: Any, scale_factors: Any = None, align_corners: bool = False) -> Bound:
        rest = list(args)
        corners = bool(rest.pop(0)) if linear and rest else align_corners
        given = rest[0] if len(rest) == 1 and isinstance(rest[0], (tuple, list)) else rest
        factors = scale_factors if scale_factors is not None else [factor for factor in given if factor is not None]
        scales = tuple(float(factor) for factor in factors) or None
        size = output_size if output_size is not None else _scaled(sizes(input)[2:], factors)
        return _resized(input, tuple(size), mode, corners, scales)


for _name, _mode in (("linear1d", "linear"), ("bilinear2d", "bilinear"), ("trilinear3d", "trilinear")):
    _declare_upsample(f"upsample_{_name}", _mode, True)
for _rank in (1, 2, 3):
    _declare_upsample(f"upsample_nearest{_rank}d", "nearest", False)
    _declare_upsample(f"_upsample_nearest_exact{_rank}d", "nearest-exact", False)
