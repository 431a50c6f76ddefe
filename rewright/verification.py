"""Verifying many rules: what is asked, the verdicts as entries of reports, the store they are kept in."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rewright.reports import Entry

if TYPE_CHECKING:
    from rewrites.rule import Rule
    from verifier.verdict import Verdict


@dataclass(frozen=True)
class Request:
    """How to verify: how many examples, how many seconds at most, from which seed, and whether stored verdicts count."""

    examples: int = 100
    timeout: float = 60.0
    seed: int = 0
    stored: bool = True

    def changed(self, **options: Any) -> Request:
        """The request with these options, where they are given."""
        return replace(self, **{name: value for name, value in options.items() if value is not None})


def verdict_of(rule: type[Rule], request: Request) -> Verdict:
    """The stored verdict of exactly this content, or a fresh one, which is then stored."""
    from verifier.verify import verify

    return verify(rule, examples=request.examples, timeout=request.timeout, seed=request.seed)


def entry_of(rule: type[Rule], verdict: Verdict) -> Entry:
    """A verdict as reports need it."""
    return Entry(verdict.to_json(), str(verdict), *place_of(rule))


def place_of(rule: type[Rule]) -> tuple[str, int]:
    """The file and line where a rule is written; no file for one that was made, not written."""
    try:
        return inspect.getsourcefile(rule) or "", inspect.getsourcelines(rule)[1]
    except (OSError, TypeError):
        return "", 1
