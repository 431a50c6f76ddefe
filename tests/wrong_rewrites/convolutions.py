"""Convolutions, pooling and padding: what was folded or merged without its condition."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule
from tests.wrong_rewrites.registry import mended, shipped

WIDER = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)


@shipped("onnx-optimizer-108", "value")
class PadIntoAveragePool(Rule):
    """Padding before an average pool is the pool's own padding."""

    source = "onnx/optimizer issue 108"

    def pattern(x: Float[Tensor, "n c h w"]):
        return F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 2)

    def replacement(x):
        return F.avg_pool2d(x, 2, padding=1, count_include_pad=False)


@mended("onnx-optimizer-108")
class PadIntoCountingAveragePool(Rule):
    """Padding before an average pool is the pool's own padding, when padding counts in the divisor."""

    source = "onnx/optimizer issue 108, with count_include_pad"

    def pattern(x: Float[Tensor, "n c h w"]):
        return F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 2)

    def replacement(x):
        return F.avg_pool2d(x, 2, padding=1, count_include_pad=True)


@shipped("openvino-4216", "value")
class PadOfAnyValueIntoConvolution(Rule):
    """Padding before a convolution is the convolution's own padding, whatever the value."""

    source = "openvinotoolkit/openvino issue 4216"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c h w"], weight: Float[Tensor, "o c kh kw"], value: float):
        return F.conv2d(F.pad(x, (1, 1, 1, 1), value=value), weight)

    def replacement(x, weight, value):
        return F.conv2d(x, weight, padding=1)


@mended("openvino-4216")
class PadOfZerosIntoConvolution(Rule):
    """Padding with zeros before a convolution is the convolution's own padding."""

    source = "openvinotoolkit/openvino issue 4216, with the value 0"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c h w"], weight: Float[Tensor, "o c kh kw"]):
        return F.conv2d(F.pad(x, (1, 1, 1, 1), value=0.0), weight)

    def replacement(x, weight):
        return F.conv2d(x, weight, padding=1)


@shipped("onnxscript-2841", "value")
class CropCancelsPadding(Rule):
    """Cropping the first row and column before a convolution that pads them is no padding at all."""

    source = "microsoft/onnxscript issue 2841"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c h w"], weight: Float[Tensor, "o c kh kw"]):
        return F.conv2d(F.pad(F.pad(x, (-1, 0, -1, 0)), (1, 0, 1, 0)), weight)

    def replacement(x, weight):
        return F.conv2d(x, weight)


@mended("onnxscript-2841")
class PadsAddUp(Rule):
    """Padding that is not negative before a padded convolution adds to its padding."""

    source = "microsoft/onnxscript issue 2841, with pad amounts of at least 0"
    equality = WIDER
    requires = [Requires("the pad is not negative", lambda p: p >= 0), Requires("the padding is not negative", lambda q: q >= 0)]

    def pattern(x: Float[Tensor, "n c h w"], weight: Float[Tensor, "o c kh kw"], p: int, q: int):
        return F.conv2d(F.pad(x, (p, p, p, p)), weight, padding=(q, q))

    def replacement(x, weight, p, q):
        return F.conv2d(x, weight, padding=(p + q, p + q))


@shipped("onnxscript-2879", "error", "shape")
class ScaleTransposedConvolutionAlongAxisOne(Rule):
    """A channel scale after a transposed convolution goes along axis 1 of its weight, whatever the groups."""

    source = "microsoft/onnxscript issue 2879"
    equality = WIDER
    requires = [Requires("there is a group", lambda groups: groups >= 1)]

    def pattern(
        x: Float[Tensor, "n groups*c h w"], weight: Float[Tensor, "groups*c o kh kw"], scale: Float[Tensor, "groups*o"], groups: int
    ):
        return F.conv_transpose2d(x, weight, groups=groups) * scale[None, :, None, None]

    def replacement(x, weight, scale, groups):
        return F.conv_transpose2d(x, weight * scale.reshape(1, -1, 1, 1), groups=groups)


@mended("onnxscript-2879")
class ScaleUngroupedTransposedConvolution(Rule):
    """A channel scale after a transposed convolution of one group goes along axis 1 of its weight."""

    source = "microsoft/onnxscript issue 2879, with groups = 1"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c h w"], weight: Float[Tensor, "c o kh kw"], scale: Float[Tensor, "o"]):
        return F.conv_transpose2d(x, weight) * scale[None, :, None, None]

    def replacement(x, weight, scale):
        return F.conv_transpose2d(x, weight * scale[None, :, None, None])


@shipped("openvino-25876", "error", "shape")
class FoldBroadcastingScaleIntoConvolution(Rule):
    """A channel scale before a convolution goes into its weight, also where it broadcasts the input."""

    source = "openvinotoolkit/openvino issue 25876"
    equality = WIDER

    def pattern(x: Float[Tensor, "n 1 h w"], scale: Float[Tensor, "1 c 1 1"], weight: Float[Tensor, "o c kh kw"]):
        return F.conv2d(x * scale, weight)

    def replacement(x, scale, weight):
        return F.conv2d(x, weight * scale)


@mended("openvino-25876")
class FoldChannelScaleIntoConvolution(Rule):
    """A scale per input channel before a convolution goes into its weight."""

    source = "openvinotoolkit/openvino issue 25876, with as many channels as scales"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c h w"], scale: Float[Tensor, "1 c 1 1"], weight: Float[Tensor, "o c kh kw"]):
        return F.conv2d(x * scale, weight)

    def replacement(x, scale, weight):
        return F.conv2d(x, weight * scale)


@shipped("openvino-6054", "error", "shape", "value")
class MergeGroupsAlongTheDataAxis(Rule):
    """Convolutions by weights in HWIO layout merge into a grouped one by concatenating the weights along axis 1."""

    source = "openvinotoolkit/openvino issue 6054"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c h w"], y: Float[Tensor, "n c h w"], a: Float[Tensor, "kh kw c o"], b: Float[Tensor, "kh kw c o"]):
        return torch.cat([F.conv2d(x, a.permute(3, 2, 0, 1)), F.conv2d(y, b.permute(3, 2, 0, 1))], 1)

    def replacement(x, y, a, b):
        return F.conv2d(torch.cat([x, y], 1), torch.cat([a, b], 1).permute(3, 2, 0, 1), groups=2)


@mended("openvino-6054")
class MergeGroupsAlongTheOutputAxis(Rule):
    """Convolutions by weights in HWIO layout merge into a grouped one by concatenating the weights along axis 3."""

    source = "openvinotoolkit/openvino issue 6054, along the output channels of the weights' layout"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c h w"], y: Float[Tensor, "n c h w"], a: Float[Tensor, "kh kw c o"], b: Float[Tensor, "kh kw c o"]):
        return torch.cat([F.conv2d(x, a.permute(3, 2, 0, 1)), F.conv2d(y, b.permute(3, 2, 0, 1))], 1)

    def replacement(x, y, a, b):
        return F.conv2d(torch.cat([x, y], 1), torch.cat([a, b], 3).permute(3, 2, 0, 1), groups=2)


@shipped("onnxslim-268", "shape")
class PadIntoSamePadding(Rule):
    """Padding before a convolution that keeps sizes is the convolution's only padding."""

    source = "inisis/OnnxSlim issue 268"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c h w"], weight: Float[Tensor, "o c 2 2"]):
        return F.conv2d(F.pad(x, (0, 1, 0, 1)), weight, padding="same")

    def replacement(x, weight):
        return F.conv2d(F.pad(x, (0, 1, 0, 1)), weight)


@mended("onnxslim-268")
class PadIntoValidPadding(Rule):
    """Padding before a convolution that pads nothing is the convolution's padding."""

    source = "inisis/OnnxSlim issue 268, with auto_pad VALID"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c h w"], weight: Float[Tensor, "o c 2 2"]):
        return F.conv2d(F.pad(x, (1, 1, 1, 1)), weight, padding="valid")

    def replacement(x, weight):
        return F.conv2d(x, weight, padding=1)


@shipped("taso-dropped-addend", "value")
class DropAddend(Rule):
    """A convolution plus another tensor is the convolution."""

    source = "jiazhihao/TASO, a built-in substitution that was later commented out"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c h w"], weight: Float[Tensor, "o c kh kw"], y: Float[Tensor, "1"]):
        return F.conv2d(x, weight) + y

    def replacement(x, weight, y):
        return F.conv2d(x, weight)


@mended("taso-dropped-addend")
class AddendAsBias(Rule):
    """A convolution plus one number is the convolution with that number as its bias."""

    source = "jiazhihao/TASO, with the addend on both sides"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c h w"], weight: Float[Tensor, "o c kh kw"], y: Float[Tensor, "1"]):
        return F.conv2d(x, weight) + y

    def replacement(x, weight, y):
        return F.conv2d(x, weight, y.expand(weight.shape[0]))


@shipped("taso-conv-bn", "value")
class DropBatchNorm(Rule):
    """An inference-mode batch norm after a convolution can be left out."""

    source = "jiazhihao/TASO, the first form of its convolution and batch norm substitution"
    equality = WIDER

    def pattern(
        x: Float[Tensor, "n c h w"],
        weight: Float[Tensor, "o c kh kw"],
        gamma: Float[Tensor, "o"],
        beta: Float[Tensor, "o"],
        mean: Float[Tensor, "o"],
        var: Float[Tensor, "o"],
    ):
        return F.batch_norm(F.conv2d(x, weight), mean, var, gamma, beta, False, 0.1, 1e-5)

    def replacement(x, weight, gamma, beta, mean, var):
        return F.conv2d(x, weight)


@mended("taso-conv-bn")
class FoldBatchNorm(Rule):
    """An inference-mode batch norm after a convolution goes into its weight and bias."""

    source = "jiazhihao/TASO, with weight and bias adjusted"
    equality = WIDER

    def pattern(
        x: Float[Tensor, "n c h w"],
        weight: Float[Tensor, "o c kh kw"],
        gamma: Float[Tensor, "o"],
        beta: Float[Tensor, "o"],
        mean: Float[Tensor, "o"],
        var: Float[Tensor, "o"],
    ):
        return F.batch_norm(F.conv2d(x, weight), mean, var, gamma, beta, False, 0.1, 1e-5)

    def replacement(x, weight, gamma, beta, mean, var):
        scale = gamma * torch.rsqrt(var + 1e-5)
        return F.conv2d(x, weight * scale[:, None, None, None], beta - mean * scale)


@shipped("pytorch-52758", "value", "mutation")
class FoldTrainingBatchNorm(Rule):
    """A batch norm after a product goes into it by its running statistics, in training as well."""

    source = "pytorch/pytorch issue 52758"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c"], weight: Float[Tensor, "c o"], mean: Float[Tensor, "o"], var: Float[Tensor, "o"], training: bool):
        return F.batch_norm(x @ weight, mean, var, None, None, training, 0.1, 1e-5)

    def replacement(x, weight, mean, var, training):
        scale = torch.rsqrt(var + 1e-5)
        return x @ (weight * scale) - mean * scale


@mended("pytorch-52758")
class FoldEvaluationBatchNorm(Rule):
    """A batch norm in evaluation mode after a product goes into it by its running statistics."""

    source = "pytorch/pytorch issue 52758, by the layer's own mode"
    equality = WIDER
    requires = [Requires("the layer is in evaluation mode", lambda training: training == False)]  # noqa: E712

    def pattern(x: Float[Tensor, "n c"], weight: Float[Tensor, "c o"], mean: Float[Tensor, "o"], var: Float[Tensor, "o"], training: bool):
        return F.batch_norm(x @ weight, mean, var, None, None, training, 0.1, 1e-5)

    def replacement(x, weight, mean, var, training):
        scale = torch.rsqrt(var + 1e-5)
        return x @ (weight * scale) - mean * scale


@shipped("xla-48715", "value")
class CropIntoWindowPadding(Rule):
    """A crop before a padded window reduction cancels against the window's padding."""

    source = "openxla/xla issue 48715"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c w"]):
        return F.avg_pool1d(F.pad(F.pad(x, (-1, 0)), (1, 0)), 2, 1)

    def replacement(x):
        return F.avg_pool1d(x, 2, 1)


@mended("xla-48715")
class PadIntoWindowPadding(Rule):
    """Two paddings before a window reduction are one of both amounts."""

    source = "openxla/xla issue 48715, with amounts of at least 0"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c w"]):
        return F.avg_pool1d(F.pad(F.pad(x, (1, 0)), (1, 0)), 2, 1)

    def replacement(x):
        return F.avg_pool1d(F.pad(x, (2, 0)), 2, 1)
