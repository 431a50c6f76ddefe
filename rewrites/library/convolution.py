"""Convolutions with what surrounds them folded into their weights.

A convolution is linear in its kernels and affine in its bias: with * for the convolution, per output channel
s·(x * w + b) + t = x * (s·w) + (s·b + t), and per input channel (s·x) * w = x * (s·w). A shift of the input is a shift of
the bias only where every tap reads the input: padding is of zeros, not of the shift.
n samples, groups·c input channels, groups·o output channels, h x w positions, kernels kh x kw.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Pair, Requires, Rule, Weight

Image = Float[Tensor, "n groups*c h w"]
Kernels = Weight[Float[Tensor, "groups*o c kh kw"]]
PerOutput = Weight[Float[Tensor, "groups*o"]]
PerInput = Weight[Float[Tensor, "groups*c"]]

recombined = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)
running_statistics = Requires("the batch norm uses running statistics", lambda training: training == False)  # noqa: E712
no_padding = Requires("the convolution does not pad, so that every tap reads the input", lambda padding: padding == (0, 0))


def per_input_channel(weight, values, groups):
    """The kernels [groups*o, c, kh, kw] times one number per input channel [groups*c]."""
    out, c, kh, kw = weight.shape
    blocks = weight.reshape(groups, out // groups, c, kh, kw) * values.reshape(groups, 1, c, 1, 1)
    return blocks.reshape(out, c, kh, kw)


def per_input_channel_sum(weight, values, groups):
    """For each output channel, the sum over its taps of kernel times one number per input channel [groups*c]."""
    out, c = weight.shape[:2]
    blocks = weight.sum((2, 3)).reshape(groups, out // groups, c) * values.reshape(groups, 1, c)
    return blocks.sum(-1).reshape(out)


class FoldBatchNormIntoConvolution(Rule):
    """An inference-mode batch norm after a convolution is that convolution with scaled kernels and a shifted bias."""

    source = "Ioffe and Szegedy 2015, section 3.1"
    settles = True
    equality = recombined
    requires = [running_statistics]

    def pattern(x: Image, weight: Kernels, bias: PerOutput, gamma: PerOutput, beta: PerOutput, mean: PerOutput, var: PerOutput,
                stride: Pair, padding: Pair, dilation: Pair, groups: int, eps: float, training: bool):  # fmt: skip
        y = F.conv2d(x, weight, bias, stride, padding, dilation, groups)
        return F.batch_norm(y, mean, var, gamma, beta, training, 0.1, eps)

    def replacement(x, weight, bias, gamma, beta, mean, var, stride, padding, dilation, groups, eps, training):
        scale = gamma * torch.rsqrt(var + eps)
        return F.conv2d(x, weight * scale[:, None, None, None], (bias - mean) * scale + beta, stride, padding, dilation, groups)


class FoldBatchNormIntoConvolution1d(Rule):
    """An inference-mode batch norm after a one-dimensional convolution is that convolution with scaled kernels and a shifted bias."""

    source = "Ioffe and Szegedy 2015, section 3.1"
    settles = True
    equality = recombined
    requires = [running_statistics]

    def pattern(x: Float[Tensor, "n groups*c l"], weight: Weight[Float[Tensor, "groups*o c k"]], bias: PerOutput, gamma: PerOutput,
                beta: PerOutput, mean: PerOutput, var: PerOutput, stride: int, padding: int, dilation: int, groups: int,
                eps: float, training: bool):  # fmt: skip
        y = F.conv1d(x, weight, bias, stride, padding, dilation, groups)
        return F.batch_norm(y, mean, var, gamma, beta, training, 0.1, eps)

    def replacement(x, weight, bias, gamma, beta, mean, var, stride, padding, dilation, groups, eps, training):
        scale = gamma * torch.rsqrt(var + eps)
        return F.conv1d(x, weight * scale[:, None, None], (bias - mean) * scale + beta, stride, padding, dilation, groups)


class FoldBatchNormIntoTransposedConvolution(Rule):
    """An inference-mode batch norm after a transposed convolution scales that convolution's kernels per output channel."""

    source = "Ioffe and Szegedy 2015, section 3.1, with the weight layout [in, out, kh, kw] of transposed convolutions"
    settles = True
    equality = recombined
    requires = [
        running_statistics,
        Requires("there is one group, so that the second axis of the weight is all output channels", lambda groups: groups == 1),
        Requires(
            "the output padding is smaller than the stride or the dilation, as PyTorch demands",
            lambda more, stride, dilation: all(more[i] < stride[i] or more[i] < dilation[i] for i in (0, 1)),
        ),
    ]

    def pattern(x: Float[Tensor, "n c h w"], weight: Weight[Float[Tensor, "c o kh kw"]], bias: Weight[Float[Tensor, "o"]],
                gamma: Weight[Float[Tensor, "o"]], beta: Weight[Float[Tensor, "o"]], mean: Weight[Float[Tensor, "o"]],
                var: Weight[Float[Tensor, "o"]], stride: Pair, padding: Pair, more: Pair, dilation: Pair, groups: int,
                eps: float, training: bool):  # fmt: skip
        y = F.conv_transpose2d(x, weight, bias, stride, padding, more, groups, dilation)
        return F.batch_norm(y, mean, var, gamma, beta, training, 0.1, eps)

    def replacement(x, weight, bias, gamma, beta, mean, var, stride, padding, more, dilation, groups, eps, training):
        scale = gamma * torch.rsqrt(var + eps)
        return F.conv_transpose2d(x, weight * scale[:, None, None], (bias - mean) * scale + beta, stride, padding, more, groups, dilation)


class FoldBatchNormBeforeConvolution(Rule):
    """An inference-mode batch norm before an unpadded convolution scales its kernels per input channel and shifts its bias."""

    source = "Markus 2018, 'Fusing batch normalization and convolution'; derived from linearity"
    settles = True
    equality = recombined
    requires = [running_statistics, no_padding]

    def pattern(x: Image, weight: Kernels, bias: PerOutput, gamma: PerInput, beta: PerInput, mean: PerInput, var: PerInput,
                stride: Pair, padding: Pair, dilation: Pair, groups: int, eps: float, training: bool):  # fmt: skip
        y = F.batch_norm(x, mean, var, gamma, beta, training, 0.1, eps)
        return F.conv2d(y, weight, bias, stride, padding, dilation, groups)

    def replacement(x, weight, bias, gamma, beta, mean, var, stride, padding, dilation, groups, eps, training):
        scale = gamma * torch.rsqrt(var + eps)
        moved = bias + per_input_channel_sum(weight, beta - mean * scale, groups)
        return F.conv2d(x, per_input_channel(weight, scale, groups), moved, stride, padding, dilation, groups)


class FoldOutputScaleIntoConvolution(Rule):
    """Scaling a convolution's output channels scales its kernels and its bias."""

    source = "linearity of convolution in its kernels"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Image, weight: Kernels, bias: PerOutput, scale: Weight[Float[Tensor, "groups*o 1 1"]],
                stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups) * scale

    def replacement(x, weight, bias, scale, stride, padding, dilation, groups):
        return F.conv2d(x, weight * scale[..., None], bias * scale[:, 0, 0], stride, padding, dilation, groups)


class FoldOutputShiftIntoConvolution(Rule):
    """Shifting a convolution's output channels shifts its bias."""

    source = "linearity of convolution in its bias"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Image, weight: Kernels, bias: PerOutput, shift: Weight[Float[Tensor, "groups*o 1 1"]],
                stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups) + shift

    def replacement(x, weight, bias, shift, stride, padding, dilation, groups):
        return F.conv2d(x, weight, bias + shift[:, 0, 0], stride, padding, dilation, groups)


class FoldInputScaleIntoConvolution(Rule):
    """Scaling a convolution's input channels scales its kernels per input channel, whatever the padding."""

    source = "linearity of convolution in its input; padding is of zeros, which scaling keeps"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Image, scale: Weight[Float[Tensor, "groups*c 1 1"]], weight: Kernels, bias: PerOutput,
                stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        return F.conv2d(x * scale, weight, bias, stride, padding, dilation, groups)

    def replacement(x, scale, weight, bias, stride, padding, dilation, groups):
        return F.conv2d(x, per_input_channel(weight, scale[:, 0, 0], groups), bias, stride, padding, dilation, groups)


class FoldInputShiftIntoConvolution(Rule):
    """Shifting the input channels of an unpadded convolution shifts its bias by the shift summed over the taps."""

    source = "linearity of convolution in its input"
    settles = True
    equality = recombined
    requires = [no_padding]
    trainable = True

    def pattern(x: Image, shift: Weight[Float[Tensor, "groups*c 1 1"]], weight: Kernels, bias: PerOutput,
                stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        return F.conv2d(x + shift, weight, bias, stride, padding, dilation, groups)

    def replacement(x, shift, weight, bias, stride, padding, dilation, groups):
        moved = bias + per_input_channel_sum(weight, shift[:, 0, 0], groups)
        return F.conv2d(x, weight, moved, stride, padding, dilation, groups)


class FoldInputStandardisationIntoConvolution(Rule):
    """Standardising the input channels, (x − mean) / deviation, folds into an unpadded convolution."""

    source = "linearity of convolution in its input; a padded convolution would pad with zeros after, not before, the shift"
    settles = True
    equality = recombined
    requires = [no_padding]

    def pattern(x: Image, mean: Weight[Float[Tensor, "groups*c 1 1"]], deviation: Weight[Float[Tensor, "groups*c 1 1"]],
                weight: Kernels, bias: PerOutput, stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        return F.conv2d((x - mean) / deviation, weight, bias, stride, padding, dilation, groups)

    def replacement(x, mean, deviation, weight, bias, stride, padding, dilation, groups):
        scale = 1 / deviation[:, 0, 0]
        moved = bias - per_input_channel_sum(weight, mean[:, 0, 0] * scale, groups)
        return F.conv2d(x, per_input_channel(weight, scale, groups), moved, stride, padding, dilation, groups)


class FoldPaddingIntoConvolution(Rule):
    """Padding the input with zeros, as much on opposite sides, is more padding of the convolution."""

    source = "ONNX Runtime, PadFusion"
    settles = True
    equality = recombined
    requires = [
        Requires("rows are added, not cropped", lambda rows: rows >= 0),
        Requires("columns are added, not cropped", lambda columns: columns >= 0),
    ]
    trainable = True

    def pattern(x: Image, weight: Kernels, bias: PerOutput, rows: int, columns: int,
                stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        padded = F.pad(x, (columns, columns, rows, rows))
        return F.conv2d(padded, weight, bias, stride, padding, dilation, groups)

    def replacement(x, weight, bias, rows, columns, stride, padding, dilation, groups):
        return F.conv2d(x, weight, bias, stride, (padding[0] + rows, padding[1] + columns), dilation, groups)


class EnlargeKernels(Rule):
    """A ring of zeros around the kernels, with as much more padding, changes nothing."""

    source = "Jia et al. 2019 (TASO), section 2; Ding et al. 2021 (RepVGG), section 3.3"
    equality = recombined
    trainable = True

    def pattern(x: Image, weight: Kernels, bias: PerOutput, stride: Pair, padding: Pair, dilation: Pair, groups: int):
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups)

    def replacement(x, weight, bias, stride, padding, dilation, groups):
        wider = (padding[0] + dilation[0], padding[1] + dilation[1])
        return F.conv2d(x, F.pad(weight, (1, 1, 1, 1)), bias, stride, wider, dilation, groups)


class EnlargeKernelHeight(Rule):
    """A row of zeros above and below the kernels, with as much more padding, changes nothing."""

    source = "Ding et al. 2019 (ACNet), section 3.2"
    equality = recombined
    trainable = True

    def pattern(x: Image, weight: Kernels, bias: PerOutput, stride: Pair, padding: Pair, dilation: Pair, groups: int):
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups)

    def replacement(x, weight, bias, stride, padding, dilation, groups):
        return F.conv2d(x, F.pad(weight, (0, 0, 1, 1)), bias, stride, (padding[0] + dilation[0], padding[1]), dilation, groups)


class EnlargeKernelWidth(Rule):
    """A column of zeros left and right of the kernels, with as much more padding, changes nothing."""

    source = "Ding et al. 2019 (ACNet), section 3.2"
    equality = recombined
    trainable = True

    def pattern(x: Image, weight: Kernels, bias: PerOutput, stride: Pair, padding: Pair, dilation: Pair, groups: int):
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups)

    def replacement(x, weight, bias, stride, padding, dilation, groups):
        return F.conv2d(x, F.pad(weight, (1, 1, 0, 0)), bias, stride, (padding[0], padding[1] + dilation[1]), dilation, groups)
