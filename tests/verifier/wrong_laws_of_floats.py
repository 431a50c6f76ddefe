"""Laws that hold over the reals, or nearly, and are wrong bit for bit: rounding, NaN, infinities, zeros. None may ever be proved."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Float32
from torch import Tensor

from rewrites import Change, Equality
from tests.verifier.wrong_laws import WrongLaw


class SumsAssociateBitwise(WrongLaw):
    """(x + y) + z = x + (y + z), bit for bit."""

    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"], z: Float[Tensor, "n"]):
        return (x + y) + z

    def replacement(x, y, z):
        return x + (y + z)


class ProductsAssociateBitwise(WrongLaw):
    """(x y) z = x (y z), bit for bit."""

    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"], z: Float[Tensor, "n"]):
        return (x * y) * z

    def replacement(x, y, z):
        return x * (y * z)


class ThirdsBitwise(WrongLaw):
    """x / 3 · 3 = x, bit for bit."""

    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"]):
        return x / 3 * 3

    def replacement(x):
        return x + 0


class ReciprocalBitwise(WrongLaw):
    """x / y = x · (1 / y), bit for bit."""

    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return x / y

    def replacement(x, y):
        return x * (1 / y)


class AddZeroKeepsMinusZero(WrongLaw):
    """x + 0 = x, with the sign of zero."""

    equality = Equality.BITWISE

    def pattern(x: Float[Tensor, "n"]):
        return x + 0.0

    def replacement(x):
        return torch.maximum(x, x)


class ReluOfNothing(WrongLaw):
    """relu by clamping keeps NaN as relu does, but where(x > 0, x, 0) does not."""

    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"]):
        return torch.relu(x)

    def replacement(x):
        return torch.where(x > 0, x, 0.0)


class SelfDifference(WrongLaw):
    """x − x = 0 x, with the sign of zero."""

    equality = Equality.BITWISE

    def pattern(x: Float[Tensor, "n"]):
        return x - x

    def replacement(x):
        return x * 0.0


class ZeroTimes(WrongLaw):
    """0 x = 0, although 0 · ∞ is NaN."""

    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"]):
        return x * 0.0

    def replacement(x):
        return torch.zeros_like(x)


class EqualToItself(WrongLaw):
    """Choosing where x = x is x, although NaN is not equal to itself."""

    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"]):
        return torch.where(x == x, x, 0.0)

    def replacement(x):
        return x * 1.0


class NotLessIsGreaterOrEqual(WrongLaw):
    """¬(x < y) is x ≥ y, although NaN is neither."""

    equality = Equality.BITWISE

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return torch.logical_not(x < y)

    def replacement(x, y):
        return x >= y


class MaximumByComparison(WrongLaw):
    """max(x, y) by a comparison, although NaN on the one side is lost."""

    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return torch.maximum(x, y)

    def replacement(x, y):
        return torch.where(x > y, x, y)


class MinimumOfNegated(WrongLaw):
    """−max(−x, 0) = min(x, 0), with the sign of zero."""

    equality = Equality.BITWISE

    def pattern(x: Float[Tensor, "n"]):
        return -torch.clamp(-x, min=0.0)

    def replacement(x):
        return torch.clamp(x, max=0.0)


class SquareRootOfSquareBitwise(WrongLaw):
    """√(x²) = |x|, although the square overflows."""

    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"]):
        return torch.sqrt(x * x)

    def replacement(x):
        return torch.abs(x)


class DistributeBitwise(WrongLaw):
    """x (y + z) = x y + x z, bit for bit."""

    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"], z: Float[Tensor, "n"]):
        return x * (y + z)

    def replacement(x, y, z):
        return x * y + x * z


class DoubleOfHalf(WrongLaw):
    """(x / 2) · 2 = x, although halves of subnormal numbers round."""

    equality = Equality.BITWISE

    def pattern(x: Float[Tensor, "n"]):
        return (x / 2) * 2

    def replacement(x):
        return x * 1.0


class SumOfRowsBitwise(WrongLaw):
    """Σ (x + y) = Σ x + Σ y, bit for bit."""

    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "m n"], y: Float[Tensor, "m n"]):
        return (x + y).sum(1)

    def replacement(x, y):
        return x.sum(1) + y.sum(1)


class MeanBySumBitwise(WrongLaw):
    """A mean is the sum times one over the size, bit for bit."""

    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "m 3"]):
        return x.mean(1)

    def replacement(x):
        return x.sum(1) * (1 / 3)


class RoundHalfUp(WrongLaw):
    """round(x) = ⌊x + ½⌋, although halves go to the even number."""

    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"]):
        return torch.round(x)

    def replacement(x):
        return torch.floor(x + 0.5)


class TruncIsFloorOfMagnitude(WrongLaw):
    """trunc(x) = ⌊|x|⌋ sign(x), although sign(NaN) is 0."""

    equality = Equality.BITWISE

    def pattern(x: Float[Tensor, "n"]):
        return torch.trunc(x)

    def replacement(x):
        return torch.floor(torch.abs(x)) * torch.sign(x)


class SignByQuotient(WrongLaw):
    """sign(x) = x / |x|."""

    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"]):
        return torch.sign(x)

    def replacement(x):
        return x / torch.abs(x)


class FusedAffine(WrongLaw):
    """(x − y) / z = x / z − y / z, bit for bit."""

    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"], z: Float[Tensor, "n"]):
        return (x - y) / z

    def replacement(x, y, z):
        return x / z - y / z


class CastThroughHalf(WrongLaw):
    """A cast to float16 and back changes nothing."""

    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(x: Float32[Tensor, "n"]):
        return x.to(torch.float16).to(torch.float32)

    def replacement(x):
        return x * 1.0


class ComparisonAfterShift(WrongLaw):
    """x + 1 > y + 1 is x > y, although both sums round."""

    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return x + 1 > y + 1

    def replacement(x, y):
        return x > y


class ComparisonOfSquares(WrongLaw):
    """x² > y² is |x| > |y|, although squares overflow."""

    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return x * x > y * y

    def replacement(x, y):
        return torch.abs(x) > torch.abs(y)


class ClampOfNothing(WrongLaw):
    """A clamp to one number is the number, although NaN stays."""

    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"]):
        return torch.clamp(x, 1.0, 1.0)

    def replacement(x):
        return torch.ones_like(x)


class FloorTwiceHalf(WrongLaw):
    """⌊⌊x⌋ / 2⌋ = ⌊x / 2⌋, and ⌊x + y⌋ = ⌊x⌋ + y only for whole y."""

    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return torch.floor(x + y)

    def replacement(x, y):
        return torch.floor(x) + y


class MaskAfterSoftmax(WrongLaw):
    """To mask scores with −∞ before a softmax is to mask its result, which then does not sum to 1, whatever else is allowed to change."""

    equality = Equality.REAL.allowing(Change.SIGNED_ZERO, Change.NAN_INF, Change.OVERFLOW)

    def pattern(x: Float[Tensor, "m n"], mask: Bool[Tensor, "m n"]):
        return torch.softmax(x.masked_fill(~mask, float("-inf")), 1)

    def replacement(x, mask):
        return torch.softmax(x, 1) * mask


class MaskByTenThousand(WrongLaw):
    """To subtract 10,000 from scores is to mask them with −∞, which larger scores tell apart."""

    equality = Equality.REAL.allowing(Change.SIGNED_ZERO, Change.NAN_INF, Change.OVERFLOW)

    def pattern(x: Float[Tensor, "m n"], mask: Bool[Tensor, "m n"]):
        return torch.softmax(x.masked_fill(~mask, float("-inf")), 1)

    def replacement(x, mask):
        return torch.softmax(x + (1.0 - mask.to(x.dtype)) * -10000.0, 1)
