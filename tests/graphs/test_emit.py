"""Emitting: modules that can be saved, copied, compiled, trained and exported again; what cannot be emitted says so."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from graphs.capture import capture, from_exported_program
from graphs.emit import EmitError, to_exported_program, to_module
from graphs.evaluate import evaluate, run_module
from graphs.graph import Graph
from graphs.structure import structural_hash
from operators.activations import Relu
from operators.arithmetic import Add
from operators.expressions import symbol
from operators.layout import Reshape
from operators.opaque import Opaque, Slot
from operators.operator import TensorType
from operators.sources import Scalar
from tests.graphs.roundtrip import assert_same

torch.set_num_threads(1)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor, *, scale: Tensor) -> dict[str, Any]:
        y = self.norm(self.layer(x))
        return {"y": torch.relu(y) * scale, "size": x.shape[0]}


def example(rows: int = 3) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    return (torch.randn(rows, 3),), {"scale": torch.randn(4)}


def test_an_emitted_module_is_a_graph_module_that_copies_and_prints() -> None:
    module = Small().eval()
    emitted = to_module(capture(module, example()))
    assert isinstance(emitted, torch.fx.GraphModule) and "linear" in emitted.code
    (x,), named = example()
    other = copy.deepcopy(emitted)
    assert_same(module(x, **named), other(x, **named))
    assert other.layer.weight is not module.layer.weight


def test_emitted_modules_train_as_the_original_does() -> None:
    torch.manual_seed(0)
    module = Small().train()
    emitted = to_module(capture(copy.deepcopy(module), example()))
    for each in (module, emitted):
        torch.manual_seed(1)
        steps = torch.optim.SGD(each.parameters(), 0.1)
        for _ in range(3):
            (x,), named = example()
            steps.zero_grad()
            each(x, **named)["y"].sum().backward()
            steps.step()
    assert_same(dict(module.state_dict()), dict(emitted.state_dict()))


def test_emitted_modules_move_to_another_dtype() -> None:
    module = Small().eval()
    emitted = to_module(capture(module, example()))
    (x,), named = example()
    expected = copy.deepcopy(module).double()(x.double(), scale=named["scale"].double())
    assert_same(expected, emitted.double()(x.double(), scale=named["scale"].double()))


def test_exported_programs_keep_dynamic_sizes_and_come_back() -> None:
    module = Small().eval()
    sizes = {"x": {0: Dim("rows", min=2)}, "scale": None}
    graph = capture(module, example(), sizes)
    stream = io.BytesIO()
    torch.export.save(to_exported_program(graph), stream)
    stream.seek(0)
    program = torch.export.load(stream)
    again = from_exported_program(program)
    assert len(again) == len(graph)
    for rows in (2, 5):
        (x,), named = example(rows)
        assert_same(module(x, **named), program.module()(x, **named))
        assert_same(module(x, **named), to_module(again)(x, **named))
        assert_same(module(x, **named), run_module(again, x, **named))


def test_static_exported_programs_give_the_same_graph() -> None:
    graph = capture(nn.Sequential(nn.Linear(3, 4), nn.ReLU()).eval(), (torch.randn(2, 3),))
    assert structural_hash(from_exported_program(to_exported_program(graph))) == structural_hash(graph)


def test_a_graph_made_by_hand_is_emitted_plainly() -> None:
    graph = Graph()
    n = symbol("n")
    x = graph.input("x", TensorType((n, 4)))
    y = graph.add(Add(), graph.add(Reshape((2 * n, 2)), x), graph.add(Scalar(n)))
    graph.outputs = [y, graph.add(Relu(), x)]
    value = torch.randn(5, 4)
    first, second = to_module(graph)(value)
    assert torch.equal(first, value.reshape(10, 2) + 5) and torch.equal(second, torch.relu(value))
    assert_same([first, second], evaluate(graph, [value]))


def test_sizes_with_quotients_and_remainders_are_computed() -> None:
    def forward(x: Tensor) -> Tensor:
        n = x.shape[0]
        return torch.cat([x.new_ones(n // 2) * (n % 3), x, x.new_ones((n * 3 + 1) // 4)])

    class Sized(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return forward(x)

    emitted = to_module(capture(Sized(), (torch.randn(7),), ({0: Dim("n", min=5, max=40)},)))
    for n in (5, 6, 9, 30):
        x = torch.randn(n)
        assert_same(forward(x), emitted(x))


def test_sizes_that_are_multiples_are_solved() -> None:
    class Even(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.view(2, -1).sum(0) * x.shape[0]

    half = Dim("half", min=2, max=50)
    graph = capture(Even(), (torch.randn(6),), ({0: 2 * half},))
    emitted = to_module(graph)
    for n in (4, 10):
        x = torch.randn(n)
        assert_same(Even()(x), emitted(x))
        assert_same(Even()(x), evaluate(graph, [x])[0])
    with pytest.raises(ValueError, match=r"a size must be 2\*.* for .* = 2, got 5"):
        evaluate(graph, [torch.randn(5)])


def test_emitted_modules_compile() -> None:
    module = Small().eval()
    (x,), named = example()
    compiled = torch.compile(to_module(capture(module, ((x,), named))), backend="eager", fullgraph=True)
    assert_same(module(x, **named), compiled(x, **named))


def test_a_node_that_cannot_be_written_is_named() -> None:
    class Unwritable(Relu):
        def run(self, *tensors: Any) -> Any:
            raise NotImplementedError("no kernel here")

    graph = Graph()
    graph.outputs = [graph.add(Unwritable(), graph.input("x", TensorType((2,))))]
    with pytest.raises(EmitError, match=r"node 1 .*no kernel here"):
        to_module(graph)


def test_an_operator_whose_kernel_contradicts_its_type_is_named() -> None:
    class Wrong(Relu):
        def run(self, *tensors: Any) -> Any:
            return tensors[0].double()

    graph = Graph()
    graph.outputs = [graph.add(Wrong(), graph.input("x", TensorType((2,))))]
    with pytest.raises(EmitError, match=r"torch gives torch.float64 \[2\], not float32\[2\]"):
        to_module(graph)


def test_a_round_trip_notices_a_wrong_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Relu, "run", lambda self, x: torch.relu(x) + 1e-6)
    module = nn.ReLU()
    emitted = to_module(capture(module, (torch.ones(2),)))
    with pytest.raises(AssertionError, match="largest difference"):
        assert_same(module(torch.ones(2)), emitted(torch.ones(2)))


def test_an_opaque_operator_of_a_library_that_is_not_there_is_named() -> None:
    graph = Graph()
    kind = TensorType((2,))
    graph.outputs = [graph.add(Opaque("nobody.made_this.default", (Slot(0),), (), (kind,)), graph.input("x", kind))]
    with pytest.raises(EmitError, match=r"nobody\.made_this\.default: not registered; import the library that defines it first"):
        to_module(graph)


@pytest.mark.parametrize("target", ["python:os:system", "python:_operator:call", "python:torch.hub:load", "python:builtins:eval"])
def test_opaque_targets_name_no_function_that_could_do_harm(target: str) -> None:
    graph = Graph()
    kind = TensorType((2,))
    graph.outputs = [graph.add(Opaque(target, ("true",), (), (kind,)))]
    with pytest.raises(EmitError, match="only arithmetic"):
        to_module(graph)


def test_float64_evaluation_is_float64_throughout() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x.to(torch.bfloat16).float()) + torch.full((3,), 0.1) + torch.arange(3) / 7

    module = Mixed().eval()
    graph = capture(module, (torch.randn(2, 3),))
    x = torch.randn(2, 3)
    (found,) = evaluate(graph, [x], float64=True)
    exact = x.double() @ module.layer.weight.double().t() + module.layer.bias.double() + 0.1 + torch.arange(3).double() / 7
    assert found.dtype == torch.float64 and (found - exact).abs().max() < 1e-14
    assert torch.get_default_dtype() == torch.float32
    assert_same(module(x), evaluate(graph, [x])[0])


def test_emitted_modules_refuse_other_sizes_than_captured() -> None:
    class Cut(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x[:, : x.shape[1]] + y.sum()

    emitted = to_module(capture(Cut(), (torch.randn(2, 3), torch.randn(2))))
    with pytest.raises(ValueError, match=r"input x: must be \[2, 3\], as captured, got \[2, 5\]"):
        emitted(torch.randn(2, 5), torch.randn(2))
    rows = Dim("rows", min=2)
    emitted = to_module(capture(Cut(), (torch.randn(2, 3), torch.randn(2)), ({0: rows}, {0: rows})))
    emitted(torch.randn(4, 3), torch.randn(4))
    with pytest.raises(ValueError, match=r"input y: must be \[4\], as captured, got \[3\]"):
        emitted(torch.randn(4, 3), torch.randn(3))


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_emitted_module_is_saved_and_loaded(dynamic: bool, tmp_path: Path) -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    x = torch.randn(2, 3, 8, 8)
    sizes = {"input": {0: torch.export.Dim("n", min=1)}} if dynamic else None
    emitted = to_module(capture(module, (x,), dynamic_shapes=sizes))
    torch.save(emitted, tmp_path / "module.pt")
    loaded = torch.load(tmp_path / "module.pt", weights_only=False)
    assert torch.equal(loaded(x), emitted(x))
    with pytest.raises(ValueError, match=r"input input: must be \[.*3, 8, 8\], as captured, got \[2, 3, 8, 9\]"):
        loaded(torch.randn(2, 3, 8, 9))
