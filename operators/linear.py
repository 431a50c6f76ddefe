"""Matrix products: m rows, n columns, k the contracted dim."""

from __future__ import annotations

from typing import Any

from operators.expressions import Dim, equal, product
from operators.meaning import total
from operators.operator import Operator, TensorType, broadcast, broadcast_index, operator, require


@operator(torch="matmul mm bmm __matmul__ __rmatmul__", onnx="MatMul")
class MatMul(Operator):
    """Product of two matrices, over any batch dimensions (which broadcast).

    a: [*batch, m, k]   b: [*batch, k, n]   ->   [*batch, m, n]
    """

    def shape(self, a: TensorType, b: TensorType) -> tuple[Dim, ...]:
        require(self, a.ndim >= 2 and b.ndim >= 2, f"operands must have at least 2 axes, got {a.ndim} and {b.ndim}")
        require(self, equal(a.shape[-1], b.shape[-2]), f"columns of a and rows of b must be equal, got {a.shape[-1]} and {b.shape[-2]}")
        return (*broadcast(self, a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])

    def element(self, at: tuple[Any, ...], a: Any, b: Any, output: int = 0) -> Any:
        *batch, i, j = at
        left, right = broadcast_index(batch, a.shape[:-2]), broadcast_index(batch, b.shape[:-2])
        return total(a.shape[-1], lambda k: a[*left, i, k] * b[*right, k, j])

    def flops(self, a: TensorType, b: TensorType) -> Dim:
        return 2 * product(self.shape(a, b)) * a.shape[-1]

    def gradient(self, out_grad: Any, a: Any, b: Any) -> tuple[Any, ...]:
        return out_grad @ b.mT, a.mT @ out_grad

    def run(self, a: Any, b: Any) -> Any:
        import torch

        return torch.matmul(a, b)
