"""Timing on this machine: calls run in turn, round after round, so that what disturbs one disturbs all; medians of the rounds."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Call = Callable[[], object]
Clock = Callable[[], float]

SHORTEST_SAMPLE = 2e-4
"""A sample repeats its call until it takes about this many seconds, far above the clock's resolution."""
FEWEST_ROUNDS, MOST_ROUNDS = 3, 25


@dataclass(frozen=True)
class Timing:
    """The samples of one call in seconds, one a round; samples of the same round are neighbours in time."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


def interleaved(
    calls: Sequence[Call], seconds: float, fewest: int = FEWEST_ROUNDS, most: int = MOST_ROUNDS, clock: Clock = time.perf_counter
) -> list[Timing]:
    """Each call's samples from rounds over all calls, for about so many seconds; at least `fewest` rounds, at most `most`.

    Each call runs twice beforehand (the first time it may compile), and how long the second run takes decides how often it runs for one
    sample. Rounds go forth and back in turn.
    clock: what samples are read from; `time.thread_time` leaves out what other programs take from calls that run on this thread alone
    """
    repeats = []
    for call in calls:
        call()
        once = _sample(call, 1, clock)
        repeats.append(max(1, min(1000, round(SHORTEST_SAMPLE / max(once, 1e-9)))))
    samples: list[list[float]] = [[] for _ in calls]
    was_enabled = gc.isenabled()
    gc.disable()
    started = time.perf_counter()
    try:
        for number in range(most):
            if number >= fewest and time.perf_counter() - started > seconds:
                break
            order = range(len(calls)) if number % 2 == 0 else reversed(range(len(calls)))
            for index in order:
                samples[index].append(_sample(calls[index], repeats[index], clock))
    finally:
        if was_enabled:
            gc.enable()
    return [Timing(tuple(found)) for found in samples]


def _sample(call: Call, repeats: int, clock: Clock) -> float:
    begin = clock()
    for _ in range(repeats):
        call()
    return (clock() - begin) / repeats


@dataclass(frozen=True)
class Comparison:
    """How many times as fast the second of two interleaved timings is.

    ratio: the median over rounds of the first's sample over the second's   low, high: the range the true median lies in, at 95 %
    """

    before: float
    after: float
    ratio: float
    low: float
    high: float

    @staticmethod
    def of(before: Timing, after: Timing) -> Comparison:
        """Round by round, since what disturbs the machine disturbs both samples of a round."""
        ratios = sorted(a / b for a, b in zip(before.samples, after.samples, strict=True))
        low, high = _median_interval(ratios)
        return Comparison(before.median, after.median, statistics.median(ratios), low, high)

    @property
    def is_slower(self) -> bool:
        """The second is slower beyond the noise of the rounds and by more than one part in a hundred."""
        return self.high < 1.0 and self.ratio < 0.99


def _median_interval(ordered: Sequence[float]) -> tuple[float, float]:
    """Order statistics between which the median lies with a probability of at least 95 %, for independent samples."""
    count = len(ordered)
    chance, rank = 0.5**count, 0
    below = chance
    while rank + 1 < count / 2:
        chance *= (count - rank) / (rank + 1)
        if below + chance > 0.025:
            break
        below += chance
        rank += 1
    return ordered[rank], ordered[count - 1 - rank]


__all__ = ["Call", "Clock", "Comparison", "Timing", "interleaved"]
