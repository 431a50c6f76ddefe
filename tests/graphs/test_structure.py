"""The structural hash: what it does not see, and what it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphs.capture import capture
from graphs.graph import Graph
from graphs.structure import node_digests, structural_hash, tensor_digest
from operators.activations import Relu
from operators.arithmetic import Add, Multiply, Subtract
from operators.layout import Reshape
from operators.operator import TensorType
from operators.sources import Scalar

MATRIX = TensorType((2, 3))


def built(build: Callable[[Graph, Any, Any], Any], names: tuple[str, str] = ("x", "y")) -> Graph:
    graph = Graph()
    x, y = (graph.input(name, MATRIX) for name in names)
    result = build(graph, x, y)
    graph.outputs = list(result) if isinstance(result, list) else [result]
    return graph


def both(graph: Graph, x: Any, y: Any) -> Any:
    return graph.add(Multiply(), graph.add(Relu(), x), graph.add(Add(), x, y))


def both_in_another_order(graph: Graph, x: Any, y: Any) -> Any:
    graph.add(Subtract(), x, y)
    total = graph.add(Add(), y, x)
    return graph.add(Multiply(), total, graph.add(Relu(), x))


def test_numbering_names_dead_nodes_and_commuted_operands_do_not_count() -> None:
    assert structural_hash(built(both)) == structural_hash(built(both_in_another_order, ("a", "b")))


def test_copies_and_renumbered_graphs_are_equal() -> None:
    graph = built(both)
    moved = Graph.from_networkx(graph.to_networkx(), graph.inputs, graph.outputs)
    assert structural_hash(moved) == structural_hash(graph.copy()) == structural_hash(graph)


DIFFERENT: dict[str, Callable[[Graph, Any, Any], Any]] = {
    "the graph": both,
    "inputs exchanged": lambda g, x, y: both(g, y, x),
    "another operator": lambda g, x, y: g.add(Multiply(), g.add(Relu(), x), g.add(Subtract(), x, y)),
    "operands of a subtraction exchanged": lambda g, x, y: g.add(Multiply(), g.add(Relu(), x), g.add(Subtract(), y, x)),
    "another attribute": lambda g, x, y: g.add(Reshape((3, 2)), both(g, x, y)),
    "yet another attribute": lambda g, x, y: g.add(Reshape((6,)), both(g, x, y)),
    "an int": lambda g, x, y: g.add(Multiply(), x, g.add(Scalar(1))),
    "a float": lambda g, x, y: g.add(Multiply(), x, g.add(Scalar(1.0))),
    "a bool": lambda g, x, y: g.add(Multiply(), x, g.add(Scalar(True))),
    "a negative zero": lambda g, x, y: g.add(Multiply(), x, g.add(Scalar(-0.0))),
    "a zero": lambda g, x, y: g.add(Multiply(), x, g.add(Scalar(0.0))),
    "two outputs": lambda g, x, y: [both(g, x, y), x],
    "two outputs exchanged": lambda g, x, y: [x, both(g, x, y)],
    "relu once": lambda g, x, y: (lambda r: [g.add(Add(), r, y), g.add(Multiply(), r, y)])(g.add(Relu(), x)),
    "relu twice": lambda g, x, y: [g.add(Add(), g.add(Relu(), x), y), g.add(Multiply(), g.add(Relu(), x), y)],
}


def test_every_difference_counts() -> None:
    hashes = {structural_hash(built(build)): name for name, build in DIFFERENT.items()}
    assert len(hashes) == len(DIFFERENT)


def test_types_of_inputs_count() -> None:
    seen = set()
    for kind in (TensorType((2, 3)), TensorType((3, 2)), TensorType((2, 3), "float64"), TensorType((2, 3), "float32", weak=True)):
        graph = Graph()
        graph.outputs = [graph.add(Relu(), graph.input("x", kind))]
        seen.add(structural_hash(graph))
    assert len(seen) == 4


def test_constants_count_by_content_not_by_name() -> None:
    def graph(tensor: Tensor, name: str = "w") -> str:
        result = Graph()
        result.outputs = [result.add(Add(), result.input("x", MATRIX), result.constant(name, tensor))]
        return structural_hash(result)

    ones = torch.ones(2, 3)
    assert graph(ones) == graph(ones.clone(), "other") == graph(torch.ones(3, 2).t().contiguous().view(2, 3))
    assert graph(ones) == graph(torch.ones(3, 2).t())
    assert (
        len(
            {
                graph(ones),
                graph(ones * 2),
                graph(torch.ones(1, 3)),
                graph(ones.double()),
                graph(-torch.zeros(2, 3)),
                graph(torch.zeros(2, 3)),
            }
        )
        == 6
    )


def test_writing_into_a_constant_changes_its_digest() -> None:
    tensor = torch.ones(3)
    before = tensor_digest(tensor)
    tensor.add_(1)
    assert tensor_digest(tensor) != before == tensor_digest(torch.ones(3))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.int8, torch.float16, torch.complex64])
def test_constants_of_every_dtype_have_a_digest(dtype: torch.dtype) -> None:
    assert tensor_digest(torch.ones(2, 2).to(dtype)) == tensor_digest(torch.ones(2, 2).to(dtype))
    assert (
        tensor_digest(torch.ones((), dtype=dtype)) != tensor_digest(torch.ones(1, dtype=dtype)) != tensor_digest(torch.ones(0, dtype=dtype))
    )


def test_equal_modules_have_equal_hashes_and_unequal_ones_do_not() -> None:
    def module(seed: int, act: nn.Module) -> Graph:
        torch.manual_seed(seed)
        return capture(nn.Sequential(nn.Linear(3, 4), act, nn.Linear(4, 2)).eval(), (torch.ones(2, 3),))

    first = structural_hash(module(0, nn.ReLU()))
    assert first == structural_hash(module(0, nn.ReLU()))
    assert len({first, structural_hash(module(1, nn.ReLU())), structural_hash(module(0, nn.GELU()))}) == 3


def test_known_digests_are_used_again() -> None:
    graph = built(both)
    digests = node_digests(graph)
    graph.outputs = [graph.add(Relu(), graph.outputs[0])]
    again = node_digests(graph, digests)
    assert again == node_digests(graph) and structural_hash(graph, again) == structural_hash(graph)
