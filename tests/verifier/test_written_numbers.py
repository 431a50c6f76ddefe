"""Numbers that a rule writes are drawn: what happens at one number alone, or beyond it, is found."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule
from verifier.instances import written_numbers
from verifier.verdict import Status
from verifier.verify import verify

FREE = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO, Change.OVERFLOW)
BORDER = 23.125


def shifted(x: Tensor) -> Tensor:
    return x - BORDER


class PoleInOneChoice(Rule):
    """A quotient by x − 17.53 is computed where it is not chosen."""

    source = "a test"
    equality = FREE

    def pattern(c: Bool[Tensor, "n"], x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return torch.where(c, y, 1 / (x - 17.53))

    def replacement(c, x, y):
        return torch.where(c, y * (x - 17.53) / (x - 17.53), 1 / (x - 17.53))


class PoleOfAFunction(Rule):
    """A number divided by what a function of the file gives."""

    source = "a test"
    equality = FREE

    def pattern(x: Float[Tensor, "n"]):
        return x * 0

    def replacement(x):
        return 0 / shifted(x)


class GradientWithinABorder(Rule):
    """No gradient flows into numbers beyond 17.53."""

    source = "a test"
    trainable = True

    def pattern(x: Float[Tensor, "n"]):
        return x * 2.0

    def replacement(x):
        return torch.where(x.abs() < 17.53, x, x.detach()) * 2.0


class OnesBelowTheDiagonal(Rule):
    """There are n(n − 1)/2 places below the diagonal."""

    source = "a test"

    def pattern(x: Float[Tensor, "n"]):
        return torch.ones(x.shape[0], x.shape[0]).tril(-1).sum() * 2.0

    def replacement(x):
        return torch.full((), 1.0) * (x.shape[0] * x.shape[0] - x.shape[0])


class FiniteNumbers(Rule):
    """Twice a number below infinity is its sum with itself."""

    source = "a test"
    requires = [Requires("no element is infinite", lambda x: x < math.inf)]

    def pattern(x: Float[Tensor, "n"]):
        return x * 2.0

    def replacement(x):
        return x + x


class MaskedSoftmaxFromParts(Rule):
    """A softmax over what a mask keeps, from exponentials, which may all vanish."""

    source = "a test"
    equality = FREE
    requires = [Requires("rows are not empty", lambda m: m >= 1)]

    def pattern(x: Float[Tensor, "n m"], c: Bool[Tensor, "n m"]):
        return torch.softmax(torch.where(c, x, float("-inf")), 1)

    def replacement(x, c):
        e = torch.where(c, torch.exp(x), 0.0)
        return e / e.sum(1, keepdim=True)


def test_numbers_are_found_in_code_variables_functions_and_conditions() -> None:
    assert written_numbers(PoleInOneChoice) == [17.53]
    assert written_numbers(PoleOfAFunction) == [BORDER]
    assert written_numbers(FiniteNumbers) == []


def test_what_happens_at_a_number_that_is_written_is_found() -> None:
    for rule in (PoleInOneChoice, PoleOfAFunction):
        verdict = verify(rule)
        assert verdict.status is Status.REFUTED
        assert verdict.counterexample is not None
        assert verdict.counterexample.kind == "undefined"


def test_a_gradient_that_ends_at_a_number_that_is_written_is_found() -> None:
    verdict = verify(GradientWithinABorder)
    assert verdict.status is Status.REFUTED
    assert verdict.counterexample is not None
    assert verdict.counterexample.kind == "gradient"


def test_a_square_of_the_axis_is_no_reason_for_an_error() -> None:
    assert verify(OnesBelowTheDiagonal).holds


def test_a_condition_may_speak_of_infinity() -> None:
    assert verify(FiniteNumbers).status is Status.PROVED


def test_exponentials_that_vanish_leave_the_range() -> None:
    assert verify(MaskedSoftmaxFromParts).holds
