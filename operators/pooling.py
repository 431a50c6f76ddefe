"""Pooling over one, two or three axes of positions: n samples, c channels, positions *h, windows *k.

What lies outside counts as −inf in max pooling, and in average pooling as 0 that is part of the mean
(`count_include_pad`) or is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from operators.convolution import nested_total, per_axis
from operators.expressions import Dim, floor_divide, larger, plain, product, smaller
from operators.formulas import all_of, at_least_zero
from operators.meaning import as_value, constant, divide, largest, when, within
from operators.operator import Operator, TensorType, Unsupported, alias, is_known_equal, operator, require
from operators.pointwise import floating

Bound = tuple[Operator, Sequence[Any]]


def nested_largest(extents: Sequence[Dim], body: Any) -> Any:
    """The largest body over every index within the extents."""
    if not extents:
        return body(())
    return largest(extents[0], lambda i: nested_largest(extents[1:], lambda rest: body((i, *rest))))


class Pooling(Operator):
    """What poolings with a window share; `axes` is the number of axes of positions."""

    kernel: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    padding: tuple[Dim, ...]
    ceil: bool
    axes: ClassVar[int]

    @property
    def spread(self) -> tuple[Dim, ...]:
        """The distance between neighbours in a window, per axis."""
        return (1,) * self.axes

    def check_rank(self, x: TensorType) -> None:
        """Require as many axes as samples, channels and positions have."""
        require(self, x.ndim == self.axes + 2, f"x must have {self.axes + 2} axes, got {x}")

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        x = operands[0]
        self.check_rank(x)
        require(self, all_of(*(at_least_zero(size - 1) for size in x.shape[1:])), f"only the axis of samples may be empty, got {x}")
        result = []
        for size, k, s, p, d in zip(x.shape[2:], self.kernel, self.stride, self.padding, self.spread, strict=True):
            room = size + 2 * p - d * (k - 1) - 1
            fits = all_of(at_least_zero(k - 1), at_least_zero(s - 1), at_least_zero(p), at_least_zero(d - 1), at_least_zero(k - 2 * p))
            require(self, fits, f"padding must be at most half the window, stride at least 1, got {self}")
            if not self.ceil:
                require(self, at_least_zero(room), f"the window must fit into the padded input, got {x} and {self}")
                result.append(floor_divide(room, s) + 1)
                continue
            if not all(isinstance(value, int) for value in (room, s, size, p)):
                raise Unsupported(f"{type(self).__name__}: ceil_mode needs sizes that are numbers, got {x}")
            count = floor_divide(room + s - 1, s) + 1
            last_starts_inside = (count - 1) * s < size + p
            require(
                self, count >= 1 and (last_starts_inside or count >= 2), f"the window must fit into the padded input, got {x} and {self}"
            )
            result.append(count if last_starts_inside else count - 1)
        return (*x.shape[:2], *result)

    def dtype(self, *operands: TensorType) -> str:
        return floating(self, operands[0])

    def flops(self, *operands: TensorType) -> Dim:
        return product(self.shape(*operands)) * product(self.kernel)

    def where(self, at: Sequence[Any], taps: Sequence[Any]) -> tuple[Any, ...]:
        """The positions in x of one place in a window."""
        return tuple(i * s + a * d - p for i, s, a, d, p in zip(at[2:], self.stride, taps, self.spread, self.padding, strict=True))


class MaxPool(Pooling):
    """The largest element of each window."""

    dilation: tuple[Dim, ...]

    @property
    def spread(self) -> tuple[Dim, ...]:
        return self.dilation

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands

        def tap(taps: tuple[Any, ...]) -> Any:
            where = self.where(at, taps)
            there = all_of(*(within(i, size) for i, size in zip(where, x.shape[2:], strict=True)))
            return when(there, lambda: x[(*at[:2], *where)], lambda: constant(float("-inf")))

        return nested_largest(self.kernel, tap)

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        return getattr(F, f"max_pool{self.axes}d")(tensors[0], self.kernel, self.stride, self.padding, self.dilation, self.ceil)

    @classmethod
    def bind(
        cls,
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Bound:
        if return_indices or input.ndim != cls.axes + 2:
            raise Unsupported(f"{cls.__name__}: indices, or x of other than {cls.axes + 2} axes, are not covered")
        kernel = per_axis(kernel_size, cls.axes)
        steps = per_axis(stride, cls.axes) if stride not in (None, [], ()) else kernel
        return cls(kernel, steps, per_axis(padding, cls.axes), bool(ceil_mode), per_axis(dilation, cls.axes)), [input]  # type: ignore[call-arg]


class AveragePool(Pooling):
    """The mean of each window."""

    include_padding: bool
    divisor: Dim | None

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands

        def tap(taps: tuple[Any, ...]) -> Any:
            where = self.where(at, taps)
            there = all_of(*(within(i, size) for i, size in zip(where, x.shape[2:], strict=True)))
            return when(there, lambda: x[(*at[:2], *where)], lambda: constant(0))

        return divide(nested_total(self.kernel, tap), self.count(at, x))

    def count(self, at: Sequence[Any], x: Any) -> Any:
        """What the sum of a window is divided by."""
        if self.divisor is not None:
            return as_value(self.divisor)
        padded = any(not is_known_equal(p, 0) for p in self.padding)
        if not padded and not self.ceil:
            return as_value(product(self.kernel))
        count: Dim = 1
        for i, size, k, s, p in zip(at[2:], x.shape[2:], self.kernel, self.stride, self.padding, strict=True):
            start, last = i * s - p, size + p if self.include_padding else size
            end = start + k if self.include_padding and not self.ceil else smaller(start + k, last)
            count = count * (end - (start if self.include_padding else larger(start, 0)))
        return as_value(count)

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        arguments = (tensors[0], self.kernel, self.stride, self.padding, self.ceil, self.include_padding)
        return getattr(F, f"avg_pool{self.axes}d")(*arguments, *(() if self.axes == 1 else (self.divisor,)))

    @classmethod
    def bind(
        cls,
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Bound:
        if input.ndim != cls.axes + 2:
            raise Unsupported(f"{cls.__name__}: x must have {cls.axes + 2} axes, got {input.ndim}")
        kernel = per_axis(kernel_size, cls.axes)
        steps = per_axis(stride, cls.axes) if stride not in (None, [], ()) else kernel
        return cls(kernel, steps, per_axis(padding, cls.axes), bool(ceil_mode), bool(count_include_pad), plain(divisor_override)), [input]  # type: ignore[call-arg]


@operator(torch="max_pool1d", onnx="MaxPool")
class MaxPool1d(MaxPool):
    """The largest element of each window over one axis; outside counts as −inf.

    x: [n, c, h]   ->   [n, c, h']   with h' = ⌊(h + 2*padding − dilation*(k − 1) − 1) / stride⌋ + 1
    """

    kernel: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    padding: tuple[Dim, ...] = (0,)
    ceil: bool = False
    dilation: tuple[Dim, ...] = (1,)
    axes: ClassVar[int] = 1


@operator(torch="max_pool2d", onnx="MaxPool")
class MaxPool2d(MaxPool):
    """The largest element of each window over two axes; outside counts as −inf.

    x: [n, c, h, w]   ->   [n, c, h', w']   with h' = ⌊(h + 2*padding − dilation*(k − 1) − 1) / stride⌋ + 1
    """

    kernel: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    padding: tuple[Dim, ...] = (0, 0)
    ceil: bool = False
    dilation: tuple[Dim, ...] = (1, 1)
    axes: ClassVar[int] = 2


@operator(torch="max_pool3d", onnx="MaxPool")
class MaxPool3d(MaxPool):
    """The largest element of each window over three axes; outside counts as −inf.

    x: [n, c, d, h, w]   ->   [n, c, d', h', w']   with h' = ⌊(h + 2*padding − dilation*(k − 1) − 1) / stride⌋ + 1
    """

    kernel: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    padding: tuple[Dim, ...] = (0, 0, 0)
    ceil: bool = False
    dilation: tuple[Dim, ...] = (1, 1, 1)
    axes: ClassVar[int] = 3


@operator(torch="avg_pool1d", onnx="AveragePool")
class AvgPool1d(AveragePool):
    """The mean of each window over one axis, divided by `divisor` if given, else by the window's size in or beyond the padding.

    x: [n, c, h]   ->   [n, c, h']   with h' = ⌊(h + 2*padding − k) / stride⌋ + 1
    """

    kernel: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    padding: tuple[Dim, ...] = (0,)
    ceil: bool = False
    include_padding: bool = True
    divisor: Dim | None = None
    axes: ClassVar[int] = 1


@operator(torch="avg_pool2d", onnx="AveragePool")
class AvgPool2d(AveragePool):
    """The mean of each window over two axes, divided by `divisor` if given, else by the window's size in or beyond the padding.

    x: [n, c, h, w]   ->   [n, c, h', w']   with h' = ⌊(h + 2*padding − k) / stride⌋ + 1
    """

    kernel: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    padding: tuple[Dim, ...] = (0, 0)
    ceil: bool = False
    include_padding: bool = True
    divisor: Dim | None = None
    axes: ClassVar[int] = 2


@operator(torch="avg_pool3d", onnx="AveragePool")
class AvgPool3d(AveragePool):
    """The mean of each window over three axes, divided by `divisor` if given, else by the window's size in or beyond the padding.

    x: [n, c, d, h, w]   ->   [n, c, d', h', w']   with h' = ⌊(h + 2*padding − k) / stride⌋ + 1
    """

    kernel: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    padding: tuple[Dim, ...] = (0, 0, 0)
    ceil: bool = False
    include_padding: bool = True
    divisor: Dim | None = None
    axes: ClassVar[int] = 3

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        """torch's kernel for three axes also asks that the window fits without the padding."""
        result = super().shape(*operands)
        for size, k in zip(operands[0].shape[2:], self.kernel, strict=True):
            require(self, at_least_zero(size - k), f"the window must fit into x, got {operands[0]} and {self}")
        return result


@alias("max_pool2d_with_indices")
def _with_positions(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Bound:
    """The first output; the positions are not covered."""
    return MaxPool2d.bind(input, kernel_size, stride, padding, dilation, ceil_mode)
