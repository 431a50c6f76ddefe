"""Second thoughts about a window: the best way there is gone again without one of its rules, and other moves are tried in its place.

A rule with a small gain may take away the place of one with a large gain. Leaving it out keeps what was won elsewhere in the window.
"""

from __future__ import annotations

from rewrites.rule import Rule
from search.explorer import Explorer, Limits
from search.replay import Applied, corresponding
from search.states import Move, State


def revise(explorer: Explorer, limits: Limits, most: int = 24) -> State:
    """The best state after trying, for each rule used on the way to it, at most `most` graphs near the places it leaves free."""
    tried: set[type[Rule]] = set()
    while not limits.out_of_time():
        used = [state.move.rule.rule for state in reversed(explorer.best.path) if state.move is not None]
        omitted = next((rule for rule in used if rule not in tried), None)
        if omitted is None:
            break
        tried.add(omitted)
        explorer.explore_near(_without(explorer, omitted), omitted, most, limits)
    return explorer.best


def _without(explorer: Explorer, omitted: type[Rule]) -> State:
    """The state that the best one's other moves lead to."""
    state = explorer.root
    assert state.graph is not None
    image = {node: node for node in state.graph.network}
    for step in explorer.best.path:
        assert step.move is not None
        assert step.parent is not None
        assert step.parent.graph is not None
        assert step.graph is not None
        assert state.graph is not None
        if step.move.rule.rule is omitted:
            continue
        wanted = Applied.of(step)
        match = corresponding(wanted, state.graph, image)
        if match is None:
            continue
        child = State(state, Move(step.move.rule, match), state.value, state.rank + 1)
        before = set(state.graph.network)
        if not explorer.open_again(child):
            continue
        assert child.graph is not None
        added = sorted(node for node in child.graph.network if node not in before)
        if len(added) == len(wanted.added):
            image.update(zip(wanted.added, added, strict=True))
        state = child
    return state
