"""Best-first search with backtracking over the graphs that rules reach from one graph.

The frontier holds graphs that are known by their parent and the move that leads to them; a graph is built when it is its turn, and
only then compared with those seen before. Two queues take turns: the cheapest graph first, and the fewest moves since the last
improvement first, so that neither a plateau of equal costs nor a detour over a worse graph starves the other. A graph may cost α
times the best so far; those beyond wait for a later round with a larger α.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from costs.difference import Prices, changed, free_after
from costs.kernels import computed_from_constants
from costs.roofline import Cost, Roofline
from graphs.graph import Graph, Value
from rewrites.apply import RewriteError
from rewrites.host import Host
from rewrites.index import index_of
from rewrites.match import Match
from rewrites.memory import Mark
from rewrites.rule import Rule
from search.certified import Admitted
from search.keys import Keys
from search.sharing import Change, apply_shared
from search.states import Frontier, Move, State, rule_of, take_turns

ALPHAS = (1.02, 1.3, 2.0, 4.0)
"""How many times the best cost a graph may cost, round by round."""


@dataclass
class Limits:
    """When to stop: expansions in all, expansions without improvement in one round, and a question asked before each."""

    expansions: int = 400
    patience: int = 80
    out_of_time: Callable[[], bool] = lambda: False


class Explorer:
    """One search from one graph.

    expanded: graphs whose moves were drawn   candidates: graphs whose cost was evaluated
    favoured: rules that served elsewhere, tried first among moves otherwise alike
    """

    def __init__(
        self,
        graph: Graph,
        rules: Sequence[Admitted],
        roofline: Roofline,
        value: Callable[[Cost], float],
        needs_memory: bool = False,
        on_step: Callable[[Explorer], None] | None = None,
        favoured: Collection[type[Rule]] = (),
    ) -> None:
        self._favoured = favoured
        self._rules = rules
        self._index = index_of(tuple(admitted.rule for admitted in rules))
        self._marks: dict[int, Mark] = {}
        self._present = Host(graph).kinds()
        self.roofline = roofline
        self.value = value
        self.needs_memory = needs_memory
        self.on_step = on_step
        self.additive = roofline.policy.additive and not needs_memory
        self.expanded = 0
        self.candidates = 0
        self.complete = False
        self._seen: set[int] = set()
        self._with_children: list[State] = []
        self._changes: dict[Hashable, float] = {}
        self.prices = Prices(roofline)
        self.keys = Keys()
        self._next_node = graph._next
        self._generation = 0
        cost = roofline.cost(graph, memory=needs_memory)
        self.root = State(None, None, value(cost), cost=cost, graph=graph)
        self.best = self.root

    def run(self, limits: Limits, alphas: Iterable[float] = ALPHAS) -> State:
        """The best state found; call again to go on."""
        frontier = Frontier(self._favoured)
        self._descend_in_several_ways(frontier, limits)
        waiting: list[State] = []
        for alpha in alphas:
            for held in waiting:
                frontier.push(held)
            waiting = []
            since = 0
            while since < limits.patience:
                if self.expanded >= limits.expansions or limits.out_of_time():
                    return self._with_cheapest(frontier)
                state = frontier.pop()
                if state is None:
                    break
                if state.value > alpha * self.best.value:
                    state.waiting = True
                    waiting.append(state)
                    continue
                before = self.best
                children = self._expand(state)
                since = 0 if self.best is not before else since + 1
                for child in children:
                    frontier.push(child)
                if self.on_step is not None:
                    self.on_step(self)
            else:
                continue
        self.complete = frontier.cheapest() is None and not waiting
        return self.best

    def _descend_in_several_ways(self, frontier: Frontier, limits: Limits) -> None:
        """Go downhill from the root: by the best move each time; preferring each rule that improves the root; without each rule used.

        What a rule gains often shows only when it is applied throughout; and a rule may take away the places of one that gains more
        later. Each way's end is as good a start for the best-first search as the best one.
        """
        self._descend(frontier, limits, None, None)
        improving = [child for child in self.root.children or () if child.value < self.root.value]
        rules = dict.fromkeys(rule_of(child) for child in sorted(improving, key=lambda child: child.value))
        for preferred in list(rules)[1:]:
            self._descend(frontier, limits, preferred, None)
        for omitted in dict.fromkeys(rule_of(state) for state in reversed(self.best.path)):
            self._descend(frontier, limits, None, omitted)

    def _descend(self, frontier: Frontier, limits: Limits, preferred: type[Rule] | None, omitted: type[Rule] | None) -> None:
        state = self.root
        while self.expanded < limits.expansions * 2 // 3 + 1 and not limits.out_of_time():
            if state.children is None:
                for child in self._expand(state, near=False):
                    frontier.push(child)
                if self.on_step is not None:
                    self.on_step(self)
            if state.opened and state.graph is None:
                assert state.parent is not None
                state = state.parent
            downhill = [child for child in state.children or () if child.value < state.value and rule_of(child) is not omitted]
            downhill = [child for child in downhill if not child.opened or child.children is not None]
            if not downhill:
                break
            state = min(downhill, key=lambda child: (rule_of(child) is not preferred, child.value))
        for child in state.children or ():
            if not child.opened:
                child.rank = 1 - self._generation
                frontier.push(child)

    def _with_cheapest(self, frontier: Frontier) -> State:
        """The best state, after opening the cheapest one of the frontier if it promises more."""
        state = frontier.cheapest()
        if state is not None and state.value < self.best.value:
            self._open(state)
        return self.best

    def _expand(self, state: State, near: bool = True) -> list[State]:
        """The states one move away; of one that is not the best only those that follow up what led to it, if `near`."""
        return self._expand_opened(state, near) if self._open(state) else []

    def _expand_opened(self, state: State, near: bool = False) -> list[State]:
        self.expanded += 1
        assert state.graph is not None
        children = []
        for move in self._worthwhile(state) if near else state.moves:
            value = state.value + move.change if move.change is not None else self._evaluate(state, move)
            if value is not None:
                children.append(State(state, move, value, state.rank + 1))
        take_turns(children)
        state.children = children
        self._with_children.append(state)
        return children

    def _worthwhile(self, state: State) -> list[Move]:
        """All moves of the best state; of another, those near what changed since it left the best: others commute with that."""
        graph = state.graph
        assert graph is not None
        if state is self.best or not state.region:
            return state.moves
        network = graph.network
        near = {node for node in state.region if node in network}
        near |= {other for node in near for other in (*network._pred[node], *network._adj[node]) if other not in state.free}
        return [move for move in state.moves if not near.isdisjoint(move.footprint)]

    def _evaluate(self, state: State, move: Move) -> float | None:
        """The value after the move; None when the rule cannot be applied there after all."""
        graph = state.graph
        assert graph is not None
        self.candidates += 1
        name = _local_form(move.match, graph, state.free) if self.additive else None
        if name in self._changes:
            move.change = self._changes[name]
            return state.value + move.change
        graph._next = self._next_node
        try:
            applied = apply_shared(move.match, graph)
        except RewriteError:
            return None
        self._next_node = graph._next
        free = free_after(graph, state.free, applied.added, applied.rewired) if self.additive else None
        if free is None:
            cost = self.roofline.cost(graph, memory=self.needs_memory)
            applied.undo()
        else:
            affected = self.prices.affected(graph, applied.added, applied.rewired)
            after = self.prices.total(graph, (*applied.added, *affected), free)
            applied.undo()
            assert state.cost is not None
            cost = changed(state.cost, self.prices.total(graph, (*applied.removed, *affected), state.free), after)
        value = self.value(cost)
        if self.additive:
            move.change = self._changes[name] = value - state.value
        return value

    def open_again(self, state: State) -> bool:
        """Build a state although it may be one seen before; False when it cannot be built."""
        return self._open(state, again=True)

    def forget(self) -> None:
        """Let go of the graphs, of which there are many: parents and children hold one another, which Python would notice late."""
        for state in self._with_children:
            state.children = None
        self._with_children.clear()

    def explore_near(self, state: State, omitted: type[Rule], most: int, limits: Limits) -> None:
        """Expand what follows a state at the places where the omitted rule would apply, at most so many graphs."""
        children = self._expand_opened(state)
        places: set[int] = set()
        for child in children:
            if child.move is not None and rule_of(child) is omitted:
                places |= child.move.footprint
        frontier = Frontier(self._favoured, turns=(2, 0))
        others = [child for child in children if child.move is not None and rule_of(child) is not omitted]
        there = [child for child in others if child.move is not None and not places.isdisjoint(child.move.footprint)]
        take_turns(there)
        for child in there:
            frontier.push(child)
        for _ in range(most):
            following = frontier.pop()
            if following is None or limits.out_of_time():
                return
            for child in self._expand(following):
                frontier.push(child)

    def _open(self, state: State, again: bool = False) -> bool:
        """Build the state's graph and draw its moves; False when it is one seen before (but for `again`), or cannot be built."""
        if state.opened:
            return False
        state.opened = True
        parent = state.parent
        if parent is None:
            assert state.graph is not None
            state.free = computed_from_constants(state.graph)
            self._seen.add(self.keys.key(state.graph, state.free))
            self._draw_moves(state, None)
            return True
        assert parent.graph is not None
        assert state.move is not None
        graph = parent.graph.copy()
        graph._next = self._next_node
        try:
            applied = apply_shared(state.move.match, graph)
        except RewriteError:
            return False
        self._next_node = graph._next
        free = free_after(graph, parent.free, applied.added, applied.rewired)
        state.free = computed_from_constants(graph) if free is None else free
        name = self.keys.key(graph, state.free)
        if name in self._seen and not again:
            return False
        self._seen.add(name)
        state.graph = graph
        state.cost = self._cost(parent, state, applied, free is not None)
        state.value = self.value(state.cost)
        if state.value < self.best.value * (1 - 1e-12):
            self.best = state
            self._generation += 1
            state.rank = -self._generation
        else:
            state.region = parent.region.union(applied.touched)
        self._draw_moves(state, applied)
        return True

    def _cost(self, parent: State, state: State, applied: Change, is_local: bool) -> Cost:
        assert state.graph is not None
        assert parent.graph is not None
        assert parent.cost is not None
        if not self.additive or not is_local:
            return self.roofline.cost(state.graph, memory=self.needs_memory)
        affected = self.prices.affected(state.graph, applied.added, applied.rewired)
        after = self.prices.total(state.graph, (*applied.added, *affected), state.free)
        return changed(parent.cost, self.prices.total(parent.graph, (*applied.removed, *affected), parent.free), after)

    def _draw_moves(self, state: State, applied: Change | None) -> None:
        """The moves of a state: its parent's that the change did not touch, and those around the change."""
        graph = state.graph
        assert graph is not None
        free = state.free
        around = [node for node in graph.network if node not in free] if applied is None else [n for n in applied.touched if n not in free]
        if applied is not None and state.parent is not None:
            removed, changed_nodes = set(applied.removed), {*applied.removed, *applied.touched}
            state.moves = [
                move for move in state.parent.moves if changed_nodes.isdisjoint(move.match.nodes) and removed.isdisjoint(move.reads)
            ]
        if applied is not None:
            self._present = self._present.union(type(graph.operator(node)) for node in applied.touched)
        for number, match in self._index.find(Host(graph, self._marks, free), around, self._present):
            if not all(value.node in free for value in match.outputs):
                state.moves.append(Move(self._rules[number], match))


def _local_form(match: Match, graph: Graph, free: Collection[int]) -> Hashable:
    """Equal for matches that change the cost alike: operands count by type, by which of them are one, and by their users' operators.

    Where a rewrite would share what the graph computes already, equal forms may differ; the cost is exact once a graph is built.
    """
    numbers: dict[Value, int] = {}

    def seen(value: Any) -> Hashable:
        if not isinstance(value, Value):
            return str(value)
        if value.node in free:
            return graph.type(value)
        users = tuple(sorted(type(graph.operator(user)).__name__ for user in graph.network._adj[value.node]))
        return graph.type(value), numbers.setdefault(value, len(numbers)), type(graph.operator(value.node)).__name__, users

    bound = tuple((name, seen(value)) for name, value in match.bindings.items())
    outputs = tuple(sum(map(len, graph.network._adj[value.node].values())) for value in match.outputs)
    return match.rule, match.case, tuple(match.dims.items()), match.dtypes, bound, outputs, len(match.kept)
