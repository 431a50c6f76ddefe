"""A rule's pattern made ready for matching: one per choice of attributes, ranks and dtypes, traced once and kept."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphs.graph import Graph, Value
from graphs.trace import TraceError
from operators.expressions import Dim, symbol
from operators.operator import Operator, ShapeError, TensorType
from operators.sources import Input
from rewrites.cases import Case, size_facts, trace_side
from rewrites.host import IMPURE
from rewrites.ranks import unproved
from rewrites.rule import Rule, remembered
from rewrites.signature import AxisVariable, ChoiceVariable, TensorVariable
from rewrites.unification import with_unknowns


@dataclass(frozen=True)
class Node:
    """One operator of a pattern: its fields with unknowns for sizes and attributes, its operands, the types it was traced with."""

    number: int
    kind: type[Operator]
    fields: tuple[tuple[str, Any], ...]
    operands: tuple[Value | None, ...]
    types: tuple[TensorType, ...]
    commutes: bool

    @property
    def orders(self) -> tuple[tuple[Value | None, ...], ...]:
        """The orders in which the operands may stand."""
        if not self.commutes:
            return (self.operands,)
        first, second, *rest = self.operands
        return (self.operands, (second, first, *rest))


@dataclass(frozen=True)
class Link:
    """How to get from what is matched to a further root: from the pattern's value `start` up through these readers."""

    start: Value
    readers: tuple[int, ...]


@dataclass(frozen=True)
class Partner:
    """What a further root needs beside the first one, at a glance: an operator of this class that reads the first one's operand at one
    of these positions (the first one itself does not count where it is `another`), or without positions, one that stands apart.
    """

    kind: type[Operator]
    positions: tuple[int, ...]
    another: bool


@dataclass(frozen=True, eq=False)
class Pattern:
    """The left side of one traced case."""

    case: Case
    graph: Graph
    dtypes: tuple[tuple[str, str], ...]
    nodes: dict[int, Node]
    variables: dict[int, str]
    shapes: dict[str, tuple[Dim, ...]]
    """The shape of each tensor variable, in unknowns."""
    roots: tuple[Value, ...]
    heights: tuple[int, ...]
    """For each root, the longest way down to an operator of the pattern."""
    demands: tuple[tuple[tuple[tuple[int, ...], type[Operator]], ...], ...]
    """For each root, which operators must stand at its operands: at one of these positions, an operator of this class."""
    impure: Counter[type[Operator]]
    forbidden: str | None
    """Why the rule may never be applied in this case, if so."""

    @property
    def form(self) -> Any:
        """What a sketch compares: operators and wiring."""
        return tuple((node.number, node.kind, node.operands) for node in self.nodes.values()), tuple(self.variables.items()), self.roots

    def plan(self, anchor: int) -> list[tuple[int, Link | None]]:
        """The other roots in an order in which each is found from what is matched before it, where there is a way."""
        return _plans(self, anchor)

    def partner(self, anchor: int) -> Partner | None:
        """What must stand beside the root, where that is seen without laying the pattern over the graph."""
        return _partner(self, anchor)


def _below(pattern: Pattern, root: int) -> set[Value]:
    seen: set[Value] = set()
    pending = [Value(root)]
    while pending:
        value = pending.pop()
        node = pattern.nodes.get(value.node)
        for operand in node.operands if node else ():
            if operand is not None and operand not in seen:
                seen.add(operand)
                pending.append(operand)
    return seen


def _way_up(pattern: Pattern, root: int, known: set[Value], below: set[Value]) -> Link | None:
    """The shortest way from a known value to the root."""
    readers: dict[Value, list[int]] = {}
    for node in pattern.nodes.values():
        if node.number == root or any(value.node == node.number for value in below):
            for operand in node.operands:
                if operand is not None:
                    readers.setdefault(operand, []).append(node.number)
    best: Link | None = None
    for start in sorted(known & below):
        ways: list[tuple[Value, tuple[int, ...]]] = [(start, ())]
        while ways:
            value, path = ways.pop(0)
            if path and path[-1] == root:
                if best is None or len(path) < len(best.readers):
                    best = Link(start, path)
                break
            for reader in readers.get(value, ()):
                ways.extend((Value(reader, output), (*path, reader)) for output in range(len(pattern.nodes[reader].types)))
    return best


@remembered
def _plans(pattern: Pattern, anchor: int) -> list[tuple[int, Link | None]]:
    known = _below(pattern, pattern.roots[anchor].node) | {pattern.roots[anchor]}
    left = [position for position in range(len(pattern.roots)) if position != anchor]
    plan: list[tuple[int, Link | None]] = []
    while left:
        roots = {position: pattern.roots[position].node for position in left}
        ways = [(position, _way_up(pattern, root, known, _below(pattern, root))) for position, root in roots.items()]
        already = [position for position in left if any(pattern.roots[position].node == value.node for value in known)]
        if already:
            choice: tuple[int, Link | None] = (already[0], Link(pattern.roots[already[0]], ()))
        else:
            choice = min(ways, key=lambda way: (way[1] is None, len(way[1].readers) if way[1] else 0, way[0]))
        plan.append(choice)
        left.remove(choice[0])
        known |= _below(pattern, pattern.roots[choice[0]].node) | {pattern.roots[choice[0]]}
    return plan


@remembered
def _partner(pattern: Pattern, anchor: int) -> Partner | None:
    root = pattern.roots[anchor]
    node = pattern.nodes.get(root.node)
    if len(pattern.roots) == 1 or node is None:
        return None
    position, link = _plans(pattern, anchor)[0]
    other = pattern.roots[position]
    if link is None:
        return None if pattern.heights[position] else Partner(pattern.nodes[other.node].kind, (), True)
    reads = [operand for number in {root.node, *(value.node for value in _below(pattern, root.node))} if number in pattern.nodes
             for operand in pattern.nodes[number].operands]  # fmt: skip
    if not link.readers or link.start not in node.operands or reads.count(link.start) != 1:
        return None
    place = node.operands.index(link.start)
    positions = (0, 1) if node.commutes and place < 2 else (place,)
    return Partner(pattern.nodes[link.readers[0]].kind, positions, link.readers == (other.node,) and other.output == root.output)


def _compile(rule: type[Rule], case: Case, dtypes: tuple[tuple[str, str], ...], graph: Graph, replacement: Graph | None) -> Pattern:
    needed = graph.live()
    nodes: dict[int, Node] = {}
    variables: dict[int, str] = {}
    height: dict[int, int] = {}
    for number in graph.topological_order():
        if number not in needed:
            continue
        operator, operands = graph.operator(number), graph.operands(number)
        if isinstance(operator, Input):
            variables[number] = operator.name
            continue
        fields = tuple((name, with_unknowns(value)) for name, value in operator.attributes.items())
        commutes = operator.commutative and len(operands) >= 2 and operands[0] != operands[1]
        nodes[number] = Node(number, type(operator), fields, operands, graph.types(number), commutes)
        below = [height[operand.node] for operand in operands if operand is not None and operand.node in height]
        height[number] = 1 + max(below, default=-1)
    bare = [value for value in graph.outputs if value.node not in nodes]
    impure = _impure(graph)
    forbidden = None
    if bare:
        forbidden = f"the pattern returns {variables.get(bare[0].node, 'a value')} as it is, which would match everywhere"
    elif replacement is not None and impure != _impure(replacement):
        forbidden = "the two sides do not hold the same random, buffer-updating or unknown operators"
    demands = tuple(_demands(nodes, nodes[value.node]) if value.node in nodes else () for value in graph.outputs)
    heights = tuple(height.get(value.node, 0) for value in graph.outputs)
    stars = dict(case.stars)
    shapes = {variable.name: with_unknowns(variable.shape(stars)) for variable in rule.signature().tensors}
    return Pattern(case, graph, dtypes, nodes, variables, shapes, tuple(graph.outputs), heights, demands, impure, forbidden)


def _demands(nodes: dict[int, Node], root: Node) -> tuple[tuple[tuple[int, ...], type[Operator]], ...]:
    found = []
    for position, operand in enumerate(root.operands):
        if operand is not None and operand.node in nodes:
            found.append(((0, 1) if root.commutes and position < 2 else (position,), nodes[operand.node].kind))
    return tuple(found)


def _impure(graph: Graph) -> Counter[type[Operator]]:
    return Counter(type(graph.operator(node)) for node in graph.live() if graph.operator(node).effects & IMPURE)


@remembered
def sketches(rule: type[Rule]) -> tuple[Pattern, ...]:
    """Patterns for each combination of choices (axes aside), with some ranks and axes for which they can be traced.

    A sketch tells where the rule may match and which variable is which tensor; `exact` then fits the ranks and dtypes found.
    Where axes give the pattern different forms (a permutation that is the identity for one of them), each form is a sketch.
    """
    signature = rule.signature()
    fixed = [v.name for v in signature.variables if isinstance(v, ChoiceVariable) and not isinstance(v, AxisVariable)]
    found: dict[tuple[Any, ...], dict[Any, Pattern]] = {}
    ranks = (2, 3, 1, 0, 4) if signature.has_axes else (1, 2, 3, 0, 4)
    for rank in ranks if signature.stars else ranks[:1]:
        stars: dict[str, tuple[Dim, ...]] = {name: tuple(symbol(f"{name}_{i}") for i in range(rank)) for name in signature.stars}
        for choices in signature.choices(stars):
            forms = found.setdefault(tuple(choices[name] for name in fixed), {})
            if not forms or (signature.has_axes and rank == ranks[0]):
                pattern = _traced(rule, Case(tuple(stars.items()), tuple(choices.items())))
                if pattern is not None:
                    forms.setdefault(pattern.form, pattern)
        if found and all(found.values()):
            break
    return tuple(pattern for forms in found.values() for pattern in forms.values())


def exact(rule: type[Rule], sketch: Pattern, stars: dict[str, tuple[Dim, ...]], dtypes: dict[str, str]) -> Iterator[Pattern]:
    """The patterns of the sketch's choices, each axis in turn, for tensors of these variadic dims and dtypes."""
    given = {name: value for name, value in sketch.case.choices if not isinstance(_variable(rule, name), AxisVariable)}
    for choices in rule.signature().choices(stars):
        if all(choices[name] == value for name, value in given.items()):
            pattern = _traced(rule, Case(tuple(stars.items()), tuple(choices.items())), tuple(dtypes.items()))
            if pattern is not None:
                yield pattern


@remembered
def _variable(rule: type[Rule], name: str) -> Any:
    return next(variable for variable in rule.signature().variables if variable.name == name)


@remembered
def _traced(rule: type[Rule], case: Case, dtypes: tuple[tuple[str, str], ...] | None = None) -> Pattern | None:
    """The case's pattern; None where its conditions, or the operators of either side, do not admit the case.

    Without dtypes a sketch, for which the replacement is not looked at.
    """
    if any(fact is False for fact in size_facts(rule, case)):
        return None
    given = dict(dtypes or ())
    try:
        graph, facts = trace_side(rule, rule.pattern, case, given)
        replacement, owed = (None, None) if dtypes is None else trace_side(rule, rule.replacement, case, given)
    except ShapeError:
        return None
    pattern = _compile(rule, case, dtypes or (), graph, replacement)
    if replacement is None or owed is None or pattern.forbidden is not None:
        return pattern
    return dataclasses.replace(pattern, forbidden=unproved(rule, case, graph, replacement, facts, owed))


@remembered
def tensors(rule: type[Rule]) -> dict[str, TensorVariable]:
    """The rule's tensor variables by name."""
    return {variable.name: variable for variable in rule.signature().tensors}


__all__ = ["Link", "Node", "Pattern", "TraceError", "exact", "sketches", "tensors"]
