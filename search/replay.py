"""What was found for one window, done again in an equal one: every rule is matched anew, so that its conditions hold there too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costs.roofline import Cost
from graphs.graph import Graph, Value
from rewrites.apply import RewriteError
from rewrites.host import Host
from rewrites.match import Match, find_matches
from search.certified import Admitted
from search.sharing import apply_shared
from search.states import State
from search.windows import Window


@dataclass(frozen=True)
class Applied:
    """One move of a solution: the nodes it added, and the window's cost and value before and after."""

    rule: Admitted
    match: Match
    operators: tuple[str, ...]
    added: tuple[int, ...]
    before: Cost
    after: Cost
    regression: bool

    @staticmethod
    def of(step: State) -> Applied:
        """The move that led to a state which was opened."""
        parent = step.parent
        assert parent is not None
        assert step.move is not None
        assert parent.graph is not None
        assert step.graph is not None
        assert parent.cost is not None
        assert step.cost is not None
        old = parent.graph.network
        names = tuple(type(parent.graph.operator(node)).__name__ for node in step.move.match.nodes)
        added = tuple(sorted(node for node in step.graph.network if node not in old))
        return Applied(step.move.rule, step.move.match, names, added, parent.cost, step.cost, step.value > parent.value)


@dataclass(frozen=True)
class Solution:
    """The moves that turn a window into the best form found for it, and the order in which its nodes correspond to another's."""

    moves: Sequence[Applied]
    order: Sequence[int]


def solution_of(state: State, order: Sequence[int]) -> Solution:
    """The moves that lead to a state."""
    return Solution([Applied.of(step) for step in state.path], order)


def replay(solution: Solution, window: Window) -> Graph | None:
    """The window's best form by the same moves; None when one of them does not apply there."""
    graph = window.graph.copy()
    image = dict(zip(solution.order, window.order, strict=True))
    for move in solution.moves:
        match = corresponding(move, graph, image)
        if match is None:
            return None
        try:
            applied = apply_shared(match, graph)
        except RewriteError:
            return None
        if len(applied.added) != len(move.added):
            return None
        image.update(zip(move.added, sorted(applied.added), strict=True))
    return graph


def corresponding(move: Applied, graph: Graph, image: Mapping[int, int]) -> Match | None:
    """The match of the move's rule at the images of its nodes."""
    wanted = [image.get(node) for node in move.match.nodes]
    around = [node for node in wanted if node is not None and node in graph.network]
    if len(around) != len(wanted):
        return None
    for match in find_matches(move.rule.rule, Host(graph), around):
        if match.case == move.match.case and list(match.nodes) == wanted and _agree(move.match, match, image):
            return match
    return None


def _agree(old: Match, new: Match, image: Mapping[int, int]) -> bool:
    if [(image.get(value.node), value.output) for value in old.outputs] != [(value.node, value.output) for value in new.outputs]:
        return False
    return all(_same(value, new.bindings.get(name), image) for name, value in old.bindings.items())


def _same(old: Any, new: Any, image: Mapping[int, int]) -> bool:
    """The bindings correspond; what lies inside a constant expression has no counterpart and is not compared."""
    if isinstance(old, Value) and isinstance(new, Value):
        return old.node not in image or (image[old.node], old.output) == (new.node, new.output)
    return bool(old == new)
