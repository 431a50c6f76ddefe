"""What the clock decides: nothing slower is handed out, and nothing is claimed for another machine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from jaxtyping import Float
from torch import Tensor, nn

import rewright
from costs.devices import DEVICES
from rewright import optimization, speed, timed
from rewright.cli.main import run
from rewright.layouts import LAW
from rewright.speed import Dispatches, Speed, compared, why_not_here
from rewrites.library.convolution import FoldBatchNormIntoConvolution
from verifier.verdict import Verdict

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWRIGHT_CACHE", str(tmp_path / "cache"))


class Normalised(nn.Module):
    """A convolution with its batch norm.  x: [n, 3, h, w]   ->   [n, 4, h, w]"""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.convolution(x))


def taking(seconds_before: float, seconds_after: float) -> Callable[..., Speed]:
    """A clock that finds these times."""

    def clock(before: object, after: object, arguments: object, named: object, runtime: str = "eager", *timing: object) -> Speed:
        ratio = seconds_before / seconds_after
        return Speed(runtime, "here", seconds_before, seconds_after, ratio, ratio * 0.99, ratio * 1.001, 9, ratio * 1.001 < 0.99)

    return clock


def optimised(**options: object) -> optimization.Result:
    given = {"rules": [FoldBatchNormIntoConvolution], "device": "cpu", **options}
    return rewright.optimize(Normalised().eval(), (torch.randn(2, 3, 16, 16),), **given)  # type: ignore[arg-type]


def test_what_is_slower_by_the_clock_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed, "compared", taking(1.0, 1.2))
    result = optimised()
    assert isinstance(result.module, Normalised)
    assert result.graph is result.original
    assert (list(result.steps), result.after) == ([], result.before)
    assert result.speed is not None
    assert result.speed_note.startswith("not handed out, what came in is faster: 0.83x")
    assert result.as_dict()["speed"]["ratio"] == pytest.approx(1 / 1.2)


def test_what_is_slower_is_handed_out_when_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(timed, "compared", taking(1.0, 1.2))
    result = optimised(allow_slower=True)
    assert len(result.steps) == 1
    assert result.speed_note.startswith("handed out although it is slower")
    result.report(tmp_path / "report.html")
    assert "handed out although it is slower, as asked: 0.83x measured in eager" in (tmp_path / "report.html").read_text()


def test_what_is_slower_than_its_graph_without_the_steps_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def clock(before: nn.Module, *rest: object) -> Speed:
        return taking(1.0, 0.9 if isinstance(before, Normalised) else 1.2)(before, *rest)

    monkeypatch.setattr(timed, "compared", clock)
    result = optimised(rules=[FoldBatchNormIntoConvolution])
    assert list(result.steps) == []
    assert result.speed_note.startswith("not handed out, its graph without the steps is faster: 0.83x")


def test_what_is_faster_or_as_fast_is_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for after in (0.5, 1.005):
        monkeypatch.setattr(timed, "compared", taking(1.0, after))
        result = optimised()
        assert len(result.steps) == 1
        assert result.speed_note.startswith("handed out: ")


def test_nothing_is_claimed_for_another_device() -> None:
    result = optimised(device="h100")
    assert len(result.steps) == 1
    assert result.speed is None
    assert result.speed_note == "no speed was measured: optimised for h100, and the example inputs are on this machine's cpu"


def test_why_a_clock_here_would_say_nothing() -> None:
    here, nowhere = [torch.zeros(1)], [torch.empty(1, device="meta")]
    assert why_not_here(DEVICES["cpu"], False, None, here) == ""
    assert why_not_here(DEVICES["a100"], True, None, here) == ""
    assert why_not_here(DEVICES["a100"], False, "inductor", here) == ""
    assert "optimised for a100" in why_not_here(DEVICES["a100"], False, None, here)
    assert why_not_here(DEVICES["cpu"], False, None, nowhere) == "the model has no data"


def test_the_runtime_decides_the_kernels() -> None:
    assert optimised(then="eager", device="h100").kernels == "none"
    assert optimised(device="h100").kernels == "inductor-like"
    assert optimised(device="h100", kernels="pointwise").kernels == "pointwise"


def test_a_measured_objective_measures_and_times_here() -> None:
    result = optimised(objective="measured", device=None)
    assert (result.device, result.objective, result.kernels) == ("cpu", "measured", "none")
    assert result.before.time > 0
    assert result.speed is not None or result.speed_note == "no speed was measured: nothing changed"


class Slow(nn.Module):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(self.seconds)
        return x


def test_the_clock_finds_the_slower_of_two_modules() -> None:
    found = compared(Slow(1e-3), Slow(20e-3), (torch.zeros(1),), {}, seconds=0.6)
    assert found.slower
    assert found.ratio < 0.5
    assert not compared(Slow(20e-3), Slow(1e-3), (torch.zeros(1),), {}, seconds=0.6).slower


class Scripted(nn.Module):
    """Takes the seconds of a script in turn, by a clock of its own; the last of them for ever."""

    now = 0.0

    def __init__(self, *seconds: float) -> None:
        super().__init__()
        self.seconds = list(seconds)

    def forward(self, x: Tensor) -> Tensor:
        Scripted.now += self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]
        return x


@pytest.mark.parametrize(("at_last", "slower"), [(1.0, False), (1.05, True), (1.005, False)])
def test_few_rounds_that_settle_nothing_are_followed_by_more(at_last: float, slower: bool) -> None:
    """The first five rounds give a ratio of 0.91 and a range across 1."""
    noisy = Scripted(1.0, 1.0, 1.1, 0.9, 1.3, 0.95, 1.2, *([at_last] * 3))
    found = compared(Scripted(1.0), noisy, (torch.zeros(1),), {}, seconds=0.0, clock=lambda: Scripted.now)
    assert found.rounds == 20
    assert found.slower is slower


def test_dispatched_kernels_leave_out_views() -> None:
    x = torch.randn(4, 6)
    with Dispatches() as dispatches:
        torch.relu(x.t().reshape(3, 8)[:, 2:]).add_(1)
    # The reshape copies (a clone), the relu and the addition run; transposing and slicing do not.
    assert dispatches.kernels == 3


def test_a_profile_has_both_modules_in_both_runtimes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(speed, "interleaved", lambda calls, *limits: _timings(calls))
    result = optimised(profile=True)
    assert result.profile is not None
    assert result.profile["eager"]["before"]["kernels"] == 2
    assert result.profile["eager"]["after"]["kernels"] == 1
    assert result.profile["eager"]["after"]["bytes"] < result.profile["eager"]["before"]["bytes"]
    before, after = result.profile["inductor"]["before"], result.profile["inductor"]["after"]
    assert (before["library"], after["library"]) == (1, 1)
    assert before["generated"] >= after["generated"] >= 1
    page = tmp_path / "report.html"
    result.report(page)
    assert page.read_text().count("<td>inductor</td>") == 2


def _timings(calls: list[Callable[[], object]]) -> list[object]:
    from costs.timing import Timing

    return [Timing((2.0 - index,) * 5) for index, _ in enumerate(calls)]


class Convolutions(nn.Module):
    """Two convolutions.  x: [n, 3, h, w]   ->   [n, 4, h, w]"""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)))


@pytest.mark.parametrize("ratio", [1.5, 0.9])
def test_channels_last_is_taken_where_the_clock_says_it_is_faster(monkeypatch: pytest.MonkeyPatch, ratio: float) -> None:
    monkeypatch.setattr(timed, "compared", taking(ratio, 1.0))
    x = torch.randn(2, 3, 16, 16)
    module = Convolutions().eval()
    result = rewright.optimize(module, (x,), device="cpu", rules=[LAW], then="eager")
    taken = ratio > 1
    assert [step.rule for step in result.steps] == (["ContiguousChangesNothing"] if taken else [])
    assert list(result.certificates) == [step.rule for step in result.steps]
    assert result.module(x).stride() == module(x).stride()
    assert torch.allclose(result.module(x), module(x), atol=1e-5)


class DropRelu(rewright.Rule):
    """A relu applied twice is one."""

    source = "the definition"

    def pattern(x: Float[Tensor, "n"]) -> Tensor:
        return torch.relu(torch.relu(x))

    def replacement(x: Tensor) -> Tensor:
        return torch.relu(x)


def test_a_model_in_training_mode_is_not_timed() -> None:
    result = rewright.optimize(
        nn.Sequential(nn.ReLU(), nn.ReLU(), nn.BatchNorm1d(3)), (torch.randn(4, 3),), rules=[DropRelu], device="cpu", certified=_assumed
    )
    assert result.speed is None
    assert result.speed_note == "no speed was measured: the model is in training mode"


def _assumed(rule: type[rewright.Rule]) -> Verdict:
    from rewright.verification import Request, certificate_of

    return certificate_of(rule, Request(examples=10))


MODEL = """
import torch

def factory():
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.ReLU()).eval(), (torch.randn(4, 8),)
"""


def test_the_command_line_says_what_the_clock_decided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    model, out = f"{tmp_path / 'model.py'}:factory", tmp_path / "result.json"
    assert run(["optimize", model, "--then", "eager", "--objective", "measured", "--budget", "5", "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert (found["device"], found["objective"], found["kernels"], found["runtime"]) == ("cpu", "measured", "none", "eager")
    assert found["profile"] is None
    assert found["speed"] is None or {"before", "after", "ratio", "low", "high", "rounds", "slower", "machine", "runtime"} == set(
        found["speed"]
    )
    assert found["speed_note"] in " ".join(capsys.readouterr().out.split())
    assert run(["optimize", model, "--then", "tensorrt"]) == 2
    assert "runtime: must be one of eager, inductor" in capsys.readouterr().err
