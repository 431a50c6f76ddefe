"""Weights' shapes and rounded numbers in one form."""

from __future__ import annotations

import math

import torch

from costs.kernels import computed_from_constants
from graphs.canonical import align_weights, name_numbers
from graphs.evaluate import evaluate
from graphs.graph import Graph
from graphs.trace import Proxy, trace
from operators.operator import TensorType
from operators.sources import Scalar

ROUNDED = torch.tensor(math.sqrt(0.5), dtype=torch.float32).item()


def graph_of(function, shape, dtype="float32", **constants):
    graph = Graph()
    x = Proxy(graph, graph.input("x", TensorType(shape, dtype)))
    weights = {name: Proxy(graph, graph.constant(name, tensor)) for name, tensor in constants.items()}
    graph.outputs = trace(lambda: function(x, **weights), [], graph)
    return graph


def test_leading_axes_of_size_one_go():
    graph = graph_of(lambda x, scale: x * scale, (2, 3, 4, 5), scale=torch.randn(1, 3, 1, 1))
    x = torch.randn(2, 3, 4, 5)
    (expected,) = evaluate(graph, [x])
    assert align_weights(graph, computed_from_constants(graph)) == 1
    multiply = graph.outputs[0].node
    assert [graph.type(value).shape for value in graph.operands(multiply) if value is not None] == [(2, 3, 4, 5), (3, 1, 1)]
    assert torch.equal(evaluate(graph, [x])[0], expected)


def test_axes_that_enlarge_the_result_stay():
    graph = graph_of(lambda x, scale: x * scale, (4, 5), scale=torch.randn(1, 3, 1, 1))
    assert align_weights(graph, computed_from_constants(graph)) == 0
    graph = graph_of(lambda x, scale: x * scale, (1, 3, 4, 5), scale=torch.randn(2, 3, 1, 1))
    assert align_weights(graph, computed_from_constants(graph)) == 0


def scalars(graph):
    return {graph.operator(node).value for node in graph.network if isinstance(graph.operator(node), Scalar)}


def test_a_rounded_number_is_the_number_meant_and_no_bit_changes():
    graph = graph_of(lambda x: torch.erf(x * ROUNDED) / ROUNDED + ROUNDED, (50,))
    x = torch.randn(50)
    (expected,) = evaluate(graph, [x])
    assert name_numbers(graph, [math.sqrt(0.5)]) >= 1
    assert scalars(graph) == {math.sqrt(0.5)}
    assert torch.equal(evaluate(graph, [x])[0], expected)


def test_numbers_beside_other_dtypes_stay():
    for dtype in ("float64", "float16"):
        graph = graph_of(lambda x: x * ROUNDED, (3,), dtype)
        assert name_numbers(graph, [math.sqrt(0.5)]) == 0
        assert scalars(graph) == {ROUNDED}
    graph = graph_of(lambda x: x * 0.7071, (3,))
    assert name_numbers(graph, [math.sqrt(0.5)]) == 0
