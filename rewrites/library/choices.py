"""Choices by a condition: `where`.

`where` takes whole elements, so every pointwise function moves through it; choosing by an order is a maximum or minimum,
choosing by a sign a magnitude or relu, except that comparisons with NaN are false.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from rewrites import Change, Equality, Rule

Elements = Float[Tensor, "..."]
Shaped = Float[Tensor, "*s"]
Truths = Bool[Tensor, "..."]
Unary = Literal["relu", "sigmoid", "tanh", "exp", "neg", "abs", "square"]
Binary = Literal["add", "sub", "mul", "div"]

exact_but_zero = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
exact_but_special = Equality.BITWISE.allowing(Change.NAN_INF, Change.SIGNED_ZERO)


class ChoiceByOrderIsMaximum(Rule):
    """Choosing the larger of two values is the maximum."""

    source = "definition of the maximum; comparisons with NaN are false"
    equality = exact_but_special

    def pattern(x: Elements, y: Elements):
        return torch.where(x > y, x, y)

    def replacement(x, y):
        return torch.maximum(x, y)


class ChoiceByOrderIsMinimum(Rule):
    """Choosing the smaller of two values is the minimum."""

    source = "definition of the minimum; comparisons with NaN are false"
    equality = exact_but_special

    def pattern(x: Elements, y: Elements):
        return torch.where(x < y, x, y)

    def replacement(x, y):
        return torch.minimum(x, y)


class ChoiceBySignIsMagnitude(Rule):
    """Negating what is negative is the magnitude."""

    source = "definition of the magnitude"
    equality = exact_but_zero
    trainable = True

    def pattern(x: Elements):
        return torch.where(x < 0, -x, x)

    def replacement(x):
        return torch.abs(x)


class ChoiceBySignIsRelu(Rule):
    """Keeping what is positive, else zero, is relu."""

    source = "definition of relu; comparisons with NaN are false"
    equality = exact_but_special
    trainable = True

    def pattern(x: Elements):
        return torch.where(x > 0, x, 0.0)

    def replacement(x):
        return F.relu(x)


class ChoiceOfSame(Rule):
    """Choosing between a value and itself is that value."""

    source = "definition of where"
    equality = Equality.BITWISE
    trainable = True

    def pattern(condition: Bool[Tensor, "*s"], x: Shaped):
        return torch.where(condition, x, x)

    def replacement(condition, x):
        return x


class ChoiceByNegation(Rule):
    """Choosing by a negated condition is choosing the other way round."""

    source = "definition of where"
    equality = Equality.BITWISE
    trainable = True

    def pattern(condition: Truths, x: Elements, y: Elements):
        return torch.where(~condition, x, y)

    def replacement(condition, x, y):
        return torch.where(condition, y, x)


class ChoiceWithinChoice(Rule):
    """Where a condition holds, choosing by it again is choosing its first value."""

    source = "definition of where"
    equality = Equality.BITWISE
    trainable = True

    def pattern(condition: Bool[Tensor, "*s"], x: Shaped, y: Shaped, z: Shaped):
        return torch.where(condition, torch.where(condition, x, y), z)

    def replacement(condition, x, y, z):
        return torch.where(condition, x, z)


class NestedChoicesAreOne(Rule):
    """Choosing under two conditions in turn, with one alternative, is choosing under both."""

    source = "definition of where"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(first: Truths, second: Truths, x: Elements, y: Elements):
        return torch.where(first, torch.where(second, x, y), y)

    def replacement(first, second, x, y):
        return torch.where(first & second, x, y)


class FunctionMovesIntoChoice(Rule):
    """A pointwise function of a choice is the choice of the functions."""

    source = "where chooses whole elements"
    equality = Equality.REAL
    trainable = True
    bidirectional = True

    def pattern(condition: Truths, x: Elements, y: Elements, function: Unary):
        return torch.where(condition, getattr(torch, function)(x), getattr(torch, function)(y))

    def replacement(condition, x, y, function):
        return getattr(torch, function)(torch.where(condition, x, y))


class OperationMovesOutOfChoice(Rule):
    """A common second operand comes out of a choice."""

    source = "where chooses whole elements"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(condition: Truths, x: Elements, y: Elements, z: Elements, operation: Binary):
        return torch.where(condition, getattr(torch, operation)(x, z), getattr(torch, operation)(y, z))

    def replacement(condition, x, y, z, operation):
        return getattr(torch, operation)(torch.where(condition, x, y), z)


class MaskProductAsChoice(Rule):
    """A product with a condition as 0 and 1 is the choice between the value and zero."""

    source = "field axioms; zero times infinity is NaN"
    equality = exact_but_special

    def pattern(condition: Truths, x: Elements):
        return x * condition.to(x.dtype)

    def replacement(condition, x):
        return torch.where(condition, x, 0.0)
