"""Nodes without operands: graph inputs, constants held by the graph, and Python scalars."""

from __future__ import annotations

from typing import Any

from operators.expressions import Dim, Expression
from operators.formulas import at_least_zero
from operators.meaning import constant, convert
from operators.operator import Operator, TensorType, operator, require, torch_dtype
from operators.pointwise import concrete


@operator()
class Input(Operator):
    """An input of the graph."""

    name: str
    type: TensorType

    def outputs(self) -> tuple[TensorType, ...]:
        return (self.type,)

    def flops(self) -> Dim:
        return 0


@operator()
class Constant(Operator):
    """A tensor that the graph holds under `name` (a parameter, a buffer or a folded value)."""

    name: str
    type: TensorType

    def outputs(self) -> tuple[TensorType, ...]:
        return (self.type,)

    def flops(self) -> Dim:
        return 0


@operator()
class Scalar(Operator):
    """A Python number; it promotes by kind only, as PyTorch's scalars do."""

    value: int | float | bool | Any

    def outputs(self) -> tuple[TensorType, ...]:
        kind = "bool" if isinstance(self.value, bool) else "float32" if isinstance(self.value, float) else "int64"
        return (TensorType((), kind, weak=True),)

    def element(self, at: tuple[Any, ...], *, output: int = 0) -> Any:
        return constant(self.value)

    def flops(self) -> Dim:
        return 0

    def run(self) -> Any:
        return self.value


@operator(torch="full")
class Full(Operator):
    """A tensor of one value.

    fill: []   ->   size
    """

    size: tuple[Dim, ...]
    type: str = "float32"

    def shape(self, fill: TensorType) -> tuple[Dim, ...]:
        for dim in self.size:
            require(self, at_least_zero(dim), f"sizes must not be negative, got {', '.join(map(str, self.size))}")
        return self.size

    def dtype(self, fill: TensorType) -> str:
        return self.type

    def element(self, at: tuple[Any, ...], fill: Any, *, output: int = 0) -> Any:
        return convert(fill[()], fill.dtype, self.type)

    def flops(self, fill: TensorType) -> Dim:
        return 0

    def run(self, fill: Any) -> Any:
        import torch

        return torch.full(concrete(self.size), fill, dtype=torch_dtype(self.type))

    def gradient(self, out_grad: Any, fill: Any) -> tuple[Any, ...]:
        return (out_grad.sum() if hasattr(fill, "shape") else None,)

    @classmethod
    def bind(cls, size: Any, fill_value: Any, *, dtype: Any = None, **layout: Any) -> tuple[Operator, list[Any]]:
        import torch

        if dtype is None:
            whole = isinstance(fill_value, (int, Expression))
            dtype = torch.bool if isinstance(fill_value, bool) else torch.int64 if whole else torch.get_default_dtype()
        return cls(tuple(size), str(dtype).removeprefix("torch.")), [fill_value]
