"""Limits for Z3 in its own steps, so that a busy machine gives the same answers as an idle one."""

from __future__ import annotations

from typing import Any

_STEPS_PER_MILLISECOND = 3000
"""Of an idle machine; between 2,000 and 6,000 over the library's questions that take more than 50 ms."""


def limit(solver: Any, milliseconds: int, at_most: int | None = None) -> None:
    """Let the solver take as many steps per question as an idle machine takes in so many milliseconds.

    Where steps are slow, ten times the milliseconds end it by the clock, or `at_most` milliseconds.
    """
    solver.set("rlimit", milliseconds * _STEPS_PER_MILLISECOND)
    solver.set("timeout", min(10 * milliseconds, at_most or 10 * milliseconds))


__all__ = ["limit"]
