"""Pointwise functions of three tensors whose kernels round once where operators of their own would round twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operators.expressions import Dim, product
from operators.meaning import divide
from operators.operator import Operator, TensorType, Unsupported, operator
from operators.pointwise import Pointwise, floating, reduce_to, refuse, same_dtype

Bound = tuple[Operator, Sequence[Any]]


class OfOneDtype(Pointwise):
    """Floating operands of one dtype, and last a number or a tensor of that dtype."""

    def dtype(self, *operands: TensorType) -> str:
        floating(self, operands[0])
        return same_dtype(self, *(operand for operand in operands if not operand.weak))

    def flops(self, *operands: TensorType) -> Dim:
        return 3 * product(self.shape(*operands))


@operator(torch="addcmul")
class AddProduct(OfOneDtype):
    """x + value · a · b, broadcasting.

    x: [*s]   a: [*s]   b: [*s]   value: []   ->   [*s]
    """

    def value(self, *values: Any) -> Any:
        x, a, b, factor = values
        return x + factor * a * b

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        x, a, b, factor = operands
        return reduce_to(out_grad, x), reduce_to(out_grad * b * factor, a), reduce_to(out_grad * a * factor, b), None

    def run(self, *tensors: Any) -> Any:
        import torch

        x, a, b, factor = tensors
        return torch.addcmul(x, a, b, value=factor)

    @classmethod
    def bind(cls, input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1, out: Any = None) -> Bound:
        refuse(cls, out=out)
        return cls(), [input, tensor1, tensor2, value]


@operator(torch="addcdiv")
class AddQuotient(OfOneDtype):
    """x + value · a / b, broadcasting.

    x: [*s]   a: [*s]   b: [*s]   value: []   ->   [*s]
    """

    def value(self, *values: Any) -> Any:
        x, a, b, factor = values
        return x + divide(factor * a, b)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        x, a, b, factor = operands
        by_a = out_grad * factor / b
        return reduce_to(out_grad, x), reduce_to(by_a, a), reduce_to(-by_a * a / b, b), None

    def run(self, *tensors: Any) -> Any:
        import torch

        x, a, b, factor = tensors
        return torch.addcdiv(x, a, b, value=factor)

    @classmethod
    def bind(cls, input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1, out: Any = None) -> Bound:
        refuse(cls, out=out)
        return cls(), [input, tensor1, tensor2, value]


@operator(torch="lerp")
class Lerp(OfOneDtype):
    """From a to b as the weight goes from 0 to 1: a + weight · (b − a), broadcasting.

    a: [*s]   b: [*s]   weight: [*s]   ->   [*s]
    """

    def value(self, *values: Any) -> Any:
        a, b, weight = values
        return a + weight * (b - a)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        a, b, weight = operands
        by_weight = reduce_to(out_grad * (b - a), weight) if hasattr(weight, "shape") else None
        return reduce_to(out_grad * (1 - weight), a), reduce_to(out_grad * weight, b), by_weight

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.lerp(*tensors)

    @classmethod
    def bind(cls, input: Any, end: Any, weight: Any, *, out: Any = None) -> Bound:
        refuse(cls, out=out)
        if isinstance(weight, complex):
            raise Unsupported("Lerp: complex weights are not covered")
        return cls(), [input, end, weight]
