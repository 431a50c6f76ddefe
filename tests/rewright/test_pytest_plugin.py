"""The pytest plugin, run as a user runs pytest: in a folder of its own, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
RULES = '''
import torch
from jaxtyping import Float
from torch import Tensor
from rewrites import Rule


class AdditionCommutes(Rule):
    """Addition commutes."""

    source = "a ring's axioms"

    def pattern(x: Float[Tensor, "m n"], y: Float[Tensor, "m n"]):
        return x + y

    def replacement(x, y):
        return y + x


class SubtractionCommutes(Rule):
    """Subtraction commutes."""

    source = "wishful thinking"

    def pattern(x: Float[Tensor, "m n"], y: Float[Tensor, "m n"]):
        return x - y

    def replacement(x, y):
        return y - x
'''
MEANS = '''
import torch
from jaxtyping import Float
from torch import Tensor
from rewrites import Rule


class MeanOfConcat(Rule):
    """The mean of a concatenation is the mean of the means."""

    source = "wishful thinking"

    def pattern(a: Float[Tensor, "n k"], b: Float[Tensor, "n m"]):
        return torch.cat([a, b], 1).mean(1)

    def replacement(a, b):
        return (a.mean(1) + b.mean(1)) / 2
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "rules.py").write_text(RULES)
    return tmp_path


def run_pytest(project: Path, *arguments: str, ini: str = "") -> subprocess.CompletedProcess[str]:
    (project / "pytest.ini").write_text("[pytest]\n" + ini)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment |= {"PYTHONPATH": str(ROOT), "REWRIGHT_CACHE": str(project / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=300)


def test_rules_named_in_the_configuration_are_tests(project: Path) -> None:
    answer = run_pytest(project, "-p", "rewright.pytest_plugin", "--rewright-examples", "20", ini="rewright_rules = rules.py\n")
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert "1 failed, 1 passed" in answer.stdout
    assert "FAILED rules.py::SubtractionCommutes" in answer.stdout
    assert "the replacement computes:" in answer.stdout
    assert "Traceback" not in answer.stdout


def test_a_failure_names_the_condition_that_the_rule_lacks(project: Path) -> None:
    (project / "means.py").write_text(MEANS)
    answer = run_pytest(project, "-p", "rewright.pytest_plugin", "means.py", "--rewright-examples", "20")
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert "REFUTED: value: the outputs differ; holds if k == m\n" in answer.stdout


def test_one_rule_by_its_name_under_xdist(project: Path) -> None:
    options = ["-n", "1", "--rewright-examples", "20", "--rewright-require-proof"]
    answer = run_pytest(project, "-p", "rewright.pytest_plugin", "rules.py", "-k", "AdditionCommutes", *options)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "1 passed" in answer.stdout


def test_a_file_that_cannot_be_used_is_one_sentence(project: Path) -> None:
    (project / "rules.py").write_text("def pattern(:\n")
    answer = run_pytest(project, "-p", "rewright.pytest_plugin", ini="rewright_rules = *.py\n")
    assert answer.returncode == 2
    assert "rules.py:1: does not parse: invalid syntax" in answer.stdout


def test_what_makes_no_rule_is_a_failure_of_its_own(project: Path) -> None:
    (project / "rules.py").write_text(RULES.replace('    source = "wishful thinking"\n', ""))
    options = ["-p", "rewright.pytest_plugin", "--rewright-examples", "20"]
    answer = run_pytest(project, *options, ini="rewright_rules = rules.py\n")
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert "1 failed, 1 passed" in answer.stdout
    assert "ERROR: a rule needs a `source`" in answer.stdout


def test_nothing_is_collected_without_being_asked(project: Path) -> None:
    answer = run_pytest(project, "-p", "rewright.pytest_plugin")
    assert answer.returncode == 5
    assert "no tests ran" in answer.stdout
