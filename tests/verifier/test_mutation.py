"""The mutation self-test, sampled: no wrong mutant of the library is proved, and a prover that says yes to all is found out."""

from __future__ import annotations

import random

import pytest

import verifier.mutation as mutation
from rewrites import Rule
from rewrites.library import library
from verifier.mutants import mutants
from verifier.mutation import trials
from verifier.proof.prove import PROVED, Proof

RULES = {rule.__name__: rule for rule in library()}
SAMPLE = random.Random(3).sample(sorted(RULES), 24)


@pytest.mark.parametrize("name", SAMPLE)
def test_no_wrong_mutant_of_the_library_is_proved(name: str) -> None:
    tried = list(trials(RULES[name], 6, seed=5))
    assert len(tried) >= 6
    assert not [f"{trial.change}: {trial.wrong}" for trial in tried if trial.proved_wrongly]


@pytest.mark.parametrize("name", ["FactorMatMulLeft", "ReluIsIdempotent", "SplitOfConcatenation"])
def test_a_prover_that_says_yes_to_all_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation, "prove", lambda *arguments: Proof(PROVED, 0.0))
    assert any(trial.proved_wrongly for trial in trials(RULES[name], 8))


@pytest.mark.parametrize("name", ["ReluIsIdempotent", "DoubleComplement"])
def test_there_are_twenty_mutants_even_of_a_small_rule(name: str) -> None:
    tried = list(trials(RULES[name], 20, seconds=0.1, seconds_when_wrong=0.1))
    assert len(tried) >= 20
    assert any(trial.wrong for trial in tried)
    assert not [trial.change for trial in tried if trial.proved_wrongly]


@pytest.mark.parametrize("name, kinds", [
    ("FoldBatchNormIntoConvolution", {"change field", "swap", "reroute", "drop", "add", "cut", "wrap", "exchange inputs", "exchange"}),
    ("SplitOfConcatenation", {"change field", "leave out", "wrap"}),
    ("SiluFromParts", {"exchange", "drop", "add"}),
])  # fmt: skip
def test_every_kind_of_change_is_made(name: str, kinds: set[str]) -> None:
    from rewrites.cases import cases, trace_case

    traced = trace_case(RULES[name], next(iter(cases(RULES[name]))))
    made = {m.change.split(" at ")[0] for graph in (traced.pattern, traced.replacement) for m in mutants(graph, 120, seed=1)}
    assert kinds <= made, made


def test_a_rule_without_a_condition_is_a_mutant() -> None:
    rule: type[Rule] = next(rule for rule in RULES.values() if len(rule.requires) >= 2)
    changes = [trial.change for trial in trials(rule, 0)]
    assert len(changes) == len(rule.requires)
    assert all(change.startswith("without the condition") for change in changes)


def test_a_mutant_that_torch_cannot_call_is_not_taken_as_wrong() -> None:
    tried = [trial for trial in trials(RULES["ClampOfNegation"], 40, seed=1) if trial.change.startswith("swap at Clamp")]
    assert tried and not any(trial.proved_wrongly for trial in tried)
