"""Fitted devices: rates come back from times made with them, classes have their own, and ranks are Spearman's."""

from __future__ import annotations

import random

import pytest
import torch

from costs.classes import CLASSES, class_of
from costs.devices import DEVICES, Device, Rates
from costs.difference import Prices
from costs.fitting import Sample, fitted, rank_correlation, rates_of
from costs.kernels import POLICIES, computed_from_constants
from costs.roofline import Roofline
from graphs.capture import capture
from graphs.graph import Graph


def made(of: str, rates: Rates, noise: float, number: int = 60) -> list[Sample]:
    draw = random.Random(1)
    found = []
    for _ in range(number):
        flops, moved = 10 ** draw.uniform(4, 10), 10 ** draw.uniform(3, 8)
        seconds = (max(flops / rates.peak, moved / rates.bandwidth) + rates.launch) * 2 ** draw.uniform(-noise, noise)
        found.append(Sample(of, flops, moved, seconds))
    return found


def test_rates_come_back_from_times_made_with_them() -> None:
    true = Rates(5e10, 8e9, 6e-6)
    for noise, within in ((0.0, 0.02), (0.3, 0.25)):
        got = rates_of(made("convolution", true, noise))
        assert (got.peak, got.bandwidth, got.launch) == pytest.approx((true.peak, true.bandwidth, true.launch), rel=within)


def test_a_fitted_device_has_rates_by_class_and_keeps_the_ratios_of_dtypes() -> None:
    fast, slow = Rates(1e11, 2e10, 1e-6), Rates(1e9, 1e9, 2e-5)
    device = fitted("here", [*made("convolution", fast, 0.1), *made("reduction", slow, 0.1)], DEVICES["cpu"], "made up")
    assert set(device.rates) == {"convolution", "reduction"}
    assert device.rate("float32", "convolution") == pytest.approx(1e11, rel=0.1)
    assert device.rate("float64", "convolution") / device.rate("float32", "convolution") == pytest.approx(
        DEVICES["cpu"].peak["float64"] / DEVICES["cpu"].peak["float32"]
    )
    assert device.rate("float32", "pooling") == device.peak["float32"]


class Mixed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense, self.depthwise = torch.nn.Conv2d(4, 8, 3), torch.nn.Conv2d(8, 8, 3, groups=8)
        self.grouped, self.alone = torch.nn.Conv2d(8, 8, 3, groups=2), torch.nn.Conv2d(8, 4, 1)
        self.linear, self.norm = torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.alone(self.grouped(self.depthwise(self.dense(x)))))
        return torch.cat([self.norm(self.linear(y.mean((2, 3)))).tanh(), y.amax((2, 3))], 1).softmax(1)


def mixed() -> Graph:
    return capture(Mixed().eval(), (torch.randn(2, 4, 12, 12),))


def test_operators_have_the_class_that_they_run_as() -> None:
    graph = mixed()
    free = computed_from_constants(graph)
    found = [
        class_of(graph.operator(node), tuple(None if value is None else graph.type(value) for value in graph.operands(node)))
        for node in graph
        if node not in free and node not in graph.inputs
    ]
    assert set(found) <= set(CLASSES)
    assert sorted(of for of in found if "convolution" in of) == [
        "convolution", "depthwise convolution", "grouped convolution", "pointwise convolution",
    ]  # fmt: skip
    assert {"matrix product", "normalisation", "pointwise", "transcendental", "reduction", "copy"} <= set(found)


SLOW_VIEWS = Device(
    "slow", {"float32": 1e9}, 1e9, 1e-6, 1e9, "made up", {"view": Rates(1e9, 1e9, 3e-6), "reduction": Rates(1e6, 1e9, 5e-6)}
)


def test_rates_price_single_nodes_and_whole_graphs_alike() -> None:
    graph = capture(_Views(), (torch.randn(2, 3, 4),))
    roofline = Roofline(SLOW_VIEWS, "none")
    free = computed_from_constants(graph)
    running = [node for node in graph if node not in graph.inputs]
    assert Prices(roofline).total(graph, running, free).time == pytest.approx(roofline.cost(graph).time)
    # A transposition (3 µs), a sum of 24 elements (24 µs at 1 MFLOP/s, and 5 µs to start).
    assert roofline.cost(graph).time == pytest.approx(3e-6 + 29e-6, rel=0.2)
    assert roofline.cost(graph).kernels == 1
    fusing = Roofline(SLOW_VIEWS, POLICIES["inductor-like"])
    assert fusing.cost(graph).time == pytest.approx(29e-6, rel=0.2)


class _Views(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).sum(1)


def test_rank_correlation_is_spearmans() -> None:
    assert rank_correlation([1, 2, 3, 4], [10, 20, 40, 80]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1.0)
    # Textbook case: d² = 1 + 1, so 1 − 6·2 / (5·24) = 0.9.
    assert rank_correlation([1, 2, 3, 4, 5], [1, 2, 4, 3, 5]) == pytest.approx(0.9)
