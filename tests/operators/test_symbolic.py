"""Shape rules over symbolic sizes say at every point what they say of numbers.

Every operand's sizes become symbols of their own. Where all obligations hold at the drawn numbers, the symbolic shape is the
concrete one; where the concrete rule refuses, so does the symbolic one, or an obligation fails.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.operator import ShapeError, collecting_obligations
from operators.samples.drawing import Case, type_of
from operators.samples.symbolic import NEEDS_NUMBERS, check_symbolic, symbolic
from tests.operators.test_agreement import NAMES, cases

WITHOUT_OPERANDS = {"Arange", "Eye", "Full", "Normal", "Scalar", "Uniform"}
SYMBOLIC = [name for name in NAMES if name not in NEEDS_NUMBERS]
choices = st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=3, max_size=3)


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_shapes(name: str) -> None:
    compared = []

    @given(cases(name), choices, st.integers(0, 3), st.integers(0, 3), st.booleans())
    def agrees(case: Case, named: list[list[bool]], which: int, axis: int, change: bool) -> None:
        compared.append(check_symbolic(case, named, which, axis, change))

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
