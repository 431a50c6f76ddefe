"""Arithmetic element by element. ONNX's operands are of one dtype, which is also the result's; integers wrap."""

from __future__ import annotations

from typing import Any

import torch

from graphs.onnx.reading.registry import Node, reads
from graphs.onnx.reading.unsigned import WITHOUT_KERNELS, in_int64
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


def compute(node: Node, function: Any, operands: Any, ordered: bool = False, divides: bool = False) -> Any:
    """The function of the operands; of unsigned integers without kernels through int64."""
    if node.type(0).dtype in WITHOUT_KERNELS:
        return in_int64(node, function, list(operands), ordered, divides)
    return function(*operands)


def in_dtype(x: Any, dtype: str) -> Any:
    """x in this dtype."""
    return x if x.type.dtype == dtype else x.to(getattr(torch, dtype))


@reads("Add")
def add(node: Node) -> Any:
    return compute(node, torch.add, both(node))


@reads("Sub")
def subtract(node: Node) -> Any:
    return compute(node, torch.sub, both(node))


@reads("Mul")
def multiply(node: Node) -> Any:
    return compute(node, torch.mul, both(node))


@reads("Div")
def divide(node: Node) -> Any:
    """Integers are divided towards zero."""
    a, b = both(node)
    if kind_of(node.type(0).dtype) == "int":
        return compute(node, lambda x, y: torch.div(x, y, rounding_mode="trunc"), (a, b), divides=True)
    return torch.div(a, b)


@reads("Mod")
def modulo(node: Node) -> Any:
    """The remainder takes the sign of the divisor, or with `fmod` that of the dividend."""
    if not node.attribute("fmod", 0):
        return compute(node, torch.remainder, both(node), divides=True)
    return compute(node, torch.fmod, (node[0], node.operand(1, node.type(0).ndim)), divides=True)  # torch takes no number first


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
        result = compute(node, pick, (result, one), ordered=True)
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
    if to in LARGEST and node.attribute("saturate", 1):
        x = torch.clamp(x if x.type.dtype == "float64" else x.to(torch.float32), -LARGEST[to], LARGEST[to])
    elif to == "float8_e4m3fn":  # torch's cast saturates; what would round beyond the largest number is not one
        x = torch.where(torch.gt(torch.abs(x), 464.0), float("nan"), x)
    if to not in _CASTABLE or x.type.dtype not in _CASTABLE:
        raise Unsupported(f"{node.name}: from {x.type.dtype} to {to} is not covered")
    return node.apply(Cast(to), x)


LARGEST = {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0}
"""The largest number of each dtype of 8 bits: with `saturate`, what lies beyond becomes it."""

_CASTABLE = frozenset(
    [
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "bool",
        "bfloat16",
        "float16",
        *LARGEST,
    ]
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
