"""Which values of AFTER may be which of BEFORE: values that agree on the inputs tried, up to reshaping or a permutation of axes.

What is found here is only ever a guess for the proof.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import torch

from graphs.graph import Graph, Value
from operators.layout import Permute, Reshape
from operators.operator import ShapeError, collecting_obligations
from verifier.equivalence.observing import Summary, Trace, is_source, run, summary

TOLERANCE = 1e-4
"""How far values may lie apart that a proof is worth a try, relative to their scale: folded constants are rounded."""
_MOST_RANK = 5


class Matching:
    """What every value was on each input tried."""

    def __init__(self, graph: Graph, before: Iterable[int], traces: Sequence[Trace], order: Sequence[int]) -> None:
        self.graph, self.traces, self.order = graph, traces, order
        self.summaries: list[dict[Value, Summary]] = []
        for trace in traces:
            seen: dict[Value, Summary] = {}
            run(graph, trace, lambda value, tensor, seen=seen: seen.__setitem__(value, summary(tensor)), order)  # type: ignore[misc]
            self.summaries.append(seen)
        own = set(before)
        self._buckets: dict[tuple[str, int], list[Value]] = {}
        for value, found in self.summaries[0].items() if self.summaries else ():
            if value.node in own and not is_source(graph, value):
                self._buckets.setdefault((found.kind, math.prod(found.shape)), []).append(value)

    def agree(self, one: Value, other: Value) -> bool:
        """The values agree on every input, element by element in order."""
        return all(s[one].may_be(s[other], TOLERANCE) for s in self.summaries) if self._known(one, other) else False

    def same_elements(self, one: Value, other: Value) -> bool:
        """The values have the same elements on every input, in whatever order."""
        return all(s[one].same_elements(s[other], TOLERANCE) for s in self.summaries) if self._known(one, other) else False

    def _known(self, *values: Value) -> bool:
        return bool(self.summaries) and all(value in s for s in self.summaries for value in values)

    def candidates(self, value: Value, most: int = 3) -> list[Value]:
        """BEFORE's values of the same shape and dtype that agree with the value, the closest first."""
        found = self.summaries[0].get(value) if self.summaries else None
        if found is None:
            return []
        type = self.graph.type(value)
        same = [v for v in self._alike(found) if v != value and self.graph.type(v).dtype == type.dtype and self.agree(value, v)]
        exact = [v for v in same if self.summaries[0][v].shape == found.shape]
        return sorted(exact, key=lambda v: (self._gap(value, v), v.node))[:most]

    def _gap(self, one: Value, other: Value) -> float:
        """How far apart the values lie, in steps that rounding does not tell apart."""
        gap = max(abs(s[one].projection - s[other].projection) / (s[one].scale or 1.0) for s in self.summaries)
        return round(math.log10(gap + 1e-12))

    def _alike(self, found: Summary) -> list[Value]:
        return self._buckets.get((found.kind, math.prod(found.shape)), [])

    def layouts(self, value: Value) -> Iterator[Value]:
        """New nodes, entered in the graph, that reshape or permute a value of BEFORE into one that agrees with this."""
        found = self.summaries[0].get(value) if self.summaries else None
        if found is None or math.prod(found.shape) < 2:
            return
        type = self.graph.type(value)
        alike = [v for v in self._alike(found) if self.graph.type(v).dtype == type.dtype and self.same_elements(value, v)]
        for other in alike[:4]:
            if self.agree(value, other) and self.summaries[0][other].shape != found.shape:
                yield from self._added(Reshape(type.shape), other)
            elif len(found.shape) <= _MOST_RANK and sorted(self.summaries[0][other].shape) == sorted(found.shape):
                for axes in self._permutations(value, other):
                    yield from self._added(Permute(_moved(axes)), other)

    def _added(self, operator: Reshape | Permute, operand: Value) -> Iterator[Value]:
        try:
            with collecting_obligations():
                yield self.graph.add(operator, operand)
        except ShapeError:
            return

    def _permutations(self, value: Value, other: Value) -> list[tuple[int, ...]]:
        """The permutations of axes (counted from the end) that make the other value this one, on every input."""
        rank = len(self.summaries[0][value].shape)
        found = [axes for axes in itertools.permutations(range(-rank, 0)) if axes != tuple(range(-rank, 0))]
        for trace in self.traces:
            kept: dict[Value, torch.Tensor] = {}
            needed = _ancestors(self.graph, (value, other))
            order = [node for node in self.order if node in needed]
            run(self.graph, trace, lambda v, t, kept=kept: kept.__setitem__(v, t) if v in (value, other) else None, order)  # type: ignore[misc]
            a, b = kept[value], kept[other]
            scale = float(a.abs().max()) if a.is_floating_point() else 0.0
            found = [axes for axes in found if _close(a, b.permute(axes), TOLERANCE * scale)]
        return found[:2]


def _moved(axes: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation without leading axes that stay in place."""
    while axes and axes[0] == -len(axes):
        axes = axes[1:]
    return axes


def _ancestors(graph: Graph, values: Iterable[Value]) -> set[int]:
    found: set[int] = set(graph.inputs)
    pending = [value.node for value in values]
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending.extend(graph.network.predecessors(node))
    return found


def _close(a: torch.Tensor, b: torch.Tensor, allowed: float) -> bool:
    if a.shape != b.shape:
        return False
    return torch.allclose(a, b, rtol=0.0, atol=allowed, equal_nan=True) if a.is_floating_point() else torch.equal(a, b)


__all__ = ["Matching"]
