"""Laws that hold where their patterns are defined: proved where what is undefined may change, and only from left to right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule
from rewrites.cases import cases, trace_case
from tests.verifier.laws_of_functions import law_of, proof_of
from verifier.proof.bounded import prove_bounded
from verifier.proof.consistency import compare_normal_forms
from verifier.proof.prove import WHERE_DEFINED
from verifier.proof.rules import prove_case, prove_rule

FREE = Equality.REAL.allowing(Change.NAN_INF)
Sides = tuple[Callable[..., Any], Callable[..., Any]]
RIGHT: dict[str, Sides] = {
    "x·x/x = x": (lambda x, y: x * x / x, lambda x, y: x),
    "x·y/y = x": (lambda x, y: x * y / y, lambda x, y: x),
    "x/y·y = x": (lambda x, y: x / y * y, lambda x, y: x),
    "x/x = 1": (lambda x, y: x / x, lambda x, y: torch.ones_like(x)),
    "x/√x = √x": (lambda x, y: x / torch.sqrt(x), lambda x, y: torch.sqrt(x)),
    "√x/x = 1/√x": (lambda x, y: torch.sqrt(x) / x, lambda x, y: torch.rsqrt(x)),
    "√x·√x = x": (lambda x, y: torch.sqrt(x) * torch.sqrt(x), lambda x, y: x),
    "√x·√y = √xy": (lambda x, y: torch.sqrt(x) * torch.sqrt(y), lambda x, y: torch.sqrt(x * y)),
    "√x = √|x|": (lambda x, y: torch.sqrt(x), lambda x, y: torch.sqrt(torch.abs(x))),
    "1/√x·1/√x = 1/x": (lambda x, y: torch.rsqrt(x) * torch.rsqrt(x), lambda x, y: 1 / x),
    "exp log x = x": (lambda x, y: torch.exp(torch.log(x)), lambda x, y: x),
    "log x + log y = log xy": (lambda x, y: torch.log(x) + torch.log(y), lambda x, y: torch.log(x * y)),
    "2·log x = log x²": (lambda x, y: 2 * torch.log(x), lambda x, y: torch.log(x * x)),
    "x/|x| = sign x": (lambda x, y: x / torch.abs(x), lambda x, y: torch.sign(x)),
    "(x/y)/(2/y) = x/2": (lambda x, y: (x / y) / (2 / y), lambda x, y: x / 2),
    "(x² − y²)/(x − y) = x + y": (lambda x, y: (x * x - y * y) / (x - y), lambda x, y: x + y),
    "x/|x|₂·|x|₂ = x": (
        lambda x, y: x / torch.sqrt((x * x).sum(-1, keepdim=True)) * torch.sqrt((x * x).sum(-1, keepdim=True)),
        lambda x, y: x,
    ),
}
# Each right side is undefined, or another number, where its left side has a value.
WRONG: dict[str, Sides] = {
    "x = x·x/x": (lambda x, y: x * 1.0, lambda x, y: x * x / x),
    "√xy = √x·√y": (lambda x, y: torch.sqrt(x * y), lambda x, y: torch.sqrt(x) * torch.sqrt(y)),
    "log xy = log x + log y": (lambda x, y: torch.log(x * y), lambda x, y: torch.log(x) + torch.log(y)),
    "a condition that shields the root": (
        lambda x, y: torch.where(x > 0, torch.sqrt(x), x),
        lambda x, y: torch.where(x > 0, torch.sqrt(x), torch.abs(x)),
    ),
    "a condition that shields the quotient": (
        lambda x, y: torch.where(y > 1, x / y, y),
        lambda x, y: torch.where(y > 1, x / y, y * y / y),
    ),
    "another element's quotient": (lambda x, y: torch.stack([1 / x, x * 1.0]), lambda x, y: torch.stack([1 / x, x * x / x])),
    "another index's quotient": (lambda x, y: 1 / x, lambda x, y: 1 / x + (x / x).flip(0) - 1),
    "an infinity that becomes a number": (
        lambda x, y: torch.exp(-1 / (x * x)) + x,
        lambda x, y: torch.exp(-1 / (x * x)) + x * x / x,
    ),
    "an infinity that is not the largest": (
        lambda x, y: torch.maximum(torch.log(x), y) + x,
        lambda x, y: torch.maximum(torch.log(x), y) + x * x / x,
    ),
    "a root compared": (
        lambda x, y: (torch.sqrt(x) > 1).to(x.dtype) + x,
        lambda x, y: (torch.sqrt(x) > 1).to(x.dtype) + torch.abs(x),
    ),
    "a NaN asked for": (
        lambda x, y: torch.where(torch.isnan(torch.log(x)), y, torch.log(x)),
        lambda x, y: torch.log(torch.abs(x)),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_proved_where_what_is_undefined_may_change(name: str) -> None:
    proof = proof_of(("n", "n"), *RIGHT[name], equality=FREE)
    assert proof.proved, proof
    assert all(WHERE_DEFINED in case.proof.scope for case in proof.cases)
    assert not proof_of(("n", "n"), *RIGHT[name]).proved


@pytest.mark.parametrize("name", WRONG)
def test_not_proved(name: str) -> None:
    assert not proof_of(("n", "n"), *WRONG[name], timeout=5, equality=FREE).proved


@pytest.mark.parametrize("name", RIGHT)
def test_normal_forms_have_the_values_of_their_elements_where_the_pattern_is_defined(name: str) -> None:
    law = law_of(("n", "n"), *RIGHT[name], FREE)
    (case,) = cases(law)
    traced = trace_case(law, case)
    compared = [compare_normal_forms(traced, prove_case(traced), seed) for seed in range(5)]
    assert not [found.difference for found in compared if found.difference]
    assert sum(found.compared for found in compared)


UNSEEN: dict[str, Sides] = {
    "a quotient times zero": (lambda x, y: x * 0, lambda x, y: (1 / (x - 17)) * 0),
    "zero over a number": (lambda x, y: x * 1.0, lambda x, y: x + 0 / (x - 17)),
    "a quotient less itself": (lambda x, y: x * 1.0, lambda x, y: x + 1 / (x - 17) - 1 / (x - 17)),
    "a logarithm times zero": (lambda x, y: x * 1.0, lambda x, y: x + torch.log(x + 88) * 0),
    "a root times zero": (lambda x, y: x / y, lambda x, y: x / y + torch.sqrt(x + 88) * 0),
    "an arc cosine times zero": (lambda x, y: x * 1.0, lambda x, y: x + torch.acos(y) * 0),
    "a power times zero": (lambda x, y: x * 1.0, lambda x, y: x + torch.pow(x, y) * 0),
    "a quotient beside another of the same number": (lambda x, y: 1 / x, lambda x, y: 1 / x + 0 / (x - 17)),
    "a quotient by what the pattern takes the root of": (lambda x, y: torch.sqrt(x), lambda x, y: torch.sqrt(x) + 0 / (x - 17)),
}


ELSEWHERE: dict[str, Sides] = {
    "by a sum less 17": (lambda x: x / x.sum(), lambda x: x / x.sum() + 0 / (x.sum() - 17)),
    "by the sum of squares": (lambda x: x / x.sum(), lambda x: x / x.sum() + 0 / ((x * x).sum() - 17)),
    "by the sum over another axis": (
        lambda x: x / x.sum(0, keepdim=True),
        lambda x: x / x.sum(0, keepdim=True) + 0 / x.sum(1, keepdim=True),
    ),
    "by another element": (lambda x: 1 / x, lambda x: 1 / x + 0 / x.flip(0)),
    "by another row's sum": (lambda x: 1 / x.sum(1), lambda x: 1 / x.sum(1) + 0 / x.sum(1).flip(0)),
    "by every element": (lambda x: 1 / x, lambda x: 1 / x + 0 * (1 / x).sum()),
    "by the first row too": (lambda x: (1 / x[1:]).sum(), lambda x: (1 / x[1:]).sum() + 0 * (1 / x).sum()),
    "where it was not chosen": (
        lambda x: torch.where(torch.arange(x.shape[1]) < 2, 1 / x, x),
        lambda x: torch.where(torch.arange(x.shape[1]) < 2, 1 / x, x) + 0 / x,
    ),
    "by an infinite divisor that is multiplied too": (lambda x: x * 1.0, lambda x: (1 / x) * 0 + 1 / (1 / x)),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_pattern_divides_by_another_number(name: str) -> None:
    proof = proof_of(("n+1 m",), *ELSEWHERE[name], equality=FREE)
    assert not proof.proved
    assert proof.first_open is not None
    assert "may have no value, and nothing shows that its output then has none" in proof.first_open.proof.reason


CHOSEN: dict[str, Sides] = {
    "in the other choice, cancelled": (
        lambda x, y: torch.where(y > 0, y, 1 / (x - 17)),
        lambda x, y: torch.where(y > 0, y * (x - 17) / (x - 17), 1 / (x - 17)),
    ),
    "in the other choice, times zero": (
        lambda x, y: torch.where(y > 0, y, 1 / (x - 17)),
        lambda x, y: (lambda z: torch.where(y > 0, y + 0 * z, z))(1 / (x - 17)),
    ),
    "after the choice": (
        lambda x, y: torch.where(y > 0, y / (x - 17), 0 * y),
        lambda x, y: torch.where(y > 0, y, 0 * y) / (x - 17),
    ),
    "after a sum of choices": (
        lambda x, y: torch.where(y > 0, y / (x[:1] - 17), 0 * y).sum(),
        lambda x, y: (torch.where(y > 0, y, 0 * y).sum() / (x[:1] - 17)).sum(),
    ),
    "within bounds": (lambda x, y: torch.clamp(1 / x, -5, 5), lambda x, y: torch.clamp(1 / x, -5, 5) + 0 / x),
    "in an exponential": (lambda x, y: torch.exp(-1 / (x * x)), lambda x, y: torch.exp(-1 / (x * x)) + 0 / x),
}
LOST: dict[str, Sides] = {
    "times zero": (lambda x, y: 0 / (x - 17), lambda x, y: 0 * x),
    "asked whether it is NaN": (lambda x, y: torch.isnan(y / (x - 17)), lambda x, y: torch.isnan(x) | torch.isnan(y)),
    "compared with itself": (lambda x, y: y / (x - 17) == y / (x - 17), lambda x, y: (x == x) & (y == y)),
}
SHIELDED: dict[str, Sides] = {
    "turned around": (lambda x, y: torch.where(y > 0, 1 / x, y), lambda x, y: torch.where(y <= 0, y, 1 / x)),
    "in both choices": (lambda x, y: torch.where(y > 0, y / x, -y / x), lambda x, y: torch.where(y > 0, y, -y) / x),
    "a shielded root": (lambda x, y: torch.where(x > 0, torch.sqrt(x), x), lambda x, y: torch.where(x <= 0, x, torch.sqrt(x))),
    "compared": (lambda x, y: torch.where(1 / x > 0, y, x), lambda x, y: torch.where(0 < 1 / x, y, x)),
    "within a function": (lambda x, y: torch.relu(x / y) + y, lambda x, y: y + torch.clamp(x / y, min=0)),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_what_is_divided_by_in_one_choice_is_not_in_the_other(name: str) -> None:
    assert not proof_of(("n+1", "n+1"), *CHOSEN[name], equality=FREE).proved


@pytest.mark.parametrize("name", LOST)
def test_what_counts_for_nothing_in_the_pattern_must_have_a_value_where_no_change_is_declared(name: str) -> None:
    proof = proof_of(("n", "n"), *LOST[name])
    assert not proof.proved
    assert proof.first_open is not None
    assert "the pattern's" in proof.first_open.proof.reason


@pytest.mark.parametrize("equality", [FREE, Equality.REAL], ids=str)
@pytest.mark.parametrize("name", SHIELDED)
def test_what_a_choice_shields_may_be_shielded_otherwise(name: str, equality: Equality) -> None:
    assert proof_of(("n", "n"), *SHIELDED[name], equality=equality).proved


@pytest.mark.parametrize("function", [lambda x: F.pad(1 / (x - 17), (0, x.shape[0])), lambda x: torch.tril(1 / (x - 17))])
def test_proofs_for_small_sizes_ask_for_a_value_too(function: Callable[..., Any]) -> None:
    rule = law_of(("n n",), function, lambda x: function(x) + 0 * function(x).sum(), FREE)
    traced = trace_case(rule, next(iter(cases(rule))))
    proof = prove_bounded(traced.pattern, traced.replacement, traced.facts, greatest=2, where_defined=True)
    assert not proof.proved and "may have no value" in proof.reason


@pytest.mark.parametrize("name", UNSEEN)
def test_what_counts_for_nothing_must_have_a_value(name: str) -> None:
    proof = proof_of(("n", "n"), *UNSEEN[name], equality=FREE)
    assert not proof.proved
    assert proof.first_open is not None
    assert "may have no value, and nothing shows that its output then has none" in proof.first_open.proof.reason


@pytest.mark.parametrize(
    "sides",
    [
        (lambda x, y: x * 0, lambda x, y: (1 / (x * x + 1)) * 0),
        (lambda x, y: x * 0, lambda x, y: torch.log(torch.exp(x)) * 0),
        (lambda x, y: 1 / x - 1 / x, lambda x, y: x * 0),
        (lambda x, y: torch.log(x), lambda x, y: torch.log(x) + 0 / x),
        (lambda x, y: x / y.sum(), lambda x, y: x * (1 / y.sum()) + 0 / y.sum()),
        (lambda x, y: 1 / x, lambda x, y: 1 / x + 0 / x.flip(0).flip(0)),
        (lambda x, y: (1 / x).sum(), lambda x, y: (1 / x).sum() + 0 * (1 / x.reshape(-1)).sum()),
        (lambda x, y: (1 / x).sum(), lambda x, y: (1 / x).sum() + (0 / x[:1]).sum()),
        (lambda x, y: torch.cat((1 / x, y)), lambda x, y: torch.cat((1 / x, y)) + 0 * torch.cat((1 / x, y))),
    ],
)
def test_what_counts_for_nothing_and_has_a_value_is_no_hindrance(sides: Sides) -> None:
    assert proof_of(("n", "n"), *sides, equality=FREE).proved


def test_a_sum_that_may_be_empty_divides_nothing() -> None:
    proof = proof_of(("n k", "n 1"), lambda x, y: (x / y).sum(-1, keepdim=True) * y, lambda x, y: x.sum(-1, keepdim=True), equality=FREE)
    assert proof.proved
    assert {"all sizes ≥ 1", WHERE_DEFINED} <= set(proof.cases[0].proof.scope)


def test_what_an_empty_sum_divides_by_is_not_divided_by() -> None:
    proof = proof_of(("n 1", "n m"), lambda x, y: (y / x).sum(1), lambda x, y: (y / x).sum(1) + 0 / x[:, 0], equality=FREE)
    assert proof.proved
    assert proof.cases[0].proof.scope[0] == "all sizes ≥ 1"


class ScalarOperation(Rule):
    """Multiplying by a number, or dividing by one that is not zero, moves out of a sum that may be empty."""

    source = "a test"
    equality = FREE
    requires = [Requires("nothing is divided by zero", lambda number, operation: operation == "mul" or number != 0)]

    def pattern(x: Float[Tensor, "n"], number: float, operation: Literal["mul", "div"]):
        return getattr(torch, operation)(x, number).sum()

    def replacement(x, number, operation):
        return getattr(torch, operation)(x.sum(), number)


class UnconditionedScalarOperation(ScalarOperation):
    """Multiplying by a number, or dividing by one, moves out of a sum that may be empty."""

    requires = [Requires("nothing is multiplied by zero", lambda number, operation: operation == "div" or number != 0)]


def test_a_condition_is_a_fact_in_the_cases_in_which_it_speaks() -> None:
    assert prove_rule(ScalarOperation).proved
    proof = prove_rule(UnconditionedScalarOperation)
    assert [case.proof.scope[:1] for case in proof.cases if case.proof.proved] == [("all sizes ≥ 0",), ("all sizes ≥ 1",)]
