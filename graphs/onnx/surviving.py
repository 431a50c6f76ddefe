"""Which nodes of the ONNX model a graph was read from can still stand as they are."""

from __future__ import annotations

from graphs.graph import Graph, Value
from graphs.onnx.origin import NODE_KEY, Group, Held, Inside, Number, Operand, Origin
from operators.sources import Constant, Scalar


def surviving_groups(graph: Graph, origin: Origin | None) -> tuple[dict[int, dict[str, Value]], dict[int, list[int]]]:
    """For each surviving node of the model, by its number: what it reads under each name now, and our nodes that stand for it."""
    surviving: dict[int, dict[str, Value]] = {}
    members: dict[int, list[int]] = {}
    if origin is None:
        return surviving, members
    found: dict[int, dict[int, list[int]]] = {}
    for node, data in graph.network.nodes(data=True):
        if NODE_KEY in data:
            number, slot = data[NODE_KEY]
            found.setdefault(number, {}).setdefault(slot, []).append(node)
    for number, slots in found.items():
        group = origin.groups.get(number)
        reads = None if group is None else _reads(graph, group, slots)
        if reads is not None:
            surviving[number] = reads
            members[number] = [slots[slot][0] for slot in range(len(slots))]
    return surviving, members


def _reads(graph: Graph, group: Group, slots: dict[int, list[int]]) -> dict[str, Value] | None:
    """What the group's nodes read under each name of the original; None when they are no longer as they were."""
    if len(slots) != len(group.operands) or any(len(nodes) != 1 for nodes in slots.values()):
        return None
    place = {slot: nodes[0] for slot, nodes in slots.items()}
    reads: dict[str, Value] = {}
    for slot, wanted in enumerate(group.operands):
        operands = graph.operands(place[slot])
        if len(operands) != len(wanted):
            return None
        for operand, described in zip(operands, wanted, strict=True):
            if not _is_as_described(graph, operand, described, place, reads):
                return None
    return None if _is_read_inside(graph, group, place) else reads


def _is_read_inside(graph: Graph, group: Group, place: dict[int, int]) -> bool:
    """Somebody reads a value of the group that is no output of the original node."""
    returned = {(inside.slot, inside.output) for _, inside in group.outputs}
    own = set(place.values())
    for slot, node in place.items():
        if any(user not in own and (slot, output) not in returned for user, output, _ in graph.users(node)):
            return True
        if any(value.node == node and (slot, value.output) not in returned for value in graph.outputs):
            return True
    return False


def _is_as_described(graph: Graph, operand: Value | None, described: Operand, place: dict[int, int], reads: dict[str, Value]) -> bool:
    if operand is None or described is None:
        return operand is None and described is None
    operator = graph.operator(operand.node)
    if isinstance(described, Inside):
        return operand == Value(place[described.slot], described.output)
    if isinstance(described, Number):
        same = isinstance(operator, Scalar) and type(operator.value) is type(described.value)
        return same and repr(operator.attributes["value"]) == repr(described.value)
    if isinstance(described, Held):
        return isinstance(operator, Constant) and graph.constants[operator.name] is described.tensor
    return reads.setdefault(described.name, operand) == operand
