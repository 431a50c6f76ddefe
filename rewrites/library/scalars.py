"""Sums and products with numbers, and of values with themselves.

0 and 1 are neutral, −1 negates, 2 doubles; numbers applied one after the other combine to one. x + 0 turns −0 into +0;
x − x and x·0 are NaN where x is infinite or NaN.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule

Elements = Float[Tensor, "..."]

reordered = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)
regrouped = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)


class AddZero(Rule):
    """Adding zero changes nothing but −0."""

    source = "IEEE 754-2019, section 6.3"
    settles = True
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    trainable = True

    def pattern(x: Elements):
        return x + 0

    def replacement(x):
        return x


class SubtractZero(Rule):
    """Subtracting zero changes nothing."""

    source = "IEEE 754-2019, section 6.3"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Elements):
        return x - 0

    def replacement(x):
        return x


class MultiplyByOne(Rule):
    """Multiplying by one changes nothing."""

    source = "field axioms"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Elements):
        return x * 1

    def replacement(x):
        return x


class DivideByOne(Rule):
    """Dividing by one changes nothing."""

    source = "field axioms"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Elements):
        return x / 1

    def replacement(x):
        return x


class MultiplyByZero(Rule):
    """A product with zero is zero."""

    source = "field axioms; NaN and infinity times zero are NaN"
    equality = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)
    trainable = True

    def pattern(x: Elements):
        return x * 0

    def replacement(x):
        return torch.zeros_like(x)


class SubtractSelf(Rule):
    """The difference of a value with itself is zero."""

    source = "field axioms; infinity less infinity is NaN"
    equality = Equality.BITWISE.allowing(Change.NAN_INF)
    trainable = True

    def pattern(x: Elements):
        return x - x

    def replacement(x):
        return torch.zeros_like(x)


class DivideBySelf(Rule):
    """The quotient of a value with itself is one."""

    source = "field axioms"
    equality = Equality.BITWISE.allowing(Change.NAN_INF)
    requires = [Requires("no element is zero", lambda x: x != 0)]
    trainable = True

    def pattern(x: Elements):
        return x / x

    def replacement(x):
        return torch.ones_like(x)


class MultiplyByMinusOne(Rule):
    """A product with −1 is the negation."""

    source = "IEEE 754-2019, section 6.3"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return x * -1

    def replacement(x):
        return -x


class AddSelf(Rule):
    """A value added to itself is its double."""

    source = "doubling is exact in binary floating point"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return x + x

    def replacement(x):
        return x * 2


class DivisionByScalarAsProduct(Rule):
    """Dividing by a scalar is multiplying by its reciprocal."""

    source = "field axioms"
    tried = True
    equality = reordered
    requires = [Requires("the divisor is not zero", lambda divisor: divisor != 0)]
    trainable = True

    def pattern(x: Elements, divisor: float):
        return x / divisor

    def replacement(x, divisor):
        return x * (1 / divisor)


class ScalarFactorsCombine(Rule):
    """Two scalar factors are one."""

    source = "field axioms"
    settles = True
    equality = reordered
    trainable = True

    def pattern(x: Elements, first: float, second: float):
        return (x * first) * second

    def replacement(x, first, second):
        return x * (first * second)


class ScalarTermsCombine(Rule):
    """Two scalar terms are one."""

    source = "field axioms"
    settles = True
    equality = regrouped
    trainable = True

    def pattern(x: Elements, first: float, second: float):
        return (x + first) + second

    def replacement(x, first, second):
        return x + (first + second)


class ScalarFactorAndDivisorCombine(Rule):
    """A scalar factor and a scalar divisor are one factor."""

    source = "field axioms"
    settles = True
    equality = reordered
    requires = [Requires("the divisor is not zero", lambda divisor: divisor != 0)]
    trainable = True

    def pattern(x: Elements, factor: float, divisor: float):
        return (x * factor) / divisor

    def replacement(x, factor, divisor):
        return x * (factor / divisor)


class ScalarFactorDistributes(Rule):
    """A scalar factor of a sum of a value and a scalar is a factor of both."""

    source = "field axioms"
    equality = regrouped
    trainable = True

    def pattern(x: Elements, term: float, factor: float):
        return (x + term) * factor

    def replacement(x, term, factor):
        return x * factor + term * factor
