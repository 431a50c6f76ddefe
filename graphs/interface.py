"""What a captured graph remembers of the module it came from: how it is called, what it returns, which state it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.utils import _pytree as pytree

from graphs.graph import Graph
from graphs.sizes import number
from operators.expressions import Dim, Expression, Symbol
from operators.foreign import UNTYPED


@dataclass(frozen=True)
class Position:
    """The graph's input or output of this number."""

    index: int


@dataclass
class Interface:
    """The calling convention of a captured module; positions count in `graph.inputs` and `graph.outputs`.

    `arguments` has an entry per leaf of the call's arguments: a `Position` or the constant the capture is special to.
    `results` has an entry per leaf of what the module returns: a `Position`, a size (an `Expression`) or a constant.
    `state` names the buffers that the module updates; they are inputs of the graph, after the caller's own.
    `updates` says which outputs are written back: to a buffer (by name) or into the tensor of an argument (by leaf number).
    `persistent` are the names in the state dict, in its order; `names` are all names under which the module knows a
    constant, where there are several; `unused` are its tensors that nothing reads, `read` the names of those that something
    read when the module was captured.
    """

    argument_names: tuple[str, ...]
    arguments: tuple[Any, ...]
    argument_structure: pytree.TreeSpec
    results: tuple[Any, ...]
    result_structure: pytree.TreeSpec
    state: dict[int, str] = field(default_factory=dict)
    tensors: dict[str, Any] = field(default_factory=dict)
    updates: dict[int, str | int] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    persistent: tuple[str, ...] = ()
    hints: dict[Symbol, int] = field(default_factory=dict)
    ranges: dict[Symbol, tuple[int, int | None]] = field(default_factory=dict)
    training: bool = False
    unused: dict[str, Any] = field(default_factory=dict)
    read: frozenset[str] = frozenset()

    def leaves(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The tensors for the graph's inputs from the arguments of a call; buffers the module updates come last.

        Raises: TypeError when the call is not of the form that was captured.
        """
        ordered = dict(named)
        if self.argument_structure.num_children == 2 and set(named) == set(self.argument_structure.child(1).context):
            ordered = {name: named[name] for name in self.argument_structure.child(1).context}
        leaves, structure = pytree.tree_flatten((tuple(arguments), ordered))
        if structure != self.argument_structure:
            raise TypeError(f"the graph was captured for arguments {self.argument_structure}, got {structure}")
        count = sum(isinstance(entry, Position) for entry in self.arguments)
        tensors: list[Any] = [None] * (count + len(self.state))
        for leaf, entry in zip(leaves, self.arguments, strict=True):
            if isinstance(entry, Position):
                tensors[entry.index] = leaf
        for position, name in self.state.items():
            tensors[position] = self.tensors[name]
        return tensors

    def result(self, outputs: Sequence[Any], sizes: Mapping[Symbol, int]) -> Any:
        """What the module returns, from the values of the graph's outputs."""
        leaves = []
        for entry in self.results:
            if isinstance(entry, Position):
                leaves.append(outputs[entry.index])
            else:
                leaves.append(number(entry, sizes) if isinstance(entry, Expression) else entry)
        return pytree.tree_unflatten(leaves, self.result_structure)


def interface_of(graph: Graph) -> Interface:
    """The interface of a captured graph; for a graph made by hand, one that takes and returns its tensors plainly."""
    known = graph.metadata.get("interface")
    if isinstance(known, Interface):
        return known
    names = tuple(graph.operator(node).attributes["name"] for node in graph.inputs)
    single = len(graph.outputs) == 1
    returned: Any = 0 if single else tuple(range(len(graph.outputs)))
    return Interface(
        names,
        tuple(Position(index) for index in range(len(names))),
        pytree.tree_structure((tuple(range(len(names))), {})),
        tuple(Position(index) for index in range(len(graph.outputs))),
        pytree.tree_structure(returned),
        persistent=tuple(graph.constants),
    )


def bind_sizes(graph: Graph, shapes: Sequence[Sequence[int]]) -> dict[Symbol, int]:
    """The value of every symbolic size, read from the shapes of the graph's inputs.

    Raises: ValueError naming the input when a shape is not one that the graph was captured for.
    """
    sizes: dict[Symbol, int] = {}
    symbolic: list[tuple[str, Expression, int]] = []
    for node, shape in zip(graph.inputs, shapes, strict=True):
        name, expected = graph.operator(node).attributes["name"], graph.types(node)[0].shape
        if graph.types(node)[0].dtype == UNTYPED:
            continue
        if len(shape) != len(expected):
            raise ValueError(f"input {name}: must have {len(expected)} axes, got {len(shape)}")
        for dim, size in zip(expected, shape, strict=True):
            if isinstance(dim, Expression):
                symbolic.append((name, dim, size))
                solved = linear_in(dim)
                if solved is not None:
                    symbol, factor, offset = solved
                    sizes.setdefault(symbol, (size - offset) // factor)
            elif dim != size:
                raise ValueError(f"input {name}: must be [{', '.join(map(str, expected))}], got {list(shape)}")
    for name, dim, size in symbolic:
        if number(dim, sizes) != size:
            known = ", ".join(f"{symbol} = {value}" for symbol, value in sizes.items())
            raise ValueError(f"input {name}: a size must be {dim} for {known}, got {size}")
    return sizes


def linear_in(dim: Dim) -> tuple[Symbol, int, int] | None:
    """The symbol s with factor and offset when the dim is factor · s + offset, else None."""
    if not isinstance(dim, Expression):
        return None
    offset = dim.terms.get((), 0)
    rest = {monomial: coefficient for monomial, coefficient in dim.terms.items() if monomial}
    if len(rest) != 1:
        return None
    ((monomial, factor),) = rest.items()
    return (monomial[0], factor, offset) if len(monomial) == 1 and isinstance(monomial[0], Symbol) else None
