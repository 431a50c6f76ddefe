"""Reported wrong rewrites are refuted as they were shipped, and hold once they are mended."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path

import pytest

from rewrites import Rule
from tests.wrong_rewrites.registry import INEXPRESSIBLE, KINDS, MENDED, SHIPPED
from verifier.verdict import Status
from verifier.verify import verify

for _module in ("algebra", "convolutions", "effects", "floats", "integers", "layouts"):
    importlib.import_module(f"tests.wrong_rewrites.{_module}")


@pytest.mark.parametrize("report", SHIPPED)
def test_shipped_form_is_refuted(report: str) -> None:
    verdict = verify(SHIPPED[report])
    assert verdict.status is Status.REFUTED, verdict
    assert verdict.counterexample is not None
    assert verdict.counterexample.kind in KINDS[report], verdict.counterexample.summary


@pytest.mark.parametrize("report", MENDED)
def test_mended_form_holds(report: str) -> None:
    verdict = verify(MENDED[report])
    assert verdict.status in (Status.PROVED, Status.PROVED_BOUNDED, Status.TESTED), verdict


def test_every_shipped_form_has_its_twin() -> None:
    assert set(SHIPPED) == set(MENDED)
    assert all(issubclass(rule, Rule) for rule in [*SHIPPED.values(), *MENDED.values()])


def test_every_report_is_accounted_for() -> None:
    root = Path(__file__).resolve().parents[2]
    data = Path(os.environ.get("REWRIGHT_DATA", root.parent / "shared" / "data")) / "wrong_rewrites.json"
    if not data.is_file():
        pytest.skip(f"the collection of reports is not at {data}")
    assert len(SHIPPED) + len(INEXPRESSIBLE) == len(json.loads(data.read_text()))
