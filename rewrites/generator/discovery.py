"""The whole run: enumerate, shrink by what is kept, judge the rest, keep what holds.

The judge (the verifier, in the command line) is given: rules do not know who verifies them. Candidates are judged in batches of fixed
size by an
executor, so that the result does not depend on the number of workers.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rewrites.generator.derivation import EGraph, derivable, saturate
from rewrites.generator.enumeration import ClassIndex, Enumeration, Equation, Growth
from rewrites.generator.generalisation import HEADER, Candidate, Discovered, generalisations, law_name, rule_of
from rewrites.generator.terms import Term
from rewrites.generator.vocabulary import Operation, Source
from rewrites.rule import Change, Rule
from rewrites.signature import RuleDefinitionError

_BATCH = 16


@dataclass(frozen=True)
class Judgement:
    """What the judge says of one rule: whether it may be kept, the verdict's word, why not."""

    holds: bool
    status: str
    reason: str = ""


Judge = Callable[[str, str], Judgement]
"""From a rule's name and Python text to a judgement; must be picklable for executors of processes."""


@dataclass
class Findings:
    """What a run found: kept rules with their judgement, how many equations were derived, wrong ones with a sample of why."""

    growth: list[Growth] = field(default_factory=list)
    kept: list[tuple[Discovered, Judgement]] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    """The candidates of the kept rules, in the same order."""
    equations: list[Equation] = field(default_factory=list)
    raw: int = 0
    derived: int = 0
    no_rule: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)
    pending: int = 0
    superseded: int = 0
    """Rules kept at first that later, more general ones derive."""

    @property
    def rules(self) -> list[type[Rule]]:
        return [found.rule for found, _ in self.kept]

    def source(self) -> str:
        """Every kept rule as a Python file."""
        parts = [f"# {judgement.status}\n{found.text}\n" for found, judgement in self.kept]
        return "\n\n".join([HEADER, *parts])

    def to_json(self) -> dict[str, Any]:
        """The findings as plain data."""
        rules = [
            {"name": d.name, "law": d.rule.statement(), "status": j.status, "conditions": list(d.conditions), "source": d.text}
            for d, j in self.kept
        ]
        return {
            "rules": rules,
            "growth": [asdict(growth) for growth in self.growth],
            "raw": self.raw,
            "derived": self.derived,
            "superseded": self.superseded,
            "not_rules": self.no_rule,
            "wrong": dict(self.wrong),
            "wrong_samples": self.samples,
            "pending": self.pending,
        }


@dataclass
class Discovery:
    """One run of discovery over the operations and sources, up to `most_operations` a side.

    `state` is a file in which finished levels and judgements are kept: a run with the same file goes on where the last one stopped.
    """

    operations: Sequence[Operation]
    sources: Sequence[Source]
    judge: Judge
    most_operations: int = 3
    rounds: int = 2
    executor: Executor | None = None
    state: Path | None = None
    most_classes: int = 4_000_000
    report: Callable[[str, int, int], None] = lambda what, done, total: None

    def run(self) -> Findings:
        """Enumerate, shrink and judge; on KeyboardInterrupt what was found so far."""
        findings = Findings()
        judged = self._load()
        try:
            candidates = list(self._candidates(findings))
            findings.raw = len(candidates)
            self._shrink(candidates, findings, judged)
            self._supersede(findings)
        except KeyboardInterrupt:
            pass
        finally:
            self._save(judged)
        return findings

    def _candidates(self, findings: Findings) -> Iterator[Candidate]:
        enumeration = Enumeration(self.operations, self.sources, index=ClassIndex(self.most_classes))
        for level in range(1, self.most_operations + 1):
            last = level == self.most_operations
            growth = enumeration.level(last, lambda done, level=level: self.report(f"terms of {level} operations", done, 0))  # type: ignore[misc]
            findings.growth.append(growth)
        found = [_oriented(left, right) for left, right in enumeration.equations.values()]
        candidates = [candidate for candidate in found if candidate is not None]
        findings.no_rule += len(found) - len(candidates)
        for parts in enumeration.split_parts.values():
            if len(parts) == 2:
                (first, first_part), (second, second_part) = parts["first"], parts["second"]
                candidates.append(Candidate((first, second), (first_part, second_part)))
        yield from sorted(candidates, key=self._generality)

    def _generality(self, candidate: Candidate) -> tuple[Any, ...]:
        """Small first; of one size the most general first, then what speaks of activations."""
        weights = {source.name[0] for source in self.sources if source.weight}
        inputs = candidate.inputs
        return candidate.size, -len(inputs), sum(name[0] in weights for name in inputs), str(candidate)

    def _shrink(self, candidates: Sequence[Candidate], findings: Findings, judged: dict[str, Judgement]) -> None:
        graph = EGraph()
        ends = [[(graph.add(a), graph.add(b)) for a, b in zip(c.left, c.right, strict=True)] for c in candidates]
        remaining = list(range(len(candidates)))
        sources = {source.name: source for source in self.sources}
        names: dict[str, Any] = {}
        total = len(candidates)
        size = (0, 0)
        while remaining:
            if candidates[remaining[0]].size != size:
                size = candidates[remaining[0]].size
                saturate(graph, findings.equations, self.rounds)
            batch = [i for i in remaining[:_BATCH] if candidates[i].size == size]
            results = self._judged([candidates[i] for i in batch], sources, names, judged)
            for index, (found, judgement) in zip(batch, results, strict=True):
                candidate = candidates[index]
                if all(graph.find(a) == graph.find(b) for a, b in ends[index]):
                    findings.derived += 1
                elif found is not None and judgement.holds:
                    findings.kept.append((found, judgement))
                    findings.candidates.append(candidate)
                    names[found.name] = found
                    findings.equations += _equations(candidate)
                    saturate(graph, _equations(candidate), self.rounds)
                else:
                    findings.wrong[judgement.status] += 1
                    findings.samples.setdefault(judgement.status, f"{candidate}: {judgement.reason}")
            done = set(batch)
            before = len(remaining)
            remaining = [i for i in remaining if i not in done and any(graph.find(a) != graph.find(b) for a, b in ends[i])]
            findings.derived += before - len(remaining) - len(batch)
            findings.pending = len(remaining)
            self.report("candidates", total - len(remaining), total)

    def _supersede(self, findings: Findings) -> None:
        """Drop kept rules that the other kept ones derive: special cases that were met before the general law."""
        standing = set(range(len(findings.kept)))
        for index in sorted(standing, key=lambda i: len(findings.candidates[i].inputs)):
            others = [e for i in sorted(standing - {index}) for e in _equations(findings.candidates[i])]
            if all(derivable(equation, others, self.rounds) for equation in _equations(findings.candidates[index])):
                standing.remove(index)
        findings.superseded = len(findings.kept) - len(standing)
        findings.kept = [findings.kept[i] for i in sorted(standing)]
        findings.candidates = [findings.candidates[i] for i in sorted(standing)]
        findings.equations = [equation for candidate in findings.candidates for equation in _equations(candidate)]

    def _judged(
        self, batch: Sequence[Candidate], sources: Mapping[str, Source], names: Mapping[str, Any], judged: dict[str, Judgement]
    ) -> list[tuple[Discovered | None, Judgement]]:
        results: list[tuple[Discovered | None, Judgement]] = []
        taken = dict(names)
        attempts: list[list[Discovered]] = []
        for candidate in batch:
            name = law_name(candidate, taken)
            taken[name] = candidate
            attempts.append(list(_attempts(candidate, sources, name)))
        verdicts = self._map([attempt for found in attempts for attempt in found[:1]], judged)
        for found in attempts:
            best: tuple[Discovered | None, Judgement] = (None, Judgement(False, "not a rule", "it cannot be written over general shapes"))
            for attempt in found:
                judgement = verdicts.get(attempt.text) or self._map([attempt], judged)[attempt.text]
                while (change := _undeclared(attempt, judgement)) is not None:
                    attempt = attempt.allowing(change)
                    judgement = self._map([attempt], judged)[attempt.text]
                if best[0] is None or judgement.holds:
                    best = attempt, judgement
                if judgement.holds:
                    break
            results.append(best)
        return results

    def _map(self, attempts: Sequence[Discovered], judged: dict[str, Judgement]) -> dict[str, Judgement]:
        fresh = [attempt for attempt in attempts if attempt.text not in judged]
        texts = [_file_of(attempt) for attempt in fresh]
        call: Callable[..., Iterable[Judgement]] = self.executor.map if self.executor is not None else map
        for attempt, judgement in zip(fresh, call(self.judge, [a.name for a in fresh], texts), strict=True):
            judged[attempt.text] = judgement
        return {attempt.text: judged[attempt.text] for attempt in attempts}

    def _load(self) -> dict[str, Judgement]:
        if self.state is None or not self.state.exists():
            return {}
        kept = json.loads(self.state.read_text())
        return {text: Judgement(**judgement) for text, judgement in kept["judged"].items()}

    def _save(self, judged: Mapping[str, Judgement]) -> None:
        if self.state is not None:
            beside = self.state.with_suffix(".new")
            beside.write_text(json.dumps({"judged": {text: asdict(judgement) for text, judgement in judged.items()}}))
            os.replace(beside, self.state)


def _equations(candidate: Candidate) -> list[Equation]:
    return list(zip(candidate.left, candidate.right, strict=True))


def _file_of(discovered: Discovered) -> str:
    return f"{HEADER}\n\n{discovered.text}\n"


def _attempts(candidate: Candidate, sources: Mapping[str, Source], name: str) -> Iterator[Discovered]:
    for attributes, fixed in generalisations(candidate):
        try:
            yield rule_of(candidate, sources, name, attributes, fixed)
        except (RuleDefinitionError, ValueError, TypeError):
            continue  # this generalisation cannot be written as a rule; the next may


def _undeclared(attempt: Discovered, judgement: Judgement) -> Change | None:
    """The change in floating point for which the rule was refuted, when it has not declared it."""
    if judgement.holds:
        return None
    return next((c for c in Change if judgement.reason.startswith(c.value) and c not in attempt.rule.equality.changes), None)


def _oriented(left: Term, right: Term) -> Candidate | None:
    """The pair with the side that binds every input as the pattern; None when neither does."""
    for pattern, replacement in ((right, left), (left, right)):
        if set(replacement.inputs) <= set(pattern.inputs) and not pattern.is_input:
            return Candidate((pattern,), (replacement,))
    return None
