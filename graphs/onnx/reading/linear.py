"""Products of matrices."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from graphs.onnx.reading.registry import Node, reads


@reads("MatMul")
def matmul(node: Node) -> Any:
    return torch.matmul(node[0], node[1])


@reads("Gemm")
def gemm(node: Node) -> Any:
    """alpha · a · b + beta · c, with a and b transposed where asked; c broadcasts."""
    a, b = node[0], node[1]
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    if node.attribute("transA", 0):
        a = a.transpose(0, 1)
    c = node.optional(2) if beta != 0 else None
    flipped = bool(node.attribute("transB", 0))
    if alpha == 1.0 and flipped and (c is None or (beta == 1.0 and c.ndim == 1 and c.shape[0] == b.shape[0])):
        return F.linear(a, b, c)
    product = torch.matmul(a, b.transpose(0, 1) if flipped else b)
    if alpha != 1.0:
        product = torch.mul(product, alpha)
    if c is None:
        return product
    return torch.add(product, c if beta == 1.0 else torch.mul(c, beta))


@reads("Einsum")
def einsum(node: Node) -> Any:
    return torch.einsum(node.attribute("equation").replace(" ", ""), *node.inputs())
