"""Channels-last layouts: one conversion for a chain of convolutions, the same function, outputs laid out as they were."""

from __future__ import annotations

import torch
from torch import nn

from graphs.capture import capture
from graphs.emit import to_module
from graphs.evaluate import evaluate
from graphs.graph import Graph
from rewright.layouts import channels_last


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.norm(self.first(x)))
        z = torch.relu(self.second(y) + y)
        return z, self.head(nn.functional.max_pool2d(z, 2).mean((2, 3)))


def conversions(graph: Graph) -> list[str]:
    return [str(graph.operator(node)) for node in graph if type(graph.operator(node)).__name__ == "Contiguous"]


def test_one_conversion_serves_a_chain_and_outputs_are_laid_out_as_before() -> None:
    module, x = Residual().eval(), torch.randn(2, 3, 10, 12)
    graph = capture(module, (x,))
    laid_out, number = channels_last(graph)
    laid_out.validate()
    assert number == 1
    assert conversions(graph) == []
    assert conversions(laid_out) == ["Contiguous(layout=channels_last)", "Contiguous(layout=contiguous_format)"]
    with torch.no_grad():
        for got, wanted in zip(to_module(laid_out)(x), module(x), strict=True):
            assert got.stride() == wanted.stride()
            assert torch.allclose(got, wanted, atol=1e-5)


def test_tensors_between_are_channels_last() -> None:
    graph = capture(Residual().eval(), (torch.randn(2, 3, 10, 12),))
    laid_out, _ = channels_last(graph)
    inner = [node for node in laid_out if type(laid_out.operator(node)).__name__ in ("Conv2d", "Add", "BatchNorm")]
    laid_out.outputs = [type(laid_out.outputs[0])(node) for node in inner]
    assert all(value.is_contiguous(memory_format=torch.channels_last) for value in evaluate(laid_out, [torch.randn(2, 3, 10, 12)]))


class Between(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).reshape(2, 4, 8, 8))


def test_what_loses_the_layout_is_laid_out_again() -> None:
    module, x = Between().eval(), torch.randn(2, 3, 4, 4)
    laid_out, number = channels_last(capture(module, (x,)))
    assert number == 2
    with torch.no_grad():
        assert torch.allclose(to_module(laid_out)(x), module(x), atol=1e-5)


def test_a_model_without_convolutions_stays_as_it_is() -> None:
    graph = capture(nn.Linear(3, 3), (torch.randn(2, 3),))
    laid_out, number = channels_last(graph)
    assert number == 0
    assert conversions(laid_out) == []
