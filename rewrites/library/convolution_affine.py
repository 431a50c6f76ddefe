"""Scales and shifts around convolutions, as other tools write them: subtracted, divided by, or one number for all channels.

With * for the convolution: (x * w + b)·s = x * (s·w) + s·b, and x * w + b + t has the bias b + t. Before the convolution a factor
is one of the kernels, whatever the padding; a term t per channel is worth t·Σw only where every tap reads the input, so it moves
into the bias of unpadded convolutions alone.
n samples, groups·c input channels, groups·o output channels, h x w positions, kernels kh x kw.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Pair, Requires, Rule, Weight
from rewrites.library.convolution import per_input_channel, per_input_channel_sum

Image = Float[Tensor, "n groups*c h w"]
Kernels = Weight[Float[Tensor, "groups*o c kh kw"]]
PerOutput = Weight[Float[Tensor, "groups*o"]]
Sequence = Float[Tensor, "n groups*c l"]
SequenceKernels = Weight[Float[Tensor, "groups*o c k"]]

recombined = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)
no_padding = Requires("the convolution does not pad, so that every tap reads the input", lambda padding: padding == (0, 0))
one_group = Requires("there is one group, so that the second axis of the weight is all output channels", lambda groups: groups == 1)
small_output_padding = Requires(
    "the output padding is smaller than the stride or the dilation, as PyTorch demands",
    lambda more, stride, dilation: all(more[i] < stride[i] or more[i] < dilation[i] for i in (0, 1)),
)


class ConvolutionLessShift(Rule):
    """A shift per channel subtracted from a convolution is subtracted from its bias."""

    source = "linearity of convolution in its bias"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Image, weight: Kernels, bias: PerOutput, shift: Weight[Float[Tensor, "groups*o 1 1"]],
                stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups) - shift

    def replacement(x, weight, bias, shift, stride, padding, dilation, groups):
        return F.conv2d(x, weight, bias - shift[:, 0, 0], stride, padding, dilation, groups)


class ConvolutionOverScale(Rule):
    """Dividing a convolution's output channels divides its kernels and its bias."""

    source = "linearity of convolution in its kernels"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Image, weight: Kernels, bias: PerOutput, scale: Weight[Float[Tensor, "groups*o 1 1"]],
                stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups) / scale

    def replacement(x, weight, bias, scale, stride, padding, dilation, groups):
        return F.conv2d(x, weight / scale[..., None], bias / scale[:, 0, 0], stride, padding, dilation, groups)


class ScalarTermOfConvolution(Rule):
    """A number added to a convolution, or subtracted from it, is added to its bias."""

    source = "linearity of convolution in its bias"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Image, weight: Kernels, bias: PerOutput, term: float, operation: Literal["add", "sub"],
                stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        return getattr(torch, operation)(F.conv2d(x, weight, bias, stride, padding, dilation, groups), term)

    def replacement(x, weight, bias, term, operation, stride, padding, dilation, groups):
        return F.conv2d(x, weight, getattr(torch, operation)(bias, term), stride, padding, dilation, groups)


class ScalarDivisorOfConvolution(Rule):
    """Dividing a convolution by a number divides its kernels and its bias."""

    source = "linearity of convolution in its kernels"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Image, weight: Kernels, bias: PerOutput, divisor: float, stride: Pair, padding: Pair, dilation: Pair, groups: int):
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups) / divisor

    def replacement(x, weight, bias, divisor, stride, padding, dilation, groups):
        return F.conv2d(x, weight / divisor, bias / divisor, stride, padding, dilation, groups)


class ScalarFactorBeforeConvolution(Rule):
    """Multiplying a convolution's input by a number, or dividing it, does so to its kernels, whatever the padding."""

    source = "linearity of convolution in its input; padding is of zeros, which scaling keeps"
    settles = True
    equality = recombined
    requires = [
        Requires(
            "nothing is divided by zero, which would make the padding undefined too",
            lambda factor, operation: operation == "mul" or factor != 0,
        )
    ]
    trainable = True

    def pattern(x: Image, factor: float, operation: Literal["mul", "div"], weight: Kernels, bias: PerOutput,
                stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        return F.conv2d(getattr(torch, operation)(x, factor), weight, bias, stride, padding, dilation, groups)

    def replacement(x, factor, operation, weight, bias, stride, padding, dilation, groups):
        return F.conv2d(x, getattr(torch, operation)(weight, factor), bias, stride, padding, dilation, groups)


class ScalarTermBeforeConvolution(Rule):
    """A number added to, or subtracted from, the input of an unpadded convolution moves its bias by the number times the kernels' sums."""

    source = "linearity of convolution in its input"
    settles = True
    equality = recombined
    requires = [no_padding]
    trainable = True

    def pattern(x: Image, term: float, operation: Literal["add", "sub"], weight: Kernels, bias: PerOutput,
                stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        return F.conv2d(getattr(torch, operation)(x, term), weight, bias, stride, padding, dilation, groups)

    def replacement(x, term, operation, weight, bias, stride, padding, dilation, groups):
        moved = getattr(torch, operation)(bias, weight.sum((1, 2, 3)) * term)
        return F.conv2d(x, weight, moved, stride, padding, dilation, groups)


class ShiftSubtractedBeforeConvolution(Rule):
    """A shift per channel subtracted from the input of an unpadded convolution lowers its bias by the shift summed over the taps."""

    source = "linearity of convolution in its input"
    settles = True
    equality = recombined
    requires = [no_padding]
    trainable = True

    def pattern(x: Image, shift: Weight[Float[Tensor, "groups*c 1 1"]], weight: Kernels, bias: PerOutput,
                stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        return F.conv2d(x - shift, weight, bias, stride, padding, dilation, groups)

    def replacement(x, shift, weight, bias, stride, padding, dilation, groups):
        moved = bias - per_input_channel_sum(weight, shift[:, 0, 0], groups)
        return F.conv2d(x, weight, moved, stride, padding, dilation, groups)


class DivisorBeforeConvolution(Rule):
    """Dividing a convolution's input channels divides its kernels per input channel, whatever the padding."""

    source = "linearity of convolution in its input; padding is of zeros, which scaling keeps"
    settles = True
    equality = recombined
    requires = [Requires("no scale is zero, which would make the padding undefined too", lambda scale: scale != 0)]
    trainable = True

    def pattern(x: Image, scale: Weight[Float[Tensor, "groups*c 1 1"]], weight: Kernels, bias: PerOutput,
                stride: Pair, padding: Pair, dilation: Pair, groups: int):  # fmt: skip
        return F.conv2d(x / scale, weight, bias, stride, padding, dilation, groups)

    def replacement(x, scale, weight, bias, stride, padding, dilation, groups):
        return F.conv2d(x, per_input_channel(weight, 1 / scale[:, 0, 0], groups), bias, stride, padding, dilation, groups)


class ScaleOfConvolution1d(Rule):
    """Multiplying the channels of a one-dimensional convolution, or dividing them, does so to its kernels and its bias."""

    source = "linearity of convolution in its kernels"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Sequence, weight: SequenceKernels, bias: PerOutput, scale: Weight[Float[Tensor, "groups*o 1"]],
                operation: Literal["mul", "div"], stride: int, padding: int, dilation: int, groups: int):  # fmt: skip
        return getattr(torch, operation)(F.conv1d(x, weight, bias, stride, padding, dilation, groups), scale)

    def replacement(x, weight, bias, scale, operation, stride, padding, dilation, groups):
        apply = getattr(torch, operation)
        return F.conv1d(x, apply(weight, scale[..., None]), apply(bias, scale[:, 0]), stride, padding, dilation, groups)


class ShiftOfConvolution1d(Rule):
    """A shift per channel added to a one-dimensional convolution, or subtracted from it, is one of its bias."""

    source = "linearity of convolution in its bias"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Sequence, weight: SequenceKernels, bias: PerOutput, shift: Weight[Float[Tensor, "groups*o 1"]],
                operation: Literal["add", "sub"], stride: int, padding: int, dilation: int, groups: int):  # fmt: skip
        return getattr(torch, operation)(F.conv1d(x, weight, bias, stride, padding, dilation, groups), shift)

    def replacement(x, weight, bias, shift, operation, stride, padding, dilation, groups):
        return F.conv1d(x, weight, getattr(torch, operation)(bias, shift[:, 0]), stride, padding, dilation, groups)


class ScaleOfTransposedConvolution(Rule):
    """Multiplying the channels of a transposed convolution, or dividing them, does so to its kernels and its bias."""

    source = "linearity of convolution in its kernels, with the weight layout [in, out, kh, kw] of transposed convolutions"
    settles = True
    equality = recombined
    requires = [one_group, small_output_padding]
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], weight: Weight[Float[Tensor, "c o kh kw"]], bias: Weight[Float[Tensor, "o"]],
                scale: Weight[Float[Tensor, "o 1 1"]], operation: Literal["mul", "div"], stride: Pair, padding: Pair, more: Pair,
                dilation: Pair, groups: int):  # fmt: skip
        return getattr(torch, operation)(F.conv_transpose2d(x, weight, bias, stride, padding, more, groups, dilation), scale)

    def replacement(x, weight, bias, scale, operation, stride, padding, more, dilation, groups):
        apply = getattr(torch, operation)
        return F.conv_transpose2d(x, apply(weight, scale), apply(bias, scale[:, 0, 0]), stride, padding, more, groups, dilation)


class ShiftOfTransposedConvolution(Rule):
    """A shift per channel added to a transposed convolution, or subtracted from it, is one of its bias."""

    source = "linearity of convolution in its bias"
    settles = True
    equality = recombined
    requires = [one_group, small_output_padding]
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], weight: Weight[Float[Tensor, "c o kh kw"]], bias: Weight[Float[Tensor, "o"]],
                shift: Weight[Float[Tensor, "o 1 1"]], operation: Literal["add", "sub"], stride: Pair, padding: Pair, more: Pair,
                dilation: Pair, groups: int):  # fmt: skip
        y = F.conv_transpose2d(x, weight, bias, stride, padding, more, groups, dilation)
        return getattr(torch, operation)(y, shift)

    def replacement(x, weight, bias, shift, operation, stride, padding, more, dilation, groups):
        moved = getattr(torch, operation)(bias, shift[:, 0, 0])
        return F.conv_transpose2d(x, weight, moved, stride, padding, more, groups, dilation)


class ScalarTermOfTransposedConvolution(Rule):
    """A number added to a transposed convolution, or subtracted from it, is one of its bias."""

    source = "linearity of convolution in its bias"
    settles = True
    equality = recombined
    requires = [one_group, small_output_padding]
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], weight: Weight[Float[Tensor, "c o kh kw"]], bias: Weight[Float[Tensor, "o"]],
                term: float, operation: Literal["add", "sub"], stride: Pair, padding: Pair, more: Pair, dilation: Pair,
                groups: int):  # fmt: skip
        y = F.conv_transpose2d(x, weight, bias, stride, padding, more, groups, dilation)
        return getattr(torch, operation)(y, term)

    def replacement(x, weight, bias, term, operation, stride, padding, more, dilation, groups):
        return F.conv_transpose2d(x, weight, getattr(torch, operation)(bias, term), stride, padding, more, groups, dilation)
