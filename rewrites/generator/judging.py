"""Judging candidates: each is written as generally as it can be, conditions are added where it fails; judgements are kept in a file.

The judge (the verifier, in the command line) is given: rules do not know who verifies them. An executor judges all candidates of a batch at
once; what is kept does not depend on the number of workers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rewrites.generator.generalisation import HEADER, Candidate, Discovered, Openness, law_name, openness_of, rule_of
from rewrites.generator.vocabulary import SORTS
from rewrites.rule import Change
from rewrites.signature import RuleDefinitionError


@dataclass(frozen=True)
class Judgement:
    """What the judge says of one rule: whether it may be kept, the verdict's word, why not, and the processor seconds that it took."""

    holds: bool
    status: str
    reason: str = ""
    seconds: float = 0.0


Judge = Callable[[str, str], Judgement]
"""From a rule's name and Python text to a judgement; must be picklable for executors of processes."""
Judged = tuple[Discovered | None, Judgement]
_Attempts = Generator[Discovered, Judgement, Judged]
NO_RULE = Judgement(False, "not a rule", "it cannot be written over general shapes")


class Judgements:
    """Judgements by the rule's text, and what became of candidates; with a file both are kept as they come, for later runs."""

    def __init__(self, file: Path | None = None) -> None:
        self._known: dict[str, Judgement] = {}
        self._file = None if file is None else sqlite3.connect(file, timeout=60.0)
        if self._file is not None:
            try:
                self._file.executescript(
                    "PRAGMA journal_mode = WAL;"
                    "CREATE TABLE IF NOT EXISTS judged (text TEXT PRIMARY KEY, holds INTEGER, status TEXT, reason TEXT, seconds REAL);"
                    "CREATE TABLE IF NOT EXISTS settled (run TEXT, candidate TEXT, how TEXT, PRIMARY KEY (run, candidate))"
                )
                rows = list(self._file.execute("SELECT text, holds, status, reason, seconds FROM judged"))
            except sqlite3.DatabaseError as error:
                raise ValueError(f"{file}: must be a file that discovery wrote, got {error}") from error
            self._known = {text: Judgement(bool(holds), *rest) for text, holds, *rest in rows}

    def get(self, text: str) -> Judgement | None:
        """What was judged of this text."""
        return self._known.get(text)

    def keep(self, found: Mapping[str, Judgement]) -> None:
        """Note judgements."""
        self._known.update(found)
        if self._file is not None and found:
            rows = [(text, j.holds, j.status, j.reason, j.seconds) for text, j in found.items()]
            self._file.executemany("INSERT OR REPLACE INTO judged VALUES (?, ?, ?, ?, ?)", rows)
            self._file.commit()

    def settled(self, run: str) -> dict[str, str]:
        """What became of candidates in earlier runs of this kind."""
        if self._file is None:
            return {}
        return dict(self._file.execute("SELECT candidate, how FROM settled WHERE run = ?", (run,)))

    def settle(self, run: str, how: Mapping[str, str]) -> None:
        """Note what became of candidates."""
        if self._file is not None and how:
            self._file.executemany("INSERT OR REPLACE INTO settled VALUES (?, ?, ?)", [(run, *pair) for pair in how.items()])
            self._file.commit()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


@dataclass
class Court:
    """Asks the judge, each text once, by an executor where there is one."""

    judge: Judge
    judgements: Judgements
    executor: Executor | None = None
    confirm: Judge | None = None
    """A second, stricter judge of what is kept in the end."""
    seconds: dict[str, float] = field(default_factory=dict)
    """The processor seconds that judging each text took, in this run or in the one that judged it."""

    def general(self, candidates: Sequence[Candidate], taken: Mapping[str, Any]) -> list[Judged]:
        """Each candidate at its most general."""
        return self._run([self._most_general(candidate, name) for candidate, name in _named(candidates, taken)])

    def conditional(self, candidates: Sequence[Candidate], taken: Mapping[str, Any]) -> list[Judged]:
        """Each candidate with as few conditions as it needs, where it holds with any."""
        return self._run([self._with_conditions(candidate, name) for candidate, name in _named(candidates, taken)])

    def both_ways(self, kept: Sequence[tuple[Discovered, Judgement]]) -> list[tuple[Discovered, Judgement]]:
        """The rules, those that hold from right to left as well written so."""
        wider = {found.name: found.both_ways() for found, _ in kept if found.reversible}
        judged = self._judged(list(wider.values()))
        result = []
        for found, judgement in kept:
            both = wider.get(found.name)
            result.append((both, judged[both.text]) if both is not None and judged[both.text].holds else (found, judgement))
        return result

    def confirmed(self, kept: Sequence[Discovered]) -> list[Judged]:
        """What the second judge says of kept rules; a change in floating point that only it has seen is declared."""
        return self._run([_settled(found) for found in kept], self.confirm)

    def _most_general(self, candidate: Candidate, name: str) -> _Attempts:
        return (yield from _declared(candidate, name, openness_of(candidate)))

    def _with_conditions(self, candidate: Candidate, name: str) -> _Attempts:
        """Everything fixed first; then what can be opened is, one thing after the other."""
        general = openness_of(candidate)
        openness = general.closed()
        best = yield from _declared(candidate, name, openness)
        if best[1].holds:
            for what in openness.openings(general):
                wider = openness.opened(what)
                found = yield from _declared(candidate, name, wider)
                if found[1].holds:
                    best, openness = found, wider
        return best

    def _run(self, attempts: Sequence[_Attempts], judge: Judge | None = None) -> list[Judged]:
        """All attempts in step: what they ask next is judged together."""
        results: dict[int, Judged] = {}
        asked: dict[int, Discovered] = {}

        def proceed(number: int, judgement: Judgement | None) -> None:
            try:
                asked[number] = next(attempts[number]) if judgement is None else attempts[number].send(judgement)
            except StopIteration as end:
                results[number] = end.value

        for number in range(len(attempts)):
            proceed(number, None)
        while asked:
            now, judged = dict(asked), self._judged(list(asked.values()), judge)
            asked.clear()
            for number, discovered in now.items():
                proceed(number, judged[discovered.text])
        return [results[number] for number in range(len(attempts))]

    def _judged(self, attempts: Sequence[Discovered], judge: Judge | None = None) -> dict[str, Judgement]:
        key = {a.text: ("" if judge is None else "# confirmed\n") + a.text.replace(f"class {a.name}(", "class Law(") for a in attempts}
        fresh = list({a.text: a for a in attempts if self.judgements.get(key[a.text]) is None}.values())
        call: Callable[..., Iterable[Judgement]] = self.executor.map if self.executor is not None else map
        found = call(judge or self.judge, [a.name for a in fresh], [f"{HEADER}\n\n{a.text}\n" for a in fresh])
        self.judgements.keep(dict(zip((key[a.text] for a in fresh), found, strict=True)))
        judged = {attempt.text: self.judgements.get(key[attempt.text]) for attempt in attempts}
        known = {text: judgement for text, judgement in judged.items() if judgement is not None}
        self.seconds |= {key[text]: judgement.seconds for text, judgement in known.items()}
        return known


def _declared(candidate: Candidate, name: str, openness: Openness) -> _Attempts:
    """The candidate so written, declaring those changes in floating point for which it is refuted."""
    attempt = _written(candidate, name, openness)
    if attempt is None:
        return None, NO_RULE
    judgement = yield attempt
    if judgement.reason.startswith(("shape: ", "error: ")):
        openness = replace(openness, agreeing=True)
        attempt = _written(candidate, name, openness) or attempt
        judgement = yield attempt
    if judgement.reason.startswith("error: ") and any(SORTS[name[0]].weight for name in candidate.inputs):
        attempt = _written(candidate, name, replace(openness, filled=True)) or attempt  # PyTorch refuses to convolve with nothing
        judgement = yield attempt
    return (yield from _allowing(attempt, judgement))


def _settled(attempt: Discovered) -> _Attempts:
    judgement = yield attempt
    return (yield from _allowing(attempt, judgement))


def _allowing(attempt: Discovered, judgement: Judgement) -> _Attempts:
    """The rule, declaring those changes in floating point for which it is refuted."""
    while (change := _undeclared(attempt, judgement)) is not None:
        attempt = attempt.allowing(change)
        judgement = yield attempt
    return attempt, judgement


def _written(candidate: Candidate, name: str, openness: Openness) -> Discovered | None:
    """The candidate so written; None where it cannot be."""
    try:
        return rule_of(candidate, name, openness)
    except (RuleDefinitionError, ValueError, TypeError):
        return None  # it cannot be written so; a closer one may


def _undeclared(attempt: Discovered, judgement: Judgement) -> Change | None:
    """The change in floating point for which the rule was refuted, when it has not declared it."""
    if judgement.holds:
        return None
    return next((c for c in Change if judgement.reason.startswith(c.value) and c not in attempt.rule.equality.changes), None)


def _named(candidates: Sequence[Candidate], taken: Mapping[str, Any]) -> list[tuple[Candidate, str]]:
    names: dict[str, Any] = dict(taken)
    found = []
    for candidate in candidates:
        name = law_name(candidate, names)
        names[name] = candidate
        found.append((candidate, name))
    return found
