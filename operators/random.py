"""Random draws. A graph holds the operator; the caller seeds torch's generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operators.expressions import Dim, plain
from operators.operator import Effect, Operator, TensorType, Unsupported, alias, operator, torch_dtype
from operators.pointwise import concrete, default_dtype, refuse

Bound = tuple[Operator, Sequence[Any]]


@operator(torch="dropout", onnx="Dropout")
class Dropout(Operator):
    """In training each element is set to 0 with probability p and divided by 1 − p otherwise; outside training x itself.

    x: [*s]   p: []   ->   [*s]
    """

    training: bool = False

    @property
    def effects(self) -> Effect:
        return Effect.RANDOM if self.training else Effect.PURE

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        return operands[0].shape

    def dtype(self, *operands: TensorType) -> str:
        return operands[0].dtype

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        if self.training:
            raise NotImplementedError("Dropout: a random draw has no meaning per element")
        return operands[0][at]

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        return F.dropout(tensors[0], tensors[1], self.training)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        if self.training:
            raise NotImplementedError("Dropout: the gradient needs the mask that was drawn")
        return out_grad, None

    @classmethod
    def bind(cls, input: Any, p: Any = 0.5, training: bool = True, inplace: bool = False) -> Bound:
        refuse(cls, inplace=inplace)
        return cls(bool(training)), [input, p]


@alias("dropout1d dropout2d dropout3d feature_dropout alpha_dropout feature_alpha_dropout")
def _channel_dropout(input: Any, p: Any = 0.5, training: bool = True, inplace: bool = False) -> Bound:
    if training:
        raise Unsupported("Dropout: dropping whole channels, and alpha dropout, are not covered in training")
    return Dropout.bind(input, p, training, inplace)


@alias("native_dropout")
def _native_dropout(input: Any, p: Any, train: bool | None) -> Bound:
    return Dropout.bind(input, p, bool(train))


class Draw(Operator):
    """A tensor of independent draws."""

    size: tuple[Dim, ...]
    type: str

    @property
    def effects(self) -> Effect:
        return Effect.RANDOM

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        return self.size

    def dtype(self, *operands: TensorType) -> str:
        return self.type

    def run(self, *tensors: Any) -> Any:
        import torch

        return (torch.rand if isinstance(self, Uniform) else torch.randn)(concrete(self.size), dtype=torch_dtype(self.type))

    @classmethod
    def bind(cls, *size: Any, dtype: Any = None, **layout: Any) -> Bound:
        refuse(cls, generator=layout.pop("generator", None), out=layout.pop("out", None))
        listed = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
        return cls(plain(tuple(listed)), default_dtype() if dtype is None else str(dtype).removeprefix("torch.")), []  # type: ignore[call-arg]


@operator(torch="rand", onnx="RandomUniform")
class Uniform(Draw):
    """Draws from the uniform distribution over [0, 1)."""

    size: tuple[Dim, ...]
    type: str = "float32"


@operator(torch="randn", onnx="RandomNormal")
class Normal(Draw):
    """Draws from the normal distribution of mean 0 and variance 1."""

    size: tuple[Dim, ...]
    type: str = "float32"
