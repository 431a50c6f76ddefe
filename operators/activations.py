"""Activations. Slopes, scales and thresholds are operands: Python numbers become scalars of weak type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from operators.expressions import Dim, divide_exactly, product
from operators.meaning import apply, compare, constant, divide, when
from operators.operator import (
    Applied,
    Operator,
    ShapeError,
    TensorType,
    Unsupported,
    alias,
    broadcast_index,
    canonical_axis,
    kind_of,
    operator,
    require,
)  # fmt: skip
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
    def bind(cls, input: Any, inplace: bool = False) -> Bound:
        refuse(cls, inplace=inplace)
        return cls(), [input]


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


@operator(torch="leaky_relu", onnx="LeakyRelu")
class LeakyRelu(Activation):
    """x where x > 0, else negative_slope · x.

    x: [*s]   negative_slope: []   ->   [*s]
    """

    def value(self, *values: Any) -> Any:
        x, slope = values
        return when(compare(">", x, constant(0)), lambda: x, lambda: slope * x)

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        return F.leaky_relu(*tensors)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        x, slope = operands
        return torch.where(x > 0, out_grad, out_grad * slope), None

    @classmethod
    def bind(cls, input: Any, negative_slope: Any = 0.01, inplace: bool = False) -> Bound:
        refuse(cls, inplace=inplace)
        return cls(), [input, negative_slope]


@operator(torch="prelu", onnx="PRelu")
class PRelu(Activation):
    """x where x > 0, else weight · x, the weight one number or one per channel (axis 1).

    x: [n, c, *s]   weight: [c] or [1]   ->   [n, c, *s]
    """

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        from operators.expressions import any_of, equal

        x, weight = operands
        channels = x.shape[1] if x.ndim > 1 else 1
        require(
            self,
            weight.ndim == 1 and any_of(equal(weight.shape[0], 1), equal(weight.shape[0], channels)),
            f"weight must be [1] or [{channels}], got {weight}",
        )
        return x.shape

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        x, weight = operands
        channel = at[1] if len(at) > 1 else 0
        return when(compare(">", x[at], constant(0)), lambda: x[at], lambda: weight[broadcast_index((channel,), weight.shape)] * x[at])

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        return F.prelu(*tensors)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        x, weight = operands
        spread = weight.reshape((weight.shape[0],) + (1,) * (x.ndim - 2)) if x.ndim > 1 else weight
        negative = torch.where(x > 0, 0.0, out_grad * x)
        shared = isinstance(weight.shape[0], int) and weight.shape[0] == 1
        axes = tuple(axis for axis in range(x.ndim) if shared or axis != 1)
        return torch.where(x > 0, out_grad, out_grad * spread).reshape(x.shape), negative.sum(axes).reshape(weight.shape)

    @classmethod
    def bind(cls, input: Any, weight: Any) -> Bound:
        return cls(), [input, weight]


@operator(torch="elu", onnx="Elu")
class Elu(Activation):
    """scale·x where x > 0, else scale·alpha·(e^(input_scale·x) − 1).

    x: [*s]   alpha: []   scale: []   input_scale: []   ->   [*s]
    """

    def value(self, *values: Any) -> Any:
        x, alpha, scale, input_scale = values
        return when(compare(">", x, constant(0)), lambda: scale * x, lambda: scale * alpha * apply("expm1", input_scale * x))

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.ops.aten.elu(*tensors)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        x, alpha, scale, input_scale = operands
        return torch.where(x > 0, out_grad * scale, out_grad * scale * alpha * input_scale * (input_scale * x).exp()), None, None, None

    @classmethod
    def bind(cls, input: Any, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0, *, inplace: bool = False) -> Bound:
        refuse(cls, inplace=inplace)
        if isinstance(scale, bool):
            raise Unsupported("Elu: inplace is not covered")
        return cls(), [input, alpha, scale, input_scale]


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


@operator(torch="softplus", onnx="Softplus")
class Softplus(Activation):
    """log(1 + e^(beta·x)) / beta, and x itself where beta·x > threshold.

    x: [*s]   beta: []   threshold: []   ->   [*s]
    """

    def value(self, *values: Any) -> Any:
        x, beta, threshold = values
        return when(compare(">", beta * x, threshold), lambda: x, lambda: divide(apply("log1p", apply("exp", beta * x)), beta))

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        return F.softplus(*tensors)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        x, beta, threshold = operands
        return torch.where(x * beta > threshold, out_grad, out_grad * (x * beta).sigmoid()), None, None

    @classmethod
    def bind(cls, input: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Bound:
        return cls(), [input, beta, threshold]


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


@alias("celu")
def _celu(input: Any, alpha: Any = 1.0, inplace: bool = False) -> Bound:
    from operators.arithmetic import Divide

    refuse(Elu, inplace=inplace)
    return Elu(), [input, alpha, 1.0, 1.0 / alpha if isinstance(alpha, (int, float)) else Applied(Divide(), [1.0, alpha])]
