"""Functions of torch that are written with other operators, computed as torch computes them: shifts, diagonals, norms, losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operators.activations import LogSigmoid
from operators.arithmetic import Absolute, Clamp, Divide, FloorDivide, Multiply, Subtract
from operators.arranging import Flip
from operators.axes import sizes
from operators.comparison import LessEqual, Where
from operators.indexing import Gather
from operators.layout import Expand
from operators.linear import Einsum
from operators.operator import Applied, Operator, Unsupported, alias, canonical_axis, is_known_equal, kind_of
from operators.pointwise import dtype_of
from operators.reductions import Mean, Sum
from operators.spreads import EuclideanNorm

Bound = tuple[Operator, Sequence[Any]]

_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint8": 8, "bool": 63}
"""How many bits a number has besides its sign."""


def _power(name: str, input: Any, amount: Any) -> int:
    """2^amount, for a whole number of bits that the dtype has besides its sign."""
    bits = _BITS.get(dtype_of(input), 0) if hasattr(input, "shape") else 0
    if isinstance(amount, bool) or not isinstance(amount, int) or not 0 <= amount < bits:
        raise Unsupported(f"{name}: the amount must be a number from 0 to below {bits}, got {amount}")
    return int(2**amount)


@alias("bitwise_left_shift lshift __lshift__")
def _left_shift(input: Any, other: Any) -> Bound:
    """A product with a power of two, which drops the same bits."""
    return Multiply(), [input, _power("left shift", input, other)]


@alias("bitwise_right_shift rshift __rshift__")
def _right_shift(input: Any, other: Any) -> Bound:
    """A floored quotient by a power of two: the sign is kept."""
    return FloorDivide(), [input, _power("right shift", input, other)]


@alias("fliplr")
def _flip_columns(input: Any) -> Bound:
    return Flip.bind(input, 1)


@alias("flipud")
def _flip_rows(input: Any) -> Bound:
    return Flip.bind(input, 0)


@alias("trace")
def _trace(input: Any) -> Bound:
    if input.ndim != 2 or kind_of(dtype_of(input)) not in ("float", "complex"):
        raise Unsupported(f"trace: x must be a floating matrix, got {input.ndim} axes of {dtype_of(input)}")
    return Sum((-1,)), [Applied(Einsum("ii->i"), [input])]


@alias("diagonal")
def _diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Bound:
    rank = input.ndim
    axes = {canonical_axis(dim1, rank, "diagonal"), canonical_axis(dim2, rank, "diagonal")}
    if offset or axes != {-1, -2} or rank > 20 or not is_known_equal(*sizes(input)[-2:]):
        raise Unsupported("diagonal: only the main diagonal of square matrices on the last two axes is covered")
    letters = "abcdefghijklmnopqrst"[: rank - 2]
    return Einsum(f"{letters}zz->{letters}z"), [input]


@alias("take_along_dim")
def _take_along(input: Any, indices: Any, dim: Any = None) -> Bound:
    if dim is None or input.ndim != indices.ndim:
        raise Unsupported("take_along_dim: an axis must be given, and both have the same axes")
    axis = canonical_axis(dim, input.ndim, "take_along_dim")
    pairs = list(zip(sizes(input), sizes(indices), strict=True))
    pairs.pop(axis)
    if not all(is_known_equal(a, b) for a, b in pairs):
        raise Unsupported("take_along_dim: only axes of equal sizes are covered")
    return Gather(axis), [input, indices]


@alias("threshold")
def _threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Bound:
    if inplace:
        raise Unsupported("threshold: in place is not covered")
    if kind_of(dtype_of(input)) != "float":
        raise Unsupported(f"threshold: x must be floating, got {dtype_of(input)}")
    return Where(), [Applied(LessEqual(), [input, threshold]), value, input]


def _reduced(each: Applied, reduction: Any, *operands: Any) -> Bound:
    """The loss of each element, averaged, added up or as it is."""
    axes = tuple(range(-max(operand.ndim for operand in operands), 0))
    if reduction in ("none", 0):
        return each.operator, each.operands
    return (Mean(axes) if reduction in ("mean", 1) else Sum(axes)), [each]


@alias("l1_loss")
def _absolute_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: Any = "mean", weight: Any = None
) -> Bound:
    if any(given is not None for given in (size_average, reduce, weight)) or dtype_of(input) != dtype_of(target):
        raise Unsupported("l1_loss: weights, old arguments and operands of different dtypes are not covered")
    return _reduced(Applied(Absolute(), [Applied(Subtract(), [input, target])]), reduction, input, target)


@alias("binary_cross_entropy_with_logits")
def _binary_cross_entropy_of_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: Any = "mean",
    pos_weight: Any = None,
) -> Bound:
    """(1 − target)·x − log σ(x)."""
    if any(given is not None for given in (weight, size_average, reduce, pos_weight)) or dtype_of(input) != dtype_of(target):
        raise Unsupported("binary_cross_entropy_with_logits: weights, old arguments and operands of different dtypes are not covered")
    missed = Applied(Multiply(), [Applied(Subtract(), [1, target]), input])
    return _reduced(Applied(Subtract(), [missed, Applied(LogSigmoid(), [input])]), reduction, input)


@alias("normalize")
def _normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> Bound:
    if p != 2 or not isinstance(dim, int) or out is not None:
        raise Unsupported("normalize: only the Euclidean norm along one axis is covered")
    norm = Applied(EuclideanNorm((canonical_axis(dim, input.ndim, "normalize"),), True), [input])
    size = Applied(Expand(sizes(input)), [Applied(Clamp(), [norm, float(eps), None])])
    return Divide(), [input, size]
