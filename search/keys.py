"""When two graphs in a search are the same: equal structure, with constants told apart but not looked into.

Within one search every graph computes the same function, so a constant (or what is computed from constants alone) counts by its
type and by which other uses share it; how it is computed does not matter.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable

from costs.kernels import computed_from_constants
from graphs.graph import Graph, Value
from operators.operator import Operator
from operators.sources import Scalar


def canonical_order(graph: Graph, free: set[int] | None = None) -> tuple[tuple[Hashable, ...], list[int]]:
    """A description equal for equal graphs, and the nodes in the order of the description.

    A constant expression counts as one leaf; the nodes inside it come at the end of the order, those of each in an order of their own.
    """
    if free is None:
        free = computed_from_constants(graph)
    nodes = graph.network.nodes
    number: dict[int, int] = {}
    order: list[int] = []
    records: list[Hashable] = []
    operands_of: dict[int, tuple[Value | None, ...]] = {}

    def place(node: int, record: Hashable) -> None:
        number[node] = len(order)
        order.append(node)
        records.append(record)

    for node in graph.inputs:
        place(node, ("input", nodes[node]["types"]))
    for output in graph.outputs:
        stack = [output.node]
        while stack:
            node = stack[-1]
            if node in number:
                stack.pop()
                continue
            data = nodes[node]
            operator = data["operator"]
            if node in free:
                place(node, ("number", operator) if isinstance(operator, Scalar) else ("constant", data["types"]))
                stack.pop()
                continue
            operands = operands_of.get(node)
            if operands is None:
                operands = operands_of[node] = graph.operands(node)
                missing = [value.node for value in reversed(operands) if value is not None and value.node not in number]
                if missing:
                    stack.extend(missing)
                    continue
            place(node, (operator, tuple(None if v is None else (number[v.node], v.output) for v in operands)))
            stack.pop()
    records.append(tuple((number[value.node], value.output) for value in graph.outputs))
    seen = set(order)
    pending = [node for node in reversed(order) if node in free]
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            order.append(node)
        pending.extend(v.node for v in reversed(graph.operands(node)) if v is not None and v.node not in seen)
    return tuple(records), order


class Keys:
    """Hashes of descriptions; remembers the hash of every operator object it has met."""

    def __init__(self) -> None:
        self._hashes: dict[int, tuple[Operator, int]] = {}

    def key(self, graph: Graph, free: Collection[int]) -> int:
        """Equal for equal graphs; different for different ones but for chance, at 2⁻⁶¹ a pair."""
        nodes, producers = graph.network._node, graph.network._pred  # without networkx's views, which take longer than the hashes
        known: dict[int, int] = {}
        for position, node in enumerate(graph.inputs):
            known[node] = hash(("input", position))
        constants = itertools.count()
        for output in graph.outputs:
            stack = [output.node]
            while stack:
                node = stack[-1]
                if node in known:
                    stack.pop()
                    continue
                operator = nodes[node]["operator"]
                if node in free:
                    leaf = operator if isinstance(operator, Scalar) else (next(constants), nodes[node]["types"])
                    known[node] = hash(("leaf", leaf))
                    stack.pop()
                    continue
                missing = [producer for producer in producers[node] if producer not in known]
                if missing:
                    operands = graph.operands(node)
                    stack.extend(value.node for value in reversed(operands) if value is not None and value.node not in known)
                    continue
                parts = tuple(-1 if v is None else (known[v.node], v.output) for v in graph.operands(node))
                known[node] = hash((self._hash(operator), parts))
                stack.pop()
        return hash(tuple((known[value.node], value.output) for value in graph.outputs))

    def _hash(self, operator: Operator) -> int:
        found = self._hashes.get(id(operator))
        if found is None or found[0] is not operator:
            found = self._hashes[id(operator)] = (operator, hash((type(operator).__name__, operator)))
        return found[1]
