"""Whole numbers that are read as positions are drawn within what they index."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from rewrites import Rule
from verifier.comparing import Standard
from verifier.instances import Space
from verifier.testing import run_tests
from verifier.values import ORDINARY
from verifier.verdict import Status
from verifier.verify import verify

IGNORED = -100
"""The target that a cross entropy passes over."""


class Looked(Rule):
    """Rows of a table by positions of two sources."""

    source = "a test"

    def pattern(i: Int[Tensor, "n"], j: Int[Tensor, "m"], table: Float[Tensor, "v d"]):
        return F.embedding(torch.cat((i, j)).long().unsqueeze(0), table)

    def replacement(i, j, table):
        return torch.cat((table[i.long()], table[j.long()])).unsqueeze(0)


class Classified(Rule):
    """The loss of a target class."""

    source = "a test"

    def pattern(x: Float[Tensor, "n c"], target: Int[Tensor, "n"]):
        return F.cross_entropy(x, target.long(), reduction="sum")

    def replacement(x, target):
        return -F.log_softmax(x, -1).gather(1, target.long().unsqueeze(1)).sum()


class Indexed(Rule):
    """Sums of rows."""

    source = "a test"

    def pattern(x: Float[Tensor, "m n"], i: Int[Tensor, "k"]):
        return x[i].sum(-1)

    def replacement(x, i):
        return x.sum(-1)[i]


@pytest.mark.parametrize(
    ("rule", "whole", "axis", "of", "negative"),
    [(Looked, ("i", "j"), 0, "table", False), (Classified, ("target",), 1, "x", False), (Indexed, ("i",), 0, "x", True)],
)
def test_positions_are_within_what_they_index(rule: type[Rule], whole: tuple[str, ...], axis: int, of: str, negative: bool) -> None:
    space = Space(rule)
    made = [space.build(*place, ORDINARY, "float64", seed) for seed in range(20) for place in space.places]
    instances = [one for one in made if one is not None and one.tensors[of].shape[axis]]
    least = 0
    for instance in instances:
        extent = instance.tensors[of].shape[axis]
        for name in whole:
            positions = instance.tensors[name]
            positions = positions[positions != IGNORED] if rule is Classified else positions
            assert bool(((-extent if negative else 0) <= positions).all()) and bool((positions < extent).all())
            least = min(least, *positions.tolist(), 0)
    assert (least < 0) is negative


def test_most_examples_count() -> None:
    for rule in (Looked, Indexed):
        report = run_tests(rule, Space(rule), Standard(rule.equality), examples=40)
        assert report.failure is None and report.examples > 3 * report.invalid


def test_targets_that_are_passed_over_are_drawn() -> None:
    verdict = verify(Classified)
    assert verdict.status is Status.REFUTED and verdict.counterexample is not None
    assert IGNORED in verdict.counterexample.inputs["target"]
