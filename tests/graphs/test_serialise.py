"""Graph files: the same graph comes back, and a broken or hostile file is refused with its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from examples.models import BLOCKS
from graphs.capture import capture
from graphs.emit import to_module
from graphs.graph import Graph
from graphs.interface import interface_of
from graphs.passes import simplify
from graphs.serialise import GraphFileError, decoded, encoded, load, save, tensors_path, to_json
from graphs.structure import structural_hash
from operators.expressions import floor_divide, larger, symbol
from operators.opaque import Slot, Word
from operators.operator import TensorType
from operators.sources import Scalar
from tests.graphs.roundtrip import assert_same

torch.set_num_threads(1)


class Everything(nn.Module):
    """Shared weights, buffers of both kinds, an updated buffer, an opaque operator, dynamic sizes, nested outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("shift", torch.randn(4), persistent=False)
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x: Tensor, options: dict[str, Any]) -> dict[str, Any]:
        y = self.norm(self.b(torch.sort(self.a(x) + self.shift, -1)[0])) * options["scale"] + float("inf")
        return {"y": (y, None), "rows": x.shape[0], "flat": y.reshape(2 * x.shape[0], 2) * self.frozen}


def everything() -> tuple[Everything, Graph]:
    module = Everything().train()
    sizes = ({0: Dim("rows", min=2, max=99)}, {"scale": None})
    return module, capture(module, (torch.randn(3, 4), {"scale": torch.tensor(2.0)}), sizes)


def test_everything_comes_back(tmp_path: Path) -> None:
    module, graph = everything()
    save(graph, tmp_path / "graph.json")
    again = load(tmp_path / "graph.json")
    assert structural_hash(again) == structural_hash(graph) and to_json(again) == to_json(graph)
    assert interface_of(again).ranges == interface_of(graph).ranges and interface_of(again).training
    emitted = to_module(again)
    assert list(emitted.state_dict()) == list(module.state_dict())
    assert emitted.a.weight is emitted.b.weight and not emitted.frozen.requires_grad and emitted.a.bias.requires_grad
    for rows in (2, 5):
        inputs = (torch.randn(rows, 4), {"scale": torch.tensor(3.0)})
        assert_same(module(*inputs), emitted(*inputs))
    assert_same(dict(module.state_dict()), dict(emitted.state_dict()))


@pytest.mark.parametrize("name", ["two_branch_block", "linear_attention_transformer"])
def test_blocks_come_back_after_passes(name: str, tmp_path: Path) -> None:
    module, inputs = BLOCKS[name]()
    graph = capture(module, inputs)
    simplify(graph)
    save(graph, tmp_path / "graph.json")
    with torch.no_grad():
        assert_same(to_module(graph)(*inputs), to_module(load(tmp_path / "graph.json"))(*inputs))


def test_the_text_does_not_depend_on_numbering(tmp_path: Path) -> None:
    _, graph = everything()
    save(graph, tmp_path / "first.json")
    save(load(tmp_path / "first.json"), tmp_path / "second.json")
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "second.json").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.json", "first.safetensors", "second.json", "second.safetensors"]


def test_transformers_outputs_come_back(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=50)
    module = transformers.BertModel(config).eval()
    inputs = {"input_ids": torch.randint(0, 50, (2, 7)), "attention_mask": torch.ones(2, 7, dtype=torch.int64)}
    graph = capture(module, inputs)
    save(graph, tmp_path / "bert.json")
    with torch.no_grad():
        assert_same(module(**inputs), to_module(load(tmp_path / "bert.json"))(**inputs))


VALUES = [
    None, True, 3, "float32", 0.1, float("inf"), -0.0, (1, (2, ())), symbol("n") * 3 - 1, floor_divide(symbol("n") + 1, symbol("m")),
    larger(symbol("n"), 4) * symbol("n"), TensorType((symbol("n"), 2), "int8", weak=True), Slot(2), Word("dtype", "float16"), 1 + 2j,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_attributes_are_written_and_read(value: Any) -> None:
    text = json.dumps(encoded(value), allow_nan=False)
    assert repr(decoded(json.loads(text))) == repr(value) and decoded(json.loads(text)) == value


def test_not_a_number_is_written_and_read() -> None:
    found = decoded(json.loads(json.dumps(encoded(Scalar(float("nan")).value), allow_nan=False)))
    assert found != found


def broken(change: Any) -> Any:
    def apply(path: Path) -> None:
        record = json.loads(path.read_text())
        change(record)
        path.write_text(json.dumps(record))

    return apply


BROKEN: dict[str, tuple[Any, str]] = {
    "no JSON": (lambda path: path.write_text("{"), "no JSON"),
    "no text": (lambda path: path.write_bytes(b"\xff\xfe\x00"), "no JSON"),
    "another format": (lambda path: path.write_text("[1]"), "the format must be 'rewright graph'"),
    "another version": (broken(lambda r: r.update(version=99)), "the version must be 1, got 99"),
    "no tensors": (lambda path: tensors_path(path).unlink(), "graph.safetensors: No such file"),
    "tensors cut short": (lambda path: tensors_path(path).write_bytes(tensors_path(path).read_bytes()[:40]), "no safetensors file"),
    "an unknown operator": (broken(lambda r: r["nodes"][-1].update(operator="System")), "System"),
    "an unknown attribute": (broken(lambda r: r["nodes"][-1]["attributes"].update(command="x")), "got .*command"),
    "an operand that is not there": (broken(lambda r: r["nodes"][-1].update(operands=[[999, 0]])), "not in the graph"),
    "a wrong type": (broken(lambda r: r["nodes"][-1]["types"][0].update(type=[[7], "int8", False])), "types must be"),
    "an unknown word": (broken(lambda r: r["nodes"][-1]["attributes"].update(size={"exec": "x"})), "unknown attribute exec"),
    "no nodes": (broken(lambda r: r.pop("nodes")), "nodes"),
    "an output that is not there": (broken(lambda r: r["outputs"].append([999, 0])), "999"),
    "an unknown class of outputs": (
        broken(lambda r: r["interface"].update(result_structure=r["interface"]["result_structure"].replace("builtins.dict", "os.system"))),
        "import the library that defines it first",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    class Reshaped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"y": self.layer(x).reshape(6)}

    path = tmp_path / "graph.json"
    save(capture(Reshaped().eval(), (torch.randn(3, 4),)), path)
    breaking, reason = BROKEN[name]
    breaking(path)
    with pytest.raises(GraphFileError, match=reason) as refusal:
        load(path)
    assert "\n" not in str(refusal.value) and "graph." in str(refusal.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GraphFileError, match=r"absent\.json: No such file"):
        load(tmp_path / "absent.json")


def test_nothing_is_left_half_written(tmp_path: Path) -> None:
    class Own:
        pass

    graph = capture(nn.ReLU(), (torch.ones(2),))
    object.__setattr__(graph.operator(graph.outputs[0].node), "extra", Own())
    graph.network.nodes[graph.inputs[0]]["types"] = (Own(),)
    with pytest.raises(GraphFileError, match="cannot be written"):
        save(graph, tmp_path / "graph.json")
    assert list(tmp_path.iterdir()) == []
