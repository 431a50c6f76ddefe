"""The roofline: a kernel takes as long as its arithmetic or its memory traffic, whichever is longer, and its launch.

    seconds = max(Σ flops / peak[dtype], bytes / bandwidth) + launch

Bytes are those of the tensors a kernel reads from outside and writes for others, each once; a slice reads its own part, an expanded
tensor its base, a lookup only the rows it takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from costs.classes import class_of
from costs.devices import Device, Rates, device
from costs.kernels import Grouping, Kernel, Policy, policy, sizes_of
from graphs.graph import Graph, Value
from operators.expressions import Dim, product, substitute
from operators.operator import TensorType, collecting_obligations


class CostError(ValueError):
    """A graph that cannot be priced; the message names the size that is missing."""


@dataclass(frozen=True)
class Cost:
    """Seconds, floating-point operations, bytes moved, kernels launched, and peak memory in bytes."""

    time: float
    flops: float
    bytes: float
    kernels: int
    memory: float

    def __str__(self) -> str:
        moved = f"{self.bytes / 1e6:.1f} MB moved, {self.kernels} kernels, {self.memory / 1e6:.1f} MB peak"
        return f"{self.time * 1e6:.1f} µs, {self.flops / 1e9:.2f} GFLOP, {moved}"

    def as_dict(self) -> dict[str, float]:
        """The figures by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


LOOKUPS = frozenset({"Embedding", "Gather", "IndexSelect", "Index", "Take"})
"""Operators that read of their first operand only as much as they put out."""

_ITEM_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip
UNKNOWN_BYTES = 8
"""What an element of any other dtype is taken to need (a text, a sequence): such values are few and small."""


@dataclass(frozen=True)
class KernelCost:
    """One kernel's figures; of its seconds, those that the roofline has for arithmetic and for moving bytes."""

    kernel: Kernel
    time: float
    flops: float
    bytes: float
    arithmetic: float = 0.0
    traffic: float = 0.0

    @property
    def bound(self) -> str:
        """What takes most of its time, by the roofline: `compute`, `memory`, or else `launch`."""
        most = max(self.arithmetic, self.traffic)
        if most < self.time - most:
            return "launch"
        return "compute" if self.arithmetic >= self.traffic else "memory"


class Roofline:
    """Prices graphs for one device, one kernel policy and (where shapes are symbolic) the given sizes.

    dispatches_views: views take time of their own, as in PyTorch's eager mode where that is more than a GPU's launch hides
    """

    def __init__(self, device_: str | Device = "h100", kernels: str | Policy = "none", sizes: Mapping[str, int] | None = None) -> None:
        self.device = device(device_)
        self.policy = policy(kernels)
        self.dispatches_views = "view" in self.device.rates and not self.policy.fuses
        self._sizes = sizes_of(sizes)
        self._flops: dict[Any, float] = {}
        self._bytes: dict[TensorType, float] = {}

    def number(self, dim: Dim) -> int:
        """A dim as a number.

        Raises: CostError naming the sizes that have none.
        """
        value = substitute(dim, self._sizes)
        if not isinstance(value, int):
            names = ", ".join(sorted(symbol.name for symbol in value.symbols))
            raise CostError(f"costs: symbolic sizes need numbers, got none for {names}; pass sizes={{name: number}}")
        return value

    def bytes_of(self, type: TensorType) -> float:
        """The memory of one tensor; a Python number takes none."""
        found = self._bytes.get(type)
        if found is None:
            found = 0.0 if type.weak else float(self.number(product(type.shape)) * _ITEM_BYTES.get(type.dtype, UNKNOWN_BYTES))
            self._bytes[type] = found
        return found

    def flops_of(self, graph: Graph, node: int, types: tuple[TensorType | None, ...]) -> float:
        """The floating-point operations of one node."""
        operator = graph.operator(node)
        key = (operator, types)
        found = self._flops.get(key)
        if found is None:
            try:
                # What shapes require of symbolic sizes is what the model requires: it was said when the graph was made.
                with collecting_obligations():
                    found = float(self.number(operator.flops(*types)))
            except NotImplementedError:
                found = float(sum(self.number(product(type.shape)) for type in graph.types(node)))
            self._flops[key] = found
        return found

    def kernel(self, grouping: Grouping, kernel: Kernel) -> KernelCost:
        """The figures of one kernel."""
        graph = grouping.graph
        inside = set(kernel.nodes)
        arithmetic = flops = 0.0
        reads: dict[Value, float] = {}
        writes = 0.0
        returned: list[int] = []
        for node in kernel.nodes:
            types = tuple(None if value is None else graph.type(value) for value in graph.operands(node))
            operator_flops = self.flops_of(graph, node, types)
            flops += operator_flops
            arithmetic += self.arithmetic_seconds(graph, node, types, operator_flops)
            is_lookup = type(graph.operator(node)).__name__ in LOOKUPS
            for position, value in enumerate(grouping.operands[node]):
                base = grouping.base(value)
                if base.node in inside:
                    continue
                size = self.bytes_of(graph.type(value))
                if is_lookup and position == 0:
                    size = min(size, sum(map(self.bytes_of, graph.types(node))))
                reads[base] = min(reads.get(base, 0.0) + size, self.bytes_of(graph.type(base)))
            if len(inside) == 1 or self.is_read_outside(grouping, node, inside):
                returned.append(node)
                writes += sum(map(self.bytes_of, graph.types(node)))
        moved = sum(reads.values()) + writes
        seconds = self.kernel_seconds(graph, kernel.nodes, grouping.free, returned, arithmetic, moved)
        return KernelCost(kernel, seconds, flops, moved, arithmetic, moved / self._rates(graph, kernel.nodes[-1]).bandwidth)

    def kernel_seconds(
        self, graph: Graph, nodes: Sequence[int], free: Collection[int], returned: Collection[int], arithmetic: float, moved: float
    ) -> float:
        """The seconds of the nodes as one kernel, from the seconds of arithmetic at peak and the bytes it moves.

        free: nodes known before the model runs   returned: those of the nodes that are read outside the kernel
        """
        rates = self._rates(graph, nodes[-1])
        return max(arithmetic, moved / rates.bandwidth) + rates.launch

    def arithmetic_seconds(self, graph: Graph, node: int, types: tuple[TensorType | None, ...], flops: float) -> float:
        """The seconds of one node's arithmetic at the peak of its class and dtype."""
        of = class_of(graph.operator(node), types) if self.device.rates else ""
        return flops / self.device.rate(rate_dtype(types, graph.types(node)), of)

    def _rates(self, graph: Graph, node: int) -> Rates | Device:
        if not self.device.rates:
            return self.device
        operands = graph.operands(node)
        of = class_of(graph.operator(node), tuple(None if value is None else graph.type(value) for value in operands))
        return self.device.rates.get(of, self.device)

    def view_seconds(self, graph: Graph, node: int, free: Collection[int]) -> float:
        """The seconds that a view takes although it is no kernel: those of starting it, where the device has a rate for views."""
        return self.device.rates["view"].launch if self.dispatches_views else 0.0

    def is_read_outside(self, grouping: Grouping, node: int, inside: set[int]) -> bool:
        """The node's result, or a view of it, is an output of the graph or read by a node that is not inside."""
        pending = [node]
        while pending:
            current = pending.pop()
            if current in grouping.returned:
                return True
            for user in grouping.users[current]:
                if user in grouping.views:
                    pending.append(user)
                elif user not in inside:
                    return True
        return False

    def kernels(self, graph: Graph) -> list[KernelCost]:
        """The figures of every kernel, in topological order."""
        grouping = Grouping(graph, self.policy)
        return [self.kernel(grouping, kernel) for kernel in grouping.kernels]

    def view_costs(self, grouping: Grouping) -> list[KernelCost]:
        """The figures of every view that takes time; they are not counted as kernels."""
        views = [node for node in grouping.order if node in grouping.views and node not in grouping.free]
        return [KernelCost(Kernel((node,)), self.view_seconds(grouping.graph, node, grouping.free), 0.0, 0.0) for node in views]

    def cost(self, graph: Graph, memory: bool = True) -> Cost:
        """The figures of the whole graph; peak memory is left at zero when it is not asked for."""
        from costs.memory import peak_memory

        grouping = Grouping(graph, self.policy)
        parts = [self.kernel(grouping, kernel) for kernel in grouping.kernels]
        views = self.view_costs(grouping) if self.dispatches_views else ()
        return Cost(
            sum(part.time for part in (*parts, *views)),
            sum(part.flops for part in parts),
            sum(part.bytes for part in parts),
            len(parts),
            peak_memory(grouping, self.bytes_of) if memory else 0.0,
        )


def rate_dtype(operands: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> str:
    """The dtype in which the arithmetic runs: the first tensor operand's, or the output's for an operator without any."""
    for operand in operands:
        if operand is not None and not operand.weak and "int" not in operand.dtype:
            return operand.dtype
    return outputs[0].dtype if outputs else "float32"


@lru_cache(maxsize=64)
def _shared(device_: str, kernels: str) -> Roofline:
    return Roofline(device_, kernels)


def cost(
    graph: Graph,
    device: str | Device = "h100",
    kernels: str | Policy = "none",
    sizes: Mapping[str, int] | None = None,
    training: bool = False,
) -> Cost:
    """What a graph costs on a device under a kernel policy.

    training: a forward pass and the gradients of all parameters; peak memory then has the activations that the backward pass reads
    Raises: CostError when a size is symbolic and `sizes` has no number for it, or when there is no parameter to train.
    """
    if training:
        graph = trained(graph)
    if sizes is None and isinstance(device, str) and isinstance(kernels, str):
        return _shared(device, kernels).cost(graph)
    return Roofline(device, kernels, sizes).cost(graph)


def trained(graph: Graph) -> Graph:
    """The graph of a forward pass and the gradients of all parameters.

    Raises: CostError when there is no parameter to train.
    """
    from graphs.gradients import NoGradient, training_graph

    try:
        return training_graph(graph)
    except NoGradient as error:
        raise CostError(f"costs: {error}") from error
