"""What a search hands back: the graph, and every step with its place, its cost and its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from costs.roofline import Cost
from graphs.graph import Graph


@dataclass(frozen=True)
class Step:
    """One application of one rule.

    place: the operators it replaced, by node number and name in the graph at that moment   certificate: the evidence for the rule
    cost_before, cost_after: of the whole graph   regression: the step alone made the objective worse
    """

    rule: str
    place: str
    cost_before: Cost
    cost_after: Cost
    regression: bool
    certificate: str

    def as_dict(self) -> dict[str, Any]:
        """The step as it is written to JSON."""
        return {
            "rule": self.rule,
            "place": self.place,
            "cost_before": self.cost_before.as_dict(),
            "cost_after": self.cost_after.as_dict(),
            "regression": self.regression,
            "certificate": self.certificate,
        }


@dataclass(frozen=True)
class Refusal:
    """A rule that the search does not use, and why."""

    rule: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason}"


@dataclass
class SearchResult:
    """The best graph found, and how.

    max_error: the largest error against the original on drawn inputs, by arithmetic ("float64", "native"), relative to the
    largest magnitude of each output   complete: the search ended by itself, not by its budget or an interruption
    candidates: graphs whose cost was evaluated   unfolded: the graph before its constants were computed, if a better one was found
    """

    graph: Graph
    before: Cost
    after: Cost
    steps: Sequence[Step]
    refused: Sequence[Refusal] = ()
    max_error: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    expanded: int = 0
    candidates: int = 0
    complete: bool = True
    interrupted: bool = False
    unfolded: Graph | None = None

    @property
    def gain(self) -> float:
        """How many times less time the result takes, by the cost model."""
        return self.before.time / self.after.time if self.after.time else 1.0

    def as_dict(self) -> dict[str, Any]:
        """The result as it is written to JSON."""
        return {
            "before": self.before.as_dict(),
            "after": self.after.as_dict(),
            "steps": [step.as_dict() for step in self.steps],
            "max_error": self.max_error,
            "seconds": self.seconds,
        }
