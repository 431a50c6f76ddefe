"""Collectives as functions of one tensor with an explicit device axis, the first: x[d] is what device d holds.

Called as plain functions, they work on real tensors that hold all devices' parts, and are traced in rules like torch's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operators.axes import replaced
from operators.expressions import Dim, divide_exactly, floor_divide, product
from operators.formulas import at_least_zero, equal
from operators.meaning import largest, total, unravel
from operators.operator import Operator, TensorType, Unsupported, operator, require

Bound = tuple[Operator, Sequence[Any]]


class Collective(Operator):
    """An operator over a device axis, the first of x."""

    def dtype(self, *operands: TensorType) -> str:
        return operands[0].dtype

    def flops(self, *operands: TensorType) -> Dim:
        return 0

    def check(self, x: TensorType, axis: int | None = None) -> None:
        """Require a device axis before the axis that is cut or joined."""
        rank = 1 if axis is None else 1 - axis
        require(self, x.ndim >= rank, f"x must have a device axis and {rank - 1} more, got {x}")
        require(self, at_least_zero(x.shape[0] - 1), f"there must be a device, got {x}")


@operator(torch="all_reduce")
class AllReduce(Collective):
    """The sum (or the largest) of all devices' parts, on every device.

    x: [devices, *s]   ->   [devices, *s]
    """

    by: str = "sum"

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        self.check(operands[0])
        return operands[0].shape

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        word = total if self.by == "sum" else largest
        return word(x.shape[0], lambda d: x[(d, *at[1:])])

    def flops(self, *operands: TensorType) -> Dim:
        return product(operands[0].shape)

    def run(self, *tensors: Any) -> Any:
        (x,) = tensors
        return (x.sum(0, keepdim=True, dtype=x.dtype) if self.by == "sum" else x.amax(0, keepdim=True)).expand(x.shape)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        if self.by != "sum":
            raise NotImplementedError("AllReduce: only the sum has a gradient")
        return (out_grad.sum(0, keepdim=True).expand(operands[0].shape),)

    @classmethod
    def bind(cls, x: Any, by: str = "sum") -> Bound:
        if by not in ("sum", "max"):
            raise Unsupported(f"AllReduce: by must be sum or max, got {by}")
        return cls(by), [x]


@operator(torch="all_gather")
class AllGather(Collective):
    """All devices' parts joined along an axis, on every device.

    x: [devices, *s, k, *t]   ->   [devices, *s, devices · k, *t]
    """

    axis: int

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        self.check(x, self.axis)
        return replaced(x.shape, self.axis, x.shape[0] * x.shape[self.axis])

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        return unravel(at[self.axis], (x.shape[0], x.shape[self.axis]), lambda d, i: x[(d, *replaced(at, self.axis, i)[1:])])

    def run(self, *tensors: Any) -> Any:
        import torch

        (x,) = tensors
        whole = torch.cat(list(x), self.axis) if x.shape[0] else x.reshape(replaced(x.shape, self.axis, 0)[1:])
        return whole.expand((x.shape[0], *whole.shape))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (shard(out_grad.sum(0), operands[0].shape[0], self.axis),)

    @classmethod
    def bind(cls, x: Any, axis: int) -> Bound:
        return cls(from_the_end(axis, x.ndim - 1)), [x]


@operator(torch="reduce_scatter")
class ReduceScatter(Collective):
    """The sum of all devices' parts, of which device d keeps the d-th equal slice along an axis.

    x: [devices, *s, devices · k, *t]   ->   [devices, *s, k, *t]
    """

    axis: int

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        self.check(x, self.axis)
        return replaced(x.shape, self.axis, slices(self, x.shape[self.axis], x.shape[0]))

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        k = floor_divide(x.shape[self.axis], x.shape[0])
        return total(x.shape[0], lambda d: x[(d, *replaced(at, self.axis, at[0] * k + at[self.axis])[1:])])

    def flops(self, *operands: TensorType) -> Dim:
        return product(operands[0].shape)

    def run(self, *tensors: Any) -> Any:
        (x,) = tensors
        return Shard(x.shape[0], self.axis).run(x.sum(0, dtype=x.dtype))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (all_gather(out_grad, self.axis + operands[0].ndim - 1),)

    @classmethod
    def bind(cls, x: Any, axis: int) -> Bound:
        return cls(from_the_end(axis, x.ndim - 1)), [x]


@operator(torch="shard")
class Shard(Collective):
    """x cut into equal slices along an axis, the d-th for device d.

    x: [*s, devices · k, *t]   ->   [devices, *s, k, *t]
    """

    devices: Dim
    axis: int

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        (x,) = operands
        require(self, x.ndim >= -self.axis, f"axis {self.axis} must exist, got {x}")
        return (self.devices, *replaced(x.shape, self.axis, slices(self, x.shape[self.axis], self.devices)))

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        k = floor_divide(x.shape[self.axis], self.devices)
        return x[replaced(at[1:], self.axis, at[0] * k + at[self.axis])]

    def run(self, *tensors: Any) -> Any:
        (x,) = tensors
        size = x.shape[self.axis]
        return x.unflatten(self.axis, (self.devices, size // self.devices)).movedim(self.axis - 1, 0)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad.movedim(0, self.axis - 1).reshape(x.shape),)

    @classmethod
    def bind(cls, x: Any, devices: Any, axis: int) -> Bound:
        return cls(devices, from_the_end(axis, x.ndim)), [x]


@operator(torch="replicate")
class Replicate(Collective):
    """x on every device (a broadcast).

    x: [*s]   ->   [devices, *s]
    """

    devices: Dim

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        return (self.devices, *operands[0].shape)

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        return operands[0][at[1:]]

    def run(self, *tensors: Any) -> Any:
        (x,) = tensors
        return x.expand((self.devices, *x.shape))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (out_grad.sum(0),)

    @classmethod
    def bind(cls, x: Any, devices: Any) -> Bound:
        return cls(devices), [x]


def slices(who: Operator, size: Dim, devices: Dim) -> Dim:
    """The size of each of `devices` equal slices."""
    require(who, at_least_zero(devices - 1), f"there must be a device, got {devices}")
    require(who, equal(size % devices, 0), f"the axis must be a multiple of the devices, got {size} and {devices}")
    exact = divide_exactly(size, devices)
    return floor_divide(size, devices) if exact is None else exact


def from_the_end(axis: int, rank: int) -> int:
    """An axis of one device's part, counted from the end."""
    return axis if axis < 0 else axis - rank


def _apply(function: Any, declared: type[Operator], x: Any, *arguments: Any) -> Any:
    import torch

    if torch.overrides.has_torch_function((x,)):
        return torch.overrides.handle_torch_function(function, (x,), x, *arguments)
    operator, operands = declared.bind(x, *arguments)
    return operator.run(*operands)


def all_reduce(x: Any, by: str = "sum") -> Any:
    """`AllReduce` of x: [devices, *s]."""
    return _apply(all_reduce, AllReduce, x, by)


def all_gather(x: Any, axis: int) -> Any:
    """`AllGather` of x: [devices, *s] along an axis of s."""
    return _apply(all_gather, AllGather, x, axis)


def reduce_scatter(x: Any, axis: int) -> Any:
    """`ReduceScatter` of x: [devices, *s] along an axis of s."""
    return _apply(reduce_scatter, ReduceScatter, x, axis)


def shard(x: Any, devices: Any, axis: int) -> Any:
    """`Shard` of x: [*s] along an axis of s."""
    return _apply(shard, Shard, x, devices, axis)


def replicate(x: Any, devices: Any) -> Any:
    """`Replicate` of x: [*s]."""
    return _apply(replicate, Replicate, x, devices)
