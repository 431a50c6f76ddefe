"""Hypothesis profiles: `ci` (derandomised, few examples) unless HYPOTHESIS_PROFILE names `nightly` (exploring, many)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("ci", max_examples=25, derandomize=True, deadline=None, database=None, suppress_health_check=SLOW)
settings.register_profile("nightly", max_examples=1000, deadline=None, print_blob=True, suppress_health_check=SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
