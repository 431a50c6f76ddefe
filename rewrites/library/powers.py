"""Powers, roots, exponentials, logarithms, magnitudes and signs.

exp turns sums into products and log products of positive numbers into sums; a square is a product; |x·y| = |x|·|y|;
√x² = |x|. Laws of log and √ hold where their argument is positive, which is a condition wherever it is not evident.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule

Elements = Float[Tensor, "..."]

reordered = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)
positive = Requires("the elements are positive", lambda x: x > 0)


class SquareAsProduct(Rule):
    """A square is the product of a value with itself."""

    source = "definition of the square"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return torch.square(x)

    def replacement(x):
        return x * x


class FirstPower(Rule):
    """The first power changes nothing."""

    source = "IEEE 754-2019, section 9.2.1"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Elements):
        return torch.pow(x, 1)

    def replacement(x):
        return x


class ZerothPower(Rule):
    """The zeroth power is one, even of zero and of NaN."""

    source = "IEEE 754-2019, section 9.2.1"
    equality = Equality.BITWISE

    def pattern(x: Elements):
        return torch.pow(x, 0)

    def replacement(x):
        return torch.ones_like(x)


class ThirdPowerAsProduct(Rule):
    """The third power is the product of three."""

    source = "definition of powers"
    equality = reordered
    trainable = True

    def pattern(x: Elements):
        return torch.pow(x, 3)

    def replacement(x):
        return x * x * x


class HalfPowerAsRoot(Rule):
    """The power one half is the square root."""

    source = "definition of powers; IEEE 754-2019, sections 5.4.1 and 9.2.1"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)
    trainable = True

    def pattern(x: Elements):
        return torch.pow(x, 0.5)

    def replacement(x):
        return torch.sqrt(x)


class PowerMinusOneAsReciprocal(Rule):
    """The power −1 is the reciprocal."""

    source = "definition of powers"
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return torch.pow(x, -1)

    def replacement(x):
        return torch.reciprocal(x)


class ProductOfExponentials(Rule):
    """The product of exponentials is the exponential of the sum."""

    source = "functional equation of exp"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements):
        return torch.exp(x) * torch.exp(y)

    def replacement(x, y):
        return torch.exp(x + y)


class QuotientOfExponentials(Rule):
    """The quotient of exponentials is the exponential of the difference."""

    source = "functional equation of exp"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements):
        return torch.exp(x) / torch.exp(y)

    def replacement(x, y):
        return torch.exp(x - y)


class ReciprocalOfExponential(Rule):
    """The reciprocal of an exponential is the exponential of the negation."""

    source = "functional equation of exp"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return torch.reciprocal(torch.exp(x))

    def replacement(x):
        return torch.exp(-x)


class LogOfExponential(Rule):
    """The logarithm undoes the exponential."""

    source = "definition of log; exp leaves the range of floats long before x does"
    equality = reordered.allowing(Change.SIGNED_ZERO)
    trainable = True

    def pattern(x: Elements):
        return torch.log(torch.exp(x))

    def replacement(x):
        return x


class ExponentialOfLog(Rule):
    """The exponential undoes the logarithm of positive numbers."""

    source = "definition of log"
    equality = reordered
    requires = [positive]
    trainable = True

    def pattern(x: Elements):
        return torch.exp(torch.log(x))

    def replacement(x):
        return x


class LogOfProduct(Rule):
    """The logarithm of a product of positive numbers is the sum of their logarithms."""

    source = "functional equation of log"
    equality = reordered
    requires = [Requires("the elements of both are positive", lambda x, y: (x > 0) & (y > 0))]
    trainable = True

    def pattern(x: Elements, y: Elements):
        return torch.log(x * y)

    def replacement(x, y):
        return torch.log(x) + torch.log(y)


class LogOfRoot(Rule):
    """The logarithm of the root of a positive number is half its logarithm."""

    source = "functional equation of log"
    equality = reordered.allowing(Change.SIGNED_ZERO)
    trainable = True

    def pattern(x: Elements):
        return torch.log(torch.sqrt(x))

    def replacement(x):
        return torch.log(x) * 0.5


class LogOfOnePlus(Rule):
    """The logarithm of one plus a value is log1p, which does not cancel near zero."""

    source = "Goldberg 1991, theorem 4"
    equality = Equality.REAL.allowing(Change.OVERFLOW, Change.SIGNED_ZERO)
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return torch.log(x + 1)

    def replacement(x):
        return torch.log1p(x)


class ExponentialMinusOne(Rule):
    """The exponential less one is expm1, which does not cancel near zero."""

    source = "Goldberg 1991, section 1.4"
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO)
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return torch.exp(x) - 1

    def replacement(x):
        return torch.expm1(x)


class RootOfSquare(Rule):
    """The root of a square is the magnitude."""

    source = "definition of the square root"
    equality = Equality.REAL.allowing(Change.OVERFLOW)

    def pattern(x: Elements):
        return torch.sqrt(x * x)

    def replacement(x):
        return torch.abs(x)


class SquareOfRoot(Rule):
    """The square of the root of a number that is not negative is that number."""

    source = "definition of the square root"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)
    requires = [Requires("no element is negative", lambda x: x >= 0)]

    def pattern(x: Elements):
        return torch.square(torch.sqrt(x))

    def replacement(x):
        return x


class OneOverRoot(Rule):
    """One over a square root is the reciprocal root."""

    source = "definition of the reciprocal root"
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return torch.reciprocal(torch.sqrt(x))

    def replacement(x):
        return torch.rsqrt(x)


class DivideByRoot(Rule):
    """Dividing by a square root is multiplying by the reciprocal root."""

    source = "definition of the reciprocal root"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements):
        return x / torch.sqrt(y)

    def replacement(x, y):
        return x * torch.rsqrt(y)


class MagnitudeIsIdempotent(Rule):
    """The magnitude of a magnitude is itself."""

    source = "IEEE 754-2019, section 5.5.1"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Elements):
        return torch.abs(torch.abs(x))

    def replacement(x):
        return torch.abs(x)


class MagnitudeOfNegation(Rule):
    """The magnitude does not see a sign."""

    source = "IEEE 754-2019, section 5.5.1"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Elements):
        return torch.abs(-x)

    def replacement(x):
        return torch.abs(x)


class MagnitudeOfProduct(Rule):
    """The magnitude of a product is the product of the magnitudes."""

    source = "field of ordered numbers; signs multiply exactly"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements):
        return torch.abs(x) * torch.abs(y)

    def replacement(x, y):
        return torch.abs(x * y)


class MagnitudeOfSquare(Rule):
    """A square is its own magnitude."""

    source = "squares are not negative"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Elements):
        return torch.abs(x * x)

    def replacement(x):
        return x * x


class SquareOfMagnitude(Rule):
    """The square of a magnitude is the square."""

    source = "signs multiply exactly"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Elements):
        return torch.square(torch.abs(x))

    def replacement(x):
        return torch.square(x)


class MagnitudeOfExponential(Rule):
    """An exponential is its own magnitude."""

    source = "exponentials are positive"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Elements):
        return torch.abs(torch.exp(x))

    def replacement(x):
        return torch.exp(x)


class SignTimesMagnitude(Rule):
    """The sign times the magnitude is the value."""

    source = "definition of the sign"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)

    def pattern(x: Elements):
        return torch.sign(x) * torch.abs(x)

    def replacement(x):
        return x
