"""Arithmetic element by element. ONNX's operands are of one dtype, which is also the result's; integers wrap."""

from __future__ import annotations

from typing import Any

import torch

from graphs.onnx.reading.registry import Node, reads
from operators.casts import Cast
from operators.foreign import UNTYPED
from operators.operator import Unsupported, kind_of


def both(node: Node) -> tuple[Any, Any]:
    """The two operands; one that is a number in the file is a Python number beside a tensor of as many axes."""
    if node.type(0).dtype == UNTYPED or node.type(1).dtype == UNTYPED:
        raise Unsupported(f"{node.name}: an input has no known rank")
    ranks = node.type(0).ndim, node.type(1).ndim
    if node.tensor(0) is not None:
        return (node[0], node.operand(1, ranks[0])) if node.tensor(1) is not None else (node.operand(0, ranks[1]), node[1])
    return node[0], node.operand(1, ranks[0])


def in_dtype(x: Any, dtype: str) -> Any:
    """x in this dtype."""
    return x if x.type.dtype == dtype else x.to(getattr(torch, dtype))


@reads("Add")
def add(node: Node) -> Any:
    a, b = both(node)
    return torch.add(a, b)


@reads("Sub")
def subtract(node: Node) -> Any:
    a, b = both(node)
    return torch.sub(a, b)


@reads("Mul")
def multiply(node: Node) -> Any:
    a, b = both(node)
    return torch.mul(a, b)


@reads("Div")
def divide(node: Node) -> Any:
    """Integers are divided towards zero."""
    a, b = both(node)
    if kind_of(node.type(0).dtype) == "int":
        return torch.div(a, b, rounding_mode="trunc")
    return torch.div(a, b)


@reads("Mod")
def modulo(node: Node) -> Any:
    """The remainder takes the sign of the divisor, or with `fmod` that of the dividend."""
    a, b = both(node)
    return torch.fmod(a, b) if node.attribute("fmod", 0) else torch.remainder(a, b)


@reads("Pow")
def power(node: Node) -> Any:
    """The result is of the base's dtype."""
    a, b = both(node)
    dtype = node.type(0).dtype
    if isinstance(b, float) and kind_of(dtype) == "int":
        b = node[1]
    if isinstance(b, int) and b < 0 and kind_of(dtype) == "int":
        raise Unsupported("Pow: integers to a negative power are not covered")
    return in_dtype(torch.pow(a, b), dtype)


@reads("Max", "Min")
def extreme(node: Node) -> Any:
    pick = torch.maximum if node.name == "Max" else torch.minimum
    result, *rest = node.inputs()
    for one in rest:
        result = pick(result, one)
    return result


@reads("Sum", "Mean")
def total(node: Node) -> Any:
    result, *rest = node.inputs()
    for one in rest:
        result = torch.add(result, one)
    return torch.div(result, node.count) if node.name == "Mean" else result


def _declare(name: str, function: Any) -> None:
    @reads(name)
    def read(node: Node) -> Any:
        return function(node[0])


for _name, _function in {
    "Neg": torch.neg,
    "Abs": torch.abs,
    "Sign": torch.sign,
    "Floor": torch.floor,
    "Ceil": torch.ceil,
    "Round": torch.round,
    "Exp": torch.exp,
    "Log": torch.log,
    "Sqrt": torch.sqrt,
    "Reciprocal": torch.reciprocal,
    "Sin": torch.sin,
    "Cos": torch.cos,
    "Tan": torch.tan,
    "Asin": torch.asin,
    "Acos": torch.acos,
    "Atan": torch.atan,
    "Sinh": torch.sinh,
    "Cosh": torch.cosh,
    "Asinh": torch.asinh,
    "Acosh": torch.acosh,
    "Atanh": torch.atanh,
    "Erf": torch.erf,
    "Sigmoid": torch.sigmoid,
    "Tanh": torch.tanh,
    "Relu": torch.relu,
    "IsNaN": torch.isnan,
}.items():
    _declare(_name, _function)


@reads("Identity")
def identity(node: Node) -> Any:
    return node[0]


@reads("Cast", "CastLike")
def cast(node: Node) -> Any:
    """A change of dtype; between integers it wraps, to a bool it asks for what is not 0."""
    from graphs.onnx.types import dtype_of

    to = dtype_of(node.attribute("to")) if node.name == "Cast" else node.type(1).dtype
    x = node[0]
    if to == x.type.dtype:
        return x
    castable = _CASTABLE | ({"bfloat16", "float16"} if "float8" not in x.type.dtype else set())
    if to not in castable or x.type.dtype not in _CASTABLE | {"bfloat16", "float16"}:
        raise Unsupported(f"{node.name}: from {x.type.dtype} to {to} is not covered")
    return node.apply(Cast(to), x)


_CASTABLE = frozenset(
    ["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "bfloat16", "float16"]
)


@reads("Clip")
def clip(node: Node) -> Any:
    """min(max(x, low), high): where low is above high, high."""
    x = node[0]
    if node.opset < 11:
        low, high = node.attribute("min"), node.attribute("max")
    else:
        low, high = (node.operand(position, 0) if node.has(position) else None for position in (1, 2))
    if low is None and high is None:
        return x
    if all(bound is None or isinstance(bound, (int, float)) for bound in (low, high)):
        return torch.clamp(x, low, high)
    if low is not None:
        x = torch.maximum(x, node[1])
    return x if high is None else torch.minimum(x, node[2])
