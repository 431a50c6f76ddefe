"""A rewrite, and then the common subexpressions it made: what it added is dropped where the graph computes the same already."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from costs.kernels import is_repeatable
from graphs.graph import Graph, Value
from operators.sources import Input
from rewrites.apply import Applied, apply_in_place
from rewrites.match import Match


@dataclass
class _Merged:
    """A node that was dropped for its twin: what brings it back."""

    node: int
    twin: int
    data: dict[str, Any]
    operands: list[tuple[int, tuple[int, int]]]
    users: list[tuple[int, int, int]]


@dataclass
class Change:
    """The nodes a rewrite added and removed, and those that stay and read another operand than before; `undo` takes it back."""

    applied: Applied
    added: tuple[int, ...]
    removed: tuple[int, ...]
    rewired: tuple[int, ...]
    merged: list[_Merged] = field(default_factory=list)

    @property
    def touched(self) -> tuple[int, ...]:
        """Where new matches may be found."""
        return self.added + self.rewired

    def undo(self) -> None:
        """Take the rewrite back; later ones must have been taken back before."""
        network = self.applied.graph.network
        for merged in reversed(self.merged):
            network.add_node(merged.node, **merged.data)
            for producer, key in merged.operands:
                network.add_edge(producer, merged.node, key=key)
            for user, output, position in merged.users:
                network.remove_edge(merged.twin, user, key=(output, position))
                network.add_edge(merged.node, user, key=(output, position))
        self.applied.undo()


def apply_shared(match: Match, graph: Graph) -> Change:
    """Rewrite the graph in place, and merge new nodes with equal old ones.

    Raises: RewriteError when the replacement cannot stand at this place; the graph is then as it was.
    """
    applied = apply_in_place(match, graph)
    added, rewired = list(applied.added), set(applied.rewired)
    change = Change(applied, applied.added, applied.removed, applied.rewired)
    for node in applied.added:
        twin = _twin(graph, node)
        if twin is not None:
            change.merged.append(_merge(graph, node, twin))
            rewired |= {user for user, _, _ in change.merged[-1].users}
            added.remove(node)
    change.added, change.rewired = tuple(added), tuple(sorted(rewired.difference(applied.added)))
    return change


def _twin(graph: Graph, node: int) -> int | None:
    """Another node that computes the same: the same pure operator on the same operands."""
    operator, operands = graph.operator(node), graph.operands(node)
    first = next((value for value in operands if value is not None), None)
    if first is None or isinstance(operator, Input) or not is_repeatable(operator):
        return None
    for user in sorted(graph.network.succ[first.node]):
        if user != node and graph.operator(user) == operator and graph.operands(user) == operands:
            return int(user)
    return None


def _merge(graph: Graph, node: int, twin: int) -> _Merged:
    network = graph.network
    operands = [(producer, key) for producer, keys in network._pred[node].items() for key in keys]
    merged = _Merged(node, twin, dict(network.nodes[node]), operands, graph.users(node))
    for output in range(len(graph.types(node))):
        graph.replace_uses(Value(node, output), Value(twin, output))
    graph.remove(node)
    return merged
