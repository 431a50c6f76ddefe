"""Reading at positions that are data: embedding, gather, index_select, index by tensors, one-hot, top-k.

Positions are int64 (int32 where torch takes it) and lie within the axis they index; `element` assumes it, torch's kernels check it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from operators.axes import replaced
from operators.expressions import Dim, product
from operators.formulas import all_of, at_least_zero
from operators.meaning import as_index, as_value, compare, constant, convert, total, when
from operators.operator import (
    Operator,
    TensorType,
    Unsupported,
    broadcast,
    broadcast_index,
    canonical_axis,
    kind_of,
    operator,
    require,
)
from operators.pointwise import concrete

Bound = tuple[Operator, Sequence[Any]]


def integers(who: Operator, index: TensorType) -> None:
    """Require an index of integers."""
    require(who, kind_of(index.dtype) == "int", f"positions must be integers, got {index}")


class Lookup(Operator):
    """An operator whose elements are elements of its first operand."""

    def dtype(self, *operands: TensorType) -> str:
        return operands[0].dtype

    def flops(self, *operands: TensorType) -> Dim:
        return 0


@operator(torch="embedding", onnx="Gather")
class Embedding(Lookup):
    """Rows of a table; no gradient flows into row `padding_idx` (-1: into every row one does).

    weight: [v, d]   positions: [*s]   ->   [*s, d]
    """

    padding_idx: int = -1

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        weight, positions = operands
        integers(self, positions)
        require(self, weight.ndim == 2, f"weight must have 2 axes, got {weight}")
        return (*positions.shape, weight.shape[1])

    def positions(self, *operands: TensorType) -> dict[int, Dim]:
        return {1: operands[0].shape[0]}

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        weight, positions = operands
        return weight[as_index(positions[at[:-1]]), at[-1]]

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.embedding(tensors[0], tensors[1], self.padding_idx)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch.nn.functional as F

        weight, positions = operands
        places = positions.flatten().long()
        rows = F.one_hot(places, weight.shape[0]).to(out_grad.dtype)
        if self.padding_idx != -1:
            rows = rows * (places != self.padding_idx).to(out_grad.dtype).unsqueeze(-1)
        return rows.mT @ out_grad.reshape((product(positions.shape), weight.shape[1])), None

    @classmethod
    def bind(cls, *args: Any, **named: Any) -> Bound:
        """F.embedding takes (positions, weight, …), aten (weight, positions, …): the floating one is the weight."""
        first, second = (*args, *(named[name] for name in ("input", "weight", "indices") if name in named))[:2]
        rest = args[2:]
        floating_first = kind_of(str(first.dtype).removeprefix("torch.")) == "float"
        if floating_first:
            settings = dict(zip(("padding_idx", "scale_grad_by_freq", "sparse"), rest, strict=False))
        else:
            first, second = second, first
            settings = dict(zip(("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"), rest, strict=False))
        settings |= named
        if settings.get("max_norm") is not None or settings.get("sparse") or settings.get("scale_grad_by_freq"):
            raise Unsupported("Embedding: max_norm, scale_grad_by_freq and sparse are not covered")
        padding = settings.get("padding_idx")
        if padding is None or (floating_first and isinstance(padding, int) and padding < 0):
            padding = -1
        elif isinstance(padding, int) and padding < 0:
            padding = first.shape[0] + padding
        return cls(padding), [first, second]


@operator(torch="gather", onnx="GatherElements")
class Gather(Lookup):
    """The elements of x at `positions` along an axis, the other indices kept.

    x: [*s, d, *t]   positions: [*s', k, *t'] with no other axis longer than in x   ->   [*s', k, *t']
    """

    axis: int

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        x, positions = operands
        integers(self, positions)
        require(self, x.ndim == positions.ndim, f"x and positions must have the same number of axes, got {x} and {positions}")
        for axis in range(-x.ndim, 0):
            if axis != self.axis:
                require(
                    self,
                    at_least_zero(x.shape[axis] - positions.shape[axis]),
                    f"positions may not be longer than x at axis {axis}, got {positions} and {x}",
                )
        return positions.shape

    def positions(self, *operands: TensorType) -> dict[int, Dim]:
        return {1: operands[0].shape[self.axis]}

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        x, positions = operands
        return x[replaced(at, self.axis, as_index(positions[at]))] if at else x[()]

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.gather(tensors[0], self.axis, tensors[1])

    @classmethod
    def bind(cls, input: Any, dim: int, index: Any, *, sparse_grad: bool = False, out: Any = None) -> Bound:
        return cls(canonical_axis(dim, input.ndim, "Gather")), [input, index]


@operator(torch="index_select")
class IndexSelect(Lookup):
    """The slices of x at `positions` along an axis.

    x: [*s, d, *t]   positions: [k]   ->   [*s, k, *t]
    """

    axis: int

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        x, positions = operands
        integers(self, positions)
        require(
            self, x.ndim >= -self.axis and positions.ndim == 1, f"positions must have 1 axis and x {-self.axis}, got {positions} and {x}"
        )
        return replaced(x.shape, self.axis, positions.shape[0])

    def positions(self, *operands: TensorType) -> dict[int, Dim]:
        return {1: operands[0].shape[self.axis]}

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        x, positions = operands
        return x[replaced(at, self.axis, as_index(positions[(at[self.axis],)]))]

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.index_select(tensors[0], self.axis, tensors[1])

    @classmethod
    def bind(cls, input: Any, dim: int, index: Any) -> Bound:
        if not input.ndim or index.ndim != 1:
            raise Unsupported("IndexSelect: x must have an axis, and positions exactly one")
        return cls(canonical_axis(dim, input.ndim, "IndexSelect")), [input, index]


@operator(torch="index")
class Index(Lookup):
    """x indexed by tensors of integers at neighbouring axes; they broadcast, and their axes stand where those were.

    `first` is the first indexed axis, counted from the start; negative positions count from the end.

    x: [*s, d₁, …, dₘ, *t]   positionsᵢ: [*k]   ->   [*s, *k, *t]
    """

    from_the_end: ClassVar[bool] = True

    first: int

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        x, *positions = operands
        require(
            self,
            self.first + len(positions) <= x.ndim,
            f"there must be an axis for every index, got {x} and {len(positions)} from {self.first}",
        )
        for index in positions:
            integers(self, index)
        return (*x.shape[: self.first], *broadcast(self, *(index.shape for index in positions)), *x.shape[self.first + len(positions) :])

    def positions(self, *operands: TensorType) -> dict[int, Dim]:
        return {1 + k: operands[0].shape[self.first + k] for k in range(len(operands) - 1)}

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        x, *positions = operands
        rank = len(at) - (len(x.shape) - len(positions))
        middle = at[self.first : self.first + rank]

        def go(found: tuple[Any, ...]) -> Any:
            if len(found) == len(positions):
                return x[(*at[: self.first], *found, *at[self.first + rank :])]
            index = positions[len(found)]
            value = index[broadcast_index(middle, index.shape)]
            size = x.shape[self.first + len(found)]
            return when(
                compare("<", value, constant(0)),
                lambda: go((*found, as_index(value + as_value(size)))),
                lambda: go((*found, as_index(value))),
            )

        return go(())

    def run(self, *tensors: Any) -> Any:
        import torch

        x, *positions = tensors
        # Python's brackets would read a position without axes as a number.
        return torch.ops.aten.index.Tensor(x, [*[None] * self.first, *positions])

    @classmethod
    def bind(cls, input: Any, indices: Any) -> Bound:
        """`indices` has a tensor, or None for a whole axis, for the first axes of x (as aten.index)."""
        given = [position for position, index in enumerate(indices) if index is not None]
        tensors = [indices[position] for position in given]
        if not given or given != list(range(given[0], given[0] + len(given))):
            raise Unsupported("Index: the indexed axes must be neighbours")
        if any(not hasattr(index, "dtype") or kind_of(str(index.dtype).removeprefix("torch.")) != "int" for index in tensors):
            raise Unsupported("Index: only tensors of integers are covered as indices")
        return cls(given[0]), [input, *tensors]


@operator(torch="one_hot", onnx="OneHot")
class OneHot(Operator):
    """1 at the position that the operand names along a new last axis, else 0.

    positions: [*s]   ->   [*s, classes] of int64
    """

    classes: Dim

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (positions,) = operands
        require(self, positions.dtype == "int64", f"positions must be int64, got {positions}")
        return (*positions.shape, self.classes)

    def dtype(self, *operands: TensorType) -> str:
        return "int64"

    def positions(self, *operands: TensorType) -> dict[int, Dim]:
        return {0: self.classes}

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (positions,) = operands
        return convert(compare("==", positions[at[:-1]], as_value(at[-1])), "bool", "int64")

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        return F.one_hot(tensors[0], concrete(self.classes))

    @classmethod
    def bind(cls, tensor: Any, num_classes: Any = -1) -> Bound:
        if isinstance(num_classes, int) and num_classes < 1:
            raise Unsupported("OneHot: the number of classes must be given")
        return cls(num_classes), [tensor]


@operator(torch="topk", onnx="TopK")
class TopK(Operator):
    """The k largest elements along an axis in descending order, with their positions (any of equal elements).

    x: [*s, d, *t]   ->   values: [*s, k, *t]   positions: [*s, k, *t] of int64
    """

    k: Dim
    axis: int = -1
    multiple: ClassVar[bool] = True

    def outputs(self, *operands: TensorType) -> tuple[TensorType, ...]:
        (x,) = operands
        require(self, x.ndim >= -self.axis, f"axis {self.axis} must exist, got {x}")
        size = x.shape[self.axis]
        require(self, all_of(at_least_zero(self.k), at_least_zero(size - self.k)), f"k must be at most the size, got {self.k} of {size}")
        shape = replaced(x.shape, self.axis, self.k)
        return TensorType(shape, x.dtype), TensorType(shape, "int64")

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        """The element with exactly `rank` others before it, where equal elements stand in the order of their positions."""
        (x,) = operands
        size, rank = x.shape[self.axis], at[self.axis]

        def here(i: Any) -> Any:
            return x[replaced(at, self.axis, i)]

        def before(i: Any) -> Any:
            def one(j: Any) -> Any:
                ahead = convert(compare(">", here(j), here(i)), "bool", "int64")
                tie = when(at_least_zero(i - j - 1), lambda: convert(compare("==", here(j), here(i)), "bool", "int64"), lambda: constant(0))
                return ahead + tie

            return total(size, one)

        def chosen(i: Any) -> Any:
            found = compare("==", before(i), as_value(rank))
            return when(found, lambda: here(i) if output == 0 else as_value(i), lambda: constant(0))

        return total(size, chosen)

    def flops(self, *operands: TensorType) -> Dim:
        return product(operands[0].shape)

    def run(self, *tensors: Any) -> Any:
        return tuple(tensors[0].topk(self.k, self.axis))

    @classmethod
    def bind(cls, input: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Bound:
        if not largest or not input.ndim:
            raise Unsupported("TopK: the smallest elements, and x without axes, are not covered")
        return cls(k, canonical_axis(dim, input.ndim, "TopK")), [input]
