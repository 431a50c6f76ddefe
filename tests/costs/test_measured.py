"""Measured costs: fragments and their layouts, the store, and the sum over kernels, with a runtime whose times are known."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from costs.fragments import Fragment, Fragments, contiguous
from costs.kernels import computed_from_constants
from costs.measured import Measured, Measurements, is_cold
from costs.runtimes import Eager, UnknownRuntimeError, runtime
from costs.timing import Comparison, Timing, interleaved
from graphs.capture import capture
from graphs.database import StoreError
from graphs.evaluate import evaluate
from graphs.graph import Graph
from operators.activations import Relu
from operators.operator import TensorType
from tests.runtimes import Simulated


def a_millisecond(fragment: Fragment) -> float | str:
    return "simulated: no tanh" if "Tanh" in str(fragment.steps[0].operator) else 1e-3


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))))


def layers() -> Graph:
    return capture(Layers().eval(), (torch.randn(3, 8),))


def measured(folder: Path, runtime: Simulated) -> Measured:
    return Measured(runtime, store=Measurements(folder / "m.sqlite"), seconds_for_a_kernel=0.005)


def test_equal_kernels_are_measured_once_and_found_again(tmp_path: Path) -> None:
    first = Simulated(a_millisecond)
    cost = measured(tmp_path, first).cost(layers())
    assert sorted(name.split("(")[0] for name in first.prepared) == ["Linear", "Relu"]
    assert cost.kernels == 4
    assert cost.time == pytest.approx(4e-3)
    second = Simulated(a_millisecond)
    assert measured(tmp_path, second).cost(layers()).time == cost.time
    assert second.prepared == []


def test_other_versions_are_another_machine(tmp_path: Path) -> None:
    measured(tmp_path, Simulated(a_millisecond)).cost(layers())
    newer = Simulated(a_millisecond)
    newer.versions = lambda: {"simulated": "2"}  # type: ignore[method-assign]
    measured(tmp_path, newer).cost(layers())
    assert len(newer.prepared) == 2


def test_what_the_runtime_refuses_counts_as_the_roofline_has_it(tmp_path: Path) -> None:
    graph = capture(torch.nn.Tanh(), (torch.randn(4, 4),))
    pricing = measured(tmp_path, Simulated(a_millisecond))
    assert pricing.cost(graph).time == pytest.approx(pricing.device.launch, rel=0.5)
    assert "simulated: no tanh" in pricing.unmeasured.values()


def test_a_copy_for_another_process_knows_the_same_times(tmp_path: Path) -> None:
    pricing = measured(tmp_path, Simulated(a_millisecond))
    cost = pricing.cost(layers())
    assert pickle.loads(pickle.dumps(pricing)).cost(layers()) == cost


def test_a_damaged_store_is_said_to_be_one(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    path.write_text("no database at all, but long enough to be taken for one" * 50)
    with pytest.raises(StoreError, match="damaged"):
        len(Measurements(path))


class Transposing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).flatten(1)[:, 2:] + 1


def test_layouts_are_followed_through_views_to_the_copying_reshape() -> None:
    graph = capture(Transposing(), (torch.randn(2, 3, 4),))
    free = computed_from_constants(graph)
    fragments = {type(graph.operator(node)).__name__: Fragments().fragment(graph, (node,), free) for node in graph if graph.operands(node)}
    assert fragments["Reshape"].operands[0].strides == (12, 1, 4)
    assert fragments["Slice"].operands[0].strides == (12, 1)
    assert fragments["Add"].operands[0].strides == (12, 1)
    assert fragments["Permute"].operands[0].strides == contiguous(TensorType((2, 3, 4), "float32"))


def test_a_fragment_computes_what_its_nodes_compute() -> None:
    graph = layers()
    free = computed_from_constants(graph)
    nodes = [node for node in graph if node not in free and node not in graph.inputs]
    fragment = Fragments().fragment(graph, nodes, free)
    alone, inputs = fragment.graph(), fragment.inputs()
    alone.validate()
    assert len(alone.inputs) == 1
    assert len(alone.constants) == 4
    found = Eager().prepare(fragment)()
    assert torch.equal(found[0], evaluate(alone, inputs)[0])  # type: ignore[index]


def test_fragments_differ_in_attributes_types_layouts_and_numbers() -> None:
    names = set()
    for module in (
        lambda x: x.transpose(0, 1) + 1,
        lambda x: x + 1,
        lambda x: x + 2,
        lambda x: x.sum(0),
        lambda x: x.sum(1),
        lambda x: x[:3] + 1,
    ):
        graph = capture(_Function(module), (torch.randn(4, 4),))
        names.add(Fragments().fragment(graph, (graph.outputs[0].node,), computed_from_constants(graph)).name)
    assert len(names) == 6


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def test_weights_are_cold_only_where_a_run_moves_more_than_the_caches_hold() -> None:
    assert not is_cold(layers())
    large = Graph()
    large.outputs = [large.add(Relu(), large.input("x", TensorType((1 << 30,), "float32")))]
    assert is_cold(large)


def test_lookups_run_on_indices_that_exist() -> None:
    graph = capture(nn_embedding(), (torch.zeros(3, dtype=torch.int64),))
    fragment = Fragments().fragment(graph, (graph.outputs[0].node,), computed_from_constants(graph))
    assert Eager().prepare(fragment)() is not None


def nn_embedding() -> torch.nn.Module:
    return torch.nn.Embedding(1, 4)


def test_a_fused_group_is_one_kernel_of_inductor(tmp_path: Path) -> None:
    graph = capture(_Function(lambda x: (x + 1).relu() * 2), (torch.randn(64, 64),))
    pricing = Measured("inductor", store=Measurements(tmp_path / "m.sqlite"), seconds_for_a_kernel=0.005)
    assert [len(fragment.steps) for fragment in pricing.kernels_of(graph)] == [3]
    assert pricing.cost(graph).kernels == 1
    assert pricing.unmeasured == {}


def test_copies_of_weights_take_turns() -> None:
    graph = layers()
    fragment = Fragments().fragment(graph, (graph.outputs[0].node - 1,), computed_from_constants(graph))
    call = Eager().prepare(fragment, copies=3)
    assert torch.equal(call()[0], call()[0])  # type: ignore[index]


def test_an_unknown_runtime_names_those_there_are() -> None:
    with pytest.raises(UnknownRuntimeError, match="eager, inductor"):
        runtime("tensorrt")


def test_interleaved_rounds_run_every_call() -> None:
    counts = [0, 0]

    def count(index: int) -> Callable[[], object]:
        def call() -> None:
            counts[index] += 1
            time.sleep(1e-3)

        return call

    timings = interleaved([count(0), count(1)], seconds=0.0, fewest=3, most=5)
    assert counts == [5, 5]
    assert all(len(timing.samples) == 3 and timing.median >= 1e-3 for timing in timings)


def test_a_comparison_is_slower_only_beyond_its_noise() -> None:
    steady = Comparison.of(Timing((1.0,) * 9), Timing((1.1,) * 9))
    assert steady.is_slower
    assert steady.ratio == pytest.approx(1 / 1.1)
    noisy = Comparison.of(Timing((1.0,) * 9), Timing((1.1, 0.7, 1.1, 0.8, 1.1, 0.9, 1.1, 0.9, 1.1)))
    assert not noisy.is_slower
    assert not Comparison.of(Timing((1.0,) * 9), Timing((1.005,) * 9)).is_slower
