"""Conditions that say what a real attribute is: they are facts of the proof, and what a refuted rule lacks."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule
from verifier.proof.equalities import Linear, solved_equalities
from verifier.proof.knowledge import Bound
from verifier.proof.rules import prove_rule
from verifier.suggest import suggest
from verifier.verdict import Status
from verifier.verify import verify

ONE = Fraction(1)


class Law(Rule):
    """The base of the rules below."""

    source = "for this test"
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO, Change.NAN_INF)

    def pattern(x: Float[Tensor, "..."]):
        return torch.relu(x)

    def replacement(x):
        return torch.clamp(x, min=0.0)


class DropsAZeroFactor(Law):
    """x + v y = x if v is zero."""

    requires = [Requires("the factor is zero", lambda v: v == 0)]

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"], v: float):
        return x + v * y

    def replacement(x, y, v):
        return x


class InterpolatesToOneEnd(Law):
    """(1 − t) x + t y = y if t is one."""

    requires = [Requires("the end is reached", lambda t: t == 1.0)]

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"], t: float):
        return (1 - t) * x + t * y

    def replacement(x, y, t):
        return y


class WeightsSumToOne(Law):
    """a x + b x = x if a and b add up to one."""

    requires = [Requires("the weights sum to one", lambda a, b: a + b == 1)]

    def pattern(x: Float[Tensor, "n"], a: float, b: float):
        return a * x + b * x

    def replacement(x, a, b):
        return x


class TwoAreTheSame(Law):
    """relu(a x) + b = a relu(x) + a if a = b and b is not negative."""

    requires = [Requires("both are one number", lambda a, b: a == b), Requires("it is not negative", lambda b: b >= 0)]

    def pattern(x: Float[Tensor, "n"], a: float, b: float):
        return torch.relu(x * a) + b

    def replacement(x, a, b):
        return torch.relu(x) * a + a


class WeightsOfZeros(Law):
    """x + w = x if all of w is zero."""

    requires = [Requires("the shift is zero", lambda w: w == 0)]

    def pattern(x: Float[Tensor, "m n"], w: Float[Tensor, "n"]):
        return x + w

    def replacement(x, w):
        return x


@pytest.mark.parametrize("rule", Law.__subclasses__(), ids=lambda rule: rule.__name__)
def test_an_equality_is_a_fact_of_the_proof(rule: type[Rule]) -> None:
    assert prove_rule(rule).proved
    verdict = verify(rule, examples=40)
    assert verdict.status is Status.PROVED, verdict.reason


class ForgetsTheFactor(Law):
    """x + v y = x."""

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"], v: float):
        return x + v * y

    def replacement(x, y, v):
        return x


class ForgetsTheOtherFactor(Law):
    """v x = x."""

    def pattern(x: Float[Tensor, "n"], v: float):
        return v * x

    def replacement(x, v):
        return x


class NearlyOne(Law):
    """v x = x if v is 2."""

    requires = [Requires("the factor is two", lambda v: v == 2)]

    def pattern(x: Float[Tensor, "n"], v: float):
        return v * x

    def replacement(x, v):
        return x


@pytest.mark.parametrize("rule, text", [(ForgetsTheFactor, "holds if v == 0"), (ForgetsTheOtherFactor, "holds if v == 1")])
def test_an_equality_is_suggested(rule: type[Rule], text: str) -> None:
    assert str(suggest(rule)) == text


def test_a_wrong_equality_proves_nothing() -> None:
    assert not prove_rule(NearlyOne).proved
    assert verify(NearlyOne, examples=40).status is Status.REFUTED


def test_equalities_are_solved_one_after_the_other() -> None:
    single = {"a": True, "b": True, "x": False}
    equal = Bound("==", (("a", ONE), ("b", -ONE)))
    fixed = Bound("==", (("b", 2 * ONE),), -6 * ONE)
    found, left = solved_equalities([equal, fixed, Bound(">", (("a", ONE),))], single)
    assert found == {"a": Linear({}, Fraction(3)), "b": Linear({}, Fraction(3))} and not left
    found, left = solved_equalities([Bound("==", (("x", ONE), ("a", -ONE)))], single)
    assert found == {"x": Linear({"a": ONE})}
    unsolved = Bound("==", (("x", ONE), ("y", -ONE)))
    assert solved_equalities([unsolved], single | {"y": False}) == ({}, [unsolved])
