"""Tensors made from sizes: constant fills, ranges, identity matrices. (`Full` itself stands in `operators.sources`.)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operators.axes import sizes
from operators.expressions import Dim, Expression, floor_divide, plain
from operators.formulas import at_least_zero, equal
from operators.meaning import as_value, constant, convert, when
from operators.operator import Operator, TensorType, Unsupported, alias, operator, require, torch_dtype
from operators.pointwise import concrete, default_dtype, dtype_of, refuse
from operators.sources import Full

Bound = tuple[Operator, Sequence[Any]]


def dtype_name(dtype: Any, otherwise: str) -> str:
    """The name of a torch dtype argument, or the given one when it is None."""
    return otherwise if dtype is None else str(dtype).removeprefix("torch.")


def _filled(size: Sequence[Any], dtype: str, value: Any) -> Bound:
    listed = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    return Full(plain(tuple(listed)), dtype), [value]


def _declare_fills(word: str, value: int) -> None:
    @alias(word)
    def bind(*size: Any, dtype: Any = None, out: Any = None, **layout: Any) -> Bound:
        refuse(Full, out=out)
        return _filled(size, dtype_name(dtype, default_dtype()), value)

    @alias(f"{word}_like")
    def bind_like(input: Any, *, dtype: Any = None, **layout: Any) -> Bound:
        return _filled((sizes(input),), dtype_name(dtype, dtype_of(input)), value)

    @alias(f"new_{word}")
    def bind_new(input: Any, *size: Any, dtype: Any = None, **layout: Any) -> Bound:
        return _filled(size, dtype_name(dtype, dtype_of(input)), value)


_declare_fills("zeros", 0)
_declare_fills("ones", 1)


@alias("full_like")
def _full_like(input: Any, fill_value: Any, *, dtype: Any = None, **layout: Any) -> Bound:
    return _filled((sizes(input),), dtype_name(dtype, dtype_of(input)), fill_value)


@alias("new_full")
def _new_full(input: Any, size: Any, fill_value: Any, *, dtype: Any = None, **layout: Any) -> Bound:
    return _filled((size,), dtype_name(dtype, dtype_of(input)), fill_value)


@alias("scalar_tensor")
def _scalar_tensor(value: Any, *, dtype: Any = None, **layout: Any) -> Bound:
    return _filled(((),), dtype_name(dtype, default_dtype()), value)


class Source(Operator):
    """A tensor made without operands."""

    def flops(self, *operands: TensorType) -> Dim:
        return 0

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return ()


@operator(torch="arange", onnx="Range")
class Arange(Source):
    """start, start + step, … up to before stop.

    ->   [max(0, ⌈(stop − start) / step⌉)]
    """

    start: Dim
    stop: Dim
    step: Dim = 1
    type: str = "int64"

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        if isinstance(self.step, int) and self.step < 0:
            length = floor_divide(self.start - self.stop - self.step - 1, -self.step)
        else:
            require(self, at_least_zero(self.step - 1), f"step must not be 0, got {self.step}")
            length = floor_divide(self.stop - self.start + self.step - 1, self.step)
        require(self, at_least_zero(length), f"stop must not lie before start, got {self}")
        return (length,)

    def dtype(self, *operands: TensorType) -> str:
        return self.type

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        return convert(as_value(self.start + at[0] * self.step), "int64", self.type)

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.arange(*concrete((self.start, self.stop, self.step)), dtype=torch_dtype(self.type))

    @classmethod
    def bind(cls, *args: Any, dtype: Any = None, **named: Any) -> Bound:
        given = dict(zip(("end",) if len(args) == 1 else ("start", "end", "step"), args, strict=False)) | named
        start, stop, step = plain((given.get("start", 0), given["end"], given.get("step", 1)))
        if not all(isinstance(value, (int, Expression)) for value in (start, stop, step)):
            raise Unsupported("Arange: only integers are covered")
        return cls(start, stop, step, dtype_name(dtype, "int64")), []


@operator(torch="eye", onnx="EyeLike")
class Eye(Source):
    """Ones on the diagonal, zeros elsewhere.

    ->   [rows, columns]
    """

    rows: Dim
    columns: Dim
    type: str = "float32"

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        return self.rows, self.columns

    def dtype(self, *operands: TensorType) -> str:
        return self.type

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        one, zero = convert(constant(1), "int64", self.type), convert(constant(0), "int64", self.type)
        return when(equal(at[0], at[1]), lambda: one, lambda: zero)

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.eye(*concrete((self.rows, self.columns)), dtype=torch_dtype(self.type))

    @classmethod
    def bind(cls, n: Any, m: Any = None, *, dtype: Any = None, out: Any = None, **layout: Any) -> Bound:
        refuse(cls, out=out)
        return cls(plain(n), plain(n if m is None else m), dtype_name(dtype, default_dtype())), []
