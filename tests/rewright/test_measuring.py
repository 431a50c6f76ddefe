"""The search by measured kernels: led by a roofline, judged by measurement, steps in one currency."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from torch import nn

import rewright
from costs.fragments import Fragment
from costs.roofline import Cost
from examples.models.residual import TwoBranchBlock, randomise_statistics
from operators.convolution import Conv2d
from rewright.measuring import in_proportion
from search.result import Step
from tests.runtimes import Simulated

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWRIGHT_CACHE", str(tmp_path / "cache"))


def cost(time: float) -> Cost:
    return Cost(time, 1.0, 1.0, 1, 0.0)


def test_steps_of_the_roofline_are_told_in_measured_seconds() -> None:
    steps = [Step("a", "", cost(10.0), cost(12.0), True, ""), Step("b", "", cost(12.0), cost(5.0), False, "")]
    told = in_proportion(steps, cost(1.0), cost(0.5))
    assert [step.cost_before.time for step in told] == pytest.approx([1.0, 1.2])
    assert [step.cost_after.time for step in told] == pytest.approx([1.2, 0.5])
    assert [dataclasses.replace(step, cost_before=cost(0), cost_after=cost(0)).rule for step in told] == ["a", "b"]
    assert in_proportion([], cost(1.0), cost(1.0)) == []


def a_convolution_by_its_window(fragment: Fragment) -> float:
    """Microseconds: 5 for an operator, and for a convolution 10 more by each position of its window."""
    conv = fragment.steps[0].operator
    return (5 + 10 * math.prod(fragment.operands[1].type.shape[2:]) if isinstance(conv, Conv2d) else 5) * 1e-6


def test_two_branches_become_one_convolution_by_measurement() -> None:
    from rewrites.library.convolution import EnlargeKernels, FoldBatchNormIntoConvolution
    from rewrites.library.convolution_merging import AddConvolutionsOfOneInput

    block = randomise_statistics(TwoBranchBlock(16).eval())
    needed = [FoldBatchNormIntoConvolution, EnlargeKernels, AddConvolutionsOfOneInput]
    runtime = Simulated(a_convolution_by_its_window)
    result = rewright.optimize(
        block, (torch.randn(4, 16, 32, 32),), objective="measured", then=runtime, rules=needed, budget=60, time_here=False
    )
    names = [type(result.graph.operator(node)).__name__ for node in result.graph]
    assert names.count("Conv2d") == 1
    assert result.before.time == pytest.approx(130e-6)
    assert result.after.time == pytest.approx(100e-6)
    assert result.max_error["float64"] < 1e-10
    times = [result.before.time, *(step.cost_after.time for step in result.steps)]
    assert max(times) > result.before.time
    assert all(step.cost_before.time == pytest.approx(time) for step, time in zip(result.steps, times, strict=False))


def test_nothing_to_gain_is_no_step() -> None:
    result = rewright.optimize(nn.Linear(8, 8).eval(), (torch.randn(4, 8),), objective="measured", budget=5, time_here=False)
    assert result.max_error == {"float64": 0.0, "native": 0.0} or result.after.time < result.before.time
