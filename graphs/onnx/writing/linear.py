"""Products of matrices, einsums, attention."""

from __future__ import annotations

import math

from graphs.onnx.errors import OnnxError
from graphs.onnx.writing.registry import Spelling, spells


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
    """softmax(scale · q kᵀ + mask) v, written out."""
    query, dtype, operator = spelling.type(0), spelling.out.dtype, spelling.operator
    width = query.shape[-1]
    key_type = spelling.type(1)
    if operator.grouped or operator.causal or query.ndim != key_type.ndim:
        raise OnnxError(f"{operator}: grouped or causal attention is not written yet")
    order = [*range(key_type.ndim - 2), key_type.ndim - 1, key_type.ndim - 2]
    scale = spelling.number(4) if spelling.has(4) else None
    if scale is None:
        if spelling.has(4) or not isinstance(width, int):
            raise OnnxError(f"{operator}: the scale must be a number")
        scale = 1 / math.sqrt(width)
    scaled = spelling.emit("Mul", spelling[0], spelling.constant(float(scale), dtype))
    scores = spelling.emit("MatMul", scaled, spelling.emit("Transpose", spelling[1], perm=order))
    if not spelling.has(3):
        return str(spelling.emit("MatMul", spelling.emit("Softmax", scores, axis=query.ndim - 1), spelling[2]))
    if spelling.type(3).dtype != "bool":
        scores = spelling.emit("Add", scores, spelling.at(3, dtype))
        return str(spelling.emit("MatMul", spelling.emit("Softmax", scores, axis=query.ndim - 1), spelling[2]))
    mask = spelling[3]
    kept = spelling.emit("Where", mask, scores, spelling.constant(-math.inf, dtype))
    weights = spelling.emit("Softmax", kept, axis=query.ndim - 1)
    weights = spelling.emit("Where", mask, weights, spelling.constant(0.0, dtype))
    return str(spelling.emit("MatMul", weights, spelling[2]))
