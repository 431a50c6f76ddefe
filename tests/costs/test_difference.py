"""Costs by difference are the costs of the whole graph, for every rewrite of some graphs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from costs.difference import Prices, changed, free_after
from costs.kernels import computed_from_constants
from costs.roofline import Roofline
from graphs.graph import Graph
from graphs.trace import Proxy, trace
from operators.operator import TensorType
from rewrites.library.concatenation import FunctionMovesPastSplit, OperationMovesPastSplit
from rewrites.library.linear import FactorMatMulLeft, MatMulAssociates
from rewrites.library.linear_merging import AddMatMulsAsOne, MergeParallelMatMuls
from rewrites.match import find_all
from search.sharing import apply_shared

RULES = [MergeParallelMatMuls, AddMatMulsAsOne, MatMulAssociates, FactorMatMulLeft, FunctionMovesPastSplit, OperationMovesPastSplit]


def recurrent(x: Any, weight: Any) -> Any:
    h = x
    for _ in range(2):
        t = [x @ weight(8, 8) + h @ weight(8, 8) for _ in range(2)]
        h = torch.tanh(t[0]) * torch.sigmoid(t[1])
    return h


def views(x: Any, weight: Any) -> Any:
    y = (x @ weight(8, 8)) @ weight(8, 16)
    a, b = torch.split(y, (8, 8), -1)
    return torch.relu(a).permute(1, 0) @ torch.relu(b), torch.relu(x.expand(3, 4, 8) + x)


def graph_of(function: Any) -> Graph:
    graph = Graph()
    x = Proxy(graph, graph.input("x", TensorType((4, 8))))

    def weight(*sizes: int) -> Proxy:
        return Proxy(graph, graph.constant(f"w{len(graph.constants)}", torch.empty(sizes, device="meta")))

    graph.outputs = trace(lambda x: function(x, weight), [x], graph)
    return graph


@pytest.mark.parametrize("policy", ["none", "copies"])
@pytest.mark.parametrize("function", [recurrent, views])
def test_difference_is_the_whole(function: Any, policy: str) -> None:
    roofline = Roofline("h100", policy)
    prices = Prices(roofline)
    tried = 0
    current = graph_of(function)
    while True:
        matches = list(find_all(RULES, current))
        if not matches:
            break
        for match in matches:
            graph = current.copy()
            free, before = computed_from_constants(graph), roofline.cost(graph, memory=False)
            change = apply_shared(match, graph)
            known = free_after(graph, free, change.added, change.rewired)
            assert known == computed_from_constants(graph)
            affected = prices.affected(graph, change.added, change.rewired)
            new = prices.total(graph, (*change.added, *affected), known)
            expected = roofline.cost(graph, memory=False)
            change.undo()
            assert str(graph) == str(current)
            found = changed(before, prices.total(graph, (*change.removed, *affected), free), new)
            assert found.time == pytest.approx(expected.time, rel=1e-12)
            assert (found.flops, found.bytes, found.kernels) == (expected.flops, expected.bytes, expected.kernels)
            tried += 1
        apply_shared(matches[0], current)
        if tried > 60:
            break
    assert tried >= 3
