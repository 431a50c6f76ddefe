"""What a difference is judged to be: how outputs react to their inputs, and where numbers that are not finite come from."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from rewrites import Rule
from verifier.instances import Instance, Space
from verifier.judging import Judgement, Kind
from verifier.running import run_sides


class ProductOfExponentials(Rule):
    """exp a · exp b = exp(a + b)."""

    source = "for this test"

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return torch.exp(a) * torch.exp(b)

    def replacement(a, b):
        return torch.exp(a + b)


class Masked(Rule):
    """The larger of a and −∞, plus b."""

    source = "for this test"

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return torch.maximum(a, torch.full_like(a, float("-inf"))) + b

    def replacement(a, b):
        return torch.maximum(torch.full_like(a, float("-inf")), a) + b + 1.0


class LogarithmOfExponential(Rule):
    """The logarithm of e^a / 2 is a − log 2."""

    source = "for this test"

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return torch.log(torch.exp(a) / 2) + b

    def replacement(a, b):
        return a - math.log(2.0) + b


def instance(rule: type[Rule], dtype: str, *numbers: float) -> Instance:
    space = Space(rule, 0)
    ground, sizes = next(place for place in space.places if place[1]["n"] == 1)
    made = space.build(ground, sizes, "ordinary", dtype, 0)
    assert made is not None
    return replace(made, tensors={name: torch.tensor([number], dtype=getattr(torch, dtype)) for name, number in zip("ab", numbers)})


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_reaction_to_a_relative_change_is_measured_in_every_dtype(dtype: str) -> None:
    judgement = Judgement(instance(ProductOfExponentials, dtype, 40.0, 2.0))
    assert judgement.sensitivity() == pytest.approx(42.0 * torch.exp(torch.tensor(42.0)).item(), rel=0.2)


def test_an_infinity_that_the_rule_writes_excuses_no_value() -> None:
    judgement = Judgement(instance(Masked, "float64", 1.0, 2.0))
    assert judgement.origin() is None
    assert judgement.judge(torch.tensor([3.0]), torch.tensor([4.0]), torch.tensor([True]))[0] is Kind.VALUE


def test_an_infinity_that_comes_of_finite_numbers_is_an_overflow() -> None:
    assert Judgement(instance(ProductOfExponentials, "float32", 100.0, -50.0)).origin() is Kind.OVERFLOW


@pytest.mark.parametrize(("wrong_by", "kind"), [(0.0, Kind.ROUNDING), (0.01, Kind.VALUE)])
def test_rounding_is_coarse_among_subnormal_numbers_and_excuses_no_more_than_that(wrong_by: float, kind: Kind) -> None:
    judgement = Judgement(instance(LogarithmOfExponential, "float64", -733.0, 2.0))
    (a,), (b,) = (tuple(side.outputs) for side in run_sides(judgement.instance))
    assert float((a - b).abs()) > 1e-6
    assert judgement.judge(a, b + wrong_by, torch.tensor([True]), 0)[0] is kind


def test_numbers_far_from_the_subnormal_have_no_reach() -> None:
    assert Judgement(instance(LogarithmOfExponential, "float64", -2.0, 2.0)).reach_of_subnormals(0) == 0.0
