"""Drawings: well-formed SVG, every operator and weight in it, repeated blocks once, names escaped."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from torch import Tensor, nn

from examples.models import BLOCKS
from examples.models.sequence import Transformer
from graphs.capture import capture
from graphs.draw import draw, find_repeats
from graphs.graph import Graph
from operators.activations import Relu
from operators.arithmetic import Add
from operators.operator import TensorType
from operators.sources import Constant, Scalar

torch.set_num_threads(1)
NAMESPACE = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter(f"{NAMESPACE}text")]


def boxes(svg: str) -> list[tuple[float, ...]]:
    found = [element for element in ElementTree.fromstring(svg).iter(f"{NAMESPACE}rect") if element.get("rx") == "4"]
    return [tuple(float(element.get(key) or 0) for key in ("x", "y", "width", "height")) for element in found]


def order_of(graph: Graph) -> list[int]:
    return [node for node in graph.topological_order() if not isinstance(graph.operator(node), (Constant, Scalar))]


def test_a_block_shows_every_operator_weight_and_shape(tmp_path: Path) -> None:
    module, inputs = BLOCKS["two_branch_block"]()
    graph = capture(module, inputs)
    svg = draw(graph, tmp_path / "block.svg")
    assert (tmp_path / "block.svg").read_text(encoding="utf-8") == svg and len(list(tmp_path.iterdir())) == 1
    shown = texts(svg)
    assert [shown.count(word) for word in ("Conv2d", "BatchNorm", "Add", "Relu", "x", "output")] == [2, 2, 1, 1, 1, 1]
    assert "conv3.weight [64, 64, 3, 3]" in shown and "→ float32[32, 64, 56, 56]" in shown


def test_boxes_do_not_overlap_and_lie_inside() -> None:
    module, inputs = BLOCKS["linear_attention_transformer"]()
    svg = draw(capture(module, inputs))
    found = boxes(svg)
    left, top, width, height = map(float, (ElementTree.fromstring(svg).get("viewBox") or "").split())
    for number, (x, y, w, h) in enumerate(found):
        assert left <= x and x + w <= left + width and top <= y and y + h <= top + height
        for other in found[:number]:
            assert x + w <= other[0] or other[0] + other[2] <= x or y + h <= other[1] or other[1] + other[3] <= y


@pytest.mark.parametrize("layers", [2, 6])
def test_repeated_layers_are_drawn_once_with_their_count(layers: int) -> None:
    graph = capture(Transformer(layers=layers, width=16, heads=2, vocabulary=11, length=8).eval(), (torch.randint(0, 11, (2, 8)),))
    (repeat,) = find_repeats(graph, order_of(graph))
    assert repeat.count == layers
    folded, whole = draw(graph), draw(graph, fold=False)
    assert f"× {layers}" in texts(folded) and len(boxes(whole)) - len(boxes(folded)) == repeat.length * (layers - 1)
    assert texts(whole).count("LayerNorm") == 2 * layers + 1 and texts(folded).count("LayerNorm") == 3


def test_layers_of_another_width_or_wiring_are_not_folded() -> None:
    class Skewed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = torch.tanh(torch.relu(torch.sigmoid(torch.exp(x)))) + x
            return torch.tanh(torch.relu(torch.sigmoid(torch.exp(y)))) + torch.tanh(y)

    graph = capture(Skewed(), (torch.randn(2, 3),))
    assert find_repeats(graph, order_of(graph)) == []
    widths = [nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.LayerNorm(b), nn.GELU()) for a, b in ((4, 5), (5, 6), (6, 7))]
    graph = capture(nn.Sequential(*widths).eval(), (torch.randn(2, 4),))
    assert find_repeats(graph, order_of(graph)) == []


def test_names_are_escaped() -> None:
    graph = Graph()
    hostile = "<script>alert('&')</script>"
    x = graph.input(hostile, TensorType((2,)))
    graph.outputs = [graph.add(Add(), graph.add(Relu(), x), graph.constant('"><img src=x>', torch.ones(2)))]
    svg = draw(graph)
    assert "<script" not in svg and "<img" not in svg and hostile in texts(svg)


def test_an_empty_graph_and_unused_inputs_are_drawn() -> None:
    graph = Graph()
    assert ElementTree.fromstring(draw(graph)).tag == f"{NAMESPACE}svg"
    x = graph.input("x", TensorType((2,)))
    graph.input("y", TensorType((2,)))
    graph.outputs = [x, x]
    assert {"x", "y", "output 0", "output 1"} <= set(texts(draw(graph)))
    assert not re.search(r"nan|inf\"", draw(graph))
