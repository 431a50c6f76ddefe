"""Where a model's time goes: by operator, and by layer as the names of the weights tell it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from costs.kernels import Grouping
from costs.roofline import KernelCost, Roofline
from graphs.graph import Graph
from operators.opaque import Opaque
from operators.sources import Constant, Input


@dataclass(frozen=True)
class Share:
    """A part of the model's kernels: seconds, their share of the whole, operations, bytes; what bounds most of its seconds."""

    name: str
    kernels: int
    time: float
    share: float
    flops: float
    bytes: float
    bound: str

    def as_dict(self) -> dict[str, Any]:
        """The figures by name."""
        return asdict(self)


@dataclass(frozen=True)
class Breakdown:
    """A graph's time by operator, by layer, and by repeated layer (`encoder.layer.*` is all of them together)."""

    operators: Sequence[Share]
    layers: Sequence[Share]
    repeated: Sequence[Share]


def breakdown(graph: Graph, roofline: Roofline) -> Breakdown:
    """Price every kernel of the graph once and add the prices up in three ways; the largest first, layers in the model's order."""
    grouping = Grouping(graph, roofline.policy)
    costs = [roofline.kernel(grouping, kernel) for kernel in grouping.kernels]
    if roofline.dispatches_views:
        costs += roofline.view_costs(grouping)
    layer = layers_of(graph, grouping.order)
    position = {node: place for place, node in enumerate(grouping.order)}
    ordered = sorted(costs, key=lambda cost: position[cost.kernel.nodes[0]])
    operators = _shares(costs, lambda cost: name_of_kernel(graph, cost.kernel.nodes))
    layers = _shares(ordered, lambda cost: layer[cost.kernel.nodes[-1]])
    repeated = _shares(ordered, lambda cost: re.sub(r"\d+", "*", layer[cost.kernel.nodes[-1]]))
    return Breakdown(sorted(operators, key=lambda share: -share.time), layers, repeated)


def name_of_kernel(graph: Graph, nodes: Sequence[int]) -> str:
    """The operators of a kernel, as `Add + Relu`; of many, what they are most."""
    names = [_name(graph, node) for node in nodes]
    if len(names) <= 3:
        return " + ".join(names)
    counts = Counter(names)
    shown = ", ".join(name for name, _ in counts.most_common(3))
    return f"fused: {shown}{', …' if len(counts) > 3 else ''}"


def _name(graph: Graph, node: int) -> str:
    operator = graph.operator(node)
    if isinstance(operator, Opaque):
        return operator.target
    name = type(operator).__name__
    return f"{name} of {operator.attributes['name'].partition('(')[0]}" if name == "BackwardOf" else name


def layers_of(graph: Graph, order: Iterable[int]) -> dict[int, str]:
    """For each node the layer it belongs to: that of the weights it reads, else of what it was computed from last.

    A layer is a weight's name up to its first number (`encoder.layer.3`); without any, up to its first dot.
    """
    found: dict[int, str] = {}
    newest: dict[int, int] = {}
    for place, node in enumerate(order):
        operator = graph.operator(node)
        operands = [value.node for value in graph.operands(node) if value is not None]
        if isinstance(operator, Constant) or (isinstance(operator, Input) and "." in operator.name):
            found[node], newest[node] = layer_of_name(operator.name), -1
            continue
        weights = [operand for operand in operands if newest.get(operand, 0) == -1 and found[operand]]
        known = weights or sorted((operand for operand in operands if found.get(operand)), key=lambda operand: newest[operand])
        found[node] = found[known[-1]] if known else ""
        newest[node] = -1 if operands and all(newest.get(operand, 0) == -1 for operand in operands) else place
    return {node: name or "(before any weight)" for node, name in found.items()}


def layer_of_name(name: str) -> str:
    """The part of a weight's name that names the layer."""
    parts = name.split(".")
    for place, part in enumerate(parts[:-1]):
        if part.isdigit():
            return ".".join(parts[: place + 1])
    return parts[0] if len(parts) > 1 else ""


def _shares(costs: Sequence[KernelCost], key: Callable[[KernelCost], str]) -> list[Share]:
    total = sum(cost.time for cost in costs) or 1.0
    groups: dict[str, list[KernelCost]] = {}
    for cost in costs:
        groups.setdefault(key(cost), []).append(cost)
    return [_share(name, group, total) for name, group in groups.items()]


def _share(name: str, group: Sequence[KernelCost], total: float) -> Share:
    seconds: Mapping[Hashable, float] = {
        bound: sum(cost.time for cost in group if cost.bound == bound) for bound in ("compute", "memory", "launch")
    }
    time = sum(cost.time for cost in group)
    bound = max(("compute", "memory", "launch"), key=lambda bound: seconds[bound])
    return Share(name, len(group), time, time / total, sum(cost.flops for cost in group), sum(cost.bytes for cost in group), bound)


__all__ = ["Breakdown", "Share", "breakdown", "layer_of_name", "layers_of"]
