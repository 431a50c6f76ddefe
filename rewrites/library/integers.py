"""Integers and truth values: rings modulo a power of two, floored division, complements.

Integer sums and products wrap, and so stay a ring: they associate and distribute exactly. Floored division undoes no
wrapping, so its laws take positive divisors and no product of the dividend.
"""

import torch
from jaxtyping import Bool, Int, Int64
from torch import Tensor

from rewrites import Equality, Requires, Rule

Integers = Int[Tensor, "..."]
Longs = Int64[Tensor, "..."]
Truths = Bool[Tensor, "..."]


class IntegerAdditionAssociates(Rule):
    """Integer sums may be bracketed either way."""

    source = "integers modulo a power of two are a ring"
    equality = Equality.BITWISE
    bidirectional = True

    def pattern(x: Integers, y: Integers, z: Integers):
        return (x + y) + z

    def replacement(x, y, z):
        return x + (y + z)


class IntegerMultiplicationAssociates(Rule):
    """Integer products may be bracketed either way."""

    source = "integers modulo a power of two are a ring"
    equality = Equality.BITWISE
    bidirectional = True

    def pattern(x: Integers, y: Integers, z: Integers):
        return (x * y) * z

    def replacement(x, y, z):
        return x * (y * z)


class IntegerMultiplicationDistributes(Rule):
    """A common integer factor comes out of a sum."""

    source = "integers modulo a power of two are a ring"
    equality = Equality.BITWISE
    bidirectional = True

    def pattern(x: Integers, y: Integers, z: Integers):
        return x * y + x * z

    def replacement(x, y, z):
        return x * (y + z)


class IntegerAddZero(Rule):
    """Adding zero to an integer changes nothing."""

    source = "ring axioms"
    equality = Equality.BITWISE

    def pattern(x: Integers):
        return x + 0

    def replacement(x):
        return x


class IntegerMultiplyByOne(Rule):
    """Multiplying an integer by one changes nothing."""

    source = "ring axioms"
    equality = Equality.BITWISE

    def pattern(x: Integers):
        return x * 1

    def replacement(x):
        return x


class IntegerSubtractSelf(Rule):
    """The difference of an integer with itself is zero."""

    source = "ring axioms"
    equality = Equality.BITWISE

    def pattern(x: Integers):
        return x - x

    def replacement(x):
        return torch.zeros_like(x)


class FloorDivideTwice(Rule):
    """Floored division by one positive integer and then by another is floored division by the product."""

    source = "Graham, Knuth and Patashnik 1994, equation 3.11"
    equality = Equality.BITWISE
    requires = [
        Requires(
            "both divisors are positive, and their product is a number of 64 bits",
            lambda first, second: first >= 1 and second >= 1 and first * second < 2**63,
        ),
    ]

    def pattern(x: Longs, first: int, second: int):
        return (x // first) // second

    def replacement(x, first, second):
        return x // (first * second)


class RemainderOfRemainder(Rule):
    """The remainder of a remainder by the same integer is itself."""

    source = "Graham, Knuth and Patashnik 1994, section 3.4"
    equality = Equality.BITWISE
    requires = [Requires("the divisor is not zero", lambda divisor: divisor != 0)]

    def pattern(x: Longs, divisor: int):
        return (x % divisor) % divisor

    def replacement(x, divisor):
        return x % divisor


class QuotientAndRemainder(Rule):
    """The quotient times the divisor, plus the remainder, is the dividend."""

    source = "Graham, Knuth and Patashnik 1994, section 3.4"
    equality = Equality.BITWISE
    requires = [Requires("the divisor is not zero", lambda divisor: divisor != 0)]

    def pattern(x: Longs, divisor: int):
        return (x // divisor) * divisor + x % divisor

    def replacement(x, divisor):
        return x


class FloorDivideByOne(Rule):
    """Floored division of an integer by one changes nothing."""

    source = "definition of floored division"
    equality = Equality.BITWISE

    def pattern(x: Integers):
        return x // 1

    def replacement(x):
        return x


class NotLessIsGreaterEqual(Rule):
    """What is not less is greater or equal, for integers: no element is unordered."""

    source = "the integers are totally ordered"
    equality = Equality.BITWISE
    bidirectional = True

    def pattern(x: Integers, y: Integers):
        return ~(x < y)

    def replacement(x, y):
        return x >= y


class DoubleComplement(Rule):
    """A condition negated twice is itself."""

    source = "Boolean algebra"
    equality = Equality.BITWISE

    def pattern(x: Truths):
        return ~(~x)

    def replacement(x):
        return x


class ComplementOfConjunction(Rule):
    """Not both is either not."""

    source = "De Morgan's law"
    equality = Equality.BITWISE
    bidirectional = True

    def pattern(x: Truths, y: Truths):
        return ~(x & y)

    def replacement(x, y):
        return ~x | ~y


class ComplementOfDisjunction(Rule):
    """Not either is both not."""

    source = "De Morgan's law"
    equality = Equality.BITWISE
    bidirectional = True

    def pattern(x: Truths, y: Truths):
        return ~(x | y)

    def replacement(x, y):
        return ~x & ~y


class ConjunctionWithSelf(Rule):
    """A condition and itself is the condition."""

    source = "Boolean algebra"
    equality = Equality.BITWISE

    def pattern(x: Truths):
        return x & x

    def replacement(x):
        return x


class ConjunctionAbsorbsDisjunction(Rule):
    """A condition and its disjunction with another is the condition."""

    source = "Boolean algebra"
    equality = Equality.BITWISE

    def pattern(x: Bool[Tensor, "*s"], y: Bool[Tensor, "*s"]):
        return x & (x | y)

    def replacement(x, y):
        return x


class ConjunctionDistributes(Rule):
    """A common condition comes out of a disjunction."""

    source = "Boolean algebra"
    equality = Equality.BITWISE
    bidirectional = True

    def pattern(x: Truths, y: Truths, z: Truths):
        return (x & y) | (x & z)

    def replacement(x, y, z):
        return x & (y | z)


class ComparisonTurnsAround(Rule):
    """Less the one way round is greater the other way round."""

    source = "definition of the order"
    equality = Equality.BITWISE
    bidirectional = True

    def pattern(x: Integers, y: Integers):
        return x < y

    def replacement(x, y):
        return y > x


class ComplementOfInteger(Rule):
    """An integer's bits complemented are its negation less one."""

    source = "two's complement"
    equality = Equality.BITWISE

    def pattern(x: Integers):
        return -x - 1

    def replacement(x):
        return ~x
