"""Moving elements within a tensor: flips, rolls, repetitions and triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from operators.axes import axes_of, replaced, sizes
from operators.expressions import Dim, plain
from operators.formulas import at_least_zero
from operators.meaning import constant, unravel, when, within
from operators.operator import Operator, TensorType, Unsupported, canonical_axis, is_known_equal, operator, require
from operators.pointwise import concrete

Bound = tuple[Operator, Sequence[Any]]


@operator(torch="flip")
class Flip(Operator):
    """x with the order along some axes reversed."""

    axes: tuple[int, ...]

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        require(self, not self.axes or x.ndim >= -min(self.axes), f"axes {self.axes} must exist, got {x}")
        return x.shape

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        return x[tuple(x.shape[axis] - 1 - i if axis in self.axes else i for axis, i in zip(range(-len(at), 0), at, strict=True))]

    def flops(self, *operands: TensorType) -> Dim:
        return 0

    def run(self, *tensors: Any) -> Any:
        return tensors[0].flip(self.axes)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (out_grad.flip(self.axes),)

    @classmethod
    def bind(cls, input: Any, *dims: Any) -> Bound:
        given = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
        return cls(axes_of(given, input.ndim, "Flip") if given else ()), [input]


@operator(torch="roll")
class Roll(Operator):
    """x shifted along axes, what leaves at the end coming in at the start.

    `shifts` are counted in elements, one per axis of `axes`, each 0 ≤ shift < size (or 0 for an empty axis).
    """

    shifts: tuple[Dim, ...]
    axes: tuple[int, ...]

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        require(self, not self.axes or x.ndim >= -min(self.axes), f"axes {self.axes} must exist, got {x}")
        for axis, shift in zip(self.axes, self.shifts, strict=True):
            size = x.shape[axis]
            require(
                self, is_known_equal(shift, 0) or within(shift, size), f"shift must be from 0 to below the size, got {shift} for {size}"
            )
        return x.shape

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands

        def go(position: int, index: tuple[Any, ...]) -> Any:
            if position == len(self.axes):
                return x[index]
            axis, shift = self.axes[position], self.shifts[position]
            i = index[axis] - shift
            size = x.shape[axis]
            return when(
                at_least_zero(i),
                lambda: go(position + 1, replaced(index, axis, i)),
                lambda: go(position + 1, replaced(index, axis, i + size)),
            )

        return go(0, at)

    def flops(self, *operands: TensorType) -> Dim:
        return 0

    def run(self, *tensors: Any) -> Any:
        return tensors[0].roll(self.shifts, self.axes) if self.axes else tensors[0]

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (out_grad.roll(tuple(-shift for shift in self.shifts), self.axes) if self.axes else out_grad,)

    @classmethod
    def bind(cls, input: Any, shifts: Any, dims: Any = None) -> Bound:
        listed = tuple(shifts) if isinstance(shifts, (tuple, list)) else (shifts,)
        if dims is None or dims in ((), []):
            raise Unsupported("Roll: dims must be given")
        axes = tuple(canonical_axis(axis, input.ndim, "Roll") for axis in (dims if isinstance(dims, (tuple, list)) else (dims,)))
        if len(set(axes)) != len(axes):
            raise Unsupported(f"Roll: axes must be distinct, got {dims}")
        shape = sizes(input)
        folded = []
        for axis, shift in zip(axes, plain(listed), strict=True):
            size = shape[axis]
            if isinstance(shift, int) and isinstance(size, int):
                folded.append(shift % size if size else 0)
            else:
                folded.append(size + shift if isinstance(shift, int) and shift < 0 else shift)
        return cls(tuple(folded), axes), [input]


@operator(torch="repeat tile", onnx="Tile")
class Repeat(Operator):
    """x laid side by side `repeats` times along each axis; more repeats than axes add leading axes.

    x: [*d]   ->   [*(repeats · d)]
    """

    repeats: tuple[Dim, ...]

    def _whole(self, x: Any) -> tuple[Dim, ...]:
        return (*(1,) * (len(self.repeats) - len(x.shape)), *x.shape)

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        require(self, len(self.repeats) >= x.ndim, f"repeats must cover the axes of x, got {self.repeats} for {x}")
        return tuple(count * size for count, size in zip(self.repeats, self._whole(x), strict=True))

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        whole = self._whole(x)

        def go(position: int, index: tuple[Any, ...]) -> Any:
            if position == len(whole):
                return x[index[len(whole) - len(x.shape) :]]
            count, size = self.repeats[position], whole[position]
            if is_known_equal(count, 1):
                return go(position + 1, (*index, at[position]))
            return unravel(at[position], (count, size), lambda _, inner: go(position + 1, (*index, inner)))

        return go(0, ())

    def flops(self, *operands: TensorType) -> Dim:
        return 0

    def run(self, *tensors: Any) -> Any:
        return tensors[0].repeat(self.repeats)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        split = [part for count, size in zip(self.repeats, self._whole(x), strict=True) for part in (count, size)]
        return (out_grad.reshape(split).sum(tuple(range(0, len(split), 2))).reshape(x.shape) if split else out_grad,)

    @classmethod
    def bind(cls, input: Any, *repeats: Any, dims: Any = None) -> Bound:
        given = repeats if dims is None else (dims,)
        listed = plain(tuple(given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given))
        return cls((*(1,) * (input.ndim - len(listed)), *listed)), [input]


@operator(torch="repeat_interleave")
class RepeatInterleave(Operator):
    """Every position of an axis repeated `repeats` times in place.

    x: [*s, d, *t]   ->   [*s, d · repeats, *t]
    """

    repeats: Dim
    axis: int

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        return replaced(x.shape, self.axis, x.shape[self.axis] * self.repeats)

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        return unravel(at[self.axis], (x.shape[self.axis], self.repeats), lambda outer, _: x[replaced(at, self.axis, outer)])

    def flops(self, *operands: TensorType) -> Dim:
        return 0

    def run(self, *tensors: Any) -> Any:
        return tensors[0].repeat_interleave(self.repeats, self.axis)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        shape = tuple(operands[0].shape)
        cut = len(shape) + self.axis + 1
        return (out_grad.reshape((*shape[:cut], self.repeats, *shape[cut:])).sum(cut),)

    @classmethod
    def bind(cls, input: Any, repeats: Any = None, dim: int | None = None, *, output_size: Any = None) -> Bound:
        if hasattr(repeats, "shape") or dim is None:
            raise Unsupported("RepeatInterleave: repeats must be one integer and dim be given")
        return cls(plain(repeats), canonical_axis(dim, input.ndim, "RepeatInterleave")), [input]


class Triangle(Operator):
    """One side of a diagonal of the last two axes; the other side is zero."""

    diagonal: Dim
    upper: ClassVar[bool]

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        require(self, x.ndim >= 2, f"x must have at least 2 axes, got {x}")
        return x.shape

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        offset = at[-1] - at[-2] - self.diagonal
        return when(at_least_zero(offset if self.upper else -offset), lambda: x[at], lambda: constant(x.dtype != "bool" and 0))

    def flops(self, *operands: TensorType) -> Dim:
        return 0

    def run(self, *tensors: Any) -> Any:
        import torch

        return (torch.triu if self.upper else torch.tril)(tensors[0], concrete(self.diagonal))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return ((out_grad.triu if self.upper else out_grad.tril)(self.diagonal),)

    @classmethod
    def bind(cls, input: Any, diagonal: Any = 0) -> Bound:
        return cls(plain(diagonal)), [input]  # type: ignore[call-arg]


@operator(torch="tril")
class Tril(Triangle):
    """The elements on and below the given diagonal of the last two axes; the others are zero."""

    diagonal: Dim = 0
    upper: ClassVar[bool] = False


@operator(torch="triu")
class Triu(Triangle):
    """The elements on and above the given diagonal of the last two axes; the others are zero."""

    diagonal: Dim = 0
    upper: ClassVar[bool] = True
