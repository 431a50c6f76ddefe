"""Concatenations, stacks and splits: flattening, cancellation, movement past pointwise functions.

A concatenation reads each element from one of its parts, so functions of single elements move through it, and a slice or
split at the seams undoes it. *s1 and *s2 are tensors of one rank whose sizes agree except along the axis.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from rewrites import Axis, Equality, Requires, Rule

First = Float[Tensor, "*s1"]
Second = Float[Tensor, "*s2"]
Third = Float[Tensor, "*s3"]
Unary = Literal["relu", "sigmoid", "tanh", "exp", "neg", "abs", "square"]
Binary = Literal["add", "sub", "mul", "div", "maximum", "minimum"]


class ConcatenationFlattens(Rule):
    """Joining a joined tensor with a third is joining all three."""

    source = "concatenation associates"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: First, y: Second, z: Third, axis: Axis):
        return torch.cat((torch.cat((x, y), axis), z), axis)

    def replacement(x, y, z, axis):
        return torch.cat((x, y, z), axis)


class ConcatenationFlattensRight(Rule):
    """Joining a tensor with a joined one is joining all three."""

    source = "concatenation associates"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: First, y: Second, z: Third, axis: Axis):
        return torch.cat((x, torch.cat((y, z), axis)), axis)

    def replacement(x, y, z, axis):
        return torch.cat((x, y, z), axis)


class ConcatenationsExchange(Rule):
    """Joining rows of blocks is joining columns of blocks, when the blocks' seams meet."""

    source = "block matrices; TASO"
    equality = Equality.BITWISE
    trainable = True

    def pattern(a: Float[Tensor, "m p *s"], b: Float[Tensor, "m q *s"], c: Float[Tensor, "n p *s"], d: Float[Tensor, "n q *s"]):
        return torch.cat((torch.cat((a, b), 1), torch.cat((c, d), 1)), 0)

    def replacement(a, b, c, d):
        return torch.cat((torch.cat((a, c), 0), torch.cat((b, d), 0)), 1)


class FunctionMovesOutOfConcatenation(Rule):
    """Functions of the parts, joined, are the function of the joined parts."""

    source = "pointwise functions act on single elements; TASO"
    equality = Equality.REAL
    trainable = True
    bidirectional = True

    def pattern(x: First, y: Second, function: Unary, axis: Axis):
        return torch.cat((getattr(torch, function)(x), getattr(torch, function)(y)), axis)

    def replacement(x, y, function, axis):
        return getattr(torch, function)(torch.cat((x, y), axis))


class OperationMovesOutOfConcatenation(Rule):
    """Operations on the parts, joined, are the operation on the joined parts."""

    source = "pointwise functions act on single elements; TASO"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: First, y: First, z: Second, w: Second, operation: Binary, axis: Axis):
        return torch.cat((getattr(torch, operation)(x, y), getattr(torch, operation)(z, w)), axis)

    def replacement(x, y, z, w, operation, axis):
        return getattr(torch, operation)(torch.cat((x, z), axis), torch.cat((y, w), axis))


class ScalarFactorMovesOutOfConcatenation(Rule):
    """A scalar factor common to the parts is a factor of the joined parts."""

    source = "pointwise functions act on single elements"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: First, y: Second, factor: float, axis: Axis):
        return torch.cat((x * factor, y * factor), axis)

    def replacement(x, y, factor, axis):
        return torch.cat((x, y), axis) * factor


class MergeRelusOfSamples(Rule):
    """Two relus of tensors alike but for their first axis are the parts of one relu of the joined tensors."""

    source = "TASO"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "n *s"], y: Float[Tensor, "m *s"]):
        return torch.relu(x), torch.relu(y)

    def replacement(x, y):
        return torch.split(torch.relu(torch.cat((x, y), 0)), (x.shape[0], y.shape[0]), 0)


class MergeRelusOfChannels(Rule):
    """Two relus of tensors alike but for their second axis are the parts of one relu of the joined tensors."""

    source = "TASO"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "n c *s"], y: Float[Tensor, "n d *s"]):
        return torch.relu(x), torch.relu(y)

    def replacement(x, y):
        return torch.split(torch.relu(torch.cat((x, y), 1)), (x.shape[1], y.shape[1]), 1)


class FunctionMovesPastSplit(Rule):
    """A function of both parts of a split is the split of the function."""

    source = "pointwise functions act on single elements"
    equality = Equality.REAL
    trainable = True
    bidirectional = True

    def pattern(x: First, function: Unary, p: int, q: int, axis: Axis):
        a, b = torch.split(x, (p, q), axis)
        return getattr(torch, function)(a), getattr(torch, function)(b)

    def replacement(x, function, p, q, axis):
        return torch.split(getattr(torch, function)(x), (p, q), axis)


class OperationMovesPastSplit(Rule):
    """An operation on both parts of two equal splits is the split of the operation."""

    source = "pointwise functions act on single elements"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: First, y: First, operation: Binary, p: int, q: int, axis: Axis):
        a, b = torch.split(x, (p, q), axis)
        c, d = torch.split(y, (p, q), axis)
        return getattr(torch, operation)(a, c), getattr(torch, operation)(b, d)

    def replacement(x, y, operation, p, q, axis):
        return torch.split(getattr(torch, operation)(x, y), (p, q), axis)


class SplitOfConcatenation(Rule):
    """Splitting joined tensors at their seam gives them back."""

    source = "index maps compose; TASO"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: First, y: Second, axis: Axis):
        return torch.split(torch.cat((x, y), axis), (x.shape[axis], y.shape[axis]), axis)

    def replacement(x, y, axis):
        return x, y


class ConcatenationOfSplit(Rule):
    """Joining the parts of a split in their order gives the whole back."""

    source = "index maps compose; TASO"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: First, p: int, q: int, axis: Axis):
        a, b = torch.split(x, (p, q), axis)
        return torch.cat((a, b), axis)

    def replacement(x, p, q, axis):
        return x


class FirstSliceOfConcatenation(Rule):
    """The slice of joined tensors up to the seam is the first."""

    source = "index maps compose"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: First, y: Second, axis: Axis):
        return torch.narrow(torch.cat((x, y), axis), axis, 0, x.shape[axis])

    def replacement(x, y, axis):
        return x


class LastSliceOfConcatenation(Rule):
    """The slice of joined tensors from the seam on is the second."""

    source = "index maps compose"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: First, y: Second, axis: Axis):
        return torch.narrow(torch.cat((x, y), axis), axis, x.shape[axis], y.shape[axis])

    def replacement(x, y, axis):
        return y


class ConcatenationOfSlices(Rule):
    """Two slices of which one begins where the other ends, joined, are one slice."""

    source = "index maps compose"
    settles = True
    equality = Equality.BITWISE
    trainable = True
    requires = [Requires("the first slice counts from the start", lambda start: start >= 0)]

    def pattern(x: First, start: int, p: int, q: int, axis: Axis):
        return torch.cat((torch.narrow(x, axis, start, p), torch.narrow(x, axis, start + p, q)), axis)

    def replacement(x, start, p, q, axis):
        return torch.narrow(x, axis, start, p + q)


class StackAsConcatenation(Rule):
    """Stacking is joining along a new axis of size 1."""

    source = "PyTorch, torch.stack"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: First, y: First, axis: Axis):
        return torch.stack((x, y), axis)

    def replacement(x, y, axis):
        return torch.cat((x.unsqueeze(axis), y.unsqueeze(axis)), axis)


class SelectOfStack(Rule):
    """A position of a stack is the tensor stacked there."""

    source = "index maps compose"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: First, y: First, axis: Axis, index: Literal[0, 1]):
        return torch.stack((x, y), axis).select(axis, index)

    def replacement(x, y, axis, index):
        return (x, y)[index]


class TransposeOfConcatenation(Rule):
    """Transposed matrices side by side are the transpose of the matrices one above the other."""

    source = "block matrices"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s m k"], y: Float[Tensor, "*s n k"]):
        return torch.cat((x.transpose(-1, -2), y.transpose(-1, -2)), -1)

    def replacement(x, y):
        return torch.cat((x, y), -2).transpose(-1, -2)


class ProductWithConcatenationSplits(Rule):
    """A product of joined tensors with a column is the joined products."""

    source = "broadcasting along the joined axis"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s p"], y: Float[Tensor, "*s q"], z: Float[Tensor, "*s 1"], operation: Binary):
        return torch.cat((getattr(torch, operation)(x, z), getattr(torch, operation)(y, z)), -1)

    def replacement(x, y, z, operation):
        return getattr(torch, operation)(torch.cat((x, y), -1), z)
