"""Embeddings and selections by position.

A lookup takes whole rows, so every function of rows moves into the table: there it runs once per row of the table instead
of once per position. A lookup is the product with one-hot rows; lookups compose by looking positions up.
v rows of d features in a table, positions *s within it.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from rewrites import Axis, Change, Equality, Rule, Weight

Positions = Int64[Tensor, "*s"]
Row = Int64[Tensor, "k"]
Table = Weight[Float[Tensor, "v d"]]
Unary = Literal["relu", "sigmoid", "tanh", "exp", "neg", "abs", "square"]


class EmbeddingAsMatMul(Rule):
    """A lookup is the product of one-hot rows with the table."""

    source = "Bengio et al. 2003, section 2"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)
    trainable = True
    bidirectional = True

    def pattern(positions: Int64[Tensor, "*s m"], table: Float[Tensor, "v d"]):
        return torch.matmul(F.one_hot(positions, table.shape[0]).to(table.dtype), table)

    def replacement(positions, table):
        return F.embedding(positions, table)


class LinearMovesIntoEmbedding(Rule):
    """A linear layer of looked-up rows is a lookup in the linear layer of the table."""

    source = "a lookup takes whole rows"
    tried = True
    equality = Equality.REAL
    trainable = True

    def pattern(positions: Positions, table: Table, weight: Weight[Float[Tensor, "o d"]], bias: Weight[Float[Tensor, "o"]]):
        return F.linear(F.embedding(positions, table), weight, bias)

    def replacement(positions, table, weight, bias):
        return F.embedding(positions, F.linear(table, weight, bias))


class FunctionMovesIntoEmbedding(Rule):
    """A pointwise function of looked-up rows is a lookup in the function of the table."""

    source = "a lookup takes whole rows"
    tried = True
    equality = Equality.REAL
    trainable = True

    def pattern(positions: Positions, table: Table, function: Unary):
        return getattr(torch, function)(F.embedding(positions, table))

    def replacement(positions, table, function):
        return F.embedding(positions, getattr(torch, function)(table))


class ScalarFactorMovesIntoEmbedding(Rule):
    """A scalar factor of looked-up rows scales the table."""

    source = "Vaswani et al. 2017, section 3.4"
    tried = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(positions: Positions, table: Table, factor: float):
        return F.embedding(positions, table) * factor

    def replacement(positions, table, factor):
        return F.embedding(positions, table * factor)


class ShiftMovesIntoEmbedding(Rule):
    """A vector added to all looked-up rows is added to the rows of the table, as with one token type."""

    source = "Devlin et al. 2019 (BERT), section 3.2"
    tried = True
    equality = Equality.BITWISE
    trainable = True

    def pattern(positions: Positions, table: Table, shift: Weight[Float[Tensor, "d"]]):
        return F.embedding(positions, table) + shift

    def replacement(positions, table, shift):
        return F.embedding(positions, table + shift)


class LayerNormMovesIntoEmbedding(Rule):
    """A layer norm of looked-up rows is a lookup in the layer norm of the table."""

    source = "a lookup takes whole rows"
    equality = Equality.REAL

    def pattern(positions: Positions, table: Table, gamma: Weight[Float[Tensor, "d"]], beta: Weight[Float[Tensor, "d"]], eps: float):
        return F.layer_norm(F.embedding(positions, table), (table.shape[1],), gamma, beta, eps)

    def replacement(positions, table, gamma, beta, eps):
        return F.embedding(positions, F.layer_norm(table, (table.shape[1],), gamma, beta, eps))


class AddEmbeddingsOfOnePosition(Rule):
    """The sum of lookups at the same positions is a lookup in the sum of the tables."""

    source = "a lookup takes whole rows"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(positions: Positions, first: Table, second: Table):
        return F.embedding(positions, first) + F.embedding(positions, second)

    def replacement(positions, first, second):
        return F.embedding(positions, first + second)


class ConcatenateEmbeddingsOfOnePosition(Rule):
    """Lookups at the same positions, side by side, are a lookup in the tables side by side."""

    source = "a lookup takes whole rows"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(positions: Positions, first: Table, second: Weight[Float[Tensor, "v e"]]):
        return torch.cat((F.embedding(positions, first), F.embedding(positions, second)), -1)

    def replacement(positions, first, second):
        return F.embedding(positions, torch.cat((first, second), 1))


class ConcatenateEmbeddingsOfOneTable(Rule):
    """Lookups in one table, one after the other, are a lookup at the joined positions."""

    source = "positions are looked up independently"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(first: Int64[Tensor, "*s m"], second: Int64[Tensor, "*s n"], table: Float[Tensor, "v d"]):
        return torch.cat((F.embedding(first, table), F.embedding(second, table)), -2)

    def replacement(first, second, table):
        return F.embedding(torch.cat((first, second), -1), table)


class SliceOfEmbedding(Rule):
    """Some features of looked-up rows are a lookup in those columns of the table."""

    source = "a lookup takes whole rows"
    equality = Equality.BITWISE
    trainable = True

    def pattern(positions: Positions, table: Table, start: int, length: int):
        return torch.narrow(F.embedding(positions, table), -1, start, length)

    def replacement(positions, table, start, length):
        return F.embedding(positions, torch.narrow(table, 1, start, length))


class EmbeddingAsIndexSelect(Rule):
    """Selecting rows of a table is a lookup."""

    source = "PyTorch, torch.nn.functional.embedding"
    equality = Equality.BITWISE
    trainable = True
    bidirectional = True

    def pattern(positions: Row, table: Float[Tensor, "v d"]):
        return torch.index_select(table, 0, positions)

    def replacement(positions, table):
        return F.embedding(positions, table)


class EmbeddingOfRange(Rule):
    """Looking up every row in order is the table."""

    source = "Radford et al. 2019 (GPT-2): learned positions of a full-length input"
    equality = Equality.BITWISE
    trainable = True

    def pattern(table: Float[Tensor, "v d"]):
        return F.embedding(torch.arange(table.shape[0]), table)

    def replacement(table):
        return table


class SelectionOfSelection(Rule):
    """Selecting among selected slices is one selection at the looked-up positions."""

    source = "index maps compose"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "*s"], first: Row, second: Int64[Tensor, "l"], axis: Axis):
        return torch.index_select(torch.index_select(x, axis, first), axis, second)

    def replacement(x, first, second, axis):
        return torch.index_select(x, axis, torch.index_select(first, 0, second))


class FunctionMovesPastSelection(Rule):
    """A pointwise function may come before or after a selection."""

    source = "pointwise functions act on single elements"
    equality = Equality.REAL
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s"], positions: Row, axis: Axis, function: Unary):
        return getattr(torch, function)(torch.index_select(x, axis, positions))

    def replacement(x, positions, axis, function):
        return torch.index_select(getattr(torch, function)(x), axis, positions)


class SelectedRowsOfMatMul(Rule):
    """Selected rows of a product are the product of the selected rows."""

    source = "rows of a product are independent"
    equality = Equality.REAL
    trainable = True
    bidirectional = True

    def pattern(a: Float[Tensor, "*s m k"], b: Float[Tensor, "*s k n"], positions: Int64[Tensor, "l"]):
        return torch.index_select(torch.matmul(a, b), -2, positions)

    def replacement(a, b, positions):
        return torch.matmul(torch.index_select(a, -2, positions), b)


class SelectionOfWholeRange(Rule):
    """Selecting every position in order changes nothing."""

    source = "index maps compose"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "*s"], axis: Axis):
        return torch.index_select(x, axis, torch.arange(x.shape[axis]))

    def replacement(x, axis):
        return x
