"""Calls that make tensors from symbolic sizes are traced, however the sizes are written; results have the names that PyTorch gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphs.graph import Graph
from graphs.trace import Proxy, trace
from operators.expressions import symbol
from operators.operator import TensorType, collecting_obligations


@pytest.mark.parametrize(
    "made",
    [
        lambda m, n: torch.ones(m, n),
        lambda m, n: torch.ones((m, n)),
        lambda m, n: torch.zeros(m, n, dtype=torch.bool),
        lambda m, n: torch.zeros([m, n], dtype=torch.int64),
        lambda m, n: torch.ones(n),
        lambda m, n: torch.zeros(3, n),
        lambda m, n: torch.full((m, n), 2.0),
    ],
)
def test_sizes_are_written_one_by_one_or_in_a_tuple(made: Callable[..., Any]) -> None:
    graph = Graph()
    x = Proxy(graph, graph.input("x", TensorType((symbol("m"), symbol("n")), "float32")))
    with collecting_obligations():
        (value,) = trace(lambda x: made(*x.shape), [x], graph)
    example = made(2, 5)
    names = {2: "m", 5: "n"}
    assert [str(dim) for dim in graph.type(value).shape] == [names.get(size, str(size)) for size in example.shape]
    assert graph.type(value).dtype == str(example.dtype).removeprefix("torch.")
    assert torch.ones(2, 3).shape == (2, 3)


def test_results_have_the_names_that_pytorch_gives_them() -> None:
    graph = Graph()
    x = Proxy(graph, graph.input("x", TensorType((3, 4), "float32")))
    values = trace(lambda x: (x.max(-1).values, torch.topk(x, 2).indices, *torch.min(x, 0)), [x], graph)
    assert [(graph.type(value).shape, graph.type(value).dtype) for value in values] == [
        ((3,), "float32"),
        ((3, 2), "int64"),
        ((4,), "float32"),
        ((4,), "int64"),
    ]
