"""How far rounding takes the two sides apart, per dtype: a search that Hypothesis steers towards larger errors."""

from __future__ import annotations

import time

import torch
from hypothesis import HealthCheck, Phase, Verbosity, given, settings, target
from hypothesis import seed as seeded
from hypothesis.errors import Unsatisfiable

from verifier.instances import Instance, Space, instances
from verifier.notes import notes_kept_apart
from verifier.running import Outcome, run_sides
from verifier.values import ORDINARY

_DTYPES = ("float32", "bfloat16", "float16")


def relative_error(left: Outcome, right: Outcome) -> float | None:
    """The largest distance of two output elements, relative to the largest magnitude in that output; None where nothing compares."""
    worst: float | None = None
    for a, b in zip(left.outputs, right.outputs, strict=False):
        if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.is_floating_point() and a.shape == b.shape and a.numel()):
            continue
        a, b = a.detach().double(), b.detach().double()
        both = a.isfinite() & b.isfinite()
        scale = float(a[both].abs().max()) if bool(both.any()) else 0.0
        if scale > 0:
            worst = max(worst or 0.0, float((a - b)[both].abs().max()) / scale)
    return worst


def worst_errors(space: Space, examples: int, seed: int, deadline: float) -> dict[str, float]:
    """The worst relative error found in each dtype that the rule's floating tensors may have."""
    found: dict[str, float] = {}
    for position, dtype in enumerate(dtype for dtype in _DTYPES if dtype in space.families):
        if time.monotonic() < deadline:
            worst = _search(space, dtype, examples, seed + position, deadline)
            if worst is not None:
                found[dtype] = worst
    return found


def _search(space: Space, dtype: str, examples: int, seed: int, deadline: float) -> float | None:
    worst: list[float] = []

    @seeded(seed)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.target),
    )
    @given(instances(space, (ORDINARY,), (dtype,), plain=True))
    def measure(instance: Instance | None) -> None:
        if instance is None or time.monotonic() > deadline:
            return
        left, right = run_sides(instance)
        error = None if left.error is not None or right.error is not None else relative_error(left, right)
        if error is not None:
            worst.append(error)
            target(error)

    try:
        with notes_kept_apart():
            measure()
    except Unsatisfiable:
        return None
    return max(worst, default=None)


__all__ = ["relative_error", "worst_errors"]
