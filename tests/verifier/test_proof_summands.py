"""Sums whose summands are equal piecewise, at every point: proved; sums over other points, or of other summands: not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.verifier.laws_of_functions import proof_of

Law = tuple[tuple[str, ...], Callable[..., Any], Callable[..., Any]]


def choose(condition: Tensor, yes: Any, no: Any) -> Tensor:
    return torch.where(condition, yes, no)


EQUAL: dict[str, Law] = {
    "at the border both choices agree": (("n",), lambda x: choose(x > 1, x * x, x).sum(), lambda x: choose(x >= 1, x * x, x).sum()),
    "a rectifier": (("n m",), lambda x: choose(x > 0, x, 0 * x).sum(), lambda x: torch.relu(x).sum()),
    "a mean of magnitudes": (("n",), lambda x: choose(x > 0, x, -x).mean(), lambda x: x.abs().mean()),
    "hinges": (("n",), lambda x: torch.clamp(1 - x, min=0).sum(), lambda x: choose(x < 1, 1 - x, 0 * x).sum()),
    "every row": (("n m",), lambda x: choose(x > 0, x, 0 * x).sum(1), lambda x: torch.relu(x).sum(1)),
    "numbers are counted": (
        ("n",),
        lambda x: choose(x > 0, 1 + 0 * x, 0 * x).sum() + choose(x <= 0, 1 + 0 * x, 0 * x).sum(),
        lambda x: 0 * x.sum() + x.shape[0],
    ),
    "sums of sums": (
        ("n m",),
        lambda x: choose(x.sum(1) > 1, x.sum(1), 1 + 0 * x.sum(1)).sum(),
        lambda x: choose(x.sum(1) >= 1, x.sum(1), 1 + 0 * x.sum(1)).sum(),
    ),
    "Huber": (("n", "n"), F.smooth_l1_loss, F.huber_loss),
    "Huber, scaled": (
        ("n m", "n m"),
        lambda x, y: F.smooth_l1_loss(x, y, reduction="sum", beta=0.5) / 2,
        lambda x, y: F.huber_loss(x, y, reduction="sum", delta=0.5),
    ),
    "cross entropy of logits": (
        ("n", "n"),
        lambda x, y: -(y * F.logsigmoid(x) + (1 - y) * torch.log(1 - torch.sigmoid(x))).mean(),
        F.binary_cross_entropy_with_logits,
    ),
}
DIFFERENT: dict[str, Law] = {
    "at the border the choices differ": (("n",), lambda x: choose(x > 0, x, 1 + 0 * x).sum(), lambda x: choose(x >= 0, x, 1 + 0 * x).sum()),
    "numbers are counted once too often": (
        ("n",),
        lambda x: choose(x > 1, x, 1 + 0 * x).sum(),
        lambda x: choose(x >= 1, x, 0 * x).sum() + x.shape[0],
    ),
    "numbers over a triangle": (
        ("n n",),
        lambda x: torch.tril(choose(x > 1, x - 1, 0 * x)).sum() + x.shape[0] ** 2,
        lambda x: torch.tril(choose(x >= 1, x, 1 + 0 * x)).sum(),
    ),
    "transposed": (("n n",), lambda x: choose(x > 0, x * x.t(), 0 * x).sum(), lambda x: choose(x.t() > 0, x * x, 0 * x).sum()),
    "sums along another axis": (("n n",), lambda x: torch.relu(x.sum(1) - 1).sum(), lambda x: torch.relu(x.sum(0) - 1).sum()),
    "a sum for one element": (
        ("n n",),
        lambda x: choose(x.sum(1) > 1, x.sum(1), 1 + 0 * x[:, 0]).sum(),
        lambda x: choose(x.diagonal() >= 1, x.diagonal(), 1 + 0 * x[:, 0]).sum(),
    ),
    "a mean for a sum": (("n", "n"), lambda x, y: F.smooth_l1_loss(x, y, reduction="sum"), F.huber_loss),
    "Huber, not scaled": (("n", "n"), lambda x, y: F.smooth_l1_loss(x, y, beta=0.5), lambda x, y: F.huber_loss(x, y, delta=0.5)),
    "a part of the points": (("n+1",), lambda x: torch.relu(x[1:]).sum(), lambda x: choose(x > 0, x, 0 * x).sum()),
}


@pytest.mark.parametrize("name", EQUAL)
def test_sums_of_equal_summands_are_proved(name: str) -> None:
    assert proof_of(*EQUAL[name]).proved


@pytest.mark.parametrize("name", DIFFERENT)
def test_sums_of_other_summands_or_over_other_points_are_not(name: str) -> None:
    assert not proof_of(*DIFFERENT[name]).proved
