"""The graphs of a search as it knows them, and the queue in which they wait."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from costs.roofline import Cost
from graphs.graph import Graph, Value
from rewrites.match import Match
from rewrites.rule import Rule
from search.certified import Admitted


@dataclass
class Move:
    """A rule at a place; `change` is what it does to the value when that is known from an earlier graph."""

    rule: Admitted
    match: Match
    change: float | None = None

    @cached_property
    def reads(self) -> frozenset[int]:
        """The nodes that the pattern's variables are bound to."""
        return frozenset(value.node for value in self.match.bindings.values() if isinstance(value, Value))

    @cached_property
    def footprint(self) -> frozenset[int]:
        """What the match covers and reads."""
        return self.reads.union(self.match.nodes)


@dataclass(eq=False)
class State:
    """A graph of the search: its parent and the move from it, and once it is opened the graph itself with its moves.

    rank: moves since the last improvement on the way here, less the number of improvements up to then; small is fresh
    turn: how many of its siblings by the same rule come before it
    free: nodes known before the model runs   region: what the moves since the last improvement touched
    """

    parent: State | None
    move: Move | None
    value: float
    rank: int = 0
    turn: int = 0
    cost: Cost | None = None
    graph: Graph | None = None
    free: set[int] = field(default_factory=set)
    region: frozenset[int] = frozenset()
    moves: list[Move] = field(default_factory=list)
    children: list[State] | None = None
    opened: bool = False
    waiting: bool = False

    @property
    def path(self) -> list[State]:
        """The states from the first one after the root to this one."""
        before = self.parent.path if self.parent is not None else []
        return [*before, self] if self.parent is not None else []


def rule_of(state: State) -> type[Rule]:
    """The rule of the move that leads to a state."""
    assert state.move is not None
    return state.move.rule.rule


def take_turns(siblings: Sequence[State]) -> None:
    """Number states of one parent rule by rule, the cheapest first."""
    turns: Counter[type[Rule]] = Counter()
    for state in sorted(siblings, key=lambda state: state.value):
        state.turn = turns[rule_of(state)]
        turns[rule_of(state)] += 1


class Frontier:
    """States waiting to be expanded, in three orders that take turns: the cheapest; the fewest moves since an improvement; and these
    again with one state of each rule before a second one of any, so that a rule that applies nearly everywhere does not keep the
    others waiting.
    """

    def __init__(self, favoured: Collection[type[Rule]], turns: Sequence[int] = (1, 0, 1, 0, 2)) -> None:
        self._favoured = favoured
        self._queues: tuple[list[_Entry], ...] = ([], [], [])
        self._ticket = itertools.count()
        self._turns = itertools.cycle(turns)

    def push(self, state: State) -> None:
        ticket = next(self._ticket)
        state.waiting = False
        unproven = 0.5 * (state.move is not None and state.move.rule.rule not in self._favoured)
        heapq.heappush(self._queues[0], ((state.value, state.rank, ticket), state))
        heapq.heappush(self._queues[1], ((state.rank + unproven, state.value, ticket), state))
        heapq.heappush(self._queues[2], ((state.rank + state.turn + unproven, state.value, ticket), state))

    def pop(self) -> State | None:
        """The next state by the order whose turn it is."""
        queue = self._queues[next(self._turns)]
        while queue:
            state = heapq.heappop(queue)[1]
            if not state.opened and not state.waiting:
                return state
        return None

    def cheapest(self) -> State | None:
        """The state of least value, which stays in the frontier."""
        queue = self._queues[0]
        while queue and (queue[0][1].opened or queue[0][1].waiting):
            heapq.heappop(queue)
        return queue[0][1] if queue else None


_Entry: TypeAlias = tuple[tuple[float, float, int], State]
