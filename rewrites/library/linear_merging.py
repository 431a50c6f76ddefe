"""Several products of matrices as one, and one as several: block matrices.

A·[B C] = [A·B  A·C];  [A; B]·C = [A·C; B·C];  [A B]·[C; D] = A·C + B·D.
The multi-root laws give the parts back by a split.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Rule, Weight

Rows = Float[Tensor, "*s k"]

recombined = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)


class ConcatenateMatMulColumns(Rule):
    """Products with a common left operand, side by side, are one product with the right operands side by side."""

    source = "block matrices; TASO"
    tried = True
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "*s m k"], b: Float[Tensor, "*s k n"], c: Float[Tensor, "*s k p"]):
        return torch.cat((torch.matmul(a, b), torch.matmul(a, c)), -1)

    def replacement(a, b, c):
        return torch.matmul(a, torch.cat((b, c), -1))


class ConcatenateMatMulRows(Rule):
    """Products with a common right operand, one above the other, are one product of the left operands one above the other."""

    source = "block matrices; TASO"
    tried = True
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "*s m k"], b: Float[Tensor, "*s p k"], c: Float[Tensor, "*s k n"]):
        return torch.cat((torch.matmul(a, c), torch.matmul(b, c)), -2)

    def replacement(a, b, c):
        return torch.matmul(torch.cat((a, b), -2), c)


class AddMatMulsAsOne(Rule):
    """A sum of products is the product of the left operands side by side with the right ones one above the other."""

    source = "block matrices; TASO"
    equality = recombined
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "*s m k"], b: Float[Tensor, "*s k n"], c: Float[Tensor, "*s m l"], d: Float[Tensor, "*s l n"]):
        return torch.matmul(a, b) + torch.matmul(c, d)

    def replacement(a, b, c, d):
        return torch.matmul(torch.cat((a, c), -1), torch.cat((b, d), -2))


class MergeParallelMatMuls(Rule):
    """Two products with a common left operand are the parts of one product."""

    source = "block matrices; TASO"
    tried = True
    trainable = True

    def pattern(a: Float[Tensor, "*s m k"], b: Float[Tensor, "*s k n"], c: Float[Tensor, "*s k p"]):
        return torch.matmul(a, b), torch.matmul(a, c)

    def replacement(a, b, c):
        return torch.split(torch.matmul(a, torch.cat((b, c), -1)), (b.shape[-1], c.shape[-1]), -1)


class MergeMatMulsOfOneRightOperand(Rule):
    """Two products with a common right operand are the parts of one product."""

    source = "block matrices; TASO"
    trainable = True

    def pattern(a: Float[Tensor, "*s m k"], b: Float[Tensor, "*s p k"], c: Float[Tensor, "*s k n"]):
        return torch.matmul(a, c), torch.matmul(b, c)

    def replacement(a, b, c):
        return torch.split(torch.matmul(torch.cat((a, b), -2), c), (a.shape[-2], b.shape[-2]), -2)


class StackMatMuls(Rule):
    """Products of equal sizes, stacked, are one batched product."""

    source = "batched products"
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"], c: Float[Tensor, "m k"], d: Float[Tensor, "k n"]):
        return torch.stack((torch.matmul(a, b), torch.matmul(c, d)))

    def replacement(a, b, c, d):
        return torch.matmul(torch.stack((a, c)), torch.stack((b, d)))


class MergeIndependentMatMuls(Rule):
    """Two independent products of equal sizes are the samples of one batched product."""

    source = "batched products"
    trainable = True

    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"], c: Float[Tensor, "m k"], d: Float[Tensor, "k n"]):
        return torch.matmul(a, b), torch.matmul(c, d)

    def replacement(a, b, c, d):
        both = torch.matmul(torch.stack((a, c)), torch.stack((b, d)))
        return both[0], both[1]


class MergeParallelLinears(Rule):
    """Two linear layers of one input are the parts of one linear layer."""

    source = "block matrices; Narayanan et al. 2021, section 4.2"
    tried = True
    trainable = True

    def pattern(x: Rows, v: Weight[Float[Tensor, "n k"]], w: Weight[Float[Tensor, "p k"]], a: Weight[Float[Tensor, "n"]],
                b: Weight[Float[Tensor, "p"]]):  # fmt: skip
        return F.linear(x, v, a), F.linear(x, w, b)

    def replacement(x, v, w, a, b):
        return torch.split(F.linear(x, torch.cat((v, w)), torch.cat((a, b))), (v.shape[0], w.shape[0]), -1)


class ConcatenateLinears(Rule):
    """Linear layers of one input, side by side, are one linear layer."""

    source = "block matrices"
    tried = True
    trainable = True
    bidirectional = True

    def pattern(x: Rows, v: Float[Tensor, "n k"], w: Float[Tensor, "p k"], a: Float[Tensor, "n"], b: Float[Tensor, "p"]):
        return torch.cat((F.linear(x, v, a), F.linear(x, w, b)), -1)

    def replacement(x, v, w, a, b):
        return F.linear(x, torch.cat((v, w)), torch.cat((a, b)))


class AddLinearsOfOneInput(Rule):
    """The sum of two linear layers of one input is one linear layer by the sum of the weights."""

    source = "linearity in the weight"
    equality = recombined
    trainable = True

    def pattern(x: Rows, v: Float[Tensor, "n k"], w: Float[Tensor, "n k"], a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return F.linear(x, v, a) + F.linear(x, w, b)

    def replacement(x, v, w, a, b):
        return F.linear(x, v + w, a + b)


class AddLinearsOfOneWeight(Rule):
    """The sum of linear layers of two inputs by one weight is one linear layer of the sum."""

    source = "linearity in the input"
    equality = recombined
    trainable = True

    def pattern(x: Rows, y: Rows, w: Float[Tensor, "n k"], a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return F.linear(x, w, a) + F.linear(y, w, b)

    def replacement(x, y, w, a, b):
        return F.linear(x + y, w, a + b)


class AddLinearsAsOne(Rule):
    """The sum of linear layers of two inputs is one linear layer of the inputs side by side."""

    source = "block matrices"
    equality = recombined
    trainable = True

    def pattern(x: Float[Tensor, "*s k"], y: Float[Tensor, "*s l"], v: Float[Tensor, "n k"], w: Float[Tensor, "n l"],
                a: Float[Tensor, "n"], b: Float[Tensor, "n"]):  # fmt: skip
        return F.linear(x, v, a) + F.linear(y, w, b)

    def replacement(x, y, v, w, a, b):
        return F.linear(torch.cat((x, y), -1), torch.cat((v, w), 1), a + b)


class LinearOfConcatenation(Rule):
    """A linear layer of inputs side by side is the sum of linear layers by the two parts of the weight."""

    source = "block matrices"
    equality = recombined
    trainable = True

    def pattern(x: Float[Tensor, "*s k"], y: Float[Tensor, "*s l"], w: Float[Tensor, "n k+l"], b: Float[Tensor, "n"]):
        return F.linear(torch.cat((x, y), -1), w, b)

    def replacement(x, y, w, b):
        k = x.shape[-1]
        return F.linear(x, w[:, :k], b) + F.linear(y, w[:, k:])


class SliceOfLinear(Rule):
    """The first outputs of a linear layer are the linear layer by the first rows of its weight."""

    source = "outputs of a linear layer are independent"
    trainable = True

    def pattern(x: Rows, w: Weight[Float[Tensor, "n k"]], b: Weight[Float[Tensor, "n"]], kept: int):
        return F.linear(x, w, b)[..., :kept]

    def replacement(x, w, b, kept):
        return F.linear(x, w[:kept], b[:kept])


class SliceOfMatMulRows(Rule):
    """Some rows of a product are the product of those rows."""

    source = "rows of a product are independent"
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "*s m k"], b: Float[Tensor, "*s k n"], start: int, stop: int):
        return torch.matmul(a, b)[..., start:stop, :]

    def replacement(a, b, start, stop):
        return torch.matmul(a[..., start:stop, :], b)


class LinearMovesPastTransposedPositions(Rule):
    """A linear layer acts at every position alike: exchanging positions before or after it is the same."""

    source = "a linear layer acts on the last axis only"
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s m l k"], weight: Float[Tensor, "n k"], bias: Float[Tensor, "n"]):
        return F.linear(x.transpose(-2, -3), weight, bias)

    def replacement(x, weight, bias):
        return F.linear(x, weight, bias).transpose(-2, -3)
