"""`rewright costs`: shares by operator and layer add up to the whole, measured or priced, in inference and in training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rewright.breakdown import layer_of_name
from rewright.cli.main import run

MODEL = '''
import torch

class Block(torch.nn.Module):
    """A perceptron with a residual.  x: [n, 16]   ->   [n, 16]"""

    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))

class Model(torch.nn.Module):
    """Three blocks and a head.  x: [n, 16]   ->   [n, 4]"""

    def __init__(self):
        super().__init__()
        self.blocks, self.head = torch.nn.ModuleList(Block() for _ in range(3)), torch.nn.Linear(16, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x).softmax(-1)

def factory():
    return Model().eval(), (torch.randn(8, 16),)
'''


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWRIGHT_CACHE", str(tmp_path / "cache"))


def figures(folder: Path, *options: str) -> dict[str, Any]:
    (folder / "model.py").write_text(MODEL)
    assert run(["costs", f"{folder / 'model.py'}:factory", "--json", str(folder / "costs.json"), *options]) == 0
    found: dict[str, Any] = json.loads((folder / "costs.json").read_text())
    return found


def test_shares_add_up_by_operator_and_by_layer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(tmp_path, "--kernels", "none")
    assert (found["device"], found["kernels_policy"], found["runtime"], found["training"]) == ("h100", "none", None, False)
    for by in ("operators", "layers", "repeated"):
        assert sum(share["time"] for share in found[by]) == pytest.approx(found["total"]["time"])
        assert sum(share["share"] for share in found[by]) == pytest.approx(1.0)
        assert sum(share["kernels"] for share in found[by]) == found["total"]["kernels"] == 14
        assert sum(share["flops"] for share in found[by]) == found["total"]["flops"]
    assert [share["name"] for share in found["layers"]] == ["blocks.0", "blocks.1", "blocks.2", "head"]
    assert [(share["name"], share["kernels"]) for share in found["repeated"]] == [("blocks.*", 12), ("head", 2)]
    assert {share["name"]: share["kernels"] for share in found["operators"]} == {"Linear": 7, "Relu": 3, "Add": 3, "Softmax": 1}
    assert {share["bound"] for share in found["operators"]} == {"launch"}
    assert "blocks.*" in capsys.readouterr().out


def test_the_usual_kernels_are_those_of_optimize(tmp_path: Path) -> None:
    found = figures(tmp_path)
    assert found["kernels_policy"] == "inductor-like"
    assert found["total"]["kernels"] == 14


def test_measured_kernels_say_in_which_runtime(tmp_path: Path) -> None:
    found = figures(tmp_path, "--measured")
    assert (found["device"], found["runtime"], found["kernels_policy"]) == ("cpu", "eager", "none")
    assert found["unmeasured"] == []
    assert found["total"]["time"] > 0


def test_training_costs_more_than_inference(tmp_path: Path) -> None:
    inference, training = figures(tmp_path), figures(tmp_path, "--training")
    assert training["training"] is True
    assert 2.5 < training["total"]["flops"] / inference["total"]["flops"] < 3.5
    assert training["total"]["memory"] > 1.5 * inference["total"]["memory"]


def test_names_that_mean_nothing_end_with_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    for option in (["--device", "abacus"], ["--kernels", "all"], ["--measured", "--then", "xla"]):
        assert run(["costs", f"{tmp_path / 'model.py'}:factory", *option]) == 2
        assert "must be one of" in capsys.readouterr().err


def test_a_layer_is_named_by_the_first_number_of_a_weight() -> None:
    assert layer_of_name("encoder.layer.3.attention.self.query.weight") == "encoder.layer.3"
    assert layer_of_name("lm_head.weight") == "lm_head"
    assert layer_of_name("weight") == ""
