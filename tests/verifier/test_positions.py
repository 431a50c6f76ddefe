"""Whole numbers that are read as positions are drawn within what they index, most of the time."""

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


@pytest.mark.parametrize(("rule", "whole", "axis", "of"), [(Looked, ("i", "j"), 0, "table"), (Classified, ("target",), 1, "x")])
def test_positions_are_within_what_they_index(rule: type[Rule], whole: tuple[str, ...], axis: int, of: str) -> None:
    space = Space(rule)
    made = [space.build(*place, ORDINARY, "float64", seed) for seed in range(20) for place in space.places]
    instances = [one for one in made if one is not None and all(tensor.numel() for tensor in one.tensors.values())]

    def inside(instance) -> bool:
        extent = instance.tensors[of].shape[axis]
        return all(bool(((0 <= instance.tensors[name]) & (instance.tensors[name] < extent)).all()) for name in whole)

    assert 0.7 * len(instances) <= sum(map(inside, instances)) < len(instances)


def test_most_examples_count() -> None:
    report = run_tests(Looked, Space(Looked), Standard(Looked.equality), examples=40)
    assert report.failure is None and report.examples > 3 * report.invalid
