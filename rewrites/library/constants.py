"""Constant tensors: zeros, ones, numbers everywhere, ranges and unit matrices.

A tensor of one number acts as the number; zeros and ones are neutral or absorbing; the unit matrix is neutral in products,
and a matrix of ones sums. Infinity times a zero of such a matrix is NaN, which the laws on products with one do not keep.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Pair, Requires, Rule

Shaped = Float[Tensor, "*s"]
Floating = Literal["float16", "bfloat16", "float32", "float64"]
Binary = Literal["add", "sub", "mul", "div"]

exact_but_special = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)
one_product = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)


class AddZeros(Rule):
    """Adding zeros changes nothing but −0."""

    source = "field axioms; IEEE 754-2019, section 6.3"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    trainable = True

    def pattern(x: Shaped):
        return x + torch.zeros_like(x)

    def replacement(x):
        return x


class MultiplyOnes(Rule):
    """Multiplying by ones changes nothing."""

    source = "field axioms"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Shaped):
        return x * torch.ones_like(x)

    def replacement(x):
        return x


class MultiplyZeros(Rule):
    """Products with zeros are zeros."""

    source = "field axioms; NaN and infinity times zero are NaN"
    equality = exact_but_special
    trainable = True

    def pattern(x: Shaped):
        return x * torch.zeros_like(x)

    def replacement(x):
        return torch.zeros_like(x)


class OperationWithFullIsScalar(Rule):
    """An operation with a tensor of one number is the operation with the number."""

    source = "PyTorch, broadcasting semantics"
    equality = Equality.REAL.allowing(Change.OVERFLOW, Change.NAN_INF)
    trainable = True

    def pattern(x: Shaped, value: float, operation: Binary):
        return getattr(torch, operation)(x, torch.full(x.shape, value, dtype=x.dtype))

    def replacement(x, value, operation):
        return getattr(torch, operation)(x, value)


class TransposeOfFull(Rule):
    """A transposed matrix of one number is such a matrix."""

    source = "all elements are equal"
    equality = Equality.BITWISE

    def pattern(value: float, m: int, n: int, dtype: Floating):
        return torch.full((m, n), value, dtype=getattr(torch, dtype)).transpose(0, 1)

    def replacement(value, m, n, dtype):
        return torch.full((n, m), value, dtype=getattr(torch, dtype))


class FlattenOfFull(Rule):
    """A flattened matrix of one number is a vector of that number."""

    source = "all elements are equal"
    equality = Equality.BITWISE

    def pattern(value: float, m: int, n: int, dtype: Floating):
        return torch.full((m, n), value, dtype=getattr(torch, dtype)).flatten()

    def replacement(value, m, n, dtype):
        return torch.full((m * n,), value, dtype=getattr(torch, dtype))


class ConcatenationOfFull(Rule):
    """Vectors of one number, joined, are a longer vector of that number."""

    source = "all elements are equal"
    equality = Equality.BITWISE

    def pattern(value: float, m: int, n: int, dtype: Floating):
        return torch.cat((torch.full((m,), value, dtype=getattr(torch, dtype)), torch.full((n,), value, dtype=getattr(torch, dtype))))

    def replacement(value, m, n, dtype):
        return torch.full((m + n,), value, dtype=getattr(torch, dtype))


class SumOfFull(Rule):
    """The row sums of a matrix of one number are the number times their length."""

    source = "definition of multiplication"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)

    def pattern(value: float, m: int, n: int, dtype: Floating):
        return torch.full((m, n), value, dtype=getattr(torch, dtype)).sum(-1)

    def replacement(value, m, n, dtype):
        return torch.full((m,), value, dtype=getattr(torch, dtype)) * n


class ZeroBiasOfLinear(Rule):
    """A linear layer with a bias of zeros is one without bias."""

    source = "field axioms"
    settles = True
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO)
    trainable = True

    def pattern(x: Float[Tensor, "*s k"], weight: Float[Tensor, "n k"]):
        return F.linear(x, weight, torch.zeros(weight.shape[0], dtype=x.dtype))

    def replacement(x, weight):
        return F.linear(x, weight)


class ZeroBiasOfConvolution(Rule):
    """A convolution with a bias of zeros is one without bias."""

    source = "field axioms"
    settles = True
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO)
    trainable = True

    def pattern(x: Float[Tensor, "n groups*c h w"], weight: Float[Tensor, "groups*o c kh kw"], stride: Pair, padding: Pair, dilation: Pair,
                groups: int):  # fmt: skip
        return F.conv2d(x, weight, torch.zeros(weight.shape[0], dtype=x.dtype), stride, padding, dilation, groups)

    def replacement(x, weight, stride, padding, dilation, groups):
        return F.conv2d(x, weight, None, stride, padding, dilation, groups)


class MultiplyUnitMatrixRight(Rule):
    """A product with the unit matrix on the right changes nothing."""

    source = "linear algebra"
    settles = True
    equality = one_product
    trainable = True

    def pattern(x: Float[Tensor, "*s m k"]):
        return torch.matmul(x, torch.eye(x.shape[-1], dtype=x.dtype))

    def replacement(x):
        return x


class MultiplyUnitMatrixLeft(Rule):
    """A product with the unit matrix on the left changes nothing."""

    source = "linear algebra"
    settles = True
    equality = one_product
    trainable = True

    def pattern(x: Float[Tensor, "*s k n"]):
        return torch.matmul(torch.eye(x.shape[-2], dtype=x.dtype), x)

    def replacement(x):
        return x


class DiagonalMatMulIsScale(Rule):
    """A product with a diagonal matrix on the right scales the columns."""

    source = "linear algebra"
    equality = one_product
    trainable = True

    def pattern(x: Float[Tensor, "*s m k"], scale: Float[Tensor, "k"]):
        return torch.matmul(x, torch.eye(x.shape[-1], dtype=x.dtype) * scale)

    def replacement(x, scale):
        return x * scale


class MatMulOfOnesIsSum(Rule):
    """A product with a column of ones is the sum of the rows."""

    source = "linear algebra"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s m k"]):
        return torch.matmul(x, torch.ones((x.shape[-1], 1), dtype=x.dtype))

    def replacement(x):
        return x.sum(-1, keepdim=True)


class MatMulOfZeros(Rule):
    """A product with a matrix of zeros is zeros."""

    source = "linear algebra"
    equality = one_product
    trainable = True

    def pattern(x: Float[Tensor, "m k"], n: int):
        return torch.matmul(x, torch.zeros((x.shape[1], n), dtype=x.dtype))

    def replacement(x, n):
        return torch.zeros((x.shape[0], n), dtype=x.dtype)


class TransposeOfUnitMatrix(Rule):
    """The unit matrix is its own transpose."""

    source = "linear algebra"
    equality = Equality.BITWISE

    def pattern(n: int):
        return torch.eye(n).transpose(0, 1)

    def replacement(n):
        return torch.eye(n)


class SliceOfRange(Rule):
    """A slice of a range is a shorter range, shifted."""

    source = "definition of arange"
    equality = Equality.BITWISE
    requires = [Requires("the slice counts from the start", lambda start: start >= 0)]

    def pattern(n: int, start: int, length: int):
        return torch.narrow(torch.arange(n), 0, start, length)

    def replacement(n, start, length):
        return torch.arange(length) + start


class ChoiceByAllTrue(Rule):
    """Choosing where everything is true is the first value."""

    source = "definition of where"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Shaped, y: Shaped):
        return torch.where(torch.ones_like(x, dtype=torch.bool), x, y)

    def replacement(x, y):
        return x


class ChoiceByAllFalse(Rule):
    """Choosing where nothing is true is the second value."""

    source = "definition of where"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Shaped, y: Shaped):
        return torch.where(torch.zeros_like(x, dtype=torch.bool), x, y)

    def replacement(x, y):
        return y
