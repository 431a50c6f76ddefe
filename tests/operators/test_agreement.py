"""For every operator: shape, dtype, meaning and gradient agree with torch's own kernel on drawn shapes, attributes and values.

The tests are generated from the declarations; the sample calls and the checks are those of `operators.samples`.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from operators.arithmetic import Add, Divide
from operators.functions import Sqrt
from operators.operator import OPERATORS, ShapeError, TensorType
from operators.samples.agreement import ROWS, Disagreement, as_tuple, cases, check_gradient, check_meaning, check_refusal, refused
from operators.samples.drawing import Case
from operators.samples.pointwise import WITHOUT_A_ROW

torch.set_num_threads(1)
NAMES = sorted(ROWS)

__all__ = ["NAMES", "ROWS", "as_tuple", "cases"]


def test_every_operator_has_a_row() -> None:
    here = {name for name, kind in OPERATORS.items() if kind.__module__.startswith("operators.")}
    assert here - set(ROWS) == set(WITHOUT_A_ROW)


@pytest.mark.parametrize("name", NAMES)
def test_agreement(name: str) -> None:
    @given(cases(name))
    def agrees(case: Case) -> None:
        check_meaning(ROWS[name], case)

    agrees()


@pytest.mark.parametrize("name", [name for name in NAMES if ROWS[name].gradient])
def test_gradient(name: str) -> None:
    @given(cases(name), st.integers(0, 9999))
    def agrees(case: Case, seed: int) -> None:
        try:
            check_gradient(ROWS[name], case, seed)
        except NotImplementedError as error:
            assert str(error), "an operator without a gradient for this case must say so"

    agrees()


def test_gradients_that_are_missing_say_so() -> None:
    for name in NAMES:
        if not ROWS[name].gradient:
            with pytest.raises(NotImplementedError):
                OPERATORS[name].gradient(OPERATORS[name].__new__(OPERATORS[name]), None)


@pytest.mark.parametrize("name", NAMES)
def test_refusal(name: str) -> None:
    """What torch refuses when one axis of one operand grows or goes, `outputs` refuses as well."""

    @given(cases(name), st.integers(0, 3), st.integers(0, 3), st.booleans())
    def refuses(case: Case, which: int, axis: int, remove: bool) -> None:
        check_refusal(case, which, axis, remove)

    refuses()


def test_batches_of_a_product_with_a_bias_do_not_broadcast() -> None:
    bias, a, b, one = (TensorType(shape, "float64", weak=not shape) for shape in ((0,), (2, 0, 0), (1, 0, 0), ()))
    with pytest.raises(ShapeError, match="batches of a and b must be equal"):
        OPERATORS["AddMatMul"]().outputs(bias, a, b, one, one)


def test_a_wrong_declaration_is_a_disagreement() -> None:
    relu = OPERATORS["Relu"]()
    with pytest.raises(Disagreement, match=r"0 means|0\.0 means"):
        check_meaning(ROWS["Relu"], _Wrong(relu, [torch.tensor([-1.0, 2.0])]))


class _Wrong(Case):
    """A case whose operator runs another kernel than its own."""

    def __init__(self, operator: object, operands: list[torch.Tensor]) -> None:
        copy = type("Wrong", (type(operator),), {"run": lambda self, x: x.abs()})
        super().__init__(copy(), operands)


def test_whole_numbers_are_divided_as_python_does() -> None:
    assert Divide().run(1, 6) == 1 / 6
    assert isinstance(Add().run(1, 6), int) and Sqrt().run(2) == 2**0.5


def test_a_position_beyond_a_table_is_data_and_no_refused_size() -> None:
    table, places = torch.zeros(2, 1), torch.tensor([4])
    assert not refused(lambda: torch.index_select(table, 1, places))
    assert refused(lambda: torch.index_select(table, 2, places))
