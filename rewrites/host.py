"""A graph as the matcher reads it: nodes by operator, operands and users at hand, constant expressions and their values."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable
from typing import Any, TypeAlias

from graphs.evaluate import apply_operator
from graphs.graph import Graph, Value
from operators.operator import Operator, TensorType
from operators.sources import Constant, Scalar
from rewrites.memory import IMPURE, Mark, mark_of

OperatorClass: TypeAlias = type[Operator]


class Host:
    """A graph that does not change while it is read; make a new one after every change.

    marks: see `rewrites.memory`; graphs in which a node number always stands for one operator and its types may share them
    free: the nodes computed from constants alone where the caller knows them (symbolic sizes may count): no other node is constant
    contents_read: how often the contents of a constant decided something
    """

    def __init__(self, graph: Graph, marks: dict[int, Mark] | None = None, free: Collection[int] | None = None) -> None:
        self.graph = graph
        self._free = free
        self.contents_read = 0
        self._marks = {} if marks is None else marks
        self._forms: dict[tuple[int, int], tuple[Hashable, tuple[int, ...]]] = {}
        self._data = graph.network._node
        self._by_class: dict[OperatorClass, list[int]] | None = None
        self._operands: dict[int, tuple[Value | None, ...]] = {}
        self._constant: dict[int, bool] = {}
        self._tensors: dict[Value, Any] = {}
        self._ancestors: dict[int, int] | None = None
        self._place: dict[int, int] = {}
        self._same: dict[tuple[str, str], bool] = {}
        self._near: dict[tuple[frozenset[int], int], dict[OperatorClass, list[int]]] = {}

    def operator(self, node: int) -> Operator:
        return self._data[node]["operator"]  # type: ignore[no-any-return]

    def type(self, value: Value) -> TensorType:
        return self._data[value.node]["types"][value.output]  # type: ignore[no-any-return]

    def operands(self, node: int) -> tuple[Value | None, ...]:
        found = self._operands.get(node)
        if found is None:
            found = self._operands[node] = self.graph.operands(node)
        return found

    def users(self, value: Value) -> list[tuple[int, int]]:
        """(user, operand position) of every read of the value, in node order."""
        readers = self.graph.network._adj[value.node].items()
        return sorted((user, position) for user, keys in readers for output, position in keys if output == value.output)

    def of_class(self, kind: OperatorClass) -> list[int]:
        """The nodes whose operator is of this class, in node order."""
        if self._by_class is None:
            self._by_class = {}
            for node in sorted(self.graph.network):
                self._by_class.setdefault(type(self.operator(node)), []).append(node)
        return self._by_class.get(kind, [])

    def kinds(self) -> frozenset[OperatorClass]:
        """The classes of all operators of the graph."""
        return frozenset(type(data["operator"]) for data in self._data.values())

    def near(self, nodes: frozenset[int], height: int) -> dict[OperatorClass, list[int]]:
        """The nodes and what reads them, directly or through at most `height` reads, by class and in node order."""
        found = self._near.get((nodes, height))
        if found is None:
            network = self.graph.network
            reached = {node for node in nodes if node in network}
            border = set(reached)
            for _ in range(height):
                border = {user for node in border for user in network._adj[node]} - reached
                reached |= border
            found = self._near[nodes, height] = {}
            for node in sorted(reached):
                found.setdefault(type(self.operator(node)), []).append(node)
        return found

    def _mark(self, node: int) -> Mark:
        found = self._marks.get(node)
        if found is None:
            found = self._marks[node] = mark_of(self.graph, node)
        return found

    def form(self, node: int, depth: int) -> tuple[Hashable, tuple[int, ...]]:
        """What is below a node to some depth, equal for nodes below which it looks alike; and the nodes in the form's order.

        The operands of the deepest nodes are leaves, of which types count only.
        """
        found = self._forms.get((node, depth))
        if found is not None:
            return found
        number, places, levels = {node: 0}, [node], [0]
        records: list[Hashable] = []
        for current in places:
            mark = self._mark(current)
            is_constant = self.is_constant(Value(current))
            level = levels[len(records)]
            if level > depth:
                records.append((mark.leaf, is_constant))
                continue
            references: list[Hashable] = []
            for value in self.operands(current):
                if value is not None and value.node not in number:
                    number[value.node] = len(places)
                    places.append(value.node)
                    levels.append(level + 1)
                references.append(None if value is None else (number[value.node], value.output))
            records.append((mark.inner, is_constant, *references))
        found = self._forms[node, depth] = (tuple(records), tuple(places))
        return found

    def is_constant(self, value: Value) -> bool:
        """The value depends on no input of the graph, on no symbolic size and on nothing random."""
        known = self._constant
        answer = known.get(value.node)
        if answer is not None:
            return answer
        if self._free is not None and value.node not in self._free:
            return False
        pending = [value.node]
        while pending:
            node = pending[-1]
            if node in known:
                pending.pop()
                continue
            if self._mark(node).varies:
                known[node] = False
                continue
            operands = [operand.node for operand in self.operands(node) if operand is not None]
            if any(known.get(operand) is False for operand in operands):
                known[node] = False
            elif all(operand in known for operand in operands):
                known[node] = True
            else:
                pending.append(next(operand for operand in operands if operand not in known))
        return known[value.node]

    def tensor(self, value: Value) -> Any:
        """What a constant value is: a tensor, or a Python number."""
        import torch

        self.contents_read += 1
        tensors = self._tensors
        pending = [value]
        while pending:
            current = pending[-1]
            if current in tensors:
                pending.pop()
                continue
            operator = self.operator(current.node)
            if isinstance(operator, Constant):
                tensors[current] = self.graph.constants[operator.name].detach()
                continue
            operands = self.operands(current.node)
            missing = [operand for operand in operands if operand is not None and operand not in tensors]
            if missing:
                pending.extend(missing)
                continue
            with torch.no_grad():
                arguments = [None if operand is None else tensors[operand] for operand in operands]
                tensors.update(apply_operator(current.node, operator, arguments, {}))
        return tensors[value]

    def same(self, left: Value, right: Value) -> bool:
        """The two values are one, or constant expressions of equal form over constants of equal content."""
        if left == right:
            return True
        if left.output != right.output or self.type(left) != self.type(right):
            return False
        first, second = self.operator(left.node), self.operator(right.node)
        if isinstance(first, Scalar) and isinstance(second, Scalar):
            return same_number(first.value, second.value)
        if isinstance(first, Constant) and isinstance(second, Constant):
            self.contents_read += 1
            names = (first.name, second.name)
            if names not in self._same:
                self._same[names] = same_content(*(self.graph.constants[name] for name in names))
            return self._same[names]
        if first != second or not (self.is_constant(left) and self.is_constant(right)):
            return False
        self.contents_read += 1
        pairs = list(zip(self.operands(left.node), self.operands(right.node), strict=False))
        return len(self.operands(left.node)) == len(self.operands(right.node)) and all(
            a is b if a is None or b is None else self.same(a, b) for a, b in pairs
        )

    def depends(self, node: int, on: int) -> bool:
        """The node is the other one, or computed from it."""
        ancestors, place = self._lineage()
        return bool(ancestors[node] >> place[on] & 1)

    def apart(self, left: int, right: int) -> bool:
        """Neither node is computed from the other (else replacing both would make a cycle)."""
        return not self.depends(left, right) and not self.depends(right, left)

    def _lineage(self) -> tuple[dict[int, int], dict[int, int]]:
        """For each node the nodes it is computed from, itself included, as a set of bits; and each node's place in order, its bit."""
        if self._ancestors is None:
            self._ancestors, self._place = {}, {}
            network = self.graph.network
            waiting = {node: len(producers) for node, producers in network._pred.items()}
            order = [node for node, count in waiting.items() if not count]
            for position, node in enumerate(order):
                bits = 1 << position
                for producer in network._pred[node]:
                    bits |= self._ancestors[producer]
                self._ancestors[node], self._place[node] = bits, position
                for user in network._adj[node]:
                    waiting[user] -= 1
                    if not waiting[user]:
                        order.append(user)
        return self._ancestors, self._place


def same_number(left: Any, right: Any) -> bool:
    """The two Python numbers are one: equal, of one sign (zeros too), and both or neither booleans."""
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        if left != left and right != right:
            return True
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


def same_content(left: Any, right: Any) -> bool:
    """The two tensors are equal bit for bit; of tensors without data (on the meta device) only the same object is."""
    import torch

    if left is right:
        return True
    if left.shape != right.shape or left.dtype != right.dtype or left.is_meta or right.is_meta:
        return False
    if left.dtype == torch.bool or not left.numel():
        return torch.equal(left, right)
    bits = [tensor.detach().contiguous().reshape(-1).view(torch.uint8) for tensor in (left, right)]
    return torch.equal(*bits)


__all__ = ["IMPURE", "Host", "same_content", "same_number"]
