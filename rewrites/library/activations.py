"""Activation functions: idempotence, symmetry, homogeneity, and their written-out forms.

relu is idempotent, does nothing to what is not negative and commutes with factors that are not negative;
σ(−x) = 1 − σ(x), tanh x = 2σ(2x) − 1, softplus x = log(1 + eˣ); silu, gelu, mish, hardswish are products with a gate.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule

Elements = Float[Tensor, "..."]

exact_but_zero = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
wider = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)


class ReluIsIdempotent(Rule):
    """The relu of a relu is itself."""

    source = "definition of relu"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Elements):
        return F.relu(F.relu(x))

    def replacement(x):
        return F.relu(x)


class ReluOfNonnegative(Rule):
    """The relu of a magnitude, an exponential, a sigmoid, a square root or a relu6 does nothing."""

    source = "the range of these functions is not negative"
    settles = True
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)

    def pattern(x: Elements, function: Literal["abs", "exp", "sigmoid", "sqrt", "relu6"]):
        return F.relu(F.relu6(x) if function == "relu6" else getattr(torch, function)(x))

    def replacement(x, function):
        return F.relu6(x) if function == "relu6" else getattr(torch, function)(x)


class MagnitudeOfRelu(Rule):
    """A relu is its own magnitude."""

    source = "the range of relu is not negative"
    equality = exact_but_zero

    def pattern(x: Elements):
        return torch.abs(F.relu(x))

    def replacement(x):
        return F.relu(x)


class ReluOfScaled(Rule):
    """A scalar factor that is not negative moves through relu."""

    source = "relu is positively homogeneous; Glorot et al. 2011"
    equality = exact_but_zero.allowing(Change.NAN_INF)
    requires = [Requires("the factor is not negative", lambda factor: factor >= 0)]
    trainable = True
    bidirectional = True

    def pattern(x: Elements, factor: float):
        return F.relu(x * factor)

    def replacement(x, factor):
        return F.relu(x) * factor


class ReluMinusReluOfNegation(Rule):
    """The positive part less the negative part is the value."""

    source = "decomposition into positive and negative part"
    equality = exact_but_zero.allowing(Change.NAN_INF)

    def pattern(x: Elements):
        return F.relu(x) - F.relu(-x)

    def replacement(x):
        return x


class ReluPlusReluOfNegation(Rule):
    """The positive part plus the negative part is the magnitude."""

    source = "decomposition into positive and negative part"
    equality = exact_but_zero

    def pattern(x: Elements):
        return F.relu(x) + F.relu(-x)

    def replacement(x):
        return torch.abs(x)


class ReluOfDifferencePlusTerm(Rule):
    """The relu of a difference plus the subtracted term is the maximum."""

    source = "max(x, y) = y + max(x − y, 0)"
    equality = wider
    bidirectional = True

    def pattern(x: Elements, y: Elements):
        return F.relu(x - y) + y

    def replacement(x, y):
        return torch.maximum(x, y)


class Relu6OfRelu(Rule):
    """A relu before relu6 does nothing."""

    source = "nested intervals"
    settles = True
    equality = exact_but_zero
    trainable = True

    def pattern(x: Elements):
        return F.relu6(F.relu(x))

    def replacement(x):
        return F.relu6(x)


class LeakyReluAsMaximum(Rule):
    """A leaky relu of slope up to 1 is the maximum of the value and its multiple."""

    source = "Maas et al. 2013"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)
    requires = [
        Requires("the slope is at most 1", lambda slope: slope <= 1),
    ]
    bidirectional = True

    def pattern(x: Elements, slope: float):
        return torch.maximum(x, x * slope)

    def replacement(x, slope):
        return F.leaky_relu(x, slope)


class LeakyReluOfLeakyRelu(Rule):
    """Leaky relus of slopes that are not negative compose to one whose slope is the product."""

    source = "derived from the definition: the sign is kept"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)
    requires = [Requires("the inner slope is not negative", lambda inner: inner >= 0)]
    trainable = True

    def pattern(x: Elements, inner: float, outer: float):
        return F.leaky_relu(F.leaky_relu(x, inner), outer)

    def replacement(x, inner, outer):
        return F.leaky_relu(x, inner * outer)


class LeakyReluOfSlopeZero(Rule):
    """A leaky relu of slope 0 is relu."""

    source = "Maas et al. 2013"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(x: Elements):
        return F.leaky_relu(x, 0.0)

    def replacement(x):
        return F.relu(x)


class SigmoidOfNegation(Rule):
    """The sigmoid of a negation is one less the sigmoid."""

    source = "symmetry of the logistic function"
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return torch.sigmoid(-x)

    def replacement(x):
        return 1 - torch.sigmoid(x)


class SigmoidFromParts(Rule):
    """One over one plus the exponential of the negation is the sigmoid."""

    source = "definition of the logistic function"
    equality = Equality.REAL.allowing(Change.OVERFLOW)
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return 1 / (1 + torch.exp(-x))

    def replacement(x):
        return torch.sigmoid(x)


class SigmoidAsExponentialQuotient(Rule):
    """An exponential over one plus itself is the sigmoid."""

    source = "definition of the logistic function"
    equality = Equality.REAL.allowing(Change.OVERFLOW, Change.NAN_INF)
    trainable = True

    def pattern(x: Elements):
        return torch.exp(x) / (1 + torch.exp(x))

    def replacement(x):
        return torch.sigmoid(x)


class TanhAsSigmoid(Rule):
    """Twice the sigmoid of twice a value, less one, is its hyperbolic tangent."""

    source = "definition of the hyperbolic tangent"
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO, Change.OVERFLOW)
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return torch.sigmoid(x * 2) * 2 - 1

    def replacement(x):
        return torch.tanh(x)


class TanhIsOdd(Rule):
    """The hyperbolic tangent of a negation is the negated hyperbolic tangent."""

    source = "definition of the hyperbolic tangent"
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return torch.tanh(-x)

    def replacement(x):
        return -torch.tanh(x)


class DropoutAtInference(Rule):
    """A dropout that is not training changes nothing."""

    source = "Srivastava et al. 2014, section 4"
    settles = True
    equality = Equality.BITWISE
    requires = [
        Requires("the probability is not negative", lambda probability: probability >= 0),
        Requires("the probability is at most 1", lambda probability: probability <= 1),
    ]

    def pattern(x: Elements, probability: float):
        return F.dropout(x, probability, False)

    def replacement(x, probability):
        return x
