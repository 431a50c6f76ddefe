"""Laws that are wrong, of elements and reductions: order, parts, whole numbers, conditions that do not suffice. None may ever be proved."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rewrites import Requires
from tests.verifier.wrong_laws import WrongLaw


class SuffixSums(WrongLaw):
    """The sums from each position on are the whole less the sums up to it."""

    def pattern(x: Float[Tensor, "n"]):
        return torch.flip(torch.cumsum(torch.flip(x, (0,)), 0), (0,))

    def replacement(x):
        return x.sum(0, keepdim=True) - torch.cumsum(x, 0)


class VarianceOfParts(WrongLaw):
    """The variance of a concatenation is the mean of the variances."""

    requires = [Requires("there is an element", lambda n: n >= 1)]

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return torch.var(torch.cat((x, y)), 0, correction=0)

    def replacement(x, y):
        return (torch.var(x, 0, correction=0) + torch.var(y, 0, correction=0)) / 2


class DeviationOfNegated(WrongLaw):
    """std(c x) = c std(x) for every c."""

    def pattern(x: Float[Tensor, "m n"], c: float):
        return torch.std(x * c, 1, correction=0)

    def replacement(x, c):
        return torch.std(x, 1, correction=0) * c


class NormOfSum(WrongLaw):
    """‖x + y‖ = ‖x‖ + ‖y‖."""

    def pattern(x: Float[Tensor, "m n"], y: Float[Tensor, "m n"]):
        return torch.linalg.vector_norm(x + y, dim=1)

    def replacement(x, y):
        return torch.linalg.vector_norm(x, dim=1) + torch.linalg.vector_norm(y, dim=1)


class MaximumOfPadded(WrongLaw):
    """Zeros beside a row do not change its maximum."""

    requires = [Requires("there is a column", lambda n: n >= 1)]

    def pattern(x: Float[Tensor, "m n"]):
        return torch.amax(F.pad(x, (0, 1)), 1)

    def replacement(x):
        return torch.amax(x, 1)


class MinimumByNegation(WrongLaw):
    """min(x) = max(−x)."""

    def pattern(x: Float[Tensor, "m n"]):
        return torch.amin(x, 1)

    def replacement(x):
        return torch.amax(-x, 1)


class ProductOfSums(WrongLaw):
    """(Σ x)(Σ y) = Σ x y."""

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return x.sum(0) * y.sum(0)

    def replacement(x, y):
        return (x * y).sum(0)


class TrianglesMeet(WrongLaw):
    """The lower and the upper triangle add up to the matrix, although both hold the diagonal."""

    def pattern(x: Float[Tensor, "n n"]):
        return torch.tril(x) + torch.triu(x)

    def replacement(x):
        return x + 0


class SoftThreshold(WrongLaw):
    """Choosing positive values is choosing those of at least one."""

    def pattern(x: Float[Tensor, "n"]):
        return torch.where(x > 0, x, 0 * x)

    def replacement(x):
        return torch.where(x >= 1, x, 0 * x)


class NegatedDividend(WrongLaw):
    """⌊−x / 2⌋ = −⌊x / 2⌋."""

    def pattern(x: Int[Tensor, "n"]):
        return (-x) // 2

    def replacement(x):
        return -(x // 2)


class NegatedRemainder(WrongLaw):
    """−x mod 3 = −(x mod 3)."""

    def pattern(x: Int[Tensor, "n"]):
        return (-x) % 3

    def replacement(x):
        return -(x % 3)


class RemainderOfSumOfRemainders(WrongLaw):
    """(x mod 3) + (y mod 3) = (x + y) mod 3."""

    def pattern(x: Int[Tensor, "n"], y: Int[Tensor, "n"]):
        return x % 3 + y % 3

    def replacement(x, y):
        return (x + y) % 3


class DoubledAndHalved(WrongLaw):
    """⌊2 x / 2⌋ = x, although 2 x wraps."""

    def pattern(x: Int[Tensor, "n"]):
        return (x * 2) // 2

    def replacement(x):
        return x + 0


class CastOfSum(WrongLaw):
    """A sum cut to whole numbers is the sum of the parts cut."""

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return (x + y).to(torch.int64)

    def replacement(x, y):
        return x.to(torch.int64) + y.to(torch.int64)


class UnionCounted(WrongLaw):
    """The count of a union is the sum of the counts."""

    def pattern(x: Bool[Tensor, "n"], y: Bool[Tensor, "n"]):
        return (x | y).sum(0)

    def replacement(x, y):
        return x.sum(0) + y.sum(0)


class NegationOfConjunction(WrongLaw):
    """¬(a ∧ b) = ¬a ∧ ¬b."""

    def pattern(x: Bool[Tensor, "n"], y: Bool[Tensor, "n"]):
        return torch.logical_not(x & y)

    def replacement(x, y):
        return torch.logical_not(x) & torch.logical_not(y)


class LogSumExpOfParts(WrongLaw):
    """The log-sum-exp of a concatenation is the sum of the log-sum-exps."""

    requires = [Requires("there is a column", lambda n: n >= 1)]

    def pattern(x: Float[Tensor, "m n"], y: Float[Tensor, "m n"]):
        return torch.logsumexp(torch.cat((x, y), 1), 1)

    def replacement(x, y):
        return torch.logsumexp(x, 1) + torch.logsumexp(y, 1)


class SiluIsOdd(WrongLaw):
    """silu(−x) = −silu(x)."""

    def pattern(x: Float[Tensor, "n"]):
        return F.silu(-x)

    def replacement(x):
        return -F.silu(x)


class HardswishWithoutShift(WrongLaw):
    """hardswish(x) = x relu6(x) / 6."""

    def pattern(x: Float[Tensor, "n"]):
        return F.hardswish(x)

    def replacement(x):
        return x * F.relu6(x) / 6


class LeakyReluOfNegativeSlopes(WrongLaw):
    """Leaky relus of any slopes compose to one by their product."""

    def pattern(x: Float[Tensor, "n"], a: float, b: float):
        return F.leaky_relu(F.leaky_relu(x, a), b)

    def replacement(x, a, b):
        return F.leaky_relu(x, a * b)


class RootOfPower(WrongLaw):
    """(x²)^½ = x."""

    def pattern(x: Float[Tensor, "n"]):
        return torch.pow(torch.pow(x, 2.0), 0.5)

    def replacement(x):
        return x + 0


class RootOfSum(WrongLaw):
    """√(x² + y²) = |x| + |y|."""

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return torch.sqrt(x * x + y * y)

    def replacement(x, y):
        return torch.abs(x) + torch.abs(y)


class FactorOutOfMaximum(WrongLaw):
    """max(x z, y z) = max(x, y) z for every z."""

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"], z: Float[Tensor, "n"]):
        return torch.maximum(x * z, y * z)

    def replacement(x, y, z):
        return torch.maximum(x, y) * z


class RepeatIsInterleave(WrongLaw):
    """Repeating a vector is repeating its elements."""

    def pattern(x: Float[Tensor, "n"]):
        return x.repeat(2)

    def replacement(x):
        return x.repeat_interleave(2, 0)


class StackOnTheOtherAxis(WrongLaw):
    """Rows stacked are columns stacked."""

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return torch.stack((x, y), 1).reshape(2 * x.shape[0])

    def replacement(x, y):
        return torch.stack((x, y), 0).reshape(2 * x.shape[0])


class RollBack(WrongLaw):
    """Rolling to the one side is rolling to the other."""

    def pattern(x: Float[Tensor, "n"]):
        return torch.roll(x, 1, 0)

    def replacement(x):
        return torch.roll(x, -1, 0)


class HeadsWithoutTranspose(WrongLaw):
    """Heads may be cut without moving them before the positions."""

    def pattern(x: Float[Tensor, "n 2*d"]):
        return x.reshape(x.shape[0], 2, x.shape[1] // 2).transpose(0, 1)

    def replacement(x):
        return x.reshape(2, x.shape[0], x.shape[1] // 2)


class EvenSizeHalves(WrongLaw):
    """The halves of an even size may change places."""

    requires = [Requires("the size is even", lambda n: n % 2 == 0)]

    def pattern(x: Float[Tensor, "n"]):
        return torch.cat((x[: x.shape[0] // 2], x[x.shape[0] // 2 :]))

    def replacement(x):
        return torch.cat((x[x.shape[0] // 2 :], x[: x.shape[0] // 2]))


class DividesTheOtherWay(WrongLaw):
    """A size that divides another has a quotient of one."""

    requires = [Requires("m divides n", lambda m, n: m >= 1 and n % m == 0)]

    def pattern(x: Float[Tensor, "m"], y: Float[Tensor, "n"]):
        return x.sum(0) * (y.shape[0] // x.shape[0])

    def replacement(x, y):
        return x.sum(0)


class LowerBoundOnly(WrongLaw):
    """A clamp from below is a clamp, if the bounds are in order."""

    requires = [Requires("the bounds are in order", lambda lo, hi: lo <= hi)]

    def pattern(x: Float[Tensor, "n"], lo: float, hi: float):
        return torch.clamp(x, lo, hi)

    def replacement(x, lo, hi):
        return torch.maximum(x, lo + 0 * x)


class NonnegativeSlopeIsOne(WrongLaw):
    """A leaky relu of a slope that is not negative does nothing."""

    requires = [Requires("the slope is not negative", lambda slope: slope >= 0)]

    def pattern(x: Float[Tensor, "n"], slope: float):
        return F.leaky_relu(x, slope)

    def replacement(x, slope):
        return x + 0


class MeanByTheOtherSize(WrongLaw):
    """A mean over rows divides by the columns."""

    requires = [Requires("neither is empty", lambda m, n: m >= 1 and n >= 1)]

    def pattern(x: Float[Tensor, "m n"]):
        return x.mean(0)

    def replacement(x):
        return x.sum(0) / x.shape[1]


class LargestRowSumIsLargestColumnSum(WrongLaw):
    """The largest sum of a row is the largest sum of a column."""

    def pattern(x: Float[Tensor, "n n"]):
        return x.sum(0).amax(0)

    def replacement(x):
        return x.sum(1).amax(0)


class PositionOfLargestRowSum(WrongLaw):
    """The row of the largest sum is the column of the largest sum."""

    def pattern(x: Float[Tensor, "n n"]):
        return x.sum(0).argmax(0)

    def replacement(x):
        return x.sum(1).argmax(0)


class ProductOfRowSums(WrongLaw):
    """The product of the sums of rows is the product of the sums of columns."""

    def pattern(x: Float[Tensor, "n n"]):
        return x.sum(0).prod(0)

    def replacement(x):
        return x.sum(1).prod(0)
