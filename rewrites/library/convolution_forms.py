"""Convolutions written as other operators, and other operators as convolutions.

A 1x1 convolution is a linear map at every position; a kernel as large as the input is a linear map of everything; a
convolution followed by a 1x1 convolution is one convolution, since linear maps compose; a depthwise 1x1 convolution is a
scale and a shift; groups are blocks on a diagonal; a transposed convolution of stride 1 is a convolution by flipped kernels.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Pair, Requires, Rule, Weight

Image = Float[Tensor, "n c h w"]
Pointwise = Weight[Float[Tensor, "o c 1 1"]]
PerOutput = Weight[Float[Tensor, "o"]]

recombined = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)
no_padding = Requires("the convolution does not pad, so that the inner bias reaches every tap", lambda padding: padding == (0, 0))


class PointwiseConvolutionAsLinear(Rule):
    """A 1x1 convolution is a linear layer over the channels at every position."""

    source = "Lin et al. 2014 (Network in Network), section 3.1"
    trainable = True

    def pattern(x: Image, weight: Pointwise, bias: PerOutput):
        return F.conv2d(x, weight, bias)

    def replacement(x, weight, bias):
        return F.linear(x.permute(0, 2, 3, 1), weight[:, :, 0, 0], bias).permute(0, 3, 1, 2)


class LinearOverChannelsAsConvolution(Rule):
    """A linear layer over the channels of an image, brought last and back, is a 1x1 convolution."""

    source = "Lin et al. 2014 (Network in Network), section 3.1"
    requires = [
        Requires("there are channels, as a convolution demands", lambda c, o: c >= 1 and o >= 1),
        Requires("there are positions, as a convolution demands", lambda h, w: h >= 1 and w >= 1),
    ]
    trainable = True

    def pattern(x: Image, weight: Weight[Float[Tensor, "o c"]], bias: PerOutput):
        return F.linear(x.permute(0, 2, 3, 1), weight, bias).permute(0, 3, 1, 2)

    def replacement(x, weight, bias):
        return F.conv2d(x, weight[:, :, None, None], bias)


class PointwiseConvolutionAsMatMul(Rule):
    """A 1x1 convolution without bias is the product of its weights with the image whose positions are one axis."""

    source = "Lin et al. 2014 (Network in Network), section 3.1"
    trainable = True

    def pattern(x: Image, weight: Pointwise):
        return F.conv2d(x, weight)

    def replacement(x, weight):
        n, _, h, w = x.shape
        return torch.matmul(weight[:, :, 0, 0], x.flatten(2)).reshape(n, weight.shape[0], h, w)


class StridedPointwiseConvolutionAsSlice(Rule):
    """A 1x1 convolution with a stride is that convolution of every stride-th row and column."""

    source = "definition of the stride"
    tried = True
    trainable = True

    def pattern(x: Image, weight: Pointwise, bias: PerOutput, stride: Pair):
        return F.conv2d(x, weight, bias, stride)

    def replacement(x, weight, bias, stride):
        return F.conv2d(x[:, :, :: stride[0], :: stride[1]], weight, bias)


class WholeImageConvolutionAsLinear(Rule):
    """A convolution whose kernels are as large as the input is a linear layer of the flattened input."""

    source = "Long et al. 2015 (fully convolutional networks), section 3.1"
    trainable = True

    def pattern(x: Image, weight: Weight[Float[Tensor, "o c h w"]], bias: PerOutput):
        return F.conv2d(x, weight, bias)

    def replacement(x, weight, bias):
        return F.linear(x.flatten(1), weight.flatten(1), bias)[:, :, None, None]


class LinearOfFlattenedImageAsConvolution(Rule):
    """A linear layer of a flattened image is a convolution whose kernels are as large as the image."""

    source = "Long et al. 2015 (fully convolutional networks), section 3.1"
    requires = [
        Requires("there are channels, as a convolution demands", lambda c, o: c >= 1 and o >= 1),
        Requires("there are positions, as a convolution demands", lambda h, w: h >= 1 and w >= 1),
    ]
    trainable = True

    def pattern(x: Image, weight: Weight[Float[Tensor, "o c*h*w"]], bias: PerOutput):
        return F.linear(x.flatten(1), weight, bias)

    def replacement(x, weight, bias):
        _, c, h, w = x.shape
        return F.conv2d(x, weight.reshape(weight.shape[0], c, h, w), bias).flatten(1)


class ConvolutionThenPointwiseIsOneConvolution(Rule):
    """A convolution followed by a 1x1 convolution is one convolution by the composed kernels."""

    source = "composition of linear maps; Ding et al. 2021 (Diverse Branch Block), transform III"
    tried = True
    equality = recombined
    trainable = True

    def pattern(x: Image, weight: Weight[Float[Tensor, "m c kh kw"]], bias: Weight[Float[Tensor, "m"]],
                outer: Weight[Float[Tensor, "o m 1 1"]], outer_bias: PerOutput, stride: Pair, padding: Pair, dilation: Pair):  # fmt: skip
        return F.conv2d(F.conv2d(x, weight, bias, stride, padding, dilation), outer, outer_bias)

    def replacement(x, weight, bias, outer, outer_bias, stride, padding, dilation):
        matrix = outer[:, :, 0, 0]
        m, c, kh, kw = weight.shape
        composed = torch.matmul(matrix, weight.reshape(m, c * kh * kw)).reshape(matrix.shape[0], c, kh, kw)
        return F.conv2d(x, composed, F.linear(bias, matrix, outer_bias), stride, padding, dilation)


class UnbiasedPointwiseThenConvolutionIsOneConvolution(Rule):
    """A 1x1 convolution without bias followed by a convolution is one convolution, even padded: it keeps zeros zero."""

    source = "composition of linear maps; Ding et al. 2021 (Diverse Branch Block), transform III"
    tried = True
    equality = recombined
    trainable = True

    def pattern(x: Image, inner: Weight[Float[Tensor, "m c 1 1"]], weight: Weight[Float[Tensor, "o m kh kw"]], bias: PerOutput,
                stride: Pair, padding: Pair, dilation: Pair):  # fmt: skip
        return F.conv2d(F.conv2d(x, inner), weight, bias, stride, padding, dilation)

    def replacement(x, inner, weight, bias, stride, padding, dilation):
        composed = torch.matmul(weight.permute(0, 2, 3, 1), inner[:, :, 0, 0]).permute(0, 3, 1, 2)
        return F.conv2d(x, composed, bias, stride, padding, dilation)


class PointwiseThenConvolutionIsOneConvolution(Rule):
    """A 1x1 convolution followed by an unpadded convolution is one convolution whose bias absorbs the inner bias."""

    source = "composition of linear maps; Ding et al. 2021 (Diverse Branch Block), transform III"
    tried = True
    equality = recombined
    requires = [no_padding]
    trainable = True

    def pattern(x: Image, inner: Weight[Float[Tensor, "m c 1 1"]], inner_bias: Weight[Float[Tensor, "m"]],
                weight: Weight[Float[Tensor, "o m kh kw"]], bias: PerOutput, stride: Pair, padding: Pair, dilation: Pair):  # fmt: skip
        return F.conv2d(F.conv2d(x, inner, inner_bias), weight, bias, stride, padding, dilation)

    def replacement(x, inner, inner_bias, weight, bias, stride, padding, dilation):
        composed = torch.matmul(weight.permute(0, 2, 3, 1), inner[:, :, 0, 0]).permute(0, 3, 1, 2)
        return F.conv2d(x, composed, bias + torch.mv(weight.sum((2, 3)), inner_bias), stride, padding, dilation)


class DepthwisePointwiseConvolutionAsScale(Rule):
    """A depthwise 1x1 convolution scales and shifts each channel."""

    source = "definition of groups"
    tried = True
    trainable = True

    def pattern(x: Image, weight: Weight[Float[Tensor, "c 1 1 1"]], bias: Weight[Float[Tensor, "c"]], groups: int):
        return F.conv2d(x, weight, bias, 1, 0, 1, groups)

    def replacement(x, weight, bias, groups):
        return x * weight[:, 0] + bias[:, None, None]


class GroupedConvolutionAsDense(Rule):
    """A grouped convolution is a dense convolution whose kernels are zero outside the blocks of the groups."""

    source = "definition of groups; Ding et al. 2021 (RepVGG), section 3.3"
    equality = recombined
    trainable = True

    def pattern(x: Float[Tensor, "n groups*c h w"], weight: Weight[Float[Tensor, "groups*o c kh kw"]],
                bias: Weight[Float[Tensor, "groups*o"]], stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups)

    def replacement(x, weight, bias, stride, padding, dilation, groups):
        out, c, kh, kw = weight.shape
        blocks = weight.reshape(groups, out // groups, 1, c, kh, kw)
        diagonal = torch.eye(groups, dtype=weight.dtype)[:, None, :, None, None, None]
        return F.conv2d(x, (blocks * diagonal).reshape(out, groups * c, kh, kw), bias, stride, padding, dilation)


class TwoGroupsAsTwoConvolutions(Rule):
    """A convolution in two groups is two convolutions of the halves of the channels, stacked."""

    source = "Krizhevsky et al. 2012, section 3.5"
    trainable = True

    def pattern(x: Float[Tensor, "n 2*c h w"], weight: Float[Tensor, "2*o c kh kw"], bias: Float[Tensor, "2*o"],
                stride: Pair, padding: Pair, dilation: Pair):  # fmt: skip
        return F.conv2d(x, weight, bias, stride, padding, dilation, 2)

    def replacement(x, weight, bias, stride, padding, dilation):
        c, o = weight.shape[1], weight.shape[0] // 2
        first = F.conv2d(x[:, :c], weight[:o], bias[:o], stride, padding, dilation)
        return torch.cat((first, F.conv2d(x[:, c:], weight[o:], bias[o:], stride, padding, dilation)), 1)


class ConvolutionOfScaledInput(Rule):
    """A scalar factor moves through a convolution without bias."""

    source = "linearity of convolution in its input"
    equality = recombined
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "n groups*c h w"], weight: Float[Tensor, "groups*o c kh kw"], factor: float,
                stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        return F.conv2d(x * factor, weight, None, stride, padding, dilation, groups)

    def replacement(x, weight, factor, stride, padding, dilation, groups):
        return F.conv2d(x, weight, None, stride, padding, dilation, groups) * factor


class ScalarFactorOfConvolution(Rule):
    """A scalar factor of a convolution scales its kernels and its bias."""

    source = "linearity of convolution in its kernels"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Float[Tensor, "n groups*c h w"], weight: Weight[Float[Tensor, "groups*o c kh kw"]],
                bias: Weight[Float[Tensor, "groups*o"]], factor: float, stride: Pair, padding: Pair, dilation: Pair,
                groups: int):  # fmt: skip
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups) * factor

    def replacement(x, weight, bias, factor, stride, padding, dilation, groups):
        return F.conv2d(x, weight * factor, bias * factor, stride, padding, dilation, groups)


class TransposedConvolutionAsConvolution(Rule):
    """A transposed convolution of stride 1 is a convolution by the flipped kernels with their axes exchanged."""

    source = "Dumoulin and Visin 2016, section 4.2"
    equality = recombined
    requires = [
        Requires("there are channels, as a convolution demands", lambda c, o: c >= 1 and o >= 1),
        Requires(
            "the padding leaves the convolution's own padding not negative",
            lambda padding, dilation, kh, kw: padding[0] <= dilation[0] * (kh - 1) and padding[1] <= dilation[1] * (kw - 1),
        ),
    ]
    trainable = True

    def pattern(x: Image, weight: Weight[Float[Tensor, "c o kh kw"]], bias: PerOutput, padding: Pair, dilation: Pair):
        return F.conv_transpose2d(x, weight, bias, 1, padding, 0, 1, dilation)

    def replacement(x, weight, bias, padding, dilation):
        kh, kw = weight.shape[2:]
        inner = (dilation[0] * (kh - 1) - padding[0], dilation[1] * (kw - 1) - padding[1])
        return F.conv2d(x, weight.transpose(0, 1).flip(2, 3), bias, 1, inner, dilation)


class Convolution1dAsConvolution2d(Rule):
    """A one-dimensional convolution is a two-dimensional one of an image of height 1."""

    source = "definition of the convolutions"
    trainable = True

    def pattern(x: Float[Tensor, "n groups*c l"], weight: Weight[Float[Tensor, "groups*o c k"]], bias: Weight[Float[Tensor, "groups*o"]],
                stride: int, padding: int, dilation: int, groups: int):  # fmt: skip
        return F.conv1d(x, weight, bias, stride, padding, dilation, groups)

    def replacement(x, weight, bias, stride, padding, dilation, groups):
        y = F.conv2d(x[:, :, None], weight[:, :, None], bias, (1, stride), (0, padding), (1, dilation), groups)
        return y[:, :, 0]


class PointwiseConvolution1dAsLinear(Rule):
    """A one-dimensional convolution by kernels of size 1 is a linear layer over the channels at every position."""

    source = "Lin et al. 2014 (Network in Network), section 3.1"
    trainable = True

    def pattern(x: Float[Tensor, "n c l"], weight: Weight[Float[Tensor, "o c 1"]], bias: PerOutput):
        return F.conv1d(x, weight, bias)

    def replacement(x, weight, bias):
        return F.linear(x.transpose(1, 2), weight[:, :, 0], bias).transpose(1, 2)


class PatchConvolutionAsLinear(Rule):
    """A convolution whose stride is its kernel size is a linear layer of each patch."""

    source = "Dosovitskiy et al. 2021 (ViT), section 3.1"
    requires = [Requires("the stride is the kernel size", lambda stride, p, q: stride == (p, q))]
    trainable = True

    def pattern(x: Float[Tensor, "n c h*p w*q"], weight: Weight[Float[Tensor, "o c p q"]], bias: PerOutput, stride: Pair):
        return F.conv2d(x, weight, bias, stride)

    def replacement(x, weight, bias, stride):
        n, c, height, width = x.shape
        p, q = weight.shape[2:]
        h, w = height // p, width // q
        patches = x.reshape(n, c, h, p, w, q).permute(0, 2, 4, 1, 3, 5).reshape(n, h, w, c * p * q)
        return F.linear(patches, weight.flatten(1), bias).permute(0, 3, 1, 2)


class AveragePoolAsConvolution(Rule):
    """An unpadded average pool is a depthwise convolution by constant kernels."""

    source = "Ding et al. 2021 (Diverse Branch Block), transform V"
    tried = True
    equality = recombined

    def pattern(x: Image, kernel: Pair, stride: Pair):
        return F.avg_pool2d(x, kernel, stride)

    def replacement(x, kernel, stride):
        c = x.shape[1]
        weight = torch.full((c, 1, kernel[0], kernel[1]), 1.0, dtype=x.dtype) / (kernel[0] * kernel[1])
        return F.conv2d(x, weight, None, stride, 0, 1, c)
