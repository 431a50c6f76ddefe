"""Variances, standard deviations and norms over axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from operators.axes import axes_of, over
from operators.expressions import Dim, larger, product
from operators.meaning import apply, as_value, divide, total
from operators.operator import Operator, TensorType, Unsupported, alias, operator
from operators.pointwise import floating, refuse
from operators.reductions import Reduction

Bound = tuple[Operator, Sequence[Any]]


class Spread(Reduction):
    """A variance or what follows from one; the divisor is the number of elements less `correction`, at least 0."""

    correction: Dim

    def dtype(self, *operands: TensorType) -> str:
        return floating(self, operands[0])

    def divisor(self, x: Any) -> Dim:
        """The number of elements less the correction, and not below 0."""
        count = self.count(x)
        return count if isinstance(self.correction, int) and self.correction == 0 else larger(count - self.correction, 0)

    def variance(self, at: tuple[Any, ...], x: Any) -> Any:
        mean = divide(over(total, x.shape, self.axes, at, self.keep, lambda index: x[index]), as_value(self.count(x)))
        squares = over(total, x.shape, self.axes, at, self.keep, lambda index: (x[index] - mean) * (x[index] - mean))
        return divide(squares, as_value(self.divisor(x)))

    def flops(self, *operands: TensorType) -> Dim:
        return 4 * product(operands[0].shape)

    def run(self, *tensors: Any) -> Any:
        import torch

        x, axes, keep = self.with_an_axis(tensors[0])
        return getattr(torch, self.onto)(x, dim=axes, correction=self.correction, keepdim=keep)

    @classmethod
    def bind(
        cls, input: Any, dim: Any = None, unbiased: Any = True, keepdim: bool = False, *, correction: Any = None, out: Any = None
    ) -> Bound:
        refuse(cls, out=out)
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        amount = (1 if unbiased else 0) if correction is None else correction
        if isinstance(amount, float):
            raise Unsupported(f"{cls.__name__}: correction must be an integer, got {amount}")
        return cls(axes_of(dim, input.ndim, cls.__name__), bool(keepdim), amount), [input]  # type: ignore[call-arg]


@operator(torch="var")
class Variance(Spread):
    """Σ (x − mean)² / max(0, number of elements − correction) over the axes."""

    axes: tuple[int, ...]
    keep: bool = False
    correction: Dim = 1
    onto: ClassVar[str] = "var"

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        return self.variance(at, operands[0])

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        centred = x - self.over_axes("mean", x)
        return (self.spread(out_grad, x) * 2 * centred / (self.count(x) - self.correction),)


@operator(torch="std")
class StandardDeviation(Spread):
    """The square root of the variance over the axes."""

    axes: tuple[int, ...]
    keep: bool = False
    correction: Dim = 1
    onto: ClassVar[str] = "std"

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        return apply("sqrt", self.variance(at, operands[0]))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        import torch

        centred, divisor = x - self.over_axes("mean", x), self.divisor(x)
        deviation = (self.over_axes("sum", centred * centred) / divisor).sqrt()
        slope = torch.where(deviation == 0, 0.0, centred / (deviation * divisor))
        return (self.spread(out_grad, x) * slope,)


@alias("var_mean std_mean")
def _moments(*args: Any, **named: Any) -> Bound:
    raise Unsupported("var_mean: call var and mean apart")


@operator(torch="norm linalg_vector_norm vector_norm", onnx="ReduceL2")
class EuclideanNorm(Reduction):
    """√Σ x² over the axes."""

    axes: tuple[int, ...]
    keep: bool = False

    def dtype(self, *operands: TensorType) -> str:
        return floating(self, operands[0])

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        return apply("sqrt", over(total, x.shape, self.axes, at, self.keep, lambda index: x[index] * x[index]))

    def flops(self, *operands: TensorType) -> Dim:
        return 2 * product(operands[0].shape)

    def run(self, *tensors: Any) -> Any:
        import torch

        x, axes, keep = self.with_an_axis(tensors[0])
        return torch.linalg.vector_norm(x, 2, axes, keep)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        import torch

        norm = self.over_axes("sum", x * x).sqrt()
        return (self.spread(out_grad, x) * torch.where(norm == 0, 0.0, x / norm),)

    @classmethod
    def bind(
        cls, input: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, p: Any = None, dtype: Any = None, out: Any = None
    ) -> Bound:
        refuse(cls, out=out, dtype=dtype)
        order = ord if p is None else p
        if order not in (2, "fro"):
            raise Unsupported(f"EuclideanNorm: only order 2 is covered, got {order}")
        return cls(axes_of(dim, input.ndim, "EuclideanNorm"), bool(keepdim)), [input]
