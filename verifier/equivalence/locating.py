"""Where two graphs part ways on an input: the first value on each side whose operands the other side has, and which it does not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import torch

from graphs.graph import Graph, Value
from verifier.equivalence.joining import Joined
from verifier.equivalence.observing import RunError, Summary, Trace, is_source, run, summary
from verifier.equivalence.result import Intermediate
from verifier.equivalence.testing import Example

_SAME = (1e-5, 1e-7, 1e-9, 1e-11)
"""Values that agree to this, relative to their scale, count as the same; a finer one where a coarser shows no difference."""
_CLOSE = 0.2
"""Values whose means and magnitudes differ by less than this part of their scale may be meant to be the same."""
_SHOWN = 6


def first_difference(joined: Joined, example: Example, before: Value, after: Value) -> tuple[Intermediate | None, Intermediate | None]:
    """The first values on the way to the two outputs that differ, one of each side."""
    graph = joined.graph
    trace = Trace(example.tensors, example.sizes)
    seen: dict[Value, Summary] = {}
    with suppress(RunError):  # what was seen up to there is enough to say where the sides part
        run(graph, trace, lambda value, tensor: seen.__setitem__(value, summary(tensor)))
    ours, theirs = _values(graph, _cone(graph, before)), _values(graph, _cone(graph, after))
    one, other = None, None
    for tolerance in _SAME:
        other = _parting(graph, theirs, ours, seen, tolerance)
        one = _parting(graph, ours, theirs, seen, tolerance)
        if other is not None or one is not None:
            break
    if other is not None:
        one = _nearest(graph, other, ours, seen) or one
    kept: dict[Value, torch.Tensor] = {}
    with suppress(RunError):
        run(graph, trace, lambda value, tensor: kept.__setitem__(value, tensor) if value in (one, other) else None)
    a, b = kept.get(one) if one else None, kept.get(other) if other else None
    index = _apart(a, b)
    return _intermediate(joined, one, a, index), _intermediate(joined, other, b, index)


def _parting(
    graph: Graph, values: Sequence[Value], others: Sequence[Value], seen: Mapping[Value, Summary], tolerance: float
) -> Value | None:
    """The first value that no other equals although each of its operands does."""
    pool: dict[tuple[str, int], list[Summary]] = {}
    for value in others:
        if value in seen:
            pool.setdefault((seen[value].kind, _count(seen[value])), []).append(seen[value])

    def known(value: Value) -> bool:
        mine = seen.get(value)
        return mine is None or any(mine.same_elements(found, tolerance) for found in pool.get((mine.kind, _count(mine)), []))

    for value in values:
        if value not in seen or is_source(graph, value) or known(value):
            continue
        if all(operand is None or is_source(graph, operand) or known(operand) for operand in graph.operands(value.node)):
            return value
    return None


def _nearest(graph: Graph, value: Value, others: Sequence[Value], seen: Mapping[Value, Summary]) -> Value | None:
    """The other value of the same shape that comes closest: what should have been the same. None where none is close."""
    mine = seen.get(value)
    if mine is None:
        return None
    alike = [v for v in others if v in seen and v != value and not is_source(graph, v) and seen[v].shape == mine.shape]
    gaps = [(_gap(mine, seen[v]), position) for position, v in enumerate(alike)]
    return alike[min(gaps)[1]] if gaps and min(gaps)[0] < _CLOSE else None


def _gap(one: Summary, other: Summary) -> float:
    size = max(one.scale, other.scale, 1e-300)
    return max(abs(a - b) / size for a, b in zip(one.invariant, other.invariant, strict=True)) if one.invariant else 0.0


def _count(found: Summary) -> int:
    count = 1
    for size in found.shape:
        count *= size
    return count


def _values(graph: Graph, nodes: Iterable[int]) -> list[Value]:
    return [Value(node, output) for node in nodes for output in range(len(graph.types(node)))]


def _cone(graph: Graph, value: Value) -> list[int]:
    found: set[int] = set()
    pending = [value.node]
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending.extend(graph.network.predecessors(node))
    return [node for node in graph.topological_order() if node in found]


def _apart(a: torch.Tensor | None, b: torch.Tensor | None) -> tuple[int, ...] | None:
    """The element at which two values of one shape differ most."""
    if a is None or b is None or a.shape != b.shape or not a.numel():
        return None
    off = ~((a == b) | ((a != a) & (b != b)))
    gap = torch.where(off, (a.double() - b.double()).abs().nan_to_num(torch.inf), 0.0)
    return tuple(int(i) for i in torch.unravel_index(gap.argmax(), a.shape)) if a.ndim else ()


def _intermediate(joined: Joined, value: Value | None, tensor: torch.Tensor | None, index: tuple[int, ...] | None) -> Intermediate | None:
    if value is None:
        return None
    text = joined.labels.get(value.node, "?")
    type = str(joined.graph.type(value))
    if tensor is None:
        return Intermediate(text, type, "(it raises)")
    if index is not None:
        return Intermediate(text, type, f"at {list(index)}: {tensor[index].item()!r}")
    few = [repr(x) for x in tensor.flatten()[:_SHOWN].tolist()]
    return Intermediate(text, type, f"[{', '.join(few)}{', …' if tensor.numel() > _SHOWN else ''}]")


__all__ = ["first_difference"]
