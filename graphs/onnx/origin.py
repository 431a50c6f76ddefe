"""Where the nodes of a graph come from in an ONNX model, so that what no rule touched is written back word for word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphs.graph import Graph, Value
from operators.operator import Operator
from operators.sources import Constant, Scalar

NODE_KEY = "origin"
"""The attribute of a node in `Graph.network` that says where it comes from: (number of the ONNX node, number in its group)."""


@dataclass(frozen=True)
class Inside:
    """An operand that another node of the same group computes."""

    slot: int
    output: int


@dataclass(frozen=True)
class Named:
    """An operand that the ONNX node reads under a name."""

    name: str


@dataclass(frozen=True)
class Number:
    """An operand that is a number which the reader made of a constant or an attribute."""

    value: Any


@dataclass(frozen=True)
class Held:
    """An operand that is a tensor which the reader made of an attribute."""

    tensor: Any


Operand = Inside | Named | Number | Held | None


@dataclass(frozen=True)
class Group:
    """The nodes that stand for one ONNX node: the operands of each, and where each of its outputs is computed.

    `constants` has the operators of the nodes that depend on tensors of the file only: folding may have put a constant in their place.
    """

    operands: tuple[tuple[Operand, ...], ...]
    outputs: tuple[tuple[str, Inside], ...]
    constants: Mapping[int, Operator] = field(default_factory=dict)


@dataclass
class Origin:
    """The ONNX model a graph was read from.

    `model` is the model with its functions inlined; `groups` has an entry per ONNX node that our nodes stand for; `producers` is the
    node that computes each name; `sizes` the values of the names that are functions of sizes alone; `bound` the inputs that the
    reader was given a value of; `symbols` the name in the model of each symbolic size.
    """

    model: Any
    groups: dict[int, Group] = field(default_factory=dict)
    producers: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Any] = field(default_factory=dict)
    bound: dict[str, Any] = field(default_factory=dict)
    symbols: dict[str, str] = field(default_factory=dict)


def origin_of(graph: Graph) -> Origin | None:
    """The ONNX model the graph was read from, if any."""
    found = graph.metadata.get("onnx")
    return found if isinstance(found, Origin) else None


def mark_group(graph: Graph, number: int, nodes: list[int], names: Mapping[Value, str], outputs: list[tuple[str, Value]]) -> Group:
    """Note that these nodes stand for ONNX node `number`; `names` are the names under which it reads values."""
    slots = {node: slot for slot, node in enumerate(nodes)}
    for node, slot in slots.items():
        graph.network.nodes[node][NODE_KEY] = (number, slot)

    def described(operand: Value | None) -> Operand:
        if operand is None:
            return None
        if operand.node in slots:
            return Inside(slots[operand.node], operand.output)
        operator = graph.operator(operand.node)
        if isinstance(operator, Scalar):
            return Number(operator.value)
        if operand in names:
            return Named(names[operand])
        if isinstance(operator, Constant):
            return Held(graph.constants[operator.name])
        raise KeyError(f"operand {operand} of node {number}")

    operands = tuple(tuple(map(described, graph.operands(node))) for node in nodes)
    constants: dict[int, Operator] = {}
    for node, slot in slots.items():
        sources = [operand for operand in graph.operands(node) if operand is not None]
        known = (isinstance(graph.operator(one.node), (Constant, Scalar)) or slots.get(one.node) in constants for one in sources)
        if sources and all(known):
            constants[slot] = graph.operator(node)
    return Group(
        operands, tuple((name, Inside(slots[value.node], value.output)) for name, value in outputs if value.node in slots), constants
    )
