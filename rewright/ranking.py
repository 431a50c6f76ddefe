"""Which rules lower the cost of a model: each alone, and all together, under certificates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rewright.certification import relevant, usable_rules

if TYPE_CHECKING:
    from costs.roofline import Cost
    from graphs.graph import Graph
    from rewrites.rule import Rule


@dataclass(frozen=True)
class Gain:
    """What one rule does to a model's cost: before, after the search with it alone, how often it was applied."""

    rule: type[Rule]
    model: str
    before: Cost
    after: Cost
    applications: int

    @property
    def share(self) -> float:
        """The share of the time that is saved."""
        return 1 - self.after.time / self.before.time


@dataclass(frozen=True)
class Together:
    """What all rules together do to a model's cost, and how often each was applied on the way."""

    model: str
    before: Cost
    after: Cost
    applications: Counter[str]


def gains(
    rules: Sequence[type[Rule]],
    model: str,
    graph: Graph,
    certified: Callable[[type[Rule]], str | None],
    *,
    device: str = "h100",
    kernels: str = "none",
    seconds: float = 5.0,
    expansions: int = 30,
) -> Iterator[Gain]:
    """The rules (and reverses of bidirectional ones) that lower the model's cost by themselves, in the order given.

    seconds: the search budget of one rule   expansions: graphs expanded for each distinct window
    """
    from search import search

    chosen, _ = relevant(usable_rules(rules), graph)
    for rule in chosen:
        if not _matches(rule, graph):
            continue
        found = search(graph, [rule], certified, device, kernels, seconds=seconds, expansions=expansions, check=False)
        own = sum(step.rule == rule.__name__ for step in found.steps)
        if own and found.after.time < found.before.time:
            yield Gain(rule, model, found.before, found.after, own)


def together(
    rules: Sequence[type[Rule]],
    model: str,
    graph: Graph,
    certified: Callable[[type[Rule]], str | None],
    *,
    device: str = "h100",
    kernels: str = "none",
    seconds: float = 30.0,
    expansions: int = 100,
) -> Together:
    """What the search makes of the model with all of the rules (and reverses of bidirectional ones); the result is checked on numbers."""
    from search import search

    chosen, _ = relevant(usable_rules(rules), graph)
    found = search(graph, chosen, certified, device, kernels, seconds=seconds, expansions=expansions)
    return Together(model, found.before, found.after, Counter(step.rule for step in found.steps))


def _matches(rule: type[Rule], graph: Graph) -> bool:
    from rewrites.match import find_matches

    return any(True for _ in find_matches(rule, graph))
