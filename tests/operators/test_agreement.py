"""For every operator: shape, dtype, meaning and gradient agree with torch's own kernel on drawn shapes, attributes and values.

The tests are generated from the declarations; the data come from `rows.py`, `tensor_rows.py` and `network_rows.py`.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import operators
from operators.meaning import indices
from operators.operator import OPERATORS, ShapeError, TensorType, kind_of
from tests.operators import network_rows
from tests.operators.drawing import Case, Drawer, Elements, Row, type_of
from tests.operators.rows import WITHOUT_A_ROW

torch.set_num_threads(1)
del operators
ROWS: dict[str, Row] = network_rows.ROWS
NAMES = sorted(ROWS)
MOST_ELEMENTS = 24
"""Elements compared per output; the slow reference of a large output is read at evenly spaced places."""


def cases(name: str) -> Any:
    return st.composite(lambda draw: ROWS[name].draw(Drawer(draw)))()


def as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def test_every_operator_has_a_row() -> None:
    here = {name for name, kind in OPERATORS.items() if kind.__module__.startswith("operators.")}
    assert here - set(ROWS) == set(WITHOUT_A_ROW)


def close(expected: Any, found: Any, dtype: str, exact: bool) -> bool:
    """Equal (integers: once wrapped), or equal up to rounding.

    Drawn values are below 2^3 and at most about 2^6 of them meet in one element, through less than 2^4 operations each: rounding
    moves a result by less than 2^10 units of its own or of the largest intermediate value (below 2^6 for what is not exact).
    """
    if kind_of(dtype) == "int":
        return bool((expected - found) % 2 ** torch.iinfo(getattr(torch, dtype)).bits == 0)
    if kind_of(dtype) == "bool":
        return bool(expected) is bool(found)
    expected = float(expected)
    if math.isnan(expected) or math.isinf(expected):
        return (math.isnan(found) and math.isnan(expected)) or expected == found
    rounded = torch.tensor(expected, dtype=torch.float64).to(getattr(torch, dtype)).item()
    if exact or math.isinf(rounded):
        return bool(rounded == found)
    unit = torch.finfo(getattr(torch, dtype)).eps
    wide = 2**10 if dtype in ("float64", "float32") else 4
    return abs(expected - found) <= wide * unit * max(1.0, abs(expected))


def places(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    every = list(indices(shape))
    return every[:: max(1, len(every) // MOST_ELEMENTS)]


@pytest.mark.parametrize("name", NAMES)
def test_agreement(name: str) -> None:
    row = ROWS[name]

    @given(cases(name))
    def agrees(case: Case) -> None:
        types = [None if operand is None else type_of(operand) for operand in case.operands]
        expected = case.operator.outputs(*types)
        results = as_tuple(case.operator.run(*case.operands))
        assert len(expected) == len(results)
        elements = [None if operand is None else Elements(operand) for operand in case.operands]
        for position, (type_, result) in enumerate(zip(expected, results)):
            found = type_of(result)
            if type_.weak:
                assert not isinstance(result, torch.Tensor), "a weak result is a Python number"
                assert kind_of(found.dtype) == kind_of(type_.dtype)
            else:
                assert isinstance(result, torch.Tensor), "a tensor is expected"
                assert found == TensorType(type_.shape, type_.dtype)
            if row.random:
                continue
            values = Elements(result)
            for at in places(type_.shape):
                meaning = case.operator.element(at, *elements, output=position)
                assert close(meaning, values[at], type_.dtype, row.exact), (
                    f"{case} at {at} of output {position}: {meaning} means, {values[at]} is"
                )

    agrees()


def gradients_by_torch(case: Case, leaves: list[Any], weights: list[Any]) -> list[Any]:
    """Autograd's gradients of Σ weight · output for the floating operands."""
    results = as_tuple(case.operator.run(*leaves))
    wanted = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    total = sum(((result * weight).sum() for result, weight in zip(results, weights) if weight is not None), torch.zeros(()))
    if not (isinstance(total, torch.Tensor) and total.requires_grad):
        return [None] * len(wanted)
    return list(torch.autograd.grad(total, wanted, allow_unused=True))


@pytest.mark.parametrize("name", [name for name in NAMES if ROWS[name].gradient])
def test_gradient(name: str) -> None:
    row, undeclared = ROWS[name], []

    @given(cases(name), st.integers(0, 9999))
    def agrees(case: Case, seed: int) -> None:
        leaves = [
            operand.double().requires_grad_(position not in row.undifferentiable)
            if isinstance(operand, torch.Tensor) and operand.is_floating_point()
            else operand
            for position, operand in enumerate(case.operands)
        ]
        if not row.empty_gradient and any(isinstance(leaf, torch.Tensor) and leaf.numel() == 0 for leaf in leaves):
            return
        results = as_tuple(case.operator.run(*leaves))
        generator = torch.Generator().manual_seed(seed)
        weights = [
            torch.randint(-3, 4, tuple(result.shape), generator=generator).double()
            if isinstance(result, torch.Tensor) and result.requires_grad
            else None
            for result in results
        ]
        if all(weight is None for weight in weights):
            return
        plain = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        try:
            ours = case.operator.gradient(tuple(weights) if case.operator.multiple else weights[0], *plain)
        except NotImplementedError as error:
            undeclared.append(str(error))
            return
        assert len(ours) == len(leaves), "one gradient per operand"
        theirs = iter(gradients_by_torch(case, leaves, weights))
        for position, leaf in enumerate(leaves):
            if not (isinstance(leaf, torch.Tensor) and leaf.requires_grad):
                continue
            expected, found = next(theirs), ours[position]
            expected = torch.zeros_like(leaf) if expected is None else expected
            found = torch.zeros_like(leaf) if found is None else found
            assert found.shape == expected.shape
            torch.testing.assert_close(found, expected, rtol=row.gradient_error, atol=row.gradient_error, equal_nan=True)

    agrees()


def test_gradients_that_are_missing_say_so() -> None:
    for name in NAMES:
        if not ROWS[name].gradient:
            with pytest.raises(NotImplementedError):
                OPERATORS[name].gradient(OPERATORS[name].__new__(OPERATORS[name]), None)


def raised(call: Any) -> bool:
    """The call is refused for the sizes of its operands (and not for a position in them, which is data)."""
    try:
        call()
    except (ShapeError, RuntimeError, ValueError, IndexError, ZeroDivisionError) as error:
        return "out of bounds" not in str(error) and "out of range in self" not in str(error)
    return False


@pytest.mark.parametrize("name", NAMES)
def test_refusal(name: str) -> None:
    """What torch refuses when one axis of one operand grows or goes, `outputs` refuses as well."""

    @given(cases(name), st.integers(0, 3), st.integers(0, 3), st.booleans())
    def refuses(case: Case, which: int, axis: int, remove: bool) -> None:
        tensors = [position for position, operand in enumerate(case.operands) if isinstance(operand, torch.Tensor) and operand.ndim]
        if not tensors:
            return
        position = tensors[which % len(tensors)]
        operand = case.operands[position]
        axis %= operand.ndim
        changed = (
            operand.select(axis, 0)
            if remove and operand.shape[axis]
            else torch.cat([operand, operand.narrow(axis, 0, min(1, operand.shape[axis]))], axis)
        )
        operands = [changed if k == position else other for k, other in enumerate(case.operands)]
        types = [None if other is None else type_of(other) for other in operands]
        if raised(lambda: case.operator.run(*operands)):
            assert raised(lambda: case.operator.outputs(*types)), f"torch refuses {Case(case.operator, operands)}"

    refuses()
