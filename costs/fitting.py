"""A device from measurements: for each class of operators the peak, the bandwidth and the launch that fit its kernels best.

    seconds ≈ max(flops / peak, bytes / bandwidth) + launch

The fit makes the median of |log(predicted / measured)| over the class's kernels small, so that no kernel counts for more than another,
and outliers do not pull.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy

from costs.classes import class_of
from costs.devices import Device, Rates
from costs.fragments import Fragment
from costs.kernels import Grouping
from costs.measured import Measured
from graphs.graph import Graph

SHORTEST_LAUNCH = 1e-7
"""Seconds below which no kernel starts."""
FEWEST = 4
"""A class with fewer kernels than this has no rates of its own."""


@dataclass(frozen=True)
class Sample:
    """One measured kernel: its class, floating-point operations, bytes moved and seconds."""

    of: str
    flops: float
    bytes: float
    seconds: float


def samples(pricing: Measured, graph: Graph) -> list[tuple[Fragment, Sample]]:
    """The measured kernels of a graph under a policy of one kernel per operator, views that take time included, in order."""
    grouping = Grouping(graph, pricing.policy)
    costs = [pricing.kernel(grouping, kernel) for kernel in grouping.kernels]
    if pricing.dispatches_views:
        costs += pricing.view_costs(grouping)
    found = []
    for cost in costs:
        node = cost.kernel.nodes[-1]
        fragment = pricing.fragments.fragment(graph, cost.kernel.nodes, grouping.free, cost.kernel.nodes)
        seconds = pricing.seconds(fragment)
        if seconds is not None:
            types = tuple(None if value is None else graph.type(value) for value in graph.operands(node))
            found.append((fragment, Sample(class_of(graph.operator(node), types), cost.flops, cost.bytes, seconds)))
    return found


def fitted(name: str, found: Sequence[Sample], like: Device, source: str) -> Device:
    """A device with rates for each class of the samples; peak memory, and the ratio of other dtypes to float32, are as `like` has them."""
    by_class: dict[str, list[Sample]] = {}
    for sample in found:
        by_class.setdefault(sample.of, []).append(sample)
    rates = {of: rates_of(group) for of, group in sorted(by_class.items()) if len(group) >= FEWEST}
    whole = rates_of([sample for sample in found if sample.of != "view"])
    single = like.peak["float32"]
    peak = {dtype: rate / single * whole.peak for dtype, rate in like.peak.items()}
    return Device(name, peak, whole.bandwidth, whole.launch, like.memory, source, rates)


def predicted(device: Device, sample: Sample) -> float:
    """The seconds that a fitted device has for a kernel in float32."""
    rates = device.rates.get(sample.of, Rates(device.peak["float32"], device.bandwidth, device.launch))
    return max(sample.flops / rates.peak, sample.bytes / rates.bandwidth) + rates.launch


def rates_of(group: Sequence[Sample]) -> Rates:
    """The rates that fit one class's kernels best."""
    seconds = numpy.array([max(sample.seconds, 1e-8) for sample in group])
    flops, moved = numpy.array([sample.flops for sample in group]), numpy.array([sample.bytes for sample in group])

    def error(point: Sequence[float]) -> float:
        peak, bandwidth, launch = numpy.exp(point)
        if launch < SHORTEST_LAUNCH:
            return float("inf")
        predicted = numpy.maximum(flops / peak, moved / bandwidth) + launch
        errors = numpy.abs(numpy.log(predicted / seconds))
        # The mean breaks ties of the median, and keeps all kernels in view.
        return float(numpy.median(errors) + 0.3 * errors.mean())

    launch = max(float(numpy.quantile(seconds, 0.05)), 2 * SHORTEST_LAUNCH)
    starts = [(numpy.log(peak), numpy.log(bandwidth), numpy.log(launch)) for peak in (1e9, 1e10, 1e11) for bandwidth in (3e9, 2e10)]
    best = min((_descend(error, start) for start in starts), key=error)
    peak, bandwidth, launch = (float(f"{value:.3g}") for value in numpy.exp(best))
    return Rates(peak, bandwidth, launch)


def _descend(error: Callable[[Sequence[float]], float], start: Sequence[float]) -> list[float]:
    """Coordinate descent with steps that halve when none of them helps."""
    point, step = list(start), 1.0
    best = error(point)
    while step > 0.005:
        moved = False
        for axis in range(len(point)):
            for direction in (step, -step):
                trial = [*point]
                trial[axis] += direction
                value = error(trial)
                if value < best:
                    point, best, moved = trial, value, True
        if not moved:
            step /= 2
    return point


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float:
    """Spearman's coefficient: that of the ranks, equal values sharing the mean of theirs."""
    ranks = [_ranks(values) for values in (left, right)]
    return statistics.correlation(*ranks)


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    places: Mapping[float, float] = {value: (ordered.index(value) + len(ordered) - 1 - ordered[::-1].index(value)) / 2 for value in ordered}
    return [places[value] for value in values]


__all__ = ["Sample", "fitted", "predicted", "rank_correlation", "rates_of", "samples"]
