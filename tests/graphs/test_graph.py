"""The graph itself: adding, replacing, removing, ordering, validating."""

from __future__ import annotations

import pytest
import torch

from graphs.graph import Graph, GraphError, Value
from operators.activations import Relu
from operators.arithmetic import Add, Multiply
from operators.layout import Reshape
from operators.linear import MatMul
from operators.operator import ShapeError, TensorType
from operators.sources import Constant, Input

MATRIX = TensorType((2, 3))


def small() -> tuple[Graph, Value, Value, Value]:
    graph = Graph()
    x = graph.input("x", MATRIX)
    relu = graph.add(Relu(), x)
    total = graph.add(Add(), relu, x)
    graph.outputs = [total]
    return graph, x, relu, total


def test_edges_are_keyed_by_output_and_position() -> None:
    graph, x, relu, total = small()
    assert graph.operands(total.node) == (relu, x) and graph.type(total) == MATRIX
    assert graph.users(x.node) == [(relu.node, 0, 0), (total.node, 0, 1)]
    assert sorted(graph.to_networkx().edges(keys=True)) == [(0, 1, (0, 0)), (0, 2, (0, 1)), (1, 2, (0, 0))]
    assert graph.use_count(x) == 2 and graph.use_count(total) == 1


def test_operands_that_do_not_fit_are_refused_by_name() -> None:
    graph, x, _, _ = small()
    with pytest.raises(ShapeError, match="columns of a and rows of b must be equal, got 3 and 2"):
        graph.add(MatMul(), x, x)
    with pytest.raises(GraphError, match="not in the graph"):
        graph.add(Relu(), Value(99))


def test_replacing_moves_every_reader_and_output() -> None:
    graph, x, relu, total = small()
    graph.outputs.append(relu)
    graph.replace_uses(relu, x)
    assert graph.operands(total.node) == (x, x) and graph.outputs == [total, x]
    graph.remove(relu.node)
    assert relu.node not in graph.network


def test_what_is_read_cannot_be_removed() -> None:
    graph, x, relu, _ = small()
    with pytest.raises(GraphError, match="still read"):
        graph.remove(relu.node)
    graph.outputs = []
    graph.remove_dead()
    with pytest.raises(GraphError, match="is an input"):
        graph.remove(x.node)


def test_order_is_deterministic_and_cycles_are_named() -> None:
    graph, _, relu, total = small()
    assert graph.topological_order() == [0, 1, 2]
    graph.network.add_edge(total.node, relu.node, key=(0, 1))
    with pytest.raises(GraphError, match="cycle"):
        graph.topological_order()


def test_constants_have_one_tensor_per_name() -> None:
    graph = Graph()
    tensor = torch.ones(3)
    assert graph.constant("w", tensor) == graph.constant("w", tensor)
    with pytest.raises(GraphError, match="already stands for another tensor"):
        graph.constant("w", torch.ones(3))


def test_validation_names_the_node_at_fault() -> None:
    graph, _, relu, _ = small()
    graph.network.nodes[relu.node]["types"] = (TensorType((3, 2)),)
    with pytest.raises(GraphError, match=r"node 1 \(Relu\): types must be \['float32\[2, 3\]'\], got \['float32\[3, 2\]'\]"):
        graph.validate()
    missing = Graph()
    missing.outputs = [missing.add(Constant("w", MATRIX))]
    with pytest.raises(GraphError, match="holds no tensor of that name"):
        missing.validate()
    dangling, *_ = small()
    dangling.outputs = [Value(2, 1)]
    with pytest.raises(GraphError, match="has 1 outputs, got output 1"):
        dangling.validate()


def test_copies_are_independent_and_round_trips_through_networkx_validate() -> None:
    graph, x, _, total = small()
    copied = graph.copy()
    copied.outputs = [copied.add(Multiply(), total, x)]
    assert len(graph) == 3 and graph.outputs == [total] and len(copied) == 4
    again = Graph.from_networkx(graph.to_networkx(), graph.inputs, graph.outputs)
    assert str(again) == str(graph)
    broken = graph.to_networkx()
    broken.nodes[1]["operator"] = Reshape((5,))
    with pytest.raises(GraphError, match="size must have the elements of x"):
        Graph.from_networkx(broken, graph.inputs, graph.outputs)


def test_undoing_takes_back_nodes_inputs_and_constants() -> None:
    graph, x, _, total = small()
    before, text = graph.mark(), str(graph)
    graph.add(Add(), total, graph.constant("w", torch.ones(3)))
    graph.input("y", MATRIX)
    graph.undo_to(before)
    assert str(graph) == text and not graph.constants and graph.inputs == [x.node]
    assert graph.add(Relu(), x).node == before


def test_symbolic_graphs_validate() -> None:
    from operators.expressions import symbol

    n = symbol("n")
    graph = Graph()
    x = graph.input("x", TensorType((n, 4)))
    graph.outputs = [graph.add(Reshape((n * 2, 2)), x)]
    graph.validate()
    assert str(graph.type(graph.outputs[0])) == "float32[2*n, 2]" and isinstance(graph.operator(x.node), Input)
