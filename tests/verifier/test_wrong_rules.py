"""The six wrong rules of examples/wrong_rules.py: each is refuted by a smallest instance, and its script fails."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from verifier.verdict import Status, Verdict
from verifier.verify import verify

_FILE = Path(__file__).resolve().parents[2] / "examples" / "wrong_rules.py"


def _rules() -> dict[str, Any]:
    specification = importlib.util.spec_from_file_location("wrong_rules_under_test", _FILE)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return {name: value for name, value in vars(module).items() if isinstance(value, type) and value.__module__ == module.__name__}


RULES = _rules()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    return {name: verify(rule) for name, rule in RULES.items()}


def test_there_are_six() -> None:
    assert len(RULES) == 6


@pytest.mark.parametrize("name", RULES)
def test_is_refuted_by_a_small_instance(name: str, verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts[name]
    assert verdict.status is Status.REFUTED
    found = verdict.counterexample
    assert found is not None
    dims = {n: v for n, v in found.sizes.items() if n.split("[")[0] not in found.attributes}
    assert max(dims.values()) <= 2, found.summary


@pytest.mark.parametrize("name", RULES)
def test_script_exits_1_and_stands_alone(name: str, verdicts: dict[str, Verdict], tmp_path: Path) -> None:
    found = verdicts[name].counterexample
    assert found is not None
    script = tmp_path / "repro.py"
    script.write_text(found.script)
    ran = subprocess.run([sys.executable, "-I", str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert ran.returncode == 1, ran.stderr
    assert not ran.stderr


def test_verdict_survives_json(verdicts: dict[str, Verdict]) -> None:
    import json

    for verdict in verdicts.values():
        again = Verdict.from_json(json.loads(verdict.dumps()))
        assert again.dumps() == verdict.dumps()


def test_the_open_training_mode_is_the_reason(verdicts: dict[str, Verdict]) -> None:
    found = verdicts["FoldBatchNormWithTrainingLeftOpen"].counterexample
    assert found is not None and found.attributes["training"] is True


def test_the_grouped_case_is_the_reason(verdicts: dict[str, Verdict]) -> None:
    found = verdicts["ConcatenateGroupedConvolutions"].counterexample
    assert found is not None and found.attributes["groups"] == 2
