"""Bits by selection: what chooses, moves, compares and negates is proved bit for bit for all sizes; what does not hold is not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule
from rewrites.cases import cases, trace_case
from verifier.selection import BIT_FOR_BIT, OPEN, VALUES, ZEROS, Bits, prove_selection, prove_traced

BITWISE = Equality.BITWISE
ZERO = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
ZERO_NAN = Equality.BITWISE.allowing(Change.SIGNED_ZERO, Change.NAN_INF)

Side = Callable[..., Any]


def pointwise(left: Side, right: Side, equality: Equality = BITWISE, requires: tuple[Requires, ...] = ()) -> type[Rule]:
    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"], c: Bool[Tensor, "n"], low: float, high: float):
        return left(x, y, c, low, high)

    def replacement(x, y, c, low, high):
        return right(x, y, c, low, high)

    return law(pattern, replacement, equality, requires)


def law(pattern: Side, replacement: Side, equality: Equality, requires: tuple[Requires, ...] = ()) -> type[Rule]:
    body = {"__doc__": "A law.", "source": "a test", "equality": equality, "requires": requires}
    return type("Law", (Rule,), body | {"pattern": pattern, "replacement": replacement})


def answer(rule: type[Rule]) -> str:
    result = Bits(BIT_FOR_BIT)
    for case in cases(rule):
        result = result & prove_selection(rule, trace_case(rule, case), time.monotonic() + 20)
    return result.left_open


HOLDING: dict[str, tuple[Side, Side, Equality]] = {
    "maximum commutes": (lambda x, y, *_: torch.maximum(x, y), lambda x, y, *_: torch.maximum(y, x), ZERO),
    "minimum of negations": (lambda x, y, *_: torch.minimum(-x, -y), lambda x, y, *_: -torch.maximum(x, y), ZERO),
    "absorption": (lambda x, y, *_: torch.maximum(x, torch.minimum(x, y)), lambda x, y, *_: x, ZERO_NAN),
    "choice of one": (lambda x, y, c, *_: torch.where(c, x, x), lambda x, y, c, *_: x, BITWISE),
    "choice turned": (lambda x, y, c, *_: torch.where(x < y, x, y), lambda x, y, c, *_: torch.where(y > x, x, y), BITWISE),
    "choice by negations": (lambda x, y, *_: torch.where(-x < -y, x, y), lambda x, y, *_: torch.where(x > y, x, y), BITWISE),
    "function into choice": (
        lambda x, y, c, *_: torch.exp(torch.where(c, x, y)), lambda x, y, c, *_: torch.where(c, torch.exp(x), torch.exp(y)), BITWISE,
    ),
    "sum commutes": (lambda x, y, *_: torch.exp(x + y), lambda x, y, *_: torch.exp(y + x), BITWISE),
    "difference": (lambda x, y, *_: torch.sin(x - y), lambda x, y, *_: torch.sin(x + -y), BITWISE),
    "times minus one": (lambda x, *_: x * -1.0, lambda x, *_: -x, BITWISE),
    "magnitude of magnitude": (lambda x, *_: torch.abs(torch.abs(x)), lambda x, *_: torch.abs(x), BITWISE),
    "magnitude of exponential": (lambda x, *_: torch.abs(torch.exp(x)), lambda x, *_: torch.exp(x), BITWISE),
    "relu6": (lambda x, *_: F.relu6(x), lambda x, *_: torch.clamp(x, 0.0, 6.0), ZERO),
    "clamp in steps": (
        lambda x, y, c, low, high: torch.clamp(torch.clamp(x, min=low), max=high),
        lambda x, y, c, low, high: torch.clamp(x, low, high), ZERO,
    ),
    "unequal": (lambda x, y, *_: ~(x == y), lambda x, y, *_: x != y, BITWISE),
    "not a number": (lambda x, *_: x != x, lambda x, *_: torch.isnan(x), BITWISE),
    "plus zero": (lambda x, *_: x + 0.0, lambda x, *_: x, ZERO),
    "minus zero": (lambda x, *_: x - 0.0, lambda x, *_: x, BITWISE),
    "first power": (lambda x, *_: x**1, lambda x, *_: x, BITWISE),
    "widened and back": (lambda x, *_: x.double().to(x.dtype), lambda x, *_: x, BITWISE),
}  # fmt: skip

FAILING: dict[str, tuple[Side, Side, Equality]] = {
    "maximum commutes, zeros and all": (lambda x, y, *_: torch.maximum(x, y), lambda x, y, *_: torch.maximum(y, x), BITWISE),
    "absorption with NaN": (lambda x, y, *_: torch.maximum(x, torch.minimum(x, y)), lambda x, y, *_: x, ZERO),
    "equal is not the same": (lambda x, y, *_: torch.where(x == y, x, y), lambda x, y, *_: y, BITWISE),
    "choice turned with equality": (lambda x, y, *_: torch.where(x <= y, x, y), lambda x, y, *_: torch.where(y > x, x, y), BITWISE),
    "negated comparison": (lambda x, y, *_: ~(x < y), lambda x, y, *_: x >= y, BITWISE),
    "maximum by comparison": (lambda x, y, *_: torch.where(x > y, x, y), lambda x, y, *_: torch.maximum(x, y), ZERO),
    "reciprocal of a choice of zeros": (
        lambda x, y, *_: 1.0 / torch.maximum(x, y), lambda x, y, *_: 1.0 / torch.maximum(y, x), ZERO,
    ),
    "sum associates": (lambda x, y, *_: (x + y) + x, lambda x, y, *_: (x + x) + y, BITWISE),
    "plus zero, zeros and all": (lambda x, *_: x + 0.0, lambda x, *_: x, BITWISE),
    "negation of a difference": (lambda x, y, *_: -(x - y), lambda x, y, *_: y - x, BITWISE),
    "narrowed and back": (lambda x, *_: x.half().to(x.dtype), lambda x, *_: x, BITWISE),
    "above minus infinity": (
        lambda x, *_: torch.where(x > float("-inf"), x, 0.0), lambda x, *_: torch.where(torch.isnan(x), 0.0, x), BITWISE,
    ),
    "compared with a number that is rounded": (
        lambda x, *_: torch.where(x >= 0.1, x, 0.1), lambda x, *_: torch.clamp(x, min=0.1), ZERO_NAN,
    ),
    "clamps in another order": (
        lambda x, y, c, low, high: torch.clamp(torch.clamp(x, max=high), min=low),
        lambda x, y, c, low, high: torch.clamp(x, low, high), ZERO,
    ),
    "widened after the sum": (lambda x, y, *_: (x + y).double(), lambda x, y, *_: x.double() + y.double(), BITWISE),
    "sign of NaN": (lambda x, *_: torch.sign(x) * 0.0 + x, lambda x, *_: x, BITWISE),
}  # fmt: skip


@pytest.mark.parametrize("name", HOLDING)
def test_what_rounds_nothing_is_bit_for_bit(name: str) -> None:
    assert answer(pointwise(*HOLDING[name])) == BIT_FOR_BIT


@pytest.mark.parametrize("name", FAILING)
def test_what_differs_somewhere_is_not_proved(name: str) -> None:
    assert answer(pointwise(*FAILING[name])) != BIT_FOR_BIT


def test_what_is_open_is_said() -> None:
    assert answer(pointwise(*FAILING["maximum commutes, zeros and all"])) == ZEROS
    assert answer(pointwise(*FAILING["absorption with NaN"])) == VALUES
    assert answer(pointwise(*FAILING["sum associates"])) == OPEN


def test_conditions_count() -> None:
    def inside(x: Tensor, y: Tensor, c: Tensor, low: float, high: float) -> Tensor:
        return torch.clamp(torch.clamp(x, max=high), min=low)

    def together(x: Tensor, y: Tensor, c: Tensor, low: float, high: float) -> Tensor:
        return torch.clamp(x, low, high)

    ordered = Requires("the bounds are in order", lambda low, high: low <= high)
    assert answer(pointwise(inside, together, ZERO, (ordered,))) == BIT_FOR_BIT


def test_pools_and_reductions() -> None:
    def relu_inside(x: Float[Tensor, "n c h w"]):
        return F.max_pool2d(F.relu(x), 2)

    def relu_outside(x):
        return F.relu(F.max_pool2d(x, 2))

    def two_axes(x: Float[Tensor, "m n"]):
        return torch.amax(torch.amax(x, 1), 0)

    def both_axes(x):
        return torch.amax(x, (0, 1))

    def only_positive(x):
        return torch.amax(torch.where(torch.isnan(x), 0.0, x), (0, 1))

    assert answer(law(relu_inside, relu_outside, ZERO)) == BIT_FOR_BIT
    assert answer(law(two_axes, both_axes, ZERO)) == BIT_FOR_BIT
    assert answer(law(two_axes, both_axes, BITWISE)) == ZEROS
    assert answer(law(two_axes, only_positive, ZERO)) != BIT_FOR_BIT


def test_positions_of_extremes() -> None:
    def of_negation(x: Float[Tensor, "m n"]):
        return torch.argmax(-x, 1)

    def smallest(x):
        return torch.argmin(x, 1)

    def largest(x):
        return torch.argmax(x, 1)

    assert answer(law(of_negation, smallest, BITWISE)) == BIT_FOR_BIT
    assert answer(law(of_negation, largest, BITWISE)) != BIT_FOR_BIT


def test_whole_numbers_through_floats() -> None:
    def through_double(x: Int[Tensor, "n"]):
        return x.int().double().int()

    def through_float(x: Int[Tensor, "n"]):
        return x.int().float().int()

    def narrowed(x):
        return x.int()

    for pattern, proved in ((through_double, True), (through_float, False)):
        rule = law(pattern, narrowed, BITWISE)
        results = [prove_traced(trace_case(rule, case), BITWISE, time.monotonic() + 10).left_open for case in cases(rule)]
        assert (set(results) == {BIT_FOR_BIT}) is proved


def rounded(left: Side, right: Side, equality: Equality, requires: tuple[Requires, ...] = ()) -> str:
    rule = pointwise(left, right, equality, requires)
    result = Bits(BIT_FOR_BIT)
    for case in cases(rule):
        result = result & prove_selection(rule, trace_case(rule, case), time.monotonic() + 20, rounding=True)
    return result.left_open


NONNEGATIVE = (Requires("the factor is not negative", lambda low: low >= 0),)


def test_rounded_sums_and_products_move_past_choices() -> None:
    assert not rounded(lambda x, y, *_: -(x - y), lambda x, y, *_: y - x, ZERO)
    assert not rounded(lambda x, y, *_: torch.maximum(x + 1.0, y + 1.0), lambda x, y, *_: torch.maximum(x, y) + 1.0, ZERO_NAN)
    assert not rounded(
        lambda x, y, c, low, high: torch.maximum(x * low, y * low),
        lambda x, y, c, low, high: torch.maximum(x, y) * low,
        ZERO_NAN,
        NONNEGATIVE,
    )
    assert not rounded(lambda x, y, *_: torch.exp(torch.maximum(x, y)), lambda x, y, *_: torch.exp(torch.maximum(y, x)), ZERO)
    assert not rounded(lambda x, *_: torch.sign(x) * torch.abs(x), lambda x, *_: x, ZERO)


def test_what_rounds_differently_is_not_proved() -> None:
    assert rounded(lambda x, y, *_: (x + y) + 1.0, lambda x, y, *_: x + (y + 1.0), ZERO_NAN)
    assert rounded(lambda x, y, *_: (x + y) - y, lambda x, y, *_: x, ZERO_NAN)
    assert rounded(lambda x, y, c, low, high: (x + y) * low, lambda x, y, c, low, high: x * low + y * low, ZERO_NAN)
    assert rounded(lambda x, *_: x * 0.1 * 10.0, lambda x, *_: x, ZERO_NAN)
    factor = lambda x, y, c, low, high: torch.maximum(x, y) * low  # noqa: E731
    inside = lambda x, y, c, low, high: torch.maximum(x * low, y * low)  # noqa: E731
    assert rounded(inside, factor, ZERO_NAN), "the factor may be negative"
    assert rounded(inside, factor, ZERO, NONNEGATIVE), "zero times infinity"
    assert rounded(lambda x, y, *_: 1.0 / torch.maximum(x, y), lambda x, y, *_: 1.0 / torch.maximum(y, x), ZERO), "the sign of a zero"
    assert rounded(lambda x, *_: (x + 1.0).half().to(x.dtype), lambda x, *_: x.half().to(x.dtype) + 1.0, ZERO_NAN)


def test_python_numbers_are_not_the_tensors_of_them() -> None:
    """PyTorch may compute with a Python number in float32 where the tensors are of half precision."""
    assert rounded(lambda x, *_: x + 0.1, lambda x, *_: x + torch.full_like(x, 0.1), ZERO_NAN) == OPEN
    assert not rounded(lambda x, *_: x + 0.5, lambda x, *_: x + torch.full_like(x, 0.5), ZERO_NAN)


SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 7.0, 65504.0, -65504.0, 1e-7, float("inf"), float("-inf"), float("nan"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", HOLDING)
def test_torch_agrees_on_special_numbers(name: str, dtype: torch.dtype) -> None:
    left, right, equality = HOLDING[name]
    x, y, c = (t.flatten() for t in torch.meshgrid(torch.tensor(SPECIAL), torch.tensor(SPECIAL), torch.tensor([0.0, 1.0]), indexing="ij"))
    arguments = x.to(dtype), y.to(dtype), c.bool(), -0.75, 0.5
    a, b = left(*arguments), right(*arguments)
    same = (a == b) | ((a != a) & (b != b))
    if a.is_floating_point() and Change.SIGNED_ZERO not in equality.changes:
        same &= (torch.signbit(a) == torch.signbit(b)) | (a != a)
    if Change.NAN_INF in equality.changes:
        same |= ~(arguments[0].isfinite() & arguments[1].isfinite())
    assert bool(same.all())
