"""Convolutions of images enlarged by repeating every position, as after nearest-neighbour upsampling.

What a convolution of stride 1 reads of an image whose rows and columns are each repeated s times lies in few positions of the small
image: position i reaches the outputs i·s − (k − 1) + p to i·s + s − 1 + p, each by the sum of the taps that fall into its repeats.
That is a transposed convolution of stride s by the kernels, turned around and summed over a window of s: it never makes the large
image, and multiplies (k + s − 1)² / s² times per output and channel instead of k².
n samples, c channels of the small image, o output channels, kernels kh x kw.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Pair, Requires, Rule, Weight

Small = Float[Tensor, "n c h w"]
PerOutput = Weight[Float[Tensor, "o"]]
Times = Literal[2, 4, 8]

recombined = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)
within_the_kernel = Requires(
    "the padding is smaller than the kernel", lambda padding, kh, kw: padding[0] <= kh - 1 and padding[1] <= kw - 1
)

has_positions = Requires("the small image has positions, or PyTorch does not spread it", lambda h, w: h >= 1 and w >= 1)


def enlarged(x, times):
    """Every row and every column of x, repeated."""
    return x.repeat_interleave(times, 2).repeat_interleave(times, 3)


def summed(weight, times):
    """The kernels [o, c, kh, kw] turned around, summed over a window of `times`, as [c, o, kh + times − 1, kw + times − 1]."""
    turned = weight.flip((2, 3))
    rows = F.pad(turned, (0, 0, 0, times - 1))
    for more in range(1, times):
        rows = rows + F.pad(turned, (0, 0, more, times - 1 - more))
    both = F.pad(rows, (0, times - 1, 0, 0))
    for more in range(1, times):
        both = both + F.pad(rows, (more, times - 1 - more, 0, 0))
    return both.permute(1, 0, 2, 3)


def transposed(x, weight, bias, padding, times):
    """The transposed convolution that the convolution of the enlarged image is."""
    kh, kw = weight.shape[2:]
    return F.conv_transpose2d(x, summed(weight, times), bias, (times, times), (kh - 1 - padding[0], kw - 1 - padding[1]))


class ConvolutionOfEnlarged(Rule):
    """A convolution of an image with every position repeated is a transposed convolution of the small image."""

    source = "Dumoulin and Visin 2016, section 4; Odena et al. 2016 (resize convolutions)"
    tried = True
    equality = recombined
    requires = [within_the_kernel, has_positions]
    trainable = True

    def pattern(x: Small, weight: Weight[Float[Tensor, "o c kh kw"]], bias: PerOutput, padding: Pair, times: Times):
        return F.conv2d(enlarged(x, times), weight, bias, 1, padding)

    def replacement(x, weight, bias, padding, times):
        return transposed(x, weight, bias, padding, times)


class ConvolutionOfEnlargedBesideOne(Rule):
    """In a convolution of two images joined along the channels, an enlarged first one is a transposed convolution beside the other."""

    source = "linearity of convolution in its input; Odena et al. 2016 (resize convolutions); Lin et al. 2017 (feature pyramids)"
    tried = True
    equality = recombined
    requires = [within_the_kernel, has_positions, Requires("both images have channels", lambda c, d: c >= 1 and d >= 1)]
    trainable = True

    def pattern(x: Small, y: Float[Tensor, "n d yh yw"], weight: Weight[Float[Tensor, "o c+d kh kw"]], bias: PerOutput,
                padding: Pair, times: Times):  # fmt: skip
        return F.conv2d(torch.cat([enlarged(x, times), y], 1), weight, bias, 1, padding)

    def replacement(x, y, weight, bias, padding, times):
        c = x.shape[1]
        first = transposed(x, torch.narrow(weight, 1, 0, c), None, padding, times)
        return first + F.conv2d(y, torch.narrow(weight, 1, c, y.shape[1]), bias, 1, padding)


class ConvolutionOfEnlargedBesideTwo(Rule):
    """In a convolution of three images joined along the channels, an enlarged first one is a transposed convolution beside the others."""

    source = "linearity of convolution in its input; Odena et al. 2016 (resize convolutions); Lin et al. 2017 (feature pyramids)"
    tried = True
    equality = recombined
    requires = [
        within_the_kernel,
        has_positions,
        Requires("the first image and the others have channels", lambda c, d, e: c >= 1 and d + e >= 1),
    ]
    trainable = True

    def pattern(x: Small, y: Float[Tensor, "n d yh yw"], z: Float[Tensor, "n e zh zw"],
                weight: Weight[Float[Tensor, "o c+d+e kh kw"]], bias: PerOutput, padding: Pair, times: Times):  # fmt: skip
        return F.conv2d(torch.cat([enlarged(x, times), y, z], 1), weight, bias, 1, padding)

    def replacement(x, y, z, weight, bias, padding, times):
        c, others = x.shape[1], torch.cat([y, z], 1)
        first = transposed(x, torch.narrow(weight, 1, 0, c), None, padding, times)
        return first + F.conv2d(others, torch.narrow(weight, 1, c, others.shape[1]), bias, 1, padding)


class ConvolutionOfEnlargedBesideThree(Rule):
    """In a convolution of four images joined along the channels, an enlarged first one is a transposed convolution beside the others."""

    source = "linearity of convolution in its input; Odena et al. 2016 (resize convolutions); Lin et al. 2017 (feature pyramids)"
    tried = True
    equality = recombined
    requires = [
        within_the_kernel,
        Requires("the first image and the others have channels", lambda c, d, e, f: c >= 1 and d + e + f >= 1),
    ]
    trainable = True

    def pattern(x: Small, y: Float[Tensor, "n d yh yw"], z: Float[Tensor, "n e zh zw"], u: Float[Tensor, "n f uh uw"],
                weight: Weight[Float[Tensor, "o c+d+e+f kh kw"]], bias: PerOutput, padding: Pair, times: Times):  # fmt: skip
        return F.conv2d(torch.cat([enlarged(x, times), y, z, u], 1), weight, bias, 1, padding)

    def replacement(x, y, z, u, weight, bias, padding, times):
        c, others = x.shape[1], torch.cat([y, z, u], 1)
        first = transposed(x, torch.narrow(weight, 1, 0, c), None, padding, times)
        return first + F.conv2d(others, torch.narrow(weight, 1, c, others.shape[1]), bias, 1, padding)
