"""Regions of the joined graph: what computes one value from values that both sides are known to share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy
import torch

from graphs.graph import Graph, Value
from operators.expressions import Dim, Expression
from operators.operator import kind_of
from operators.sources import Constant, Input, Scalar
from verifier.equivalence.classes import Classes

MOST_NODES = 80
"""Regions larger than this are not tried."""
MOST_LEVELS = 4


@dataclass(frozen=True)
class Region:
    """The same value by two ways: graphs over inputs of the same names; `constants` are the tensors that some of these inputs hold."""

    before: Graph
    after: Graph
    constants: dict[str, torch.Tensor]
    nodes: frozenset[int] = field(default=frozenset())
    """AFTER's nodes in the region, as the joined graph numbers them."""
    rounded: bool = False
    """Some number stands for the fraction that it is the nearest float to."""


def regions(classes: Classes, before: Value, after: Value, scalars: bool = False, fractions: bool = False) -> Iterator[Region]:
    """Regions that compute both values from the same leaves, the smallest first.

    With `scalars`, floating constants of one element are leaves like other constants, instead of exact numbers. With `fractions`,
    numbers count as the simple fractions that they are nearest to in float32, as 1/6 is written in a file.
    """
    graph = classes.graph
    one, other = classes.leader(before), classes.leader(after)
    common = {v for v in _cone(classes, one) & _cone(classes, other) if not _is_fixed(graph, v)}
    seen: set[frozenset[Value]] = set()
    for _ in range(MOST_LEVELS):
        leaves = _settled(classes, one, other, common)
        if leaves is None or leaves in seen:
            return
        seen.add(leaves)
        made = _region(classes, one, other, leaves, scalars, fractions)
        if made is None:
            return
        yield made
        deeper = {leaf for leaf in leaves if not isinstance(graph.operator(leaf.node), Input)}
        if not deeper:
            return
        common -= deeper


def _cone(classes: Classes, root: Value) -> set[Value]:
    """Every class that the root depends on, itself included."""
    found, pending = {root}, [root]
    while pending:
        for operand in classes.operands(pending.pop()):
            if operand is not None and operand not in found:
                found.add(operand)
                pending.append(operand)
    return found


def _is_fixed(graph: Graph, value: Value) -> bool:
    return isinstance(graph.operator(value.node), (Constant, Scalar))


def _settled(classes: Classes, one: Value, other: Value, common: set[Value]) -> frozenset[Value] | None:
    """The first common classes on the way down from both roots, none of which only one root meets; None when they lie too deep."""
    while True:
        ours, theirs = (_met(classes, root, common) for root in (one, other))
        if ours is None or theirs is None:
            return None
        alone = [leaf for leaf in ours ^ theirs if not isinstance(classes.graph.operator(leaf.node), Input)]
        if not alone:
            return frozenset(ours | theirs)
        common.discard(max(alone, key=lambda leaf: (classes.order[leaf.node], leaf.output)))


def _met(classes: Classes, root: Value, common: set[Value]) -> set[Value] | None:
    met: set[Value] = set()
    inside, pending = {root}, [root]
    while pending:
        value = pending.pop()
        if value in common or isinstance(classes.graph.operator(value.node), Input):
            met.add(value)
            continue
        for operand in classes.operands(value):
            if operand is not None and operand not in inside:
                inside.add(operand)
                pending.append(operand)
        if len(inside) > 4 * MOST_NODES:
            return None
    return met


def _region(classes: Classes, one: Value, other: Value, leaves: frozenset[Value], scalars: bool, fractions: bool) -> Region | None:
    constants: dict[str, torch.Tensor] = {}
    sides = []
    for root in (one, other):
        side = _Side(classes, leaves, constants, scalars, fractions)
        if not side.build(root):
            return None
        sides.append(side)
    return Region(sides[0].graph, sides[1].graph, constants, frozenset(sides[1].nodes), any(side.rounded for side in sides))


LARGEST_DENOMINATOR = 1000


def simple_fraction(number: float) -> Fraction | None:
    """The fraction of small denominator whose nearest float32 the number is, if it is not the number itself."""
    if not math.isfinite(number) or Fraction(str(number)).denominator <= LARGEST_DENOMINATOR:
        return None
    near = Fraction(number).limit_denominator(LARGEST_DENOMINATOR)
    return near if near and float(numpy.float32(float(near))) == number else None


class _Side:
    """One side of a region being built."""

    def __init__(
        self, classes: Classes, leaves: frozenset[Value], constants: dict[str, torch.Tensor], scalars: bool, fractions: bool
    ) -> None:
        self.classes, self.leaves, self.constants, self.scalars, self.fractions = classes, leaves, constants, scalars, fractions
        self.rounded = False
        self.graph = Graph()
        self.nodes: dict[int, int] = {}
        self.placed: dict[Value, Value] = {}

    def build(self, root: Value) -> bool:
        """Build what computes the root; whether it is small enough."""
        order = self._order(root)
        if order is None:
            return False
        for value in order:
            self._place(value)
        self.graph.outputs = [self.placed[root]]
        return True

    def _order(self, root: Value) -> list[Value] | None:
        order: list[Value] = []
        done: set[Value] = set()
        pending = [(root, False)]
        while pending:
            value, expanded = pending.pop()
            if expanded:
                order.append(value)
            elif value not in done:
                done.add(value)
                pending.append((value, True))
                if not self._is_leaf(value):
                    pending.extend((operand, False) for operand in self.classes.operands(value) if operand is not None)
            if len(done) > MOST_NODES:
                return None
        return order

    def _is_leaf(self, value: Value) -> bool:
        return value in self.leaves or isinstance(self.classes.graph.operator(value.node), Input)

    def _place(self, value: Value) -> None:
        whole = self.classes.graph
        operator, type = whole.operator(value.node), whole.type(value)
        if self._is_leaf(value):
            self.placed[value] = self.graph.input(f"value{value.node}·{value.output}", type)
        elif isinstance(operator, Constant):
            tensor = whole.constants[operator.name]
            if tensor.numel() == 1 and not (self.scalars and kind_of(type.dtype) == "float"):
                self.placed[value] = self.graph.constant(operator.name, tensor)
                return
            name = f"constant{value.node}"
            self.constants[name] = tensor
            self.placed[value] = self.graph.input(name, type)
        else:
            node = self.nodes.get(value.node)
            if node is None:
                operands = [None if v is None else self.placed[v] for v in self.classes.operands(value)]
                if self.fractions and isinstance(operator, Scalar) and isinstance(operator.value, float):
                    fraction = simple_fraction(operator.value)
                    self.rounded = self.rounded or fraction is not None
                    operator = operator if fraction is None else replace(operator, value=fraction)
                node = self.graph.add(operator, *operands, types=whole.types(value.node)).node
                self.nodes[value.node] = node
            self.placed[value] = Value(node, value.output)


def symbolic(graph: Graph) -> bool:
    """Some size of the graph is a symbol."""
    dims: list[Dim] = [dim for node in graph.network for type in graph.types(node) for dim in type.shape]
    return any(isinstance(dim, Expression) for dim in dims)


__all__ = ["Region", "regions", "symbolic"]
