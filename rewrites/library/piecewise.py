"""Maximum, minimum, clamp and where: piecewise laws.

The maximum is associative and absorbs the minimum; monotone functions move through it, a negation exchanges the two.
Clamping is a maximum and then a minimum. `where` chooses whole elements, so every pointwise function moves through it.
Rounding is monotone, hence most of these laws are exact in floating point; NaN and signed zeros are where they are not.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule

Elements = Float[Tensor, "..."]
Shaped = Float[Tensor, "*s"]
Extreme = Literal["maximum", "minimum"]

exact_but_zero = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
exact_but_special = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)


class ExtremeOfSelf(Rule):
    """The maximum or minimum of a value with itself is the value."""

    source = "lattice axioms"
    equality = Equality.BITWISE

    def pattern(x: Elements, extreme: Extreme):
        return getattr(torch, extreme)(x, x)

    def replacement(x, extreme):
        return x


class ExtremeAssociates(Rule):
    """Maxima may be bracketed either way, and so may minima."""

    source = "lattice axioms"
    equality = exact_but_zero
    bidirectional = True

    def pattern(x: Elements, y: Elements, z: Elements, extreme: Extreme):
        pick = getattr(torch, extreme)
        return pick(pick(x, y), z)

    def replacement(x, y, z, extreme):
        pick = getattr(torch, extreme)
        return pick(x, pick(y, z))


class MaximumAbsorbsMinimum(Rule):
    """The maximum of a value with its minimum with another is the value."""

    source = "lattice axioms"
    equality = exact_but_special

    def pattern(x: Shaped, y: Shaped):
        return torch.maximum(x, torch.minimum(x, y))

    def replacement(x, y):
        return x


class MaximumDistributesOverMinimum(Rule):
    """The maximum with a minimum is the minimum of the maxima."""

    source = "the reals are a distributive lattice"
    equality = exact_but_special
    bidirectional = True

    def pattern(x: Elements, y: Elements, z: Elements):
        return torch.minimum(torch.maximum(x, y), torch.maximum(x, z))

    def replacement(x, y, z):
        return torch.maximum(x, torch.minimum(y, z))


class MaximumOfNegations(Rule):
    """The maximum of negations is the negated minimum."""

    source = "negation reverses the order"
    equality = exact_but_zero
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements):
        return torch.maximum(-x, -y)

    def replacement(x, y):
        return -torch.minimum(x, y)


class CommonTermMovesOutOfExtreme(Rule):
    """A term common to both sides of a maximum or minimum comes out of it."""

    source = "addition is monotone, and so is its rounding"
    equality = exact_but_special
    bidirectional = True

    def pattern(x: Elements, y: Elements, z: Elements, extreme: Extreme):
        return getattr(torch, extreme)(x + z, y + z)

    def replacement(x, y, z, extreme):
        return getattr(torch, extreme)(x, y) + z


class PositiveFactorMovesOutOfExtreme(Rule):
    """A scalar factor that is not negative comes out of a maximum or minimum."""

    source = "multiplication by a number that is not negative is monotone"
    equality = exact_but_special
    requires = [Requires("the factor is not negative", lambda factor: factor >= 0)]
    bidirectional = True

    def pattern(x: Elements, y: Elements, factor: float, extreme: Extreme):
        return getattr(torch, extreme)(x * factor, y * factor)

    def replacement(x, y, factor, extreme):
        return getattr(torch, extreme)(x, y) * factor


class NegativeFactorExchangesExtremes(Rule):
    """A scalar factor that is not positive comes out of a maximum, which becomes a minimum."""

    source = "multiplication by a negative number reverses the order"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)
    requires = [Requires("the factor is not positive", lambda factor: factor <= 0)]

    def pattern(x: Elements, y: Elements, factor: float):
        return torch.maximum(x * factor, y * factor)

    def replacement(x, y, factor):
        return torch.minimum(x, y) * factor


class MaximumPlusMinimum(Rule):
    """The maximum plus the minimum is the sum."""

    source = "one of the two is each operand"
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO)
    trainable = True

    def pattern(x: Elements, y: Elements):
        return torch.maximum(x, y) + torch.minimum(x, y)

    def replacement(x, y):
        return x + y


class MaximumMinusMinimum(Rule):
    """The maximum less the minimum is the distance."""

    source = "one of the two is each operand"
    equality = exact_but_zero
    bidirectional = True

    def pattern(x: Elements, y: Elements):
        return torch.maximum(x, y) - torch.minimum(x, y)

    def replacement(x, y):
        return torch.abs(x - y)


class MagnitudeAsMaximum(Rule):
    """The maximum of a value and its negation is the magnitude."""

    source = "definition of the magnitude"
    equality = exact_but_zero
    bidirectional = True

    def pattern(x: Elements):
        return torch.maximum(x, -x)

    def replacement(x):
        return torch.abs(x)


class ReluAsClamp(Rule):
    """Clamping from below at zero is relu."""

    source = "definition of relu"
    settles = True
    equality = exact_but_zero
    bidirectional = True

    def pattern(x: Elements):
        return torch.clamp(x, min=0)

    def replacement(x):
        return F.relu(x)


class Relu6AsClamp(Rule):
    """Clamping to [0, 6] is relu6."""

    source = "Howard et al. 2017 (MobileNets)"
    equality = exact_but_zero
    bidirectional = True

    def pattern(x: Elements):
        return torch.clamp(x, 0, 6)

    def replacement(x):
        return F.relu6(x)


class ClampAsTwoClamps(Rule):
    """Clamping from below and then from above is one clamp."""

    source = "PyTorch, torch.clamp: min(max(x, low), high)"
    settles = True
    equality = exact_but_zero
    trainable = True
    bidirectional = True

    def pattern(x: Elements, low: float, high: float):
        return torch.clamp(torch.clamp(x, min=low), max=high)

    def replacement(x, low, high):
        return torch.clamp(x, low, high)


class ClampInsideClamp(Rule):
    """A clamp to a range within the range of a clamp before it makes that one superfluous."""

    source = "nested intervals"
    settles = True
    equality = exact_but_zero
    requires = [
        Requires("the first range reaches as low", lambda low, inner_low: low <= inner_low),
        Requires("the first range reaches as high", lambda high, inner_high: inner_high <= high),
    ]

    def pattern(x: Elements, low: float, high: float, inner_low: float, inner_high: float):
        return torch.clamp(torch.clamp(x, low, high), inner_low, inner_high)

    def replacement(x, low, high, inner_low, inner_high):
        return torch.clamp(x, inner_low, inner_high)


class ClampAroundClamp(Rule):
    """A clamp to a range that contains the range of a clamp before it does nothing."""

    source = "nested intervals"
    settles = True
    equality = exact_but_zero
    requires = [
        Requires("the second range reaches as low", lambda low, outer_low: outer_low <= low),
        Requires("the second range reaches as high", lambda high, outer_high: high <= outer_high),
        Requires("the first range is not empty", lambda low, high: low <= high),
    ]

    def pattern(x: Elements, low: float, high: float, outer_low: float, outer_high: float):
        return torch.clamp(torch.clamp(x, low, high), outer_low, outer_high)

    def replacement(x, low, high, outer_low, outer_high):
        return torch.clamp(x, low, high)


class ClampOfRelu(Rule):
    """A clamp from a bound that is not negative makes a relu before it superfluous."""

    source = "nested intervals"
    settles = True
    equality = exact_but_zero
    requires = [Requires("the lower bound is not negative", lambda low: low >= 0)]

    def pattern(x: Elements, low: float, high: float):
        return torch.clamp(F.relu(x), low, high)

    def replacement(x, low, high):
        return torch.clamp(x, low, high)


class ReluOfClamp(Rule):
    """A relu after a clamp raises the lower bound to zero."""

    source = "nested intervals"
    settles = True
    equality = exact_but_zero
    requires = [
        Requires("the lower bound is not positive", lambda low: low <= 0),
        Requires("the upper bound is not negative", lambda high: high >= 0),
    ]

    def pattern(x: Elements, low: float, high: float):
        return F.relu(torch.clamp(x, low, high))

    def replacement(x, low, high):
        return torch.clamp(x, 0, high)


class ClampOfNegation(Rule):
    """Clamping a negation is negating the clamp to the mirrored range."""

    source = "negation reverses the order"
    equality = exact_but_zero
    requires = [Requires("the range is not empty", lambda low, high: low <= high)]
    trainable = True

    def pattern(x: Elements, low: float, high: float):
        return torch.clamp(-x, low, high)

    def replacement(x, low, high):
        return -torch.clamp(x, -high, -low)


class ClampOfShift(Rule):
    """Clamping a shifted value is shifting the clamp to the range shifted back."""

    source = "addition is monotone"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)
    trainable = True

    def pattern(x: Elements, shift: float, low: float, high: float):
        return torch.clamp(x + shift, low, high)

    def replacement(x, shift, low, high):
        return torch.clamp(x, low - shift, high - shift) + shift
