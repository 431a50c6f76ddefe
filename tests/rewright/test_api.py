"""The Python interface: lazy names, pairs of functions, optimising a module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import configuration
from jaxtyping import Float
from torch import Tensor, nn

import rewright
from rewrites.library.activations import ReluIsIdempotent
from rewrites.library.convolution import FoldBatchNormIntoConvolution

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWRIGHT_CACHE", str(tmp_path / "cache"))


class Normalised(nn.Module):
    """A convolution with its batch norm, and a relu.  x: [n, 3, h, w]   ->   [n, 4, h, w]"""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        generator = torch.Generator().manual_seed(1)
        for vector in (self.norm.running_mean, self.norm.running_var):
            assert vector is not None
            vector.copy_(torch.rand(4, generator=generator) + 0.5)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"features": torch.relu(self.norm(self.convolution(x)))}


class DropRelu(rewright.Rule):
    """The relu of x is x."""

    source = "wishful thinking"

    def pattern(x: Float[Tensor, "n c h w"]) -> Tensor:
        return torch.relu(x)

    def replacement(x: Tensor) -> Tensor:
        return x


def test_every_public_name_resolves() -> None:
    for name in rewright.__all__:
        assert getattr(rewright, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'prove'"):
        rewright.prove


def test_a_pair_of_functions_is_verified_for_all_sizes() -> None:
    given = {"example_inputs": [torch.randn(3, 4), torch.randn(3, 4)], "examples": 20}
    right = rewright.verify_pair(lambda x, y: torch.relu(x) + torch.relu(y), lambda x, y: torch.relu(y) + torch.relu(x), **given)
    wrong = rewright.verify_pair(lambda x, y: torch.relu(x) + torch.relu(y), lambda x, y: torch.relu(x + y), **given)
    assert right.status.value == "PROVED"
    assert wrong.status.value == "REFUTED"
    assert wrong.counterexample is not None


@pytest.mark.parametrize("whole", [True, False])
def test_a_model_that_draws_random_numbers_is_compared_on_the_same_draws(whole: bool) -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5), nn.ReLU(), nn.ReLU()).eval()
    (model if whole else model[1]).train()
    x = torch.randn(5, 6)
    state = torch.get_rng_state()
    result = rewright.optimize(model, (x,), rules=[ReluIsIdempotent], budget=10, kernels="none")
    assert torch.equal(torch.get_rng_state(), state)
    assert [step.rule for step in result.steps] == ["ReluIsIdempotent"]
    outputs = []
    for module in (model, result.module, result.module):
        if len(outputs) < 2:
            torch.manual_seed(7)
        outputs.append(module(x))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[1], outputs[2]), "the optimised module still draws anew at each call"


def test_an_optimised_module_is_called_as_the_original_and_agrees(tmp_path: Path) -> None:
    model, x = Normalised().eval(), torch.randn(2, 3, 8, 8)
    result = rewright.optimize(model, (x,), rules=[FoldBatchNormIntoConvolution], kernels="none", budget=20)
    assert [step.rule for step in result.steps] == ["FoldBatchNormIntoConvolution"]
    assert (result.before.kernels, result.after.kernels) == (3, 2)
    assert result.max_error["float64"] <= 1e-10
    torch.testing.assert_close(result.module(x), model(x))
    assert result.certificates["FoldBatchNormIntoConvolution"].holds
    written = result.as_dict()
    assert set(written) >= {"before", "after", "steps", "max_error", "seconds"}
    assert set(written["before"]) == {"time", "flops", "bytes", "kernels", "memory"}
    assert written["steps"][0]["cost_after"] == pytest.approx(written["after"]["time"])
    result.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "FoldBatchNormIntoConvolution" in page
    assert page.endswith("</html>\n")


def test_an_optimisation_goes_on_where_an_earlier_one_was(tmp_path: Path) -> None:
    model, x = Normalised().eval(), torch.randn(2, 3, 8, 8)
    heard: list[int] = []

    def optimised() -> list[str]:
        result = rewright.optimize(
            model,
            (x,),
            rules=[FoldBatchNormIntoConvolution],
            kernels="none",
            resume=True,
            jobs=2,
            progress=lambda p: heard.append(p.expanded),
        )
        return [step.rule for step in result.steps]

    assert optimised() == ["FoldBatchNormIntoConvolution"]
    assert heard
    heard.clear()
    assert optimised() == ["FoldBatchNormIntoConvolution"]
    assert not heard, "nothing was searched"
    assert (tmp_path / "cache" / "windows.sqlite").exists()


def test_a_refuted_rule_is_never_applied() -> None:
    model, x = Normalised().eval(), torch.randn(2, 3, 8, 8)
    result = rewright.optimize(model, (x,), rules=[DropRelu], kernels="none", budget=20)
    assert result.steps == []
    assert any(refusal.startswith("DropRelu: no valid certificate") for refusal in result.refused)


OWN_RULE = '''
import torch
from jaxtyping import Float
from torch import Tensor
from rewrites import Rule
import rewright

class Twice(Rule):
    """The relu of a relu is the relu."""
    source = "idempotence"
    def pattern(a: Float[Tensor, "n"]):
        return torch.relu(torch.relu(a))
    def replacement(a):
        return torch.relu(a)

print(rewright.verify(Twice, examples=5).status)
'''


def test_verifying_leaves_nothing_where_it_is_called(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "mine.py").write_text(OWN_RULE)
    environment = {name: value for name, value in os.environ.items() if name != "HYPOTHESIS_STORAGE_DIRECTORY"}
    environment["REWRIGHT_CACHE"] = str(tmp_path / "cache")
    command = [sys.executable, "mine.py"]
    answer = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert "PROVED" in answer.stdout
    assert [path.name for path in here.iterdir()] == ["mine.py"]
    assert (tmp_path / "cache" / "hypothesis").is_dir()


def test_a_users_own_hypothesis_keeps_its_folder() -> None:
    before = configuration.storage_directory(intent_to_write=False).home_directory
    rewright.verify(ReluIsIdempotent, examples=2)
    assert configuration.storage_directory(intent_to_write=False).home_directory == before
