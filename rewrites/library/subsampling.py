"""Images of which every step-th row or column is read.

A position that nothing reads need not be computed. Reading every step-th row commutes with functions of single elements; of a
convolution or a pool it is the same with a longer stride, and a 1x1 convolution with a stride reads nothing else. So a stride moves
up a chain of layers, to the first that reads neighbours: what stands between computes fewer positions.
n samples, c channels, h x w positions; axis 2 are the rows, axis 3 the columns.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Pair, Requires, Rule, Weight

Image = Float[Tensor, "n c h w"]
PerChannel = Float[Tensor, "c"]
Position = Literal[2, 3]
Function = Literal[
    "relu", "relu6", "neg", "abs", "sigmoid", "tanh", "exp", "sqrt", "erf", "square", "silu", "gelu", "hardsigmoid", "hardswish", "softplus"
]
Operation = Literal["add", "sub", "mul", "div", "maximum", "minimum"]
Numeric = Literal["add", "sub", "mul", "div"]

same_elements = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
pooled = Requires("there are channels and positions, as a pool demands", lambda c, h, w: c >= 1 and h >= 1 and w >= 1)


def every(x, step, axis):
    """Every step-th row (axis 2) or column (axis 3) of images."""
    return x[:, :, ::step] if axis == 2 else x[:, :, :, ::step]


def times(pair, step, axis):
    """The pair of numbers with the one of this axis multiplied."""
    return (pair[0] * step, pair[1]) if axis == 2 else (pair[0], pair[1] * step)


class SubsampledFunction(Rule):
    """Some rows or columns of a pointwise function are the function of these rows or columns."""

    source = "pointwise functions act on single elements"
    settles = True
    equality = Equality.REAL
    trainable = True

    def pattern(x: Image, function: Function, axis: Position, step: int):
        return every(getattr(torch if hasattr(torch, function) else F, function)(x), step, axis)

    def replacement(x, function, axis, step):
        return getattr(torch if hasattr(torch, function) else F, function)(every(x, step, axis))


class SubsampledClamp(Rule):
    """Some rows or columns of a clamp are the clamp of these rows or columns."""

    source = "pointwise functions act on single elements"
    settles = True
    equality = same_elements
    trainable = True

    def pattern(x: Image, low: float, high: float, axis: Position, step: int):
        return every(torch.clamp(x, low, high), step, axis)

    def replacement(x, low, high, axis, step):
        return torch.clamp(every(x, step, axis), low, high)


class SubsampledOperation(Rule):
    """Some rows or columns of a pointwise operation are the operation of these rows or columns of both operands."""

    source = "pointwise functions act on single elements"
    settles = True
    equality = same_elements
    trainable = True

    def pattern(x: Image, y: Image, operation: Operation, axis: Position, step: int):
        return every(getattr(torch, operation)(x, y), step, axis)

    def replacement(x, y, operation, axis, step):
        return getattr(torch, operation)(every(x, step, axis), every(y, step, axis))


class SubsampledOperationWithNumber(Rule):
    """Some rows or columns of an operation with a number are the operation of these rows or columns."""

    source = "pointwise functions act on single elements"
    settles = True
    equality = same_elements
    trainable = True

    def pattern(x: Image, number: float, operation: Numeric, axis: Position, step: int):
        return every(getattr(torch, operation)(x, number), step, axis)

    def replacement(x, number, operation, axis, step):
        return getattr(torch, operation)(every(x, step, axis), number)


class SubsampledOperationWithChannels(Rule):
    """Some rows or columns of an operation with a number per channel are the operation of these rows or columns."""

    source = "pointwise functions act on single elements"
    settles = True
    equality = same_elements
    trainable = True

    def pattern(x: Image, numbers: Float[Tensor, "c 1 1"], operation: Numeric, axis: Position, step: int):
        return every(getattr(torch, operation)(x, numbers), step, axis)

    def replacement(x, numbers, operation, axis, step):
        return getattr(torch, operation)(every(x, step, axis), numbers)


class SubsampledBatchNorm(Rule):
    """Some rows or columns of a batch norm by running statistics are the batch norm of these rows or columns."""

    source = "Ioffe and Szegedy 2015, section 3.1: an affine map of each channel"
    settles = True
    equality = Equality.REAL

    def pattern(x: Image, mean: PerChannel, var: PerChannel, gamma: PerChannel, beta: PerChannel, eps: float, axis: Position, step: int):
        return every(F.batch_norm(x, mean, var, gamma, beta, False, 0.1, eps), step, axis)

    def replacement(x, mean, var, gamma, beta, eps, axis, step):
        return F.batch_norm(every(x, step, axis), mean, var, gamma, beta, False, 0.1, eps)


class SubsampledConvolution(Rule):
    """Some rows or columns of a convolution are the convolution with a longer stride."""

    source = "definition of the stride"
    settles = True
    equality = Equality.REAL
    trainable = True

    def pattern(x: Float[Tensor, "n groups*c h w"], weight: Float[Tensor, "groups*o c kh kw"], bias: Float[Tensor, "groups*o"],
                stride: Pair, padding: Pair, dilation: Pair, groups: int, axis: Position, step: int):  # fmt: skip
        return every(F.conv2d(x, weight, bias, stride, padding, dilation, groups), step, axis)

    def replacement(x, weight, bias, stride, padding, dilation, groups, axis, step):
        return F.conv2d(x, weight, bias, times(stride, step, axis), padding, dilation, groups)


class SubsampledPool(Rule):
    """Some rows or columns of a pool are the pool with a longer stride."""

    source = "definition of the stride"
    settles = True
    equality = Equality.REAL
    trainable = True

    def pattern(x: Image, pool: Literal["max_pool2d", "avg_pool2d"], kernel: Pair, stride: Pair, padding: Pair, axis: Position, step: int):
        return every(getattr(F, pool)(x, kernel, stride, padding), step, axis)

    def replacement(x, pool, kernel, stride, padding, axis, step):
        return getattr(F, pool)(x, kernel, times(stride, step, axis), padding)


class PointwiseConvolutionOfSubsample(Rule):
    """A 1x1 convolution of some rows and columns is that convolution with a stride."""

    source = "definition of the stride"
    tried = True
    trainable = True

    def pattern(x: Image, weight: Weight[Float[Tensor, "o c 1 1"]], bias: Weight[Float[Tensor, "o"]], step: Pair):
        return F.conv2d(x[:, :, :: step[0], :: step[1]], weight, bias)

    def replacement(x, weight, bias, step):
        return F.conv2d(x, weight, bias, step)


class SubsampleAsMaxPool(Rule):
    """Some rows and columns are a max pool of single positions with a stride, which keeps the layouts of runtimes that have their own."""

    source = "definition of the stride"
    tried = True
    equality = same_elements
    requires = [pooled]
    trainable = True

    def pattern(x: Image, step: Pair):
        return x[:, :, :: step[0], :: step[1]]

    def replacement(x, step):
        return F.max_pool2d(x, 1, step)


class SubsampleOfOneAxisAsMaxPool(Rule):
    """Some rows, or some columns, are a max pool of single positions with a stride along that axis."""

    source = "definition of the stride"
    tried = True
    equality = same_elements
    requires = [pooled]
    trainable = True

    def pattern(x: Image, axis: Position, step: int):
        return every(x, step, axis)

    def replacement(x, axis, step):
        return F.max_pool2d(x, 1, times((1, 1), step, axis))
