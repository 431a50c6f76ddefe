"""`rewright compare` on files: exit statuses, JSON, the inputs that it writes, and one sentence for what cannot be compared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import rewright
from rewright.cli.main import run
from rewright.comparison import SideError

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.linear, self.slope = nn.Linear(3, 4), slope

    def forward(self, x):
        return nn.functional.leaky_relu(self.linear(x), self.slope)

def made(slope=0.1):
    torch.manual_seed(0)
    return Net(slope).eval(), (torch.randn(2, 3),)

def wrong():
    return made(0.2)
"""


@pytest.fixture
def factories(tmp_path: Path) -> str:
    (tmp_path / "nets.py").write_text(MODEL)
    return str(tmp_path / "nets.py")


def onnx_file(path: Path, nodes: list[onnx.NodeProto], outputs: tuple[str, ...] = ("y",), dims: tuple[object, ...] = ("n", 4)) -> str:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(dims))]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    weights = [helper.make_tensor("two", TensorProto.FLOAT, [], [2.0])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, values, weights), opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    )
    onnx.save(model, str(path))
    return str(path)


def test_the_same_factory_is_proved(factories: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", f"{factories}:made", f"{factories}:made"]) == 0
    assert capsys.readouterr().out.startswith("PROVED")


def test_a_difference_exits_with_one_and_is_shown_and_written(factories: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, inputs = tmp_path / "out.json", tmp_path / "inputs.npz"
    arguments = ["compare", f"{factories}:made", f"{factories}:wrong", "--json", str(report), "--save-inputs", str(inputs)]
    assert run(arguments) == 1
    shown = capsys.readouterr().out
    assert "REFUTED" in shown and "before" in shown and "AFTER: LeakyRelu" in shown
    written = json.loads(report.read_text())
    assert written["status"] == "REFUTED" and written["difference"]["kind"] == "value"
    assert written["difference"]["first_after"]["node"].startswith("LeakyRelu")
    assert numpy.load(inputs)["x"].shape == (2, 3)


def test_exported_programs_and_factories_may_be_mixed(factories: str, tmp_path: Path) -> None:
    module, inputs = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()).eval(), (torch.randn(2, 3),)
    torch.export.save(torch.export.export(module, inputs), tmp_path / "net.pt2")
    assert run(["compare", str(tmp_path / "net.pt2"), str(tmp_path / "net.pt2")]) == 0


def test_onnx_files_are_compared_for_all_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twice = onnx_file(tmp_path / "a.onnx", [helper.make_node("Mul", ["x", "two"], ["y"], name="double")])
    added = onnx_file(tmp_path / "b.onnx", [helper.make_node("Add", ["x", "x"], ["y"])])
    square = onnx_file(tmp_path / "c.onnx", [helper.make_node("Mul", ["x", "x"], ["y"], name="square")])
    assert run(["compare", twice, added]) == 0
    assert "all sizes n" in capsys.readouterr().out
    assert run(["compare", twice, square]) == 1
    assert "of Mul square" in capsys.readouterr().out


def test_onnx_outputs_are_paired_by_name_and_their_order_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Neg", ["x"], ["s"])]
    one, other = onnx_file(tmp_path / "a.onnx", nodes, ("r", "s")), onnx_file(tmp_path / "b.onnx", nodes, ("s", "r"))
    assert run(["compare", one, other]) == 1
    assert "order of outputs" in capsys.readouterr().out
    fixed = onnx_file(tmp_path / "c.onnx", nodes, ("r", "s"), (3, 4))
    assert run(["compare", one, fixed]) == 1
    assert "may have size n" in capsys.readouterr().out
    assert run(["compare", fixed, one]) == 0


@pytest.mark.parametrize("which", ["BEFORE", "AFTER"])
def test_what_is_no_model_is_said_in_one_line(which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = onnx_file(tmp_path / "a.onnx", [helper.make_node("Relu", ["x"], ["y"])])
    (tmp_path / "cut.onnx").write_bytes(Path(good).read_bytes()[:40])
    for bad in (str(tmp_path / "absent.onnx"), str(tmp_path / "cut.onnx"), "nothing"):
        assert run(["compare", *((bad, good) if which == "BEFORE" else (good, bad))]) == 2
        said = capsys.readouterr().err.strip()
        assert said.startswith(f"rewright: {which}: ") and "\n" not in said


def test_inputs_of_other_names_and_numbers_are_refused(tmp_path: Path, factories: str, capsys: pytest.CaptureFixture[str]) -> None:
    good = onnx_file(tmp_path / "a.onnx", [helper.make_node("Relu", ["x"], ["y"])])
    nodes = [helper.make_node("Add", ["p", "q"], ["y"])]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "pq"]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(tmp_path / "b.onnx"))
    assert run(["compare", good, str(tmp_path / "b.onnx")]) == 2
    assert "inputs: both sides must take the same ones, got (x) before and (p, q) after" in capsys.readouterr().err


def test_a_wrong_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "a.onnx", "b.onnx", "--equality", "nearly"]) == 2
    assert "--equality must be one of float, real" in capsys.readouterr().err


def test_only_a_proof_counts_where_one_is_required(tmp_path: Path) -> None:
    nodes = [helper.make_node("Asinh", ["x"], ["a"]), helper.make_node("Sinh", ["a"], ["y"])]
    one, other = onnx_file(tmp_path / "a.onnx", nodes), onnx_file(tmp_path / "b.onnx", [helper.make_node("Identity", ["x"], ["y"])])
    assert run(["compare", one, other, "--timeout", "20", "--examples", "6"]) == 0
    assert run(["compare", one, other, "--timeout", "20", "--examples", "6", "--require-proof"]) == 3


def test_python_takes_modules_programs_and_graphs() -> None:
    module, inputs = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()).eval(), (torch.randn(2, 3),)
    program = torch.export.export(module, inputs)
    assert rewright.compare((module, inputs), program).equal
    with pytest.raises(SideError, match="compare: a side must be"):
        rewright.compare(module, program)
