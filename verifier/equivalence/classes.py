"""Values of the joined graph that are known to be equal: by the same operators on equal operands, or because it was proved."""

from __future__ import annotations

from collections.abc import Iterator

from graphs.graph import Graph, Value
from graphs.passes import identity_of
from graphs.structure import operator_digest, tensor_digest
from operators.foreign import Foreign
from operators.operator import Effect
from operators.sources import Constant, Input


class Classes:
    """Classes of equal values, each led by its first member; nodes are entered operands first.

    Assumes: what an operator computes depends on its operands and attributes alone (random ones are refused before).
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.order: dict[int, int] = {}
        """When each node was entered."""
        self._leader: dict[Value, Value] = {}
        self._known: dict[tuple[object, ...], int] = {}

    def __contains__(self, value: Value) -> bool:
        return value in self._leader

    def leader(self, value: Value) -> Value:
        """The first member of the value's class."""
        found = self._leader[value]
        while self._leader[found] != found:
            found = self._leader[found]
        self._leader[value] = found
        return found

    def enter(self, node: int) -> bool:
        """Enter a node; whether an equal one was known."""
        self.order[node] = len(self.order)
        unchanged = identity_of(self.graph, node)
        if unchanged is not None:
            self._leader[Value(node)] = self.leader(unchanged)
            return True
        key = self._key(node)
        other = self._known.setdefault(key, node)
        for output in range(len(self.graph.types(node))):
            mine = Value(node, output)
            self._leader[mine] = mine if other == node else self.leader(Value(other, output))
        return other != node

    def same(self, one: Value, other: Value) -> bool:
        """The values are known to be equal."""
        return self.leader(one) == self.leader(other)

    def unite(self, one: Value, other: Value) -> None:
        """The values were proved equal."""
        first, second = sorted((self.leader(one), self.leader(other)), key=lambda v: (self.order[v.node], v.output))
        self._leader[second] = first

    def operands(self, leader: Value) -> Iterator[Value | None]:
        """The classes of the operands of the node that computes the leader."""
        for operand in self.graph.operands(leader.node):
            yield None if operand is None else self.leader(operand)

    def _key(self, node: int) -> tuple[object, ...]:
        operator = self.graph.operator(node)
        if isinstance(operator, Input):
            return ("input", node)
        if isinstance(operator, Constant):
            return ("constant", tensor_digest(self.graph.constants[operator.name]))
        if operator.effects & (Effect.RANDOM | Effect.UPDATES_BUFFER):
            return ("apart", node)
        operands: list[Value | None] = list(self.operands(Value(node)))
        if operator.commutative:
            operands[:2] = sorted(operands[:2], key=lambda v: (-1, 0) if v is None else (v.node, v.output))
        if isinstance(operator, Foreign):
            # The sizes of its results may depend on data, and then go by a name of each graph's own.
            return ("foreign", operator.name, operator.node, operator.captured, operator.opsets, tuple(operands))
        types = [type.dtype for type in self.graph.types(node)]
        return (operator_digest(operator), tuple(operands), tuple(types))


__all__ = ["Classes"]
