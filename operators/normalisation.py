"""Normalisations: x less a mean, over the root of a variance plus eps, then scaled by `weight` and shifted by `bias`.

`eps` and `momentum` are operands. A weight that is absent is 1, an absent bias is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from operators.axes import sizes
from operators.convolution import nested_total
from operators.expressions import Dim, floor_divide, plain, product
from operators.formulas import at_least_zero, equal
from operators.meaning import apply, as_value, constant, divide, unravel
from operators.operator import Effect, Operator, TensorType, Unsupported, alias, operator, require
from operators.pointwise import concrete, dtype_of, floating

Bound = tuple[Operator, Sequence[Any]]


def inverse_root(variance: Any, eps: Any) -> Any:
    """1 / √(variance + eps)."""
    return divide(constant(1), apply("sqrt", variance + eps))


def moments(extents: Sequence[Dim], body: Any) -> tuple[Any, Any]:
    """Mean and variance (divided by the number of elements) of body over every index within the extents."""
    count = as_value(product(extents))
    mean = divide(nested_total(extents, body), count)
    return mean, divide(nested_total(extents, lambda index: (body(index) - mean) * (body(index) - mean)), count)


def affine(value: Any, weight: Any, bias: Any, index: tuple[Any, ...]) -> Any:
    """value · weight[index] + bias[index], either absent."""
    scaled = value if weight is None else value * weight[index]
    return scaled if bias is None else scaled + bias[index]


def backward(out_grad: Any, x: Any, axes: tuple[int, ...], eps: Any, centred: bool = True) -> tuple[Any, Any]:
    """The gradient of x through a normalisation over `axes`, for the gradient of the normalised value; and that value."""
    mean = x.mean(axes, keepdim=True)
    offset = x - mean if centred else x
    scale = ((offset * offset).mean(axes, keepdim=True) + eps).rsqrt()
    normal = offset * scale
    inner = out_grad - normal * (out_grad * normal).mean(axes, keepdim=True)
    return scale * (inner - out_grad.mean(axes, keepdim=True) if centred else inner), normal


class Normalisation(Operator):
    """What normalisations share."""

    absent: ClassVar[dict[int, float]] = {1: 1.0, 2: 0.0}

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        return operands[0].shape

    def dtype(self, *operands: TensorType) -> str:
        return floating(self, operands[0])

    def flops(self, *operands: TensorType) -> Dim:
        return 8 * product(operands[0].shape)

    def check_channels(self, x: TensorType, *vectors: TensorType | None) -> None:
        """Require that each vector that is there has one element per channel (axis 1) of x."""
        require(self, x.ndim >= 2, f"x must have at least 2 axes, got {x}")
        for vector in vectors:
            fits = vector is None or (vector.ndim == 1 and equal(vector.shape[0], x.shape[1]))
            require(self, fits, f"statistics, weight and bias must be [{x.shape[1]}], got {vector}")


def per_channel(vector: Any, rank: int) -> Any:
    """A vector of channels shaped to broadcast against [n, c, *s]."""
    return vector.reshape((1, vector.shape[0], *(1,) * (rank - 2)))


@operator(torch="batch_norm", onnx="BatchNormalization")
class BatchNorm(Normalisation):
    """Batch normalisation, by running statistics or (`training`) by those of the batch.

    x: [n, c, *s]   running_mean, running_var, weight, bias: [c]   momentum, eps: []   ->   [n, c, *s]
    In training with running statistics there are two more outputs [c]: the running statistics after the update, which
    torch writes into its buffers; the variance there is the unbiased one. Outside training momentum is absent.
    """

    training: bool = False
    absent: ClassVar[dict[int, float]] = {3: 1.0, 4: 0.0}

    @property
    def effects(self) -> Effect:
        return Effect.BATCH_STATISTICS | Effect.UPDATES_BUFFER if self.training else Effect.PURE

    def effects_on(self, *operands: Any) -> Effect:
        return self.effects if operands[1] is not None else self.effects & ~Effect.UPDATES_BUFFER

    def outputs(self, *operands: Any) -> tuple[TensorType, ...]:
        x, mean, var, weight, bias = operands[:5]
        self.check_channels(x, mean, var, weight, bias)
        require(self, self.training or (mean is not None and var is not None), "running statistics must be given outside training")
        if self.training:
            require(
                self,
                at_least_zero(product(x.shape) - 2 * x.shape[1]),
                f"there must be more than one element per channel in training, got {x}",
            )
        first = TensorType(x.shape, self.dtype(x))
        return (
            (first, TensorType(mean.shape, mean.dtype), TensorType(var.shape, var.dtype))
            if self.training and mean is not None
            else (first,)
        )

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        x, running_mean, running_var, weight, bias, momentum, eps = operands
        channel = at[1] if output == 0 else at[0]
        if not self.training:
            scale = inverse_root(running_var[(channel,)], eps[()])
            return affine((x[at] - running_mean[(channel,)]) * scale, weight, bias, (channel,))
        extents = (x.shape[0], *x.shape[2:])
        mean, variance = moments(extents, lambda index: x[(index[0], channel, *index[1:])])
        if output == 0:
            return affine((x[at] - mean) * inverse_root(variance, eps[()]), weight, bias, (channel,))
        count = product(extents)
        new = mean if output == 1 else divide(variance * as_value(count), as_value(count - 1))
        old = (running_mean, running_var)[output - 1][(channel,)]
        return (constant(1) - momentum[()]) * old + momentum[()] * new

    def flops(self, *operands: TensorType) -> Dim:
        return (8 if self.training else 2) * product(operands[0].shape)

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        x, mean, var, weight, bias, momentum, eps = tensors
        if not self.training:
            return F.batch_norm(x, mean, var, weight, bias, False, 0.1, eps)
        if mean is None:
            return F.batch_norm(x, None, None, weight, bias, True, 0.1, eps)
        new_mean, new_var = mean.clone(), var.clone()
        return F.batch_norm(x, new_mean, new_var, weight, bias, True, momentum, eps), new_mean, new_var

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        x, mean, var, weight, bias, _, eps = operands
        grad = out_grad[0] if isinstance(out_grad, (tuple, list)) else out_grad
        axes, rank = (0, *range(2, x.ndim)), x.ndim
        scaled = grad if weight is None else grad * per_channel(weight, rank)
        if self.training:
            by_x, normal = backward(scaled, x, axes, eps)
        else:
            scale = per_channel((var + eps).rsqrt(), rank)
            by_x, normal = scaled * scale, (x - per_channel(mean, rank)) * scale
        by_weight = None if weight is None else (grad * normal).sum(axes)
        return by_x, None, None, by_weight, None if bias is None else grad.sum(axes), None, None

    @classmethod
    def bind(cls, input: Any, *args: Any, **named: Any) -> Bound:
        aten = len(args) == 8 or "cudnn_enabled" in named
        order = ("weight", "bias", "running_mean", "running_var") if aten else ("running_mean", "running_var", "weight", "bias")
        given = {**dict(zip((*order, "training", "momentum", "eps", "cudnn_enabled"), args, strict=False)), **named}
        training, momentum = given.get("training", False), given.get("momentum", 0.1)
        if training and momentum is None and given.get("running_mean") is not None:
            raise Unsupported("BatchNorm: a cumulative average (momentum=None) is not covered")
        vectors = [given.get(name) for name in ("running_mean", "running_var", "weight", "bias")]
        used = momentum if training and vectors[0] is not None else None
        return cls(bool(training)), [input, *vectors, used, given.get("eps", 1e-5)]


@alias("_native_batch_norm_legit_functional")
def _functional_batch_norm(input: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: Any, eps: Any) -> Bound:
    return BatchNorm(training), [input, mean, var, weight, bias, momentum if training else None, eps]


@alias("_native_batch_norm_legit_no_training")
def _inference_batch_norm(input: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: Any, eps: Any) -> Bound:
    return BatchNorm(False), [input, mean, var, weight, bias, None, eps]


@alias("_native_batch_norm_legit")
def _batch_norm_without_statistics(input: Any, weight: Any, bias: Any, *rest: Any) -> Bound:
    if len(rest) != 3 or rest[0] is not True:
        raise Unsupported("BatchNorm: a call that writes running statistics in place is not covered")
    return BatchNorm(True), [input, None, None, weight, bias, None, rest[2]]


class OverLastAxes(Normalisation):
    """A normalisation over the last `axes` axes, whose weight and bias have those axes."""

    axes: int

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        x, *vectors = operands
        require(self, 1 <= self.axes <= x.ndim, f"x must have at least {self.axes} axes, got {x}")
        for vector in vectors[:-1]:
            if vector is not None:
                require(self, vector.ndim == self.axes, f"weight and bias must have {self.axes} axes, got {vector}")
                for size, other in zip(x.shape[-self.axes :], vector.shape, strict=True):
                    require(self, equal(size, other), f"weight and bias must have the last axes of x, got {vector} for {x}")
        return x.shape

    def over(self, x: Any) -> tuple[int, ...]:
        return tuple(range(-self.axes, 0))

    def check_size(self, x: Any, normalized_shape: Any) -> None:
        """Require that the shape given to torch is the end of x's shape."""
        for size, other in zip(sizes(x)[-self.axes :], plain(tuple(normalized_shape)), strict=True):
            require(self, equal(size, other), f"normalized_shape must end the shape of x, got {tuple(normalized_shape)} for {x.shape}")


@operator(torch="layer_norm", onnx="LayerNormalization")
class LayerNorm(OverLastAxes):
    """Normalisation over the last `axes` axes.

    x: [*s, *d]   weight, bias: [*d]   eps: []   ->   [*s, *d]
    """

    axes: int = 1

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        x, weight, bias, eps = operands
        lead, last = at[: len(at) - self.axes], at[len(at) - self.axes :]
        mean, variance = moments(x.shape[-self.axes :], lambda index: x[(*lead, *index)])
        return affine((x[at] - mean) * inverse_root(variance, eps[()]), weight, bias, last)

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        x, weight, bias, eps = tensors
        return F.layer_norm(x, x.shape[-self.axes :], weight, bias, eps)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        x, weight, bias, eps = operands
        rows = tuple(range(x.ndim - self.axes))
        by_x, normal = backward(out_grad if weight is None else out_grad * weight, x, self.over(x), eps)
        return by_x, None if weight is None else _sum(out_grad * normal, rows), None if bias is None else _sum(out_grad, rows), None

    @classmethod
    def bind(
        cls, input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5, cudnn_enable: bool = True
    ) -> Bound:
        result = cls(len(tuple(normalized_shape)))
        result.check_size(input, normalized_shape)
        return result, [input, weight, bias, eps]


def _sum(x: Any, axes: tuple[int, ...]) -> Any:
    return x.sum(axes) if axes else x


@operator(torch="rms_norm", onnx="RMSNormalization")
class RMSNorm(OverLastAxes):
    """x over the root of its mean square over the last `axes` axes, scaled by the weight.

    x: [*s, *d]   weight: [*d]   eps: []   ->   [*s, *d]
    Source: Zhang and Sennrich 2019, equation 4.
    """

    axes: int = 1
    absent: ClassVar[dict[int, float]] = {1: 1.0}

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        x, weight, eps = operands
        lead, last = at[: len(at) - self.axes], at[len(at) - self.axes :]
        extents = x.shape[-self.axes :]
        square = divide(nested_total(extents, lambda index: x[(*lead, *index)] * x[(*lead, *index)]), as_value(product(extents)))
        return affine(x[at] * inverse_root(square, eps[()]), weight, None, last)

    def flops(self, *operands: TensorType) -> Dim:
        return 4 * product(operands[0].shape)

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        x, weight, eps = tensors
        return F.rms_norm(x, x.shape[-self.axes :], weight, eps)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        x, weight, eps = operands
        rows = tuple(range(x.ndim - self.axes))
        by_x, normal = backward(out_grad if weight is None else out_grad * weight, x, self.over(x), eps, centred=False)
        return by_x, None if weight is None else _sum(out_grad * normal, rows), None

    @classmethod
    def bind(cls, input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Bound:
        import torch

        result = cls(len(tuple(normalized_shape)))
        result.check_size(input, normalized_shape)
        return result, [input, weight, torch.finfo(getattr(torch, dtype_of(input))).eps if eps is None else eps]


@operator(torch="group_norm", onnx="GroupNormalization")
class GroupNorm(Normalisation):
    """Normalisation of each sample over the channels of a group and all positions.

    x: [n, groups*c, *s]   weight, bias: [groups*c]   eps: []   ->   [n, groups*c, *s]
    """

    groups: Dim = 1

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        x, weight, bias, _ = operands
        self.check_channels(x, weight, bias)
        require(self, at_least_zero(self.groups - 1), f"groups must be at least 1, got {self.groups}")
        require(self, equal(x.shape[1] % self.groups, 0), f"channels must be a multiple of groups, got {x.shape[1]} and {self.groups}")
        return x.shape

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        x, weight, bias, eps = operands
        each = floor_divide(x.shape[1], self.groups)

        def normalised(group: Any, _: Any) -> Any:
            mean, variance = moments((each, *x.shape[2:]), lambda index: x[(at[0], group * each + index[0], *index[1:])])
            return affine((x[at] - mean) * inverse_root(variance, eps[()]), weight, bias, (at[1],))

        return unravel(at[1], (self.groups, each), normalised)

    def run(self, *tensors: Any) -> Any:
        import torch

        x, weight, bias, eps = tensors
        return torch.group_norm(x, concrete(self.groups), weight, bias, eps)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        x, weight, bias, eps = operands
        rank = x.ndim
        axes = (0, *range(2, rank))
        split = (x.shape[0], self.groups, floor_divide(x.shape[1], self.groups), *x.shape[2:])
        scaled = out_grad if weight is None else out_grad * per_channel(weight, rank)
        by_x, normal = backward(scaled.reshape(split), x.reshape(split), tuple(range(2, rank + 1)), eps)
        by_weight = None if weight is None else (out_grad * normal.reshape(x.shape)).sum(axes)
        return by_x.reshape(x.shape), by_weight, None if bias is None else out_grad.sum(axes), None

    @classmethod
    def bind(cls, input: Any, num_groups: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5, cudnn_enabled: bool = True) -> Bound:
        return cls(plain(num_groups)), [input, weight, bias, eps]


@alias("native_layer_norm")
def _native_layer_norm(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: Any) -> Bound:
    return LayerNorm.bind(input, normalized_shape, weight, bias, eps)


@alias("native_group_norm")
def _native_group_norm(input: Any, weight: Any, bias: Any, N: Any, C: Any, HxW: Any, group: Any, eps: Any) -> Bound:
    return GroupNorm.bind(input, group, weight, bias, eps)


@operator(torch="instance_norm", onnx="InstanceNormalization")
class InstanceNorm(Normalisation):
    """Normalisation of each sample and channel over its positions.

    x: [n, c, *s]   weight, bias: [c]   eps: []   ->   [n, c, *s]
    """

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        x, weight, bias, _ = operands
        self.check_channels(x, weight, bias)
        require(self, at_least_zero(product(x.shape[2:]) - 2), f"there must be more than one position, got {x}")
        return x.shape

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        x, weight, bias, eps = operands
        mean, variance = moments(x.shape[2:], lambda index: x[(at[0], at[1], *index)])
        return affine((x[at] - mean) * inverse_root(variance, eps[()]), weight, bias, (at[1],))

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        x, weight, bias, eps = tensors
        return F.instance_norm(x, None, None, weight, bias, True, 0.1, eps)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        x, weight, bias, eps = operands
        axes = (0, *range(2, x.ndim))
        by_x, normal = backward(out_grad if weight is None else out_grad * per_channel(weight, x.ndim), x, axes[1:], eps)
        return by_x, None if weight is None else (out_grad * normal).sum(axes), None if bias is None else out_grad.sum(axes), None

    @classmethod
    def bind(cls, input: Any, *args: Any, **named: Any) -> Bound:
        aten = len(args) == 8 or "cudnn_enabled" in named
        order = ("weight", "bias", "running_mean", "running_var") if aten else ("running_mean", "running_var", "weight", "bias")
        given = {**dict(zip((*order, "use_input_stats", "momentum", "eps", "cudnn_enabled"), args, strict=False)), **named}
        vectors = [given.get(name) for name in ("running_mean", "running_var", "weight", "bias")]
        eps = given.get("eps", 1e-5)
        if not given.get("use_input_stats", True):
            return BatchNorm(False), [input, *vectors, None, eps]
        if vectors[0] is not None:
            raise Unsupported("InstanceNorm: running statistics that are updated are not covered")
        return cls(), [input, *vectors[2:], eps]
