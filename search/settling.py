"""Rewrites that need no search: laws that never make a graph worse, applied wherever they match until none does.

What other tools write in many pieces (a batch norm as four pointwise operators, a hard-swish as four, permutations around all of
them) comes to one form in this way, however large the graph is, and the search starts from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from costs.difference import Prices
from costs.kernels import computed_from_constants, is_view
from costs.roofline import Roofline
from graphs.graph import Graph, Value
from graphs.passes import merge_common_subexpressions
from operators.layout import Permute
from operators.sources import Scalar
from rewrites.apply import RewriteError, apply_in_place
from rewrites.host import Host
from rewrites.match import Match, find_matches
from rewrites.patterns import sketches
from rewrites.rule import Rule
from search.certified import Admitted

ROUNDS = 400


@dataclass
class Settled:
    """What settling did: (rule, place, certificate) of every rewrite in order; the rules that had no certificate; whether all was done."""

    steps: list[tuple[str, str, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    complete: bool = True


def settle(
    graph: Graph,
    rules: Sequence[Admitted],
    out_of_time: Callable[[], bool] = lambda: False,
    omitted: Collection[type[Rule]] = (),
    tried: Collection[type[Rule]] = (),
    roofline: Roofline | None = None,
    after_round: Callable[[Graph, Settled], None] = lambda graph, settled: None,
) -> Settled:
    """Apply the rules marked `settles`, and those of `tried`, to the graph itself, wherever they match, until none does.

    omitted: rules to leave out   roofline: rules of `tried` are applied only where it does not say that they cost time
    after_round: hears of the graph each time that rules were applied all over it
    Rules are asked for their certificates when they first match; a rule without one is left out.
    """
    found = Settled()
    chosen = [entry for entry in rules if (entry.rule.settles and entry.rule not in omitted) or entry.rule in tried]
    around: set[int] | None = None
    for _ in range(ROUNDS):
        matches = _matches(graph, chosen, around)
        touched: set[int] = set()
        postponed: set[int] = set()
        for entry, match in matches:
            if out_of_time():
                found.complete = False
                break
            if entry.denied:
                continue
            if not touched.isdisjoint(_read(match)) or any(node not in graph.network for node in _read(match)):
                postponed.update(match.nodes)
                continue
            if not entry.certificate:
                found.refused.append(entry.rule.__name__)
                continue
            place = ", ".join(f"{type(graph.operator(node)).__name__} %{node}" for node in match.nodes)
            if roofline is not None and entry.rule in tried and not _pays(match, graph, roofline):
                continue
            try:
                applied = apply_in_place(match, graph)
            except RewriteError:
                continue
            touched.update(applied.touched, match.nodes)
            found.steps.append((entry.rule.__name__, place, entry.certificate))
        merged = merge_common_subexpressions(graph) if touched else 0
        if touched:
            after_round(graph, found)
        around = {node for node in touched | postponed if node in graph.network}
        if not around or not found.complete:
            return found
        if merged:  # what had several readers may have one now, for which a law that repeats no work was waiting
            around = None
    found.complete = False
    return found


def _matches(graph: Graph, rules: Sequence[Admitted], around: Collection[int] | None) -> list[tuple[Admitted, Match]]:
    """The matches that repeat no work, larger patterns first, in the order of the rules."""
    host = Host(graph)
    free = computed_from_constants(graph)
    found = [
        (entry, match)
        for entry in rules
        if not entry.denied
        for match in find_matches(entry.rule, host, around)
        if _repeats_nothing(graph, match, free)
    ]
    return sorted(found, key=lambda pair: -len(pair[1].nodes))


def _repeats_nothing(graph: Graph, match: Match, free: Collection[int]) -> bool:
    """Something runs with the model, and whatever stays alive beside the replacement does not, or moves no element."""
    return any(node not in free for node in match.nodes) and all(
        node in free or isinstance(graph.operator(node), Permute) for node in match.kept
    )


def _pays(match: Match, graph: Graph, roofline: Roofline) -> bool:
    """By the roofline, what the rewrite adds takes no longer than what it removes; views that it adds count nothing, as other laws may
    move them on, but a rewrite that only adds views of whole tensors changes nothing."""
    try:
        applied = apply_in_place(match, graph)
    except RewriteError:
        return False
    prices = Prices(roofline)
    affected = prices.affected(graph, applied.added, applied.rewired)
    moving = _moving(graph, applied.added)
    views = [node for node in applied.added if node not in moving]
    changes = not views or any(_is_part(graph, node) for node in views)
    after = prices.total(graph, (*moving, *_moving(graph, affected)), computed_from_constants(graph)).time
    applied.undo()
    before = prices.total(graph, (*applied.removed, *_moving(graph, affected)), computed_from_constants(graph)).time
    return after < before or (after == before and changes)


def _is_part(graph: Graph, view: int) -> bool:
    """The view has another type than what it is of."""
    operand = graph.operands(view)[0]
    return operand is None or graph.types(view)[0] != graph.type(operand)


def _moving(graph: Graph, nodes: Iterable[int]) -> list[int]:
    """The nodes that are no mere views."""
    return [node for node in nodes if not is_view(graph.operator(node))]


def _read(match: Match) -> set[int]:
    """The nodes that a match covers or reads."""
    return set(match.nodes) | {value.node for value in match.bindings.values() if isinstance(value, Value)}


def literals(rules: Sequence[Admitted]) -> set[float]:
    """The numbers that the rules' patterns name, other than whole ones."""
    found: set[float] = set()
    for entry in rules:
        for pattern in sketches(entry.rule):
            for node in pattern.nodes.values():
                if node.kind is Scalar:
                    ((_, value),) = node.fields
                    if isinstance(value, float) and not value.is_integer():
                        found.add(value)
    return found


__all__ = ["Settled", "literals", "settle"]
