"""XLA's laws get their true verdicts: proved for all sizes, but for those that are wrong or out of the proof's reach, by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import tests.xla.xla_rules_more  # noqa: F401  (declares the rest of the laws)
from rewrites import Rule
from tests.xla.xla_rules import XlaRule
from verifier.verdict import Status
from verifier.verify import verify

WRONG = {"DynamicSliceOfDynamicSlice"}
"""The two sides clamp their starts against different sizes."""


@pytest.mark.parametrize("rule", XlaRule.__subclasses__(), ids=lambda rule: rule.__name__)
def test_a_law_gets_its_verdict(rule: type[Rule]) -> None:
    verdict = verify(rule, examples=30, timeout=60.0)
    if rule.__name__ in WRONG:
        assert verdict.status is Status.REFUTED
        assert verdict.counterexample is not None
    else:
        assert verdict.status is Status.PROVED, verdict.reason


def test_every_entry_of_the_collection_is_here() -> None:
    identifiers = {rule.identifier for rule in XlaRule.__subclasses__()}
    assert len(identifiers) == len(XlaRule.__subclasses__()) == 64
    assert {"dyslice/rule05", "dyslice/rule05 (mended)", "pad/rule04", "slice/rule13", "conv/rule00"} <= identifiers


class FloatAtLeastItself(Rule):
    """A ≥ A is true, over floating-point numbers."""

    source = "XLA, algebraic simplifier, compare/rule04"

    def pattern(a: Float[Tensor, "n"]) -> Any:
        return a >= a

    def replacement(a: Any) -> Any:
        return torch.ones_like(a, dtype=torch.bool)


def test_comparing_with_itself_is_refuted_by_not_a_number() -> None:
    assert verify(FloatAtLeastItself, examples=30).status is Status.REFUTED
