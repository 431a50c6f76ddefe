"""Comparisons, logic and choice; their results are booleans or one of two operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from operators.expressions import Dim
from operators.meaning import apply, compare, convert, when
from operators.operator import (
    Operator,
    ShapeError,
    TensorType,
    Unsupported,
    alias,
    broadcast,
    broadcast_index,
    kind_of,
    operator,
    promote,
)
from operators.pointwise import Pointwise, Truth, dtype_of, highest_kind, reduce_to, to_kind

Bound = tuple[Operator, Sequence[Any]]


class Comparison(Truth):
    """The truth of `a relation b`; false when either is NaN, except for ≠."""

    relation: ClassVar[str] = ""

    def value(self, *values: Any) -> Any:
        return compare(self.relation, *values)

    def value_on_bools(self, *values: Any) -> Any:
        return compare(self.relation, *(convert(value, "bool", "int64") for value in values))


@operator(torch="eq __eq__", onnx="Equal")
class Equal(Comparison):
    """a = b."""

    commutative: ClassVar[bool] = True
    function: ClassVar[str] = "eq"
    relation: ClassVar[str] = "=="


@operator(torch="ne not_equal __ne__")
class NotEqual(Comparison):
    """a ≠ b."""

    commutative: ClassVar[bool] = True
    function: ClassVar[str] = "ne"
    relation: ClassVar[str] = "!="


@operator(torch="lt less __lt__", onnx="Less")
class Less(Comparison):
    """a < b."""

    function: ClassVar[str] = "lt"
    relation: ClassVar[str] = "<"


@operator(torch="le less_equal __le__", onnx="LessOrEqual")
class LessEqual(Comparison):
    """a ≤ b."""

    function: ClassVar[str] = "le"
    relation: ClassVar[str] = "<="


@operator(torch="gt greater __gt__", onnx="Greater")
class Greater(Comparison):
    """a > b."""

    function: ClassVar[str] = "gt"
    relation: ClassVar[str] = ">"


@operator(torch="ge greater_equal __ge__", onnx="GreaterOrEqual")
class GreaterEqual(Comparison):
    """a ≥ b."""

    function: ClassVar[str] = "ge"
    relation: ClassVar[str] = ">="


class Connective(Truth):
    """A connective of truths; a number is true when it is not 0."""

    word: ClassVar[str] = ""

    def kind(self, *dtypes: str) -> str:
        return "bool"

    def value_on_bools(self, *values: Any) -> Any:
        return apply(self.word, *values)


@operator(torch="logical_and", onnx="And")
class LogicalAnd(Connective):
    """Both a and b."""

    commutative: ClassVar[bool] = True
    function: ClassVar[str] = "logical_and"
    word: ClassVar[str] = "and"


@operator(torch="logical_or", onnx="Or")
class LogicalOr(Connective):
    """a or b or both."""

    commutative: ClassVar[bool] = True
    function: ClassVar[str] = "logical_or"
    word: ClassVar[str] = "or"


@operator(torch="logical_xor", onnx="Xor")
class LogicalXor(Connective):
    """Exactly one of a and b."""

    commutative: ClassVar[bool] = True
    function: ClassVar[str] = "logical_xor"
    word: ClassVar[str] = "xor"


@operator(torch="logical_not", onnx="Not")
class LogicalNot(Connective):
    """x is false."""

    function: ClassVar[str] = "logical_not"
    word: ClassVar[str] = "not"


class Bitwise(Pointwise):
    """A connective bit by bit on integers, and of truths on booleans."""

    word: ClassVar[str] = ""

    def dtype(self, *operands: TensorType) -> str:
        dtype = promote(*operands)
        if kind_of(dtype) not in ("bool", "int"):
            raise ShapeError(f"{type(self).__name__}: operands must be integers or booleans, got {' and '.join(map(str, operands))}")
        return dtype

    def value(self, *values: Any) -> Any:
        return apply(self.function, *values)

    def value_on_bools(self, *values: Any) -> Any:
        return apply(self.word, *values)


@operator(torch="bitwise_and and __and__ __rand__", onnx="BitwiseAnd")
class BitwiseAnd(Bitwise):
    """a and b, bit by bit."""

    commutative: ClassVar[bool] = True
    function: ClassVar[str] = "bitwise_and"
    word: ClassVar[str] = "and"


@operator(torch="bitwise_or or __or__ __ror__", onnx="BitwiseOr")
class BitwiseOr(Bitwise):
    """a or b, bit by bit."""

    commutative: ClassVar[bool] = True
    function: ClassVar[str] = "bitwise_or"
    word: ClassVar[str] = "or"


@operator(torch="bitwise_xor xor __xor__ __rxor__", onnx="BitwiseXor")
class BitwiseXor(Bitwise):
    """Exactly one of a and b, bit by bit."""

    commutative: ClassVar[bool] = True
    function: ClassVar[str] = "bitwise_xor"
    word: ClassVar[str] = "xor"


@operator(torch="bitwise_not invert __invert__", onnx="BitwiseNot")
class BitwiseNot(Bitwise):
    """Not x, bit by bit."""

    function: ClassVar[str] = "bitwise_not"
    word: ClassVar[str] = "not"


@operator(torch="isnan", onnx="IsNaN")
class IsNaN(Truth):
    """x is not a number."""

    function: ClassVar[str] = "isnan"

    def value(self, *values: Any) -> Any:
        return apply("isnan", *values)


@operator(torch="where", onnx="Where")
class Where(Pointwise):
    """`a` where the condition holds, else `b`; broadcasting.

    condition: [*s] of bool   a: [*s]   b: [*s]   ->   [*s]
    """

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        if kind_of(operands[0].dtype) != "bool":
            raise ShapeError(f"Where: condition must be bool, got {operands[0]}")
        return broadcast(self, *(operand.shape for operand in operands))

    def dtype(self, *operands: TensorType) -> str:
        return promote(*operands[1:])

    def weak(self, *operands: TensorType) -> bool:
        return False

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        condition, a, b = operands
        kind = highest_kind(a.dtype, b.dtype)
        return when(
            condition[broadcast_index(at, condition.shape)],
            lambda: to_kind(a[broadcast_index(at, a.shape)], a.dtype, kind),
            lambda: to_kind(b[broadcast_index(at, b.shape)], b.dtype, kind),
        )

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.where(*tensors)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        condition, a, b = operands
        return None, reduce_to(torch.where(condition, out_grad, 0.0), a), reduce_to(torch.where(condition, 0.0, out_grad), b)

    @classmethod
    def bind(cls, condition: Any, input: Any, other: Any, **named: Any) -> Bound:
        return cls(), [condition, input, other]


@alias("masked_fill")
def _masked_fill(input: Any, mask: Any, value: Any) -> Bound:
    if highest_kind(dtype_of(input), dtype_of(value)) != kind_of(dtype_of(input)):
        raise Unsupported(f"Where: the value of masked_fill must fit {dtype_of(input)}, got {dtype_of(value)}")
    if isinstance(value, int) and not isinstance(value, bool) and kind_of(dtype_of(input)) == "float":
        value = float(value)
    return Where(), [mask, value, input]
