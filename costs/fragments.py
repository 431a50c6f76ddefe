"""A kernel by itself: a few operators with what they read, apart from the graph they come from.

Kernels that compute the same on operands of the same types and memory layouts are equal fragments, and take the same time. What lies
behind views (slices, permutations, expansions) is followed to the tensor whose memory they share; other tensors count as contiguous.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import torch

from costs.kernels import is_view
from graphs.evaluate import concrete
from graphs.graph import Graph, Value
from graphs.sizes import number
from operators.expressions import Expression, Symbol
from operators.operator import Operator, TensorType, kind_of, torch_dtype
from operators.sources import Constant, Scalar

Strides = tuple[int, ...]


class Operand(NamedTuple):
    """What a kernel's time depends on of one operand.

    strides: of its memory, in elements   known: it is a weight, or computed from weights   value: of a Python number
    """

    type: TensorType
    strides: Strides
    known: bool = False
    value: Any = None


class Place(NamedTuple):
    """Where a step finds an operand: an operand of the fragment (`step` is None), or an output of an earlier step."""

    step: int | None
    position: int


class Step(NamedTuple):
    """One operator of a fragment, with the places of its operands and the types of its outputs."""

    operator: Operator
    operands: tuple[Place | None, ...]
    types: tuple[TensorType, ...]


@dataclass(frozen=True)
class Fragment:
    """Operators in order, what they read from outside, and which of their outputs are read outside."""

    steps: tuple[Step, ...]
    operands: tuple[Operand, ...]
    returned: tuple[Place, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.steps, self.operands, self.returned))

    @property
    def name(self) -> str:
        """A digest, equal for equal fragments in every process."""
        steps = [(type(step.operator).__name__, step.operator.attributes, step.operands, step.types) for step in self.steps]
        return hashlib.sha256(repr((steps, self.operands, self.returned)).encode()).hexdigest()[:32]

    def __str__(self) -> str:
        operands = ", ".join(str(operand.type) if operand.value is None else str(operand.value) for operand in self.operands)
        return f"{' + '.join(str(step.operator) for step in self.steps)} ({operands})"

    def graph(self, seed: int = 0, highest: int = 1) -> Graph:
        """The fragment as a graph of its own: an input for each operand that is computed, drawn constants for those that are known."""
        graph = Graph()
        values: list[Value] = []
        for position, operand in enumerate(self.operands):
            if operand.value is not None:
                values.append(graph.scalar(operand.value))
            elif operand.known:
                values.append(graph.constant(f"weight_{position}", drawn(operand, seed + position, highest)))
            else:
                values.append(graph.input(f"x{position}", operand.type))
        outputs: list[tuple[Value, ...]] = []
        for step in self.steps:
            given = [
                None if at is None else values[at.position] if at.step is None else outputs[at.step][at.position] for at in step.operands
            ]
            node = graph.add(step.operator, *given, types=step.types).node
            outputs.append(tuple(Value(node, output) for output in range(len(step.types))))
        graph.outputs = [outputs[place.step or 0][place.position] for place in self.returned]
        return graph

    def inputs(self, seed: int = 0, highest: int = 1) -> list[torch.Tensor]:
        """A drawn tensor for each input of the graph."""
        computed = (operand for operand in self.operands if operand.value is None and not operand.known)
        return [drawn(operand, seed + position, highest) for position, operand in enumerate(computed)]


def drawn(operand: Operand, seed: int = 0, highest: int = 1) -> torch.Tensor:
    """A tensor of the operand's type and layout: floats between 0.1 and 1, booleans, integers from 0 to the highest (valid as indices)."""
    shape: tuple[int, ...] = operand.type.shape  # type: ignore[assignment]
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, operand.strides, strict=True)) if all(shape) else 0
    dtype = torch_dtype(operand.type.dtype)
    generator = torch.Generator().manual_seed(seed)
    if kind_of(operand.type.dtype) in ("float", "complex"):
        memory = torch.rand(extent, generator=generator).mul_(0.9).add_(0.1).to(dtype)
    else:
        memory = torch.randint(0, 2 if dtype == torch.bool else highest + 1, (extent,), generator=generator).to(dtype)
    return memory.as_strided(shape, operand.strides)


class Fragments:
    """Takes kernels out of graphs; `sizes` are numbers for symbolic sizes."""

    def __init__(self, sizes: Mapping[Symbol, int] | None = None) -> None:
        self.sizes = dict(sizes or {})

    def fragment(self, graph: Graph, nodes: Sequence[int], free: Collection[int], returned: Collection[int] | None = None) -> Fragment:
        """The nodes (each after its operands) as a fragment.

        free: nodes known before the model runs   returned: those of the nodes that are read outside; all of the last one, if left out
        """
        position = {node: step for step, node in enumerate(nodes)}
        places: dict[Value, Place] = {}
        operands: list[Operand] = []
        steps = []
        for node in nodes:
            given: list[Place | None] = []
            for value in graph.operands(node):
                if value is None:
                    given.append(None)
                elif value.node in position and value.node not in free:
                    given.append(Place(position[value.node], value.output))
                else:
                    if value not in places:
                        places[value] = Place(None, len(operands))
                        operands.append(self.operand(graph, value, free))
                    given.append(places[value])
            types = tuple(self._type(type) for type in graph.types(node))
            steps.append(Step(concrete(graph.operator(node), self.sizes), tuple(given), types))
        last = [node for node in nodes if returned is None or node in returned] if returned is not None else [nodes[-1]]
        seen = tuple(Place(position[node], output) for node in last for output in range(len(graph.types(node))))
        return Fragment(tuple(steps), tuple(operands), seen)

    def operand(self, graph: Graph, value: Value, free: Collection[int]) -> Operand:
        """What is known of one value as an operand."""
        operator = graph.operator(value.node)
        if isinstance(operator, Scalar):
            held = operator.value
            plain = number(held, self.sizes) if isinstance(held, Expression) else held
            return Operand(self._type(graph.type(value)), (), True, plain)
        return Operand(self._type(graph.type(value)), self._strides(graph, value), value.node in free)

    def _strides(self, graph: Graph, value: Value) -> Strides:
        operator = graph.operator(value.node)
        type = self._type(graph.type(value))
        if isinstance(operator, Constant):
            tensor = graph.constants.get(operator.name)
            return tuple(tensor.stride()) if isinstance(tensor, torch.Tensor) else contiguous(type)
        operands = graph.operands(value.node)
        if not is_view(operator) or not operands or operands[0] is None:
            return contiguous(type)
        base = self._type(graph.type(operands[0]))
        strides = self._strides(graph, operands[0])
        if len(operands) > 1:
            return strides if base.shape == type.shape else contiguous(type)
        return viewed(concrete(operator, self.sizes), base, strides)[value.output]

    def _type(self, type: TensorType) -> TensorType:
        if not self.sizes or all(isinstance(dim, int) for dim in type.shape):
            return type
        return TensorType(tuple(number(dim, self.sizes) for dim in type.shape), type.dtype, type.weak)


@lru_cache(maxsize=65536)
def viewed(operator: Operator, type: TensorType, strides: Strides) -> tuple[Strides, ...]:
    """The strides of the outputs of a view of a tensor of this type and layout; a reshape that must copy gives a contiguous tensor."""
    tensor = torch.empty_strided(type.shape, strides, dtype=torch_dtype(type.dtype), device="meta")  # type: ignore[arg-type]
    result = operator.run(tensor)
    return tuple(tuple(part.stride()) for part in (result if isinstance(result, (tuple, list)) else [result]))


@lru_cache(maxsize=65536)
def contiguous(type: TensorType) -> Strides:
    """The strides of a contiguous tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(type.shape):
        strides.append(step)
        step *= max(int(size), 1)
    return tuple(reversed(strides))
