"""Shape rules over symbolic sizes say at every point what they say of numbers.

Every operand's sizes become symbols of their own. Where all obligations hold at the drawn numbers, the symbolic shape is the
concrete one; where the concrete rule refuses, so does the symbolic one, or an obligation fails.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from operators.expressions import Atom, Dim, Symbol, substitute, substitute_formula, symbol
from operators.operator import ShapeError, TensorType, Unsupported, collecting_obligations
from operators.samples.drawing import Case, type_of
from tests.operators.test_agreement import NAMES, cases

NEEDS_NUMBERS = {
    "Interpolate": "where it reads is rounded as torch rounds it",
    "Unbind": "the number of outputs is the size of an axis",
}
WITHOUT_OPERANDS = {"Arange", "Eye", "Full", "Normal", "Scalar", "Uniform"}
SYMBOLIC = [name for name in NAMES if name not in NEEDS_NUMBERS]


def symbolic(types: list[TensorType | None], named: list[list[bool]]) -> tuple[list[TensorType | None], dict[Atom, Dim]]:
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


choices = st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=3, max_size=3)


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_shapes(name: str) -> None:
    compared = []

    @given(cases(name), choices, st.integers(0, 3), st.integers(0, 3), st.booleans())
    def agrees(case: Case, named: list[list[bool]], which: int, axis: int, change: bool) -> None:
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
                assert values or expected is None, "without symbols it is the same rule twice"
                return
        if not all(substitute_formula(obligation, values) is True for obligation in obligations):
            return
        assert expected is not None, f"{case} is refused, but {general} is not, under {obligations}"
        assert len(found) == len(expected)
        for left, right in zip(found, expected):
            assert tuple(substitute(size, values) for size in left.shape) == right.shape
            assert (left.dtype, left.weak) == (right.dtype, right.weak)
        compared.append(bool(values))

    agrees()
    assert any(compared) or name in WITHOUT_OPERANDS, "some case is compared with a symbol in it"


def test_operators_that_need_numbers_say_so() -> None:
    for name in NEEDS_NUMBERS:

        @given(cases(name))
        def refuses(case: Case) -> None:
            general, values = symbolic([type_of(operand) for operand in case.operands], [[True] * 4])
            assert values
            with collecting_obligations(), pytest.raises(ShapeError, match=r"must be a? ?number"):
                case.operator.outputs(*general)

        refuses()
