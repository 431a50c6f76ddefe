"""Where two graphs part ways on an input: the first value on each side whose operands the other side has, and which it does not have."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import torch

from graphs.graph import Graph, Value
from verifier.equivalence.joining import Joined
from verifier.equivalence.observing import RunError, Summary, Trace, is_source, run, summary
from verifier.equivalence.result import Intermediate
from verifier.equivalence.testing import Example

_SAME = 1e-5
"""Values that agree to this, relative to their scale, count as the same: rounded constants move them less."""
_SHOWN = 6


def first_difference(joined: Joined, example: Example, before: Value, after: Value) -> tuple[Intermediate | None, Intermediate | None]:
    """The first values on the way to the two outputs that differ, one of each side."""
    graph = joined.graph
    trace = Trace(example.tensors, example.sizes)
    seen: dict[Value, Summary] = {}
    with suppress(RunError):  # what was seen up to there is enough to say where the sides part
        run(graph, trace, lambda value, tensor: seen.__setitem__(value, summary(tensor)))
    ours, theirs = _cone(graph, before), _cone(graph, after)
    one = _parting(graph, ours, [seen[v] for v in _values(graph, theirs) if v in seen], seen)
    other = _parting(graph, theirs, [seen[v] for v in _values(graph, ours) if v in seen], seen)
    kept: dict[Value, torch.Tensor] = {}
    with suppress(RunError):
        run(graph, trace, lambda value, tensor: kept.__setitem__(value, tensor) if value in (one, other) else None)
    a, b = kept.get(one) if one else None, kept.get(other) if other else None
    index = _apart(a, b)
    return _intermediate(joined, one, a, index), _intermediate(joined, other, b, index)


def _parting(graph: Graph, nodes: list[int], others: Iterable[Summary], seen: dict[Value, Summary]) -> Value | None:
    """The first value that no other equals although each of its operands does."""
    pool: dict[tuple[str, int], list[Summary]] = {}
    for found in others:
        pool.setdefault((found.kind, _count(found)), []).append(found)

    def known(value: Value) -> bool:
        mine = seen.get(value)
        return mine is None or any(mine.same_elements(found, _SAME) for found in pool.get((mine.kind, _count(mine)), []))

    for value in _values(graph, nodes):
        if value not in seen or is_source(graph, value) or known(value):
            continue
        if all(operand is None or is_source(graph, operand) or known(operand) for operand in graph.operands(value.node)):
            return value
    return None


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
