"""Logarithms of sums of exponentials have one form, whatever was taken out of the exponents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.verifier.laws_of_functions import proof_of

Sides = tuple[Callable[..., Any], Callable[..., Any]]
EQUAL: dict[str, Sides] = {
    "log(1 + e^-x) + x = log(1 + e^x)": (lambda x, y: torch.log(1 + torch.exp(-x)) + x, lambda x, y: torch.log(1 + torch.exp(x))),
    "log σ(x) − log σ(−x) = x": (lambda x, y: F.logsigmoid(x) - F.logsigmoid(-x), lambda x, y: x),
    "log(1 − σ(x)) = log σ(−x)": (lambda x, y: torch.log(1 - torch.sigmoid(x)), lambda x, y: F.logsigmoid(-x)),
    "logaddexp is symmetric": (torch.logaddexp, lambda x, y: torch.logaddexp(y, x)),
    "logaddexp by the distance": (torch.logaddexp, lambda x, y: y + torch.log1p(torch.exp(x - y))),
    "logaddexp shifted": (lambda x, y: torch.logaddexp(x - y, x + y), lambda x, y: x + torch.logaddexp(y, -y)),
    "a softmax of two": (lambda x, y: torch.log_softmax(torch.stack([x, y], -1), -1)[:, 0], lambda x, y: F.logsigmoid(x - y)),
    "a shifted sum": (lambda x, y: torch.logsumexp(x - y[:1], 0), lambda x, y: torch.logsumexp(x, 0) - y[0]),
}
DIFFERENT: dict[str, Sides] = {
    "log(1 + e^-x) − x": (lambda x, y: torch.log(1 + torch.exp(-x)) - x, lambda x, y: torch.log(1 + torch.exp(x))),
    "logaddexp by the distance, from the other": (torch.logaddexp, lambda x, y: x + torch.log1p(torch.exp(x - y))),
    "three for two": (lambda x, y: torch.logaddexp(torch.logaddexp(x, y), x), lambda x, y: torch.logaddexp(x, y)),
    "a sum shifted by its own elements": (lambda x, y: torch.logsumexp(x - y, 0), lambda x, y: torch.logsumexp(x, 0) - y[0]),
}


@pytest.mark.parametrize("name", EQUAL)
def test_logarithms_of_sums_are_proved_equal(name: str) -> None:
    assert proof_of(("n+1", "n+1"), *EQUAL[name]).proved


@pytest.mark.parametrize("name", DIFFERENT)
def test_logarithms_of_other_sums_are_not(name: str) -> None:
    assert not proof_of(("n+1", "n+1"), *DIFFERENT[name]).proved
