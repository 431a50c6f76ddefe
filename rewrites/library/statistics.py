"""Variances, norms, products, running sums and positions of extremes along axes.

A variance ignores shifts and is quadratic in a factor; running sums are linear, and a product with a triangle of ones.
Positions of extremes are only kept by maps that round nothing together: a negation is one, a shift is not.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rewrites import Axis, Change, Equality, Rule

Shaped = Float[Tensor, "*s"]
Rows = Float[Tensor, "*s k"]
Matrices = Float[Tensor, "*s m k"]
PerRow = Float[Tensor, "*s 1"]

reordered = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)


class LargestValueIsMaximum(Rule):
    """The value where a row is largest is its maximum."""

    source = "PyTorch, torch.max"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)

    def pattern(x: Rows):
        return torch.max(x, -1)[0]

    def replacement(x):
        return torch.amax(x, -1)


class PositionOfExtremeOfNegation(Rule):
    """The negation of a row is largest where the row is smallest."""

    source = "negation reverses the order and rounds nothing"
    equality = Equality.BITWISE

    def pattern(x: Rows):
        return torch.argmax(-x, -1)

    def replacement(x):
        return torch.argmin(x, -1)


class VarianceFromParts(Rule):
    """The mean square of centred rows is the variance."""

    source = "definition of the variance"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Rows):
        return (x - x.mean(-1, keepdim=True)).square().mean(-1)

    def replacement(x):
        return x.var(-1, correction=0)


class VarianceFromMoments(Rule):
    """The mean of the squares less the square of the mean is the variance, without its cancellation."""

    source = "Chan, Golub and LeVeque 1983"
    equality = reordered
    trainable = True

    def pattern(x: Rows):
        return x.square().mean(-1) - x.mean(-1).square()

    def replacement(x):
        return x.var(-1, correction=0)


class VarianceIgnoresShift(Rule):
    """A number added to all entries of a row does not change its variance."""

    source = "definition of the variance"
    equality = reordered
    trainable = True

    def pattern(x: Rows, shift: PerRow):
        return (x + shift).var(-1, correction=0)

    def replacement(x, shift):
        return x.var(-1, correction=0)


class VarianceOfScaled(Rule):
    """A scalar factor comes out of a variance squared."""

    source = "definition of the variance"
    equality = reordered
    trainable = True

    def pattern(x: Rows, factor: float):
        return (x * factor).var(-1, correction=0)

    def replacement(x, factor):
        return x.var(-1, correction=0) * (factor * factor)


class RootOfVariance(Rule):
    """The root of the variance is the standard deviation."""

    source = "definition of the standard deviation"
    equality = Equality.REAL
    bidirectional = True

    def pattern(x: Rows):
        return torch.sqrt(x.var(-1, correction=0))

    def replacement(x):
        return x.std(-1, correction=0)


class RootOfSumOfSquaresIsNorm(Rule):
    """The root of the sum of squares is the Euclidean norm."""

    source = "definition of the norm"
    equality = Equality.REAL.allowing(Change.OVERFLOW)
    trainable = True
    bidirectional = True

    def pattern(x: Rows):
        return torch.sqrt(torch.square(x).sum(-1))

    def replacement(x):
        return torch.linalg.vector_norm(x, dim=-1)


class ProductOfProducts(Rule):
    """The product of a row of products is the product of the rows' products."""

    source = "products may be taken in any order"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Rows, y: Rows):
        return (x * y).prod(-1)

    def replacement(x, y):
        return x.prod(-1) * y.prod(-1)


class RunningSumOfTerms(Rule):
    """The running sum of a sum is the sum of the running sums."""

    source = "linearity"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Shaped, y: Shaped, axis: Axis):
        return torch.cumsum(x + y, axis)

    def replacement(x, y, axis):
        return torch.cumsum(x, axis) + torch.cumsum(y, axis)


class ScalarFactorMovesOutOfRunningSum(Rule):
    """A scalar factor comes out of a running sum."""

    source = "linearity"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Shaped, factor: float, axis: Axis):
        return torch.cumsum(x * factor, axis)

    def replacement(x, factor, axis):
        return torch.cumsum(x, axis) * factor


class LastOfRunningSum(Rule):
    """The last of the running sums is the sum."""

    source = "definition of the running sum"
    equality = reordered
    trainable = True

    def pattern(x: Rows):
        return torch.cumsum(x, -1)[..., x.shape[-1] - 1]

    def replacement(x):
        return x.sum(-1)


class RunningSumAsMatMul(Rule):
    """Running sums are the product with an upper triangle of ones."""

    source = "Blelloch 1990; Dao and Gu 2024 (Mamba-2), section 6"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Matrices):
        return torch.cumsum(x, -1)

    def replacement(x):
        k = x.shape[-1]
        return torch.matmul(x, torch.ones((k, k), dtype=x.dtype).triu())


class NoneIsAllNot(Rule):
    """That no entry holds is that all entries do not."""

    source = "De Morgan's law"
    equality = Equality.BITWISE
    bidirectional = True

    def pattern(x: Bool[Tensor, "*s k"]):
        return ~x.any(-1)

    def replacement(x):
        return (~x).all(-1)
