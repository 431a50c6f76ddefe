"""The search for the objective `measured`: a roofline leads the way first, and measured kernels have the last word.

A step is often worth nothing until others follow, and measuring each kernel on the way there takes long. So a quick search by the
roofline of a processor in general comes first, and what it finds is measured as a whole; the search by measured kernels goes on from
whichever graph is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from costs.devices import PROCESSOR
from costs.measured import Measured
from costs.roofline import Cost
from graphs.graph import Graph
from search.result import SearchResult, Step
from search.searching import search

SHARE = 0.5
"""The part of the budget that the search by the roofline may take."""


def search_by_measurement(
    graph: Graph, rules: Sequence[Any], certified: Any, pricing: Measured, objective: Any, seconds: float, **options: Any
) -> SearchResult:
    """The best graph by measured kernels; the options are those of `search.search`.

    Raises: as `search.search`.
    """
    guide = search(graph, rules, certified, PROCESSOR, pricing.policy, "time", seconds * SHARE, **{**options, "check": False})
    start = graph
    before = led = pricing.cost(graph)
    if guide.steps and guide.unfolded is not None:
        led = pricing.cost(guide.graph)
        if led.time < before.time:
            start = guide.unfolded
    if guide.interrupted:
        seconds = 0.0
    found = search(start, rules, certified, objective=objective, seconds=max(seconds - guide.seconds, seconds * (1 - SHARE)),
                   pricing=pricing, **{**options, "check": False})  # fmt: skip
    if start is not graph:
        found.steps = [*in_proportion(guide.steps, before, led), *found.steps]
        found.before = before
        if found.unfolded is None:
            found.graph, found.unfolded, found.after = guide.graph, guide.unfolded, led
    found.seconds += guide.seconds
    found.complete = found.complete and guide.complete
    found.interrupted = found.interrupted or guide.interrupted
    if options.get("check", True) and found.steps:
        from search.check import compare

        inputs, seed, sizes = options.get("inputs"), options.get("seed", 0), options.get("sizes")
        found.max_error = compare(graph, found.graph, found.unfolded, inputs, seed, sizes)
    return found


def in_proportion(steps: Sequence[Step], before: Cost, after: Cost) -> list[Step]:
    """Steps found by a roofline with the measured times of the first and the last graph, those between in the roofline's proportions."""
    if not steps:
        return []
    first, last = steps[0].cost_before.time, steps[-1].cost_after.time
    scale = (after.time - before.time) / (last - first) if last != first else 0.0

    def measured(cost: Cost) -> Cost:
        return replace(cost, time=before.time + (cost.time - first) * scale)

    return [replace(step, cost_before=measured(step.cost_before), cost_after=measured(step.cost_after)) for step in steps]


__all__ = ["in_proportion", "search_by_measurement"]
