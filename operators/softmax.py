"""The softmax family, along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from operators.axes import axes_of, over, replaced
from operators.casts import cast
from operators.expressions import Dim, product
from operators.meaning import apply, divide, total
from operators.operator import Applied, Operator, TensorType, Unsupported, alias, canonical_axis, operator, require
from operators.pointwise import floating, refuse
from operators.reductions import Reduction

Bound = tuple[Operator, Sequence[Any]]


class SoftmaxBase(Operator):
    """A floating operator along one axis that keeps the shape."""

    axis: int

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        require(self, x.ndim >= -self.axis or x.ndim == 0, f"axis {self.axis} must exist, got {x}")
        return x.shape

    def dtype(self, *operands: TensorType) -> str:
        return floating(self, operands[0])

    def denominator(self, at: tuple[Any, ...], x: Any) -> Any:
        """Σ of e^x along the axis."""
        if not at:
            return apply("exp", x[at])
        return total(x.shape[self.axis], lambda i: apply("exp", x[replaced(at, self.axis, i)]))

    def flops(self, *operands: TensorType) -> Dim:
        return 3 * product(operands[0].shape)

    @classmethod
    def bind(cls, input: Any, dim: Any = None, *args: Any, dtype: Any = None, half_to_float: bool = False, _stacklevel: int = 3) -> Bound:
        import torch

        for argument in args:
            if isinstance(argument, bool):
                half_to_float = argument
            elif isinstance(argument, torch.dtype):
                dtype = argument
        refuse(cls, half_to_float=half_to_float)
        if dim is None:
            raise Unsupported(f"{cls.__name__}: dim must be given")
        return cls(canonical_axis(dim, input.ndim, cls.__name__)), [input if dtype is None else Applied(*cast(input, dtype))]  # type: ignore[call-arg]


@operator(torch="softmax _softmax", onnx="Softmax")
class Softmax(SoftmaxBase):
    """eˣ over its sum along an axis.

    x: [*s, d, *t]   ->   [*s, d, *t]
    """

    axis: int = -1

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        return divide(apply("exp", x[at]), self.denominator(at, x))

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.softmax(tensors[0], self.axis)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        y = operands[0].softmax(self.axis)
        return (y * (out_grad - (out_grad * y).sum(self.axis, keepdim=True)),)


@operator(torch="log_softmax _log_softmax", onnx="LogSoftmax")
class LogSoftmax(SoftmaxBase):
    """x less the logarithm of the sum of eˣ along an axis.

    x: [*s, d, *t]   ->   [*s, d, *t]
    """

    axis: int = -1

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        return x[at] - apply("log", self.denominator(at, x))

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.log_softmax(tensors[0], self.axis)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (out_grad - operands[0].softmax(self.axis) * out_grad.sum(self.axis, keepdim=True),)


@alias("softmin")
def _softmin(input: Any, dim: Any = None, *args: Any, **named: Any) -> Bound:
    from operators.arithmetic import Negative

    operator, (operand,) = Softmax.bind(input, dim, *args, **named)
    return operator, [Applied(Negative(), [operand])]


@operator(torch="logsumexp", onnx="ReduceLogSumExp")
class LogSumExp(Reduction):
    """The logarithm of the sum of eˣ over the axes; −inf for none."""

    axes: tuple[int, ...]
    keep: bool = False
    onto: ClassVar[str] = "logsumexp"

    def dtype(self, *operands: TensorType) -> str:
        return floating(self, operands[0])

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        return apply("log", over(total, x.shape, self.axes, at, self.keep, lambda index: apply("exp", x[index])))

    def flops(self, *operands: TensorType) -> Dim:
        return 2 * product(operands[0].shape)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (self.spread(out_grad, x) * (x - self.over_axes("logsumexp", x)).exp(),)

    @classmethod
    def bind(cls, input: Any, dim: Any = None, keepdim: bool = False, **named: Any) -> Bound:
        refuse(cls, **named)
        return cls(axes_of(dim, input.ndim, "LogSumExp"), bool(keepdim)), [input]
