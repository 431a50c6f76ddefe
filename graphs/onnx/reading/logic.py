"""Comparisons, truth values and bits."""

from __future__ import annotations

from typing import Any

import torch

from graphs.onnx.reading.pointwise import both, compute
from graphs.onnx.reading.registry import Node, reads
from graphs.trace import Proxy
from operators.operator import Unsupported


def _declare(name: str, function: Any, turned: Any) -> None:
    @reads(name)
    def read(node: Node) -> Any:
        a, b = both(node)
        return compute(node, function, (a, b), ordered=True) if isinstance(a, Proxy) else compute(node, turned, (b, a), ordered=True)


for _name, _function, _turned in (
    ("Equal", torch.eq, torch.eq),
    ("Less", torch.lt, torch.gt),
    ("LessOrEqual", torch.le, torch.ge),
    ("Greater", torch.gt, torch.lt),
    ("GreaterOrEqual", torch.ge, torch.le),
):
    _declare(_name, _function, _turned)


def _declare_plain(name: str, function: Any) -> None:
    @reads(name)
    def read(node: Node) -> Any:
        return compute(node, function, node.inputs())


_OF_BITS: dict[str, Any] = {
    "And": torch.logical_and,
    "Or": torch.logical_or,
    "Xor": torch.logical_xor,
    "Not": torch.logical_not,
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
    "BitwiseNot": torch.bitwise_not,
}
for _name, _bits in _OF_BITS.items():
    _declare_plain(_name, _bits)


@reads("Where")
def where(node: Node) -> Any:
    return torch.where(*node.inputs())


@reads("IsInf")
def is_infinite(node: Node) -> Any:
    x = node[0]
    above, below = torch.eq(x, float("inf")), torch.eq(x, float("-inf"))
    positive, negative = node.attribute("detect_positive", 1), node.attribute("detect_negative", 1)
    if positive and negative:
        return torch.logical_or(above, below)
    if not positive and not negative:
        raise Unsupported("IsInf: neither infinity is asked for")
    return above if positive else below
