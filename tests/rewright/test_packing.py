"""Reordered copies of convolutions' weights: the same function, the same state, and new copies when something changes."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import rewright
from graphs.capture import capture
from graphs.emit import to_module
from rewright import packing, timed
from rewright.layouts import LAW, channels_last
from rewright.packing import PackedConvolution, pack
from rewright.speed import Dispatches, Speed
from rewright.timed import layout_of

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this build of PyTorch has no oneDNN")


class Chain(nn.Module):
    """Convolutions of several strides, paddings, dilations and groups, with bias and without."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([
            nn.Conv2d(3, 8, 3, padding=1),
            nn.Conv2d(8, 16, (3, 1), stride=(2, 1), padding=(1, 0), bias=False),
            nn.Conv2d(16, 16, 3, dilation=2, groups=4),
            nn.Conv2d(16, 16, 5, padding=2, groups=16),
            nn.Conv2d(16, 4, 1),
        ])  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = torch.relu(part(x))
        return x


def emitted(module: nn.Module, x: Tensor) -> torch.fx.GraphModule:
    return to_module(channels_last(capture(module, (x,)))[0])


def example() -> tuple[nn.Module, Tensor, torch.fx.GraphModule]:
    torch.manual_seed(0)
    module, x = Chain().eval(), torch.randn(2, 3, 18, 20)
    packed = emitted(module, x)
    assert pack(packed) == 5
    return module, x, packed


def copies(module: nn.Module) -> list[PackedConvolution]:
    return [part for part in module.modules() if isinstance(part, PackedConvolution)]


def test_it_computes_the_same_and_holds_the_same() -> None:
    module, x, packed = example()
    with torch.no_grad():
        found, wanted = packed(x), module(x)
    assert all(part._packed is not None for part in copies(packed))
    assert found.stride() == wanted.stride()
    # Every output is a sum of at most 400 products of size about 1; another order of summation changes it by a few units of 6e-8 each.
    assert torch.allclose(found, wanted, rtol=0, atol=2e-5)
    assert list(packed.state_dict()) == list(emitted(module, x).state_dict())


def test_a_changed_weight_is_packed_anew() -> None:
    module, x, packed = example()
    with torch.no_grad():
        packed(x)
        for parameter in packed.parameters():
            parameter.mul_(0.5)
        found = packed(x)
    again = emitted(module, x)
    again.load_state_dict(packed.state_dict())
    with torch.no_grad():
        assert torch.allclose(found, again(x), rtol=0, atol=2e-5)


def test_what_is_not_finite_stays_so() -> None:
    module, x, packed = example()
    x[0, 1, 3, 3], x[1, 2, 5, 5] = torch.nan, torch.inf
    with torch.no_grad():
        found, wanted = packed(x), module(x)
    assert wanted.isnan().any()
    assert torch.equal(found.isnan(), wanted.isnan())


def test_gradients_are_those_of_the_convolution() -> None:
    module, x, packed = example()
    packed(x).sum().backward()
    found = [parameter.grad for parameter in packed.parameters()]
    packed.zero_grad(set_to_none=True)
    module(x).sum().backward()
    assert all(part._packed is None for part in copies(packed))
    for gradient, parameter in zip(found, module.parameters(), strict=True):
        assert gradient is not None and parameter.grad is not None
        assert torch.allclose(gradient, parameter.grad, rtol=1e-4, atol=1e-4)


def test_it_can_be_copied_written_and_run_under_tracers() -> None:
    _, x, packed = example()
    with torch.no_grad():
        wanted = packed(x)
        for other in (copy.deepcopy(packed), torch.compile(packed, backend="eager")):
            assert torch.allclose(other(x), wanted, rtol=0, atol=2e-5)
        assert pickle.loads(pickle.dumps(copies(packed)[0]))._packed is None
        with Dispatches() as dispatches:
            packed(x)
    assert dispatches.kernels >= 10


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes_are_left_to_the_convolution(dtype: torch.dtype) -> None:
    convolution, x, weight = (
        PackedConvolution((1, 1), (1, 1), (1, 1), 1),
        torch.randn(1, 3, 8, 8).to(dtype),
        torch.randn(4, 3, 3, 3).to(dtype),
    )
    assert torch.equal(convolution(x, weight, None), torch.conv2d(x, weight, None, 1, 1))
    assert convolution._packed is None


def test_weights_that_are_computed_are_not_packed() -> None:
    class Computed(nn.Module):
        def forward(self, x: Tensor, weight: Tensor) -> Tensor:
            return torch.conv2d(x, torch.tanh(weight))

    module = to_module(capture(Computed(), (torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3))))
    assert pack(module) == 0


@pytest.mark.parametrize(
    ("ratios", "expected"), [((1.3, 1.6), "packed"), ((1.3, 1.31), "channels-last"), ((0.9, 0.95), None), ((0.9, 1.2), "packed")]
)
def test_the_clock_decides(monkeypatch: pytest.MonkeyPatch, ratios: tuple[float, float], expected: str | None) -> None:
    module, x, _ = example()
    plain, last, other = to_module(capture(module, (x,))), emitted(module, x), emitted(module, x)

    def clock(before: object, after: object, *rest: object) -> Speed:
        ratio = ratios[after is other]
        return Speed("eager", "here", ratio, 1.0, ratio, ratio * 0.999, ratio * 1.001, 9, ratio < 0.99)

    monkeypatch.setattr(timed, "compared", clock)
    found = layout_of(plain, last, other, (x,), {})
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found[0] is (other if expected == "packed" else last)
        assert expected in found[1]


def test_the_result_says_that_files_hold_no_packed_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REWRIGHT_CACHE", str(tmp_path))

    def clock(before: object, after: nn.Module, *rest: object) -> Speed:
        ratio = 2.0 if any(isinstance(part, PackedConvolution) for part in after.modules()) else 1.1
        return Speed("eager", "here", ratio, 1.0, ratio, ratio * 0.999, ratio * 1.001, 9, False)

    monkeypatch.setattr(timed, "compared", clock)
    module, x, _ = example()
    result = rewright.optimize(module, (x,), device="cpu", rules=[LAW], then="eager")
    assert copies(result.module)
    assert [step.place for step in result.steps] == ["1 tensors laid out channels-last, weights of 5 convolutions packed"]
    assert result.speed_note.endswith("files hold them as they were")
    assert result.max_error["native"] <= 64 * torch.finfo(torch.float32).eps


def test_a_packed_module_that_computes_something_else_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x, _ = example()
    plain, last, other = to_module(capture(module, (x,))), emitted(module, x), emitted(module, x)
    monkeypatch.setattr(timed, "compared", lambda *rest: Speed("eager", "here", 2.0, 1.0, 2.0, 1.9, 2.1, 9, False))
    monkeypatch.setattr(packing.PackedConvolution, "forward", lambda self, x, weight, bias: torch.conv2d(
        x, weight * 1.01, bias, self.stride, self.padding, self.dilation, self.groups))  # fmt: skip
    found = layout_of(plain, last, other, (x,), {})
    assert found is not None
    assert found[0] is last
