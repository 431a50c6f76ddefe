"""The search over a whole graph: window by window, equal windows once, then the clean-up and the last check.

A graph of at most `WINDOW` running nodes is searched as a whole. A larger one is cut into windows; each distinct window is searched
once, several at a time where there are processes for it, and its moves are made again in the equal ones; a further sweep cuts
elsewhere, so that what lay on a seam is seen too.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from costs.devices import Device
from costs.kernels import Policy, computed_from_constants
from costs.roofline import Cost, Roofline
from graphs.graph import Graph
from rewrites.rule import Rule
from search.certified import Admitted, Certified, Waited, admit, refusals
from search.explorer import Explorer
from search.interruption import Interruption
from search.objective import Objective
from search.recipes import Recipe, replay
from search.result import SearchResult, Step
from search.solving import Problem, Setting, rare_collections, solve
from search.store import Solutions, keeps
from search.windows import Window, boundaries, cut_out, local_order, put_back
from search.workers import Workers

WINDOW = 48
"""The most running nodes of a window."""
SWEEPS = 4
"""The most sweeps over a graph that is cut into windows."""


@dataclass(frozen=True)
class Progress:
    """How far a search is: seconds gone and allowed, the best cost so far, graphs expanded and evaluated."""

    seconds: float
    allowed: float
    best: Cost
    expanded: int
    candidates: int


def search(
    graph: Graph,
    rules: Iterable[type[Rule]],
    certified: Certified,
    device: str | Device = "h100",
    kernels: str | Policy = "none",
    objective: str | Mapping[str, float] | Objective = "time",
    seconds: float = 60.0,
    expansions: int = 300,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    inputs: Sequence[Any] | None = None,
    check: bool = True,
    progress: Callable[[Progress], None] | None = None,
    pricing: Roofline | None = None,
    jobs: int = 1,
    executor: Executor | None = None,
    store: Path | Literal[True] | None = None,
) -> SearchResult:
    """The best graph found that computes the same function, every step by a rule with a certificate.

    certified: from a rule to its certificate (see search.certified)   seconds: the time budget
    expansions: graphs expanded for each distinct window   inputs: tensors for the last check; drawn by `seed` when left out
    pricing: what prices graphs, instead of the roofline of `device` and `kernels` (see costs.measured)
    sizes: numbers for symbolic sizes, for pricing and checking   check: run both graphs before the result is handed out
    jobs: processes that search windows at the same time, or an `executor` for them; the result is the same for any number
    store: a file in which solved windows are kept and found again, or True for the one in the user's cache
    Ctrl-C ends the search; the best so far is returned.
    Raises: NumericCheckError when the result differs from the original, CostError, UnknownDeviceError, UnknownPolicyError,
    UnknownObjectiveError.
    """
    waited = Waited()
    with rare_collections():
        admitted, refused = admit(rules, certified, waited)
    roofline = pricing or pricing_of(device, kernels, objective, sizes)
    with Interruption() as interruption, rare_collections():
        run = _Run(graph.copy(), admitted, roofline, Objective.of(objective), seconds, expansions, interruption, progress, waited)
        if store is not None and keeps(roofline):
            run.store = Solutions(run.setting, None if store is True else store)
        # Kernels that are measured in several processes at once disturb one another.
        processes, others = (jobs, executor) if type(roofline) is Roofline else (1, None)
        with Workers(run.setting, run.graph.constants, processes, others) as run.workers:
            run.sweep_all()
        result = run.finish()
    result.refused = [*refused, *refusals(admitted)]
    if check and result.graph is not run.original:
        from search.check import compare

        result.max_error = compare(graph, result.graph, run.unfolded, inputs, seed, sizes)
    return result


class _Run:
    """One search: the graph as it stands, the steps so far, and what is known of windows."""

    def __init__(
        self,
        graph: Graph,
        rules: Sequence[Admitted],
        roofline: Roofline,
        objective: Objective,
        seconds: float,
        expansions: int,
        interruption: Interruption,
        progress: Callable[[Progress], None] | None,
        waited: Waited,
    ) -> None:
        self.waited = waited
        self.original = graph
        self.graph = _tidied(graph)
        self.rules = rules
        self.roofline = roofline
        self.objective = objective
        self.seconds = seconds
        self.interruption = interruption
        self.progress = progress
        self.started = time.perf_counter()
        self.before = roofline.cost(graph)
        self.cost = roofline.cost(self.graph)
        self.setting = Setting([rule.rule for rule in rules], roofline, objective, self.before, expansions)
        self.value = self.setting.value
        self.steps: list[Step] = []
        self.solved: dict[tuple[Hashable, ...], Recipe] = {}
        self.favoured: frozenset[int] = frozenset()
        self.store: Solutions | None = None
        self.workers: Workers
        self.expanded = self.candidates = 0
        self.complete = True
        self.unfolded = self.graph

    def elapsed(self) -> float:
        """Seconds of search; the time in which certificates were made is not counted."""
        return time.perf_counter() - self.started - self.waited.seconds

    def out_of_time(self) -> bool:
        return self.interruption.asked or self.elapsed() > self.seconds

    def sweep_all(self) -> None:
        """Sweep until nothing improves under two different cuts."""
        shunned: set[int] = set()
        idle = 0
        for _ in range(SWEEPS):
            if self.out_of_time():
                self.complete = False
                return
            improved, ends, runs = self._sweep(shunned)
            idle = 0 if improved else idle + 1
            if runs <= 1 or idle == 2:
                return
            shunned = ends

    def _sweep(self, shunned: set[int]) -> tuple[bool, set[int], int]:
        """One pass over all windows: whether any improved, where they ended, how many they were."""
        free = computed_from_constants(self.graph)
        order = local_order(self.graph, free)
        runs = boundaries(self.graph, order, WINDOW, shunned)
        unsolved: dict[tuple[Hashable, ...], Window] = {}
        for nodes in runs:
            window = cut_out(self.graph, nodes, free)
            if window.description not in self.solved:
                unsolved.setdefault(window.description, window)
        self._solve(list(unsolved.values()))
        improved = False
        for nodes in runs:
            window = cut_out(self.graph, nodes, free)
            improved = self._improve(window, free) or improved
        used = {move.rule for recipe in self.solved.values() for move in recipe.moves}
        self.favoured = self.favoured | used
        return improved, {nodes[-1] for nodes in runs}, len(runs)

    def _improve(self, window: Window, free: set[int]) -> bool:
        """Put the window's best form into the graph; False when it is the window itself."""
        if window.description not in self.solved:
            self._solve([window])
        recipe = self.solved.get(window.description)
        if recipe is None or not recipe.moves:
            return False
        solved = self._entered(recipe, window, free)
        if not solved:
            # Equal windows may differ in the contents of their constants, which a rule's condition may speak of.
            self._solve([window])
            recipe = self.solved.get(window.description)
            solved = recipe is not None and self._entered(recipe, window, free)
        return solved

    def _solve(self, windows: list[Window]) -> None:
        """Find the best form of each window by rules with certificates.

        The rules of a recipe are asked for theirs; without those refused the window is searched anew, or when there is no time for
        that, the recipe ends before the first refused rule.
        """
        while windows:
            again = []
            for window, recipe in zip(windows, self._recipes(windows), strict=True):
                if recipe is None:
                    continue
                held = tuple(itertools.takewhile(lambda move: bool(self.rules[move.rule].certificate), recipe.moves))
                if len(held) < len(recipe.moves):
                    again.append(window)
                    values = [recipe.value, *(move.value for move in held)]
                    recipe = replace(recipe, moves=held[: values.index(min(values))])
                self.solved[window.description] = recipe
            windows = [] if self.out_of_time() else again

    def _recipes(self, windows: list[Window]) -> Iterator[Recipe | None]:
        """A recipe for each window, in order: from the store, or found; None where there was no time for it."""
        denied = frozenset(number for number, rule in enumerate(self.rules) if rule.denied)
        if self.store is None:
            questions: list[str | None] = [None] * len(windows)
        else:
            questions = [self.store.question(window.description, sorted(denied), sorted(self.favoured)) for window in windows]
        kept = [None if self.store is None or question is None else self.store.find(question) for question in questions]
        missing = [position for position, recipe in enumerate(kept) if recipe is None]
        found = self._found([windows[position] for position in missing], denied)
        for question, recipe in zip(questions, kept, strict=True):
            if recipe is not None:
                yield recipe
                continue
            recipe = next(found)
            if recipe is not None:
                self.expanded, self.candidates = self.expanded + recipe.expanded, self.candidates + recipe.candidates
                self.complete = self.complete and recipe.complete
                if self.store is not None and question is not None and recipe.complete:
                    self.store.keep(question, recipe)
            else:
                self.complete = False
            yield recipe

    def _found(self, windows: list[Window], denied: frozenset[int]) -> Iterator[Recipe | None]:
        """The windows searched: in several processes where there are any and more than one window, else here."""

        def problem(window: Window, left: float) -> Problem:
            seconds = 2 * max(self.seconds - self.elapsed(), 0.0) / left
            return Problem(window.graph, window.order, min(seconds, self.seconds - self.elapsed()), denied, self.favoured)

        if self.workers.several and len(windows) > 1:
            share = max(1.0, len(windows) / self.workers.count)
            yield from self.workers.solve_all([problem(window, share) for window in windows], self._told_out_of_time)
            return
        for position, window in enumerate(windows):
            if self.out_of_time():
                yield None
            else:
                yield solve(self.setting, problem(window, len(windows) - position), self.out_of_time, self._tell)

    def _told_out_of_time(self) -> bool:
        self._tell(None)
        return self.out_of_time()

    def _tell(self, explorer: Explorer | None) -> None:
        """Say how far the search is, `explorer` being the one at work."""
        if self.progress is None:
            return
        best, expanded, candidates = self.cost, self.expanded, self.candidates
        if explorer is not None:
            assert explorer.best.cost is not None
            assert explorer.root.cost is not None
            best = _shifted(best, explorer.root.cost, explorer.best.cost)
            expanded, candidates = expanded + explorer.expanded, candidates + explorer.candidates
        self.progress(Progress(self.elapsed(), self.seconds, best, expanded, candidates))

    def _entered(self, recipe: Recipe, window: Window, free: set[int]) -> bool:
        """Make a recipe's moves in a window, put it back and note its steps; False when one of them does not apply."""
        solved = window.graph.copy()
        covered = replay(recipe.moves, solved, window.order, self.setting.rules)
        if covered is None:
            return False
        names = {inner: f"%{outer}" for inner, outer in window.outer.items()}
        for move, nodes in zip(recipe.moves, covered, strict=True):
            place = ", ".join(f"{name} {names.get(node, 'new')}" for name, node in zip(move.operators, nodes, strict=True))
            after = _shifted(self.cost, move.before, move.after)
            rule = self.rules[move.rule]
            self.steps.append(Step(rule.rule.__name__, place, self.cost, after, move.regression, rule.certificate))
            self.cost = after
        put_back(self.graph, window, solved, free)
        return True

    def finish(self) -> SearchResult:
        """Clean up, and hand out whichever of the new and the original graph is better."""
        from graphs.passes import simplify

        self.graph.remove_dead()
        self.unfolded = self.graph.copy()
        simplify(self.graph)
        after = self.roofline.cost(self.graph)
        graph, steps = self.graph, self.steps
        if self.value(after) > self.value(self.before) * (1 + 1e-9):
            graph, steps, after = self.original, [], self.before
        if steps:
            steps = [*steps[:-1], replace(steps[-1], cost_after=after)]
        return SearchResult(
            graph,
            self.before,
            after,
            steps,
            seconds=self.elapsed(),
            expanded=self.expanded,
            candidates=self.candidates,
            complete=self.complete and not self.interruption.asked,
            interrupted=self.interruption.asked,
            unfolded=None if graph is self.original else self.unfolded,
        )


def pricing_of(
    device: str | Device, kernels: str | Policy, objective: str | Mapping[str, float] | Objective, sizes: Mapping[str, int] | None
) -> Roofline:
    """The device's roofline, or for an objective that is measured, this machine's kernels in PyTorch's eager mode."""
    if not Objective.of(objective).measured:
        return Roofline(device, kernels, sizes)
    from costs.measured import Measured

    return Measured(device=device, kernels=kernels, sizes=sizes)


def _tidied(graph: Graph) -> Graph:
    """A copy without dead code, identities and common subexpressions."""
    from graphs.passes import merge_common_subexpressions, remove_identities

    result = graph.copy()
    result.remove_dead()
    remove_identities(result)
    merge_common_subexpressions(result)
    return result


def _shifted(whole: Cost, before: Cost, after: Cost) -> Cost:
    """The cost of the whole graph after a part of it changed from one cost to another."""
    return Cost(
        whole.time + after.time - before.time,
        whole.flops + after.flops - before.flops,
        whole.bytes + after.bytes - before.bytes,
        whole.kernels + after.kernels - before.kernels,
        whole.memory + after.memory - before.memory,
    )
