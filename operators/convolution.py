"""Convolutions over one, two or three axes of positions, and their transposes.

n samples, groups·c input channels, groups·o output channels, positions *h, kernels *k. Convolution here is torch's:
cross-correlation. Padding is of zeros and equal on both sides; other padding is a `Pad` before the convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from operators.axes import sizes
from operators.expressions import Dim, floor_divide, plain, product
from operators.formulas import at_least_zero, equal
from operators.meaning import constant, total, unravel, when, within
from operators.operator import (
    Applied,
    Operator,
    TensorType,
    Unsupported,
    alias,
    all_of,
    is_known_equal,
    operator,
    require,
)
from operators.padding import Pad
from operators.pointwise import same_dtype

Bound = tuple[Operator, Sequence[Any]]


def per_axis(value: Any, axes: int) -> tuple[Any, ...]:
    """A torch argument that is one number or one per axis, as one per axis."""
    listed = tuple(plain(tuple(value))) if isinstance(value, (tuple, list)) else (plain(value),)
    return listed * axes if len(listed) == 1 else listed


def nested_total(extents: Sequence[Dim], body: Callable[[tuple[Any, ...]], Any]) -> Any:
    """Σ of body over every index within the extents."""
    if not extents:
        return body(())
    return total(extents[0], lambda i: nested_total(extents[1:], lambda rest: body((i, *rest))))


class ConvolutionBase(Operator):
    """What convolutions share; `axes` is the number of axes of positions."""

    stride: tuple[Dim, ...]
    padding: tuple[Dim, ...]
    dilation: tuple[Dim, ...]
    groups: Dim
    axes: ClassVar[int]
    absent: ClassVar[dict[int, float]] = {2: 0.0}

    def check(self, x: TensorType, weight: TensorType, bias: TensorType | None, channels: Dim) -> None:
        """Require ranks, attributes and a bias that fit."""
        rank = self.axes + 2
        require(self, x.ndim == rank and weight.ndim == rank, f"x and weight must have {rank} axes, got {x} and {weight}")
        for amount in (*self.stride, *self.dilation, self.groups):
            require(self, at_least_zero(amount - 1), f"stride, dilation and groups must be at least 1, got {self}")
        for amount in self.padding:
            require(self, at_least_zero(amount), f"padding must not be negative, got {self}")
        if bias is not None:
            require(self, bias.ndim == 1 and equal(bias.shape[0], channels), f"bias must be [{channels}], got {bias}")

    def dtype(self, *operands: Any) -> str:
        return same_dtype(self, *operands)

    @classmethod
    def own_padding(cls, input: Any, weight: Any, padding: Any, dilation: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """The input, padded beforehand when "same" asks for unequal sides, and the padding left to the convolution."""
        if padding == "valid":
            return input, (0,) * cls.axes
        if padding != "same":
            return input, per_axis(padding, cls.axes)
        whole = [d * (k - 1) for d, k in zip(dilation, sizes(weight)[2:], strict=True)]
        before = [floor_divide(amount, 2) for amount in whole]
        if all(is_known_equal(2 * half, amount) for half, amount in zip(before, whole, strict=True)):
            return input, tuple(before)
        sides = [side for half, amount in zip(reversed(before), reversed(whole), strict=True) for side in (half, amount - half)]
        return Applied(Pad(tuple(sides)), [input, 0.0]), (0,) * cls.axes


class Convolution(ConvolutionBase):
    """Cross-correlation of x with kernels, in groups of channels."""

    def shape(self, x: TensorType, weight: TensorType, bias: TensorType | None = None) -> tuple[Dim, ...]:
        self.check(x, weight, bias, weight.shape[0])
        n, channels, *positions = x.shape
        out_channels, per_group, *kernel = weight.shape
        require(
            self,
            equal(channels, per_group * self.groups),
            f"channels of x must be groups * channels of weight, got {channels} and {self.groups} * {per_group}",
        )
        require(
            self,
            all_of(at_least_zero(per_group - 1), at_least_zero(out_channels - 1)),
            f"there must be input and output channels, as torch's kernels demand, got {weight}",
        )
        require(
            self,
            equal(out_channels % self.groups, 0),
            f"output channels must be a multiple of groups, got {out_channels} and {self.groups}",
        )
        result = []
        for size, k, s, p, d in zip(positions, kernel, self.stride, self.padding, self.dilation, strict=True):
            room = size + 2 * p - d * (k - 1) - 1
            require(
                self,
                all_of(at_least_zero(room), at_least_zero(k - 1)),
                f"the kernel must fit into the padded input, got size {size}, padding {p}, kernel {k}, dilation {d}",
            )
            result.append(floor_divide(room, s) + 1)
        return (n, out_channels, *result)

    def element(self, at: tuple[Any, ...], x: Any, weight: Any, bias: Any = None, *, output: int = 0) -> Any:
        n, o, *positions = at
        per_group, *kernel = weight.shape[1:]

        def tap(group: Any, c: Any, taps: tuple[Any, ...]) -> Any:
            where = tuple(
                i * s + a * d - p for i, s, a, d, p in zip(positions, self.stride, taps, self.dilation, self.padding, strict=True)
            )
            there = all_of(*(within(i, size) for i, size in zip(where, x.shape[2:], strict=True)))
            return when(there, lambda: x[n, group * per_group + c, *where], lambda: constant(0)) * weight[o, c, *taps]

        result = unravel(
            o,
            (self.groups, floor_divide(weight.shape[0], self.groups)),
            lambda group, _: total(per_group, lambda c: nested_total(kernel, lambda taps: tap(group, c, taps))),
        )
        return result if bias is None else result + bias[(o,)]

    def flops(self, x: TensorType, weight: TensorType, bias: TensorType | None = None) -> Dim:
        return 2 * product(self.shape(x, weight)) * product(weight.shape[1:])

    def run(self, x: Any, weight: Any, bias: Any = None) -> Any:
        import torch.nn.functional as F

        return getattr(F, f"conv{self.axes}d")(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    def gradient(self, out_grad: Any, x: Any, weight: Any, bias: Any = None) -> tuple[Any, ...]:
        """Of x: the transposed convolution. Of the weight: x convolved with out_grad, stride and dilation exchanged."""
        import torch.nn.functional as F

        out_shape = out_grad.shape[2:]
        left = []
        for size, k, s, p, d, out in zip(x.shape[2:], weight.shape[2:], self.stride, self.padding, self.dilation, out_shape, strict=True):
            left.append(size - ((out - 1) * s - 2 * p + d * (k - 1) + 1))
        transposed = getattr(F, f"conv_transpose{self.axes}d")
        by_x = transposed(out_grad, weight, None, self.stride, self.padding, tuple(left), self.groups, self.dilation)
        n, c, o = x.shape[0], weight.shape[1], weight.shape[0]
        grouped = x.reshape((n, self.groups, c, *x.shape[2:])).movedim(2, 0).movedim(2, 1).reshape((c, self.groups * n, *x.shape[2:]))
        kernels = out_grad.transpose(0, 1)
        by_weight = getattr(F, f"conv{self.axes}d")(grouped, kernels, None, self.dilation, self.padding, self.stride, self.groups)
        by_weight = by_weight[(slice(None), slice(None), *(slice(0, k) for k in weight.shape[2:]))].transpose(0, 1)
        return by_x, by_weight.reshape((o, c, *weight.shape[2:])), None if bias is None else out_grad.sum((0, *range(2, out_grad.ndim)))

    @classmethod
    def bind(
        cls, input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1
    ) -> Bound:
        if input.ndim != cls.axes + 2:
            raise Unsupported(f"{cls.__name__}: x must have {cls.axes + 2} axes, got {input.ndim} (a sample without a batch)")
        spread = per_axis(dilation, cls.axes)
        x, own = cls.own_padding(input, weight, padding, spread)
        return cls(per_axis(stride, cls.axes), own, spread, plain(groups)), [x, weight, bias]  # type: ignore[call-arg]


@operator(torch="conv1d", onnx="Conv")
class Conv1d(Convolution):
    """One-dimensional cross-correlation.

    x: [n, groups*c, h]   weight: [groups*o, c, k]   bias: [groups*o]   ->   [n, groups*o, h']
    with h' = ⌊(h + 2*padding − dilation*(k − 1) − 1) / stride⌋ + 1
    """

    stride: tuple[Dim, ...] = (1,)
    padding: tuple[Dim, ...] = (0,)
    dilation: tuple[Dim, ...] = (1,)
    groups: Dim = 1
    axes: ClassVar[int] = 1


@operator(torch="conv2d", onnx="Conv")
class Conv2d(Convolution):
    """Two-dimensional cross-correlation.

    x: [n, groups*c, h, w]   weight: [groups*o, c, kh, kw]   bias: [groups*o]   ->   [n, groups*o, h', w']
    with h' = ⌊(h + 2*padding − dilation*(kh − 1) − 1) / stride⌋ + 1
    """

    stride: tuple[Dim, ...] = (1, 1)
    padding: tuple[Dim, ...] = (0, 0)
    dilation: tuple[Dim, ...] = (1, 1)
    groups: Dim = 1
    axes: ClassVar[int] = 2


@operator(torch="conv3d", onnx="Conv")
class Conv3d(Convolution):
    """Three-dimensional cross-correlation.

    x: [n, groups*c, d, h, w]   weight: [groups*o, c, kd, kh, kw]   bias: [groups*o]   ->   [n, groups*o, d', h', w']
    """

    stride: tuple[Dim, ...] = (1, 1, 1)
    padding: tuple[Dim, ...] = (0, 0, 0)
    dilation: tuple[Dim, ...] = (1, 1, 1)
    groups: Dim = 1
    axes: ClassVar[int] = 3


class ConvolutionTranspose(ConvolutionBase):
    """The transpose of a convolution as a linear map: x is spread out by the stride and each element adds a kernel."""

    output_padding: tuple[Dim, ...]

    def shape(self, x: TensorType, weight: TensorType, bias: TensorType | None = None) -> tuple[Dim, ...]:
        n, channels, *positions = x.shape
        in_channels, per_group, *kernel = weight.shape
        out_channels = per_group * self.groups
        self.check(x, weight, bias, out_channels)
        require(self, equal(channels, in_channels), f"channels of x and weight must be equal, got {x} and {weight}")
        require(self, equal(channels % self.groups, 0), f"channels must be a multiple of groups, got {channels} and {self.groups}")
        result = []
        for size, k, s, p, d, extra in zip(positions, kernel, self.stride, self.padding, self.dilation, self.output_padding, strict=True):
            out = (size - 1) * s - 2 * p + d * (k - 1) + extra + 1
            require(
                self,
                all_of(at_least_zero(out - 1), at_least_zero(size - 1), at_least_zero(k - 1)),
                f"no axis may come out empty, got {x} and {weight}",
            )
            result.append(out)
        return (n, out_channels, *result)

    def element(self, at: tuple[Any, ...], x: Any, weight: Any, bias: Any = None, *, output: int = 0) -> Any:
        n, o, *positions = at
        in_channels, per_group, *kernel = weight.shape
        each = floor_divide(in_channels, self.groups)
        inputs = x.shape[2:]

        def tap(channel: Any, within_group: Any, sources: tuple[Any, ...]) -> Any:
            taps = [(i + p - y * s, d) for i, p, y, s, d in zip(positions, self.padding, sources, self.stride, self.dilation, strict=True)]

            def kernel_total(rest: Sequence[tuple[Any, Any]], extents: Sequence[Dim], index: tuple[Any, ...]) -> Any:
                if not rest:
                    return x[n, channel, *sources] * weight[channel, within_group, *index]
                (offset, spread), *others = rest
                return total(
                    extents[0],
                    lambda a: when(equal(offset, a * spread), lambda: kernel_total(others, extents[1:], (*index, a)), lambda: constant(0)),
                )

            return kernel_total(taps, kernel, ())

        result = unravel(
            o,
            (self.groups, per_group),
            lambda group, inner: total(each, lambda c: nested_total(inputs, lambda sources: tap(group * each + c, inner, sources))),
        )
        return result if bias is None else result + bias[(o,)]

    def flops(self, x: TensorType, weight: TensorType, bias: TensorType | None = None) -> Dim:
        return 2 * product(x.shape) * product(weight.shape[1:])

    def run(self, x: Any, weight: Any, bias: Any = None) -> Any:
        import torch.nn.functional as F

        function = getattr(F, f"conv_transpose{self.axes}d")
        return function(x, weight, bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation)

    def gradient(self, out_grad: Any, x: Any, weight: Any, bias: Any = None) -> tuple[Any, ...]:
        """Of x: the convolution. Of the weight: out_grad convolved with x, stride and dilation exchanged."""
        import torch.nn.functional as F

        convolution = getattr(F, f"conv{self.axes}d")
        by_x = convolution(out_grad, weight, None, self.stride, self.padding, self.dilation, self.groups)
        by_x = by_x[(slice(None), slice(None), *(slice(0, size) for size in x.shape[2:]))]
        n, o = x.shape[0], weight.shape[1]
        whole = out_grad.reshape((n, self.groups, o, *out_grad.shape[2:])).movedim(2, 0).movedim(2, 1)
        whole = whole.reshape((o, self.groups * n, *out_grad.shape[2:]))
        by_weight = convolution(whole, x.transpose(0, 1), None, self.dilation, self.padding, self.stride, self.groups)
        by_weight = by_weight[(slice(None), slice(None), *(slice(0, k) for k in weight.shape[2:]))].transpose(0, 1)
        return by_x, by_weight, None if bias is None else out_grad.sum((0, *range(2, out_grad.ndim)))

    @classmethod
    def bind(
        cls,
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: Any = 1,
        dilation: Any = 1,
    ) -> Bound:
        if input.ndim != cls.axes + 2:
            raise Unsupported(f"{cls.__name__}: x must have {cls.axes + 2} axes, got {input.ndim} (a sample without a batch)")
        parts = (per_axis(part, cls.axes) for part in (stride, padding, dilation))
        return cls(*parts, plain(groups), per_axis(output_padding, cls.axes)), [input, weight, bias]  # type: ignore[call-arg]


@operator(torch="conv_transpose1d", onnx="ConvTranspose")
class ConvTranspose1d(ConvolutionTranspose):
    """Transposed one-dimensional convolution.

    x: [n, groups*c, h]   weight: [groups*c, o, k]   bias: [groups*o]   ->   [n, groups*o, h']
    with h' = (h − 1)*stride − 2*padding + dilation*(k − 1) + output_padding + 1
    """

    stride: tuple[Dim, ...] = (1,)
    padding: tuple[Dim, ...] = (0,)
    dilation: tuple[Dim, ...] = (1,)
    groups: Dim = 1
    output_padding: tuple[Dim, ...] = (0,)
    axes: ClassVar[int] = 1


@operator(torch="conv_transpose2d", onnx="ConvTranspose")
class ConvTranspose2d(ConvolutionTranspose):
    """Transposed two-dimensional convolution.

    x: [n, groups*c, h, w]   weight: [groups*c, o, kh, kw]   bias: [groups*o]   ->   [n, groups*o, h', w']
    with h' = (h − 1)*stride − 2*padding + dilation*(kh − 1) + output_padding + 1
    """

    stride: tuple[Dim, ...] = (1, 1)
    padding: tuple[Dim, ...] = (0, 0)
    dilation: tuple[Dim, ...] = (1, 1)
    groups: Dim = 1
    output_padding: tuple[Dim, ...] = (0, 0)
    axes: ClassVar[int] = 2


@operator(torch="conv_transpose3d", onnx="ConvTranspose")
class ConvTranspose3d(ConvolutionTranspose):
    """Transposed three-dimensional convolution.

    x: [n, groups*c, d, h, w]   weight: [groups*c, o, kd, kh, kw]   bias: [groups*o]   ->   [n, groups*o, d', h', w']
    """

    stride: tuple[Dim, ...] = (1, 1, 1)
    padding: tuple[Dim, ...] = (0, 0, 0)
    dilation: tuple[Dim, ...] = (1, 1, 1)
    groups: Dim = 1
    output_padding: tuple[Dim, ...] = (0, 0, 0)
    axes: ClassVar[int] = 3


@alias("convolution")
def _convolution(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: Any
) -> Bound:
    axes = input.ndim - 3
    if axes not in range(3):
        raise Unsupported(f"convolution: x must have 3 to 5 axes, got {input.ndim}")
    if transposed:
        return (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)[axes].bind(
            input, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return (Conv1d, Conv2d, Conv3d)[axes].bind(input, weight, bias, stride, padding, dilation, groups)
