"""Whether a number that is not finite is meant: explained by the operator's meaning, or of a kernel's own making."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from operators.binding import operator_for
from operators.operator import Operator, ShapeError, Unsupported
from operators.samples.drawing import Elements
from verifier.running import Call

_PLACES = 4
"""Elements that are worked out for one call."""


def is_meant(call: Call) -> bool:
    """Nothing speaks against what the call gave of finite operands: False where an element is not finite, and its meaning is.

    True also where nothing is declared, or where the meaning, or a sum of products on the way to it, may leave the range.
    """
    declared = operator_for(call.function)
    if not (isinstance(declared, type) and issubclass(declared, Operator)):
        return True
    try:
        operator, operands = declared.bind(*call.arguments, **call.keywords)
    except (ShapeError, Unsupported, TypeError, ValueError, AttributeError):
        return True  # the call is of a form that the operator is not declared for
    if not all(operand is None or isinstance(operand, (torch.Tensor, int, float)) for operand in operands):
        return True
    elements = [None if operand is None else Elements(operand) for operand in operands]
    results = [leaf for leaf in pytree.tree_leaves(call.result) if isinstance(leaf, torch.Tensor)]
    try:
        return not any(
            abs(float(operator.element(at, *elements, output=output))) < torch.finfo(result.dtype).max / 2
            for output, result in enumerate(results)
            if result.is_floating_point() and _stays_in_range(operands, result.dtype)
            for at in itertools.islice(map(tuple, (~result.isfinite()).nonzero().tolist()), _PLACES)
        )
    except (ValueError, IndexError, ArithmeticError):
        return True  # the meaning is no number there


def _stays_in_range(operands: Sequence[Any], dtype: torch.dtype) -> bool:
    """Sums of products of four of the operands' elements are far from the dtype's largest number."""
    tensors = [operand.detach().double() for operand in operands if isinstance(operand, torch.Tensor) and operand.numel()]
    largest = max((float(tensor.abs().max()) for tensor in tensors), default=1.0)
    return (largest + 1) ** 4 * sum(tensor.numel() for tensor in tensors) < torch.finfo(dtype).max


__all__ = ["is_meant"]
