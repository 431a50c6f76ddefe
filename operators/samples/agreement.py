"""Shape, dtype, meaning, gradient and refusals of an operator agree with torch's own kernel on a drawn case."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from operators.meaning import indices
from operators.operator import ShapeError, TensorType, kind_of
from operators.samples import networks
from operators.samples.drawing import Case, Drawer, Elements, Row, type_of

ROWS: dict[str, Row] = networks.ROWS
MOST_ELEMENTS = 24
"""Elements compared per output; the slow reference of a large output is read at evenly spaced places."""


class Disagreement(AssertionError):
    """An operator's declaration and torch's kernel differ on a case."""


def require(holds: bool, who: str, what: str) -> None:
    """Raise Disagreement unless it holds."""
    if not holds:
        raise Disagreement(f"{who}: {what}")


def cases(name: str) -> SearchStrategy[Case]:
    """Cases of the operator of this name."""
    return st.composite(lambda draw: ROWS[name].draw(Drawer(draw)))()


def as_tuple(result: Any) -> tuple[Any, ...]:
    """The outputs as a tuple, of one as well."""
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


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
        return bool((math.isnan(found) and math.isnan(expected)) or expected == found)
    rounded = torch.tensor(expected, dtype=torch.float64).to(getattr(torch, dtype)).item()
    if exact or math.isinf(rounded):
        return bool(rounded == found)
    unit = torch.finfo(getattr(torch, dtype)).eps
    wide = 2**10 if dtype in ("float64", "float32") else 4
    return bool(abs(expected - found) <= wide * unit * max(1.0, abs(expected)))


def places(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """At most about `MOST_ELEMENTS` places of a tensor, evenly spaced."""
    every = list(indices(shape))
    return every[:: max(1, len(every) // MOST_ELEMENTS)]


def check_meaning(row: Row, case: Case) -> None:
    """Declared shapes and dtypes are those of torch's results, and `element` gives their elements.

    Raises: Disagreement.
    """
    types = [None if operand is None else type_of(operand) for operand in case.operands]
    expected = case.operator.outputs(*types)
    results = as_tuple(case.operator.run(*case.operands))
    require(len(expected) == len(results), str(case), f"{len(expected)} outputs are declared, torch gives {len(results)}")
    elements = [None if operand is None else Elements(operand) for operand in case.operands]
    for position, (type_, result) in enumerate(zip(expected, results, strict=True)):
        _check_type(case, type_, result)
        if row.random:
            continue
        values = Elements(result)
        for at in places(tuple(result.shape) if isinstance(result, torch.Tensor) else ()):
            meaning = case.operator.element(at, *elements, output=position)
            agrees = close(meaning, values[at], type_.dtype, row.exact)
            require(agrees, str(case), f"at {at} of output {position}: {meaning} means, {values[at]} is")


def _check_type(case: Case, declared: TensorType, result: Any) -> None:
    found = type_of(result)
    if declared.weak:
        require(not isinstance(result, torch.Tensor), str(case), "a weak result must be a Python number")
        require(kind_of(found.dtype) == kind_of(declared.dtype), str(case), f"{declared.dtype} is declared, torch gives {found.dtype}")
        return
    require(isinstance(result, torch.Tensor), str(case), "a tensor is expected")
    require(found == TensorType(declared.shape, declared.dtype), str(case), f"{declared} is declared, torch gives {found}")


def gradients_by_torch(case: Case, leaves: list[Any], weights: list[Any]) -> list[Any]:
    """Autograd's gradients of Σ weight · output for the floating operands."""
    results = as_tuple(case.operator.run(*leaves))
    wanted = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    pairs = zip(results, weights, strict=True)
    total = sum(((result * weight).sum() for result, weight in pairs if weight is not None), torch.zeros(()))
    if not (isinstance(total, torch.Tensor) and total.requires_grad):
        return [None] * len(wanted)
    return list(torch.autograd.grad(total, wanted, allow_unused=True))


def check_gradient(row: Row, case: Case, seed: int) -> None:
    """The declared gradient is autograd's, for outputs weighted by small integers drawn from the seed.

    Raises: Disagreement; NotImplementedError for an operator that declares no gradient for the case.
    """
    leaves = [
        operand.double().requires_grad_(position not in row.undifferentiable)
        if isinstance(operand, torch.Tensor) and operand.is_floating_point()
        else operand
        for position, operand in enumerate(case.operands)
    ]
    if not row.empty_gradient and any(isinstance(leaf, torch.Tensor) and leaf.numel() == 0 for leaf in leaves):
        return
    generator = torch.Generator().manual_seed(seed)
    weights = [
        torch.randint(-3, 4, tuple(result.shape), generator=generator).double()
        if isinstance(result, torch.Tensor) and result.requires_grad
        else None
        for result in as_tuple(case.operator.run(*leaves))
    ]
    if all(weight is None for weight in weights):
        return
    plain = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    ours = case.operator.gradient(tuple(weights) if case.operator.multiple else weights[0], *plain)
    require(len(ours) == len(leaves), str(case), f"{len(leaves)} gradients are expected, {len(ours)} are declared")
    theirs = iter(gradients_by_torch(case, leaves, weights))
    for position, leaf in enumerate(leaves):
        if not (isinstance(leaf, torch.Tensor) and leaf.requires_grad):
            continue
        expected, found = next(theirs), ours[position]
        expected = torch.zeros_like(leaf) if expected is None else expected
        found = torch.zeros_like(leaf) if found is None else found
        who = f"{case}: gradient of operand {position} for output weights {_shown(weights)}"
        require(found.shape == expected.shape, who, f"must be {list(expected.shape)}, got {list(found.shape)}")
        error = row.gradient_error
        agrees = torch.allclose(found, expected, rtol=error, atol=error, equal_nan=True)
        require(agrees, who, f"autograd gives {expected.tolist()}, the declaration {found.tolist()}")


def _shown(weights: list[Any]) -> list[Any]:
    return [None if weight is None else weight.tolist() for weight in weights]


def refused(call: Callable[[], Any]) -> bool:
    """The call is refused for the sizes of its operands (and not for a position in them, which is data)."""
    try:
        call()
    except (ShapeError, RuntimeError, ValueError, IndexError, ZeroDivisionError) as error:
        return not any(text in str(error) for text in ("out of bounds", "out of DATA bounds", "out of range in self"))
    return False


def check_refusal(case: Case, which: int, axis: int, remove: bool) -> None:
    """What torch refuses when one axis of one operand grows or goes, `outputs` refuses as well.

    Raises: Disagreement.
    """
    tensors = [position for position, operand in enumerate(case.operands) if isinstance(operand, torch.Tensor) and operand.ndim]
    if not tensors:
        return
    position = tensors[which % len(tensors)]
    operand = case.operands[position]
    axis %= operand.ndim
    if remove and operand.shape[axis]:
        changed = operand.select(axis, 0)
    else:
        changed = torch.cat([operand, operand.narrow(axis, 0, min(1, operand.shape[axis]))], axis)
    operands = [changed if k == position else other for k, other in enumerate(case.operands)]
    types = [None if other is None else type_of(other) for other in operands]
    if refused(lambda: case.operator.run(*operands)):
        require(refused(lambda: case.operator.outputs(*types)), str(Case(case.operator, operands)), "torch refuses it, `outputs` does not")
