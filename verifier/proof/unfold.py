"""Tensors whose elements are the prover's values: inputs read symbolically, graphs unfolded node by node."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from graphs.graph import Graph
from graphs.graph import Value as Edge
from operators.expressions import Atom, Dim, Expression, plain
from operators.formulas import at_least_zero
from operators.meaning import constant
from operators.operator import Operator, TensorType, kind_of
from operators.sources import Constant, Input
from verifier.proof.equalities import Linear
from verifier.proof.facts import with_sizes
from verifier.proof.knowledge import Knowledge, current
from verifier.proof.piecewise import as_index, read
from verifier.proof.terms import Data, Value

Index = tuple[Dim, ...]


class Tensor:
    """A tensor given by its type and what its elements are; elements are computed once per index and conditions under which they count."""

    def __init__(self, type: TensorType, element: Callable[[Index], Value]) -> None:
        self.type, self._element = type, element
        self.shape, self.dtype, self.weak = type.shape, type.dtype, type.weak
        self._known: dict[tuple[Any, ...], Value] = {}
        self._knowledge: Knowledge | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, at: Any) -> Value:
        index = tuple(plain(i) for i in at) if isinstance(at, tuple) else (plain(at),)
        index = tuple(0 if isinstance(size, int) and size == 1 else i for i, size in zip(index, self.shape, strict=True))
        if self._knowledge is not current():
            self._knowledge, self._known = current(), {}
        key = (index, current().assumptions, tuple((truth.key, holds) for truth, holds in current().chosen))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._element(index)
        return found


def variable(name: str, shape: tuple[Dim, ...], dtype: str = "float32", weak: bool = False) -> Tensor:
    """A tensor of unknown elements."""
    kind = kind_of(dtype)
    return Tensor(TensorType(shape, dtype, weak), lambda index: read(name, index, kind))


def _linear(value: Linear) -> Value:
    total = _as_value(constant(value.constant))
    for name, coefficient in value.coefficients.items():
        total = total + read(name, (), "float").scaled(coefficient)
    return total


class Unfolded:
    """A graph's values as tensors over the prover's algebra, with sizes replaced by what is known of them.

    With `defined`, the graph's operators are known to have run without error: positions lie within the axes they index. `known` gives
    inputs that are linear in numbers (see `verifier.proof.equalities`).
    """

    def __init__(self, graph: Graph, sizes: dict[Atom, Dim], defined: bool, known: Mapping[str, Linear] | None = None) -> None:
        self.graph, self.sizes, self.defined, self.known = graph, sizes, defined, known or {}
        self._tensors: dict[Edge, Tensor] = {}

    def type(self, edge: Edge) -> TensorType:
        """The type of a value of the graph."""
        return with_sizes(self.graph.type(edge), self.sizes)  # type: ignore[no-any-return]

    def tensor(self, edge: Edge) -> Tensor:
        """A value of the graph as a tensor."""
        found = self._tensors.get(edge)
        if found is None:
            found = self._tensors[edge] = self._build(edge)
        return found

    def _build(self, edge: Edge) -> Tensor:
        operator = with_sizes(self.graph.operator(edge.node), self.sizes)
        type = self.type(edge)
        if isinstance(operator, Input) and operator.name in self.known:
            solution = self.known[operator.name]
            return Tensor(type, lambda index: _linear(solution))
        if isinstance(operator, Input):
            return variable(operator.name, type.shape, type.dtype, type.weak)
        if isinstance(operator, Constant):
            return self._constant(operator, type)
        operands = [None if operand is None else self.tensor(operand) for operand in self.graph.operands(edge.node)]
        if self.defined and type_name(operator) in _INDEXING and operands[0] is not None:
            operands[0] = _read_in_range(operands[0])
        if self.defined and type_name(operator) == "OneHot" and operands[0] is not None:
            operands[0] = _below(operands[0], operator.attributes["classes"])
        if self.defined and type_name(operator) in _DIVIDING and kind_of(type.dtype) == "int" and operands[1] is not None:
            operands[1] = _read_nonzero(operands[1])
        place = edge.node, self._flows_alone(edge.node)

        def element(index: Index) -> Value:
            knowledge = current()
            before, knowledge.computing = knowledge.computing, place
            try:
                return _as_value(operator.element(index, *operands, output=edge.output))
            finally:
                knowledge.computing = before

        return Tensor(type, element)

    def _flows_alone(self, node: int) -> bool:
        """What the node gives is used once, and so is what is computed of it, up to an output."""
        while True:
            users = [user for _, user in self.graph.network.out_edges(node)]
            returned = sum(output.node == node for output in self.graph.outputs)
            if len(users) + returned != 1:
                return False
            if returned:
                return True
            (node,) = users

    def _constant(self, operator: Constant, type: TensorType) -> Tensor:
        tensor = self.graph.constants[operator.name]
        if tensor.numel() == 1:
            return Tensor(type, lambda index: _as_value(constant(tensor.item())))
        content = hashlib.sha256(tensor.detach().cpu().contiguous().numpy().tobytes()).hexdigest()[:16]
        return variable(f"constant·{type}·{content}", type.shape, type.dtype)


_INDEXING = frozenset({"Embedding", "Gather", "IndexSelect"})
"""Operators that torch refuses to run on positions outside the axis."""


_DIVIDING = frozenset({"FloorDivide", "TruncDivide", "Remainder", "TruncRemainder", "Fmod"})
"""Operators that torch refuses to run on integers with a divisor of zero."""


def type_name(operator: Operator) -> str:
    """The operator's name."""
    return type(operator).__name__


def _read_in_range(tensor: Tensor) -> Tensor:
    """The tensor, where reading it at computed positions teaches that they lie within its axes."""

    def element(index: Index) -> Value:
        for position, size in zip(index, tensor.shape, strict=True):
            if isinstance(position, Expression) and any(isinstance(atom, Data) for atom in position.atoms):
                current().add(at_least_zero(position))
                current().add(at_least_zero(size - position - 1))
        return tensor[index]

    return Tensor(tensor.type, element)


def _below(tensor: Tensor, size: Dim) -> Tensor:
    """The tensor, where reading an element teaches that it is a position below the size."""

    def element(index: Index) -> Value:
        position = as_index(tensor[index])
        current().add(at_least_zero(position))
        current().add(at_least_zero(size - position - 1))
        return tensor[index]

    return Tensor(tensor.type, element)


def _read_nonzero(tensor: Tensor) -> Tensor:
    """The tensor, where reading an element teaches that it is not zero."""

    def element(index: Index) -> Value:
        value = tensor[index]
        if value.factor is not None:
            current().nonzero.add(value.factor.key)
        return value

    return Tensor(tensor.type, element)


def _as_value(item: Any) -> Value:
    from verifier.proof.algebra import _value

    return _value(item)
