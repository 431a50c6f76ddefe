"""Costs by difference: under a policy of one kernel per operator, a change costs what its own nodes cost, not the whole graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from costs.kernels import copies, is_repeatable, is_view
from costs.roofline import LOOKUPS, Cost, Roofline
from graphs.graph import Graph, Value
from operators.sources import Input


class Price(NamedTuple):
    """Seconds, floating-point operations, bytes and kernels of some nodes."""

    time: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    kernels: int = 0


def changed(cost: Cost, before: Price, after: Price) -> Cost:
    """The cost once nodes of the one price are replaced by nodes of the other; peak memory is left as it was."""
    return Cost(
        cost.time - before.time + after.time,
        cost.flops - before.flops + after.flops,
        cost.bytes - before.bytes + after.bytes,
        cost.kernels - before.kernels + after.kernels,
        cost.memory,
    )


class Prices:
    """Prices single nodes of graphs without dead nodes; agrees with `Roofline.cost` for policies that do not fuse."""

    def __init__(self, roofline: Roofline) -> None:
        self.roofline = roofline
        self.policy = roofline.policy

    def rests(self, graph: Graph, node: int, free: Collection[int]) -> bool:
        """The node is no kernel: it is an input, known beforehand, or a view."""
        return node in free or isinstance(graph.operator(node), Input) or self._is_view(graph, node)

    def _is_view(self, graph: Graph, node: int) -> bool:
        operator = graph.operator(node)
        return is_view(operator) and not copies(operator, self.policy)

    def total(self, graph: Graph, nodes: Iterable[int], free: Collection[int]) -> Price:
        """The price of some nodes together; `free` are those known before the model runs."""
        time = flops = moved = 0.0
        kernels = 0
        for node in nodes:
            if self.rests(graph, node, free):
                if self.roofline.dispatches_views and node not in free and self._is_view(graph, node):
                    time += self.roofline.view_seconds(graph, node, free)
            else:
                price = self.one(graph, node, free)
                time, flops, moved, kernels = time + price.time, flops + price.flops, moved + price.bytes, kernels + 1
        return Price(time, flops, moved, kernels)

    def one(self, graph: Graph, node: int, free: Collection[int]) -> Price:
        """The price of one node that is a kernel."""
        roofline = self.roofline
        operands = graph.operands(node)
        types = tuple(None if value is None else graph.type(value) for value in operands)
        flops = roofline.flops_of(graph, node, types)
        written = sum(map(roofline.bytes_of, graph.types(node)))
        is_lookup = type(graph.operator(node)).__name__ in LOOKUPS
        reads: dict[Value, float] = {}
        for position, value in enumerate(operands):
            if value is None:
                continue
            base = self._base(graph, value, free)
            size = roofline.bytes_of(graph.type(value))
            if is_lookup and position == 0:
                size = min(size, written)
            reads[base] = min(reads.get(base, 0.0) + size, roofline.bytes_of(graph.type(base)))
        moved = sum(reads.values()) + written
        arithmetic = roofline.arithmetic_seconds(graph, node, types, flops)
        return Price(roofline.kernel_seconds(graph, (node,), free, (node,), arithmetic, moved), flops, moved, 1)

    def _base(self, graph: Graph, value: Value, free: Collection[int]) -> Value:
        while value.node not in free and self._is_view(graph, value.node):
            operand = graph.operands(value.node)[0]
            assert operand is not None
            value = operand
        return value

    def affected(self, graph: Graph, added: Iterable[int], rewired: Iterable[int]) -> set[int]:
        """The old nodes whose price may differ after a change: those that read another value, directly or through views."""
        new = set(added)
        found = set(rewired)
        pending = [node for node in (*new, *found) if self._is_view(graph, node)]
        while pending:
            for user in graph.network._adj[pending.pop()]:
                if user not in found and user not in new:
                    found.add(user)
                    if self._is_view(graph, user):
                        pending.append(user)
        return found


def free_after(graph: Graph, free: Collection[int], added: Iterable[int], rewired: Iterable[int]) -> set[int] | None:
    """The nodes known before the model runs after a change; None when the change reaches further than its own nodes."""
    producers = graph.network._pred
    new = set(producers).intersection(free)
    for node in added:
        operator = graph.operator(node)
        if not isinstance(operator, Input) and is_repeatable(operator) and new.issuperset(producers[node]):
            new.add(node)
    for node in rewired:
        known = is_repeatable(graph.operator(node)) and new.issuperset(producers[node])
        if known != (node in new):
            return None
    return new
