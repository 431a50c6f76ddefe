"""Second thoughts about a window: the best way there is gone again without one of its rules, and other moves are tried in its place.

A rule with a small gain may take away the place of one with a large gain. Leaving it out keeps what was won elsewhere in the window.
At the end, moves that gain nothing by themselves are left out where the others come to the same without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from costs.roofline import Cost, Roofline
from graphs.graph import Graph
from rewrites.apply import RewriteError
from rewrites.rule import Rule
from search.explorer import Explorer, Limits
from search.recipes import Applied, Number, corresponding, described, written
from search.sharing import apply_shared
from search.states import Move, State

NOTHING = 1e-4
"""A move pays when the window is worse by more than this share without it."""


def revise(explorer: Explorer, limits: Limits, most: int) -> State:
    """The best state after trying, for each rule used on the way to it, at most `most` graphs near the places it leaves free.

    A rule is tried again as long as leaving it out leads to something better.
    """
    tried: set[type[Rule]] = set()
    while not limits.out_of_time():
        used = [state.move.rule.rule for state in reversed(explorer.best.path) if state.move is not None]
        omitted = next((rule for rule in used if rule not in tried), None)
        if omitted is None:
            break
        before = explorer.best
        explorer.explore_near(_without(explorer, omitted), omitted, most, limits)
        if explorer.best is before:
            tried.add(omitted)
    return explorer.best


def _without(explorer: Explorer, omitted: type[Rule]) -> State:
    """The state that the best one's other moves lead to."""
    state = explorer.root
    assert state.graph is not None
    places: list[Number] = sorted(state.graph.network)
    path = explorer.best.path
    numbers = {step.move.rule.rule: number for number, step in enumerate(path) if step.move is not None}
    for step, wanted in zip(path, written(path, sorted(state.graph.network), numbers), strict=True):
        assert step.move is not None and state.graph is not None
        match = None if step.move.rule.rule is omitted else corresponding(wanted, step.move.rule.rule, state.graph, places)
        if match is None:
            places.extend([None] * wanted.added)
            continue
        child = State(state, Move(step.move.rule, match), state.value, state.rank + 1)
        before = state.graph.network
        if not explorer.open_again(child):
            places.extend([None] * wanted.added)
            continue
        assert child.graph is not None
        added = sorted(node for node in child.graph.network if node not in before)
        places.extend(added if len(added) == wanted.added else [None] * wanted.added)
        state = child
    return state


def without_idle_moves(
    moves: tuple[Applied, ...],
    graph: Graph,
    order: Sequence[int],
    rules: Sequence[type[Rule]],
    roofline: Roofline,
    value: Callable[[Cost], float],
    needs_memory: bool,
) -> tuple[Applied, ...]:
    """The moves less those that do not pay, neither by themselves nor by what they make possible."""
    start = roofline.cost(graph, memory=needs_memory)
    worth = NOTHING * value(start)
    position = len(moves)
    while position:
        position -= 1
        if position >= len(moves):
            continue
        before = value(start) if position == 0 else moves[position - 1].value
        if before - moves[position].value > worth:
            continue
        shorter = _rehearsed(moves, position, graph, order, rules, lambda graph: roofline.cost(graph, memory=needs_memory), value)
        if (shorter[-1].value if shorter else value(start)) <= moves[-1].value + worth:
            moves = shorter
    return moves


def _rehearsed(
    moves: Sequence[Applied],
    omitted: int,
    graph: Graph,
    order: Sequence[int],
    rules: Sequence[type[Rule]],
    cost_of: Callable[[Graph], Cost],
    value: Callable[[Cost], float],
) -> tuple[Applied, ...]:
    """The moves that can be made when one is omitted, numbered and priced anew."""
    graph = graph.copy()
    places: list[Number] = list(order)
    number: dict[int, int] = {node: position for position, node in enumerate(order)}
    cost = cost_of(graph)
    made: list[Applied] = []
    for position, move in enumerate(moves):
        match = None if position == omitted else corresponding(move, rules[move.rule], graph, places)
        if match is not None:
            described_before: Mapping[int, int] = dict(number)
            try:
                names = described(match, move.rule, graph, described_before, 0, (cost, cost, 0.0, False))
                added = sorted(apply_shared(match, graph).added)
            except RewriteError:
                match = None
        if match is None:
            places.extend([None] * move.added)
            continue
        places.extend(added if len(added) == move.added else [None] * move.added)
        for node in added:
            number[node] = len(number)
        after = cost_of(graph)
        made.append(replace(names, added=len(added), after=after, value=value(after), regression=value(after) > value(cost)))
        cost = after
    return tuple(made)
