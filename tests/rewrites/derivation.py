"""Whether one graph becomes another by a few rewrites: a search from both ends that meets in the middle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from graphs.graph import Graph, Value
from operators.operator import ShapeError
from operators.sources import Constant, Input, Scalar
from rewrites.apply import RewriteError, apply
from rewrites.cases import cases, trace_case
from rewrites.match import find_matches
from rewrites.reverse import reverse
from rewrites.rule import Rule


def key_of(graph: Graph) -> tuple[Any, ...]:
    """Equal for graphs that differ only in the order of commutative operands and in node numbers."""
    known: dict[Value, str] = {}
    for node in graph.topological_order():
        operator = graph.operator(node)
        parts = ["-" if operand is None else known[operand] for operand in graph.operands(node)]
        if operator.commutative:
            parts[:2] = sorted(parts[:2])
        text = operator.name if isinstance(operator, (Input, Constant)) else f"{operator}({', '.join(parts)})"
        for output in range(len(graph.types(node))):
            known[Value(node, output)] = f"{text}.{output}"
    return tuple(known[value] for value in graph.outputs)


def kinds(graph: Graph) -> set[str]:
    """The names of the operators that compute."""
    return {type(graph.operator(node)).__name__ for node in graph if not isinstance(graph.operator(node), (Input, Constant, Scalar))}


def rules_over(rules: Sequence[type[Rule]], allowed: set[str]) -> list[type[Rule]]:
    """Those of the rules (and of their readings from right to left) that in some case hold only operators of these names."""
    found: list[type[Rule]] = []
    for rule in rules:
        traced = (trace_case(rule, case) for case in cases(rule, (1,)))
        if any(kinds(side.pattern) | kinds(side.replacement) <= allowed for side in traced):
            found += [rule, reverse(rule)] if rule.bidirectional else [rule]
    return found


def successors(graph: Graph, rules: Sequence[type[Rule]]) -> Iterator[Graph]:
    """The graph after each single rewrite."""
    for rule in rules:
        for match in find_matches(rule, graph):
            try:
                yield apply(match, graph).graph
            except (RewriteError, ShapeError):
                continue


def derivable(start: Graph, goal: Graph, rules: Sequence[type[Rule]], steps: int, most: int = 3000) -> int | None:
    """The number of rewrites, from either end, after which the two meet; None when they do not within `steps`."""
    seen = [{key_of(start): 0}, {key_of(goal): 0}]
    edges: list[list[Graph]] = [[start], [goal]]
    for side in (0, 1, 0, 1, *(0,) * steps):
        meeting = [seen[0][key] + seen[1][key] for key in seen[0].keys() & seen[1].keys()]
        if meeting and min(meeting) <= steps:
            return min(meeting)
        depth = max(seen[side].values()) + 1
        fresh: list[Graph] = []
        for graph in edges[side] if depth <= steps else []:
            for other in successors(graph, rules):
                key = key_of(other)
                if key not in seen[side] and len(seen[side]) < most:
                    seen[side][key] = depth
                    fresh.append(other)
        edges[side] = fresh
    return None
