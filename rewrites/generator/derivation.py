"""What kept equations derive: an e-graph over the candidates' terms (equality saturation at bounded depth).

An equation is applied only where both sides have one shape: a law found for parts of equal size says nothing of others.
Assumes: every kept equation holds for all values of its variables of each sort. Source: Nelson and Oppen 1980 (congruence closure);
Willsey et al. 2021, egg;
Nandi et al. 2021, Ruler (shrinking candidates by saturation).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from rewrites.generator.stacks import result_shapes
from rewrites.generator.terms import Term
from rewrites.generator.vocabulary import OPERATIONS, SORTS
from rewrites.generator.world import WORLDS

Node = tuple[str, tuple[int, ...]]
Substitution = dict[str, int]


Shapes = tuple[tuple[int, ...], ...] | None
"""The shape in each world; None where a term has no value."""


@cache
def shapes_of(operation: str, operands: tuple[Shapes, ...]) -> Shapes:
    """The shapes of an operation's result for operands of these shapes, or of an input."""
    if operation not in OPERATIONS:
        return tuple(SORTS[operation[0]].shape(world) for world in WORLDS)
    known = [shapes for shapes in operands if shapes is not None]
    if len(known) < len(operands) or any(r is not None and len(s[0]) != r for r, s in zip(OPERATIONS[operation].ranks, known, strict=True)):
        return None
    return result_shapes(OPERATIONS[operation], known, WORLDS)


def _commutes(name: str) -> bool:
    """Whether the operation of this name (not an input's) has two operands that may be exchanged."""
    operation = OPERATIONS.get(name)
    return operation is not None and operation.commutative


class EGraph:
    """Classes of terms closed under congruence; a class is a number."""

    def __init__(self) -> None:
        self._shapes: dict[int, Shapes] = {}
        self._parent: list[int] = []
        self._of: dict[Node, int] = {}
        self._by_operation: dict[str, list[tuple[Node, int]]] = {}
        self._unions = 0
        self._standing: dict[str, tuple[int, int, dict[Node, int]]] = {}
        self._nodes: dict[int, dict[str, set[tuple[int, ...]]]] = {}
        self._users: dict[int, list[tuple[Node, int]]] = {}
        self._pending: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._of)

    def find(self, number: int) -> int:
        """The class that stands for the class of this number."""
        while self._parent[number] != number:
            self._parent[number] = self._parent[self._parent[number]]
            number = self._parent[number]
        return number

    def canonical(self, node: Node) -> Node:
        """The node over representatives, commutative operands in order."""
        find = self.find
        children = tuple([find(child) for child in node[1]])
        if len(children) == 2 and _commutes(node[0]) and children[0] > children[1]:
            children = children[::-1]
        return node[0], children

    def add(self, term: Term) -> int:
        """The class of a term."""
        made: dict[int, int] = {}
        for part in term:
            made[part.number] = self.add_node((part.operation, tuple(made[child.number] for child in part.children)))
        return made[term.number]

    def same_shape(self, left: int, right: int) -> bool:
        """Terms of both classes have values, of one shape."""
        shapes = self._shapes[self.find(left)]
        return shapes is not None and shapes == self._shapes[self.find(right)]

    def lookup(self, node: Node) -> int | None:
        """The class of a node that is already there."""
        found = self._of.get(self.canonical(node))
        return None if found is None else self.find(found)

    def add_node(self, node: Node) -> int:
        """The class of a node, new when it is not there."""
        node = self.canonical(node)
        found = self._of.get(node)
        if found is not None:
            return self.find(found)
        number = len(self._parent)
        self._parent.append(number)
        self._of[node] = number
        self._shapes[number] = shapes_of(node[0], tuple(self._shapes[child] for child in node[1]))
        self._by_operation.setdefault(node[0], []).append((node, number))
        self._nodes[number] = {node[0]: {node[1]}}
        for child in node[1]:
            self._users.setdefault(child, []).append((node, number))
        return number

    def union(self, left: int, right: int) -> bool:
        """Merge two classes (and, by congruence, what follows); whether anything changed."""
        self._pending.append((left, right))
        changed = False
        while self._pending:
            a, b = map(self.find, self._pending.pop())
            if a == b:
                continue
            changed = True
            if len(self._users.get(a, ())) < len(self._users.get(b, ())):
                a, b = b, a
            self._parent[b] = a
            self._unions += 1
            merged = self._nodes[a]
            for operation, children in self._nodes.pop(b).items():
                merged.setdefault(operation, set()).update(children)
            for node, number in self._users.pop(b, []):
                fresh = self.canonical(node)
                known = self._of.setdefault(fresh, number)
                self._users.setdefault(a, []).append((fresh, number))
                if self.find(known) != self.find(number):
                    self._pending.append((known, number))
        return changed

    def matches(self, pattern: Term, most: int) -> Iterator[tuple[int, Substitution]]:
        """Classes that contain an instance of the pattern, with what its inputs stand for; at most `most` of them."""
        if pattern.is_input:
            return
        found = 0
        for (_, children), number in list(self._canonical_nodes(pattern.operation).items()):
            for substitution in self._match_children(pattern, children, {}):
                yield self.find(number), substitution
                found += 1
                if found == most:
                    return

    def _canonical_nodes(self, operation: str) -> dict[Node, int]:
        """The nodes of an operation over representatives, with their classes."""
        nodes = self._by_operation.setdefault(operation, [])
        known = self._standing.get(operation)
        if known is not None and known[:2] == (self._unions, len(nodes)):
            return known[2]
        standing = {self.canonical(node): number for node, number in nodes}
        nodes[:] = standing.items()
        self._standing[operation] = (self._unions, len(nodes), standing)
        return standing

    def _match(self, pattern: Term, number: int, known: Substitution) -> Iterator[Substitution]:
        number = self.find(number)
        if pattern.is_input:
            bound = known.get(pattern.operation)
            if bound is None:
                yield {**known, pattern.operation: number}
            elif self.find(bound) == number:
                yield known
            return
        for children in list(self._nodes[number].get(pattern.operation, ())):
            yield from self._match_children(pattern, children, known)

    def _match_children(self, pattern: Term, children: tuple[int, ...], known: Substitution) -> Iterator[Substitution]:
        swaps = _commutes(pattern.operation) and children[0] != children[1]
        for order in [children, children[::-1]] if swaps else [children]:
            yield from self._match_all(pattern.children, order, known)

    def _match_all(self, patterns: tuple[Term, ...], numbers: tuple[int, ...], known: Substitution) -> Iterator[Substitution]:
        if not patterns:
            yield known
            return
        for found in self._match(patterns[0], numbers[0], known):
            yield from self._match_all(patterns[1:], numbers[1:], found)

    def instance(self, pattern: Term, substitution: Substitution, *, create: bool) -> int | None:
        """The class of the pattern's instance; None when it is not there and not to be created."""
        made: dict[int, int] = {}
        for part in pattern:
            if part.is_input:
                made[part.number] = substitution[part.operation]
                continue
            node = part.operation, tuple(made[child.number] for child in part.children)
            found = self.add_node(node) if create else self.lookup(node)
            if found is None:
                return None
            made[part.number] = found
        return made[pattern.number]


def saturate(graph: EGraph, equations: Iterable[tuple[Term, Term]], rounds: int, most_nodes: int = 0, most_matches: int = 100_000) -> None:
    """Apply the equations in both directions; terms that are not there are made while there are fewer than `most_nodes` nodes."""
    equations = list(equations)
    for _ in range(rounds):
        changed = False
        for left, right in equations:
            for source, target in ((left, right), (right, left)):
                if not set(target.inputs) <= set(source.inputs):
                    continue
                for number, substitution in list(graph.matches(source, most_matches)):
                    found = graph.instance(target, substitution, create=len(graph) < most_nodes)
                    if found is not None and graph.find(found) != graph.find(number) and graph.same_shape(found, number):
                        changed |= graph.union(found, number)
        if not changed:
            return


def derivable(equation: tuple[Term, Term], kept: Iterable[tuple[Term, Term]], rounds: int = 2, most_nodes: int = 300) -> bool:
    """Whether a few rounds of the kept equations make both sides equal."""
    graph = EGraph()
    left, right = graph.add(equation[0]), graph.add(equation[1])
    kept = list(kept)
    for _ in range(rounds):
        saturate(graph, kept, 1, most_nodes, most_matches=200)
        if graph.find(left) == graph.find(right):
            return True
    return False
