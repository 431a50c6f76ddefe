"""Sums, means, extremes, variances and running sums along axes.

A sum is linear, and over two axes it does not matter which comes first; a mean is a sum over a count; an extreme commutes
with every monotone function; a variance ignores shifts and is quadratic in a factor. Positions of extremes are only kept
by maps that round nothing together: a negation is one, a shift is not.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from rewrites import Axis, Change, Equality, Requires, Rule

Shaped = Float[Tensor, "*s"]
Rows = Float[Tensor, "*s k"]
Matrices = Float[Tensor, "*s m k"]
PerRow = Float[Tensor, "*s 1"]
Linear = Literal["sum", "mean"]
Extreme = Literal["amax", "amin"]
Any = Literal["sum", "mean", "amax", "amin"]

reordered = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)


class LinearReductionOverTwoAxes(Rule):
    """A sum or mean over one axis and then another is one over both."""

    source = "sums may be taken in any order"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Matrices, reduction: Linear):
        return getattr(torch, reduction)(getattr(torch, reduction)(x, -1), -1)

    def replacement(x, reduction):
        return getattr(torch, reduction)(x, (-2, -1))


class ExtremeOverTwoAxes(Rule):
    """A maximum or minimum over one axis and then another is one over both."""

    source = "lattice axioms"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    bidirectional = True

    def pattern(x: Matrices, extreme: Extreme):
        return getattr(torch, extreme)(getattr(torch, extreme)(x, -1), -1)

    def replacement(x, extreme):
        return getattr(torch, extreme)(x, (-2, -1))


class LinearReductionOfFlattened(Rule):
    """A sum or mean of two flattened axes is one over both axes."""

    source = "sums may be taken in any order"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Matrices, reduction: Linear):
        return getattr(torch, reduction)(x.flatten(-2), -1)

    def replacement(x, reduction):
        return getattr(torch, reduction)(x, (-2, -1))


class ReductionOfTranspose(Rule):
    """Reducing the rows of a transposed matrix is reducing its columns."""

    source = "index maps compose"
    equality = reordered.allowing(Change.SIGNED_ZERO)
    trainable = True
    bidirectional = True

    def pattern(x: Matrices, reduction: Any):
        return getattr(torch, reduction)(x.transpose(-1, -2), -1)

    def replacement(x, reduction):
        return getattr(torch, reduction)(x, -2)


class ReductionOfSingleton(Rule):
    """Reducing an axis of size 1 removes it."""

    source = "sums and extremes of one term"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    trainable = True

    def pattern(x: PerRow, reduction: Any):
        return getattr(torch, reduction)(x, -1)

    def replacement(x, reduction):
        return x.squeeze(-1)


class KeptAxisIsUnsqueeze(Rule):
    """Reducing an axis that is kept and then removed is reducing it without keeping it."""

    source = "PyTorch, keepdim"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Rows, reduction: Any):
        return getattr(torch, reduction)(x, -1, keepdim=True).squeeze(-1)

    def replacement(x, reduction):
        return getattr(torch, reduction)(x, -1)


class SumOfTerms(Rule):
    """The sum of a sum of two tensors is the sum of their sums."""

    source = "linearity"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Shaped, y: Shaped, axis: Axis, reduction: Linear):
        return getattr(torch, reduction)(x + y, axis)

    def replacement(x, y, axis, reduction):
        return getattr(torch, reduction)(x, axis) + getattr(torch, reduction)(y, axis)


class ScalarFactorMovesOutOfSum(Rule):
    """A scalar factor comes out of a sum or mean."""

    source = "linearity"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Shaped, factor: float, axis: Axis, reduction: Linear):
        return getattr(torch, reduction)(x * factor, axis)

    def replacement(x, factor, axis, reduction):
        return getattr(torch, reduction)(x, axis) * factor


class RowFactorMovesOutOfSum(Rule):
    """A factor common to a row comes out of its sum or mean."""

    source = "linearity"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Rows, factor: PerRow, reduction: Linear):
        return getattr(torch, reduction)(x * factor, -1, keepdim=True)

    def replacement(x, factor, reduction):
        return getattr(torch, reduction)(x, -1, keepdim=True) * factor


class NegationMovesOutOfSum(Rule):
    """A negation comes out of a sum or mean."""

    source = "linearity; rounding is symmetric"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    trainable = True
    bidirectional = True

    def pattern(x: Shaped, axis: Axis, reduction: Linear):
        return getattr(torch, reduction)(-x, axis)

    def replacement(x, axis, reduction):
        return -getattr(torch, reduction)(x, axis)


class MeanAsSum(Rule):
    """A mean is the sum over the count."""

    source = "definition of the mean"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Rows):
        return x.sum(-1) / x.shape[-1]

    def replacement(x):
        return x.mean(-1)


class MeanOfShift(Rule):
    """A number added to all entries of a row is added to its mean."""

    source = "linearity"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Rows, shift: PerRow):
        return (x + shift).mean(-1, keepdim=True)

    def replacement(x, shift):
        return x.mean(-1, keepdim=True) + shift


class SumOfExpanded(Rule):
    """The sum of copies is a multiple."""

    source = "definition of multiplication"
    equality = reordered
    requires = [Requires("the number of copies is given, not −1 for as many as there are", lambda n: n >= 0)]
    trainable = True

    def pattern(x: PerRow, n: int):
        return x.expand(*x.shape[:-1], n).sum(-1)

    def replacement(x, n):
        return x.squeeze(-1) * n


class SumOfConcatenation(Rule):
    """The sum of joined rows is the sum of the sums."""

    source = "sums may be taken in any order"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s p"], y: Float[Tensor, "*s q"]):
        return torch.cat((x, y), -1).sum(-1)

    def replacement(x, y):
        return x.sum(-1) + y.sum(-1)


class ExtremeOfConcatenation(Rule):
    """The maximum of joined rows is the maximum of the maxima, and so for the minimum."""

    source = "lattice axioms"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    requires = [Requires("neither part is empty", lambda p, q: p >= 1 and q >= 1)]
    bidirectional = True

    def pattern(x: Float[Tensor, "*s p"], y: Float[Tensor, "*s q"], direction: Literal["max", "min"]):
        return getattr(torch, f"a{direction}")(torch.cat((x, y), -1), -1)

    def replacement(x, y, direction):
        extreme = getattr(torch, f"a{direction}")
        return getattr(torch, f"{direction}imum")(extreme(x, -1), extreme(y, -1))


class ExtremeOfShift(Rule):
    """A number added to all entries of a row is added to its maximum or minimum."""

    source = "addition is monotone, and so is its rounding"
    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)
    bidirectional = True

    def pattern(x: Rows, shift: PerRow, extreme: Extreme):
        return getattr(torch, extreme)(x + shift, -1, keepdim=True)

    def replacement(x, shift, extreme):
        return getattr(torch, extreme)(x, -1, keepdim=True) + shift


class PositiveFactorMovesOutOfReducedExtreme(Rule):
    """A scalar factor that is not negative comes out of the maximum or minimum of a row."""

    source = "multiplication by a number that is not negative is monotone"
    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)
    requires = [Requires("the factor is not negative", lambda factor: factor >= 0)]
    bidirectional = True

    def pattern(x: Rows, factor: float, extreme: Extreme):
        return getattr(torch, extreme)(x * factor, -1)

    def replacement(x, factor, extreme):
        return getattr(torch, extreme)(x, -1) * factor


class NegationExchangesReducedExtremes(Rule):
    """The maximum of a negated row is its negated minimum."""

    source = "negation reverses the order"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    trainable = True
    bidirectional = True

    def pattern(x: Rows):
        return (-x).amax(-1)

    def replacement(x):
        return -x.amin(-1)


class MonotoneFunctionMovesOutOfExtreme(Rule):
    """A function that never falls comes out of the maximum or minimum of a row."""

    source = "monotone functions preserve the order"
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO)
    bidirectional = True

    def pattern(x: Rows, extreme: Extreme, function: Literal["relu", "sigmoid", "tanh", "exp"]):
        return getattr(torch, extreme)(getattr(torch, function)(x), -1)

    def replacement(x, extreme, function):
        return getattr(torch, function)(getattr(torch, extreme)(x, -1))
