"""Which rules an optimisation may use: those that could fire in its graph, each under a certificate for exactly its content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from graphs.graph import Graph
from operators.sources import Constant, Input, Scalar
from rewrites.cases import cases, trace_case
from rewrites.library import library
from rewrites.reverse import reverse

if TYPE_CHECKING:
    from rewrites.rule import Rule
    from verifier.verdict import Verdict

Kinds = frozenset[str]
_EVERYWHERE = frozenset({Input.__name__, Constant.__name__, Scalar.__name__, "Full"})


def usable_rules(rules: Iterable[type[Rule]] | None = None) -> list[type[Rule]]:
    """The rules given, or the library; each bidirectional rule is followed by its reverse, a rule of its own to the verifier."""
    result: list[type[Rule]] = []
    for rule in library() if rules is None else rules:
        result.append(rule)
        if rule.bidirectional:
            result.append(reverse(rule))
    return result


def relevant(rules: Sequence[type[Rule]], graph: Graph) -> tuple[list[type[Rule]], list[str]]:
    """The rules whose operators the graph has, or may come to have by other relevant rules; the others cannot ever fire.

    Also a sentence for each rule whose functions raise when they are traced: such a rule is left out, whatever it raises.
    """
    present = {type(graph.operator(node)).__name__ for node in graph.network} | _EVERYWHERE
    sides: dict[type[Rule], set[tuple[Kinds, Kinds]]] = {}
    unusable: list[str] = []
    for rule in rules:
        try:
            sides[rule] = _sides(rule)  # type: ignore[arg-type]
        except Exception as error:
            unusable.append(f"{rule.__name__}: cannot be traced: {type(error).__name__}: {' '.join(str(error).split())}")
    chosen: set[type[Rule]] = set()
    growing = True
    while growing:
        growing = False
        for rule, variants in sides.items():
            for pattern, replacement in variants:
                if pattern <= present and not (rule in chosen and replacement <= present):
                    chosen.add(rule)
                    present |= replacement
                    growing = True
    return [rule for rule in rules if rule in chosen], unusable


@cache
def _sides(rule: type[Rule]) -> set[tuple[Kinds, Kinds]]:
    """For each case of the rule, the operators of its pattern and of its replacement."""
    found = set()
    for case in cases(rule, ranks=(1,)):
        traced = trace_case(rule, case)
        found.add((_kinds(traced.pattern), _kinds(traced.replacement)))
    return found


def _kinds(graph: Graph) -> Kinds:
    return frozenset(type(graph.operator(node)).__name__ for node in graph.network)


@dataclass
class Certification:
    """Looks certificates up, and verifies rules that have none yet; `verdicts` is what it found.

    Calling it with a rule gives the name of its certificate, or None for a rule that does not hold; `tell` hears of each rule first.
    """

    verify: Callable[[type[Rule]], Verdict]
    require_proof: bool = False
    tell: Callable[[str], None] = lambda name: None
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def __call__(self, rule: type[Rule]) -> str | None:
        self.tell(rule.__name__)
        verdict = self.verify(rule)
        self.verdicts[rule.__name__] = verdict
        usable = verdict.status.value == "PROVED" if self.require_proof else verdict.holds
        return verdict.content if usable else None
