"""Largest and smallest elements along one axis, with their positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from operators.axes import axes_of, over, sizes, without
from operators.expressions import Dim, product
from operators.formulas import at_least_zero
from operators.meaning import largest, position_of_largest, position_of_smallest, smallest
from operators.operator import Applied, Operator, TensorType, Unsupported, alias, canonical_axis, operator, require
from operators.reductions import Amax, Amin

Bound = tuple[Operator, Sequence[Any]]


class Extreme(Operator):
    """The largest or smallest element along one axis and the first position where it stands."""

    axis: int
    keep: bool
    multiple: ClassVar[bool] = True
    largest: ClassVar[bool] = True

    def outputs(self, *operands: TensorType) -> tuple[TensorType, ...]:
        (x,) = operands
        require(self, x.ndim >= -self.axis, f"axis {self.axis} must exist, got {x}")
        require(self, at_least_zero(x.shape[self.axis] - 1), f"axis {self.axis} must not be empty, got {x}")
        shape = without(x.shape, (self.axis,), self.keep)
        return TensorType(shape, x.dtype), TensorType(shape, "int64")

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        words = ((largest, position_of_largest) if self.largest else (smallest, position_of_smallest))[output]
        return over(words, x.shape, (self.axis,), at, self.keep, lambda index: x[index])

    def flops(self, *operands: TensorType) -> Dim:
        return product(operands[0].shape)

    def run(self, *tensors: Any) -> Any:
        import torch

        return tuple((torch.max if self.largest else torch.min)(tensors[0], self.axis, keepdim=self.keep))


@operator()
class MaxAlong(Extreme):
    """The largest element along one axis, and the first position where it stands.

    x: [*s, d, *t]   ->   values: [*s, *t]   positions: [*s, *t] of int64
    """

    axis: int
    keep: bool = False


@operator()
class MinAlong(Extreme):
    """The smallest element along one axis, and the first position where it stands.

    x: [*s, d, *t]   ->   values: [*s, *t]   positions: [*s, *t] of int64
    """

    axis: int
    keep: bool = False
    largest: ClassVar[bool] = False


def _declare_extreme(name: str) -> None:
    from operators.arithmetic import Maximum, Minimum

    along, pairwise, whole = (MaxAlong, Maximum, Amax) if name == "max" else (MinAlong, Minimum, Amin)

    @alias(name)
    def bind(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Bound:
        if other is not None or hasattr(dim, "shape"):
            return pairwise(), [input, dim if other is None else other]
        if dim is None:
            return whole(axes_of(None, input.ndim, name), False), [input]
        return along(canonical_axis(dim, input.ndim, name), keepdim), [input]


_declare_extreme("max")
_declare_extreme("min")


class ArgExtreme(Operator):
    """The first position along one axis at which the element is largest or smallest."""

    axis: int
    keep: bool
    largest: ClassVar[bool] = True

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        require(self, x.ndim >= -self.axis, f"axis {self.axis} must exist, got {x}")
        require(self, at_least_zero(x.shape[self.axis] - 1), f"axis {self.axis} must not be empty, got {x}")
        return without(x.shape, (self.axis,), self.keep)

    def dtype(self, *operands: TensorType) -> str:
        return "int64"

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        word = position_of_largest if self.largest else position_of_smallest
        return over(word, x.shape, (self.axis,), at, self.keep, lambda index: x[index])

    def flops(self, *operands: TensorType) -> Dim:
        return product(operands[0].shape)

    def run(self, *tensors: Any) -> Any:
        import torch

        return (torch.argmax if self.largest else torch.argmin)(tensors[0], self.axis, self.keep)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (None,)

    @classmethod
    def bind(cls, input: Any, dim: Any = None, keepdim: bool = False) -> Bound:
        if dim is None:
            from operators.layout import Reshape

            if keepdim:
                raise Unsupported(f"{cls.__name__}: keepdim without dim is not covered")
            flat = Reshape((product(sizes(input)),))
            return cls(-1, False), [Applied(flat, [input])]  # type: ignore[call-arg]
        return cls(canonical_axis(dim, input.ndim, cls.__name__), bool(keepdim)), [input]  # type: ignore[call-arg]


@operator(torch="argmax", onnx="ArgMax")
class ArgMax(ArgExtreme):
    """The first position along an axis at which x is largest."""

    axis: int
    keep: bool = False


@operator(torch="argmin", onnx="ArgMin")
class ArgMin(ArgExtreme):
    """The first position along an axis at which x is smallest."""

    axis: int
    keep: bool = False
    largest: ClassVar[bool] = False
