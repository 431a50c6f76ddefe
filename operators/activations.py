"""Activations without parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from operators.expressions import Dim, divide_exactly, product
from operators.meaning import apply, compare, constant, divide, when
from operators.operator import (
    Operator,
    ShapeError,
    TensorType,
    canonical_axis,
    kind_of,
    operator,
)
from operators.pointwise import Floating, Pointwise, refuse

Bound = tuple[Operator, Sequence[Any]]


class Activation(Floating):
    """A pointwise function of one floating tensor (and scalars)."""

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        return operands[0].shape

    def dtype(self, *operands: TensorType) -> str:
        if kind_of(operands[0].dtype) != "float":
            raise ShapeError(f"{type(self).__name__}: x must be floating, got {operands[0]}")
        return operands[0].dtype

    def weak(self, *operands: TensorType) -> bool:
        return operands[0].weak

    @classmethod
    def bind(cls, *args: Any, **named: Any) -> Bound:
        return cls(), [alone(cls, *args, **named)]


def alone(who: Any, input: Any, inplace: bool = False) -> Any:
    """The one operand of an activation that has no attributes."""
    refuse(who, inplace=inplace)
    return input


@operator(torch="relu", onnx="Relu")
class Relu(Pointwise):
    """max(x, 0); NaN stays."""

    function: ClassVar[str] = "relu"

    def value(self, *values: Any) -> Any:
        return apply("maximum", values[0], constant(0))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        return (torch.where(operands[0] > 0, out_grad, 0.0),)

    @classmethod
    def bind(cls, input: Any, inplace: bool = False) -> Bound:
        refuse(cls, inplace=inplace)
        return cls(), [input]


@operator(torch="relu6")
class Relu6(Pointwise):
    """min(max(x, 0), 6); NaN stays."""

    function: ClassVar[str] = "relu6"

    def value(self, *values: Any) -> Any:
        return apply("minimum", apply("maximum", values[0], constant(0)), constant(6))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        (x,) = operands
        return (torch.where((x > 0) & (x < 6), out_grad, 0.0),)

    @classmethod
    def bind(cls, input: Any, inplace: bool = False) -> Bound:
        refuse(cls, inplace=inplace)
        return cls(), [input]


@operator(torch="sigmoid", onnx="Sigmoid")
class Sigmoid(Floating):
    """1 / (1 + e⁻ˣ)."""

    function: ClassVar[str] = "sigmoid"

    def value(self, *values: Any) -> Any:
        return apply("sigmoid", *values)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        y = operands[0].sigmoid()
        return (out_grad * y * (1 - y),)


@operator(torch="tanh", onnx="Tanh")
class Tanh(Floating):
    """The hyperbolic tangent."""

    function: ClassVar[str] = "tanh"

    def value(self, *values: Any) -> Any:
        return apply("tanh", *values)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        y = operands[0].tanh()
        return (out_grad * (1 - y * y),)


@operator(torch="silu", onnx="Swish")
class Silu(Activation):
    """x · sigmoid(x)."""

    function: ClassVar[str] = "silu"

    def value(self, *values: Any) -> Any:
        (x,) = values
        return x * apply("sigmoid", x)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        y = x.sigmoid()
        return (out_grad * y * (1 + x * (1 - y)),)


@operator(torch="gelu", onnx="Gelu")
class Gelu(Activation):
    """x · Φ(x), with Φ the normal distribution (`approximate="none"`) or its approximation by tanh (`"tanh"`)."""

    approximate: str = "none"

    def value(self, *values: Any) -> Any:
        (x,) = values
        if self.approximate == "tanh":
            inner = constant(math.sqrt(2 / math.pi)) * (x + constant(0.044715) * x * x * x)
            return constant(0.5) * x * (constant(1) + apply("tanh", inner))
        return constant(0.5) * x * (constant(1) + apply("erf", x * constant(math.sqrt(0.5))))

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        return F.gelu(tensors[0], approximate=self.approximate)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        if self.approximate == "tanh":
            slope = math.sqrt(2 / math.pi)
            t = (slope * (x + 0.044715 * x * x * x)).tanh()
            return (out_grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope * (1 + 3 * 0.044715 * x * x)),)
        distribution = 0.5 * (1 + (x * math.sqrt(0.5)).erf())
        return (out_grad * (distribution + x * (-0.5 * x * x).exp() / math.sqrt(2 * math.pi)),)

    @classmethod
    def bind(cls, input: Any, approximate: str = "none") -> Bound:
        return cls(approximate), [input]


SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


@operator(torch="selu", onnx="Selu")
class Selu(Activation):
    """scale·x where x > 0, else scale·alpha·(eˣ − 1), with the constants that keep mean 0 and variance 1.

    Source: Klambauer et al. 2017, equation 2.
    """

    function: ClassVar[str] = "selu"

    def value(self, *values: Any) -> Any:
        (x,) = values
        return when(
            compare(">", x, constant(0)),
            lambda: constant(SELU_SCALE) * x,
            lambda: constant(SELU_SCALE * SELU_ALPHA) * apply("expm1", x),
        )

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        (x,) = operands
        return (torch.where(x > 0, out_grad * SELU_SCALE, out_grad * (SELU_SCALE * SELU_ALPHA) * x.exp()),)


@operator(torch="mish", onnx="Mish")
class Mish(Activation):
    """x · tanh(log(1 + eˣ))."""

    function: ClassVar[str] = "mish"

    def value(self, *values: Any) -> Any:
        (x,) = values
        return x * apply("tanh", apply("log1p", apply("exp", x)))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        t = x.exp().log1p().tanh()
        return (out_grad * (t + x * (1 - t * t) * x.sigmoid()),)


def _over_six(x: Any) -> Any:
    return apply("minimum", apply("maximum", x + constant(3), constant(0)), constant(6))


@operator(torch="hardsigmoid", onnx="HardSigmoid")
class Hardsigmoid(Activation):
    """min(max(x + 3, 0), 6) / 6."""

    function: ClassVar[str] = "hardsigmoid"

    def value(self, *values: Any) -> Any:
        return divide(_over_six(values[0]), constant(6))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        (x,) = operands
        return (torch.where((x > -3) & (x < 3), out_grad / 6, 0.0),)


@operator(torch="hardswish", onnx="HardSwish")
class Hardswish(Activation):
    """x · min(max(x + 3, 0), 6) / 6."""

    function: ClassVar[str] = "hardswish"

    def value(self, *values: Any) -> Any:
        return divide(values[0] * _over_six(values[0]), constant(6))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        (x,) = operands
        return (torch.where(x <= -3, 0.0, torch.where(x < 3, out_grad * (x / 3 + 0.5), out_grad)),)


@operator(torch="softsign", onnx="Softsign")
class Softsign(Activation):
    """x / (1 + |x|)."""

    function: ClassVar[str] = "softsign"

    def value(self, *values: Any) -> Any:
        (x,) = values
        return divide(x, constant(1) + apply("abs", x))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        below = 1 + operands[0].abs()
        return (out_grad / (below * below),)


@operator(torch="logsigmoid log_sigmoid")
class LogSigmoid(Activation):
    """log(sigmoid(x))."""

    function: ClassVar[str] = "logsigmoid"

    def value(self, *values: Any) -> Any:
        (x,) = values
        return apply("log", apply("sigmoid", x))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (out_grad * (-operands[0]).sigmoid(),)


@operator(torch="glu")
class Glu(Operator):
    """The first half of an axis times the sigmoid of the second half.

    x: [*s, 2*d, *t]   ->   [*s, d, *t]
    """

    axis: int = -1

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        half = divide_exactly(x.shape[self.axis], 2)
        if half is None:
            raise ShapeError(f"Glu: size of axis {self.axis} must be even, got {x}")
        shape = list(x.shape)
        shape[self.axis] = half
        return tuple(shape)

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        other = list(at)
        half = divide_exactly(x.shape[self.axis], 2)
        other[self.axis] = at[self.axis] + half
        return x[at] * apply("sigmoid", x[tuple(other)])

    def flops(self, *operands: TensorType) -> Dim:
        return 2 * product(self.shape(*operands))

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        return F.glu(tensors[0], self.axis)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        first, second = operands[0].chunk(2, self.axis)
        gate = second.sigmoid()
        return (torch.cat([out_grad * gate, out_grad * first * gate * (1 - gate)], self.axis),)

    @classmethod
    def bind(cls, input: Any, dim: int = -1) -> Bound:
        return cls(canonical_axis(dim, input.ndim, "Glu")), [input]
