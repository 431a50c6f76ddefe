"""Which rules the search may use: those with a valid certificate for exactly their content."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from rewrites.patterns import sketches
from rewrites.rule import Rule
from search.result import Refusal

Certified: TypeAlias = Mapping[type[Rule], str] | Callable[[type[Rule]], str | None]
"""From a rule to the name of its certificate; None, or no entry, where there is none. A callable is asked only for rules in use."""

UNCERTIFIED = "no valid certificate for this content of the rule; run `rewright verify` on it"


@dataclass
class Waited:
    """The seconds that answers about certificates took: a rule without a stored certificate may be verified on the spot."""

    seconds: float = 0.0


@dataclass(eq=False)
class Admitted:
    """A rule with the certificate under which it is used, asked for when a result first uses the rule."""

    rule: type[Rule]
    ask: Callable[[type[Rule]], str | None]
    waited: Waited

    @cached_property
    def certificate(self) -> str:
        """The name of the certificate; empty where there is none."""
        started = time.perf_counter()
        answer = self.ask(self.rule) or ""
        self.waited.seconds += time.perf_counter() - started
        return answer

    @property
    def denied(self) -> bool:
        """A certificate was asked for, and there is none."""
        return self.__dict__.get("certificate") == ""


def admit(rules: Iterable[type[Rule]], certified: Certified, waited: Waited) -> tuple[list[Admitted], list[Refusal]]:
    """The rules that can be traced, in order, each with its certificate or the question for it; and a refusal for each other one."""
    admitted: list[Admitted] = []
    refused: list[Refusal] = []
    for rule in rules:
        entry = Admitted(rule, certified.get if isinstance(certified, Mapping) else certified, waited)
        problem = UNCERTIFIED if isinstance(certified, Mapping) and not entry.certificate else _flaw(rule)
        if problem is None:
            admitted.append(entry)
        else:
            refused.append(Refusal(rule.__name__, problem))
    return admitted, refused


def refusals(admitted: Iterable[Admitted]) -> list[Refusal]:
    """A refusal for each rule that a result would have used and that had no certificate."""
    return [Refusal(entry.rule.__name__, UNCERTIFIED) for entry in admitted if entry.denied]


def _flaw(rule: type[Rule]) -> str | None:
    """Why the rule cannot be matched, if so; whatever a rule's own functions raise is a reason."""
    try:
        sketches(rule)
    except Exception as error:
        return f"cannot be traced: {type(error).__name__}: {error}"
    return None
