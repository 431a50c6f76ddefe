"""The search over a whole graph: window by window, equal windows once, then the clean-up and the last check.

A graph of at most `WINDOW` running nodes is searched as a whole. A larger one is cut into windows; each distinct window is searched
once and its moves are replayed in the equal ones; a further sweep cuts elsewhere, so that what lay on a seam is seen too.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from costs.devices import Device
from costs.kernels import Policy, computed_from_constants
from costs.roofline import Cost, Roofline
from graphs.graph import Graph
from rewrites.rule import Rule
from search.certified import Admitted, Certified, Waited, admit, refusals
from search.explorer import Explorer, Limits
from search.interruption import Interruption
from search.objective import Objective
from search.replay import Solution, replay, solution_of
from search.result import SearchResult, Step
from search.revision import revise
from search.states import State
from search.windows import Window, boundaries, cut_out, local_order, put_back

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
) -> SearchResult:
    """The best graph found that computes the same function, every step by a rule with a certificate.

    certified: from a rule to its certificate (see search.certified)   seconds: the time budget
    expansions: graphs expanded for each distinct window   inputs: tensors for the last check; drawn by `seed` when left out
    pricing: what prices graphs, instead of the roofline of `device` and `kernels` (see costs.measured)
    sizes: numbers for symbolic sizes, for pricing and checking   check: run both graphs before the result is handed out
    Ctrl-C ends the search; the best so far is returned.
    Raises: NumericCheckError when the result differs from the original, CostError, UnknownDeviceError, UnknownPolicyError,
    UnknownObjectiveError.
    """
    waited = Waited()
    admitted, refused = admit(rules, certified, waited)
    roofline = pricing or pricing_of(device, kernels, objective, sizes)
    with Interruption() as interruption:
        run = _Run(graph.copy(), admitted, roofline, Objective.of(objective), seconds, expansions, interruption, progress, waited)
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
        self.expansions = expansions
        self.interruption = interruption
        self.progress = progress
        self.started = time.perf_counter()
        self.before = roofline.cost(graph)
        self.cost = roofline.cost(self.graph)
        self.value = objective.value(self.before)
        self.steps: list[Step] = []
        self.solved: dict[tuple[Hashable, ...], Solution | None] = {}
        self.favoured: set[type[Rule]] = set()
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
            if runs == 1 or idle == 2:
                return
            shunned = ends

    def _sweep(self, shunned: set[int]) -> tuple[bool, set[int], int]:
        """One pass over all windows: whether any improved, where they ended, how many they were."""
        free = computed_from_constants(self.graph)
        order = local_order(self.graph, free)
        runs = boundaries(self.graph, order, WINDOW, shunned)
        improved = False
        for position, nodes in enumerate(runs):
            if self.out_of_time():
                self.complete = False
                break
            window = cut_out(self.graph, nodes, free)
            improved = self._improve(window, free, len(runs) - position) or improved
        return improved, {nodes[-1] for nodes in runs}, len(runs)

    def _improve(self, window: Window, free: set[int], left: int) -> bool:
        """Put the window's best form into the graph; False when it is the window itself."""
        if window.description in self.solved:
            known = self.solved[window.description]
            if known is None:
                return False
            replayed = replay(known, window)
            if replayed is not None:
                self._enter(known, window, replayed, free)
                return True
        allowed = self.elapsed() + max((self.seconds - self.elapsed()) / left, 0.0) * 2
        limits = Limits(self.expansions, max(20, self.expansions // 4), lambda: self.out_of_time() or self.elapsed() > allowed)
        best = self._certified_best(window, limits)
        self.complete = self.complete and not self.out_of_time()
        if best.parent is None:
            self.solved.setdefault(window.description, None)
            return False
        solution = solution_of(best, window.order)
        self.favoured |= {move.rule.rule for move in solution.moves}
        self.solved[window.description] = solution
        assert best.graph is not None
        self._enter(solution, window, best.graph, free)
        return True

    def _certified_best(self, window: Window, limits: Limits) -> State:
        """The window's best form by rules with certificates.

        The rules on the way to the best form are asked for theirs; without those refused it is sought anew, or when there is no
        time for that, it is the best form before the first refused rule.
        """
        while True:
            rules = [rule for rule in self.rules if not rule.denied]
            explorer = Explorer(window.graph, rules, self.roofline, self.value, self.objective.needs_memory, self._tell, self.favoured)
            counted = self._counted = (self.expanded, self.candidates)
            explorer.run(limits)
            best = revise(explorer, limits)
            self.expanded, self.candidates = counted[0] + explorer.expanded, counted[1] + explorer.candidates
            held = list(itertools.takewhile(lambda state: state.move is not None and state.move.rule.certificate, best.path))
            if len(held) == len(best.path):
                return best
            if self.out_of_time():
                return min([explorer.root, *held], key=lambda state: state.value)

    def _tell(self, explorer: Explorer) -> None:
        if self.progress is not None:
            expanded, candidates = self._counted
            assert explorer.best.cost is not None
            assert explorer.root.cost is not None
            best = _shifted(self.cost, explorer.root.cost, explorer.best.cost)
            self.progress(Progress(self.elapsed(), self.seconds, best, expanded + explorer.expanded, candidates + explorer.candidates))

    def _enter(self, solution: Solution, window: Window, solved: Graph, free: set[int]) -> None:
        """Put a window back and note its steps."""
        names = {inner: f"%{outer}" for inner, outer in window.outer.items()}
        cost = self.cost
        for move in solution.moves:
            place = ", ".join(f"{name} {names.get(node, 'new')}" for name, node in zip(move.operators, move.match.nodes, strict=True))
            after = _shifted(cost, move.before, move.after)
            self.steps.append(Step(move.rule.rule.__name__, place, cost, after, move.regression, move.rule.certificate))
            cost = after
        put_back(self.graph, window, solved, free)
        self.cost = cost

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
