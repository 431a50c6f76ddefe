"""Operators element by element. Operands are cast to the dtype that they are promoted to: ONNX promotes nothing."""

from __future__ import annotations

from typing import Any

from graphs.onnx.errors import OnnxError
from graphs.onnx.types import ELEMENT_TYPES
from graphs.onnx.writing.registry import Spelling, spells
from operators.operator import kind_of, promote


def together(spelling: Spelling, *positions: int) -> str:
    """The dtype to which torch promotes these operands."""
    return promote(*(spelling.type(position) for position in positions))


def _declare_binary(ours: str, name: str, compares: bool = False) -> None:
    @spells(ours)
    def spell(spelling: Spelling) -> str:
        dtype = together(spelling, 0, 1)
        if dtype == "bool" and not compares:
            raise OnnxError(f"{spelling.operator}: on truth values, ONNX has no word for it")
        return str(spelling.emit(name, spelling.at(0, dtype), spelling.at(1, dtype)))


for _ours, _name in {"Add": "Add", "Subtract": "Sub", "Multiply": "Mul", "Maximum": "Max", "Minimum": "Min"}.items():
    _declare_binary(_ours, _name)
for _ours, _name in {"Equal": "Equal", "Less": "Less", "Greater": "Greater"}.items():
    _declare_binary(_ours, _name, compares=True)


@spells("LessEqual", "GreaterEqual")
def compare(spelling: Spelling) -> str:
    dtype = together(spelling, 0, 1)
    operands = spelling.at(0, dtype), spelling.at(1, dtype)
    less = type(spelling.operator).__name__ == "LessEqual"
    if spelling.opset >= 12:
        return str(spelling.emit("LessOrEqual" if less else "GreaterOrEqual", *operands))
    strict = spelling.emit("Less" if less else "Greater", *operands)
    return str(spelling.emit("Or", strict, spelling.emit("Equal", *operands)))


@spells("NotEqual")
def not_equal(spelling: Spelling) -> str:
    dtype = together(spelling, 0, 1)
    return str(spelling.emit("Not", spelling.emit("Equal", spelling.at(0, dtype), spelling.at(1, dtype))))


@spells("Divide")
def divide(spelling: Spelling) -> str:
    dtype = spelling.out.dtype
    return str(spelling.emit("Div", spelling.at(0, dtype), spelling.at(1, dtype)))


@spells("AddScaled")
def add_scaled(spelling: Spelling) -> str:
    dtype = spelling.out.dtype
    scaled = spelling.emit("Mul", spelling.at(1, dtype), spelling.at(2, dtype))
    return str(spelling.emit("Add", spelling.at(0, dtype), scaled))


@spells("AddProduct", "AddQuotient")
def add_product(spelling: Spelling) -> str:
    x, a, b, factor = (spelling.at(position, spelling.out.dtype) for position in range(4))
    joined = "Mul" if type(spelling.operator).__name__ == "AddProduct" else "Div"
    return str(spelling.emit("Add", x, spelling.emit(joined, spelling.emit("Mul", a, factor), b)))


@spells("Lerp")
def lerp(spelling: Spelling) -> str:
    a, b, weight = (spelling.at(position, spelling.out.dtype) for position in range(3))
    return str(spelling.emit("Add", a, spelling.emit("Mul", weight, spelling.emit("Sub", b, a))))


@spells("LogAddExp")
def log_add_exp(spelling: Spelling) -> str:
    """The larger and log(1 + e^−distance); the distance of two infinities is NaN, and that of equal numbers 0."""
    import math

    dtype = spelling.out.dtype
    a, b = spelling.at(0, dtype), spelling.at(1, dtype)
    distance = spelling.emit("Abs", spelling.emit("Sub", a, b))
    more = spelling.emit("Log", spelling.emit("Add", spelling.constant(1.0, dtype), spelling.emit("Exp", spelling.emit("Neg", distance))))
    log_two = spelling.constant(math.log(2.0), dtype)
    return str(spelling.emit("Add", spelling.emit("Max", a, b), spelling.emit("Where", spelling.emit("Equal", a, b), log_two, more)))


@spells("TruncDivide", "FloorDivide")
def divide_whole(spelling: Spelling) -> str:
    dtype = spelling.out.dtype
    a, b = spelling.at(0, dtype), spelling.at(1, dtype)
    floors = type(spelling.operator).__name__ == "FloorDivide"
    if kind_of(dtype) == "int":
        if floors:
            a = spelling.emit("Sub", a, spelling.emit("Mod", a, b))
        return str(spelling.emit("Div", a, b))
    quotient = spelling.emit("Div", a, b)
    return str(spelling.emit("Floor", quotient)) if floors else _towards_zero(spelling, quotient)


def _towards_zero(spelling: Spelling, x: str) -> str:
    sign = spelling.emit("Sign", x)
    return str(spelling.emit("Mul", sign, spelling.emit("Floor", spelling.emit("Abs", x))))


@spells("Trunc")
def truncate(spelling: Spelling) -> str:
    return _towards_zero(spelling, spelling[0])


@spells("Remainder", "TruncRemainder")
def remainder(spelling: Spelling) -> str:
    dtype = spelling.out.dtype
    a, b = spelling.at(0, dtype), spelling.at(1, dtype)
    if type(spelling.operator).__name__ == "TruncRemainder":
        return str(spelling.emit("Mod", a, b, fmod=1))
    if kind_of(dtype) == "int":
        return str(spelling.emit("Mod", a, b))
    rest, zero = spelling.emit("Mod", a, b, fmod=1), spelling.constant(0.0, dtype)
    signs = spelling.emit("Xor", spelling.emit("Less", rest, zero), spelling.emit("Less", b, zero))
    moves = spelling.emit("And", signs, spelling.emit("Not", spelling.emit("Equal", rest, zero)))
    return str(spelling.emit("Where", moves, spelling.emit("Add", rest, b), rest))


@spells("Power")
def power(spelling: Spelling) -> str:
    dtype = spelling.out.dtype
    return str(spelling.emit("Pow", spelling.at(0, dtype), spelling.at(1, dtype)))


@spells("Square")
def square(spelling: Spelling) -> str:
    return str(spelling.emit("Mul", spelling[0], spelling[0]))


def _declare_unary(ours: str, name: str) -> None:
    @spells(ours)
    def spell(spelling: Spelling) -> str:
        return str(spelling.emit(name, spelling.at(0, None if name == "IsNaN" else spelling.out.dtype)))


for _ours, _name in {
    "Negative": "Neg",
    "Absolute": "Abs",
    "Sign": "Sign",
    "Floor": "Floor",
    "Ceil": "Ceil",
    "Round": "Round",
    "Exp": "Exp",
    "Log": "Log",
    "Sqrt": "Sqrt",
    "Reciprocal": "Reciprocal",
    "Sin": "Sin",
    "Cos": "Cos",
    "Tan": "Tan",
    "Atan": "Atan",
    "Asin": "Asin",
    "Acos": "Acos",
    "Sinh": "Sinh",
    "Cosh": "Cosh",
    "Asinh": "Asinh",
    "Acosh": "Acosh",
    "Atanh": "Atanh",
    "Erf": "Erf",
    "IsNaN": "IsNaN",
    "Identity": "Identity",
    "Copy": "Identity",
    "Contiguous": "Identity",
    "Detach": "Identity",
}.items():
    _declare_unary(_ours, _name)


@spells("Rsqrt")
def reciprocal_root(spelling: Spelling) -> str:
    return str(spelling.emit("Reciprocal", spelling.emit("Sqrt", spelling.at(0, spelling.out.dtype))))


@spells("Expm1", "Log1p", "Exp2", "Log2", "Log10")
def shifted(spelling: Spelling) -> str:
    import math

    dtype = spelling.out.dtype
    x, name = spelling.at(0, dtype), type(spelling.operator).__name__
    one = spelling.constant(1.0, dtype)
    if name == "Expm1":
        return str(spelling.emit("Sub", spelling.emit("Exp", x), one))
    if name == "Log1p":
        return str(spelling.emit("Log", spelling.emit("Add", x, one)))
    if name == "Exp2":
        return str(spelling.emit("Pow", spelling.constant(2.0, dtype), x))
    base = 2.0 if name == "Log2" else 10.0
    return str(spelling.emit("Div", spelling.emit("Log", x), spelling.constant(math.log(base), dtype)))


@spells("Cast")
def cast(spelling: Spelling) -> str:
    return spelling.cast(spelling[0], spelling.operator.to)


@spells("Clamp")
def clamp(spelling: Spelling) -> str:
    """Clip takes numbers only; before opset 11 as attributes."""
    dtype = spelling.out.dtype
    numbers = [spelling.number(position) if spelling.has(position) else None for position in (1, 2)]
    plain = all(number is not None or not spelling.has(position) for position, number in zip((1, 2), numbers, strict=True))
    if plain and spelling.opset < 11:
        bounds: dict[str, Any] = {name: float(number) for name, number in zip(("min", "max"), numbers, strict=True) if number is not None}
        return str(spelling.emit("Clip", spelling.at(0, dtype), **bounds))
    if plain and (spelling.opset >= 12 or kind_of(dtype) == "float"):
        return str(spelling.emit("Clip", spelling.at(0, dtype), spelling.at(1, dtype), spelling.at(2, dtype)))
    x = spelling.at(0, dtype)
    if spelling.has(1):
        x = spelling.emit("Max", x, spelling.at(1, dtype))
    return str(spelling.emit("Min", x, spelling.at(2, dtype)) if spelling.has(2) else x)


def _declare_logic(ours: str, name: str) -> None:
    @spells(ours)
    def spell(spelling: Spelling) -> str:
        return str(spelling.emit(name, *(spelling.at(position, "bool") for position in range(len(spelling.operands)))))


for _ours, _name in {"LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor", "LogicalNot": "Not"}.items():
    _declare_logic(_ours, _name)


@spells("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bits(spelling: Spelling) -> str:
    name, dtype = type(spelling.operator).__name__, spelling.out.dtype
    operands = spelling.at(0, dtype), spelling.at(1, dtype)
    if dtype == "bool":
        return str(spelling.emit(name.removeprefix("Bitwise"), *operands))
    spelling.need(18, name)
    return str(spelling.emit(name, *operands))


@spells("BitwiseNot")
def opposite_bits(spelling: Spelling) -> str:
    return str(spelling.emit("Not" if spelling.out.dtype == "bool" else "BitwiseNot", spelling[0]))


@spells("Where")
def where(spelling: Spelling) -> str:
    dtype, condition = spelling.out.dtype, spelling.at(0, "bool")
    if dtype == "bool":  # runtimes have no kernel for it
        chosen = spelling.emit("And", condition, spelling.at(1, dtype))
        other = spelling.emit("And", spelling.emit("Not", condition), spelling.at(2, dtype))
        return str(spelling.emit("Or", chosen, other))
    return str(spelling.emit("Where", condition, spelling.at(1, dtype), spelling.at(2, dtype)))


@spells("Full")
def full(spelling: Spelling) -> str:
    from onnx import numpy_helper

    from operators.arrays import to_numpy

    value, dtype = spelling.number(0), spelling.operator.type
    if value is None:
        return str(spelling.emit("Expand", spelling.at(0, dtype), spelling.sizes(spelling.out.shape)))
    import torch

    content = numpy_helper.from_array(to_numpy(torch.tensor([value], dtype=getattr(torch, dtype))))
    return str(spelling.emit("ConstantOfShape", spelling.sizes(spelling.out.shape), value=content))


@spells("Arange")
def arange(spelling: Spelling) -> str:
    operator = spelling.operator
    ends = [
        spelling.emit("Squeeze", spelling.size(dim), *spelling.axes([0]), **spelling.axes_attribute([0]))
        for dim in (operator.start, operator.stop, operator.step)
    ]
    result = spelling.emit("Range", *ends)
    return str(result) if operator.type == "int64" else spelling.cast(result, operator.type)


@spells("Eye")
def eye(spelling: Spelling) -> str:
    import torch

    operator = spelling.operator
    if not isinstance(operator.rows, int) or not isinstance(operator.columns, int):
        spelling.need(9, "EyeLike")
        rows = spelling.emit("ConstantOfShape", spelling.sizes([operator.rows, operator.columns]))
        return str(spelling.emit("EyeLike", rows, dtype=ELEMENT_TYPES[operator.type]))
    return spelling.held("eye", torch.eye(operator.rows, operator.columns, dtype=getattr(torch, operator.type)))


@spells("Dropout")
def dropout(spelling: Spelling) -> str:
    if spelling.operator.training:
        raise OnnxError("Dropout in training mode is random: the numbers that ONNX draws would be others")
    return spelling[0]
