"""Shape rules over symbolic sizes say at every point what they say of numbers.

Operands' sizes become symbols of their own. Where all obligations hold at the drawn numbers, the symbolic shape is the concrete one;
where the concrete rule refuses, so does the symbolic one, or an obligation fails.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from operators.expressions import Atom, Dim, Symbol, substitute, symbol
from operators.operator import ShapeError, TensorType, Unsupported, collecting_obligations
from operators.predicates import substitute_formula
from operators.samples.agreement import require
from operators.samples.drawing import Case, type_of

NEEDS_NUMBERS = {
    "Interpolate": "where it reads is rounded as torch rounds it",
    "Unbind": "the number of outputs is the size of an axis",
}


def symbolic(types: Sequence[TensorType | None], named: Sequence[Sequence[bool]]) -> tuple[list[TensorType | None], dict[Atom, Dim]]:
    """The types with the chosen sizes turned into symbols, and what the symbols stand for."""
    values: dict[Atom, Dim] = {}
    result: list[TensorType | None] = []
    for position, type_ in enumerate(types):
        if type_ is None:
            result.append(None)
            continue
        shape: list[Dim] = []
        for axis, size in enumerate(type_.shape):
            if named[position % len(named)][axis % 4]:
                values[Symbol(f"d{position}_{axis}")] = size
                size = symbol(f"d{position}_{axis}")
            shape.append(size)
        result.append(TensorType(tuple(shape), type_.dtype, type_.weak))
    return result, values


def check_symbolic(case: Case, named: Sequence[Sequence[bool]], which: int, axis: int, change: bool) -> bool:
    """The symbolic shape at the case's sizes (with `change`, of one operand doubled along an axis) is the concrete one.

    Whether symbols took part. Raises: Disagreement.
    """
    operands = list(case.operands)
    tensors = [position for position, operand in enumerate(operands) if isinstance(operand, torch.Tensor) and operand.ndim]
    if change and tensors:
        position = tensors[which % len(tensors)]
        axis %= operands[position].ndim
        operands[position] = torch.cat([operands[position], operands[position]], axis)
    types = [None if operand is None else type_of(operand) for operand in operands]
    try:
        expected = case.operator.outputs(*types)
    except ShapeError:
        expected = None
    general, values = symbolic(types, named)
    with collecting_obligations() as obligations:
        try:
            found = case.operator.outputs(*general)
        except (ShapeError, Unsupported):
            require(bool(values) or expected is None, str(case), "without symbols it is the same rule twice")
            return False
    if not all(substitute_formula(obligation, values) is True for obligation in obligations):
        return False
    if expected is None:
        require(False, str(case), f"is refused, but {general} is not, under {obligations}")
        return False
    require(len(found) == len(expected), str(case), "another number of outputs over symbols")
    for left, right in zip(found, expected, strict=True):
        sizes = tuple(substitute(size, values) for size in left.shape)
        require(sizes == right.shape, str(case), f"over symbols {general} its shape is {left.shape}, at these sizes {right.shape}")
        require((left.dtype, left.weak) == (right.dtype, right.weak), str(case), f"over symbols its dtype is {left}, otherwise {right}")
    return bool(values)
