"""Pooling to a wanted size: n samples, c channels, positions *h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from operators.convolution import nested_total, per_axis
from operators.expressions import Dim, floor_divide, plain, product
from operators.formulas import all_of, at_least_zero
from operators.meaning import as_value, constant, divide, when
from operators.operator import Operator, TensorType, Unsupported, is_known_equal, operator, require
from operators.pointwise import floating
from operators.pooling import nested_largest


class AdaptivePool(Operator):
    """Pooling to a size: output i of `out` takes the positions from ⌊i·h/out⌋ to before ⌈(i + 1)·h/out⌉."""

    size: tuple[Dim, ...]
    axes: ClassVar[int]
    needs_channels: ClassVar[bool] = False
    """PyTorch refuses an input without channels (of the largest element, not of the mean)."""

    def dtype(self, *operands: TensorType) -> str:
        return floating(self, operands[0])

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        require(self, x.ndim == self.axes + 2, f"x must have {self.axes + 2} axes, got {x}")
        if self.needs_channels:
            require(self, at_least_zero(x.shape[1] - 1), f"there must be channels, got {x}")
        for size, out in zip(x.shape[2:], self.size, strict=True):
            require(self, all_of(at_least_zero(size - 1), at_least_zero(out)), f"positions must not be empty, got {x}")
        return (*x.shape[:2], *self.size)

    def flops(self, *operands: TensorType) -> Dim:
        return product(operands[0].shape)

    def bounds(self, i: Any, size: Dim, out: Dim) -> tuple[Any, Any]:
        """Where window i starts and ends."""
        return floor_divide(i * size, out), floor_divide((i + 1) * size + out - 1, out)

    def whole(self, size: Dim, out: Dim) -> bool:
        """The one window covers the axis."""
        return is_known_equal(out, 1)

    @classmethod
    def bind(cls, input: Any, output_size: Any, return_indices: bool = False) -> tuple[Operator, Sequence[Any]]:
        if return_indices or input.ndim != cls.axes + 2:
            raise Unsupported(f"{cls.__name__}: indices, or x of other than {cls.axes + 2} axes, are not covered")
        wanted = per_axis(output_size, cls.axes)
        return cls(tuple(plain(size) if out is None else out for out, size in zip(wanted, input.shape[2:], strict=True))), [input]  # type: ignore[call-arg]


class AdaptiveAverage(AdaptivePool):
    """The mean of each window."""

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands

        def tap(where: tuple[Any, ...]) -> Any:
            inside = []
            for i, y, size, out in zip(at[2:], where, x.shape[2:], self.size, strict=True):
                if not self.whole(size, out):
                    start, end = self.bounds(i, size, out)
                    inside += [at_least_zero(y - start), at_least_zero(end - y - 1)]
            return when(all_of(*inside), lambda: x[(*at[:2], *where)], lambda: constant(0))

        count: Any = 1
        for i, size, out in zip(at[2:], x.shape[2:], self.size, strict=True):
            start, end = (0, size) if self.whole(size, out) else self.bounds(i, size, out)
            count = count * (end - start)
        return divide(nested_total(x.shape[2:], tap), as_value(count))

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        return getattr(F, f"adaptive_avg_pool{self.axes}d")(tensors[0], self.size)


class AdaptiveMax(AdaptivePool):
    """The largest element of each window."""

    needs_channels: ClassVar[bool] = True

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands

        def tap(where: tuple[Any, ...]) -> Any:
            inside = []
            for i, y, size, out in zip(at[2:], where, x.shape[2:], self.size, strict=True):
                if not self.whole(size, out):
                    start, end = self.bounds(i, size, out)
                    inside += [at_least_zero(y - start), at_least_zero(end - y - 1)]
            return when(all_of(*inside), lambda: x[(*at[:2], *where)], lambda: constant(float("-inf")))

        return nested_largest(x.shape[2:], tap)

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        return getattr(F, f"adaptive_max_pool{self.axes}d")(tensors[0], self.size)


@operator(torch="adaptive_avg_pool1d")
class AdaptiveAvgPool1d(AdaptiveAverage):
    """The mean of each window, the windows chosen so that one axis come out with the wanted size."""

    size: tuple[Dim, ...]
    axes: ClassVar[int] = 1


@operator(torch="adaptive_avg_pool2d _adaptive_avg_pool2d")
class AdaptiveAvgPool2d(AdaptiveAverage):
    """The mean of each window, the windows chosen so that two axes come out with the wanted size."""

    size: tuple[Dim, ...]
    axes: ClassVar[int] = 2


@operator(torch="adaptive_avg_pool3d _adaptive_avg_pool3d")
class AdaptiveAvgPool3d(AdaptiveAverage):
    """The mean of each window, the windows chosen so that three axes come out with the wanted size."""

    size: tuple[Dim, ...]
    axes: ClassVar[int] = 3


@operator(torch="adaptive_max_pool1d")
class AdaptiveMaxPool1d(AdaptiveMax):
    """The largest element of each window, the windows chosen so that one axis come out with the wanted size."""

    size: tuple[Dim, ...]
    axes: ClassVar[int] = 1


@operator(torch="adaptive_max_pool2d")
class AdaptiveMaxPool2d(AdaptiveMax):
    """The largest element of each window, the windows chosen so that two axes come out with the wanted size."""

    size: tuple[Dim, ...]
    axes: ClassVar[int] = 2


@operator(torch="adaptive_max_pool3d")
class AdaptiveMaxPool3d(AdaptiveMax):
    """The largest element of each window, the windows chosen so that three axes come out with the wanted size."""

    size: tuple[Dim, ...]
    axes: ClassVar[int] = 3
