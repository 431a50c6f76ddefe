"""Windows: cutting a graph up and putting it together again changes nothing, and repetitions are cut alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from costs.kernels import computed_from_constants
from graphs.evaluate import evaluate
from graphs.graph import Graph
from graphs.trace import Proxy, trace
from operators.operator import OPERATORS, TensorType
from search.windows import boundaries, cut_out, local_order, put_back


def graph_of(function: Any, *shape: int) -> Graph:
    graph = Graph()
    x = Proxy(graph, graph.input("x", TensorType(shape)))

    def weight(*sizes: int) -> Proxy:
        generator = torch.Generator().manual_seed(len(graph.constants))
        return Proxy(graph, graph.constant(f"w{len(graph.constants)}", torch.randn(sizes, generator=generator)))

    graph.outputs = trace(lambda x: function(x, weight), [x], graph)
    return graph


def layers(x: Any, weight: Any, count: int = 6) -> Any:
    for _ in range(count):
        y = torch.relu(x @ (weight(4, 8) * 2.0))
        x = torch.tanh(y @ weight(8, 4)) + x
    return x


def branches(x: Any, weight: Any) -> Any:
    parts = [torch.tanh(torch.relu(x @ weight(4, 4)) + x) for _ in range(5)]
    return torch.cat(parts, -1), parts[0] + parts[1]


@pytest.mark.parametrize("most", [3, 5, 8])
@pytest.mark.parametrize("function", [layers, branches])
def test_cutting_and_putting_back_changes_nothing(function: Any, most: int) -> None:
    graph = graph_of(function, 3, 4)
    x = torch.randn(3, 4)
    expected = evaluate(graph, [x])
    free = computed_from_constants(graph)
    text = str(graph)
    for nodes in boundaries(graph, local_order(graph, free), most):
        window = cut_out(graph, nodes, free)
        window.graph.validate()
        put_back(graph, window, window.graph, free)
    graph.remove_dead()
    assert str(graph) == text
    assert all(torch.equal(a, b) for a, b in zip(expected, evaluate(graph, [x]), strict=True))


@pytest.mark.parametrize("most", [3, 6])
@pytest.mark.parametrize("function", [layers, branches])
def test_a_replaced_window_is_read_by_everything_outside(function: Any, most: int) -> None:
    """Every window returns the negation of the negation of what it returned: all readers must see the new nodes."""
    graph = graph_of(function, 3, 4)
    x = torch.randn(3, 4)
    expected = evaluate(graph, [x])
    free = computed_from_constants(graph)
    before = set(graph.network)
    for nodes in boundaries(graph, local_order(graph, free), most):
        window = cut_out(graph, nodes, free)
        solved = window.graph.copy()
        negative = OPERATORS["Negative"]()
        solved.outputs = [solved.add(negative, solved.add(negative, value)) for value in solved.outputs]
        put_back(graph, window, solved, free)
    graph.remove_dead()
    graph.validate()
    assert all(graph.operator(value.node) == OPERATORS["Negative"]() for value in graph.outputs)
    assert len(graph.network) > len(before)
    assert all(torch.equal(a, b) for a, b in zip(expected, evaluate(graph, [x]), strict=True))


def test_every_node_is_in_one_window_after_its_operands() -> None:
    graph = graph_of(branches, 3, 4)
    free = computed_from_constants(graph)
    order = local_order(graph, free)
    runs = boundaries(graph, order, 4)
    assert [node for run in runs for node in run] == order
    position = {node: index for index, node in enumerate(order)}
    for node in order:
        for value in graph.operands(node):
            assert value is None or value.node not in position or position[value.node] < position[node]


@pytest.mark.parametrize("count", [4, 8, 16])
@pytest.mark.parametrize("most", [4, 7, 12])
def test_repetitions_are_cut_alike(count: int, most: int) -> None:
    """However deep the graph, its windows are of few kinds."""
    graph = graph_of(lambda x, weight: layers(x, weight, count), 3, 4)
    free = computed_from_constants(graph)
    runs = boundaries(graph, local_order(graph, free), most)
    assert len({cut_out(graph, run, free).description for run in runs}) <= 4


def test_the_second_cut_lies_elsewhere() -> None:
    graph = graph_of(lambda x, weight: layers(x, weight, 12), 3, 4)
    order = local_order(graph, computed_from_constants(graph))
    first = {run[-1] for run in boundaries(graph, order, 10)}
    second = {run[-1] for run in boundaries(graph, order, 10, first)}
    assert len(first & second) <= 2
