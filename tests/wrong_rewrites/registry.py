"""Publicly reported wrong rewrites: each as a rule as it was shipped, and its corrected twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rewrites import Rule

R = TypeVar("R", bound=type[Rule])

SHIPPED: dict[str, type[Rule]] = {}
"""By the report's name: the rule as it was shipped."""
KINDS: dict[str, tuple[str, ...]] = {}
"""By the report's name: the kinds of difference that the report speaks of."""
MENDED: dict[str, type[Rule]] = {}
"""By the report's name: the rule with the condition that was missing, or with the right other side."""


def shipped(report: str, *kinds: str) -> Callable[[R], R]:
    """Enter a rule as the wrong one of a report, refuted by a difference of one of the kinds."""

    def enter(rule: R) -> R:
        assert report not in SHIPPED, report
        SHIPPED[report], KINDS[report] = rule, kinds
        return rule

    return enter


def mended(report: str) -> Callable[[R], R]:
    """Enter a rule as the corrected twin of a report."""

    def enter(rule: R) -> R:
        assert report not in MENDED, report
        MENDED[report] = rule
        return rule

    return enter


INEXPRESSIBLE: dict[str, str] = {
    "onnxruntime-12498": "the report gives the symptom (a grouped convolution with a full-size addend gives wrong numbers), "
    "but neither the rewrite nor the condition that it lacks",
}
"""Reports that no rule can express, with the reason."""
