"""torch.compile's backend: the optimised graph agrees with eager, also for other sizes and after a weight has changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from rewright import backend
from rewrites.library.convolution import FoldBatchNormIntoConvolution

torch.set_num_threads(1)


@pytest.fixture
def optimised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of steps of each optimisation that the backend made."""
    import rewright.optimization as optimization

    monkeypatch.setenv("REWRIGHT_CACHE", str(tmp_path / "cache"))
    torch._dynamo.reset()
    counts: list[int] = []
    original = optimization.optimize

    def counted(*arguments: object, **options: object) -> optimization.Result:
        result = original(*arguments, **options)  # type: ignore[arg-type]
        counts.append(len(result.steps))
        return result

    monkeypatch.setattr(optimization, "optimize", counted)
    yield counts
    torch._dynamo.reset()


def model() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    assert isinstance(layers[1], nn.BatchNorm2d)
    assert layers[1].running_var is not None
    layers[1].running_var.uniform_(0.5, 1.0)
    return layers.eval()


def test_the_compiled_model_agrees_for_every_size_and_weight(optimised: list[int]) -> None:
    layers = model()
    options = {"rules": [FoldBatchNormIntoConvolution], "budget": 20.0, "kernels": "none"}
    compiled = torch.compile(layers, backend=backend.rewright, options=options)
    with torch.no_grad():
        for batch in (2, 5, 7):
            x = torch.randn(batch, 3, 8, 8)
            torch.testing.assert_close(compiled(x), layers(x))
        made = len(optimised)
        assert optimised == [1] * made
        convolution = layers[0]
        assert isinstance(convolution, nn.Conv2d)
        convolution.weight.mul_(2.0)
        torch.testing.assert_close(compiled(x), layers(x))
        assert len(optimised) == made + 1


def test_training_runs_the_graph_as_it_is(optimised: list[int]) -> None:
    layers, x = model(), torch.randn(2, 3, 8, 8)
    compiled = torch.compile(layers, backend=backend.rewright, options={"rules": [FoldBatchNormIntoConvolution]})
    compiled(x).sum().backward()
    expected = layers[0].weight.grad.clone()
    layers.zero_grad()
    layers(x).sum().backward()
    torch.testing.assert_close(expected, layers[0].weight.grad)
    assert optimised == []
