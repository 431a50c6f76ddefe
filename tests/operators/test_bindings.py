"""`bind` turns calls of torch, in every form, into operators whose kernels give the same tensors.

Each line of `CALLS` runs twice: by torch, and with every torch function inside taken apart by `bind` and run by operators.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import operators  # noqa: F401 (declares them)
from operators.operator import Unsupported, mutates, operator_for
from tests.operators.calls import CALLS, REFUSED
from tests.operators.interpreting import ByOperators

torch.set_num_threads(1)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_calls_bind_to_the_same_function(name: str) -> None:
    for call in CALLS[name]:
        with ByOperators() as by_operators:
            found = call()
        expected = call()
        assert name in by_operators.met, f"{name} is met, got {by_operators.met}"
        same(expected, found)


def same(expected: Any, found: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(expected) == len(found)
        for left, right in zip(expected, found):
            same(left, right)
        return
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("position", range(len(REFUSED)))
def test_forms_that_are_not_covered_are_refused(position: int) -> None:
    with pytest.raises(Unsupported), ByOperators():
        REFUSED[position]()


def test_in_place_forms_are_known_as_such() -> None:
    assert mutates(torch.Tensor.add_) and operator_for(torch.Tensor.add_) is operator_for(torch.add)
    assert mutates(torch.ops.aten.relu_.default) and operator_for(torch.ops.aten.relu_.default) is operator_for(torch.relu)
    assert mutates(torch.Tensor.__iadd__) and operator_for(torch.Tensor.__iadd__) is operator_for(torch.add)
    assert not mutates(torch.Tensor.__add__) and not mutates(torch.Tensor.__invert__) and not mutates(torch.add)


def test_functions_of_one_name_that_differ_are_told_apart() -> None:
    assert operator_for(F.unfold) is operator_for(torch.ops.aten.im2col.default) is not None
    assert operator_for(torch.Tensor.unfold) is None and operator_for(torch.ops.aten.unfold.default) is None
