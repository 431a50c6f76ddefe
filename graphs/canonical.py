"""One form for what other tools write in several: the shapes of weights that broadcast, and numbers rounded to a dtype.

Neither changes a bit of what the graph computes in its own dtypes; rules find more in a graph that is in this form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from graphs.graph import Graph, Value
from operators.layout import Reshape
from operators.sources import Scalar


def align_weights(graph: Graph, known: Collection[int]) -> int:
    """Take leading axes of size 1 off weights beside larger tensors: [1, c, 1, 1] beside an image is [c, 1, 1]; how many there were.

    known: the nodes that are computed from constants
    """
    changed = 0
    for node in list(graph.topological_order()):
        operands = graph.operands(node)
        if not type(graph.operator(node)).pointwise or len(operands) != 2 or node in known:
            continue
        for position, value in enumerate(operands):
            beside = operands[1 - position]
            if value is None or beside is None or value.node not in known or beside.node in known:
                continue
            shape = graph.type(value).shape
            lead = next((axis for axis, size in enumerate(shape) if size != 1), 0)
            if lead and len(shape) <= graph.type(beside).ndim:
                _read_instead(graph, node, position, graph.add(Reshape(shape[lead:]), value))
                changed += 1
    return changed


def name_numbers(graph: Graph, numbers: Iterable[float]) -> int:
    """Let numbers that are one of these, rounded to float32, be that number where float32 tensors meet them; how many there were.

    A tool that writes weights as float32 writes 0.70710677 where √½ was meant; in float32 the two are one number.
    """
    import torch

    meant = {torch.tensor(number, dtype=torch.float32).item(): number for number in numbers}
    changed = 0
    for node in list(graph.topological_order()):
        operator = graph.operator(node)
        if not isinstance(operator, Scalar) or not isinstance(operator.value, float):
            continue
        number = meant.get(operator.value)
        if number is None or number == operator.value or not _is_rounded_by_all(graph, node):
            continue
        graph.replace_uses(Value(node), graph.scalar(number))
        changed += 1
    graph.remove_dead()
    return changed


def _is_rounded_by_all(graph: Graph, node: int) -> bool:
    """Everything that reads the number computes in float32 with it."""
    users = [user for user, _, _ in graph.users(node)]
    return bool(users) and all(
        type(graph.operator(user)).pointwise
        and all(kind.dtype == "float32" and not kind.weak for kind in graph.types(user))
        and all(_is_float32(graph, value) for value in graph.operands(user))
        for user in users
    )


def _is_float32(graph: Graph, value: Any) -> bool:
    return value is None or graph.type(value).weak or graph.type(value).dtype == "float32"


def _read_instead(graph: Graph, node: int, position: int, value: Value) -> None:
    old = graph.operands(node)[position]
    assert old is not None
    graph.network.remove_edge(old.node, node, key=(old.output, position))
    graph.network.add_edge(value.node, node, key=(value.output, position))


__all__ = ["align_weights", "name_numbers"]
