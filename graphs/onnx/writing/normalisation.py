"""Normalisation; what the operator set is too old for is written out, in the form in which runtimes find it and run it as one kernel."""

from __future__ import annotations

from typing import Any

from graphs.onnx.errors import OnnxError
from graphs.onnx.writing.registry import Spelling, spells


def epsilon(spelling: Spelling, position: int) -> float:
    """The number added to the variance."""
    value = spelling.number(position)
    if value is None:
        raise OnnxError(f"{spelling.operator}: eps must be a number")
    return float(value)


def _or_vector(spelling: Spelling, position: int, value: float, size: Any) -> str:
    """An operand, or a constant vector where it is absent."""
    if spelling.has(position):
        return spelling[position]
    if not isinstance(size, int):
        raise OnnxError(f"{spelling.operator}: the number of channels must be a number")
    return _filled(spelling, value, size)


def _filled(spelling: Spelling, value: float, *shape: int) -> str:
    import torch

    return spelling.held("vector", torch.full(shape, value, dtype=getattr(torch, spelling.out.dtype)))


@spells("BatchNorm")
def batch_norm(spelling: Spelling) -> str:
    if spelling.operator.training:
        raise OnnxError("BatchNorm in training mode is not written: ONNX updates its statistics otherwise")
    channels = spelling.out.shape[1]
    scale, shift = _or_vector(spelling, 3, 1.0, channels), _or_vector(spelling, 4, 0.0, channels)
    return str(spelling.emit("BatchNormalization", spelling[0], scale, shift, spelling[1], spelling[2], epsilon=epsilon(spelling, 6)))


@spells("LayerNorm")
def layer_norm(spelling: Spelling) -> str:
    axes, dtype, rank = spelling.operator.axes, spelling.out.dtype, spelling.out.ndim
    eps = epsilon(spelling, 3)
    sizes = [size for size in spelling.out.shape[rank - axes :] if isinstance(size, int)]
    if spelling.opset >= 17 and (spelling.has(1) or len(sizes) == axes):
        scale = spelling[1] if spelling.has(1) else _filled(spelling, 1.0, *sizes)
        return str(spelling.emit("LayerNormalization", spelling[0], scale, spelling.at(2, None), axis=rank - axes, epsilon=eps))
    normal = _centred(spelling, spelling[0], list(range(rank - axes, rank)), eps, dtype)
    if spelling.has(1):
        normal = spelling.emit("Mul", normal, spelling[1])
    return str(spelling.emit("Add", normal, spelling[2]) if spelling.has(2) else normal)


def _mean(spelling: Spelling, x: str, axes: list[int]) -> str:
    return str(spelling.emit("ReduceMean", x, *spelling.axes(axes, 18), **spelling.axes_attribute(axes, 18), keepdims=1))


def _centred(spelling: Spelling, x: str, axes: list[int], eps: float, dtype: str) -> str:
    """(x − mean) / √(variance + eps)."""
    centred = spelling.emit("Sub", x, _mean(spelling, x, axes))
    variance = _mean(spelling, _squared(spelling, centred, dtype), axes)
    root = spelling.emit("Sqrt", spelling.emit("Add", variance, spelling.constant(eps, dtype)))
    return str(spelling.emit("Div", centred, root))


def _squared(spelling: Spelling, x: str, dtype: str) -> str:
    return str(spelling.emit("Pow", x, spelling.constant(2.0, dtype)))


@spells("RMSNorm")
def rms_norm(spelling: Spelling) -> str:
    axes, dtype, rank = spelling.operator.axes, spelling.out.dtype, spelling.out.ndim
    eps = epsilon(spelling, 2)
    if spelling.opset >= 23 and spelling.has(1):
        return str(spelling.emit("RMSNormalization", spelling[0], spelling[1], axis=rank - axes, epsilon=eps))
    x = spelling[0]
    mean = _mean(spelling, _squared(spelling, x, dtype), list(range(rank - axes, rank)))
    root = spelling.emit("Sqrt", spelling.emit("Add", mean, spelling.constant(eps, dtype)))
    normal = spelling.emit("Div", x, root)
    return str(spelling.emit("Mul", normal, spelling[1]) if spelling.has(1) else normal)


@spells("GroupNorm")
def group_norm(spelling: Spelling) -> str:
    groups, dtype, shape = spelling.operator.groups, spelling.out.dtype, spelling.out.shape
    eps = epsilon(spelling, 3)
    if spelling.opset >= 21:
        scale, shift = _or_vector(spelling, 1, 1.0, shape[1]), _or_vector(spelling, 2, 0.0, shape[1])
        return str(spelling.emit("GroupNormalization", spelling[0], scale, shift, num_groups=int(groups), epsilon=eps))
    apart = spelling.reshape(spelling[0], (shape[0], groups, -1)) if isinstance(shape[0], int) else None
    if apart is None:
        apart = spelling.emit("Reshape", spelling[0], spelling.integers([0, int(groups), -1]))
    if isinstance(groups, int):
        ones, zeros = _filled(spelling, 1.0, groups), _filled(spelling, 0.0, groups)
        normal = spelling.emit("InstanceNormalization", apart, ones, zeros, epsilon=eps)
    else:
        normal = _centred(spelling, apart, [2], eps, dtype)
    normal = spelling.reshape(normal, shape)
    spread = (shape[1], *[1] * (len(shape) - 2))
    if spelling.has(1):
        normal = spelling.emit("Mul", normal, spelling.reshape(spelling[1], spread))
    return str(spelling.emit("Add", normal, spelling.reshape(spelling[2], spread)) if spelling.has(2) else normal)


@spells("InstanceNorm")
def instance_norm(spelling: Spelling) -> str:
    channels = spelling.out.shape[1]
    scale, shift = _or_vector(spelling, 1, 1.0, channels), _or_vector(spelling, 2, 0.0, channels)
    return str(spelling.emit("InstanceNormalization", spelling[0], scale, shift, epsilon=epsilon(spelling, 3)))
