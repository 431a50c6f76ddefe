"""The design's figures, to the digit: the two-branch residual block and the classifier."""

from __future__ import annotations

import pytest

from costs import Cost, cost
from graphs.graph import Graph, Value
from operators.convolution import Conv2d
from operators.linear import MatMul
from operators.operator import OPERATORS, TensorType

CHANNELS, SIZE = 64, 56


def constant(graph: Graph, name: str, *shape: int) -> Value:
    import torch

    return graph.constant(name, torch.empty(shape, dtype=torch.bfloat16, device="meta"))


def batch_norm(graph: Graph, x: Value, name: str) -> Value:
    statistics = [constant(graph, f"{name}.{part}", CHANNELS) for part in ("mean", "var", "weight", "bias")]
    momentum, eps = graph.scalar(0.1), graph.scalar(1e-5)
    return graph.add(OPERATORS["BatchNorm"](training=False), x, *statistics, momentum, eps)


def convolution(graph: Graph, x: Value, name: str, kernel: int, bias: bool) -> Value:
    weight = constant(graph, f"{name}.weight", CHANNELS, CHANNELS, kernel, kernel)
    operands = [x, weight] + ([constant(graph, f"{name}.bias", CHANNELS)] if bias else [None])
    return graph.add(Conv2d(padding=(kernel // 2, kernel // 2)), *operands)


def block(first: int, second: int, norms: bool, merged: bool = False) -> Graph:
    graph = Graph()
    x = graph.input("x", TensorType((32, CHANNELS, SIZE, SIZE), "bfloat16"))
    left = convolution(graph, x, "left", first, not norms)
    if merged:
        graph.outputs = [graph.add(OPERATORS["Relu"](), left)]
        return graph
    right = convolution(graph, x, "right", second, not norms)
    if norms:
        left, right = batch_norm(graph, left, "left_norm"), batch_norm(graph, right, "right_norm")
    graph.outputs = [graph.add(OPERATORS["Relu"](), graph.add(OPERATORS["Add"](), left, right))]
    return graph


def microseconds(found: Cost) -> str:
    return f"{found.time * 1e6:.1f}"


def gigaflops(found: Cost) -> str:
    return f"{found.flops / 1e9:.2f}"


@pytest.mark.parametrize(
    ("graph", "time", "kernels", "flops"),
    [
        (block(3, 1, norms=True), "73.9", 6, None),
        (block(3, 1, norms=False), "50.5", 4, "8.23"),
        (block(3, 3, norms=False), "50.6", 4, "14.81"),
        (block(3, 1, norms=False, merged=True), "23.4", 2, "7.41"),
    ],
    ids=["start", "folded", "enlarged", "merged"],
)
def test_residual_block_on_h100(graph: Graph, time: str, kernels: int, flops: str | None) -> None:
    found = cost(graph, "h100", "none")
    assert microseconds(found) == time
    assert found.kernels == kernels
    if flops is not None:
        assert gigaflops(found) == flops


def test_residual_block_gains_a_factor_of_3_16() -> None:
    before, after = cost(block(3, 1, norms=True)), cost(block(3, 1, norms=False, merged=True))
    assert f"{before.time / after.time:.2f}" == "3.16"


def classifier() -> Graph:
    graph = Graph()
    x = graph.input("x", TensorType((8192, 784), "bfloat16"))
    target = graph.input("target", TensorType((8192, 10), "bfloat16"))
    hidden = graph.add(OPERATORS["Add"](), graph.add(MatMul(), x, constant(graph, "w1", 784, 100)), constant(graph, "b1", 100))
    hidden = graph.add(OPERATORS["Relu"](), hidden)
    logits = graph.add(OPERATORS["Add"](), graph.add(MatMul(), hidden, constant(graph, "w2", 100, 10)), constant(graph, "b2", 10))
    graph.outputs = [graph.add(OPERATORS["CrossEntropyOfProbabilities"](), logits, target)]
    return graph


@pytest.mark.parametrize(("kernels", "count", "time"), [("none", 6, "31.1"), ("pointwise", 4, "22.0")])
def test_classifier_on_h100(kernels: str, count: int, time: str) -> None:
    found = cost(classifier(), "h100", kernels)
    assert found.kernels == count
    assert microseconds(found) == time
