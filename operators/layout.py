"""Reshaping, permuting, broadcasting and slicing: every output element is one element of x.

View, reshape, flatten, unflatten, squeeze, unsqueeze are all one operator, `Reshape`: they differ in how a size is written,
not in what they compute. Transposes and other reorderings of axes are all `Permute`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from operators.axes import axes_of, replaced, sizes
from operators.expressions import Dim, Expression, divide_exactly, floor_divide, plain, product
from operators.formulas import Truth, all_of, at_least_zero, equal
from operators.meaning import ravel, unravel, within
from operators.operator import (
    Operator,
    ShapeError,
    TensorType,
    Unsupported,
    alias,
    broadcast_index,
    canonical_axis,
    is_known_equal,
    note_narrowing,
    note_units,
    operator,
    require,
)
from operators.pointwise import reduce_to

Bound = tuple[Operator, Sequence[Any]]


class Layout(Operator):
    """An operator of one tensor that only moves elements."""

    aliases: ClassVar[bool] = True

    def dtype(self, *operands: TensorType) -> str:
        return operands[0].dtype

    def flops(self, *operands: TensorType) -> Dim:
        return 0


def resolve_size(size: Sequence[Dim], shape: Sequence[Dim], who: str = "Reshape") -> tuple[Dim, ...]:
    """The size with its −1, if any, replaced by what is left of the elements.

    Raises: ShapeError when there are two −1, or the rest does not divide the elements.
    """
    wild = [position for position, dim in enumerate(size) if isinstance(dim, int) and dim == -1]
    if not wild:
        return tuple(size)
    rest = product(dim for position, dim in enumerate(size) if position not in wild)
    if len(wild) > 1 or is_known_equal(rest, 0):
        raise ShapeError(f"{who}: one size at most may be −1, beside sizes that are not 0, got {list(size)} for {list(shape)}")
    left = divide_exactly(product(shape), rest)
    if left is None:
        require(who, equal(product(shape) % rest, 0), f"the elements of {list(map(str, shape))} must be a multiple of {rest}")
        left = floor_divide(product(shape), rest)
    return (*size[: wild[0]], left, *size[wild[0] + 1 :])


@operator(torch="reshape view _unsafe_view", onnx="Reshape")
class Reshape(Layout):
    """The elements of x in row-major order, in another shape; one size may be −1.

    x: [*s]   ->   size, with as many elements
    """

    size: tuple[Dim, ...]

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        size = resolve_size(self.size, x.shape)
        require(
            self, equal(product(size), product(x.shape)), f"size must have the elements of x, got [{', '.join(map(str, size))}] for {x}"
        )
        return size

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        flat = ravel(at, resolve_size(self.size, x.shape))
        return unravel(flat, x.shape, lambda *digits: x[digits])

    def run(self, *tensors: Any) -> Any:
        return tensors[0].reshape(self.size)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (out_grad.reshape(operands[0].shape),)

    @classmethod
    def bind(cls, input: Any, *size: Any, shape: Any = None) -> Bound:
        given = size if shape is None else (shape,)
        if len(given) == 1 and isinstance(given[0], (tuple, list)):
            given = tuple(given[0])
        if not all(isinstance(dim, (int, Expression)) for dim in given):
            raise Unsupported(f"Reshape: sizes must be integers, got {given}")
        return cls(resolve_size(plain(tuple(given)), sizes(input))), [input]


@alias("view_as reshape_as")
def _reshape_as(input: Any, other: Any) -> Bound:
    return Reshape(sizes(other)), [input]


@alias("flatten")
def _flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Bound:
    shape = sizes(input)
    start, end = (canonical_axis(axis, len(shape), "flatten") + len(shape) for axis in (start_dim, end_dim))
    return Reshape((*shape[:start], product(shape[start : end + 1]), *shape[end + 1 :]) if shape else (1,)), [input]


@alias("unflatten")
def _unflatten(input: Any, dim: int, sizes: Any) -> Bound:
    shape = tuple(plain(size) for size in input.shape)
    axis = canonical_axis(dim, len(shape), "unflatten") + len(shape)
    return Reshape((*shape[:axis], *resolve_size(plain(tuple(sizes)), (shape[axis],), "unflatten"), *shape[axis + 1 :])), [input]


@alias("unsqueeze")
def _unsqueeze(input: Any, dim: int) -> Bound:
    shape = sizes(input)
    axis = canonical_axis(dim, len(shape) + 1, "unsqueeze") + len(shape) + 1
    return Reshape((*shape[:axis], 1, *shape[axis:])), [input]


@alias("squeeze")
def _squeeze(input: Any, dim: Any = None) -> Bound:
    shape = sizes(input)
    axes = axes_of(dim, len(shape), "squeeze")
    note_units(*(shape[axis] for axis in axes))
    return Reshape(tuple(size for axis, size in enumerate(shape) if axis - len(shape) not in axes or not is_known_equal(size, 1))), [input]


@operator(torch="permute", onnx="Transpose")
class Permute(Layout):
    """x with its last axes reordered: the i-th of the last `len(axes)` output axes is the axis `axes[i]` of x.

    Leading axes that stay in place are left out of `axes`, so a matrix transpose is `(-1, -2)` at any rank.
    """

    axes: tuple[int, ...]

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        moved = len(self.axes)
        require(self, x.ndim >= moved, f"x must have at least {moved} axes, got {x}")
        require(self, sorted(self.axes) == list(range(-moved, 0)), f"axes must be a permutation of the last {moved}, got {self.axes}")
        return (*x.shape[: x.ndim - moved], *(x.shape[axis] for axis in self.axes))

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        moved = len(self.axes)
        lead = len(at) - moved
        where = dict(zip(self.axes, at[lead:], strict=True))
        return operands[0][(*at[:lead], *(where[axis] for axis in range(-moved, 0)))]

    def run(self, *tensors: Any) -> Any:
        (x,) = tensors
        return x.permute((*range(x.ndim - len(self.axes)), *self.axes))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        moved = len(self.axes)
        inverse = tuple(self.axes.index(axis) - moved for axis in range(-moved, 0))
        return (out_grad.permute((*range(out_grad.ndim - moved), *inverse)),)

    @classmethod
    def bind(cls, input: Any, *dims: Any) -> Bound:
        order = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
        return cls.of([canonical_axis(axis, input.ndim, "Permute") for axis in order] if input.ndim else []), [input]

    @classmethod
    def of(cls, order: Sequence[int]) -> Permute:
        """The permutation that reads the axes in this order, each counted from the end."""
        first = 0
        while first < len(order) and order[first] == first - len(order):
            first += 1
        return cls(tuple(order[first:]))


@alias("transpose swapaxes swapdims")
def _transpose(input: Any, dim0: int, dim1: int) -> Bound:
    rank = input.ndim
    first, second = canonical_axis(dim0, rank, "transpose"), canonical_axis(dim1, rank, "transpose")
    order = list(range(-rank, 0))
    if rank:
        order[first], order[second] = order[second], order[first]
    return Permute.of(order), [input]


@alias("mT")
def _matrix_transpose(input: Any) -> Bound:
    return Permute((-1, -2)), [input]


@alias("t T numpy_T")
def _all_transposed(input: Any) -> Bound:
    return Permute.of(list(range(-1, -input.ndim - 1, -1))), [input]


@alias("movedim moveaxis")
def _movedim(input: Any, source: Any, destination: Any) -> Bound:
    rank = input.ndim
    origins, goals = (
        [canonical_axis(axis, rank, "movedim") for axis in (given if isinstance(given, (tuple, list)) else (given,))]
        for given in (source, destination)
    )
    left = iter([axis for axis in range(-rank, 0) if axis not in origins])
    where = dict(zip(goals, origins, strict=True))
    return Permute.of([where[axis] if axis in where else next(left) for axis in range(-rank, 0)]), [input]


@operator(torch="expand", onnx="Expand")
class Expand(Layout):
    """x repeated along its axes of size 1 and along new leading axes.

    x: [1 or d, …]   ->   size = [*new, d, …]
    """

    size: tuple[Dim, ...]

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        require(self, x.ndim <= len(self.size), f"size must have at least the axes of x, got [{', '.join(map(str, self.size))}] for {x}")
        for axis in range(-x.ndim, 0):
            if not is_known_equal(x.shape[axis], 1):
                if not is_known_equal(x.shape[axis], self.size[axis]):
                    note_units(x.shape[axis])
                require(self, equal(x.shape[axis], self.size[axis]), f"axis {axis} must be 1 or {self.size[axis]}, got {x}")
        return self.size

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        return x[broadcast_index(at, x.shape)]

    def run(self, *tensors: Any) -> Any:
        return tensors[0].expand(self.size)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (reduce_to(out_grad, operands[0]),)

    @classmethod
    def bind(cls, input: Any, *size: Any, implicit: bool = False) -> Bound:
        given = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
        shape = sizes(input)
        lead = len(given) - len(shape)
        whole = tuple(shape[position - lead] if isinstance(dim, int) and dim == -1 else plain(dim) for position, dim in enumerate(given))
        return cls(whole), [input]


@alias("broadcast_to")
def _broadcast_to(input: Any, size: Any) -> Bound:
    return Expand.bind(input, size)


@alias("expand_as")
def _expand_as(input: Any, other: Any) -> Bound:
    return Expand(sizes(other)), [input]


@operator(onnx="Slice")
class Slice(Layout):
    """Every `step`-th element of one axis from `start` to before `stop`, with 0 ≤ start ≤ stop ≤ size and step ≥ 1.

    x: [*s, d, *t]   ->   [*s, ⌈(stop − start) / step⌉, *t]
    """

    axis: int
    start: Dim
    stop: Dim
    step: Dim = 1

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        require(self, x.ndim >= -self.axis, f"axis {self.axis} must exist, got {x}")
        size = x.shape[self.axis]
        require(self, _inside(self.start, self.stop, size), f"0 ≤ start ≤ stop ≤ size must hold, got {self.start}, {self.stop}, {size}")
        require(self, at_least_zero(self.step - 1), f"step must be at least 1, got {self.step}")
        return replaced(x.shape, self.axis, floor_divide(self.stop - self.start + self.step - 1, self.step))

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        return operands[0][replaced(at, self.axis, self.start + at[self.axis] * self.step)]

    def run(self, *tensors: Any) -> Any:
        index = slice(self.start, self.stop, self.step)
        return tensors[0][(..., index, *[slice(None)] * (-self.axis - 1))]

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        """out_grad with step − 1 zeros after each element, then with zeros up to the size of x (or cut to it) at both ends."""
        import torch.nn.functional as F

        size, position = operands[0].shape[self.axis], out_grad.ndim + self.axis
        start, step, later = self.start, self.step, (0, 0) * (-self.axis - 1)
        count = out_grad.shape[self.axis] * step
        if not is_known_equal(step, 1):
            spread = F.pad(out_grad.unsqueeze(position + 1), (*later, 0, step - 1))
            out_grad = spread.flatten(position, position + 1)
        return (F.pad(out_grad, (*later, start, size - start - count)),)  # type: ignore[arg-type]

    @classmethod
    def of(cls, axis: int, start: Any, stop: Any, step: Any, size: Dim) -> Slice:
        """The slice Python's `start:stop:step` takes of an axis of this size: negative ends count from the end, ends are clamped.

        Raises: Unsupported for an end that may be negative or not, and for a step that is not positive.
        """
        first = _end(0 if start is None else start, size)
        last = _end(size if stop is None else stop, size)
        if isinstance(step, int) and step < 1:
            raise Unsupported(f"Slice: step must be at least 1, got {step}")
        if isinstance(first, int) and isinstance(last, int):
            last = max(first, last)
        note_narrowing(_inside(first, last, size))
        return cls(axis, first, last, 1 if step is None else step)

    @classmethod
    def bind(cls, input: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Bound:
        axis = canonical_axis(dim, input.ndim, "Slice")
        return cls.of(axis, plain(start), plain(end), plain(step), sizes(input)[axis]), [input]


@alias("slice")
def _slice(*args: Any, **named: Any) -> Bound:
    return Slice.bind(*args, **named)


@alias("narrow")
def _narrow(input: Any, dim: int, start: Any, length: Any) -> Bound:
    if isinstance(start, int) and start < 0:
        raise Unsupported(f"Slice: start must be at least 0, got {start}")
    start = plain(start)
    if isinstance(start, Expression):  # torch counts a negative one from the end
        note_narrowing(at_least_zero(start))
    return Slice(canonical_axis(dim, input.ndim, "narrow"), start, plain(start + length)), [input]


def _inside(start: Dim, stop: Dim, size: Dim) -> Truth:
    """The statement 0 ≤ start ≤ stop ≤ size."""
    return all_of(at_least_zero(start), at_least_zero(stop - start), at_least_zero(size - stop))


def _end(value: Dim, size: Dim) -> Dim:
    """One end of a Python slice as a position from the start."""
    if isinstance(value, int):
        if value >= 2**62:
            return size
        if isinstance(size, int):
            return min(max(value + size if value < 0 else value, 0), size)
        return size + value if value < 0 else value
    if all(coefficient < 0 for coefficient in value.terms.values()):
        raise Unsupported(f"Slice: {value} counts from the end only where it is not 0; write {size} − … instead")
    return value


@operator(torch="select", onnx="Gather")
class Select(Layout):
    """One position of an axis, which goes away.

    x: [*s, d, *t]   ->   [*s, *t]
    """

    axis: int
    index: Dim

    def position(self, size: Dim) -> Dim:
        """The index counted from the start."""
        return self.index + size if isinstance(self.index, int) and self.index < 0 else self.index

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        require(self, x.ndim >= -self.axis, f"axis {self.axis} must exist, got {x}")
        size = x.shape[self.axis]
        require(self, within(self.position(size), size), f"index must be below the size of the axis, got {self.index} and {x}")
        return tuple(dim for axis, dim in enumerate(x.shape) if axis - x.ndim != self.axis)

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        cut = len(x.shape) + self.axis
        return x[(*at[:cut], self.position(x.shape[self.axis]), *at[cut:])]

    def run(self, *tensors: Any) -> Any:
        return tensors[0].select(self.axis, self.index)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch.nn.functional as F

        size = operands[0].shape[self.axis]
        index: Any = self.position(size)
        return (F.pad(out_grad.unsqueeze(self.axis), (*(0, 0) * (-self.axis - 1), index, size - 1 - index)),)

    @classmethod
    def of(cls, axis: int, index: Dim, size: Dim) -> Select:
        """The index as torch takes it: a negative one counts from the end; a symbolic one is taken not to be negative."""
        if isinstance(index, Expression):
            note_narrowing(at_least_zero(index))
        elif index < 0 and isinstance(size, int):
            index += size
        return cls(axis, index)

    @classmethod
    def bind(cls, input: Any, dim: int, index: Any) -> Bound:
        axis = canonical_axis(dim, input.ndim, "Select")
        return cls.of(axis, plain(index), sizes(input)[axis]), [input]
