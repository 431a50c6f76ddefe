"""Products of matrices in other words: linear layers, sums, outer products, Einstein's notation.

A linear layer is x·wᵀ + b with w: [n, k]. Sums over rows or columns are products with a vector of ones, so they move
through a product; a product over one contracted entry is a broadcast product. m rows, n columns, k contracted.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Rule, Weight

Rows = Float[Tensor, "*s k"]

recombined = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)


class LinearAsMatMul(Rule):
    """A linear layer without bias is the product with the transposed weight."""

    source = "PyTorch, torch.nn.functional.linear"
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s m k"], weight: Float[Tensor, "n k"]):
        return F.linear(x, weight)

    def replacement(x, weight):
        return torch.matmul(x, weight.transpose(-1, -2))


class BiasIntoLinear(Rule):
    """A vector added to a linear layer without bias is its bias."""

    source = "PyTorch, torch.nn.functional.linear"
    trainable = True
    bidirectional = True

    def pattern(x: Rows, weight: Float[Tensor, "n k"], bias: Float[Tensor, "n"]):
        return F.linear(x, weight) + bias

    def replacement(x, weight, bias):
        return F.linear(x, weight, bias)


class BiasedMatMulAsLinear(Rule):
    """A product with a matrix plus a vector per column is a linear layer of the transposed matrix."""

    source = "ONNX Runtime, MatMulAddFusion"
    tried = True
    trainable = True

    def pattern(x: Float[Tensor, "*s m k"], weight: Weight[Float[Tensor, "k n"]], bias: Weight[Float[Tensor, "n"]]):
        return torch.matmul(x, weight) + bias

    def replacement(x, weight, bias):
        return F.linear(x, weight.transpose(0, 1), bias)


class OuterProductAsBroadcast(Rule):
    """The product of a column and a row is their broadcast product."""

    source = "linear algebra"
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "*s m 1"], b: Float[Tensor, "*s 1 n"]):
        return torch.matmul(a, b)

    def replacement(a, b):
        return a * b


class RowOfProductsAsMatMul(Rule):
    """The sum of products over the last axis is the product of a row with a column."""

    source = "linear algebra"
    equality = recombined
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "*s k"], b: Float[Tensor, "*s k"]):
        return (a * b).sum(-1)

    def replacement(a, b):
        return torch.matmul(a[..., None, :], b[..., None])[..., 0, 0]


class SumOfMatMulColumns(Rule):
    """The row sums of a product are the product with the row sums of the right operand."""

    source = "XLA algebraic simplifier; 1 is a vector: (A·B)·1 = A·(B·1)"
    equality = recombined
    trainable = True

    def pattern(a: Float[Tensor, "*s m k"], b: Float[Tensor, "*s k n"]):
        return torch.matmul(a, b).sum(-1)

    def replacement(a, b):
        return torch.matmul(a, b.sum(-1, keepdim=True))[..., 0]


class SumOfMatMulRows(Rule):
    """The column sums of a product are the product of the column sums of the left operand."""

    source = "XLA algebraic simplifier; 1 is a vector: 1ᵀ·(A·B) = (1ᵀ·A)·B"
    equality = recombined
    trainable = True

    def pattern(a: Float[Tensor, "*s m k"], b: Float[Tensor, "*s k n"]):
        return torch.matmul(a, b).sum(-2, keepdim=True)

    def replacement(a, b):
        return torch.matmul(a.sum(-2, keepdim=True), b)


class MeanOfLinear(Rule):
    """The mean of a linear layer over positions is the linear layer of the mean."""

    source = "linearity in the input"
    equality = recombined
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s m k"], weight: Float[Tensor, "n k"], bias: Float[Tensor, "n"]):
        return F.linear(x, weight, bias).mean(-2)

    def replacement(x, weight, bias):
        return F.linear(x.mean(-2), weight, bias)


class FlattenRowsOfMatMul(Rule):
    """Rows of a batch times one matrix are the rows of one taller matrix."""

    source = "ONNX Runtime, MatMul with a shared right operand"
    tried = True
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "b m k"], w: Float[Tensor, "k n"]):
        return torch.matmul(a, w)

    def replacement(a, w):
        return torch.matmul(a.flatten(0, 1), w).unflatten(0, (a.shape[0], a.shape[1]))


class EinsumAsMatMul(Rule):
    """Contracting the last axis with the second to last one is a product of matrices."""

    source = "Einstein notation"
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "b m k"], b: Float[Tensor, "b k n"]):
        return torch.einsum("bmk,bkn->bmn", a, b)

    def replacement(a, b):
        return torch.matmul(a, b)


class EinsumAsMatMulTransposed(Rule):
    """Contracting the last axes of queries and keys is a product with the transposed keys."""

    source = "Einstein notation; Vaswani et al. 2017, section 3.2.1"
    trainable = True
    bidirectional = True

    def pattern(q: Float[Tensor, "b h m k"], p: Float[Tensor, "b h n k"]):
        return torch.einsum("bhmk,bhnk->bhmn", q, p)

    def replacement(q, p):
        return torch.matmul(q, p.transpose(-1, -2))


class EinsumAsOuterProduct(Rule):
    """Einstein's notation without a contracted axis is a broadcast product."""

    source = "Einstein notation"
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "m"], b: Float[Tensor, "n"]):
        return torch.einsum("m,n->mn", a, b)

    def replacement(a, b):
        return a[:, None] * b[None, :]
