"""Several convolutions as one.

A convolution is linear in the input and in the kernels, x * v + x * w = x * (v + w) and x * w + y * w = (x + y) * w; its
output channels are independent of one another, so kernels stack to more output channels; and with one group its input
channels are summed over, so inputs and kernels stack along the input channels: x * v + y * w = [x y] * [v w].
With several groups, stacking output channels would deal them to the wrong groups.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Pair, Requires, Rule, Weight

Image = Float[Tensor, "n groups*c h w"]
Kernels = Float[Tensor, "groups*o c kh kw"]
PerOutput = Float[Tensor, "groups*o"]

recombined = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)
inputs_have_channels = Requires("neither input is without channels, which torch does not convolve", lambda c, d: c >= 1 and d >= 1)


class AddConvolutionsOfOneInput(Rule):
    """The sum of two convolutions of one input, with kernels of one size, is one convolution by the sum of the kernels."""

    source = "Ding et al. 2021 (RepVGG), section 3.3; TASO"
    tried = True
    equality = recombined
    trainable = True

    def pattern(x: Image, v: Kernels, a: PerOutput, w: Kernels, b: PerOutput, stride: Pair, padding: Pair, dilation: Pair, groups: int):
        left = F.conv2d(x, v, a, stride, padding, dilation, groups)
        return left + F.conv2d(x, w, b, stride, padding, dilation, groups)

    def replacement(x, v, a, w, b, stride, padding, dilation, groups):
        return F.conv2d(x, v + w, a + b, stride, padding, dilation, groups)


class AddConvolutionsOfOneKernel(Rule):
    """The sum of convolutions of two inputs by the same kernels is one convolution of the sum."""

    source = "linearity of convolution in its input; TASO"
    equality = recombined
    trainable = True

    def pattern(x: Image, y: Image, w: Kernels, a: PerOutput, b: PerOutput, stride: Pair, padding: Pair, dilation: Pair, groups: int):
        left = F.conv2d(x, w, a, stride, padding, dilation, groups)
        return left + F.conv2d(y, w, b, stride, padding, dilation, groups)

    def replacement(x, y, w, a, b, stride, padding, dilation, groups):
        return F.conv2d(x + y, w, a + b, stride, padding, dilation, groups)


class AddConvolutionsAsOneOverChannels(Rule):
    """The sum of convolutions of two inputs is one convolution of the inputs stacked along the channels."""

    source = "TASO; block form of a sum over input channels"
    equality = recombined
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], y: Float[Tensor, "n d h w"], v: Float[Tensor, "o c kh kw"], w: Float[Tensor, "o d kh kw"],
                a: Float[Tensor, "o"], b: Float[Tensor, "o"], stride: Pair, padding: Pair, dilation: Pair):  # fmt: skip
        left = F.conv2d(x, v, a, stride, padding, dilation)
        return left + F.conv2d(y, w, b, stride, padding, dilation)

    def replacement(x, y, v, w, a, b, stride, padding, dilation):
        return F.conv2d(torch.cat((x, y), 1), torch.cat((v, w), 1), a + b, stride, padding, dilation)


class ConvolutionDistributesOverKernels(Rule):
    """A convolution by a sum of kernels is the sum of the convolutions by each."""

    source = "linearity of convolution in its kernels; TASO"
    equality = recombined
    trainable = True
    bidirectional = True

    def pattern(x: Image, v: Kernels, w: Kernels, stride: Pair, padding: Pair, dilation: Pair, groups: int):
        left = F.conv2d(x, v, None, stride, padding, dilation, groups)
        return left + F.conv2d(x, w, None, stride, padding, dilation, groups)

    def replacement(x, v, w, stride, padding, dilation, groups):
        return F.conv2d(x, v + w, None, stride, padding, dilation, groups)


class ConvolutionDistributesOverInputs(Rule):
    """A convolution of a sum is the sum of the convolutions of each term."""

    source = "linearity of convolution in its input; TASO"
    equality = recombined
    trainable = True
    bidirectional = True

    def pattern(x: Image, y: Image, w: Kernels, stride: Pair, padding: Pair, dilation: Pair, groups: int):
        left = F.conv2d(x, w, None, stride, padding, dilation, groups)
        return left + F.conv2d(y, w, None, stride, padding, dilation, groups)

    def replacement(x, y, w, stride, padding, dilation, groups):
        return F.conv2d(x + y, w, None, stride, padding, dilation, groups)


class ConvolutionDistributesOverChannels(Rule):
    """A convolution of stacked inputs by stacked kernels is the sum of the convolutions of the parts."""

    source = "block form of a sum over input channels; TASO"
    equality = recombined
    trainable = True
    bidirectional = True
    requires_reversed = [inputs_have_channels]

    def pattern(x: Float[Tensor, "n c h w"], y: Float[Tensor, "n d h w"], v: Float[Tensor, "o c kh kw"], w: Float[Tensor, "o d kh kw"],
                stride: Pair, padding: Pair, dilation: Pair):  # fmt: skip
        left = F.conv2d(x, v, None, stride, padding, dilation)
        return left + F.conv2d(y, w, None, stride, padding, dilation)

    def replacement(x, y, v, w, stride, padding, dilation):
        return F.conv2d(torch.cat((x, y), 1), torch.cat((v, w), 1), None, stride, padding, dilation)


class FirstChannelsOfConvolutionExchange(Rule):
    """The first two of three parts of the channels may change places, if those of the kernels do."""

    source = "sums over input channels may be taken in any order; TASO"
    equality = recombined
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], y: Float[Tensor, "n d h w"], z: Float[Tensor, "n e h w"], u: Float[Tensor, "o c kh kw"],
                v: Float[Tensor, "o d kh kw"], w: Float[Tensor, "o e kh kw"], stride: Pair, padding: Pair, dilation: Pair):  # fmt: skip
        inputs = torch.cat((x, torch.cat((y, z), 1)), 1)
        return F.conv2d(inputs, torch.cat((u, torch.cat((v, w), 1)), 1), None, stride, padding, dilation)

    def replacement(x, y, z, u, v, w, stride, padding, dilation):
        inputs = torch.cat((y, torch.cat((x, z), 1)), 1)
        return F.conv2d(inputs, torch.cat((v, torch.cat((u, w), 1)), 1), None, stride, padding, dilation)


class LastChannelsOfConvolutionExchange(Rule):
    """The last two of three parts of the channels may change places, if those of the kernels do."""

    source = "sums over input channels may be taken in any order; TASO"
    equality = recombined
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], y: Float[Tensor, "n d h w"], z: Float[Tensor, "n e h w"], u: Float[Tensor, "o c kh kw"],
                v: Float[Tensor, "o d kh kw"], w: Float[Tensor, "o e kh kw"], stride: Pair, padding: Pair, dilation: Pair):  # fmt: skip
        inputs = torch.cat((x, torch.cat((y, z), 1)), 1)
        return F.conv2d(inputs, torch.cat((u, torch.cat((v, w), 1)), 1), None, stride, padding, dilation)

    def replacement(x, y, z, u, v, w, stride, padding, dilation):
        inputs = torch.cat((x, torch.cat((z, y), 1)), 1)
        return F.conv2d(inputs, torch.cat((u, torch.cat((w, v), 1)), 1), None, stride, padding, dilation)


class ConvolutionOfConcatenatedChannels(Rule):
    """A convolution of inputs stacked along the channels is the sum of convolutions by the two parts of the kernels."""

    source = "TASO; block form of a sum over input channels"
    tried = True
    equality = recombined
    requires = [inputs_have_channels]
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], y: Float[Tensor, "n d h w"], w: Float[Tensor, "o c+d kh kw"], b: Float[Tensor, "o"],
                stride: Pair, padding: Pair, dilation: Pair):  # fmt: skip
        return F.conv2d(torch.cat((x, y), 1), w, b, stride, padding, dilation)

    def replacement(x, y, w, b, stride, padding, dilation):
        c = x.shape[1]
        left = F.conv2d(x, w[:, :c], b, stride, padding, dilation)
        return left + F.conv2d(y, w[:, c:], None, stride, padding, dilation)


class ConcatenateConvolutions(Rule):
    """Convolutions of one input stacked along the channels are one convolution by the stacked kernels."""

    source = "Jia et al. 2019 (TASO), figure 2"
    tried = True
    trainable = True
    bidirectional = True
    requires_reversed = [Requires("both convolutions have output channels, as torch demands", lambda o, p: o >= 1 and p >= 1)]

    def pattern(x: Float[Tensor, "n c h w"], v: Float[Tensor, "o c kh kw"], w: Float[Tensor, "p c kh kw"], a: Float[Tensor, "o"],
                b: Float[Tensor, "p"], stride: Pair, padding: Pair, dilation: Pair):  # fmt: skip
        left = F.conv2d(x, v, a, stride, padding, dilation)
        return torch.cat((left, F.conv2d(x, w, b, stride, padding, dilation)), 1)

    def replacement(x, v, w, a, b, stride, padding, dilation):
        return F.conv2d(x, torch.cat((v, w)), torch.cat((a, b)), stride, padding, dilation)


class MergeParallelConvolutions(Rule):
    """Two convolutions of one input, with kernels of one size, are the parts of one convolution by the stacked kernels."""

    source = "Jia et al. 2019 (TASO), figure 2"
    tried = True
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], v: Float[Tensor, "o c kh kw"], w: Float[Tensor, "p c kh kw"], a: Float[Tensor, "o"],
                b: Float[Tensor, "p"], stride: Pair, padding: Pair, dilation: Pair):  # fmt: skip
        left = F.conv2d(x, v, a, stride, padding, dilation)
        return left, F.conv2d(x, w, b, stride, padding, dilation)

    def replacement(x, v, w, a, b, stride, padding, dilation):
        both = F.conv2d(x, torch.cat((v, w)), torch.cat((a, b)), stride, padding, dilation)
        return torch.split(both, (v.shape[0], w.shape[0]), 1)


class ConcatenateConvolutionsOfSamples(Rule):
    """Convolutions by the same kernels, stacked along the samples, are one convolution of the stacked samples."""

    source = "TASO; convolutions treat samples independently"
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "n groups*c h w"], y: Float[Tensor, "m groups*c h w"], w: Kernels, b: PerOutput,
                stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        left = F.conv2d(x, w, b, stride, padding, dilation, groups)
        return torch.cat((left, F.conv2d(y, w, b, stride, padding, dilation, groups)))

    def replacement(x, y, w, b, stride, padding, dilation, groups):
        return F.conv2d(torch.cat((x, y)), w, b, stride, padding, dilation, groups)


class MergeConvolutionsOfSamples(Rule):
    """Two convolutions by the same kernels are the parts of one convolution of the stacked samples."""

    source = "TASO; convolutions treat samples independently"
    trainable = True

    def pattern(x: Float[Tensor, "n groups*c h w"], y: Float[Tensor, "m groups*c h w"], w: Kernels, b: PerOutput,
                stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        left = F.conv2d(x, w, b, stride, padding, dilation, groups)
        return left, F.conv2d(y, w, b, stride, padding, dilation, groups)

    def replacement(x, y, w, b, stride, padding, dilation, groups):
        both = F.conv2d(torch.cat((x, y)), w, b, stride, padding, dilation, groups)
        return torch.split(both, (x.shape[0], y.shape[0]), 0)


class GroupParallelConvolutions(Rule):
    """Convolutions of two inputs of equal size, stacked along the channels, are one convolution with twice the groups."""

    source = "Krizhevsky et al. 2012, section 3.5; TASO"
    trainable = True

    def pattern(x: Image, y: Image, v: Kernels, w: Kernels, a: PerOutput, b: PerOutput, stride: Pair, padding: Pair,
                dilation: Pair, groups: int):  # fmt: skip
        left = F.conv2d(x, v, a, stride, padding, dilation, groups)
        return torch.cat((left, F.conv2d(y, w, b, stride, padding, dilation, groups)), 1)

    def replacement(x, y, v, w, a, b, stride, padding, dilation, groups):
        return F.conv2d(torch.cat((x, y), 1), torch.cat((v, w)), torch.cat((a, b)), stride, padding, dilation, 2 * groups)


class SliceOfConvolution(Rule):
    """The first output channels of a convolution are the convolution by the first kernels."""

    source = "output channels of a convolution are independent"
    requires = [
        Requires("at least one channel is kept", lambda kept: kept >= 1),
    ]
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], w: Weight[Float[Tensor, "o c kh kw"]], b: Weight[Float[Tensor, "o"]], kept: int,
                stride: Pair, padding: Pair, dilation: Pair):  # fmt: skip
        return F.conv2d(x, w, b, stride, padding, dilation)[:, :kept]

    def replacement(x, w, b, kept, stride, padding, dilation):
        return F.conv2d(x, w[:kept], b[:kept], stride, padding, dilation)


class BatchNormIntoConvolutionBesideIt(Rule):
    """A batch norm of a convolution's input, added to a convolution that keeps the shape, changes its middle tap and its bias."""

    source = "Ding et al. 2021 (RepVGG), section 3.3"
    equality = recombined
    requires = [
        Requires("the batch norm uses running statistics", lambda training: training == False),  # noqa: E712
        Requires(
            "the padding keeps the size, so that the middle tap reads the position itself",
            lambda padding, dilation, p, q: padding[0] == p * dilation[0] and padding[1] == q * dilation[1],
        ),
    ]

    def pattern(x: Float[Tensor, "n c h w"], w: Weight[Float[Tensor, "c c 2*p+1 2*q+1"]], b: Weight[Float[Tensor, "c"]],
                gamma: Weight[Float[Tensor, "c"]], beta: Weight[Float[Tensor, "c"]], mean: Weight[Float[Tensor, "c"]],
                var: Weight[Float[Tensor, "c"]], padding: Pair, dilation: Pair, eps: float, training: bool):  # fmt: skip
        y = F.conv2d(x, w, b, 1, padding, dilation)
        return y + F.batch_norm(x, mean, var, gamma, beta, training, 0.1, eps)

    def replacement(x, w, b, gamma, beta, mean, var, padding, dilation, eps, training):
        scale = gamma * torch.rsqrt(var + eps)
        p, q = w.shape[2] // 2, w.shape[3] // 2
        middle = F.pad((torch.eye(x.shape[1], dtype=x.dtype) * scale[:, None])[:, :, None, None], (q, q, p, p))
        return F.conv2d(x, w + middle, b + beta - mean * scale, 1, padding, dilation)


class IdentityBesideConvolution(Rule):
    """An identity branch beside a convolution that keeps the shape is a 1x1 convolution by the unit matrix."""

    source = "Ding et al. 2021 (RepVGG), section 3.3"
    equality = recombined
    requires = [Requires("the image is not empty", lambda h, w: h >= 1 and w >= 1)]

    def pattern(x: Float[Tensor, "n c h w"], weight: Weight[Float[Tensor, "c c kh kw"]], bias: Weight[Float[Tensor, "c"]],
                padding: Pair, dilation: Pair):  # fmt: skip
        return F.conv2d(x, weight, bias, 1, padding, dilation) + x

    def replacement(x, weight, bias, padding, dilation):
        unit = torch.eye(x.shape[1], dtype=x.dtype)[:, :, None, None]
        return F.conv2d(x, weight, bias, 1, padding, dilation) + F.conv2d(x, unit)
