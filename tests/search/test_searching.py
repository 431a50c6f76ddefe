"""The search end to end: the residual block's detour, refusals, interruption, determinism, equal blocks, and the last check."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from costs import cost
from graphs.evaluate import evaluate
from graphs.graph import Graph
from graphs.trace import Proxy, trace
from operators.operator import TensorType
from rewrites import Rule
from rewrites.library.convolution import EnlargeKernels, FoldBatchNormIntoConvolution
from rewrites.library.convolution_merging import AddConvolutionsOfOneInput
from search import NumericCheckError, SearchResult
from search import search as unlimited_search
from search.objective import Objective, UnknownObjectiveError

RULES: list[type[Rule]] = [FoldBatchNormIntoConvolution, EnlargeKernels, AddConvolutionsOfOneInput]


def search(graph: Graph, rules: Any, certified: Any, **options: Any) -> SearchResult:
    """The search, with few expansions."""
    return unlimited_search(graph, rules, certified, **{"expansions": 60, **options})


def certified(rule: type[Rule]) -> str:
    return f"test:{rule.__name__}"


class Weights:
    """Constants of a graph, drawn one after another."""

    def __init__(self, graph: Graph, dtype: torch.dtype) -> None:
        self.graph, self.dtype = graph, dtype
        self.generator = torch.Generator().manual_seed(0)

    def __call__(self, *shape: int) -> Any:
        tensor = (torch.rand(shape, generator=self.generator) + 0.5).to(self.dtype)
        return Proxy(self.graph, self.graph.constant(f"weight_{len(self.graph.constants)}", tensor))


def graph_of(function: Callable[..., Any], shape: tuple[int, ...], dtype: str = "float32") -> Graph:
    graph = Graph()
    x = Proxy(graph, graph.input("x", TensorType(shape, dtype)))
    weights = Weights(graph, getattr(torch, dtype))
    graph.outputs = trace(lambda x: function(x, weights), [x], graph)
    return graph


def residual_branches(x: Any, weights: Any, channels: int) -> Any:
    branches = []
    for kernel in (3, 1):
        y = F.conv2d(x, weights(channels, channels, kernel, kernel), None, 1, kernel // 2)
        branches.append(F.batch_norm(y, weights(channels), weights(channels), weights(channels), weights(channels), False, 0.1, 1e-5))
    return torch.relu(branches[0] + branches[1])


def residual_block(size: int = 56, batch: int = 32, channels: int = 64, dtype: str = "bfloat16") -> Graph:
    return graph_of(lambda x, weights: residual_branches(x, weights, channels), (batch, channels, size, size), dtype)


@pytest.mark.parametrize("objective", ["time", "flops"])
def test_residual_block_passes_through_its_regression(objective: str) -> None:
    result = search(residual_block(), RULES, certified, objective=objective, check=False)
    assert [step.rule for step in result.steps] == [
        "FoldBatchNormIntoConvolution",
        "FoldBatchNormIntoConvolution",
        "EnlargeKernels",
        "AddConvolutionsOfOneInput",
    ]
    assert [step.regression for step in result.steps] == [False, False, True, False]
    detour = result.steps[2]
    assert f"{detour.cost_after.flops / detour.cost_before.flops - 1:.0%}" == "80%"
    assert f"{result.before.time * 1e6:.1f} {result.after.time * 1e6:.1f} {result.gain:.2f}" == "73.9 23.4 3.16"
    assert result.after.kernels == 2
    assert [step.certificate for step in result.steps] == [f"test:{step.rule}" for step in result.steps]
    assert result.steps[-1].cost_after == result.after == cost(result.graph)


def test_every_step_starts_where_the_last_one_ended() -> None:
    result = search(residual_block(), RULES, certified, check=False)
    costs = [result.before] + [step.cost_after for step in result.steps]
    for step, expected in zip(result.steps, costs[:-1], strict=True):
        assert step.cost_before.time == pytest.approx(expected.time)
        assert step.cost_before.kernels == expected.kernels


def test_result_is_checked_in_float64_and_natively() -> None:
    result = search(residual_block(8, 2, 4, "float32"), RULES, certified)
    assert result.steps
    assert result.max_error["float64"] <= 1e-10
    assert 0 < result.max_error["native"] < 1e-4


class DropTheSecondSummand(Rule):
    """A sum is its first summand (it is not: the search must find out)."""

    source = "a planted fault"

    @staticmethod
    def pattern(x: Float[Tensor, "n c h w"], y: Float[Tensor, "n c h w"]) -> Any:
        return torch.relu(x + y)

    @staticmethod
    def replacement(x: Any, y: Any) -> Any:
        return torch.relu(x)


def test_wrong_result_is_never_handed_out() -> None:
    with pytest.raises(NumericCheckError, match="float64"):
        search(residual_block(8, 2, 4, "float32"), [DropTheSecondSummand], certified)


def test_rule_without_certificate_is_refused_by_name() -> None:
    result = search(residual_block(8, 2, 4), RULES, {EnlargeKernels: "a", AddConvolutionsOfOneInput: "b"}, check=False)
    assert [refusal.rule for refusal in result.refused] == ["FoldBatchNormIntoConvolution"]
    assert "certificate" in result.refused[0].reason
    assert not result.steps


def test_interruption_returns_the_best_so_far() -> None:
    seen = []
    before = signal.getsignal(signal.SIGINT)

    def interrupt(progress: Any) -> None:
        seen.append(progress)
        if len(seen) == 3:
            signal.raise_signal(signal.SIGINT)

    result = search(residual_block(), RULES, certified, progress=interrupt, check=False)
    assert result.interrupted
    assert not result.complete
    assert len(seen) == 3
    assert result.after.time < result.before.time
    assert signal.getsignal(signal.SIGINT) is before


def test_no_time_returns_the_graph_itself() -> None:
    graph = residual_block(8, 2, 4)
    result = search(graph, RULES, certified, seconds=0.0, check=False)
    assert not result.steps
    assert not result.complete
    assert result.after == result.before == cost(graph)


def summary(result: SearchResult) -> list[tuple[str, str]]:
    return [(step.rule, step.place) for step in result.steps]


def test_search_is_deterministic() -> None:
    first, second = (search(residual_block(8, 2, 4), RULES, certified, check=False) for _ in range(2))
    assert summary(first) == summary(second)
    assert (first.expanded, first.candidates) == (second.expanded, second.candidates)
    assert str(first.graph) == str(second.graph)


def stack_of_blocks(count: int) -> Graph:
    def stack(x: Any, weights: Any) -> Any:
        for _ in range(count):
            x = torch.relu(residual_branches(x, weights, 4) + x)
        return x

    return graph_of(stack, (2, 4, 6, 6))


def test_equal_blocks_are_searched_once_and_each_improved() -> None:
    few, many = (search(stack_of_blocks(count), RULES, certified, expansions=30) for count in (6, 12))
    assert few.after.kernels == 6 * 4
    assert many.after.kernels == 12 * 4
    assert many.expanded <= few.expanded + 60
    assert many.max_error["float64"] <= 1e-10


def test_search_leaves_the_given_graph_alone() -> None:
    graph = residual_block(8, 2, 4, "float32")
    text, x = str(graph), torch.rand(2, 4, 8, 8)
    before = evaluate(graph, [x])
    search(graph, RULES, certified)
    assert str(graph) == text
    assert torch.equal(before[0], evaluate(graph, [x])[0])


@pytest.mark.parametrize("objective", ["time", "flops", "bytes", "kernels", "memory", "time=1,memory=0.5"])
def test_no_objective_gets_worse(objective: str) -> None:
    result = search(residual_block(8, 2, 4), RULES, certified, objective=objective, check=False)
    value = Objective.of(objective).value(result.before)
    assert value(result.after) < value(result.before)


@pytest.mark.parametrize(("text", "named"), [("speed", "speed"), ("time=fast", "fast"), ("", "time, flops")])
def test_unknown_objective_is_refused(text: str, named: str) -> None:
    with pytest.raises(UnknownObjectiveError, match=named):
        Objective.of(text)


def test_rule_refused_on_asking_is_searched_around() -> None:
    """The best form needs a rule that turns out to have no certificate: the best form without it is handed out."""
    asked = []

    def ask(rule: type[Rule]) -> str | None:
        asked.append(rule.__name__)
        return None if rule is EnlargeKernels else "held"

    result = search(residual_block(), RULES, ask, check=False)
    assert [step.rule for step in result.steps] == ["FoldBatchNormIntoConvolution"] * 2
    assert [refusal.rule for refusal in result.refused] == ["EnlargeKernels"]
    assert len(asked) == len(set(asked))


def test_a_small_gain_does_not_stand_in_the_way_of_a_large_one() -> None:
    """Slicing the input of a strided 1x1 convolution saves a little, and takes away its place beside the 3x3 convolution."""
    from rewrites.library.convolution_forms import StridedPointwiseConvolutionAsSlice

    def strided(x: Any, weights: Any) -> Any:
        return torch.relu(F.conv2d(x, weights(8, 4, 3, 3), None, 2, 1) + F.conv2d(x, weights(8, 4, 1, 1), None, 2, 0))

    graph = graph_of(strided, (2, 4, 32, 32))
    result = search(graph, [*RULES, StridedPointwiseConvolutionAsSlice], certified, expansions=2)
    assert [step.rule for step in result.steps] == ["EnlargeKernels", "AddConvolutionsOfOneInput"]
    assert result.after.kernels == 2


def test_a_graph_that_computes_nothing_stays_what_it_is() -> None:
    graph = Graph()
    graph.outputs = [graph.input("x", TensorType((2, 2)))]
    found = search(graph, RULES, certified)
    assert found.steps == [] and found.complete and len(found.graph) == 1
