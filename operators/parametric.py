"""Activations with slopes, scales and thresholds, which are operands: Python numbers become scalars of weak type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operators.activations import Activation
from operators.arithmetic import Divide
from operators.expressions import Dim
from operators.formulas import equal
from operators.meaning import apply, compare, constant, divide, when
from operators.operator import (
    Applied,
    Operator,
    TensorType,
    Unsupported,
    alias,
    broadcast_index,
    is_known_equal,
    note_units,
    operator,
    require,
)
from operators.pointwise import refuse

Bound = tuple[Operator, Sequence[Any]]


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
        x, weight = operands
        channels = x.shape[1] if x.ndim > 1 else 1
        note_units(*weight.shape)
        fits = weight.ndim == 1 and (is_known_equal(weight.shape[0], 1) or equal(weight.shape[0], channels))
        require(self, fits, f"weight must be [1] or [{channels}], got {weight}")
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


@alias("celu")
def _celu(input: Any, alpha: Any = 1.0, inplace: bool = False) -> Bound:
    refuse(Elu, inplace=inplace)
    return Elu(), [input, alpha, 1.0, 1.0 / alpha if isinstance(alpha, (int, float)) else Applied(Divide(), [1.0, alpha])]
