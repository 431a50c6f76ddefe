"""Hypothesis profiles: `ci` (derandomised, few examples) unless HYPOTHESIS_PROFILE names `nightly` (exploring, many).

PyTorch's own draws follow TORCH_SEED: 0 in `ci`, another each time in `nightly`. They start anew in each module and each test, so that
what a test draws does not depend on the tests before it.
"""

from __future__ import annotations

import os
import random

import pytest
import torch
from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("ci", max_examples=25, derandomize=True, deadline=None, database=None, suppress_health_check=SLOW)
settings.register_profile("nightly", max_examples=1000, deadline=None, print_blob=True, suppress_health_check=SLOW)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(PROFILE)
SEED = int(os.environ.setdefault("TORCH_SEED", "0" if PROFILE == "ci" else str(random.SystemRandom().randrange(2**32))))


def pytest_report_header() -> str:
    return f"TORCH_SEED={SEED}"


def pytest_collectstart(collector: pytest.Collector) -> None:
    if isinstance(collector, pytest.Module):
        torch.manual_seed(SEED)


@pytest.fixture(autouse=True)
def _torch_draws_anew() -> None:
    torch.manual_seed(SEED)
