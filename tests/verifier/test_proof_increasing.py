"""Proofs that need where an exponential, a sigmoid or a logarithm lies: functions that increase, and a value; with near misses."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.verifier.laws_of_functions import proof_of

RIGHT = {
    "elu of relu": (lambda x, y: F.elu(torch.relu(x)), lambda x, y: torch.relu(x)),
    "relu of elu": (lambda x, y: torch.relu(F.elu(x)), lambda x, y: torch.relu(x)),
    "selu of a magnitude": (lambda x, y: F.selu(x.abs()), lambda x, y: 1.0507009873554804934193349852946 * x.abs()),
    "exponential above one": (lambda x, y: torch.relu(1 - torch.exp(torch.relu(x))), lambda x, y: x * 0),
    "logarithm of an exponential above one": (lambda x, y: torch.log(torch.exp(x).clamp(min=1.0)), lambda x, y: torch.relu(x)),
    "relu of a logarithm": (
        lambda x, y: torch.relu(torch.log(1 + torch.exp(x))),
        lambda x, y: torch.log(1 + torch.exp(x)),
    ),
    "the larger exponential": (lambda x, y: torch.maximum(torch.exp(x), torch.exp(y)), lambda x, y: torch.exp(torch.maximum(x, y))),
    "a sigmoid's half": (
        lambda x, y: torch.relu(torch.sigmoid(x) - 0.5),
        lambda x, y: torch.where(x > 0, torch.sigmoid(x) - 0.5, torch.zeros_like(x)),
    ),
    "sigmoids compared": (
        lambda x, y: torch.where(torch.sigmoid(x) > torch.sigmoid(y), x, y),
        lambda x, y: torch.where(x > y, x, y),
    ),
}
WRONG = {
    "elu of a shifted relu": (lambda x, y: F.elu(torch.relu(x) - 1), lambda x, y: torch.relu(x) - 1),
    "relu of a shifted elu": (lambda x, y: torch.relu(F.elu(x) + 0.5), lambda x, y: torch.relu(x) + 0.5),
    "exponential below one": (lambda x, y: torch.relu(1 - torch.exp(-torch.relu(x))), lambda x, y: x * 0),
    "logarithm of an exponential above two": (lambda x, y: torch.log(torch.exp(x).clamp(min=2.0)), lambda x, y: torch.relu(x)),
    "relu of a logarithm below one": (
        lambda x, y: torch.relu(torch.log(0.5 + torch.exp(x))),
        lambda x, y: torch.log(0.5 + torch.exp(x)),
    ),
    # Where x is 0, the right side has no value: that it is multiplied by 0 does not give it one.
    "a quotient that is not defined": (lambda x, y: x * 1.0, lambda x, y: x * x / x),
    "a root that is not defined": (
        lambda x, y: torch.relu(x),
        lambda x, y: torch.where(x > 0, torch.sqrt(x) * torch.sqrt(x), torch.sqrt(x) * 0.0),
    ),
    "the larger of turned exponentials": (
        lambda x, y: torch.maximum(torch.exp(-x), torch.exp(-y)),
        lambda x, y: torch.exp(-torch.maximum(x, y)),
    ),
    "a sigmoid's third": (
        lambda x, y: torch.relu(torch.sigmoid(x) - 0.25),
        lambda x, y: torch.where(x > 0, torch.sigmoid(x) - 0.25, torch.zeros_like(x)),
    ),
    "sigmoids compared, turned": (
        lambda x, y: torch.where(torch.sigmoid(-x) > torch.sigmoid(-y), x, y),
        lambda x, y: torch.where(x > y, x, y),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_proved(name: str) -> None:
    proof = proof_of(("n", "n"), *RIGHT[name])
    assert proof.proved, proof


@pytest.mark.parametrize("name", WRONG)
def test_not_proved(name: str) -> None:
    assert not proof_of(("n", "n"), *WRONG[name], timeout=5).proved
