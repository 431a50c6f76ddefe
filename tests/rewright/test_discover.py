"""`rewright discover`: what it writes, for a model, and what bad input gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rewright.cli.main import run as rewright

MODEL = """
import torch
from torch import nn


class Stage(nn.Module):
    def forward(self, x):
        return torch.max_pool2d(torch.relu(x), 2)


def stage():
    return Stage(), (torch.randn(4, 8, 32, 32),)


class Nothing(nn.Module):
    def forward(self, x):
        return torch.erf(x)


def nothing():
    return Nothing(), (torch.randn(4),)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "stage.py"
    path.write_text(MODEL)
    return path


def test_for_a_model_only_what_occurs_there_is_judged_and_what_saves_is_ranked(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWRIGHT_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "found.json"
    assert rewright(["discover", "--for", f"{model}:stage", "--max-ops", "2", "-o", str(tmp_path / "found.py"), "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    laws = [rule["law"] for rule in found["rules"]]
    assert "max_pool(relu(x0)) = relu(max_pool(x0))." in laws
    assert not [law for law in laws if law.startswith("relu(relu")], "relu of relu does not occur in the model"
    (gain,) = found["gains"]
    assert gain["rule"] == "MaxPoolOfReluIsReluOfMaxPool"
    assert gain["share"] > 0
    assert gain["after"]["time"] < gain["before"]["time"]
    assert rewright(["verify", str(tmp_path / "found.py"), "--examples", "20"]) == 0


def test_a_model_without_a_known_operator_is_one_sentence(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rewright(["discover", "--for", f"{model}:nothing"]) == 2
    assert "must have operators that discovery knows" in capsys.readouterr().err


def test_a_state_that_is_another_file_is_one_sentence_and_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "notes.txt"
    state.write_text("not a database, and longer than a header of one would be: " + "x" * 200)
    before = state.read_text()
    assert rewright(["discover", "--operators", "relu", "--max-ops", "1", "--state", str(state)]) == 2
    assert "must be a file that discovery wrote" in capsys.readouterr().err
    assert state.read_text() == before


def test_a_run_that_used_up_its_memory_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert rewright(["discover", "--operators", "relu,add", "--max-ops", "2", "--max-memory", "0.1"]) == 3
    assert "ended early" in capsys.readouterr().out
