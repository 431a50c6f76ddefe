"""What was found for one window, written so that it can be kept in a file, sent to another process, and done again in an equal window.

A recipe names nodes by number: the window's own come first, in an order that is the same in equal windows, then those that each
move adds. Where it is done again every rule is matched anew, so that its conditions are looked at there too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from costs.roofline import Cost
from graphs.graph import Graph, Value
from rewrites.apply import RewriteError
from rewrites.host import Host
from rewrites.match import Match, find_matches
from rewrites.rule import Rule
from search.sharing import apply_shared
from search.states import State, rule_of

Number = int | None
"""A node's number; None for one inside a constant expression, which has none."""


@dataclass(frozen=True)
class Applied:
    """One move: the rule by its place in the list of rules, the nodes it covered and how many it added.

    bindings: what each variable stood for, a number and an output or the text of another value
    operators: the names of what it covered   before, after: the window's cost   value: the objective afterwards
    """

    rule: int
    case: str
    nodes: tuple[Number, ...]
    outputs: tuple[tuple[Number, int], ...]
    bindings: tuple[tuple[str, tuple[Number, int] | str], ...]
    operators: tuple[str, ...]
    added: int
    before: Cost
    after: Cost
    value: float
    regression: bool


@dataclass(frozen=True)
class Recipe:
    """The moves that turn a window into the best form found for it; none where it is the best form itself.

    value: the objective before them   complete: the search ended by itself, not by its time
    """

    moves: tuple[Applied, ...]
    value: float
    expanded: int = 0
    candidates: int = 0
    complete: bool = True

    def to_json(self) -> str:
        """The recipe as text."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Recipe:
        """The recipe that `to_json` wrote.

        Raises: ValueError, TypeError or KeyError for other text.
        """
        record = json.loads(text)
        names = {field.name for field in fields(Applied)}
        moves = tuple(Applied(**{name: _tuples(move[name]) for name in names - {"before", "after"}},
                              before=Cost(**move["before"]), after=Cost(**move["after"])) for move in record.pop("moves"))  # fmt: skip
        return Recipe(moves, **record)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def written(path: Sequence[State], order: Sequence[int], rules: Mapping[type[Rule], int]) -> tuple[Applied, ...]:
    """The moves that lead to the last of the states; `order` has the window's nodes by number."""
    number = {node: position for position, node in enumerate(order)}
    moves = []
    for state in path:
        parent = state.parent
        assert parent is not None and parent.graph is not None and parent.cost is not None
        assert state.move is not None and state.graph is not None and state.cost is not None
        added = sorted(node for node in state.graph.network if node not in parent.graph.network)
        costs = parent.cost, state.cost, state.value, state.value > parent.value
        moves.append(described(state.move.match, rules[rule_of(state)], parent.graph, number, len(added), costs))
        for node in added:
            number[node] = len(number)
    return tuple(moves)


def described(
    match: Match, rule: int, graph: Graph, number: Mapping[int, int], added: int, costs: tuple[Cost, Cost, float, bool]
) -> Applied:
    """A match in the graph before it was made, with its nodes by number."""

    def reference(bound: Any) -> tuple[Number, int] | str:
        return (number.get(bound.node), bound.output) if isinstance(bound, Value) else f"{type(bound).__name__} {bound}"

    return Applied(
        rule,
        str(match.case),
        tuple(number.get(node) for node in match.nodes),
        tuple((number.get(value.node), value.output) for value in match.outputs),
        tuple((name, reference(bound)) for name, bound in match.bindings.items()),
        tuple(type(graph.operator(node)).__name__ for node in match.nodes),
        added,
        *costs,
    )


def corresponding(move: Applied, rule: type[Rule], graph: Graph, places: Sequence[Number]) -> Match | None:
    """The match of the move's rule at the nodes that now have its numbers; None for a number without a node."""
    wanted = [None if number is None else places[number] for number in move.nodes]
    around = [node for node in wanted if node is not None and node in graph.network]
    if len(around) != len(wanted):
        return None
    for match in find_matches(rule, Host(graph), around):
        if str(match.case) == move.case and list(match.nodes) == sorted(around) and _agree(move, match, places):
            return match
    return None


def _agree(move: Applied, match: Match, places: Sequence[Number]) -> bool:
    outputs = [(None if number is None else places[number], output) for number, output in move.outputs]
    if outputs != [(value.node, value.output) for value in match.outputs]:
        return False
    return all(_same(wanted, match.bindings.get(name), places) for name, wanted in move.bindings)


def _same(wanted: tuple[Number, int] | str, found: Any, places: Sequence[Number]) -> bool:
    """The bindings correspond; what lies inside a constant expression has no counterpart and is not compared."""
    if isinstance(wanted, str) or not isinstance(found, Value):
        return wanted == f"{type(found).__name__} {found}"
    number, output = wanted
    return number is None or (places[number], output) == (found.node, found.output)


def replay(moves: Sequence[Applied], graph: Graph, order: Sequence[int], rules: Sequence[type[Rule]]) -> list[list[int]] | None:
    """Make the moves in the graph itself; the nodes that each covered, or None when one of them does not apply."""
    places: list[Number] = list(order)
    covered = []
    for move in moves:
        match = corresponding(move, rules[move.rule], graph, places)
        if match is None:
            return None
        try:
            added = sorted(apply_shared(match, graph).added)
        except RewriteError:
            return None
        if len(added) != move.added:
            return None
        covered.append(list(match.nodes))
        places.extend(added)
    return covered
