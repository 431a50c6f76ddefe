"""Grids of special values: shapes that fit, and what a declared change of NaN covers."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule
from verifier.grids import grids, interesting_integers
from verifier.instances import Space
from verifier.verdict import Status
from verifier.verify import verify


class SpeaksOfItsRows(Rule):
    """x + y = y + x, for an even number of rows."""

    source = "arithmetic"
    requires = [Requires("the number of rows is even", lambda p: p % 2 == 0)]

    def pattern(x: Float[Tensor, "p m"], y: Float[Tensor, "p m"]):
        return x + y

    def replacement(x, y):
        return y + x


class Halves(Rule):
    """The halves of a row may be added in either order."""

    source = "arithmetic"

    def pattern(x: Float[Tensor, "m 2*k"], k: int):
        return x[:, :k] + x[:, k:]

    def replacement(x, k):
        return x[:, k:] + x[:, :k]


class SpreadsToASquare(Rule):
    """A row spread to a square is the row plus zeros."""

    source = "arithmetic"
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"]):
        return x.expand(x.shape[0], x.shape[0])

    def replacement(x):
        return x + torch.zeros((x.shape[0], x.shape[0]), dtype=x.dtype)


class AtLeastItself(Rule):
    """a ≥ a."""

    source = "order"
    equality = Equality.REAL.allowing(Change.NAN_INF)

    def pattern(a: Float[Tensor, "n"]):
        return a >= a

    def replacement(a):
        return torch.ones_like(a, dtype=torch.bool)


class AtLeastItselfOfNaN(Rule):
    """a ≥ a, of NaN as well."""

    source = "a mistake: NaN is not at least itself"

    def pattern(a: Float[Tensor, "n"]):
        return a >= a

    def replacement(a):
        return torch.ones_like(a, dtype=torch.bool)


class AtLeastTheOther(Rule):
    """a ≥ b."""

    source = "a mistake"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO, Change.OVERFLOW)

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return a >= b

    def replacement(a, b):
        return torch.ones_like(a, dtype=torch.bool)


@pytest.mark.parametrize("rule", [SpeaksOfItsRows, Halves, SpreadsToASquare, AtLeastItself])
def test_grids_have_the_shapes_that_their_sizes_say(rule: type[Rule]) -> None:
    space = Space(rule)
    for instance in grids(space, extreme=True):
        ground = next(g for g in space.grounds if g.case == instance.case)
        shapes = ground.shapes(dict(instance.sizes), most=1 << 20)
        assert shapes == {name: tuple(tensor.shape) for name, tensor in instance.tensors.items()}
        assert ground.model.admits(instance.sizes)


@pytest.mark.parametrize("rule", [SpeaksOfItsRows, Halves, SpreadsToASquare, AtLeastItself])
def test_rules_that_hold(rule: type[Rule]) -> None:
    verdict = verify(rule, examples=30)
    assert verdict.holds, verdict


def test_nan_refutes_a_truth_where_its_change_is_not_declared() -> None:
    found = verify(AtLeastItselfOfNaN, examples=30)
    assert found.status is Status.REFUTED and found.counterexample is not None
    assert found.counterexample.kind == "NaN/inf"


def test_a_declared_change_of_nan_hides_no_wrong_truth() -> None:
    found = verify(AtLeastTheOther, examples=30)
    assert found.status is Status.REFUTED and found.counterexample is not None
    assert found.counterexample.kind == "value"


def test_bytes_run_through_all_their_values() -> None:
    assert sorted(interesting_integers(torch.int8)) == list(range(-128, 128))
    assert {2**31, 2**53 + 1, -(2**63), 2**63 - 1} <= set(interesting_integers(torch.int64))
