"""Effects must be preserved: randomness, writes, running statistics, copies; and gradients of rules for training."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from rewrites import Change, Equality, Rule
from rewrites.library.normalisation import ScaleIntoBatchNorm
from verifier.verdict import Status
from verifier.verify import verify

WIDER = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)


class DropoutTwice(Rule):
    """One draw used twice is two draws."""

    source = "a mistake"

    def pattern(x: Float[Tensor, "n"]):
        y = F.dropout(x, 0.5, True)
        return y, y

    def replacement(x):
        return F.dropout(x, 0.5, True), F.dropout(x, 0.5, True)


class DropoutsExchanged(Rule):
    """Two draws may change places."""

    source = "a mistake"

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        a = F.dropout(x, 0.5, True)
        return a, F.dropout(y, 0.5, True)

    def replacement(x, y):
        b = F.dropout(y, 0.5, True)
        return F.dropout(x, 0.5, True), b


class UnusedDropoutDropped(Rule):
    """A draw times 0 is not drawn."""

    source = "a mistake"
    equality = WIDER

    def pattern(x: Float[Tensor, "n"]):
        return F.dropout(x, 0.5, True) * 0.0

    def replacement(x):
        return x * 0.0


class DropoutAfterScale(Rule):
    """A draw on a doubled tensor is the doubled draw."""

    source = "dropout is linear for a given draw"

    def pattern(x: Float[Tensor, "n"]):
        return F.dropout(x * 2.0, 0.5, True)

    def replacement(x):
        return F.dropout(x, 0.5, True) * 2.0


class RunningStatisticsForgotten(Rule):
    """A batch norm in training is one without running statistics."""

    source = "a mistake"

    def pattern(x: Float[Tensor, "n c"], mean: Float[Tensor, "c"], var: Float[Tensor, "c"]):
        return F.batch_norm(x, mean, var, None, None, True, 0.1, 1e-5)

    def replacement(x, mean, var):
        return F.batch_norm(x, None, None, None, None, True, 0.1, 1e-5)


class WritesIntoItsInput(Rule):
    """x · 2 may be done in place."""

    source = "a mistake"

    def pattern(x: Float[Tensor, "n"]):
        return x * 2.0

    def replacement(x):
        return x.mul_(2.0)


class CopyRemoved(Rule):
    """A copy is the tensor itself."""

    source = "a mistake: whoever writes into the copy writes into the tensor"

    def pattern(x: Float[Tensor, "n"]):
        return x.clone()

    def replacement(x):
        return x


class CopyOfAResult(Rule):
    """A copy of a fresh result is the result."""

    source = "the result is memory of its own"

    def pattern(x: Float[Tensor, "n"]):
        return (x * 2.0).clone()

    def replacement(x):
        return x * 2.0


class StopsTheGradient(Rule):
    """x² = x · x, with one factor held constant in the backward pass."""

    source = "a mistake in training"
    trainable = True

    def pattern(x: Float[Tensor, "n"]):
        return x * x

    def replacement(x):
        return x * x.detach()


class PaddingLearns(Rule):
    """Rows of a table, the padding's own among those that learn."""

    source = "a mistake in training"
    trainable = True

    def pattern(i: Int[Tensor, "n"], table: Float[Tensor, "v d"]):
        return F.embedding(i, table, padding_idx=0)

    def replacement(i, table):
        return F.embedding(i, table)


class RootBesideAnother(Rule):
    """A branch that is not taken, where its root is of a negative number."""

    source = "a mistake in training"
    trainable = True

    def pattern(x: Float[Tensor, "n"]):
        return torch.where(x > 1, torch.sqrt(x.clamp(min=1.0)), x)

    def replacement(x):
        return torch.where(x > 1, torch.sqrt(x), x)


class RootOfSome(Rule):
    """Of elements that are not read, no root is taken."""

    source = "pointwise functions act on single elements"
    trainable = True

    def pattern(x: Float[Tensor, "2*n"]):
        return torch.sqrt(x)[::2]

    def replacement(x):
        return torch.sqrt(x[::2])


class KeepsTheGradient(Rule):
    """x² = x · x."""

    source = "arithmetic"
    trainable = True

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return x * y + x

    def replacement(x, y):
        return x * (y + 1.0)


@pytest.mark.parametrize(
    ("rule", "kinds"),
    [
        (DropoutTwice, ("value", "randomness")),
        (DropoutsExchanged, ("value", "randomness")),
        (UnusedDropoutDropped, ("randomness",)),
        (RunningStatisticsForgotten, ("mutation",)),
        (WritesIntoItsInput, ("mutation",)),
        (CopyRemoved, ("aliasing",)),
        (StopsTheGradient, ("gradient",)),
        (PaddingLearns, ("gradient",)),
        (RootBesideAnother, ("gradient",)),
    ],
)
def test_an_effect_that_is_not_preserved_refutes(rule: type[Rule], kinds: tuple[str, ...], tmp_path: Path) -> None:
    verdict = verify(rule, examples=40)
    assert verdict.status is Status.REFUTED, verdict
    assert verdict.counterexample is not None and verdict.counterexample.kind in kinds, verdict
    script = tmp_path / "repro.py"
    script.write_text(verdict.counterexample.script)
    ran = subprocess.run([sys.executable, "-I", str(script)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 1 and not ran.stderr, ran.stderr


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        (DropoutAfterScale, Status.TESTED),
        (CopyOfAResult, Status.PROVED),
        (KeepsTheGradient, Status.PROVED),
        (RootOfSome, Status.PROVED),
    ],
)
def test_an_effect_that_is_preserved_holds(rule: type[Rule], status: Status) -> None:
    verdict = verify(rule, examples=40)
    assert verdict.status is status, verdict


def test_the_verdict_says_which_effects_there_are() -> None:
    assert "draws random numbers" in verify(DropoutAfterScale, examples=20).effects
    assert "equal on" in verify(KeepsTheGradient, examples=20).gradients
    assert "not marked trainable" in verify(CopyOfAResult, examples=20).gradients


def test_mutating_an_input_that_is_read_again_is_seen() -> None:
    class ReadsAfterwards(Rule):
        """x + 1 and then x."""

        source = "a mistake"

        def pattern(x: Float[Tensor, "n"]):
            return torch.add(x, 1.0), x * 1.0

        def replacement(x):
            return x.add_(1.0), x * 1.0

    assert verify(ReadsAfterwards, examples=20).status is Status.REFUTED


def test_what_has_no_derivative_is_a_constant_of_the_gradients() -> None:
    # PyTorch differentiates a batch norm by everything but its statistics, and refuses to where those ask for a gradient.
    found = verify(ScaleIntoBatchNorm, examples=40).gradients
    assert found.startswith("proved equal for all sizes") and "equal on" in found
