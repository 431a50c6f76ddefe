"""Shifts, and arithmetic of unsigned integers wider than a byte, for which torch has dtypes but no kernels: it is done in int64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from graphs.onnx.reading.registry import Node, reads
from operators.operator import Unsupported

BITS = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, "int8": 8, "int16": 16, "int32": 32, "int64": 64}
WITHOUT_KERNELS = frozenset(["uint16", "uint32", "uint64"])
_HALF = -(2**63)


def wide(x: Any) -> Any:
    """An operand in int64; uint64 keeps its bits."""
    return x.to(torch.int64) if hasattr(x, "type") and x.type.dtype in WITHOUT_KERNELS else x


def in_int64(node: Node, function: Callable[..., Any], operands: list[Any], ordered: bool = False, divides: bool = False) -> Any:
    """The function of unsigned operands, through int64.

    16 and 32 bits fit. With 64, sums and products keep their bits; `ordered` ones are moved so that the order is the signed one.
    """
    dtype = node.type(0).dtype
    given = [wide(operand) for operand in operands]
    if dtype == "uint64" and divides:
        raise Unsupported(f"{node.name}: quotients of uint64 are not covered")
    if dtype == "uint64" and ordered:
        given = [torch.add(operand, _HALF) if hasattr(operand, "type") else operand + _HALF for operand in given]
    result = function(*given)
    if result.type.dtype != "int64":
        return result
    if dtype == "uint64" and ordered:
        result = torch.add(result, _HALF)
    return result.to(getattr(torch, dtype))


@reads("BitShift")
def shift(node: Node) -> Any:
    """To the left a product with a power of 2, to the right the floor of a quotient; by all the bits or more, 0 (−1 below 0)."""
    dtype = node.type(0).dtype
    left = node.attribute("direction") == "LEFT"
    if dtype not in BITS or (dtype == "uint64" and not left):
        raise Unsupported(f"BitShift: {node.attribute('direction')} of {dtype} is not covered")
    x, by = (node[position].to(torch.int64) for position in (0, 1))
    most = BITS[dtype] if dtype != "int64" or left else 63
    inside = torch.logical_and(torch.ge(by, 0), torch.lt(by, most))
    power = torch.pow(torch.full_like(by, 2), torch.where(inside, by, 0))
    moved = torch.mul(x, power) if left else torch.div(x, power, rounding_mode="floor")
    beyond = 0 if left or dtype.startswith("u") else torch.where(torch.lt(x, 0), -1, torch.zeros_like(x))
    return torch.where(inside, moved, beyond).to(getattr(torch, dtype))
