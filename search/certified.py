"""Which rules the search may use: those with a valid certificate for exactly their content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from graphs.trace import TraceError
from rewrites.patterns import sketches
from rewrites.rule import Rule
from search.result import Refusal

Certified: TypeAlias = Mapping[type[Rule], str] | Callable[[type[Rule]], str | None]
"""From a rule to the name of its certificate; None, or no entry, where there is none."""


@dataclass(frozen=True)
class Admitted:
    """A rule with the certificate under which it is used."""

    rule: type[Rule]
    certificate: str


def admit(rules: Iterable[type[Rule]], certified: Certified) -> tuple[list[Admitted], list[Refusal]]:
    """The rules with a certificate that can be traced, in order; and a refusal for each of the others."""
    admitted: list[Admitted] = []
    refused: list[Refusal] = []
    for rule in rules:
        certificate = certified.get(rule) if isinstance(certified, Mapping) else certified(rule)
        problem = "no valid certificate for this content of the rule; run `rewright verify` on it" if not certificate else _flaw(rule)
        if certificate and problem is None:
            admitted.append(Admitted(rule, certificate))
        else:
            refused.append(Refusal(rule.__name__, str(problem)))
    return admitted, refused


def _flaw(rule: type[Rule]) -> str | None:
    """Why the rule cannot be matched, if so."""
    try:
        sketches(rule)
    except TraceError as error:
        return f"cannot be traced: {error}"
    return None
