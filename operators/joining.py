"""Joining tensors along an axis, and splitting one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from operators.arithmetic import Subtract
from operators.axes import inserted, removed, replaced, sizes
from operators.expressions import Dim, floor_divide, plain
from operators.formulas import at_least_zero, equal
from operators.layout import Layout, Slice
from operators.meaning import when
from operators.operator import (
    Applied,
    Operator,
    ShapeError,
    TensorType,
    Unsupported,
    alias,
    canonical_axis,
    is_known_equal,
    note_narrowing,
    operator,
    require,
)
from operators.pointwise import concrete, highest_kind, to_kind

Bound = tuple[Operator, Sequence[Any]]


def same_shapes(who: Operator, operands: Sequence[TensorType], but: int | None = None) -> None:
    """Require that all operands have one shape, except along the axis `but`."""
    require(who, len(operands) > 0, "at least one operand is needed, got none")
    first = operands[0]
    for other in operands[1:]:
        require(who, other.ndim == first.ndim, f"operands must have the same number of axes, got {first} and {other}")
        for axis in range(-first.ndim, 0):
            if axis != but:
                require(who, equal(first.shape[axis], other.shape[axis]), f"operands must agree at axis {axis}, got {first} and {other}")


@operator(torch="cat concat concatenate", onnx="Concat")
class Cat(Operator):
    """Tensors joined along an axis they have.

    xᵢ: [*s, dᵢ, *t]   ->   [*s, Σ dᵢ, *t]
    """

    axis: int

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        same_shapes(self, operands, self.axis)
        require(self, operands[0].ndim >= -self.axis, f"axis {self.axis} must exist, got {operands[0]}")
        total: Dim = 0
        for operand in operands:
            total = total + operand.shape[self.axis]
        return replaced(operands[0].shape, self.axis, total)

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        kind = highest_kind(*(operand.dtype for operand in operands))

        def pick(position: int, start: Any) -> Any:
            x = operands[position]
            index = at[self.axis] - start

            def here() -> Any:
                return to_kind(x[replaced(at, self.axis, index)], x.dtype, kind)

            if position == len(operands) - 1:
                return here()
            size = x.shape[self.axis]
            return when(at_least_zero(size - index - 1), here, lambda: pick(position + 1, start + size))

        return pick(0, 0)

    def flops(self, *operands: TensorType) -> Dim:
        return 0

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.cat(tensors, self.axis)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return tuple(out_grad.split([operand.shape[self.axis] for operand in operands], self.axis))

    @classmethod
    def bind(cls, tensors: Any, dim: int = 0, *, out: Any = None) -> Bound:
        tensors = list(tensors)
        if len({tensor.ndim for tensor in tensors}) > 1:
            raise Unsupported("Cat: tensors of different numbers of axes are not covered")
        return cls(canonical_axis(dim, tensors[0].ndim, "Cat")), tensors


@operator(torch="stack")
class Stack(Operator):
    """Tensors of one shape joined along a new axis, counted from the end of the result.

    xᵢ: [*s, *t]   ->   [*s, number of tensors, *t]
    """

    axis: int

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        same_shapes(self, operands)
        require(self, operands[0].ndim + 1 >= -self.axis, f"axis {self.axis} must exist in the result, got {operands[0]}")
        return inserted(operands[0].shape, self.axis, len(operands))

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        kind = highest_kind(*(operand.dtype for operand in operands))
        rest = removed(at, self.axis)

        def pick(position: int) -> Any:
            x = operands[position]

            def here() -> Any:
                return to_kind(x[rest], x.dtype, kind)

            if position == len(operands) - 1:
                return here()
            return when(equal(at[self.axis], position), here, lambda: pick(position + 1))

        return pick(0)

    def flops(self, *operands: TensorType) -> Dim:
        return 0

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.stack(tensors, self.axis)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return tuple(out_grad.select(self.axis, position) for position in range(len(operands)))

    @classmethod
    def bind(cls, tensors: Any, dim: int = 0, *, out: Any = None) -> Bound:
        tensors = list(tensors)
        return cls(canonical_axis(dim, tensors[0].ndim + 1, "Stack")), tensors


@operator(torch="split_with_sizes", onnx="Split")
class Split(Layout):
    """x cut along an axis into pieces of these sizes.

    x: [*s, Σ sizesᵢ, *t]   ->   [*s, sizesᵢ, *t] for every i
    """

    axis: int
    sizes: tuple[Dim, ...]
    multiple: ClassVar[bool] = True

    def outputs(self, *operands: TensorType) -> tuple[TensorType, ...]:
        (x,) = operands
        require(self, x.ndim >= -self.axis, f"axis {self.axis} must exist, got {x}")
        total: Dim = 0
        for size in self.sizes:
            require(self, at_least_zero(size), f"sizes must not be negative, got {', '.join(map(str, self.sizes))}")
            total = total + size
        require(
            self, equal(total, x.shape[self.axis]), f"sizes must add up to axis {self.axis}, got {', '.join(map(str, self.sizes))} and {x}"
        )
        return tuple(TensorType(replaced(x.shape, self.axis, size), x.dtype) for size in self.sizes)

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        start: Any = 0
        for size in self.sizes[:output]:
            start = start + size
        return operands[0][replaced(at, self.axis, at[self.axis] + start)]

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.split(tensors[0], list(concrete(self.sizes)), self.axis)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        return (torch.cat(list(out_grad), self.axis),)

    @classmethod
    def bind(
        cls, tensor: Any, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None, split_sizes: Any = None
    ) -> Bound:
        given = next((value for value in (split_size_or_sections, split_size, split_sizes) if value is not None), None)
        axis = canonical_axis(dim, tensor.ndim, "Split")
        size = sizes(tensor)[axis]
        if isinstance(given, (tuple, list)):
            return cls(axis, plain(tuple(given))), [tensor]
        return cls(axis, pieces(size, plain(given))), [tensor]


@alias("split")
def _split(*args: Any, **named: Any) -> Bound:
    return Split.bind(*args, **named)


def pieces(size: Dim, each: Dim) -> tuple[Dim, ...]:
    """The sizes of the pieces when an axis is cut into pieces of `each`, the last one perhaps smaller.

    Raises: Unsupported when their number is not known.
    """
    if isinstance(size, int) and isinstance(each, int) and each > 0:
        whole, rest = divmod(size, each)
        return (each,) * whole + ((rest,) if rest or not whole else ())
    count = floor_divide(size, each)
    if isinstance(count, int) and is_known_equal(count * each, size):
        return (each,) * count
    raise Unsupported(f"Split: the number of pieces must be known, got pieces of {each} of an axis of {size}")


@alias("chunk")
def _chunk(input: Any, chunks: int, dim: int = 0) -> Bound:
    axis = canonical_axis(dim, input.ndim, "chunk")
    size = sizes(input)[axis]
    if isinstance(size, int):
        return Split(axis, pieces(size, max(-(-size // chunks), 1)) if size else (0,) * chunks), [input]
    each = floor_divide(size, chunks)
    note_narrowing(equal(each * chunks, size))  # torch makes the last chunk smaller
    return Split(axis, (each,) * chunks), [input]


@alias("tensor_split")
def _tensor_split(input: Any, indices_or_sections: Any = None, dim: int = 0, *, sections: Any = None, indices: Any = None) -> Bound:
    given = next(value for value in (indices_or_sections, sections, indices) if value is not None)
    axis = canonical_axis(dim, input.ndim, "tensor_split")
    size = sizes(input)[axis]
    if not isinstance(size, int) or not isinstance(given, (int, list, tuple)):
        raise Unsupported(f"tensor_split: the size of the axis must be a number, got {size}")
    if isinstance(given, int):
        each, rest = divmod(size, given)
        return Split(axis, (each + 1,) * rest + (each,) * (given - rest)), [input]
    ends = [slice(None, end).indices(size)[1] for end in given]
    if ends != sorted(ends):
        raise Unsupported(f"tensor_split: indices must ascend, got {given}")
    return Split(axis, tuple(end - start for start, end in zip([0, *ends], [*ends, size], strict=True))), [input]


@operator(torch="unbind")
class Unbind(Layout):
    """Every position of an axis of known size as an output of its own.

    x: [*s, d, *t]   ->   [*s, *t], d times
    """

    axis: int
    multiple: ClassVar[bool] = True

    def outputs(self, *operands: TensorType) -> tuple[TensorType, ...]:
        (x,) = operands
        size = x.shape[self.axis]
        if not isinstance(size, int):
            raise ShapeError(f"Unbind: the size of axis {self.axis} must be a number, got {x}")
        return (TensorType(removed(x.shape, self.axis), x.dtype),) * size

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        return operands[0][inserted(at, self.axis, output)]

    def run(self, *tensors: Any) -> Any:
        return tensors[0].unbind(self.axis)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        return (torch.stack(list(out_grad), self.axis),)

    @classmethod
    def bind(cls, input: Any, dim: int = 0) -> Bound:
        axis = canonical_axis(dim, input.ndim, "Unbind")
        if not isinstance(sizes(input)[axis], int):
            raise Unsupported(f"Unbind: the size of axis {dim} must be a number, got {sizes(input)[axis]}")
        return cls(axis), [input]


@alias("diff")
def _diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Bound:
    if n != 1 or "bool" in str(input.dtype):
        raise Unsupported("diff: only the first difference of numbers is covered")
    axis = canonical_axis(dim, input.ndim, "diff")
    ends = [part for part in (prepend, input, append) if part is not None]
    whole = input if len(ends) == 1 else Applied(Cat(axis), ends)
    size: Dim = 0
    for part in ends:
        size = size + sizes(part)[axis]
    return Subtract(), [Applied(Slice.of(axis, 1, size, 1, size), [whole]), Applied(Slice.of(axis, 0, size - 1, 1, size), [whole])]
