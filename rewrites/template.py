"""A replacement traced once: what it adds to a graph, for every match whose operands are of the same types and as much alike.

Tracing a replacement sees nothing of a graph but the types of the tensors it is given and the other arguments; so what it adds is the
same wherever these are, and which of the tensors are one. Tensors that it makes itself (a unit matrix) are made once, and enter each
graph as a constant of their own.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from graphs.graph import Graph, Value
from graphs.trace import fresh_name
from operators.operator import Operator, TensorType
from operators.sources import Constant, Input
from rewrites.match import Absent, Match


class Reference(NamedTuple):
    """An operand of a template: a value bound to a variable, or an output of one of the template's own nodes."""

    source: str | int
    output: int = 0


class _Application(NamedTuple):
    """An operator on operands; for a constant, the tensor that it is."""

    operator: Operator
    operands: tuple[Reference | None, ...]
    types: tuple[TensorType, ...]
    tensor: Any = None


@dataclass(frozen=True)
class Template:
    """The nodes that a replacement adds, in order, and what it returns."""

    nodes: tuple[_Application, ...]
    outputs: tuple[Reference, ...]

    def stand(self, match: Match, graph: Graph) -> list[Value]:
        """Add the nodes to the graph of a match; the values that replace the match's outputs."""
        added: list[int] = []

        def value(reference: Reference) -> Value:
            if isinstance(reference.source, int):
                return Value(added[reference.source], reference.output)
            bound: Value = match.bindings[reference.source]
            return bound

        for operator, operands, types, tensor in self.nodes:
            if tensor is not None:
                added.append(graph.constant(fresh_name(graph), tensor).node)
                continue
            values = [None if reference is None else value(reference) for reference in operands]
            added.append(graph.add(operator, *values, types=types).node)
        return [value(reference) for reference in self.outputs]


def question(match: Match, graph: Graph) -> Hashable:
    """Equal for matches whose replacements add the same."""
    numbers: dict[Value, int] = {}
    parts: list[Any] = [match.rule, match.case]
    for bound in match.bindings.values():
        if isinstance(bound, Value):
            parts.append((numbers.setdefault(bound, len(numbers)), graph.type(bound)))
        elif isinstance(bound, Absent):
            parts.append((repr(bound.number), bound.type))
        else:
            parts.append((type(bound).__name__, bound))
    return tuple(parts)


def template_of(match: Match, graph: Graph, start: int, values: Sequence[Value]) -> Template | None:
    """What a traced replacement added from node `start` on; None when it reads other nodes of the graph than those it was given."""
    names = {bound: name for name, bound in match.bindings.items() if isinstance(bound, Value)}
    added = {node: position for position, node in enumerate(range(start, graph._next))}
    nodes = []
    for node in added:
        operator, operands = graph.operator(node), graph.operands(node)
        strange = any(value is not None and value.node not in added and value not in names for value in operands)
        if strange or isinstance(operator, Input):
            return None
        references = tuple(None if value is None else _reference(value, names, added) for value in operands)
        tensor = graph.constants[operator.name] if isinstance(operator, Constant) else None
        nodes.append(_Application(operator, references, graph.types(node), tensor))
    if any(value.node not in added and value not in names for value in values):
        return None
    return Template(tuple(nodes), tuple(_reference(value, names, added) for value in values))


def _reference(value: Value, names: Mapping[Value, str], added: Mapping[int, int]) -> Reference:
    return Reference(added[value.node], value.output) if value.node in added else Reference(names[value])
