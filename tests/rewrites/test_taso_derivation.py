"""TASO's correct rules follow from the library's by at most four rewrites, counted from either end."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
import torch

from rewrites.cases import cases, trace_case
from rewrites.library import library
from rewrites.rule import Rule
from rewrites.taso import load_taso
from tests.rewrites.derivation import derivable, rules_over
from tests.rewrites.instances import Sample, instances

DATA = Path(os.environ.get("REWRIGHT_DATA", Path(__file__).parents[3] / "shared" / "data")) / "taso_rules.json"
OPERATORS = {"MatMul", "Add", "Multiply", "Conv2d", "Relu", "Cat", "Split", "Full"}
pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"TASO's collection is not at {DATA}; REWRIGHT_DATA names its folder")


@cache
def over_these_operators() -> list[type[Rule]]:
    return rules_over(library(), OPERATORS)


def instance_in_one_group(rule: type[Rule]) -> Sample | None:
    """An instance of the rule whose convolutions have one group."""
    found = (instance for case in cases(rule) for instance in instances(rule, trace_case(rule, case)))
    return next((instance for instance in found if instance.arguments.get("groups", 1) == 1), None)


@pytest.mark.parametrize("rule", load_taso(DATA) if DATA.exists() else [], ids=lambda rule: rule.__name__)
def test_derivable(rule: type[Rule]) -> None:
    instance = instance_in_one_group(rule)
    assert instance is not None
    both = zip(instance.run("pattern"), instance.run("replacement"), strict=True)
    assert all(a.shape == b.shape and torch.allclose(a, b) for a, b in both), "the rule is wrong even for one group"
    assert derivable(instance.graph("pattern"), instance.graph("replacement"), over_these_operators(), 4) is not None
