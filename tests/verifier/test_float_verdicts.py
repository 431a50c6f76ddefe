"""What laws over the reals change in floating point: each law gets its true verdict, declared or not."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule
from verifier.verdict import Status
from verifier.verify import verify

EVERYTHING = Equality.REAL.allowing(Change.SIGNED_ZERO, Change.NAN_INF, Change.OVERFLOW)


class TimesZero(Rule):
    """x · 0 = 0."""

    source = "arithmetic"

    def pattern(x: Float[Tensor, "n"]):
        return x * 0.0

    def replacement(x):
        return torch.zeros_like(x)


class DividedByItself(Rule):
    """x / x = 1."""

    source = "arithmetic"

    def pattern(x: Float[Tensor, "n"]):
        return x / x

    def replacement(x):
        return torch.ones_like(x)


class PlusZero(Rule):
    """x + 0 = x."""

    source = "arithmetic"

    def pattern(x: Float[Tensor, "n"]):
        return x + 0.0

    def replacement(x):
        return x


class TimesOne(Rule):
    """x · 1 = x."""

    source = "arithmetic"

    def pattern(x: Float[Tensor, "n"]):
        return x * 1.0

    def replacement(x):
        return x


class MaximaCommute(Rule):
    """The larger of two does not depend on their order."""

    source = "arithmetic"

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return torch.maximum(x, y)

    def replacement(x, y):
        return torch.maximum(y, x)


class LogarithmOfExponential(Rule):
    """log exp x = x."""

    source = "arithmetic"

    def pattern(x: Float[Tensor, "n"]):
        return torch.log(torch.exp(x))

    def replacement(x):
        return x


class RootOfSquare(Rule):
    """√(x²) = x."""

    source = "a mistake"

    def pattern(x: Float[Tensor, "n"]):
        return torch.sqrt(x * x)

    def replacement(x):
        return x


class RootOfSquareIsMagnitude(Rule):
    """√(x²) = |x|."""

    source = "arithmetic"

    def pattern(x: Float[Tensor, "n"]):
        return torch.sqrt(x * x)

    def replacement(x):
        return torch.abs(x)


class MinusItself(Rule):
    """x - x = 0."""

    source = "arithmetic"

    def pattern(x: Float[Tensor, "n"]):
        return x - x

    def replacement(x):
        return torch.zeros_like(x)


class ProductOfExponentials(Rule):
    """exp a · exp b = exp(a + b)."""

    source = "arithmetic"

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return torch.exp(a) * torch.exp(b)

    def replacement(a, b):
        return torch.exp(a + b)


class ReciprocalTwice(Rule):
    """1 / (1 / x) = x."""

    source = "arithmetic"

    def pattern(x: Float[Tensor, "n"]):
        return 1 / (1 / x)

    def replacement(x):
        return x


class SumOfConstants(Rule):
    """(x + c) + d = x + (c + d)."""

    source = "arithmetic"

    def pattern(x: Float[Tensor, "n"], c: float, d: float):
        return (x + c) + d

    def replacement(x, c, d):
        return x + (c + d)


class MergedClamps(Rule):
    """A clamp of a clamp is the clamp to the larger lower and the smaller upper bound."""

    source = "a mistake where the ranges do not meet"

    def pattern(x: Float[Tensor, "n"], a: float, b: float, c: float, d: float):
        return torch.clamp(torch.clamp(x, a, b), c, d)

    def replacement(x, a, b, c, d):
        return torch.clamp(x, max(a, c), min(b, d))


class MergedClampsThatMeet(Rule):
    """A clamp of a clamp is the clamp to the larger lower and the smaller upper bound, where the ranges meet."""

    source = "arithmetic"
    requires = [Requires("the ranges are not empty and meet", lambda a, b, c, d: a <= b and c <= d and a <= d and c <= b)]

    def pattern(x: Float[Tensor, "n"], a: float, b: float, c: float, d: float):
        return torch.clamp(torch.clamp(x, a, b), c, d)

    def replacement(x, a, b, c, d):
        return torch.clamp(x, max(a, c), min(b, d))


class HalfOfDouble(Rule):
    """2x / 2 = x, of whole numbers that do not wrap."""

    source = "a mistake where they wrap"

    def pattern(x: Int[Tensor, "n"]):
        return (x * 2) // 2

    def replacement(x):
        return x


class FlooredIsTruncated(Rule):
    """A floored quotient is the truncated one."""

    source = "a mistake for negative numbers"
    requires = [Requires("the divisor is not zero", lambda y: y != 0)]

    def pattern(x: Int[Tensor, "n"], y: Int[Tensor, "n"]):
        return torch.div(x, y, rounding_mode="floor")

    def replacement(x, y):
        return torch.div(x, y, rounding_mode="trunc")


class DoubleBySum(Rule):
    """x + x = 2x, of whole numbers that wrap."""

    source = "arithmetic"

    def pattern(x: Int[Tensor, "n"]):
        return x + x

    def replacement(x):
        return x * 2


def declared(rule: type[Rule], equality: Equality) -> type[Rule]:
    """The rule under another equality."""
    body = {"__doc__": rule.__doc__, "source": rule.source, "equality": equality, "requires": rule.requires}
    return type(rule.__name__, (Rule,), {**body, "pattern": staticmethod(rule.pattern), "replacement": staticmethod(rule.replacement)})


BITWISE = Equality.BITWISE
SIGNED = Equality.BITWISE.allowing(Change.SIGNED_ZERO)


@pytest.mark.parametrize(
    ("rule", "equality", "kinds"),
    [
        (TimesZero, Equality.REAL, ("signed zero", "NaN/inf")),
        (TimesZero, Equality.REAL.allowing(Change.SIGNED_ZERO), ("NaN/inf",)),
        (DividedByItself, Equality.REAL, ("NaN/inf",)),
        (PlusZero, Equality.REAL, ("signed zero",)),
        (PlusZero, BITWISE, ("signed zero",)),
        (MaximaCommute, BITWISE, ("signed zero",)),
        (LogarithmOfExponential, Equality.REAL, ("overflow range",)),
        (RootOfSquare, EVERYTHING, ("value",)),
        (MinusItself, Equality.REAL, ("NaN/inf",)),
        (ProductOfExponentials, Equality.REAL, ("overflow range",)),
        (ReciprocalTwice, BITWISE, ("rounding", "value")),
        (SumOfConstants, BITWISE, ("rounding", "value")),
        (MergedClamps, EVERYTHING, ("value",)),
        (HalfOfDouble, Equality.REAL, ("value",)),
        (FlooredIsTruncated, Equality.REAL, ("value",)),
    ],
)
def test_refuted_when_less_is_declared_than_changes(rule: type[Rule], equality: Equality, kinds: tuple[str, ...]) -> None:
    verdict = verify(declared(rule, equality))
    assert verdict.status is Status.REFUTED, verdict
    assert verdict.counterexample is not None and verdict.counterexample.kind in kinds, verdict


@pytest.mark.parametrize(
    ("rule", "equality"),
    [
        (TimesZero, Equality.REAL.allowing(Change.SIGNED_ZERO, Change.NAN_INF)),
        (PlusZero, SIGNED),
        (TimesOne, BITWISE),
        (LogarithmOfExponential, Equality.REAL.allowing(Change.OVERFLOW, Change.SIGNED_ZERO)),
        (RootOfSquareIsMagnitude, Equality.REAL),
        (MinusItself, Equality.REAL.allowing(Change.NAN_INF)),
        (ProductOfExponentials, Equality.REAL.allowing(Change.OVERFLOW, Change.NAN_INF)),
        (ReciprocalTwice, Equality.REAL),
        (SumOfConstants, Equality.REAL),
        (DoubleBySum, BITWISE),
    ],
)
def test_proved_when_everything_that_changes_is_declared(rule: type[Rule], equality: Equality) -> None:
    verdict = verify(declared(rule, equality))
    assert verdict.status is Status.PROVED, verdict


def test_conditions_make_it_hold() -> None:
    verdict = verify(declared(MergedClampsThatMeet, Equality.REAL.allowing(Change.SIGNED_ZERO)))
    assert verdict.holds, verdict


def test_says_what_changes_and_how_far_rounding_goes() -> None:
    verdict = verify(SumOfConstants)
    assert "rounding" in verdict.changes
    assert set(verdict.errors) == {"float32", "bfloat16", "float16"}
    assert 0 < verdict.errors["float32"] < 1e-5 < verdict.errors["bfloat16"] < 1
