"""The search in one window, as a task of its own: here or in another process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from costs.roofline import Cost, Roofline
from graphs.graph import Graph
from rewrites.rule import Rule
from search.certified import Admitted, Waited
from search.explorer import Explorer, Limits
from search.objective import Objective
from search.recipes import Recipe, written
from search.revision import revise, without_idle_moves


@dataclass
class Setting:
    """What the windows of one search have in common.

    start: the cost of the whole graph, relative to which windows are valued   expansions: graphs expanded for each window
    """

    rules: Sequence[type[Rule]]
    roofline: Roofline
    objective: Objective
    start: Cost
    expansions: int

    @cached_property
    def value(self) -> Callable[[Cost], float]:
        """The objective of a cost."""
        return self.objective.value(self.start)


@dataclass
class Problem:
    """One window to be searched.

    order: its nodes by number (see search.recipes)   seconds: the time allowed
    denied: rules not to be used, by number   favoured: rules that served elsewhere
    """

    graph: Graph
    order: Sequence[int]
    seconds: float
    denied: frozenset[int] = frozenset()
    favoured: frozenset[int] = frozenset()


def solve(
    setting: Setting,
    problem: Problem,
    asked: Callable[[], bool] = lambda: False,
    on_step: Callable[[Explorer], None] | None = None,
) -> Recipe:
    """The best form found for a window. `asked` ends the search before its time, with the best so far."""
    ends = time.monotonic() + problem.seconds

    def out_of_time() -> bool:
        return asked() or time.monotonic() > ends

    rules = [Admitted(rule, _unasked, Waited()) for number, rule in enumerate(setting.rules) if number not in problem.denied]
    favoured: Collection[type[Rule]] = {setting.rules[number] for number in problem.favoured}
    needs_memory = setting.objective.needs_memory
    explorer = Explorer(problem.graph, rules, setting.roofline, setting.value, needs_memory, on_step, favoured)
    limits = Limits(setting.expansions, max(20, setting.expansions // 4), out_of_time)
    with rare_collections():
        explorer.run(limits)
        best = revise(explorer, limits, min(24, setting.expansions))
    complete = not out_of_time()
    moves = written(best.path, problem.order, {rule: number for number, rule in enumerate(setting.rules)})
    explorer.forget()
    moves = without_idle_moves(moves, problem.graph, problem.order, setting.rules, setting.roofline, setting.value, needs_memory)
    return Recipe(moves, explorer.root.value, explorer.expanded, explorer.candidates, complete)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Python looks for cyclic garbage less often: a search makes hundreds of thousands of objects that live as long as it does."""
    before = gc.get_threshold()
    gc.set_threshold(1_000_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _unasked(rule: type[Rule]) -> str | None:
    """Rules are asked for certificates where the whole graph is."""
    raise AssertionError(f"{rule.__name__}: certificates are not asked for within a window")
