"""Peak memory by liveness: every tensor lives from the kernel that writes it to the last one that reads it."""

from __future__ import annotations

from collections.abc import Callable

from costs.kernels import Grouping
from graphs.graph import Value
from operators.operator import TensorType
from operators.sources import Input


def peak_memory(grouping: Grouping, bytes_of: Callable[[TensorType], float]) -> float:
    """The most bytes alive at once while the kernels run in order.

    Inputs and the constants that kernels read (folded ones in place of what they are folded from) stay for the whole run; what
    lies inside a fused kernel is never in memory.
    """
    graph = grouping.graph
    resident = sum(bytes_of(type) for node in graph.inputs for type in graph.types(node))
    folded: set[Value] = set()
    last_use: dict[Value, int] = {}
    for time, kernel in enumerate(grouping.kernels):
        for node in kernel.nodes:
            for value in grouping.operands[node]:
                base = grouping.base(value)
                if base.node in grouping.free:
                    folded.add(base)
                else:
                    last_use[base] = time
    end = len(grouping.kernels)
    for value in graph.outputs:
        last_use[grouping.base(value)] = end
    resident += sum(bytes_of(graph.type(value)) for value in folded)
    dying: dict[int, float] = {}
    for value, time in last_use.items():
        if value.node not in grouping.free and not isinstance(graph.operator(value.node), Input):
            dying[time] = dying.get(time, 0.0) + bytes_of(graph.type(value))
    alive = peak = 0.0
    for time, kernel in enumerate(grouping.kernels):
        inside = set(kernel.nodes)
        for node in kernel.nodes:
            for output, type in enumerate(graph.types(node)):
                used = last_use.get(Value(node, output))
                if used is None:
                    continue
                if used == time and len(inside) > 1:
                    dying[time] -= bytes_of(type)
                    continue
                alive += bytes_of(type)
        peak = max(peak, alive)
        alive -= dying.get(time, 0.0)
    return resident + peak
