"""Reshapes, transposes, slices, pads and expansions: composition, cancellation, movement past pointwise functions.

A layout operator reads each output element at one place of its input, so layouts compose as index maps: permutations as
q∘p, slices by adding their starts, pads by adding their amounts. A function of single elements commutes with all of them;
with padding only when it keeps zero zero.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Axis, Equality, Requires, Rule

Shaped = Float[Tensor, "*s"]
ThreeAxes = Literal[(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
FourAxes = Literal[(0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3), (0, 1, 3, 2), (2, 0, 1, 3)]

in_order = Requires("the axes are told apart, the first before the second", lambda first, second: first < second)


class TransposeTwice(Rule):
    """Exchanging two axes twice changes nothing."""

    source = "a transposition is its own inverse"
    settles = True
    equality = Equality.BITWISE
    requires = [in_order]
    trainable = True

    def pattern(x: Shaped, first: Axis, second: Axis):
        return x.transpose(first, second).transpose(first, second)

    def replacement(x, first, second):
        return x


class PermuteOfPermuteOfThree(Rule):
    """Two permutations of three axes are one: the second's places are looked up in the first."""

    source = "composition of permutations; q∘p has axes first[second[i]]"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "a b c"], first: ThreeAxes, second: ThreeAxes):
        return x.permute(first).permute(second)

    def replacement(x, first, second):
        return x.permute([first[place] for place in second])


class PermuteOfPermuteOfFour(Rule):
    """Two permutations of the axes of an image batch or of heads are one."""

    source = "composition of permutations; q∘p has axes first[second[i]]"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "a b c d"], first: FourAxes, second: FourAxes):
        return x.permute(first).permute(second)

    def replacement(x, first, second):
        return x.permute([first[place] for place in second])


class PermuteInPlace(Rule):
    """A permutation that leaves every axis where it is changes nothing."""

    source = "identity of the permutations"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Shaped):
        return x.permute(tuple(range(x.ndim)))

    def replacement(x):
        return x


class TransposeOfSingletonAsReshape(Rule):
    """Exchanging an axis of size 1 with its neighbour is a reshape."""

    source = "row-major order"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "*s 1 k"]):
        return x.transpose(-1, -2)

    def replacement(x):
        return x.reshape(*x.shape[:-2], x.shape[-1], 1)


class ExpandOfExpand(Rule):
    """Expanding one axis after the other is expanding both."""

    source = "PyTorch, broadcasting semantics"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "*s 1 1"], m: int, n: int):
        lead = x.shape[:-2]
        return x.expand(*lead, m, 1).expand(*lead, m, n)

    def replacement(x, m, n):
        return x.expand(*x.shape[:-2], m, n)


class ExpandToOwnShape(Rule):
    """Expanding to the shape a tensor has changes nothing."""

    source = "PyTorch, broadcasting semantics"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Shaped):
        return x.expand(x.shape)

    def replacement(x):
        return x


class ReshapeToOwnShape(Rule):
    """Reshaping to the shape a tensor has changes nothing."""

    source = "row-major order"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Shaped):
        return x.reshape(x.shape)

    def replacement(x):
        return x


class FlattenThenUnflatten(Rule):
    """Flattening two axes and taking them apart again changes nothing."""

    source = "row-major order"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "*s a b"]):
        return x.flatten(-2).unflatten(-1, (x.shape[-2], x.shape[-1]))

    def replacement(x):
        return x


class UnflattenThenFlatten(Rule):
    """Taking an axis apart and flattening the parts again changes nothing."""

    source = "row-major order"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "*s a*b"], a: int, b: int):
        return x.unflatten(-1, (a, b)).flatten(-2)

    def replacement(x, a, b):
        return x


class FlattenTwice(Rule):
    """Flattening two axes and then a third is flattening all three."""

    source = "row-major order"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "*s a b c"]):
        return x.flatten(-2).flatten(-2)

    def replacement(x):
        return x.flatten(-3)


class UnsqueezeThenSqueeze(Rule):
    """Adding an axis of size 1 and removing it changes nothing."""

    source = "row-major order"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Shaped, axis: Axis):
        return x.unsqueeze(axis).squeeze(axis)

    def replacement(x, axis):
        return x


class SliceOfSlice(Rule):
    """A slice of a slice along the same axis is one slice."""

    source = "index maps compose"
    settles = True
    equality = Equality.BITWISE
    trainable = True
    requires = [
        Requires("the outer slice counts from the start", lambda start: start >= 0),
        Requires("the inner slice counts from the start", lambda inner: inner >= 0),
    ]

    def pattern(x: Shaped, axis: Axis, start: int, length: int, inner: int, kept: int):
        return torch.narrow(torch.narrow(x, axis, start, length), axis, inner, kept)

    def replacement(x, axis, start, length, inner, kept):
        return torch.narrow(x, axis, start + inner, kept)


class WholeSlice(Rule):
    """A slice of everything changes nothing."""

    source = "index maps compose"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Shaped, axis: Axis):
        return torch.narrow(x, axis, 0, x.shape[axis])

    def replacement(x, axis):
        return x


class SliceOfTranspose(Rule):
    """Columns of a transposed matrix are rows of the matrix, transposed."""

    source = "index maps compose"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s m k"], start: int, length: int):
        return torch.narrow(x.transpose(-1, -2), -1, start, length)

    def replacement(x, start, length):
        return torch.narrow(x, -2, start, length).transpose(-1, -2)


class SelectAsSlice(Rule):
    """One position of an axis is a slice of length 1 without its axis."""

    source = "PyTorch, torch.select"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Shaped, axis: Axis, index: int):
        return torch.narrow(x, axis, index, 1).squeeze(axis)

    def replacement(x, axis, index):
        return torch.select(x, axis, index)


class PadOfPad(Rule):
    """Padding an image twice with zeros is padding once by the sums."""

    source = "index maps compose"
    settles = True
    equality = Equality.BITWISE
    requires = [
        Requires(
            "neither padding cuts anything off",
            lambda left, right, top, bottom, more_left, more_right, more_top, more_bottom: all(
                amount >= 0 for amount in (left, right, top, bottom, more_left, more_right, more_top, more_bottom)
            ),
        )
    ]
    trainable = True

    def pattern(x: Float[Tensor, "*s h w"], left: int, right: int, top: int, bottom: int, more_left: int, more_right: int, more_top: int,
                more_bottom: int):  # fmt: skip
        return F.pad(F.pad(x, (left, right, top, bottom)), (more_left, more_right, more_top, more_bottom))

    def replacement(x, left, right, top, bottom, more_left, more_right, more_top, more_bottom):
        return F.pad(x, (left + more_left, right + more_right, top + more_top, bottom + more_bottom))


class PadByNothing(Rule):
    """Padding by nothing changes nothing."""

    source = "index maps compose"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "*s h w"], amounts: Literal[2, 4]):
        return F.pad(x, (0,) * amounts)

    def replacement(x, amounts):
        return x


class SliceOfPad(Rule):
    """Cutting off what padding added leaves what was there."""

    source = "index maps compose"
    settles = True
    equality = Equality.BITWISE
    trainable = True
    requires = [Requires("the slice counts from the start", lambda before: before >= 0)]

    def pattern(x: Float[Tensor, "*s k"], before: int, after: int):
        return torch.narrow(F.pad(x, (before, after)), -1, before, x.shape[-1])

    def replacement(x, before, after):
        return x


class FlipTwice(Rule):
    """Flipping an axis twice changes nothing."""

    source = "a flip is its own inverse"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Shaped, axis: Axis):
        return torch.flip(torch.flip(x, (axis,)), (axis,))

    def replacement(x, axis):
        return x


class ContiguousChangesNothing(Rule):
    """Laying out a tensor contiguously changes no element."""

    source = "PyTorch, torch.Tensor.contiguous"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Shaped):
        return x.contiguous()

    def replacement(x):
        return x
