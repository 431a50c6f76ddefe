"""Reductions over axes, which are kept with size 1 (`keep`) or removed; also running sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from operators.axes import axes_of, over, replaced, without
from operators.casts import Cast, cast
from operators.expressions import Dim, product
from operators.formulas import at_least_zero
from operators.meaning import (
    apply,
    as_value,
    compare,
    convert,
    divide,
    largest,
    multiplied,
    smallest,
    total,
    when,
)
from operators.operator import (
    Applied,
    Operator,
    ShapeError,
    TensorType,
    Unsupported,
    canonical_axis,
    kind_of,
    operator,
    require,
)
from operators.pointwise import concrete, refuse, to_kind

Bound = tuple[Operator, Sequence[Any]]


class Reduction(Operator):
    """A reduction of one tensor over the axes in `axes`."""

    axes: tuple[int, ...]
    keep: bool
    onto: ClassVar[str] = ""
    """The name of torch's function, which takes the axes and `keepdim`."""

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        require(self, not self.axes or x.ndim >= -min(self.axes), f"axes {self.axes} must exist, got {x}")
        return without(x.shape, self.axes, self.keep)

    def count(self, x: Any) -> Dim:
        """How many elements each result is made of."""
        return product(x.shape[axis] for axis in self.axes)

    def flops(self, *operands: TensorType) -> Dim:
        return product(operands[0].shape)

    def run(self, *tensors: Any) -> Any:
        import torch

        x, axes, keep = self.with_an_axis(tensors[0])
        return getattr(torch, self.onto)(x, dim=axes, keepdim=keep)

    def with_an_axis(self, x: Any) -> tuple[Any, tuple[int, ...], bool]:
        """x, axes and `keepdim` for torch's function, which takes no axes to mean all: x gets an axis of 1 to reduce instead."""
        return (x, self.axes, self.keep) if self.axes else (x.unsqueeze(-1), (-1,), False)

    def over_axes(self, word: str, x: Any) -> Any:
        """x reduced over the axes, which are kept, by torch's `word` (which takes no axes to mean all)."""
        return getattr(x, word)(self.axes, keepdim=True) if self.axes else x

    def spread(self, y: Any, x: Any) -> Any:
        """A result-shaped tensor expanded back over the reduced axes."""
        shape = without(x.shape, self.axes, True)
        return y.reshape(shape).expand(x.shape)

    @classmethod
    def bind(cls, *args: Any, **named: Any) -> Bound:
        return reduction(cls, *args, **named)


def reduction(
    who: Any, input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None, axis: Any = None
) -> Bound:
    """The operator of a torch call that reduces, with its operand."""
    refuse(who, out=out)
    return in_dtype(who(axes_of(axis if dim is None else dim, input.ndim, who.__name__), bool(keepdim)), input, dtype)


def in_dtype(operator: Operator, x: Any, dtype: Any) -> Bound:
    """The operator on x cast to a dtype beforehand; integers narrower than int64 are accumulated there and cast down."""
    if dtype is None:
        return operator, [x]
    name = str(dtype).removeprefix("torch.")
    if kind_of(name) == "bool":
        raise Unsupported(f"{type(operator).__name__}: accumulating in bool is not covered")
    first = Applied(*cast(x, name))
    return (Cast(name), [Applied(operator, [first])]) if kind_of(name) == "int" and name != "int64" else (operator, [first])


@operator(torch="sum", onnx="ReduceSum")
class Sum(Reduction):
    """Σ x over the axes; 0 for none. Integers and booleans add up in int64."""

    axes: tuple[int, ...]
    keep: bool = False
    onto: ClassVar[str] = "sum"

    def dtype(self, *operands: TensorType) -> str:
        return operands[0].dtype if kind_of(operands[0].dtype) in ("float", "complex") else "int64"

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        kind = kind_of(self.dtype(x))
        return over(total, x.shape, self.axes, at, self.keep, lambda index: to_kind(x[index], x.dtype, kind))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (self.spread(out_grad, operands[0]),)


@operator(torch="mean", onnx="ReduceMean")
class Mean(Reduction):
    """The mean of x over the axes; NaN for none."""

    axes: tuple[int, ...]
    keep: bool = False
    onto: ClassVar[str] = "mean"

    def dtype(self, *operands: TensorType) -> str:
        if kind_of(operands[0].dtype) not in ("float", "complex"):
            raise ShapeError(f"Mean: x must be floating, got {operands[0]}")
        return operands[0].dtype

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        return divide(over(total, x.shape, self.axes, at, self.keep, lambda index: x[index]), as_value(self.count(x)))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (self.spread(out_grad, operands[0]) / self.count(operands[0]),)


class ReduceExtreme(Reduction):
    """The largest or smallest element."""

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        for axis in self.axes:
            require(self, at_least_zero(operands[0].shape[axis] - 1), f"reduced axes must not be empty, got {operands[0]} over {self.axes}")
        return super().shape(*operands)

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        word = largest if self.onto == "amax" else smallest
        if x.dtype == "bool":
            found = over(word, x.shape, self.axes, at, self.keep, lambda index: convert(x[index], "bool", "int64"))
            return convert(found, "int64", "bool")
        return over(word, x.shape, self.axes, at, self.keep, lambda index: x[index])

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        best = (x == self.over_axes(self.onto, x)).to(x.dtype)
        return (self.spread(out_grad, x) * best / self.over_axes("sum", best),)


@operator(torch="amax", onnx="ReduceMax")
class Amax(ReduceExtreme):
    """The largest element over the axes, none of which may be empty."""

    axes: tuple[int, ...]
    keep: bool = False
    onto: ClassVar[str] = "amax"


@operator(torch="amin", onnx="ReduceMin")
class Amin(ReduceExtreme):
    """The smallest element over the axes, none of which may be empty."""

    axes: tuple[int, ...]
    keep: bool = False
    onto: ClassVar[str] = "amin"


@operator(torch="prod", onnx="ReduceProd")
class Product(Reduction):
    """Π x over the axes; 1 for none. Integers and booleans multiply in int64."""

    axes: tuple[int, ...]
    keep: bool = False

    def dtype(self, *operands: TensorType) -> str:
        return operands[0].dtype if kind_of(operands[0].dtype) in ("float", "complex") else "int64"

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        kind = kind_of(self.dtype(x))
        return over(multiplied, x.shape, self.axes, at, self.keep, lambda index: to_kind(x[index], x.dtype, kind))

    def run(self, *tensors: Any) -> Any:
        import torch

        x, axes, keep = self.with_an_axis(tensors[0])
        if len(axes) == x.ndim and x.ndim > 1:
            return torch.prod(x).reshape(without(x.shape, axes, keep))
        for axis in axes:
            x = torch.prod(x, axis, keepdim=True)
        return x.reshape(without(x.shape, axes, keep))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        """Of each element: the product of the others."""
        import torch

        (x,) = operands
        if not self.axes:
            return (out_grad,)
        count, last = self.count(x), tuple(range(-len(self.axes), 0))
        rows = x.movedim(self.axes, last).flatten(-len(self.axes))
        same = torch.eye(concrete(count), dtype=torch.bool)
        others = torch.where(same, 1.0, rows.unsqueeze(-2)).prod(-1)
        moved = x.movedim(self.axes, last).shape
        return (self.spread(out_grad, x) * others.reshape(moved).movedim(last, self.axes),)


class Quantifier(Reduction):
    """A statement about all elements; a number is true when it is not 0."""

    def dtype(self, *operands: TensorType) -> str:
        if operands[0].dtype == "uint8":
            raise ShapeError(f"{type(self).__name__}: uint8 is not covered (torch gives uint8 back), got {operands[0]}")
        return "bool"

    def failures(self, at: tuple[Any, ...], x: Any, wanted: bool) -> Any:
        """How many elements are true (wanted) or false."""

        def count(index: tuple[Any, ...]) -> Any:
            truth = convert(x[index], x.dtype, "bool") if x.dtype != "bool" else x[index]
            return convert(truth if wanted else apply("not", truth), "bool", "int64")

        return over(total, x.shape, self.axes, at, self.keep, count)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (None,)


@operator(torch="all")
class All(Quantifier):
    """Every element over the axes is true; so it is when there is none."""

    axes: tuple[int, ...]
    keep: bool = False
    onto: ClassVar[str] = "all"

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        return compare("==", self.failures(at, operands[0], False), as_value(0))


@operator(torch="any")
class AnyOf(Quantifier):
    """Some element over the axes is true."""

    axes: tuple[int, ...]
    keep: bool = False
    onto: ClassVar[str] = "any"

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        return compare("!=", self.failures(at, operands[0], True), as_value(0))


@operator(torch="cumsum", onnx="CumSum")
class Cumsum(Operator):
    """Running sums along an axis: the i-th is the sum of the first i + 1 elements.

    x: [*s, d, *t]   ->   [*s, d, *t]
    """

    axis: int

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        require(self, x.ndim >= -self.axis or x.ndim == 0, f"axis {self.axis} must exist, got {x}")
        return x.shape

    def dtype(self, *operands: TensorType) -> str:
        return operands[0].dtype if kind_of(operands[0].dtype) in ("float", "complex") else "int64"

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        kind = kind_of(self.dtype(x))
        if not at:
            return to_kind(x[at], x.dtype, kind)
        return total(
            x.shape[self.axis],
            lambda i: when(
                at_least_zero(at[self.axis] - i), lambda: to_kind(x[replaced(at, self.axis, i)], x.dtype, kind), lambda: as_value(0)
            ),
        )

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.cumsum(tensors[0], self.axis)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (out_grad.flip(self.axis).cumsum(self.axis).flip(self.axis) if out_grad.ndim else out_grad,)

    @classmethod
    def bind(cls, input: Any, dim: int, *, dtype: Any = None, out: Any = None) -> Bound:
        refuse(cls, out=out)
        return in_dtype(cls(canonical_axis(dim, input.ndim, "Cumsum")), input, dtype)
