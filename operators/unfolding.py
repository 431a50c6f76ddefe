"""Patches of images as columns, and channels traded for positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operators.axes import sizes
from operators.convolution import per_axis
from operators.expressions import Dim, divide_exactly, floor_divide, product
from operators.formulas import all_of, at_least_zero
from operators.layout import Permute, Reshape
from operators.meaning import constant, unravel, when, within
from operators.operator import Applied, Operator, TensorType, Unsupported, alias, operator, require
from operators.pointwise import concrete, floating

Bound = tuple[Operator, Sequence[Any]]


@operator(torch="functional.unfold im2col")
class Unfold(Operator):
    """Every window of an image as a column (the matrix by which a convolution is a product); outside counts as 0.

    x: [n, c, h, w]   ->   [n, c·kh·kw, h'·w']   with h' = ⌊(h + 2*padding − dilation*(kh − 1) − 1) / stride⌋ + 1
    """

    kernel: tuple[Dim, ...]
    dilation: tuple[Dim, ...] = (1, 1)
    padding: tuple[Dim, ...] = (0, 0)
    stride: tuple[Dim, ...] = (1, 1)

    def places(self, x: Any) -> tuple[Dim, ...]:
        """How many windows there are along each axis of positions."""
        attributes = zip(x.shape[2:], self.kernel, self.dilation, self.padding, self.stride, strict=True)
        return tuple(floor_divide(size + 2 * p - d * (k - 1) - 1, s) + 1 for size, k, d, p, s in attributes)

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        require(self, x.ndim == 4, f"x must have 4 axes, got {x}")
        for size, k, d, p, s in zip(x.shape[2:], self.kernel, self.dilation, self.padding, self.stride, strict=True):
            fits = all_of(at_least_zero(k - 1), at_least_zero(s - 1), at_least_zero(d - 1), at_least_zero(p))
            require(self, fits, f"kernel, stride and dilation must be at least 1 and padding at least 0, got {self}")
            require(self, at_least_zero(size + 2 * p - d * (k - 1) - 1), f"the window must fit into the padded input, got {x} and {self}")
        return (x.shape[0], x.shape[1] * product(self.kernel), product(self.places(x)))

    def dtype(self, *operands: TensorType) -> str:
        return floating(self, operands[0])

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands

        def read(c: Any, *taps_and_places: Any) -> Any:
            taps, places = taps_and_places[:2], taps_and_places[2:]
            attributes = zip(taps, places, self.dilation, self.padding, self.stride, strict=True)
            where = tuple(place * s + tap * d - p for tap, place, d, p, s in attributes)
            there = all_of(*(within(i, size) for i, size in zip(where, x.shape[2:], strict=True)))
            return when(there, lambda: x[(at[0], c, *where)], lambda: constant(0))

        rows = (x.shape[1], *self.kernel)
        return unravel(at[1], rows, lambda *row: unravel(at[2], self.places(x), lambda *places: read(*row, *places)))

    def flops(self, *operands: TensorType) -> Dim:
        return 0

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        return F.unfold(tensors[0], *concrete((self.kernel, self.dilation, self.padding, self.stride)))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        """Every column added back at the places it was read from: a transposed convolution with kernels of a single 1."""
        import torch
        import torch.nn.functional as F

        (x,) = operands
        n, c, *positions = x.shape
        places = self.places(x)
        attributes = zip(positions, places, self.kernel, self.dilation, self.padding, self.stride, strict=True)
        more = tuple(size - ((place - 1) * s - 2 * p + d * (k - 1) + 1) for size, place, k, d, p, s in attributes)
        count = c * product(self.kernel)
        ones = torch.eye(count).to(out_grad.dtype).reshape((count, c, *self.kernel))  # type: ignore[arg-type]
        image = out_grad.reshape((n, count, *places))
        return (F.conv_transpose2d(image, ones, None, self.stride, self.padding, more, 1, self.dilation),)  # type: ignore[arg-type]

    @classmethod
    def bind(cls, input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1, *more: Any) -> Bound:
        if more or (isinstance(input.ndim, int) and input.ndim != 4):
            raise Unsupported("Unfold: x must have 4 axes")
        return cls(*(per_axis(value, 2) for value in (kernel_size, dilation, padding, stride))), [input]


def _whole_part(size: Dim, part: Dim, who: str) -> Dim:
    """size / part, which must leave no rest."""
    result = divide_exactly(size, part)
    if result is None:
        raise Unsupported(f"{who}: {size} must be a multiple of {part}")
    return result


@alias("pixel_shuffle")
def _pixel_shuffle(input: Any, upscale_factor: Any) -> Bound:
    if input.ndim != 4:
        raise Unsupported(f"pixel_shuffle: x must have 4 axes, got {input.ndim}")
    n, c, h, w = sizes(input)
    r = upscale_factor
    out = _whole_part(c, r * r, "pixel_shuffle")
    apart = Applied(Reshape((n, out, r, r, h, w)), [input])
    return Reshape((n, out, h * r, w * r)), [Applied(Permute((-2, -4, -1, -3)), [apart])]


@alias("pixel_unshuffle")
def _pixel_unshuffle(input: Any, downscale_factor: Any) -> Bound:
    if input.ndim != 4:
        raise Unsupported(f"pixel_unshuffle: x must have 4 axes, got {input.ndim}")
    n, c, h, w = sizes(input)
    r = downscale_factor
    rows, columns = _whole_part(h, r, "pixel_unshuffle"), _whole_part(w, r, "pixel_unshuffle")
    apart = Applied(Reshape((n, c, rows, r, columns, r)), [input])
    return Reshape((n, c * r * r, rows, columns)), [Applied(Permute((-3, -1, -4, -2)), [apart])]


@alias("channel_shuffle")
def _channel_shuffle(input: Any, groups: Any) -> Bound:
    n, c, *rest = sizes(input)
    apart = Applied(Reshape((n, groups, _whole_part(c, groups, "channel_shuffle"), *rest)), [input])
    rank = len(rest) + 3
    order = list(range(-rank, 0))
    order[1], order[2] = order[2], order[1]
    return Reshape((n, c, *rest)), [Applied(Permute.of(order), [apart])]
