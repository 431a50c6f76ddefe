"""Normalisations: a shift and a scale by statistics, then a learned scale γ and shift β.

With running statistics a batch norm is affine per channel, x·s + (β − μ·s) with s = γ/√(σ² + ε), so it composes with
every affine neighbour. With the statistics of the batch, sample or row a shift of what is normalised cancels.
γ and β of a normalisation move into a following linear map: (γ·z + β)·wᵀ = z·(γ·w)ᵀ + w·β.
n samples, c channels, any positions *s; rows of c features, groups of channels.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule, Weight

Image = Float[Tensor, "n c *s"]
Rows = Float[Tensor, "*s c"]
PerChannel = Weight[Float[Tensor, "c"]]
Matrix = Weight[Float[Tensor, "o c"]]
PerOutput = Weight[Float[Tensor, "o"]]

running_statistics = Requires("the batch norm uses running statistics", lambda training: training == False)  # noqa: E712
a_channel = Requires("there is a channel, as a batch norm demands", lambda c: c >= 1)
wider = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)


def along_channels(values, x):
    """A vector [c] shaped to broadcast against x: [n, c, *s]."""
    return values.reshape(-1, *(1,) * (x.ndim - 2))


class BatchNormAsScaleAndShift(Rule):
    """An inference-mode batch norm scales and shifts each channel."""

    source = "Ioffe and Szegedy 2015, algorithm 2"
    tried = True
    equality = wider
    requires = [running_statistics]

    def pattern(x: Image, mean: PerChannel, var: PerChannel, gamma: PerChannel, beta: PerChannel, eps: float, training: bool):
        return F.batch_norm(x, mean, var, gamma, beta, training, 0.1, eps)

    def replacement(x, mean, var, gamma, beta, eps, training):
        scale = gamma * torch.rsqrt(var + eps)
        return x * along_channels(scale, x) + along_channels(beta - mean * scale, x)


class ScaleAndShiftAsBatchNorm(Rule):
    """Scaling and then shifting each channel of an image is an inference-mode batch norm of means 0 and variances 1."""

    source = "Ioffe and Szegedy 2015, algorithm 2; runtimes keep a batch norm in the layout of the convolutions around it"
    tried = True
    equality = wider
    requires = [a_channel]

    def pattern(x: Float[Tensor, "n c h w"], scale: Weight[Float[Tensor, "c 1 1"]], shift: Weight[Float[Tensor, "c 1 1"]]):
        return x * scale + shift

    def replacement(x, scale, shift):
        gamma, beta = scale[:, 0, 0], shift[:, 0, 0]
        return F.batch_norm(x, torch.zeros_like(gamma), torch.ones_like(gamma), gamma, beta, False, 0.1, 0.0)


class ScalarScaleAndShiftAsBatchNorm(Rule):
    """Scaling and then shifting an image by two numbers is an inference-mode batch norm of means 0 and variances 1."""

    source = "Ioffe and Szegedy 2015, algorithm 2; runtimes keep a batch norm in the layout of the convolutions around it"
    tried = True
    equality = wider
    requires = [a_channel]

    def pattern(x: Float[Tensor, "n c h w"], factor: float, term: float):
        return x * factor + term

    def replacement(x, factor, term):
        ones = torch.ones((x.shape[1],), dtype=x.dtype)
        return F.batch_norm(x, ones * 0, ones, ones * factor, ones * term, False, 0.1, 0.0)


class BatchNormOfBatchNorm(Rule):
    """Two inference-mode batch norms in a row are one."""

    source = "composition of affine maps"
    settles = True
    equality = wider
    requires = [running_statistics]

    def pattern(x: Image, mean: PerChannel, var: PerChannel, gamma: PerChannel, beta: PerChannel, eps: float,
                mean2: PerChannel, var2: PerChannel, gamma2: PerChannel, beta2: PerChannel, eps2: float, training: bool):  # fmt: skip
        y = F.batch_norm(x, mean, var, gamma, beta, training, 0.1, eps)
        return F.batch_norm(y, mean2, var2, gamma2, beta2, training, 0.1, eps2)

    def replacement(x, mean, var, gamma, beta, eps, mean2, var2, gamma2, beta2, eps2, training):
        scale = gamma2 * torch.rsqrt(var2 + eps2)
        return F.batch_norm(x, mean, var, gamma * scale, (beta - mean2) * scale + beta2, training, 0.1, eps)


class ScaleIntoBatchNorm(Rule):
    """Scaling the channels of a batch norm scales its γ and β, whichever statistics it uses."""

    source = "the learned scale and shift come last"
    settles = True
    equality = wider
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], gamma: PerChannel, beta: PerChannel, scale: Weight[Float[Tensor, "c 1 1"]], mean: PerChannel,
                var: PerChannel, eps: float):  # fmt: skip
        return F.batch_norm(x, mean, var, gamma, beta, False, 0.1, eps) * scale

    def replacement(x, gamma, beta, scale, mean, var, eps):
        factor = scale[:, 0, 0]
        return F.batch_norm(x, mean, var, gamma * factor, beta * factor, False, 0.1, eps)


class ShiftIntoBatchNorm(Rule):
    """Shifting the channels of a batch norm shifts its β."""

    source = "the learned scale and shift come last"
    settles = True
    equality = wider
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], gamma: PerChannel, beta: PerChannel, shift: Weight[Float[Tensor, "c 1 1"]], mean: PerChannel,
                var: PerChannel, eps: float):  # fmt: skip
        return F.batch_norm(x, mean, var, gamma, beta, False, 0.1, eps) + shift

    def replacement(x, gamma, beta, shift, mean, var, eps):
        return F.batch_norm(x, mean, var, gamma, beta + shift[:, 0, 0], False, 0.1, eps)


class InputShiftIntoBatchNorm(Rule):
    """Shifting the channels before an inference-mode batch norm moves its mean the other way."""

    source = "(x + t) − μ = x − (μ − t)"
    settles = True
    equality = wider

    def pattern(x: Float[Tensor, "n c h w"], shift: Weight[Float[Tensor, "c 1 1"]], gamma: PerChannel, beta: PerChannel, mean: PerChannel,
                var: PerChannel, eps: float):  # fmt: skip
        return F.batch_norm(x + shift, mean, var, gamma, beta, False, 0.1, eps)

    def replacement(x, shift, gamma, beta, mean, var, eps):
        return F.batch_norm(x, mean - shift[:, 0, 0], var, gamma, beta, False, 0.1, eps)


class FoldBatchNormIntoLinear(Rule):
    """An inference-mode batch norm after a linear layer is that layer with scaled rows and a shifted bias."""

    source = "Ioffe and Szegedy 2015, section 3.1"
    settles = True
    equality = wider
    requires = [running_statistics]

    def pattern(x: Float[Tensor, "n k"], weight: Weight[Float[Tensor, "c k"]], bias: PerChannel, mean: PerChannel, var: PerChannel,
                gamma: PerChannel, beta: PerChannel, eps: float, training: bool):  # fmt: skip
        return F.batch_norm(F.linear(x, weight, bias), mean, var, gamma, beta, training, 0.1, eps)

    def replacement(x, weight, bias, mean, var, gamma, beta, eps, training):
        scale = gamma * torch.rsqrt(var + eps)
        return F.linear(x, weight * scale[:, None], (bias - mean) * scale + beta)


class FoldBatchNormBeforeLinear(Rule):
    """An inference-mode batch norm before a linear layer is that layer with scaled columns and a shifted bias."""

    source = "composition of affine maps"
    settles = True
    equality = wider
    requires = [running_statistics]

    def pattern(x: Float[Tensor, "n c"], weight: Matrix, bias: PerOutput, mean: PerChannel, var: PerChannel, gamma: PerChannel,
                beta: PerChannel, eps: float, training: bool):  # fmt: skip
        return F.linear(F.batch_norm(x, mean, var, gamma, beta, training, 0.1, eps), weight, bias)

    def replacement(x, weight, bias, mean, var, gamma, beta, eps, training):
        scale = gamma * torch.rsqrt(var + eps)
        return F.linear(x, weight * scale, F.linear(beta - mean * scale, weight, bias))


class BatchStatisticsIgnoreShift(Rule):
    """A shift per channel before a batch norm by the batch's own statistics does nothing, when no running mean records it."""

    source = "Ioffe and Szegedy 2015, section 3.2"
    equality = wider
    trainable = True

    def pattern(
        x: Float[Tensor, "n c h w"], shift: Float[Tensor, "c 1 1"], gamma: Float[Tensor, "c"], beta: Float[Tensor, "c"], eps: float
    ):
        return F.batch_norm(x + shift, None, None, gamma, beta, True, 0.1, eps)

    def replacement(x, shift, gamma, beta, eps):
        return F.batch_norm(x, None, None, gamma, beta, True, 0.1, eps)


class LayerNormIgnoresShift(Rule):
    """A number added to all features of a row does not change its layer norm."""

    source = "Ba et al. 2016, table 1"
    equality = wider
    trainable = True

    def pattern(x: Rows, shift: Float[Tensor, "*s 1"], gamma: Float[Tensor, "c"], beta: Float[Tensor, "c"], eps: float):
        return F.layer_norm(x + shift, (x.shape[-1],), gamma, beta, eps)

    def replacement(x, shift, gamma, beta, eps):
        return F.layer_norm(x, (x.shape[-1],), gamma, beta, eps)


class LayerNormOfCentred(Rule):
    """A layer norm centres its rows itself: centring them before does nothing."""

    source = "Ba et al. 2016, table 1; Zhang and Sennrich 2019"
    equality = wider
    trainable = True

    def pattern(x: Rows, gamma: Float[Tensor, "c"], beta: Float[Tensor, "c"], eps: float):
        return F.layer_norm(x - x.mean(-1, keepdim=True), (x.shape[-1],), gamma, beta, eps)

    def replacement(x, gamma, beta, eps):
        return F.layer_norm(x, (x.shape[-1],), gamma, beta, eps)


class RmsNormOfCentredIsLayerNorm(Rule):
    """The root-mean-square norm of centred rows is the layer norm without a shift."""

    source = "Zhang and Sennrich 2019, section 3"
    equality = wider
    trainable = True
    bidirectional = True

    def pattern(x: Rows, gamma: Float[Tensor, "c"], eps: float):
        return F.rms_norm(x - x.mean(-1, keepdim=True), (x.shape[-1],), gamma, eps)

    def replacement(x, gamma, eps):
        return F.layer_norm(x, (x.shape[-1],), gamma, None, eps)


class LayerNormIntoLinear(Rule):
    """The scale and shift of a layer norm move into the linear layer behind it."""

    source = "Ashkboos et al. 2024 (SliceGPT), section 3.2"
    tried = True
    equality = wider
    trainable = True

    def pattern(x: Rows, gamma: PerChannel, beta: PerChannel, weight: Matrix, bias: PerOutput, eps: float):
        return F.linear(F.layer_norm(x, (x.shape[-1],), gamma, beta, eps), weight, bias)

    def replacement(x, gamma, beta, weight, bias, eps):
        normal = F.layer_norm(x, (x.shape[-1],), None, None, eps)
        return F.linear(normal, weight * gamma, F.linear(beta, weight, bias))


class RmsNormIntoLinear(Rule):
    """The scale of a root-mean-square norm moves into the linear layer behind it."""

    source = "Ashkboos et al. 2024 (SliceGPT), section 3.2"
    tried = True
    equality = wider
    trainable = True

    def pattern(x: Rows, gamma: PerChannel, weight: Matrix, bias: PerOutput, eps: float):
        return F.linear(F.rms_norm(x, (x.shape[-1],), gamma, eps), weight, bias)

    def replacement(x, gamma, weight, bias, eps):
        return F.linear(F.rms_norm(x, (x.shape[-1],), None, eps), weight * gamma, bias)


class GroupNormIntoPointwiseConvolution(Rule):
    """The scale and shift of a group norm move into the 1x1 convolution behind it."""

    source = "composition of affine maps; a 1x1 convolution without padding reads every channel at every position"
    tried = True
    equality = wider
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], groups: int, gamma: PerChannel, beta: PerChannel, weight: Weight[Float[Tensor, "o c 1 1"]],
                bias: PerOutput, eps: float):  # fmt: skip
        return F.conv2d(F.group_norm(x, groups, gamma, beta, eps), weight, bias)

    def replacement(x, groups, gamma, beta, weight, bias, eps):
        normal = F.group_norm(x, groups, None, None, eps)
        return F.conv2d(normal, weight * gamma[:, None, None], F.linear(beta, weight[:, :, 0, 0], bias))


class GroupNormOfSingleChannelsIsInstanceNorm(Rule):
    """A group norm whose groups are single channels is an instance norm."""

    source = "Wu and He 2018 (group normalization), section 3.1"
    equality = wider
    requires = [
        Requires("every channel is its own group", lambda groups, c: groups == c),
        Requires("there is a sample, as an instance norm demands", lambda n: n >= 1),
        Requires("there is more than one position, as an instance norm demands", lambda h, w: h * w >= 2),
    ]
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], groups: int, gamma: Float[Tensor, "c"], beta: Float[Tensor, "c"], eps: float):
        return F.group_norm(x, groups, gamma, beta, eps)

    def replacement(x, groups, gamma, beta, eps):
        return F.instance_norm(x, None, None, gamma, beta, True, 0.1, eps)


class GroupNormOfOneGroupIsLayerNorm(Rule):
    """A group norm of one group is a layer norm over channels and positions, then scaled and shifted per channel."""

    source = "Wu and He 2018 (group normalization), section 3.1"
    equality = wider
    requires = [Requires("there is one group", lambda groups: groups == 1)]
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], groups: int, gamma: Float[Tensor, "c"], beta: Float[Tensor, "c"], eps: float):
        return F.group_norm(x, groups, gamma, beta, eps)

    def replacement(x, groups, gamma, beta, eps):
        return F.layer_norm(x, x.shape[1:], None, None, eps) * gamma[:, None, None] + beta[:, None, None]


class RmsNormFromParts(Rule):
    """Rows times the reciprocal root of their mean square, times a scale, are the root-mean-square norm."""

    source = "Zhang and Sennrich 2019, equation 4; Touvron et al. 2023 (Llama)"
    tried = True
    equality = wider
    trainable = True

    def pattern(x: Rows, gamma: Float[Tensor, "c"], eps: float):
        return gamma * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))

    def replacement(x, gamma, eps):
        return F.rms_norm(x, (x.shape[-1],), gamma, eps)


class LayerNormFromParts(Rule):
    """Centred rows over the root of their mean square, scaled and shifted, are the layer norm."""

    source = "Ba et al. 2016, equation 4; ONNX Runtime, LayerNormFusion"
    tried = True
    equality = wider
    trainable = True

    def pattern(x: Rows, gamma: Float[Tensor, "c"], beta: Float[Tensor, "c"], eps: float):
        centred = x - x.mean(-1, keepdim=True)
        return centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + eps) * gamma + beta

    def replacement(x, gamma, beta, eps):
        return F.layer_norm(x, (x.shape[-1],), gamma, beta, eps)


class StandardisationIntoLinear(Rule):
    """Standardising the features, (x − mean) / deviation, folds into the linear layer behind it."""

    source = "composition of affine maps"
    settles = True
    equality = wider
    trainable = True

    def pattern(x: Rows, mean: PerChannel, deviation: PerChannel, weight: Matrix, bias: PerOutput):
        return F.linear((x - mean) / deviation, weight, bias)

    def replacement(x, mean, deviation, weight, bias):
        scaled = weight / deviation
        return F.linear(x, scaled, bias - torch.mv(scaled, mean))
