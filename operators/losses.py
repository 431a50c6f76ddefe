"""Losses, as training graphs have them: every one a number, or one number per sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operators.axes import removed
from operators.convolution import nested_total
from operators.expressions import Dim, product
from operators.formulas import equal
from operators.meaning import apply, as_index, as_value, compare, constant, convert, divide, total, when
from operators.operator import Operator, TensorType, Unsupported, broadcast, broadcast_index, operator, require
from operators.pointwise import floating, reduce_to, refuse, same_dtype

Bound = tuple[Operator, Sequence[Any]]


class Loss(Operator):
    """A loss; `reduction` is "mean", "sum" or "none" over the elements."""

    reduction: str

    def reduced(self, at: tuple[Any, ...], extents: Sequence[Dim], each: Any) -> Any:
        """`each(index)` combined as `reduction` says."""
        if self.reduction == "none":
            return each(at)
        whole = nested_total(extents, each)
        return whole if self.reduction == "sum" else divide(whole, as_value(product(extents)))

    @property
    def reduction_number(self) -> int:
        """The reduction as aten writes it."""
        return ("none", "mean", "sum").index(self.reduction)


def reduction_of(value: Any) -> str:
    """torch's `reduction` argument, a word or aten's number, as a word."""
    return ("none", "mean", "sum")[value] if isinstance(value, int) else str(value)


def positive(who: type[Operator], name: str, number: Any) -> None:
    """Raises: Unsupported unless the number is known and positive."""
    known = isinstance(number, (int, float))
    if not known or number <= 0:
        raise Unsupported(f"{who.__name__}: {name} must be a positive number, got {number if known else 'a variable'}")


class LossOfDistance(Loss):
    """A loss of how far each element lies from its target.

    x: [*s]   target: [*s]   ->   [] or [*s]
    """

    def of(self, offset: Any) -> Any:
        """The loss of one element, which lies so far above its target."""
        raise NotImplementedError

    def slope(self, offset: Any) -> Any:
        """The derivative of `of`, on a tensor."""
        raise NotImplementedError

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        whole = broadcast(self, *(operand.shape for operand in operands))
        return whole if self.reduction == "none" else ()

    def dtype(self, *operands: TensorType) -> str:
        floating(self, operands[0])
        return same_dtype(self, *operands)

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        x, target = operands

        def each(index: tuple[Any, ...]) -> Any:
            return self.of(x[broadcast_index(index, x.shape)] - target[broadcast_index(index, target.shape)])

        return self.reduced(at, broadcast(self, x.shape, target.shape), each)

    def flops(self, *operands: TensorType) -> Dim:
        return 3 * product(broadcast(self, *(operand.shape for operand in operands)))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        x, target = operands
        by_offset = out_grad * self.slope(x - target)
        if self.reduction == "mean":
            by_offset = by_offset / product(broadcast(self, tuple(x.shape), tuple(target.shape)))
        return reduce_to(by_offset, x), reduce_to(-by_offset, target)


@operator(torch="mse_loss")
class MeanSquaredError(LossOfDistance):
    """(x − target)², averaged over the elements, added up, or each.

    x: [*s]   target: [*s]   ->   [] or [*s]
    """

    reduction: str = "mean"

    def of(self, offset: Any) -> Any:
        return offset * offset

    def slope(self, offset: Any) -> Any:
        return 2 * offset

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.ops.aten.mse_loss(*tensors, self.reduction_number)

    @classmethod
    def bind(
        cls, input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: Any = "mean", weight: Any = None
    ) -> Bound:
        if isinstance(size_average, int) and not isinstance(size_average, bool):
            reduction, size_average = size_average, None
        refuse(cls, size_average=size_average, reduce=reduce, weight=weight)
        return cls(reduction_of(reduction)), [input, target]


@operator(torch="smooth_l1_loss")
class SmoothL1Loss(LossOfDistance):
    """d² / 2β for distances d = |x − target| below β, d − β/2 for others.

    x: [*s]   target: [*s]   ->   [] or [*s]
    """

    reduction: str = "mean"
    beta: float = 1.0

    def of(self, offset: Any) -> Any:
        distance = apply("abs", offset)
        near = compare("<", distance, constant(self.beta))
        return when(near, lambda: offset * offset * constant(0.5 / self.beta), lambda: distance - constant(0.5 * self.beta))

    def slope(self, offset: Any) -> Any:
        return (offset / self.beta).clamp(-1.0, 1.0)

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.ops.aten.smooth_l1_loss(*tensors, self.reduction_number, self.beta)

    @classmethod
    def bind(cls, input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: Any = "mean", beta: Any = 1.0) -> Bound:
        if isinstance(size_average, int) and not isinstance(size_average, bool):
            reduction, beta, size_average, reduce = size_average, beta if reduce is None else reduce, None, None
        refuse(cls, size_average=size_average, reduce=reduce)
        positive(cls, "beta", beta)
        return cls(reduction_of(reduction), float(beta)), [input, target]


@operator(torch="huber_loss")
class HuberLoss(LossOfDistance):
    """d² / 2 for distances d = |x − target| up to δ, δ·(d − δ/2) for others.

    x: [*s]   target: [*s]   ->   [] or [*s]
    """

    reduction: str = "mean"
    delta: float = 1.0

    def of(self, offset: Any) -> Any:
        distance = apply("abs", offset)
        near = compare("<=", distance, constant(self.delta))
        far = constant(self.delta) * (distance - constant(0.5 * self.delta))
        return when(near, lambda: offset * offset * constant(0.5), lambda: far)

    def slope(self, offset: Any) -> Any:
        return offset.clamp(-self.delta, self.delta)

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.ops.aten.huber_loss(*tensors, self.reduction_number, self.delta)

    @classmethod
    def bind(cls, input: Any, target: Any, reduction: Any = "mean", delta: Any = 1.0, weight: Any = None) -> Bound:
        refuse(cls, weight=weight)
        positive(cls, "delta", delta)
        return cls(reduction_of(reduction), float(delta)), [input, target]


@operator(torch="cross_entropy cross_entropy_loss", onnx="SoftmaxCrossEntropyLoss")
class CrossEntropy(Loss):
    """−log of the softmax over classes at the target class; targets equal to `ignore` do not count.

    x: [n, c, *s] or [c]   target: [n, *s] or [] of int64   ->   [] or the shape of target
    """

    reduction: str = "mean"
    ignore: int = -100

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        x, target = operands
        require(self, x.ndim >= 1 and target.dtype == "int64", f"x must have classes and target be int64, got {x} and {target}")
        expected = removed(x.shape, self.classes(x))
        require(self, len(expected) == target.ndim, f"target must have the axes of x without the classes, got {target} for {x}")
        for size, other in zip(expected, target.shape, strict=True):
            require(self, equal(size, other), f"target must have the axes of x without the classes, got {target} for {x}")
        return target.shape if self.reduction == "none" else ()

    def classes(self, x: Any) -> int:
        """The axis of classes, counted from the end."""
        rank = len(x.shape)
        return -1 if rank == 1 else 1 - rank

    def dtype(self, *operands: TensorType) -> str:
        return floating(self, operands[0])

    def positions(self, *operands: TensorType) -> dict[int, Dim]:
        return {1: operands[0].shape[self.classes(operands[0])]}

    @property
    def ignored(self) -> tuple[int, ...]:
        return (self.ignore,)

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        x, target = operands
        axis = self.classes(x)

        def place(index: tuple[Any, ...], k: Any) -> tuple[Any, ...]:
            cut = len(x.shape) + axis
            return (*index[:cut], k, *index[cut:])

        def counted(index: tuple[Any, ...]) -> Any:
            return compare("!=", target[index], constant(self.ignore))

        def each(index: tuple[Any, ...]) -> Any:
            def loss() -> Any:
                whole = apply("log", total(x.shape[axis], lambda k: apply("exp", x[place(index, k)])))
                return whole - x[place(index, as_index(target[index]))]

            return when(counted(index), loss, lambda: constant(0))

        if self.reduction != "mean":
            return self.reduced(at, target.shape, each)
        number = nested_total(target.shape, lambda index: convert(counted(index), "bool", "int64"))
        return divide(nested_total(target.shape, each), number)

    def flops(self, *operands: TensorType) -> Dim:
        return 4 * product(operands[0].shape)

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        return F.cross_entropy(tensors[0], tensors[1], reduction=self.reduction, ignore_index=self.ignore)

    @classmethod
    def bind(
        cls,
        input: Any,
        target: Any,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: Any = "mean",
        label_smoothing: float = 0.0,
    ) -> Bound:
        if isinstance(size_average, int) and not isinstance(size_average, bool):
            reduction, size_average = size_average, None
        refuse(cls, weight=weight, size_average=size_average, reduce=reduce)
        if label_smoothing != 0:
            raise Unsupported("CrossEntropy: label smoothing is not covered")
        if "float" in str(target.dtype):
            return CrossEntropyOfProbabilities(reduction_of(reduction)), [input, target]
        return cls(reduction_of(reduction), ignore_index), [input, target]


@operator()
class CrossEntropyOfProbabilities(Loss):
    """−Σ over classes of target · log of the softmax; the mean is over samples.

    x: [n, c, *s] or [c]   target: the same   ->   [] or [n, *s]
    """

    reduction: str = "mean"

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        x, target = operands
        require(self, x.ndim >= 1 and x.ndim == target.ndim, f"x and target must have the same shape with classes, got {x} and {target}")
        for size, other in zip(x.shape, target.shape, strict=True):
            require(self, equal(size, other), f"x and target must have the same shape, got {x} and {target}")
        return removed(x.shape, self.classes(x)) if self.reduction == "none" else ()

    def classes(self, x: Any) -> int:
        """The axis of classes, counted from the end."""
        rank = len(x.shape)
        return -1 if rank == 1 else 1 - rank

    def dtype(self, *operands: TensorType) -> str:
        floating(self, operands[0])
        return same_dtype(self, *operands)

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        x, target = operands
        axis = self.classes(x)

        def place(index: tuple[Any, ...], k: Any) -> tuple[Any, ...]:
            cut = len(x.shape) + axis
            return (*index[:cut], k, *index[cut:])

        def each(index: tuple[Any, ...]) -> Any:
            whole = apply("log", total(x.shape[axis], lambda k: apply("exp", x[place(index, k)])))
            return total(x.shape[axis], lambda k: target[place(index, k)] * (whole - x[place(index, k)]))

        return self.reduced(at, removed(x.shape, axis), each)

    def flops(self, *operands: TensorType) -> Dim:
        return 5 * product(operands[0].shape)

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        return F.cross_entropy(tensors[0], tensors[1], reduction=self.reduction)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        x, target = operands
        axis = self.classes(x)
        scale = out_grad.unsqueeze(axis) if self.reduction == "none" else out_grad
        if self.reduction == "mean":
            scale = scale / product(removed(tuple(x.shape), axis))
        by_x = x.softmax(axis) * target.sum(axis, keepdim=True) - target
        return scale * by_x, -scale * x.log_softmax(axis)
