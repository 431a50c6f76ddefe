"""Sums, differences, products and quotients, element by element.

The real numbers are a field: sums and products associate, commute and distribute; subtraction is adding the negation,
division multiplying by the reciprocal. Floats keep the laws of signs exactly and round everything else; x + 0 turns −0
into +0; x − x and x·0 are NaN where x is infinite or NaN.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Rule

Elements = Float[Tensor, "..."]
Shaped = Float[Tensor, "*s"]

reordered = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)
regrouped = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)


class AdditionAssociates(Rule):
    """Sums may be bracketed either way."""

    source = "field axioms; TASO"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements, z: Elements):
        return (x + y) + z

    def replacement(x, y, z):
        return x + (y + z)


class MultiplicationAssociates(Rule):
    """Products may be bracketed either way."""

    source = "field axioms; TASO"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements, z: Elements):
        return (x * y) * z

    def replacement(x, y, z):
        return x * (y * z)


class MultiplicationDistributes(Rule):
    """A common factor comes out of a sum."""

    source = "field axioms; TASO"
    equality = regrouped
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements, z: Elements):
        return x * y + x * z

    def replacement(x, y, z):
        return x * (y + z)


class MultiplicationDistributesOverDifference(Rule):
    """A common factor comes out of a difference."""

    source = "field axioms"
    equality = regrouped
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements, z: Elements):
        return x * y - x * z

    def replacement(x, y, z):
        return x * (y - z)


class FactorOfTermAndProduct(Rule):
    """A term plus its product with another factor is the term times one more than the factor."""

    source = "field axioms; Peebles and Xie 2023 (DiT), adaptive layer norm"
    tried = True
    equality = regrouped
    trainable = True
    bidirectional = True

    def pattern(x: Shaped, y: Shaped):
        return x * y + x

    def replacement(x, y):
        return x * (y + 1)


class DivisionDistributes(Rule):
    """A common divisor comes out of a sum."""

    source = "field axioms"
    equality = regrouped
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements, z: Elements):
        return x / z + y / z

    def replacement(x, y, z):
        return (x + y) / z


class ProductOfSumAndDifference(Rule):
    """A sum times the difference of the same terms is the difference of their squares."""

    source = "field axioms"
    equality = regrouped
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements):
        return (x + y) * (x - y)

    def replacement(x, y):
        return x * x - y * y


class DoubleNegation(Rule):
    """A negated negation changes nothing."""

    source = "IEEE 754-2019, section 5.5.1"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Elements):
        return torch.neg(torch.neg(x))

    def replacement(x):
        return x


class SubtractionAsAddition(Rule):
    """A difference is the sum with the negation."""

    source = "IEEE 754-2019, section 5.4.1"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements):
        return x + (-y)

    def replacement(x, y):
        return x - y


class NegationOfDifference(Rule):
    """A negated difference is the difference the other way round."""

    source = "field axioms"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements):
        return -(x - y)

    def replacement(x, y):
        return y - x


class NegationMovesOutOfProduct(Rule):
    """A negated factor negates the product."""

    source = "IEEE 754-2019, section 6.3"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements):
        return (-x) * y

    def replacement(x, y):
        return -(x * y)


class NegationMovesOutOfQuotient(Rule):
    """A negated dividend negates the quotient."""

    source = "IEEE 754-2019, section 6.3"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements):
        return (-x) / y

    def replacement(x, y):
        return -(x / y)


class ProductOfNegations(Rule):
    """Two negated factors cancel their signs."""

    source = "IEEE 754-2019, section 6.3"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Elements, y: Elements):
        return (-x) * (-y)

    def replacement(x, y):
        return x * y


class SubtractionAssociates(Rule):
    """Subtracting one after the other subtracts the sum."""

    source = "field axioms"
    equality = regrouped
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements, z: Elements):
        return (x - y) - z

    def replacement(x, y, z):
        return x - (y + z)


class SubtractDifference(Rule):
    """Subtracting a difference subtracts its first term and adds its second."""

    source = "field axioms"
    equality = regrouped
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements, z: Elements):
        return x - (y - z)

    def replacement(x, y, z):
        return (x - y) + z


class AddThenSubtract(Rule):
    """Adding and then subtracting the same changes nothing."""

    source = "field axioms"
    equality = regrouped
    trainable = True

    def pattern(x: Shaped, y: Shaped):
        return (x + y) - y

    def replacement(x, y):
        return x


class DivideTwice(Rule):
    """Dividing one after the other divides by the product."""

    source = "field axioms"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements, z: Elements):
        return (x / y) / z

    def replacement(x, y, z):
        return x / (y * z)


class MultiplyThenDivide(Rule):
    """Multiplying and then dividing is multiplying by the quotient."""

    source = "field axioms"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements, z: Elements):
        return (x * y) / z

    def replacement(x, y, z):
        return x * (y / z)


class DivisionAsReciprocal(Rule):
    """A quotient is the product with the reciprocal."""

    source = "field axioms"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Elements, y: Elements):
        return x * torch.reciprocal(y)

    def replacement(x, y):
        return x / y


class OneOverAsReciprocal(Rule):
    """One over a value is its reciprocal."""

    source = "PyTorch, torch.reciprocal"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return 1 / x

    def replacement(x):
        return torch.reciprocal(x)
