"""Classes of operators that run alike on a processor: a fitted device has rates for each, where one peak for all would be far off."""

from __future__ import annotations

from operators.activations import Activation, Sigmoid, Tanh
from operators.attention import Attention
from operators.convolution import ConvolutionBase
from operators.functions import Function
from operators.operator import Operator, TensorType

_BY_NAME = {
    **dict.fromkeys(("MatMul", "Linear", "AddMatMul", "Einsum"), "matrix product"),
    **dict.fromkeys(("Cat", "Stack", "Pad", "Copy", "Contiguous", "Unfold", "OneHot"), "copy"),
    **dict.fromkeys(("Embedding", "Gather", "IndexSelect", "Index"), "lookup"),
    **dict.fromkeys(("Divide", "Power", "Hardswish", "Hardsigmoid", "Glu"), "pointwise"),
}
_BY_FAMILY = {
    "normalisation": "normalisation",
    "pooling": "pooling",
    "adaptive_pooling": "pooling",
    "interpolation": "pooling",
    **dict.fromkeys(("reductions", "extremes", "spreads", "softmax", "losses"), "reduction"),
}
CLASSES = (
    "convolution",
    "pointwise convolution",
    "grouped convolution",
    "depthwise convolution",
    "matrix product",
    "attention",
    "normalisation",
    "pooling",
    "reduction",
    "transcendental",
    "pointwise",
    "copy",
    "lookup",
    "view",
    "other",
)
"""Every class; `other` is what no class covers."""


def class_of(operator: Operator, types: tuple[TensorType | None, ...]) -> str:
    """The class of an operator on operands of these types."""
    kind = type(operator)
    if isinstance(operator, ConvolutionBase):
        return _convolution(operator, types)
    if isinstance(operator, Attention):
        return "attention"
    if kind.__name__ in _BY_NAME:
        return _BY_NAME[kind.__name__]
    family = kind.__module__.rpartition(".")[2]
    if family in _BY_FAMILY:
        return _BY_FAMILY[family]
    if kind.aliases:
        return "view"
    if isinstance(operator, (Activation, Sigmoid, Tanh, Function)):
        return "transcendental"
    return "pointwise" if kind.pointwise else "other"


def _convolution(operator: ConvolutionBase, types: tuple[TensorType | None, ...]) -> str:
    groups = operator.attributes.get("groups", 1)
    weight = types[1] if len(types) > 1 else None
    if groups != 1:
        return "depthwise convolution" if weight is not None and weight.shape[1] == 1 else "grouped convolution"
    alone = weight is not None and all(size == 1 for size in weight.shape[2:])
    return "pointwise convolution" if alone else "convolution"
