"""Products of matrices, einsums, attention."""

from __future__ import annotations

import math

from graphs.onnx.errors import OnnxError
from graphs.onnx.writing.registry import Spelling, spells
from operators.expressions import floor_divide


@spells("MatMul")
def matmul(spelling: Spelling) -> str:
    return str(spelling.emit("MatMul", spelling[0], spelling[1]))


@spells("Linear")
def linear(spelling: Spelling) -> str:
    """Gemm for two axes; elsewhere a product with the transposed weight, which is transposed here where the graph holds it."""
    if spelling.type(0).ndim == 2:
        return str(spelling.emit("Gemm", spelling[0], spelling[1], spelling[2], transB=1))
    weight = spelling.tensor(1)
    flipped = spelling.held("weight", weight.detach().t()) if weight is not None else spelling.emit("Transpose", spelling[1], perm=[1, 0])
    product = spelling.emit("MatMul", spelling[0], flipped)
    return str(spelling.emit("Add", product, spelling[2]) if spelling.has(2) else product)


@spells("AddMatMul")
def add_matmul(spelling: Spelling) -> str:
    beta, alpha = (spelling.number(position) for position in (3, 4))
    dtype = spelling.out.dtype
    if spelling.type(1).ndim == 2 and beta is not None and alpha is not None:
        return str(spelling.emit("Gemm", spelling[1], spelling[2], spelling[0], alpha=float(alpha), beta=float(beta)))
    product = spelling.emit("MatMul", spelling[1], spelling[2])
    if alpha != 1:
        product = spelling.emit("Mul", product, spelling.at(4, dtype))
    bias = spelling[0] if beta == 1 else spelling.emit("Mul", spelling[0], spelling.at(3, dtype))
    return str(spelling.emit("Add", product, bias))


@spells("Einsum")
def einsum(spelling: Spelling) -> str:
    spelling.need(12, "Einsum")
    operands = [spelling[position] for position in range(len(spelling.operands))]
    return str(spelling.emit("Einsum", *operands, equation=spelling.operator.equation))


@spells("Attention")
def attention(spelling: Spelling) -> str:
    """softmax(scale · q kᵀ + mask) v, written out; keys that serve several queries meet them along an axis of their own."""
    query, key, value, operator = (*map(spelling.type, range(3)), spelling.operator)
    if not query.ndim == key.ndim == value.ndim:
        raise OnnxError(f"{operator}: query, key and value must have as many axes, got {query}, {key} and {value}")
    *lead, width = spelling.out.shape
    scores, keys, values = _scaled_query(spelling), spelling[1], spelling[2]
    if operator.grouped:
        heads = key.shape[-3]
        grouped = [*query.shape[:-3], heads, floor_divide(query.shape[-3], heads)]
        scores = spelling.reshape(scores, [*grouped, *query.shape[-2:]])
        keys, values = (
            spelling.reshape(spelling[place], [*kind.shape[:-2], 1, *kind.shape[-2:]]) for place, kind in ((1, key), (2, value))
        )
    scores = spelling.emit("MatMul", scores, spelling.emit("Transpose", keys, perm=_last_two_exchanged(key.ndim + operator.grouped)))
    if operator.grouped:
        scores = spelling.reshape(scores, [*lead, key.shape[-2]])
    weights = _weights(spelling, scores)
    if not operator.grouped:
        return str(spelling.emit("MatMul", weights, values))
    weights = spelling.reshape(weights, [*grouped, query.shape[-2], key.shape[-2]])
    return spelling.reshape(spelling.emit("MatMul", weights, values), [*lead, width])


def _scaled_query(spelling: Spelling) -> str:
    """The query times the scale, or over the root of its width."""
    dtype, width, scale = spelling.out.dtype, spelling.type(0).shape[-1], spelling.number(4) if spelling.has(4) else None
    if spelling.has(4):
        factor = spelling.at(4, dtype) if scale is None else spelling.constant(float(scale), dtype)
    elif isinstance(width, int):
        factor = spelling.constant(1 / math.sqrt(width), dtype)
    else:
        root = spelling.emit("Sqrt", spelling.cast(spelling.size(width), dtype))
        return str(spelling.emit("Div", spelling[0], root))
    return str(spelling.emit("Mul", spelling[0], factor))


def _weights(spelling: Spelling, scores: str) -> str:
    """The softmax over the keys; what a mask leaves nothing of is 0."""
    dtype, axis = spelling.out.dtype, spelling.out.ndim - 1
    if spelling.has(3) and spelling.type(3).dtype != "bool":
        return str(spelling.emit("Softmax", spelling.emit("Add", scores, spelling.at(3, dtype)), axis=axis))
    if not spelling.has(3) and not spelling.operator.causal:
        return str(spelling.emit("Softmax", scores, axis=axis))
    mask = _up_to_the_query(spelling) if spelling.operator.causal else spelling[3]
    kept = spelling.emit("Where", mask, scores, spelling.constant(-math.inf, dtype))
    weights = spelling.emit("Softmax", kept, axis=axis)
    return str(spelling.emit("Where", mask, weights, spelling.constant(0.0, dtype)))


def _up_to_the_query(spelling: Spelling) -> str:
    """Which keys are not behind a query: [l, s]."""
    first, step = (spelling.constant(number, "int64") for number in (0, 1))
    rows, columns = (
        spelling.emit("Range", first, spelling.emit("Squeeze", spelling.size(spelling.type(place).shape[-2])), step) for place in (0, 1)
    )
    rows = spelling.emit("Unsqueeze", rows, *spelling.axes([1]), **spelling.axes_attribute([1]))
    return str(spelling.emit("Not", spelling.emit("Less", rows, columns)))


def _last_two_exchanged(ndim: int) -> list[int]:
    return [*range(ndim - 2), ndim - 1, ndim - 2]
