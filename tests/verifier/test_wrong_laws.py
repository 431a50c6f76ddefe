"""Wrong laws are refuted by the tests, and the proof alone proves none of them."""

from __future__ import annotations

import time

import pytest

import tests.verifier.wrong_laws_of_elements
import tests.verifier.wrong_laws_of_floats
import tests.verifier.wrong_laws_of_layers  # noqa: F401  (they declare more of the laws)
from rewrites import Rule
from rewrites.cases import cases, trace_case
from tests.verifier.wrong_laws import WrongLaw
from verifier.proof.rules import prove_case
from verifier.proving import prove_all
from verifier.verdict import Status
from verifier.verify import verify

LAWS = WrongLaw.__subclasses__()


@pytest.mark.parametrize("rule", LAWS, ids=lambda rule: rule.__name__)
def test_a_wrong_law_is_not_proved(rule: type[Rule]) -> None:
    traced = [trace_case(rule, case) for case in cases(rule)]
    over_reals = all(not case.narrowed and prove_case(case, timeout=5.0).proved for case in traced)
    assert not over_reals or not prove_all(rule, {}, time.monotonic() + 10.0).proved


@pytest.mark.parametrize("rule", LAWS, ids=lambda rule: rule.__name__)
def test_a_wrong_law_is_refuted(rule: type[Rule]) -> None:
    verdict = verify(rule, examples=100)
    assert verdict.status is Status.REFUTED, verdict.reason
    assert verdict.counterexample is not None
