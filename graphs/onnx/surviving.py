"""Which nodes of the ONNX model a graph was read from can still stand as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from graphs.graph import Graph, Value
from graphs.onnx.origin import NODE_KEY, Group, Held, Inside, Named, Number, Operand, Origin
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
        reads = None if group is None else _Match(graph, origin, group, slots).reads()
        if reads is not None:
            surviving[number] = reads
            members[number] = [slots[slot][0] for slot in sorted(slots)]
    return surviving, members


class _Match:
    """One group of nodes beside what it was when the model was read."""

    def __init__(self, graph: Graph, origin: Origin, group: Group, slots: Mapping[int, list[int]]) -> None:
        self.graph = graph
        self.origin = origin
        self.group = group
        self.slots = slots
        self.place = {slot: nodes[0] for slot, nodes in slots.items()}
        self.found: dict[str, Value] = {}

    def reads(self) -> dict[str, Value] | None:
        """What the group's nodes read under each name of the original; None when they are no longer as they were."""
        missing = [slot for slot in range(len(self.group.operands)) if slot not in self.slots]
        if any(slot not in self.group.constants for slot in missing) or any(len(nodes) != 1 for nodes in self.slots.values()):
            return None
        if any(inside.slot in missing for _, inside in self.group.outputs):
            return None
        for slot, node in self.place.items():
            operands, wanted = self.graph.operands(node), self.group.operands[slot]
            if len(operands) != len(wanted) or not all(map(self.is_as_described, operands, wanted)):
                return None
        return None if self.is_read_inside() else self.found

    def is_read_inside(self) -> bool:
        """Somebody reads a value of the group that is no output of the original node."""
        returned = {(inside.slot, inside.output) for _, inside in self.group.outputs}
        own = set(self.place.values())
        for slot, node in self.place.items():
            if any(user not in own and (slot, output) not in returned for user, output, _ in self.graph.users(node)):
                return True
            if any(value.node == node and (slot, value.output) not in returned for value in self.graph.outputs):
                return True
        return False

    def is_as_described(self, operand: Value | None, described: Operand) -> bool:
        if operand is None or described is None:
            return operand is None and described is None
        operator = self.graph.operator(operand.node)
        if isinstance(described, Inside):
            if described.slot in self.place:
                return operand == Value(self.place[described.slot], described.output)
            return isinstance(operator, Constant) and self.is_folded(self.graph.constants[operator.name], described)
        if isinstance(described, Number):
            same = isinstance(operator, Scalar) and type(operator.value) is type(described.value)
            return same and repr(operator.attributes["value"]) == repr(described.value)
        if isinstance(described, Held):
            return isinstance(operator, Constant) and self.graph.constants[operator.name] is described.tensor
        return self.found.setdefault(described.name, operand) == operand

    def is_folded(self, tensor: torch.Tensor, described: Inside) -> bool:
        """The constant is what the original node computes of its constant inputs, but for one rounding."""
        expected = self.value(described)
        if expected is None or expected.dtype != tensor.dtype or expected.shape != tensor.shape:
            return False
        if not tensor.is_floating_point():
            return torch.equal(expected, tensor)
        return torch.allclose(expected, tensor.detach(), rtol=8 * torch.finfo(tensor.dtype).eps, atol=0.0, equal_nan=True)

    def value(self, described: Operand) -> Any:
        """What the file's own tensors give for an operand; None where it depends on more."""
        if isinstance(described, Number):
            return described.value
        if isinstance(described, Held):
            return described.tensor
        if isinstance(described, Named):
            return self.origin.tensors.get(described.name)
        if not isinstance(described, Inside) or described.slot not in self.group.constants:
            return None
        operands = [None if one is None else self.value(one) for one in self.group.operands[described.slot]]
        if any(value is None and one is not None for value, one in zip(operands, self.group.operands[described.slot], strict=True)):
            return None
        result = self.group.constants[described.slot].run(*operands)
        return result[described.output] if isinstance(result, tuple) else result
