"""A law that is read from right to left as well holds in that direction, whatever its left side's operators refuse."""

from __future__ import annotations

import pytest

from rewrites.library import library
from rewrites.reverse import reverse
from rewrites.rule import Rule
from verifier.verdict import Status
from verifier.verify import verify


@pytest.mark.parametrize("rule", [rule for rule in library() if rule.bidirectional], ids=lambda rule: rule.__name__)
def test_it_is_proved_from_right_to_left(rule: type[Rule]) -> None:
    verdict = verify(reverse(rule), examples=15)
    assert verdict.status is Status.PROVED, verdict.reason
