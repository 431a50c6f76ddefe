"""Activations; one that the operator set is too old for is written with simpler ones."""

from __future__ import annotations

import math

from graphs.onnx.errors import OnnxError
from graphs.onnx.writing.registry import Spelling, spells
from operators.operator import canonical_axis


def _declare(ours: str, name: str) -> None:
    @spells(ours)
    def spell(spelling: Spelling) -> str:
        return str(spelling.emit(name, spelling[0]))


for _ours in ("Relu", "Sigmoid", "Tanh", "Softsign"):
    _declare(_ours, _ours)


@spells("Relu6")
def relu6(spelling: Spelling) -> str:
    dtype = spelling.out.dtype
    if spelling.opset < 11:
        return str(spelling.emit("Clip", spelling[0], min=0.0, max=6.0))
    return str(spelling.emit("Clip", spelling[0], spelling.constant(0.0, dtype), spelling.constant(6.0, dtype)))


@spells("Silu")
def silu(spelling: Spelling) -> str:
    return str(spelling.emit("Mul", spelling[0], spelling.emit("Sigmoid", spelling[0])))


@spells("Selu")
def selu(spelling: Spelling) -> str:
    return str(spelling.emit("Selu", spelling[0], alpha=1.6732632423543772, gamma=1.0507009873554805))


@spells("Gelu")
def gelu(spelling: Spelling) -> str:
    x, dtype, way = spelling[0], spelling.out.dtype, spelling.operator.approximate
    if spelling.opset >= 20:
        return str(spelling.emit("Gelu", x, approximate=way))
    # In the form in which ONNX Runtime finds it: x over a root, and x · (1 + …) before the half.
    if way == "none":
        inner = spelling.emit("Erf", spelling.emit("Div", x, spelling.constant(math.sqrt(2), dtype)))
    else:
        cube = spelling.emit("Pow", x, spelling.constant(3.0, dtype))
        shifted = spelling.emit("Add", x, spelling.emit("Mul", cube, spelling.constant(0.044715, dtype)))
        inner = spelling.emit("Tanh", spelling.emit("Mul", shifted, spelling.constant(math.sqrt(2 / math.pi), dtype)))
    product = spelling.emit("Mul", x, spelling.emit("Add", inner, spelling.constant(1.0, dtype)))
    return str(spelling.emit("Mul", product, spelling.constant(0.5, dtype)))


@spells("Mish")
def mish(spelling: Spelling) -> str:
    if spelling.opset >= 18:
        return str(spelling.emit("Mish", spelling[0]))
    return str(spelling.emit("Mul", spelling[0], spelling.emit("Tanh", spelling.emit("Softplus", spelling[0]))))


@spells("Hardsigmoid")
def hard_sigmoid(spelling: Spelling) -> str:
    return str(spelling.emit("HardSigmoid", spelling[0], alpha=1 / 6, beta=0.5))


@spells("Hardswish")
def hard_swish(spelling: Spelling) -> str:
    if spelling.opset >= 14:
        return str(spelling.emit("HardSwish", spelling[0]))
    return str(spelling.emit("Mul", spelling[0], spelling.emit("HardSigmoid", spelling[0], alpha=1 / 6, beta=0.5)))


@spells("LogSigmoid")
def log_sigmoid(spelling: Spelling) -> str:
    return str(spelling.emit("Neg", spelling.emit("Softplus", spelling.emit("Neg", spelling[0]))))


@spells("Softplus")
def softplus(spelling: Spelling) -> str:
    beta = spelling.number(1) if spelling.has(1) else 1.0
    if beta != 1:
        raise OnnxError(f"{spelling.operator}: ONNX's Softplus has no beta, got {beta}")
    return str(spelling.emit("Softplus", spelling[0]))


@spells("LeakyRelu", "Elu")
def sloped(spelling: Spelling) -> str:
    slope = spelling.number(1)
    if slope is None:
        raise OnnxError(f"{spelling.operator}: the slope must be a number")
    extra = [spelling.number(position) for position in range(2, len(spelling.operands)) if spelling.has(position)]
    if any(number != 1 for number in extra):
        raise OnnxError(f"{spelling.operator}: ONNX has no further scales, got {extra}")
    return str(spelling.emit(type(spelling.operator).__name__, spelling[0], alpha=float(slope)))


@spells("PRelu")
def prelu(spelling: Spelling) -> str:
    slope, kind = spelling[1], spelling.type(1)
    if kind.ndim == 1 and spelling.out.ndim > 2:
        slope = spelling.reshape(slope, (kind.shape[0], *[1] * (spelling.out.ndim - 2)))
    return str(spelling.emit("PRelu", spelling[0], slope))


@spells("Glu")
def glu(spelling: Spelling) -> str:
    axis = spelling.operator.axis
    half = spelling.out.shape[axis]
    axis = axis + spelling.out.ndim
    if spelling.opset >= 13:
        a, b = spelling.emit("Split", spelling[0], spelling.sizes((half, half)), outputs=2, axis=axis)
    else:
        a, b = spelling.emit("Split", spelling[0], outputs=2, axis=axis)
    return str(spelling.emit("Mul", a, spelling.emit("Sigmoid", b)))


@spells("Softmax", "LogSoftmax")
def softmax(spelling: Spelling) -> str:
    name, rank = type(spelling.operator).__name__, spelling.out.ndim
    axis = canonical_axis(spelling.operator.axis, rank)
    x = spelling.at(0, spelling.out.dtype)
    if spelling.opset >= 13 or axis == -1:
        return str(spelling.emit(name, x, axis=axis if spelling.opset >= 11 else rank + axis))
    order = [*(one for one in range(rank) if one != rank + axis), rank + axis]
    back = [order.index(one) for one in range(rank)]
    moved = spelling.emit("Transpose", x, perm=order)
    return str(spelling.emit("Transpose", spelling.emit(name, moved, axis=rank - 1), perm=back))
