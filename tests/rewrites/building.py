"""Small graphs for the tests of matching and applying, and their comparison with eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from graphs.evaluate import evaluate
from graphs.graph import Graph
from graphs.trace import Proxy, trace
from operators.operator import TensorType
from rewrites import Match, Rule, apply, find_matches


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    """A float64 tensor of ordinary numbers, distinct for distinct seeds and shapes."""
    generator = torch.Generator().manual_seed(seed + sum((k + 2) * size for k, size in enumerate(shape)))
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def build(function: Callable[..., Any], inputs: dict[str, torch.Tensor], constants: dict[str, torch.Tensor] | None = None) -> Graph:
    """The graph of the function over these inputs and constants, which are its parameters by name."""
    graph = Graph()
    types = {name: TensorType(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")) for name, tensor in inputs.items()}
    arguments = {name: Proxy(graph, graph.input(name, type)) for name, type in types.items()}
    arguments |= {n: Proxy(graph, graph.constant(n, t)) for n, t in (constants or {}).items()}
    graph.outputs = trace(lambda: function(**arguments), [], graph)
    graph.validate()
    return graph


def run(graph: Graph, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    return evaluate(graph, list(inputs.values()))


def assert_equal(before: list[torch.Tensor], after: list[torch.Tensor]) -> None:
    """Equal within a few roundings of float64: the tests' graphs sum at most a few hundred products of ordinary size."""
    assert len(before) == len(after)
    for left, right in zip(before, after, strict=True):
        assert left.shape == right.shape
        assert left.dtype == right.dtype
        torch.testing.assert_close(left, right, rtol=1e-11, atol=1e-11)


def matches(rule: type[Rule], graph: Graph) -> list[Match]:
    return list(find_matches(rule, graph))


def rewrite_once(rule: type[Rule], graph: Graph, inputs: dict[str, torch.Tensor]) -> Graph:
    """The graph after the rule's first match, checked against the graph before."""
    found = matches(rule, graph)
    assert found, f"{rule.__name__} does not match"
    after = apply(found[0], graph).graph
    after.validate()
    assert_equal(run(graph, inputs), run(after, inputs))
    return after


def operators_of(graph: Graph) -> list[str]:
    """The names of the operators in topological order, without inputs, constants and numbers."""
    names = [type(graph.operator(node)).__name__ for node in graph]
    return [name for name in names if name not in ("Input", "Constant", "Scalar")]
