"""Every operator, alone in a graph, is evaluated and emitted as its own kernel computes, to the bit."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings

from operators.comparison import LogicalOr
from operators.indexing import Index
from operators.samples.agreement import ROWS, cases
from operators.samples.drawing import Case
from rewright.fuzzing.operators import check_emission

torch.set_num_threads(1)


@pytest.mark.parametrize("name", [name for name in sorted(ROWS) if not ROWS[name].random])
def test_operators_are_emitted(name: str) -> None:
    @settings(max_examples=8)
    @given(cases(name))
    def emits(case: Case) -> None:
        check_emission(case)

    emits()


def test_a_position_without_axes_is_emitted() -> None:
    check_emission(Case(Index(0), [torch.tensor([-0.5, 2.0]), torch.tensor(-1)]))


def test_a_number_beside_a_tensor_without_axes_is_emitted() -> None:
    check_emission(Case(LogicalOr(), [torch.tensor(-0.5, dtype=torch.float64), 1.0]))
