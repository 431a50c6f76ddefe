"""Activations written out: gates and their parts.

silu x = x·σ(x), gelu x = x·Φ(x), mish x = x·tanh(softplus x), hardswish x = x·relu6(x + 3)/6. (PyTorch's softplus is
log(1 + eˣ) only up to x = 20 and x beyond, so it has no law with its parts.)
Models exported by other tools hold the parts; one operator instead of them is one kernel.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Rule

Elements = Float[Tensor, "..."]

wider = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)


class SiluFromParts(Rule):
    """A value times its sigmoid is silu."""

    source = "Elfwing et al. 2018; Ramachandran et al. 2017"
    settles = True
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return x * torch.sigmoid(x)

    def replacement(x):
        return F.silu(x)


class GeluFromParts(Rule):
    """Half a value times one plus the error function of the value over √2 is gelu."""

    source = "Hendrycks and Gimpel 2016, equation 1"
    settles = True
    equality = wider
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return x * 0.5 * (torch.erf(x * math.sqrt(0.5)) + 1)

    def replacement(x):
        return F.gelu(x)


class GeluFromDividedParts(Rule):
    """Half a value times one plus the error function of the value divided by √2 is gelu."""

    source = "Hendrycks and Gimpel 2016, equation 1; as exported to ONNX"
    settles = True
    equality = wider
    trainable = True

    def pattern(x: Elements):
        return x * (torch.erf(x / math.sqrt(2.0)) + 1) * 0.5

    def replacement(x):
        return F.gelu(x)


class TanhGeluFromParts(Rule):
    """Half a value times one plus a hyperbolic tangent of a cubic in it is gelu approximated by tanh."""

    source = "Hendrycks and Gimpel 2016, section 2; Radford et al. 2019 (GPT-2)"
    settles = True
    equality = wider
    trainable = True

    def pattern(x: Elements):
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))
        return 0.5 * x * (1 + torch.tanh(inner))

    def replacement(x):
        return F.gelu(x, approximate="tanh")


class LogOfSigmoid(Rule):
    """The logarithm of a sigmoid is the log-sigmoid, which does not underflow."""

    source = "PyTorch, torch.nn.functional.logsigmoid"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)
    trainable = True

    def pattern(x: Elements):
        return torch.log(torch.sigmoid(x))

    def replacement(x):
        return F.logsigmoid(x)


class MishFromParts(Rule):
    """A value times the hyperbolic tangent of the logarithm of one plus its exponential is mish."""

    source = "Misra 2019, equation 1"
    settles = True
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return x * torch.tanh(torch.log1p(torch.exp(x)))

    def replacement(x):
        return F.mish(x)


class HardsigmoidFromParts(Rule):
    """A sixth of the relu6 of a value plus 3 is hardsigmoid."""

    source = "Howard et al. 2019 (MobileNetV3), section 5.2"
    settles = True
    equality = wider

    def pattern(x: Elements):
        return F.relu6(x + 3) / 6

    def replacement(x):
        return F.hardsigmoid(x)


class HardswishFromParts(Rule):
    """A value times the relu6 of it plus 3, over 6, is hardswish."""

    source = "Howard et al. 2019 (MobileNetV3), section 5.2"
    settles = True
    equality = wider

    def pattern(x: Elements):
        return x * F.relu6(x + 3) / 6

    def replacement(x):
        return F.hardswish(x)


class HardswishFromClamp(Rule):
    """A value times it plus 3, clamped to [0, 6], over 6, is hardswish."""

    source = "Howard et al. 2019 (MobileNetV3), section 5.2; as exported to ONNX"
    settles = True
    equality = wider

    def pattern(x: Elements):
        return x * torch.clamp(x + 3, 0.0, 6.0) / 6

    def replacement(x):
        return F.hardswish(x)


class HardswishFromDividedClamp(Rule):
    """A value times a sixth of it plus 3, clamped to [0, 6], is hardswish."""

    source = "Howard et al. 2019 (MobileNetV3), section 5.2; as exported to ONNX"
    settles = True
    equality = wider

    def pattern(x: Elements):
        return x * (torch.clamp(x + 3, 0.0, 6.0) / 6)

    def replacement(x):
        return F.hardswish(x)


class HardsigmoidFromClamp(Rule):
    """A sixth of a value plus 3, clamped to [0, 6], is hardsigmoid."""

    source = "Howard et al. 2019 (MobileNetV3), section 5.2; as exported to ONNX"
    settles = True
    equality = wider

    def pattern(x: Elements):
        return torch.clamp(x + 3, 0.0, 6.0) / 6

    def replacement(x):
        return F.hardsigmoid(x)


class SiluFromQuotient(Rule):
    """A value over one plus the exponential of its negation is silu."""

    source = "Elfwing et al. 2018, with the logistic function written out"
    settles = True
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)
    trainable = True

    def pattern(x: Elements):
        return x / (1 + torch.exp(-x))

    def replacement(x):
        return F.silu(x)


class GeluFromHalvedProduct(Rule):
    """A value times one plus the error function of it over √2, halved at the end, is gelu."""

    source = "Hendrycks and Gimpel 2016, equation 1; as exported to ONNX"
    settles = True
    equality = wider
    trainable = True

    def pattern(x: Elements):
        return x * (torch.erf(x * math.sqrt(0.5)) + 1) * 0.5

    def replacement(x):
        return F.gelu(x)


class HardswishFromHardsigmoid(Rule):
    """A value times its hardsigmoid is hardswish."""

    source = "Howard et al. 2019 (MobileNetV3), section 5.2"
    settles = True
    equality = wider
    bidirectional = True

    def pattern(x: Elements):
        return x * F.hardsigmoid(x)

    def replacement(x):
        return F.hardswish(x)


class GateBesideIdentity(Rule):
    """An image times a gate per sample and channel, plus the image, is the image times one more than the gate."""

    source = "Hu et al. 2018 (squeeze and excitation), with a skip beside it as in PP-OCR's feature pyramid"
    settles = True
    equality = wider
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], gate: Float[Tensor, "n c 1 1"]):
        return x * gate + x

    def replacement(x, gate):
        return x * (gate + 1)


class GatedLinearUnitFromHalves(Rule):
    """The first half of the features times the sigmoid of the second half is a gated linear unit."""

    source = "Dauphin et al. 2017, section 2"
    equality = Equality.REAL.allowing(Change.NAN_INF)
    trainable = True

    def pattern(x: Float[Tensor, "*s 2*d"]):
        value, gate = torch.chunk(x, 2, -1)
        return value * torch.sigmoid(gate)

    def replacement(x):
        return F.glu(x, -1)


class SoftsignFromParts(Rule):
    """A value over one plus its magnitude is softsign."""

    source = "Bergstra et al. 2009"
    settles = True
    equality = Equality.REAL.allowing(Change.OVERFLOW, Change.NAN_INF)
    trainable = True
    bidirectional = True

    def pattern(x: Elements):
        return x / (1 + torch.abs(x))

    def replacement(x):
        return F.softsign(x)
