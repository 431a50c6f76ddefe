"""Pools: means and maxima of windows.

An average pool is linear and acts on every channel alone; a max pool commutes with what never falls, and what lies outside
counts as −∞. Both are separable over rows and columns, and pools of adjoining windows compose. Padding counts in a mean
only where it is told to (`count_include_pad`).
n samples, c channels, h x w positions; kernel, stride and padding in rows and columns.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Pair, Requires, Rule, Weight

Image = Float[Tensor, "n c h w"]

reordered = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)
exact_but_special = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)
half_windows = Requires(
    "the padding is at most half the kernel, as PyTorch demands",
    lambda rows, columns, kernel: 2 * rows <= kernel[0] and 2 * columns <= kernel[1],
)
has_positions = Requires("the image has positions, or PyTorch does not pool it", lambda h, w: h >= 1 and w >= 1)
added = Requires("rows and columns are added, not cut off", lambda rows, columns: rows >= 0 and columns >= 0)


class GlobalAveragePoolIsMean(Rule):
    """An average pool to one position is the mean over all positions."""

    source = "Lin et al. 2014 (Network in Network), section 3.2"
    equality = reordered
    trainable = True
    bidirectional = True
    requires_reversed = [has_positions]

    def pattern(x: Image):
        return F.adaptive_avg_pool2d(x, 1)

    def replacement(x):
        return x.mean((-2, -1), keepdim=True)


class WholeWindowAveragePoolIsMean(Rule):
    """An average pool whose window is the image is the mean over all positions."""

    source = "definition of the average pool"
    equality = reordered
    trainable = True

    def pattern(x: Image, stride: Pair):
        return F.avg_pool2d(x, (x.shape[2], x.shape[3]), stride)

    def replacement(x, stride):
        return x.mean((-2, -1), keepdim=True)


class GlobalMaxPoolIsMaximum(Rule):
    """A max pool to one position is the maximum over all positions."""

    source = "definition of the max pool"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    bidirectional = True
    requires_reversed = [Requires("there are channels and positions, as a max pool demands", lambda c, h, w: c >= 1 and h >= 1 and w >= 1)]

    def pattern(x: Image):
        return F.adaptive_max_pool2d(x, 1)

    def replacement(x):
        return x.amax((-2, -1), keepdim=True)


class AveragePoolOfSum(Rule):
    """The average pool of a sum is the sum of the average pools."""

    source = "linearity"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Image, y: Image, kernel: Pair, stride: Pair, padding: Pair, include: bool):
        left = F.avg_pool2d(x, kernel, stride, padding, False, include)
        return left + F.avg_pool2d(y, kernel, stride, padding, False, include)

    def replacement(x, y, kernel, stride, padding, include):
        return F.avg_pool2d(x + y, kernel, stride, padding, False, include)


class ScalarFactorMovesOutOfAveragePool(Rule):
    """A scalar factor comes out of an average pool."""

    source = "linearity"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Image, factor: float, kernel: Pair, stride: Pair, padding: Pair, include: bool):
        return F.avg_pool2d(x * factor, kernel, stride, padding, False, include)

    def replacement(x, factor, kernel, stride, padding, include):
        return F.avg_pool2d(x, kernel, stride, padding, False, include) * factor


class ChannelScaleMovesOutOfAveragePool(Rule):
    """A scale per channel comes out of an average pool."""

    source = "linearity; channels are pooled alone"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Image, scale: Float[Tensor, "c 1 1"], kernel: Pair, stride: Pair, padding: Pair, include: bool):
        return F.avg_pool2d(x * scale, kernel, stride, padding, False, include)

    def replacement(x, scale, kernel, stride, padding, include):
        return F.avg_pool2d(x, kernel, stride, padding, False, include) * scale


class PointwiseConvolutionMovesPastAveragePool(Rule):
    """A 1x1 convolution may come before or after an unpadded average pool, where it has fewer positions."""

    source = "linearity; Huang et al. 2017 (DenseNet), the transition layer"
    tried = True
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Image, weight: Weight[Float[Tensor, "o c 1 1"]], bias: Weight[Float[Tensor, "o"]], kernel: Pair, stride: Pair):
        return F.avg_pool2d(F.conv2d(x, weight, bias), kernel, stride)

    def replacement(x, weight, bias, kernel, stride):
        return F.conv2d(F.avg_pool2d(x, kernel, stride), weight, bias)


class PositiveFactorMovesOutOfMaxPool(Rule):
    """A scalar factor that is not negative comes out of a max pool."""

    source = "multiplication by a number that is not negative is monotone"
    equality = exact_but_special
    requires = [Requires("the factor is not negative", lambda factor: factor >= 0)]
    bidirectional = True

    def pattern(x: Image, factor: float, kernel: Pair, stride: Pair, padding: Pair):
        return F.max_pool2d(x * factor, kernel, stride, padding)

    def replacement(x, factor, kernel, stride, padding):
        return F.max_pool2d(x, kernel, stride, padding) * factor


class ShiftMovesOutOfMaxPool(Rule):
    """A scalar added to every position is added to the max pool."""

    source = "addition is monotone; padding counts as −∞"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)
    bidirectional = True

    def pattern(x: Image, shift: float, kernel: Pair, stride: Pair, padding: Pair):
        return F.max_pool2d(x + shift, kernel, stride, padding)

    def replacement(x, shift, kernel, stride, padding):
        return F.max_pool2d(x, kernel, stride, padding) + shift


class ReluMovesOutOfMaxPool(Rule):
    """relu may come before or after a max pool, where it has fewer positions."""

    source = "relu never falls"
    tried = True
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    bidirectional = True

    def pattern(x: Image, kernel: Pair, stride: Pair, padding: Pair):
        return F.max_pool2d(F.relu(x), kernel, stride, padding)

    def replacement(x, kernel, stride, padding):
        return F.relu(F.max_pool2d(x, kernel, stride, padding))


class PoolOfConcatenatedChannels(Rule):
    """Pools of inputs joined along the channels are the joined pools."""

    source = "channels are pooled alone"
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO)
    requires = [Requires("neither input is without channels, which PyTorch does not pool", lambda c, d: c >= 1 and d >= 1)]
    trainable = True
    bidirectional = True

    def pattern(
        x: Image, y: Float[Tensor, "n d h w"], pool: Literal["max_pool2d", "avg_pool2d"], kernel: Pair, stride: Pair, padding: Pair
    ):
        return getattr(F, pool)(torch.cat((x, y), 1), kernel, stride, padding)

    def replacement(x, y, pool, kernel, stride, padding):
        return torch.cat((getattr(F, pool)(x, kernel, stride, padding), getattr(F, pool)(y, kernel, stride, padding)), 1)


class FoldPaddingIntoAveragePool(Rule):
    """Padding with zeros before an average pool is its own padding, if that counts."""

    source = "ONNX AveragePool, count_include_pad"
    settles = True
    equality = reordered
    requires = [added, half_windows, has_positions]
    trainable = True

    def pattern(x: Image, rows: int, columns: int, kernel: Pair, stride: Pair):
        return F.avg_pool2d(F.pad(x, (columns, columns, rows, rows)), kernel, stride)

    def replacement(x, rows, columns, kernel, stride):
        return F.avg_pool2d(x, kernel, stride, (rows, columns), False, True)


class FoldPaddingIntoMaxPool(Rule):
    """Padding with −∞ before a max pool is its own padding."""

    source = "PyTorch, torch.nn.MaxPool2d"
    settles = True
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    requires = [added, half_windows, has_positions]

    def pattern(x: Image, rows: int, columns: int, kernel: Pair, stride: Pair):
        return F.max_pool2d(F.pad(x, (columns, columns, rows, rows), value=float("-inf")), kernel, stride)

    def replacement(x, rows, columns, kernel, stride):
        return F.max_pool2d(x, kernel, stride, (rows, columns))


class EdgesBeforeMaxPoolAreLowest(Rule):
    """Repeating the edges of an image before a max pool is padding it with −∞: a window that reaches beyond an edge has it inside."""

    source = "the maximum of what is in the window already; as TensorFlow Lite exports same padding"
    settles = True
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    requires = [
        Requires(
            "no window lies outside the image",
            lambda left, right, top, bottom, kernel: max(left, right) < kernel[1] and max(top, bottom) < kernel[0],
        )
    ]

    def pattern(x: Float[Tensor, "n c h w"], left: int, right: int, top: int, bottom: int, kernel: Pair, stride: Pair):
        return F.max_pool2d(F.pad(x, (left, right, top, bottom), mode="replicate"), kernel, stride)

    def replacement(x, left, right, top, bottom, kernel, stride):
        return F.max_pool2d(F.pad(x, (left, right, top, bottom), value=-math.inf), kernel, stride)


class FoldPaddingOfReluIntoMaxPool(Rule):
    """Padding a relu with zeros before a max pool is the pool's own padding: no element is smaller than zero."""

    source = "every window holds an element of the image, as the padding is at most half the kernel"
    settles = True
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO)
    requires = [added, half_windows, has_positions]

    def pattern(x: Image, rows: int, columns: int, kernel: Pair, stride: Pair):
        return F.max_pool2d(F.pad(F.relu(x), (columns, columns, rows, rows)), kernel, stride)

    def replacement(x, rows, columns, kernel, stride):
        return F.max_pool2d(F.relu(x), kernel, stride, (rows, columns))


class MaxPoolSeparates(Rule):
    """A max pool over rows and one over columns are a max pool over both."""

    source = "the maximum over a rectangle is the maximum of the rows' maxima"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    bidirectional = True

    def pattern(x: Image, kernel: Pair, stride: Pair, padding: Pair):
        rows = F.max_pool2d(x, (kernel[0], 1), (stride[0], 1), (padding[0], 0))
        return F.max_pool2d(rows, (1, kernel[1]), (1, stride[1]), (0, padding[1]))

    def replacement(x, kernel, stride, padding):
        return F.max_pool2d(x, kernel, stride, padding)


class AveragePoolSeparates(Rule):
    """An average pool over rows and one over columns are an average pool over both."""

    source = "the mean over a rectangle is the mean of the rows' means"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Image, kernel: Pair, stride: Pair):
        return F.avg_pool2d(F.avg_pool2d(x, (kernel[0], 1), (stride[0], 1)), (1, kernel[1]), (1, stride[1]))

    def replacement(x, kernel, stride):
        return F.avg_pool2d(x, kernel, stride)


class MaxPoolOfMaxPool(Rule):
    """Max pools of stride 1 that keep the size compose to one of the joint reach."""

    source = "Jocher 2022 (YOLOv5), SPPF in place of SPP"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)

    def pattern(x: Image, first: int, second: int):
        inner = F.max_pool2d(x, 2 * first + 1, 1, first)
        return F.max_pool2d(inner, 2 * second + 1, 1, second)

    def replacement(x, first, second):
        return F.max_pool2d(x, 2 * (first + second) + 1, 1, first + second)


class PoolOfAdjoiningWindows(Rule):
    """Pools of adjoining windows compose to a pool of windows of windows."""

    source = "means of means of equally many are means; floors of quotients compose"
    equality = reordered
    trainable = True

    def pattern(x: Image, pool: Literal["max_pool2d", "avg_pool2d"], inner: Pair, outer: Pair):
        return getattr(F, pool)(getattr(F, pool)(x, inner, inner), outer, outer)

    def replacement(x, pool, inner, outer):
        joint = (inner[0] * outer[0], inner[1] * outer[1])
        return getattr(F, pool)(x, joint, joint)


class PoolOfSinglePositions(Rule):
    """A pool of single positions changes nothing."""

    source = "means and maxima of one element"
    settles = True
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    trainable = True

    def pattern(x: Image, pool: Literal["max_pool2d", "avg_pool2d"]):
        return getattr(F, pool)(x, 1, 1)

    def replacement(x, pool):
        return x
