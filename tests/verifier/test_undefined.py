"""What a rule may change where functions have no value: what was none may become a number, and no number may become none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Rule
from tests.verifier.laws_of_functions import law_of
from verifier.judging import Kind
from verifier.verdict import Status
from verifier.verify import verify

FREE = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO, Change.OVERFLOW)
Sides = tuple[Callable[..., Any], Callable[..., Any]]
GAINED: dict[str, Sides] = {
    "x = x·x/x": (lambda x: x * 1.0, lambda x: x * x / x),
    "x = √x·√x": (lambda x: x * 1.0, lambda x: torch.sqrt(x) * torch.sqrt(x)),
    "0·x = 0·(1/x)": (lambda x: x * 0, lambda x: (1 / x) * 0),
    "0·x = 0·log x": (lambda x: x * 0, lambda x: torch.log(x) - torch.log(x)),
    "0·x = 0·(1/√x)": (lambda x: x * 0, lambda x: torch.rsqrt(x) * 0),
    "a shielded root": (
        lambda x: torch.where(x > 0, torch.sqrt(x), x),
        lambda x: torch.relu(torch.sqrt(x)) + torch.where(x > 0, torch.zeros_like(x), x),
    ),
    "a root in the padding's place": (lambda x: F.pad(torch.rsqrt(x), (1, 1)), lambda x: torch.rsqrt(F.pad(x, (1, 1)))),
}
LOST: dict[str, Sides] = {
    "x·x/x = x": (lambda x: x * x / x, lambda x: x),
    "√x·√x = x": (lambda x: torch.sqrt(x) * torch.sqrt(x), lambda x: x),
    "exp log x = x": (lambda x: torch.exp(torch.log(x)), lambda x: x),
    "log x = log|x|": (lambda x: torch.log(x), lambda x: torch.log(torch.abs(x))),
    "a number that an infinity gives": (lambda x: torch.clamp(1 / x, -5.0, 5.0), lambda x: torch.clamp(x / (x * x), -5.0, 5.0)),
    "a number that a comparison with NaN gives": (lambda x: torch.where(x / x == 1, x + 2, x - 2), lambda x: x + 2),
}


@pytest.mark.parametrize("name", GAINED)
def test_a_number_may_not_become_undefined_whatever_is_declared(name: str) -> None:
    verdict = verify(law_of(("n",), *GAINED[name], FREE))
    assert verdict.status is Status.REFUTED
    assert verdict.counterexample is not None
    assert verdict.counterexample.kind == Kind.UNDEFINED.value
    assert "of finite inputs" in verdict.reason


@pytest.mark.parametrize("name", LOST)
def test_what_is_undefined_may_become_a_number_where_that_is_declared(name: str) -> None:
    assert verify(law_of(("n",), *LOST[name], FREE)).holds
    assert verify(law_of(("n",), *LOST[name], Equality.REAL)).status is Status.REFUTED


def test_a_number_that_does_not_depend_on_what_is_undefined_is_a_number() -> None:
    shielded = (
        lambda x: torch.where(x > 0, torch.sqrt(x), x),
        lambda x: torch.where(x > 0, torch.sqrt(x), torch.abs(x)),
    )
    verdict = verify(law_of(("n",), *shielded, FREE))
    assert verdict.status is Status.REFUTED
    assert verdict.reason.startswith("value: the outputs differ")


class Undefined(Rule):
    """x is x·x/x."""

    source = "wrong at 0"
    equality = FREE

    def pattern(x: Float[Tensor, "n"]):
        return x * 1.0

    def replacement(x):
        return x * x / x


def test_the_script_of_what_became_undefined_shows_it(tmp_path: Path) -> None:
    verdict = verify(Undefined)
    assert verdict.counterexample is not None
    wrong, mended = tmp_path / "wrong.py", tmp_path / "mended.py"
    wrong.write_text(verdict.counterexample.script)
    mended.write_text(verdict.counterexample.script.replace("return x * x / x", "return x * 3.0 / 3.0"))
    codes = [subprocess.run([sys.executable, "-I", str(script)], check=False, timeout=120).returncode for script in (wrong, mended)]
    assert codes == [1, 0]
