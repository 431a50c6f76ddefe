"""Branches of an If that what comes after decides: where only one of them can run, the model takes that one wherever it runs."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper  # noqa: E402

from graphs.evaluate import evaluate  # noqa: E402
from graphs.graph import Graph  # noqa: E402
from graphs.onnx import read, to_model  # noqa: E402
from operators.foreign import Foreign  # noqa: E402
from tests.graphs.test_onnx_reading import model, node, run  # noqa: E402

FEATURES, HIDDEN = 3, 2
HELD = {
    "last": numpy.array(2),
    "one": numpy.array(1),
    "axis": numpy.array([2]),
    "first": numpy.array([0]),
    "w": numpy.linspace(-1, 1, 4 * HIDDEN * FEATURES).reshape(1, 4 * HIDDEN, FEATURES).astype("float32"),
    "r": numpy.linspace(-0.5, 1, 4 * HIDDEN * HIDDEN).reshape(1, 4 * HIDDEN, HIDDEN).astype("float32"),
}


def branch(name: str, *inputs: str) -> Any:
    info = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    return helper.make_graph([node("Squeeze" if len(inputs) == 2 else "Identity", " ".join(inputs), name)], name, [], [info])


def squeezing(*rest: Any, outputs: str = "y") -> Any:
    """`x.squeeze(2)` as torch.onnx writes it for x: [batch, features, n], and what comes after it."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape last", "n"),
        node("Equal", "n one", "c"),
        node("If", "c", "s", then_branch=branch("squeezed", "x", "axis"), else_branch=branch("kept", "x")),
        *rest,
    ]
    made = model(nodes, {"x": ["batch", FEATURES, "n"]}, outputs.split(), HELD)
    for output in made.graph.output:
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    return made


RECURRENCE = (node("Unsqueeze", "s first", "u"), node("LSTM", "u w r", "_ y", hidden_size=HIDDEN))


def foreign(graph: Graph) -> set[str]:
    return {operator.name for one in graph if isinstance(operator := graph.operator(one), Foreign)}


def test_the_branch_that_a_recurrence_can_read_is_taken() -> None:
    made = squeezing(*RECURRENCE)
    assert "If" in foreign(read(made))
    graph = read(made, running=True)
    assert foreign(graph) == {"LSTM"}
    x = numpy.random.default_rng(0).standard_normal((4, FEATURES, 1)).astype("float32")
    wanted = run(made, {"x": x})[0]
    assert numpy.allclose(evaluate(graph, [torch.from_numpy(x)])[0].numpy(), wanted, atol=1e-6)
    written = to_model(graph, fold_sizes=True)
    assert "If" not in {one.op_type for one in written.graph.node}
    assert numpy.array_equal(run(written, {"x": x})[0], wanted)


def test_an_undecided_node_keeps_its_words_when_sizes_are_folded() -> None:
    made = squeezing(node("Relu", "s", "y"))
    (choice,) = [one for one in made.graph.node if one.op_type == "If"]
    choice.name = "the squeeze"
    written = to_model(read(made), fold_sizes=True)
    assert [one.name for one in written.graph.node if one.op_type == "If"] == ["the squeeze"]


def test_what_is_not_rewritten_is_written_with_both_branches() -> None:
    made = squeezing(*RECURRENCE)
    assert [one.op_type for one in to_model(read(made, running=True)).graph.node] == [one.op_type for one in made.graph.node]


@pytest.mark.parametrize(
    ("rest", "outputs"),
    [
        ((node("Relu", "s", "y"),), "y"),
        ((*RECURRENCE[:1], node("LSTM", "u w r", "_ h", hidden_size=HIDDEN), node("Relu", "s", "y")), "y"),
        ((node("LSTM", "s w r", "b a", hidden_size=HIDDEN), *RECURRENCE), "a y"),
    ],
    ids=["both run", "the recurrence is not needed", "neither runs"],
)
def test_nothing_is_decided_where(rest: tuple[Any, ...], outputs: str) -> None:
    assert "If" in foreign(read(squeezing(*rest, outputs=outputs), running=True))


def test_a_node_of_the_other_branch_that_nothing_needs_decides_nothing() -> None:
    """The recurrence stands in the branch kept, where no output reads it: a runtime need not run it."""
    made = squeezing(*RECURRENCE[:1], node("Relu", "u", "y"))
    (choice,) = [one for one in made.graph.node if one.op_type == "If"]
    (kept,) = [one.g for one in choice.attribute if one.name == "else_branch"]
    kept.node.extend([node("Unsqueeze", "x first", "v"), node("LSTM", "v w r", "_ h", hidden_size=HIDDEN)])
    assert "If" in foreign(read(made, running=True))
