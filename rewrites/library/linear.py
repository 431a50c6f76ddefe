"""Products of matrices: association, distribution, transposition, scales, and linear layers as products.

(AB)C = A(BC), A(B + C) = AB + AC, (AB)ᵀ = BᵀAᵀ, k(AB) = (kA)B = A(kB); a diagonal factor scales rows or columns.
A linear layer is x·wᵀ + b: its weight w is [n, k]. m rows, n columns, k and l contracted dims.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule, Weight

recombined = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)

Matrix = Weight[Float[Tensor, "n k"]]
PerRow = Weight[Float[Tensor, "n"]]
Rows = Float[Tensor, "*s k"]


class MatMulAssociates(Rule):
    """Products of matrices may be bracketed either way."""

    source = "linear algebra; TASO"
    equality = recombined
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "... m k"], b: Float[Tensor, "... k l"], c: Float[Tensor, "... l n"]):
        return torch.matmul(torch.matmul(a, b), c)

    def replacement(a, b, c):
        return torch.matmul(a, torch.matmul(b, c))


class FactorMatMulLeft(Rule):
    """A common left factor comes out of a sum of products."""

    source = "linear algebra; TASO"
    equality = recombined
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "*s m k"], b: Float[Tensor, "*s k n"], c: Float[Tensor, "*s k n"]):
        return torch.matmul(a, b) + torch.matmul(a, c)

    def replacement(a, b, c):
        return torch.matmul(a, b + c)


class FactorMatMulRight(Rule):
    """A common right factor comes out of a sum of products."""

    source = "linear algebra; TASO"
    equality = recombined
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "*s m k"], b: Float[Tensor, "*s m k"], c: Float[Tensor, "... k n"]):
        return torch.matmul(a, c) + torch.matmul(b, c)

    def replacement(a, b, c):
        return torch.matmul(a + b, c)


class FactorMatMulOfDifference(Rule):
    """A common right factor comes out of a difference of products."""

    source = "linear algebra"
    equality = recombined
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "*s m k"], b: Float[Tensor, "*s m k"], c: Float[Tensor, "... k n"]):
        return torch.matmul(a, c) - torch.matmul(b, c)

    def replacement(a, b, c):
        return torch.matmul(a - b, c)


class TransposeOfMatMul(Rule):
    """The transpose of a product is the product of the transposes in the other order."""

    source = "linear algebra"
    equality = recombined
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "*s m k"], b: Float[Tensor, "*s k n"]):
        return torch.matmul(a, b).transpose(-1, -2)

    def replacement(a, b):
        return torch.matmul(b.transpose(-1, -2), a.transpose(-1, -2))


class ScalarMovesOutOfMatMul(Rule):
    """A scalar factor of the left operand is a factor of the product."""

    source = "linear algebra; XLA algebraic simplifier"
    equality = recombined
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "... m k"], b: Float[Tensor, "... k n"], factor: float):
        return torch.matmul(a * factor, b)

    def replacement(a, b, factor):
        return torch.matmul(a, b) * factor


class ScalarMovesOutOfRightOperand(Rule):
    """A scalar factor of the right operand is a factor of the product."""

    source = "linear algebra; XLA algebraic simplifier"
    equality = recombined
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "... m k"], b: Float[Tensor, "... k n"], factor: float):
        return torch.matmul(a, b * factor)

    def replacement(a, b, factor):
        return torch.matmul(a, b) * factor


class DivisorMovesOutOfMatMul(Rule):
    """A scalar divisor of the left operand is a divisor of the product."""

    source = "linear algebra"
    equality = recombined
    requires = [Requires("the divisor is not zero, which a sum of nothing would not show", lambda divisor: divisor != 0)]
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "... m k"], b: Float[Tensor, "... k n"], divisor: float):
        return torch.matmul(a / divisor, b)

    def replacement(a, b, divisor):
        return torch.matmul(a, b) / divisor


class NegationMovesOutOfMatMul(Rule):
    """The product of a negated matrix is the negated product."""

    source = "linear algebra"
    equality = recombined
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "... m k"], b: Float[Tensor, "... k n"]):
        return torch.matmul(-a, b)

    def replacement(a, b):
        return -torch.matmul(a, b)


class RowScaleMovesOutOfMatMul(Rule):
    """Scaling the rows of the left operand scales the rows of the product."""

    source = "linear algebra: diag(s)·A·B"
    equality = recombined
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "*s m k"], scale: Float[Tensor, "*s m 1"], b: Float[Tensor, "*s k n"]):
        return torch.matmul(a * scale, b)

    def replacement(a, scale, b):
        return torch.matmul(a, b) * scale


class ColumnScaleMovesIntoMatMul(Rule):
    """Scaling the columns of a product scales the columns of its right operand."""

    source = "linear algebra: A·B·diag(s)"
    tried = True
    equality = recombined
    trainable = True

    def pattern(a: Float[Tensor, "*s m k"], b: Weight[Float[Tensor, "k n"]], scale: Weight[Float[Tensor, "n"]]):
        return torch.matmul(a, b) * scale

    def replacement(a, b, scale):
        return torch.matmul(a, b * scale)


class InnerScaleMovesAcrossMatMul(Rule):
    """Scaling the columns of the left operand scales the rows of the right one."""

    source = "linear algebra: (A·diag(s))·B = A·(diag(s)·B)"
    tried = True
    equality = recombined
    trainable = True

    def pattern(a: Float[Tensor, "*s m k"], scale: Weight[Float[Tensor, "k"]], b: Weight[Float[Tensor, "k n"]]):
        return torch.matmul(a * scale, b)

    def replacement(a, scale, b):
        return torch.matmul(a, scale[:, None] * b)


class ShiftIntoLinear(Rule):
    """A vector added to a linear layer is added to its bias."""

    source = "linearity in the bias"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Rows, weight: Matrix, bias: PerRow, shift: PerRow):
        return F.linear(x, weight, bias) + shift

    def replacement(x, weight, bias, shift):
        return F.linear(x, weight, bias + shift)


class ScaleIntoLinear(Rule):
    """Scaling the outputs of a linear layer scales its weight's rows and its bias."""

    source = "linearity in the weight"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Rows, weight: Matrix, bias: PerRow, scale: PerRow):
        return F.linear(x, weight, bias) * scale

    def replacement(x, weight, bias, scale):
        return F.linear(x, weight * scale[:, None], bias * scale)


class ScalarFactorIntoLinear(Rule):
    """A scalar factor of a linear layer scales its weight and its bias."""

    source = "linearity in the weight"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Rows, weight: Matrix, bias: PerRow, factor: float):
        return F.linear(x, weight, bias) * factor

    def replacement(x, weight, bias, factor):
        return F.linear(x, weight * factor, bias * factor)


class ScalarDivisorIntoLinear(Rule):
    """A scalar divisor of a linear layer divides its weight and its bias."""

    source = "linearity in the weight"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Rows, weight: Matrix, bias: PerRow, divisor: float):
        return F.linear(x, weight, bias) / divisor

    def replacement(x, weight, bias, divisor):
        return F.linear(x, weight / divisor, bias / divisor)


class InputScaleIntoLinear(Rule):
    """Scaling the inputs of a linear layer scales its weight's columns."""

    source = "linearity in the input"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Rows, scale: Weight[Float[Tensor, "k"]], weight: Matrix, bias: PerRow):
        return F.linear(x * scale, weight, bias)

    def replacement(x, scale, weight, bias):
        return F.linear(x, weight * scale, bias)


class InputShiftIntoLinear(Rule):
    """Shifting the inputs of a linear layer shifts its bias by the weight times the shift."""

    source = "linearity in the input"
    settles = True
    equality = recombined
    trainable = True

    def pattern(x: Rows, shift: Weight[Float[Tensor, "k"]], weight: Matrix, bias: PerRow):
        return F.linear(x + shift, weight, bias)

    def replacement(x, shift, weight, bias):
        return F.linear(x, weight, F.linear(shift, weight, bias))


class LinearOfLinear(Rule):
    """Two linear layers with nothing between them are one."""

    source = "composition of affine maps"
    tried = True
    equality = recombined
    trainable = True

    def pattern(x: Rows, inner: Weight[Float[Tensor, "l k"]], inner_bias: Weight[Float[Tensor, "l"]],
                outer: Weight[Float[Tensor, "n l"]], outer_bias: PerRow):  # fmt: skip
        return F.linear(F.linear(x, inner, inner_bias), outer, outer_bias)

    def replacement(x, inner, inner_bias, outer, outer_bias):
        return F.linear(x, torch.matmul(outer, inner), F.linear(inner_bias, outer, outer_bias))


class MergeLowRankUpdate(Rule):
    """A low-rank update beside a linear layer is added to its weight."""

    source = "Hu et al. 2022 (LoRA), section 4.1"
    equality = recombined
    trainable = False

    def pattern(x: Rows, weight: Matrix, bias: PerRow, down: Weight[Float[Tensor, "r k"]], up: Weight[Float[Tensor, "n r"]], factor: float):
        return F.linear(x, weight, bias) + F.linear(F.linear(x, down), up) * factor

    def replacement(x, weight, bias, down, up, factor):
        return F.linear(x, weight + torch.matmul(up, down) * factor, bias)
