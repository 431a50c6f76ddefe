"""Casts between dtypes.

A wider dtype holds every value of a narrower one (float16 and bfloat16 in float32, all of them in float64, 32-bit integers
in float64), so widening and narrowing back changes nothing, and functions that round nothing may come before or after a
widening. A narrowing in between loses what it rounds, and no law here crosses one.
"""

from typing import Literal

import torch
from jaxtyping import BFloat16, Bool, Float, Float16, Int32
from torch import Tensor

from rewrites import Axis, Change, Equality, Requires, Rule

Target = Literal["float16", "bfloat16", "float32", "float64"]
Exact = Literal["relu", "neg", "abs"]


class CastToOwnDtype(Rule):
    """Casting to the dtype a tensor has changes nothing."""

    source = "PyTorch, torch.Tensor.to"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "*s"]):
        return x.to(x.dtype)

    def replacement(x):
        return x


class WidenHalfAndNarrow(Rule):
    """float16 held in a wider float and cast back is unchanged."""

    source = "IEEE 754-2019, section 5.4.2: conversion to a wider format is exact"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float16[Tensor, "*s"], wide: Literal["float32", "float64"]):
        return x.to(getattr(torch, wide)).to(torch.float16)

    def replacement(x, wide):
        return x


class WidenBrainFloatAndNarrow(Rule):
    """bfloat16 held in a wider float and cast back is unchanged."""

    source = "IEEE 754-2019, section 5.4.2; bfloat16 is the upper half of float32"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: BFloat16[Tensor, "*s"], wide: Literal["float32", "float64"]):
        return x.to(getattr(torch, wide)).to(torch.bfloat16)

    def replacement(x, wide):
        return x


class WidenInSteps(Rule):
    """Widening float16 to float32 and then to float64 is widening it at once."""

    source = "IEEE 754-2019, section 5.4.2: conversion to a wider format is exact"
    settles = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float16[Tensor, "*s"]):
        return x.to(torch.float32).to(torch.float64)

    def replacement(x):
        return x.to(torch.float64)


class ExactFunctionMovesPastWidening(Rule):
    """A function that rounds nothing may come before or after widening float16."""

    source = "IEEE 754-2019, section 5.4.2"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Float16[Tensor, "*s"], function: Exact):
        return getattr(torch, function)(x.to(torch.float32))

    def replacement(x, function):
        return getattr(torch, function)(x).to(torch.float32)


class ExactFunctionMovesPastWideningOfBrainFloat(Rule):
    """A function that rounds nothing may come before or after widening bfloat16."""

    source = "IEEE 754-2019, section 5.4.2"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: BFloat16[Tensor, "*s"], function: Exact):
        return getattr(torch, function)(x.to(torch.float32))

    def replacement(x, function):
        return getattr(torch, function)(x).to(torch.float32)


class ExtremeMovesPastWidening(Rule):
    """The maximum or minimum of two widened tensors is the widened one."""

    source = "widening preserves the order"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    trainable = True
    bidirectional = True

    def pattern(x: Float16[Tensor, "*s"], y: Float16[Tensor, "*s"], extreme: Literal["maximum", "minimum"]):
        return getattr(torch, extreme)(x.to(torch.float32), y.to(torch.float32))

    def replacement(x, y, extreme):
        return getattr(torch, extreme)(x, y).to(torch.float32)


class ComparisonOfWidened(Rule):
    """Widened values compare as the values do."""

    source = "widening preserves the order"
    equality = Equality.BITWISE

    def pattern(x: Float16[Tensor, "*s"], y: Float16[Tensor, "*s"], relation: Literal["lt", "le", "eq", "ne"]):
        return getattr(torch, relation)(x.to(torch.float32), y.to(torch.float32))

    def replacement(x, y, relation):
        return getattr(torch, relation)(x, y)


class CastMovesPastTranspose(Rule):
    """A cast may come before or after a transposition."""

    source = "pointwise functions act on single elements"
    equality = Equality.BITWISE
    requires = [Requires("the axes are told apart, the first before the second", lambda first, second: first < second)]
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s"], target: Target, first: Axis, second: Axis):
        return x.transpose(first, second).to(getattr(torch, target))

    def replacement(x, target, first, second):
        return x.to(getattr(torch, target)).transpose(first, second)


class CastMovesPastFlatten(Rule):
    """A cast may come before or after two axes are flattened into one."""

    source = "pointwise functions act on single elements"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s a b"], target: Target):
        return x.flatten(-2).to(getattr(torch, target))

    def replacement(x, target):
        return x.to(getattr(torch, target)).flatten(-2)


class CastMovesOutOfConcatenation(Rule):
    """Casts of the parts, joined, are the cast of the joined parts."""

    source = "pointwise functions act on single elements"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s1"], y: Float[Tensor, "*s2"], target: Target, axis: Axis):
        return torch.cat((x.to(getattr(torch, target)), y.to(getattr(torch, target))), axis)

    def replacement(x, y, target, axis):
        return torch.cat((x, y), axis).to(getattr(torch, target))


class TruthThroughNumber(Rule):
    """A condition as a number and back is the condition."""

    source = "PyTorch: false is 0 and true is 1, and what is not 0 is true"
    settles = True
    equality = Equality.BITWISE

    def pattern(condition: Bool[Tensor, "*s"], target: Literal["float32", "float16", "int64", "uint8"]):
        return condition.to(getattr(torch, target)).to(torch.bool)

    def replacement(condition, target):
        return condition


class IntegerThroughDouble(Rule):
    """A 32-bit integer held in a float64 or an int64 and cast back is unchanged."""

    source = "IEEE 754-2019: float64 holds every integer up to 2^53"
    settles = True
    equality = Equality.BITWISE

    def pattern(x: Int32[Tensor, "*s"], wide: Literal["float64", "int64"]):
        return x.to(getattr(torch, wide)).to(torch.int32)

    def replacement(x, wide):
        return x


class ConjunctionAsProduct(Rule):
    """The product of two conditions as numbers is their conjunction as a number."""

    source = "0 and 1 multiply as false and true conjoin"
    equality = Equality.BITWISE
    bidirectional = True

    def pattern(x: Bool[Tensor, "*s"], y: Bool[Tensor, "*s"], target: Literal["float32", "float16", "int64"]):
        return x.to(getattr(torch, target)) * y.to(getattr(torch, target))

    def replacement(x, y, target):
        return (x & y).to(getattr(torch, target))
