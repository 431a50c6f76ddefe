"""TASO's collection gets its true verdicts: what is right is proved for all sizes and any groups, what is wrong is refuted."""

from __future__ import annotations

import pytest

from rewrites.taso import load_taso
from tests.rewrites.test_taso import COLLECTION, needs_collection
from verifier.suggest import suggest
from verifier.verdict import Status
from verifier.verify import verify

OVER_ONE_INPUT = (125, 126, 127, 128, 129)
"""Filters of grouped convolutions of one input, concatenated: the groups of the two interleave."""
OF_ADDED_OUTPUTS = (98, 105)
"""Inputs and filters of added grouped convolutions, concatenated along channels: the groups of the two interleave."""
OF_TWO_INPUTS = (99, 100, 130, 131)
"""Two convolutions as one of twice the groups: the two must have equally many output channels."""
MISSING = dict.fromkeys((*OVER_ONE_INPUT, *OF_ADDED_OUTPUTS), "groups == 1") | dict.fromkeys(OF_TWO_INPUTS, " == ")
SAME = (63, 64, 65, 66)
"""relu after a convolution, and a convolution that ends in relu, are one function: both sides are the same."""


@needs_collection
def test_wrong_rules_are_refuted_and_right_ones_proved() -> None:
    found = {int(rule.__name__.removeprefix("Taso")): verify(rule, examples=20) for rule in load_taso(COLLECTION)}
    assert {number for number, verdict in found.items() if verdict.status is Status.REFUTED} == set(MISSING)
    assert {number for number, verdict in found.items() if verdict.status is Status.TRIVIAL} == set(SAME)
    others = {number: verdict for number, verdict in found.items() if number not in MISSING and number not in SAME}
    assert len(others) == 118
    assert not {number: verdict.reason for number, verdict in others.items() if verdict.status is not Status.PROVED}


@needs_collection
@pytest.mark.parametrize("number", [98, 99, 125, 131])
def test_the_missing_condition_is_found(number: int) -> None:
    (rule,) = (rule for rule in load_taso(COLLECTION) if rule.__name__ == f"Taso{number}")
    suggestion = suggest(rule, 30.0)
    assert suggestion is not None
    assert MISSING[number] in str(suggestion)
