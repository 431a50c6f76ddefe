"""Training graphs: their outputs are what autograd computes, and what has no gradient as a graph still has costs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from costs import cost
from graphs.capture import capture
from graphs.evaluate import evaluate
from graphs.gradients import BackwardOf, NoGradient, training_graph
from operators.sources import Input


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(6, 16), nn.LayerNorm(16), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.norm(self.first(x)))).softmax(-1)


def test_a_training_graph_computes_the_gradients_of_the_parameters() -> None:
    torch.manual_seed(0)
    module, x = Perceptron().double().eval(), torch.randn(5, 6, dtype=torch.float64)
    graph = training_graph(capture(module, (x,)))
    graph.validate()
    cotangent = torch.randn(5, 3, dtype=torch.float64)
    parameters = dict(module.named_parameters())
    names = [graph.operator(node).attributes["name"] for node in graph.inputs]
    assert set(names) == {*parameters, "x", "cotangent 0"}
    given = [parameters.get(name, {"x": x, "cotangent 0": cotangent}.get(name)) for name in names]
    with torch.no_grad():
        output, *gradients = evaluate(graph, given)  # type: ignore[arg-type]
    expected = module(x)
    wanted = torch.autograd.grad(expected, [parameters[name] for name in names if name in parameters], cotangent)
    assert torch.allclose(output, expected, atol=1e-12)
    assert len(gradients) == len(wanted) == 6
    for got, reference in zip(gradients, wanted, strict=True):
        assert torch.allclose(got, reference, atol=1e-12)


def test_training_a_linear_layer_costs_two_products_more() -> None:
    graph = capture(nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)).eval(), (torch.randn(32, 64),))
    inference, training = cost(graph), cost(graph, training=True)
    product = 2 * 32 * 64 * 64
    assert inference.flops == 2 * product
    # Of each layer the gradient of the weight, and of the second one that of what it reads.
    assert training.flops == pytest.approx(5 * product, rel=0.01)
    assert training.memory > inference.memory + 2 * 64 * 64 * 4


def test_saved_activations_count_until_the_backward_pass_reads_them() -> None:
    layers = [nn.Sequential(nn.Linear(256, 256), nn.Tanh()) for _ in range(8)]
    graph = capture(nn.Sequential(*layers).eval(), (torch.randn(1024, 256),))
    inference, training = cost(graph), cost(graph, training=True)
    activation = 1024 * 256 * 4
    weights = 8 * (256 * 256 + 256) * 4
    assert inference.memory == pytest.approx(weights + 3 * activation, rel=0.05)
    assert training.memory > 2 * weights + 8 * activation


def test_what_has_no_gradient_as_a_graph_is_stood_in_for() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3)).eval()
    graph = capture(module, (torch.randn(2, 3, 16, 16),))
    trained = training_graph(graph)
    stand_ins = [trained.operator(node) for node in trained if isinstance(trained.operator(node), BackwardOf)]
    assert any("MaxPool2d" in operator.name for operator in stand_ins)
    inputs = [node for node in trained.inputs if isinstance(trained.operator(node), Input)]
    assert len(trained.outputs) == 1 + 4
    assert len(inputs) == 1 + 4 + 1
    assert cost(graph, training=True).flops > 2 * cost(graph).flops


def test_a_model_without_parameters_cannot_be_trained() -> None:
    with pytest.raises(NoGradient, match="must have parameters"):
        training_graph(capture(nn.ReLU(), (torch.randn(3),)))
