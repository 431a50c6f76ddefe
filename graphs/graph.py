"""A tensor graph on networkx: a node per operator application, input or constant; an edge per operand."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import networkx as nx

from operators.expressions import Expression, Symbol
from operators.foreign import Foreign
from operators.operator import Operator, ShapeError, TensorType, collecting_obligations, with_ones
from operators.sources import Constant, Input, Scalar


class Value(NamedTuple):
    """One output of one node."""

    node: int
    output: int = 0


class GraphError(ValueError):
    """A graph that breaks a rule of its structure; the message names the node."""


def _copied(network: nx.MultiDiGraph[int]) -> nx.MultiDiGraph[int]:
    """What `network.copy()` gives, several times as fast; attributes are never changed in place, and are shared."""
    result: nx.MultiDiGraph[int] = nx.MultiDiGraph()
    result._node = dict(network._node)
    result._adj = {node: {user: dict(keys) for user, keys in users.items()} for node, users in network._adj.items()}
    result._pred = {node: {producer: result._adj[producer][node] for producer in producers} for node, producers in network._pred.items()}
    return result


def _enter(network: nx.MultiDiGraph[int], node: int, data: dict[str, Any], operands: Sequence[Value | None]) -> None:
    """What `add_node` and an `add_edge` for each operand do for a new node, several times as fast."""
    network._node[node] = data
    network._adj[node] = {}
    producers: dict[int, dict[tuple[int, int], dict[str, Any]]] = {}
    network._pred[node] = producers
    for position, operand in enumerate(operands):
        if operand is not None:
            keys = producers.get(operand.node)
            if keys is None:
                keys = producers[operand.node] = network._adj[operand.node][node] = {}
            keys[operand.output, position] = {}


class Graph:
    """A directed acyclic graph of typed tensors.

    `network` is the `networkx.MultiDiGraph`: nodes carry `operator` and `types`, an edge from a producer to its user carries
    `key=(output index, operand position)`. `inputs` are node numbers in the order of the signature, `outputs` are values.
    `constants` maps the name of each `Constant` node to its tensor. `metadata` holds what is known beside the graph:
    `interface` (see graphs.interface) is how the captured module is called and what it returns.
    """

    def __init__(self) -> None:
        self.network: nx.MultiDiGraph[int] = nx.MultiDiGraph()
        self.inputs: list[int] = []
        self.outputs: list[Value] = []
        self.constants: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self.network)

    def __iter__(self) -> Iterator[int]:
        return iter(self.topological_order())

    def add(self, operator: Operator, *operands: Value | None, types: Sequence[TensorType] | None = None) -> Value:
        """A new node applying `operator` to `operands` (None for an absent optional operand); its first output.

        Raises: ShapeError when the operator does not take these operands; GraphError when an operand is not in the graph.
        """
        for operand in operands:
            if operand is not None and operand.node not in self.network:
                raise GraphError(f"{operator}: operand {operand} is not in the graph")
        if types is None:
            types = tuple(map(with_ones, operator.outputs(*(None if operand is None else self.type(operand) for operand in operands))))
        node = self._next
        self._next += 1
        _enter(self.network, node, {"operator": operator, "types": tuple(types), "arity": len(operands)}, operands)
        if isinstance(operator, Input):
            self.inputs.append(node)
        return Value(node)

    def input(self, name: str, type: TensorType) -> Value:
        """A new input."""
        return self.add(Input(name, type))

    def constant(self, name: str, tensor: Any) -> Value:
        """The constant of this name, entered with its tensor when it is new.

        Raises: GraphError when the name already stands for another tensor.
        """
        if name in self.constants:
            if self.constants[name] is not tensor:
                raise GraphError(f"constant {name}: the name already stands for another tensor")
            for node, data in self.network.nodes(data=True):
                if isinstance(data["operator"], Constant) and data["operator"].name == name:
                    return Value(node)
        self.constants[name] = tensor
        return self.add(Constant(name, TensorType(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))))

    def scalar(self, value: Any) -> Value:
        """A Python number."""
        return self.add(Scalar(value))

    def operator(self, node: int) -> Operator:
        """The operator of a node."""
        return self.network._node[node]["operator"]  # type: ignore[no-any-return]

    def types(self, node: int) -> tuple[TensorType, ...]:
        """The types of all outputs of a node."""
        return self.network._node[node]["types"]  # type: ignore[no-any-return]

    def type(self, value: Value) -> TensorType:
        """The type of one value."""
        types = self.types(value.node)
        if not 0 <= value.output < len(types):
            raise GraphError(f"node {value.node} ({self.operator(value.node)}) has {len(types)} outputs, got output {value.output}")
        return types[value.output]

    def operands(self, node: int) -> tuple[Value | None, ...]:
        """The operands of a node in order; None where an optional one is absent."""
        result: list[Value | None] = [None] * self.network._node[node]["arity"]
        for producer, keys in self.network._pred[node].items():
            for output, position in keys:
                result[position] = Value(producer, output)
        return tuple(result)

    def users(self, node: int) -> list[tuple[int, int, int]]:
        """Who reads the node: (user, output read, operand position), in node order."""
        return sorted((user, output, position) for user, keys in self.network._adj[node].items() for output, position in keys)

    def is_read(self, node: int) -> bool:
        """Some node reads this one. (networkx's views of degrees and edges would tie the network into a cycle of references.)"""
        return bool(self.network._adj[node])

    def use_count(self, value: Value) -> int:
        """How often the value is read, graph outputs included."""
        reads = sum(1 for keys in self.network._adj[value.node].values() for output, _ in keys if output == value.output)
        return reads + self.outputs.count(value)

    def replace_uses(self, old: Value, new: Value) -> None:
        """Let everything that reads `old` read `new`, graph outputs included."""
        for user, output, position in self.users(old.node):
            if output == old.output:
                self.network.remove_edge(old.node, user, key=(output, position))
                self.network.add_edge(new.node, user, key=(new.output, position))
        self.outputs = [new if value == old else value for value in self.outputs]

    def remove(self, node: int) -> None:
        """Remove a node that nobody reads.

        Raises: GraphError when something still reads it.
        """
        if self.is_read(node) or any(value.node == node for value in self.outputs):
            raise GraphError(f"node {node} ({self.operator(node)}) is still read")
        if node in self.inputs:
            raise GraphError(f"node {node} ({self.operator(node)}) is an input of the graph")
        self.network.remove_node(node)

    def mark(self) -> int:
        """The present state, for `undo_to`."""
        return self._next

    def undo_to(self, mark: int) -> None:
        """Remove every node added since the mark, with the constants that only they hold."""
        added = [node for node in range(mark, self._next) if node in self.network]
        names = {operator.name for node in added if isinstance(operator := self.operator(node), Constant)}
        self.network.remove_nodes_from(added)
        self.inputs = [node for node in self.inputs if node < mark]
        self.constants = {name: tensor for name, tensor in self.constants.items() if name not in names}
        self._next = mark

    def live(self) -> set[int]:
        """The nodes that the outputs need, those that give them among these, and those that decide a size that is read as a number."""
        found: set[int] = set()
        pending = [value.node for value in self.outputs]
        deciding = self._deciding_sizes()
        while pending:
            node = pending.pop()
            if node not in found:
                found.add(node)
                pending.extend(self._before(node, deciding))
        return found

    def _before(self, node: int, deciding: Mapping[Symbol, int]) -> set[int]:
        """What must be computed before a node: its operands, and what decides a size that it reads and its operands do not have."""
        operands = set(self.network.predecessors(node))
        if not deciding:
            return operands
        operator = self.operator(node)
        read = _symbols(dim for kind in self.types(node) for dim in kind.shape)
        read |= _symbols([operator.value]) if isinstance(operator, Scalar) else set()
        read -= _symbols(dim for operand in self.operands(node) if operand is not None for dim in self.type(operand).shape)
        return operands | {deciding[symbol] for symbol in read if deciding.get(symbol, node) != node}

    def _deciding_sizes(self) -> dict[Symbol, int]:
        """The foreign nodes that give sizes which depend on data, by the size; inputs decide the others."""
        found: dict[Symbol, int] = {}
        for node in self.network:
            if isinstance(self.operator(node), Foreign):
                for symbol in _symbols(dim for kind in self.types(node) for dim in kind.shape):
                    found.setdefault(symbol, node)
        if not found:
            return found
        inputs = _symbols(dim for node in self.inputs for kind in self.types(node) for dim in kind.shape)
        return {symbol: node for symbol, node in found.items() if symbol not in inputs}

    def remove_dead(self) -> int:
        """Remove every node that no output needs (inputs stay); the number removed."""
        needed = self.live() | set(self.inputs)
        dead = [node for node in self.network if node not in needed]
        self.network.remove_nodes_from(dead)
        used = {self.operator(node).name for node in self.network if isinstance(self.operator(node), Constant)}  # type: ignore[attr-defined]
        self.constants = {name: tensor for name, tensor in self.constants.items() if name in used}
        return len(dead)

    def topological_order(self) -> list[int]:
        """Every node after its operands, and after what decides the sizes it reads; the smallest node number first where there is a choice.

        Raises: GraphError when the graph has a cycle.
        """
        deciding = self._deciding_sizes()
        before = {node: self._before(node, deciding) for node in self.network}
        waiting = {node: len(found) for node, found in before.items()}
        users: dict[int, list[int]] = {node: [] for node in self.network}
        for node, found in before.items():
            for other in found:
                users[other].append(node)
        ready = [node for node, count in waiting.items() if not count]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            node = heapq.heappop(ready)
            order.append(node)
            for user in users[node]:
                waiting[user] -= 1
                if not waiting[user]:
                    heapq.heappush(ready, user)
        if len(order) != len(self.network):
            stuck = next(node for node, count in waiting.items() if count)
            raise GraphError(f"node {stuck} ({self.operator(stuck)}) lies on a cycle")
        return order

    def validate(self) -> None:
        """Check edges, outputs and types.

        Raises: GraphError naming the first node at fault.
        """
        for node in self.topological_order():
            operator, operands = self.operator(node), self.operands(node)
            types = [None if operand is None else self.type(operand) for operand in operands]
            if isinstance(operator, Constant) and operator.name not in self.constants:
                raise GraphError(f"node {node} ({operator}): the graph holds no tensor of that name")
            try:
                with collecting_obligations():
                    expected = operator.outputs(*types)
            except NotImplementedError:
                continue
            except ShapeError as error:
                raise GraphError(f"node {node} ({operator}): {error}") from error
            if tuple(expected) != self.types(node):
                got = list(map(str, self.types(node)))
                raise GraphError(f"node {node} ({operator}): types must be {list(map(str, expected))}, got {got}")
        for value in self.outputs:
            if value.node not in self.network:
                raise GraphError(f"output {value} is not in the graph")
            self.type(value)

    def copy(self) -> Graph:
        """An independent graph with the same node numbers; constants are shared."""
        result = Graph()
        result.network = _copied(self.network)
        result.inputs, result.outputs = list(self.inputs), list(self.outputs)
        result.constants, result.metadata = dict(self.constants), dict(self.metadata)
        result._next = self._next
        return result

    def to_networkx(self) -> nx.MultiDiGraph[int]:
        """A copy of the underlying networkx graph."""
        return self.network.copy()

    @staticmethod
    def from_networkx(
        network: nx.MultiDiGraph[int], inputs: Iterable[int], outputs: Iterable[Value], constants: Mapping[str, Any] | None = None
    ) -> Graph:
        """A graph over a networkx graph of the form `to_networkx` gives; validated."""
        result = Graph()
        result.network = network.copy()
        result.inputs, result.outputs = list(inputs), [Value(*value) for value in outputs]
        result.constants = dict(constants or {})
        result._next = max(network, default=-1) + 1
        result.validate()
        return result

    def __str__(self) -> str:
        lines = []
        for node in self.topological_order():
            operands = ", ".join("-" if v is None else f"%{v.node}" + (f".{v.output}" if v.output else "") for v in self.operands(node))
            lines.append(f"%{node} = {self.operator(node)}({operands})  # {', '.join(map(str, self.types(node)))}")
        outputs = ", ".join(f"%{v.node}" + (f".{v.output}" if v.output else "") for v in self.outputs)
        return "\n".join([*lines, f"return {outputs}"])


def _symbols(dims: Iterable[Any]) -> set[Symbol]:
    return {symbol for dim in dims if isinstance(dim, Expression) for symbol in dim.symbols}
