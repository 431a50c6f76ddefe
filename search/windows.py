"""Pieces of a large graph that are searched by themselves: cut out, compared with one another, and put back.

A window is a run of nodes in an order in which every node comes after its operands, so that no path leaves the window and comes
back; whatever replaces it cannot close a cycle. Constant expressions are copied into every window that reads them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field

from costs.kernels import computed_from_constants, live_nodes
from graphs.graph import Graph, Value
from operators.sources import Constant, Input
from search.keys import canonical_order


@dataclass
class Window:
    """A piece of a graph as a graph of its own.

    reads: the outer value of each input   returns: the outer value of each output
    outer: the outer node of each node that was copied   description: equal for windows that differ in constants only
    order: the window's nodes in the description's order
    """

    graph: Graph
    reads: list[Value]
    returns: list[Value]
    outer: dict[int, int]
    description: tuple[Hashable, ...] = ()
    order: list[int] = field(default_factory=list)


def local_order(graph: Graph, free: Collection[int]) -> list[int]:
    """The live nodes that run, each after its operands, depth first from the outputs so that a branch stays together.

    Of a node's operands the one with the longest history comes first, so that short ones stand close to where they are read.
    """
    live = live_nodes(graph)
    history: dict[int, int] = {}
    for node in graph.topological_order():
        history[node] = 1 + max((history[producer] for producer in graph.network.pred[node]), default=-1)
    order: list[int] = []
    state: dict[int, bool] = {}
    roots = [value.node for value in graph.outputs] + sorted(live)
    for root in roots:
        stack = [root]
        while stack:
            node = stack[-1]
            if state.get(node) or node in free or node not in live:
                stack.pop()
                continue
            if node in state:
                stack.pop()
                state[node] = True
                if not isinstance(graph.operator(node), Input):
                    order.append(node)
                continue
            state[node] = False
            operands = [v.node for v in reversed(graph.operands(node)) if v is not None and v.node not in state and v.node not in free]
            stack.extend(sorted(operands, key=history.__getitem__))
    return order


def boundaries(graph: Graph, order: Sequence[int], most: int, shunned: Collection[int] = ()) -> list[list[int]]:
    """The order cut into runs of at most `most` nodes.

    Where the order repeats itself, a run is one period of it (two, if they fit; a part, if one does not), starting where the fewest
    values cross; elsewhere a run ends where the fewest values cross. Runs do not end behind the shunned nodes if that can be avoided.
    """
    crossing = _crossing(graph, order)
    marks = [hash((type(graph.operator(node)).__name__, graph.types(node))) for node in order]
    if len(order) <= most:
        return [list(order)] if order else []

    def cut(start: int, shortest: int, longest: int) -> int:
        """Where the fewest values cross, at so many nodes from the start."""
        ends = range(start + shortest, start + longest)
        return min(ends, key=lambda index: (order[index] in shunned, crossing[index], -index)) + 1 - start

    runs: list[list[int]] = []
    start = 0
    while start < len(order):
        left = len(order) - start
        repeated = _period(marks, start, most, crossing) or (_prologue(marks, start, most, crossing) if left > most else None)
        if repeated and order[start + repeated - 1] in shunned:
            lengths = [cut(start, min(repeated, most) // 4, min(repeated, most) // 2 + 1)]
        elif repeated:
            lengths = _pieces(start, repeated, most, cut)
        else:
            lengths = [cut(start, most // 2, most) if left > most else left]
        for length in lengths:
            runs.append(list(order[start : start + length]))
            start += length
    return runs


def _pieces(start: int, length: int, most: int, cut: Callable[[int, int, int], int]) -> list[int]:
    """A long period in pieces of at most `most`: every period is cut alike, so that equal pieces come back."""
    pieces = []
    while length > most:
        even = length / -(-length // most)
        pieces.append(cut(start, int(even * 0.7), min(most, int(even * 1.3))))
        start += pieces[-1]
        length -= pieces[-1]
    return [*pieces, length]


SHORTEST_PERIOD, LONGEST_PERIOD = 5, 240


def _period(marks: Sequence[int], start: int, most: int, crossing: Sequence[int]) -> int | None:
    """The length of what repeats itself from here on, twice over if that fits."""
    length = _repetition(marks, start, most, crossing)
    if length is None:
        return None
    return 2 * length if 2 * length <= most else length


def _prologue(marks: Sequence[int], start: int, most: int, crossing: Sequence[int]) -> int | None:
    """How many nodes lie before the next repetition, which is taken to begin where the fewest values cross."""
    for first in range(start + 1, start + most):
        length = _repetition(marks, first, most, crossing)
        if length is not None:
            begins = range(first, min(first + length, start + most))
            return min(begins, key=lambda index: (crossing[index - 1], index)) - start
    return None


def _repetition(marks: Sequence[int], start: int, most: int, crossing: Sequence[int]) -> int | None:
    """The shortest run from here that comes twice in sequence; parallel branches, after each of which more values cross, do not count."""
    for length in range(SHORTEST_PERIOD, LONGEST_PERIOD + 1):
        middle, end = start + length, start + 2 * length
        if end <= len(marks) and crossing[middle - 1] == crossing[end - 1] and marks[start:middle] == marks[middle:end]:
            return length
    return None


def _crossing(graph: Graph, order: Sequence[int]) -> list[int]:
    """For each position, how many values made up to there are read after it."""
    position = {node: index for index, node in enumerate(order)}
    returned = {value.node for value in graph.outputs}
    change = [0] * (len(order) + 2)
    for index, node in enumerate(order):
        reads = [position[user] for user, _, _ in graph.users(node) if user in position]
        change[index] += 1
        change[len(order) if node in returned else max(reads, default=index)] -= 1
    return list(itertools.accumulate(change[: len(order)]))


def cut_out(graph: Graph, nodes: Sequence[int], free: Collection[int]) -> Window:
    """The nodes (each after its operands) as a graph of their own."""
    inside = set(nodes)
    inner = Graph()
    window = Window(inner, [], [], {})
    known: dict[Value, Value] = {}

    def copy(node: int) -> None:
        operator = graph.operator(node)
        if isinstance(operator, Constant):
            inner.constants[operator.name] = graph.constants[operator.name]
        operands = [None if value is None else known[value] for value in graph.operands(node)]
        copied = inner.add(operator, *operands, types=graph.types(node)).node
        window.outer[copied] = node
        for output in range(len(graph.types(node))):
            known[Value(node, output)] = Value(copied, output)

    for node in nodes:
        for value in graph.operands(node):
            if value is None or value in known or value.node in inside:
                continue
            if value.node in free:
                for constant in _with_ancestors(graph, value.node):
                    if Value(constant) not in known:
                        copy(constant)
            else:
                known[value] = inner.input(f"window_{len(window.reads)}", graph.type(value))
                window.reads.append(value)
        copy(node)
    returned = set(graph.outputs)
    for node in nodes:
        outside = {output for user, output, _ in graph.users(node) if user not in inside}
        for output in range(len(graph.types(node))):
            if output in outside or Value(node, output) in returned:
                window.returns.append(Value(node, output))
                inner.outputs.append(known[Value(node, output)])
    window.description, window.order = canonical_order(inner)
    return window


def _with_ancestors(graph: Graph, node: int) -> list[int]:
    order: list[int] = []
    seen: set[int] = set()
    stack = [(node, False)]
    while stack:
        current, done = stack.pop()
        if done:
            order.append(current)
        elif current not in seen:
            seen.add(current)
            stack.append((current, True))
            stack.extend((value.node, False) for value in graph.operands(current) if value is not None and value.node not in seen)
    return order


def put_back(graph: Graph, window: Window, solved: Graph, free: set[int]) -> None:
    """Let the graph compute the window's outputs as `solved` does; nodes that stayed the same stay the nodes they are.

    New nodes that are known before the model runs are entered in `free`.
    """
    known_inside = computed_from_constants(solved)
    readers = _readers_outside(graph, window)
    known: dict[Value, Value] = {Value(node): outer for node, outer in zip(solved.inputs, window.reads, strict=True)}
    live = live_nodes(solved)
    for node in solved.topological_order():
        operator = solved.operator(node)
        if node not in live or isinstance(operator, Input):
            continue
        operands = [None if value is None else known[value] for value in solved.operands(node)]
        outer = window.outer.get(node)
        if outer is not None and list(graph.operands(outer)) == operands:
            target = outer
        elif isinstance(operator, Constant):
            target = _enter_constant(graph, operator, solved).node
        else:
            target = graph.add(operator, *operands, types=solved.types(node)).node
            if outer is not None and "origin" in graph.network.nodes[outer]:  # the same operator on other operands
                graph.network.nodes[target]["origin"] = graph.network.nodes[outer]["origin"]
        if node in known_inside:
            free.add(target)
        for output in range(len(solved.types(node))):
            known[Value(node, output)] = Value(target, output)
    changed = {old: known[new] for old, new in zip(window.returns, solved.outputs, strict=True) if known[new] != old}
    for old in changed:
        for user, position in readers[old]:
            graph.network.remove_edge(old.node, user, key=(old.output, position))
    for old, new in changed.items():
        for user, position in readers[old]:
            graph.network.add_edge(new.node, user, key=(new.output, position))
    graph.outputs = [changed.get(value, value) for value in graph.outputs]


def _readers_outside(graph: Graph, window: Window) -> dict[Value, list[tuple[int, int]]]:
    """Who reads each value the window returns: (user, operand position), users inside left out."""
    inside = set(window.outer.values())
    return {
        value: [(user, position) for user, output, position in graph.users(value.node) if output == value.output and user not in inside]
        for value in window.returns
    }


def _enter_constant(graph: Graph, operator: Constant, solved: Graph) -> Value:
    tensor = solved.constants[operator.name]
    name, attempt = operator.name, 0
    while name in graph.constants and graph.constants[name] is not tensor:
        attempt += 1
        name = f"{operator.name}_{attempt}"
    return graph.constant(name, tensor)
