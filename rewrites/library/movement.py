"""Pointwise functions before or after layouts.

A layout reads each output element at one place of its input, and a pointwise function acts on single elements, so the two
commute; with padding only where the function keeps zero zero.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Axis, Change, Equality, Requires, Rule

Shaped = Float[Tensor, "*s"]
Unary = Literal["relu", "sigmoid", "tanh", "exp", "neg", "abs", "square"]
Binary = Literal["add", "sub", "mul", "div", "maximum", "minimum"]

in_order = Requires("the axes are told apart, the first before the second", lambda first, second: first < second)


class FunctionMovesPastTranspose(Rule):
    """A pointwise function may come before or after a transposition."""

    source = "pointwise functions act on single elements"
    equality = Equality.REAL
    requires = [in_order]
    trainable = True
    bidirectional = True

    def pattern(x: Shaped, function: Unary, first: Axis, second: Axis):
        return getattr(torch, function)(x.transpose(first, second))

    def replacement(x, function, first, second):
        return getattr(torch, function)(x).transpose(first, second)


class OperationMovesPastTranspose(Rule):
    """A pointwise operation on two tensors transposed alike may come before the transposition."""

    source = "pointwise functions act on single elements"
    equality = Equality.BITWISE
    requires = [in_order]
    trainable = True
    bidirectional = True

    def pattern(x: Shaped, y: Shaped, operation: Binary, first: Axis, second: Axis):
        return getattr(torch, operation)(x.transpose(first, second), y.transpose(first, second))

    def replacement(x, y, operation, first, second):
        return getattr(torch, operation)(x, y).transpose(first, second)


class ScalarFactorMovesPastTranspose(Rule):
    """A scalar factor may come before or after a transposition."""

    source = "pointwise functions act on single elements"
    equality = Equality.BITWISE
    requires = [in_order]
    trainable = True
    bidirectional = True

    def pattern(x: Shaped, factor: float, first: Axis, second: Axis):
        return x.transpose(first, second) * factor

    def replacement(x, factor, first, second):
        return (x * factor).transpose(first, second)


class FunctionMovesPastFlatten(Rule):
    """A pointwise function may come before or after two axes are flattened into one."""

    source = "pointwise functions act on single elements"
    equality = Equality.REAL
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s a b"], function: Unary):
        return getattr(torch, function)(x.flatten(-2))

    def replacement(x, function):
        return getattr(torch, function)(x).flatten(-2)


class FunctionMovesPastSlice(Rule):
    """A pointwise function may come before or after a slice."""

    source = "pointwise functions act on single elements"
    equality = Equality.REAL
    trainable = True
    bidirectional = True

    def pattern(x: Shaped, function: Unary, axis: Axis, start: int, length: int):
        return getattr(torch, function)(torch.narrow(x, axis, start, length))

    def replacement(x, function, axis, start, length):
        return torch.narrow(getattr(torch, function)(x), axis, start, length)


class FunctionMovesPastExpand(Rule):
    """A pointwise function of an expanded tensor is the expanded function."""

    source = "pointwise functions act on single elements"
    equality = Equality.REAL
    trainable = True
    bidirectional = True
    requires_reversed = [Requires("the size is a size, or −1 for the tensor's own", lambda n: n >= -1)]

    def pattern(x: Float[Tensor, "*s 1"], function: Unary, n: int):
        return getattr(torch, function)(x.expand(*x.shape[:-1], n))

    def replacement(x, function, n):
        return getattr(torch, function)(x).expand(*x.shape[:-1], n)


class FunctionMovesPastFlip(Rule):
    """A pointwise function may come before or after a flip."""

    source = "pointwise functions act on single elements"
    equality = Equality.REAL
    trainable = True
    bidirectional = True

    def pattern(x: Shaped, function: Unary, axis: Axis):
        return getattr(torch, function)(torch.flip(x, (axis,)))

    def replacement(x, function, axis):
        return torch.flip(getattr(torch, function)(x), (axis,))


class FunctionMovesPastPad(Rule):
    """A pointwise function that keeps zero zero may come before or after padding with zeros."""

    source = "pointwise functions act on single elements"
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO)
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s k"], function: Literal["relu", "tanh", "neg", "abs", "square"], before: int, after: int):
        return getattr(torch, function)(F.pad(x, (before, after)))

    def replacement(x, function, before, after):
        return F.pad(getattr(torch, function)(x), (before, after))


class ExpandBeforeOperation(Rule):
    """Expanding a column to the shape of the other operand is what the operation does itself."""

    source = "PyTorch, broadcasting semantics"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "*s 1"], y: Float[Tensor, "*s k"], operation: Binary):
        return getattr(torch, operation)(x.expand(y.shape), y)

    def replacement(x, y, operation):
        return getattr(torch, operation)(x, y)


class ScalarFactorMovesPastPad(Rule):
    """A scalar factor may come before or after padding an image with zeros."""

    source = "linearity"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s h w"], factor: float, left: int, right: int, top: int, bottom: int):
        return F.pad(x, (left, right, top, bottom)) * factor

    def replacement(x, factor, left, right, top, bottom):
        return F.pad(x * factor, (left, right, top, bottom))
