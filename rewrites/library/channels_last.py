"""Images with their channels last, brought there and back by permutations.

A permutation reads each output element at one place of its input, so it commutes with functions of single elements; an operand
that belongs to the channels, the axis a or a window of positions follows its axis. Models that compute with channels last around
operators that want them second are islands between two permutations; once the permutations meet, they cancel.
n samples, c channels, h x w positions; sequences of length l.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Equality, Rule

ImageOrder = Literal[(0, 2, 3, 1), (0, 3, 1, 2)]
SequenceOrder = Literal[(0, 2, 1), (1, 0, 2)]
Exact = Literal["relu", "relu6", "neg", "abs"]
Rounded = Literal[
    "sigmoid", "tanh", "exp", "log", "sqrt", "erf", "square", "reciprocal", "silu", "gelu", "hardsigmoid", "hardswish", "softplus"
]
Operation = Literal["add", "sub", "mul", "div", "maximum", "minimum"]
Numeric = Literal["add", "sub", "mul", "div"]


def function_of(name):
    """torch's function of this name, or the neural network one."""
    return getattr(torch, name) if hasattr(torch, name) and name != "relu6" else getattr(F, name)


class FunctionMovesPastPermutation(Rule):
    """A pointwise function may come before or after the axes of an image batch are permuted."""

    source = "pointwise functions act on single elements"
    settles = True
    equality = Equality.REAL
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "a b c d"], function: Rounded, order: ImageOrder):
        return function_of(function)(x.permute(order))

    def replacement(x, function, order):
        return function_of(function)(x).permute(order)


class ExactFunctionMovesPastPermutation(Rule):
    """A pointwise function that rounds nothing may come before or after the axes of an image batch are permuted."""

    source = "pointwise functions act on single elements"
    settles = True
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "a b c d"], function: Exact, order: ImageOrder):
        return function_of(function)(x.permute(order))

    def replacement(x, function, order):
        return function_of(function)(x).permute(order)


class ClampMovesPastPermutation(Rule):
    """A clamp may come before or after the axes of an image batch are permuted."""

    source = "pointwise functions act on single elements"
    settles = True
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "a b c d"], low: float, high: float, order: ImageOrder):
        return torch.clamp(x.permute(order), low, high)

    def replacement(x, low, high, order):
        return torch.clamp(x, low, high).permute(order)


class OperationMovesPastPermutation(Rule):
    """A pointwise operation on two image batches permuted alike may come before the permutation."""

    source = "pointwise functions act on single elements"
    settles = True
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "a b c d"], y: Float[Tensor, "a b c d"], operation: Operation, order: ImageOrder):
        return getattr(torch, operation)(x.permute(order), y.permute(order))

    def replacement(x, y, operation, order):
        return getattr(torch, operation)(x, y).permute(order)


class NumberMovesPastPermutation(Rule):
    """An operation with a number may come before or after the axes of an image batch are permuted."""

    source = "pointwise functions act on single elements"
    settles = True
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "a b c d"], number: float, operation: Numeric, order: ImageOrder):
        return getattr(torch, operation)(x.permute(order), number)

    def replacement(x, number, operation, order):
        return getattr(torch, operation)(x, number).permute(order)


class ChannelOperationMovesBeforeChannelsLast(Rule):
    """An operation with a vector over channels that were brought last may come before that, with the vector along the second axis."""

    source = "PyTorch, broadcasting semantics: a vector lies along the last axis"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"], vector: Float[Tensor, "c"], operation: Numeric):
        return getattr(torch, operation)(x.permute(0, 2, 3, 1), vector)

    def replacement(x, vector, operation):
        return getattr(torch, operation)(x, vector[:, None, None]).permute(0, 2, 3, 1)


class ChannelOperationMovesBeforeChannelsSecond(Rule):
    """An operation with a number per channel, for channels that were brought second, may come before that with a vector."""

    source = "PyTorch, broadcasting semantics: a vector lies along the last axis"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "n h w c"], numbers: Float[Tensor, "c 1 1"], operation: Numeric):
        return getattr(torch, operation)(x.permute(0, 3, 1, 2), numbers)

    def replacement(x, numbers, operation):
        return getattr(torch, operation)(x, numbers[:, 0, 0]).permute(0, 3, 1, 2)


class GateMovesPastChannelsLast(Rule):
    """A product of an image and one factor per sample and channel, both with channels brought last, may come before that."""

    source = "PyTorch, broadcasting semantics; Hu et al. 2018 (squeeze and excitation) with channels last"
    settles = True
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "n c h w"], gate: Float[Tensor, "n c 1 1"]):
        return x.permute(0, 2, 3, 1) * gate.permute(0, 2, 3, 1)

    def replacement(x, gate):
        return (x * gate).permute(0, 2, 3, 1)


class PaddingMovesBeforeChannelsLast(Rule):
    """Padding the positions of an image whose channels were brought last may come before that."""

    source = "index maps compose"
    settles = True
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "n c h w"], left: int, right: int, top: int, bottom: int, value: float):
        return F.pad(x.permute(0, 2, 3, 1), (0, 0, left, right, top, bottom), value=value)

    def replacement(x, left, right, top, bottom, value):
        return F.pad(x, (left, right, top, bottom), value=value).permute(0, 2, 3, 1)


class PaddingMovesBehindChannelsSecond(Rule):
    """Padding the positions of an image before its channels are brought second may come after that, beside what reads it."""

    source = "index maps compose"
    settles = True
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "n h w c"], left: int, right: int, top: int, bottom: int, value: float):
        return F.pad(x, (0, 0, left, right, top, bottom), value=value).permute(0, 3, 1, 2)

    def replacement(x, left, right, top, bottom, value):
        return F.pad(x.permute(0, 3, 1, 2), (left, right, top, bottom), value=value)


class MeanOverPositionsOfChannelsLast(Rule):
    """The mean over the positions of an image whose channels were brought last is the mean over the positions of the image."""

    source = "sums may be taken in any order of the axes"
    settles = True
    equality = Equality.REAL
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"]):
        return x.permute(0, 2, 3, 1).mean((1, 2))

    def replacement(x):
        return x.mean((2, 3))


class KeptMeanOverPositionsOfChannelsLast(Rule):
    """The mean over the positions of an image whose channels were brought last, kept as axes, may be taken before that."""

    source = "sums may be taken in any order of the axes"
    settles = True
    equality = Equality.REAL
    trainable = True

    def pattern(x: Float[Tensor, "n c h w"]):
        return x.permute(0, 2, 3, 1).mean((1, 2), keepdim=True)

    def replacement(x):
        return x.mean((2, 3), keepdim=True).permute(0, 2, 3, 1)


class ConcatenationOfTwoChannelsLast(Rule):
    """Two images with channels brought last, joined along the channels, may be joined before that."""

    source = "index maps compose"
    settles = True
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "n b h w"], y: Float[Tensor, "n c h w"]):
        return torch.cat([x.permute(0, 2, 3, 1), y.permute(0, 2, 3, 1)], -1)

    def replacement(x, y):
        return torch.cat([x, y], 1).permute(0, 2, 3, 1)


class ConcatenationOfThreeChannelsLast(Rule):
    """Three images with channels brought last, joined along the channels, may be joined before that."""

    source = "index maps compose"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "n b h w"], y: Float[Tensor, "n c h w"], z: Float[Tensor, "n d h w"]):
        return torch.cat([x.permute(0, 2, 3, 1), y.permute(0, 2, 3, 1), z.permute(0, 2, 3, 1)], -1)

    def replacement(x, y, z):
        return torch.cat([x, y, z], 1).permute(0, 2, 3, 1)


class ConcatenationOfFourChannelsLast(Rule):
    """Four images with channels brought last, joined along the channels, may be joined before that."""

    source = "index maps compose"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "n b h w"], y: Float[Tensor, "n c h w"], z: Float[Tensor, "n d h w"], u: Float[Tensor, "n e h w"]):
        return torch.cat([part.permute(0, 2, 3, 1) for part in (x, y, z, u)], -1)

    def replacement(x, y, z, u):
        return torch.cat([x, y, z, u], 1).permute(0, 2, 3, 1)


class ChannelsLastOfOneChannelIsReshape(Rule):
    """Bringing a single channel last, or back, moves no element."""

    source = "row-major order"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "n 1 h w"]):
        return x.permute(0, 2, 3, 1)

    def replacement(x):
        return x.reshape(x.shape[0], x.shape[2], x.shape[3], 1)


class ChannelsSecondOfOneChannelIsReshape(Rule):
    """Bringing a single last channel to the second place moves no element."""

    source = "row-major order"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "n h w 1"]):
        return x.permute(0, 3, 1, 2)

    def replacement(x):
        return x.reshape(x.shape[0], 1, x.shape[1], x.shape[2])


class ChannelsLastOfOnePositionIsReshape(Rule):
    """Bringing channels last where there is one position moves no element."""

    source = "row-major order"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "n c 1 1"]):
        return x.permute(0, 2, 3, 1)

    def replacement(x):
        return x.reshape(x.shape[0], 1, 1, x.shape[1])


class SequenceFunctionMovesPastPermutation(Rule):
    """A pointwise function may come before or after the axes of a batch of sequences are permuted."""

    source = "pointwise functions act on single elements"
    settles = True
    equality = Equality.REAL
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "a b c"], function: Rounded, order: SequenceOrder):
        return function_of(function)(x.permute(order))

    def replacement(x, function, order):
        return function_of(function)(x).permute(order)
