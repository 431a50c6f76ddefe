"""Nodes that are kept word for word in one form, whatever a model spells out or leaves out of what ONNX takes for granted.

Attributes that say what holds without them are left out. A recurrence (GRU, LSTM, RNN; ONNX operator specification) has all of its
outputs, and no operands for states and biases that are zero.
"""

from __future__ import annotations

from typing import Any

from graphs.graph import Graph, Value
from graphs.onnx.origin import NODE_KEY
from operators.foreign import UNTYPED, Foreign, node_of, text_of
from operators.operator import TensorType, is_known_equal
from operators.sources import Constant, Full, Scalar

OUTPUTS = {"GRU": 2, "LSTM": 3, "RNN": 2}
"""How many outputs each recurrence has."""
GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
SEQUENCE, BIAS, STATES = 0, 3, (5, 6)
"""The positions of a recurrence's operands."""
MOVES = frozenset(["Contiguous", "Expand", "Identity", "Permute", "Reshape", "Select", "Slice"])


def in_one_form(graph: Graph) -> Graph:
    """The graph itself, or one that differs in the nodes that could be spelled otherwise."""
    result = graph.copy()
    changed = False
    for node in graph.topological_order():
        operator = graph.operator(node)
        if isinstance(operator, Foreign) and operator.node and operator.known:
            changed = _respelled(result, node, operator) or changed
    return result if changed else graph


def _respelled(graph: Graph, node: int, operator: Foreign) -> bool:
    """Put the node in its one form into the graph; whether that is another."""
    proto = node_of(operator.node)
    operands, results = list(graph.operands(node)), list(operator.results)
    _leave_out_defaults(proto, dict(operator.opsets))
    if proto.op_type in OUTPUTS and not proto.domain:
        for position in _zeros(graph, proto, operands):
            operands[position] = None
            proto.input[position] = ""
        while operands and operands[-1] is None:
            del operands[-1], proto.input[-1]
        results += [TensorType((), UNTYPED)] * (OUTPUTS[proto.op_type] - len(results))
        proto.output[:] = [f"result_{position}" for position in range(len(results))]
    text = text_of(proto)
    if text == operator.node:
        return False
    new = Foreign(operator.name, text, operator.captured, operator.opsets, tuple(results), operator.draws, operator.known)
    value = graph.add(new, *operands)
    data = graph.network.nodes
    if NODE_KEY in data[node]:
        data[value.node][NODE_KEY] = data[node][NODE_KEY]
    for output in range(len(operator.results)):
        graph.replace_uses(Value(node, output), Value(value.node, output))
    graph.remove(node)
    return True


def _leave_out_defaults(proto: Any, opsets: dict[str, int]) -> None:
    from graphs.onnx.defaults import defaults

    usual = defaults(proto, opsets)
    kept = [one for one in proto.attribute if one.name not in usual or not _says_the_same(one, usual[one.name])]
    kept.sort(key=lambda one: one.name)
    del proto.attribute[:]
    proto.attribute.extend(kept)


def _says_the_same(one: Any, other: Any) -> bool:
    from onnx.helper import get_attribute_value

    return bool(one.type == other.type and get_attribute_value(one) == get_attribute_value(other))


def _zeros(graph: Graph, proto: Any, operands: list[Value | None]) -> list[int]:
    """The positions of a recurrence's states and biases that are zero, and as large as they must be."""
    numbers = {one.name: one.i for one in proto.attribute}
    words = {one.name: one.s for one in proto.attribute}
    directions = 2 if words.get("direction") == b"bidirectional" else 1
    sequence = operands[SEQUENCE]
    if sequence is None or graph.type(sequence).ndim != 3 or "hidden_size" not in numbers or numbers.get("layout"):
        return []
    state = (directions, graph.type(sequence).shape[1], numbers["hidden_size"])
    bias = (directions, 2 * GATES[proto.op_type] * numbers["hidden_size"])
    found = []
    for position in (BIAS, *STATES):
        operand = operands[position] if position < len(operands) else None
        if operand is None or not _is_zero(graph, operand):
            continue
        shape, wanted = graph.type(operand).shape, bias if position == BIAS else state
        if len(shape) == len(wanted) and all(map(is_known_equal, shape, wanted)):
            found.append(position)
    return found


def _is_zero(graph: Graph, value: Value) -> bool:
    """Every element is zero, as a constant or as moves of one show."""
    while type(graph.operator(value.node)).__name__ in MOVES:
        operand = graph.operands(value.node)[0]
        if operand is None:
            return False
        value = operand
    operator = graph.operator(value.node)
    if isinstance(operator, Constant):
        return not bool(graph.constants[operator.name].any())
    if isinstance(operator, Full):
        fill = graph.operands(value.node)[0]
        number = None if fill is None else graph.operator(fill.node)
        return isinstance(number, Scalar) and number.value == 0
    return False


__all__ = ["in_one_form"]
