"""The whole run: enumerate, shrink by what is kept, judge the rest, keep what holds."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rewrites.generator.classes import ClassIndex
from rewrites.generator.enumeration import Enumeration, Equation, Growth
from rewrites.generator.generalisation import HEADER, Candidate, Discovered, rule_from_text
from rewrites.generator.judging import Court, Judge, Judgement, Judgements
from rewrites.generator.shrinking import Shrinking
from rewrites.generator.terms import Term, TermBank
from rewrites.generator.vocabulary import OPERATIONS, SORTS, Operation, Source, chosen
from rewrites.rule import Rule


@dataclass
class Findings:
    """What a run found: kept rules with their judgement, how many equations were derived, wrong ones with a sample of why."""

    growth: list[Growth] = field(default_factory=list)
    kept: list[tuple[Discovered, Judgement]] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    """The candidates of the kept rules, in the same order."""
    equations: list[Equation] = field(default_factory=list)
    """What the kept rules say of the vocabulary's operations."""
    raw: int = 0
    derived: int = 0
    no_rule: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)
    pending: int = 0
    superseded: int = 0
    """Rules kept at first that later, more general ones derive."""
    stopped: str = ""
    """Why the enumeration ended early, in a sentence."""
    judged: int = 0
    judging: float = 0.0
    """How many texts were judged, and the processor seconds that took, whichever run it was."""

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
            {
                "name": found.name,
                "law": found.rule.statement(),
                "sides": [[str(term) for term in side] for side in (candidate.left, candidate.right)],
                "status": judgement.status,
                "conditions": list(found.conditions),
                "source": found.text,
            }
            for (found, judgement), candidate in zip(self.kept, self.candidates, strict=True)
        ]
        return {
            "rules": rules,
            "equations": [[str(left), str(right)] for left, right in self.equations],
            "growth": [asdict(growth) for growth in self.growth],
            "raw": self.raw,
            "derived": self.derived,
            "superseded": self.superseded,
            "not_rules": self.no_rule,
            "wrong": dict(self.wrong),
            "wrong_samples": self.samples,
            "pending": self.pending,
            "stopped": self.stopped,
            "judged": self.judged,
            "judging": self.judging,
        }

    @staticmethod
    def from_json(found: dict[str, Any]) -> Findings:
        """The findings that were written so. Assumes: the text of each rule may be run, as a rule file is."""
        bank = TermBank()
        result = Findings([Growth(**growth) for growth in found["growth"]])
        for entry in found["rules"]:
            rule = rule_from_text(entry["name"], entry["source"])
            kept = Discovered(entry["name"], rule, entry["source"], tuple(entry["conditions"]), rule.bidirectional)
            result.kept.append((kept, Judgement(True, entry["status"])))
            result.candidates.append(Candidate(*(tuple(map(bank.read, side)) for side in entry["sides"])))
        result.equations = [(bank.read(left), bank.read(right)) for left, right in found["equations"]]
        terms = [term for candidate in result.candidates for pair in candidate.equations for term in pair]
        terms += [term for equation in result.equations for term in equation]
        names = {part.operation for term in terms for part in term if not part.is_input}
        chosen(name.split("_")[0] for name in names - OPERATIONS.keys())
        result.raw, result.derived, result.no_rule = found["raw"], found["derived"], found["not_rules"]
        result.wrong, result.samples = Counter(found["wrong"]), found["wrong_samples"]
        result.pending, result.superseded, result.stopped = found["pending"], found["superseded"], found["stopped"]
        result.judged, result.judging = found["judged"], found["judging"]
        return result


@dataclass
class Discovery:
    """One run of discovery over the operations and sources, up to `most_operations` a side.

    `state` is a file in which judgements are kept as they come: a run with the same file goes on where the last one stopped. `most_classes`
    is how many classes are held in memory before the rest goes to disk; `most_memory` (bytes) ends the enumeration with a sentence.
    """

    operations: Sequence[Operation]
    sources: Sequence[Source]
    judge: Judge
    most_operations: int = 3
    rounds: int = 2
    executor: Executor | None = None
    confirm: Judge | None = None
    """A stricter judge of what is kept in the end."""
    state: Path | None = None
    most_classes: int = 4_000_000
    most_memory: int | None = None
    occurs: Callable[[Term], bool] | None = None
    """Which terms may be patterns; all where it is left out."""
    report: Callable[[str, int, int], None] = lambda what, done, total: None

    def run(self) -> Findings:
        """Enumerate, shrink and judge; on KeyboardInterrupt what was found so far."""
        findings = Findings()
        judgements = Judgements(self.state)
        enumeration = Enumeration(self.operations, self.sources, index=ClassIndex(self.most_classes), most_memory=self.most_memory)
        court = Court(self.judge, judgements, self.executor, self.confirm)
        try:
            candidates = list(self._candidates(enumeration, findings))
            shrinking = Shrinking(candidates, court, enumeration.bank, self.rounds, _digest(candidates), self.report)
            findings.raw = findings.pending = len(candidates)
            try:
                shrinking.run()
                findings.superseded = shrinking.supersede()
            finally:
                _note(shrinking, findings)
                findings.judged, findings.judging = len(court.seconds), sum(court.seconds.values())
        except KeyboardInterrupt:
            findings.stopped = findings.stopped or "interrupted"
        finally:
            judgements.close()
        return findings

    def _candidates(self, enumeration: Enumeration, findings: Findings) -> Iterator[Candidate]:
        for level in range(1, self.most_operations + 1):
            last = level == self.most_operations
            growth = enumeration.level(last, lambda done, level=level: self.report(f"terms of {level} operations", done, 0))  # type: ignore[misc]
            findings.growth.append(growth)
            if enumeration.stopped:
                findings.stopped = enumeration.stopped
                break
        found = [self._oriented(left, right) for left, right in enumeration.equations.values()]
        candidates = [candidate for candidate in found if candidate is not None]
        findings.no_rule += len(found) - len(candidates)
        for parts in enumeration.split_parts.values():
            if len(parts) == 2:
                (first, first_part), (second, second_part) = parts["first"], parts["second"]
                if self._may_occur(first, second):
                    candidates.append(Candidate((first, second), (first_part, second_part)))
        yield from sorted(candidates, key=self._generality)

    def _may_occur(self, *terms: Term) -> bool:
        return self.occurs is None or all(term.is_input or self.occurs(term) for term in terms)

    def _oriented(self, left: Term, right: Term) -> Candidate | None:
        """The pair with a side that binds every input, and may occur, as the pattern; None when neither does.

        Of two such sides the one with fewer operations on weights alone: in a model they are one constant, and nothing would match.
        """
        able = [
            Candidate((pattern,), (replacement,))
            for pattern, replacement in ((right, left), (left, right))
            if set(replacement.inputs) <= set(pattern.inputs) and not pattern.is_input and self._may_occur(pattern)
        ]
        return min(able, key=lambda candidate: _on_weights(candidate.left[0]), default=None)

    def _generality(self, candidate: Candidate) -> tuple[Any, ...]:
        """Small first; of one size the most general first, then what speaks of activations."""
        weights = {source.name[0] for source in self.sources if source.weight}
        inputs = candidate.inputs
        return candidate.size, -len(inputs), sum(name[0] in weights for name in inputs), str(candidate)


def _digest(candidates: Sequence[Candidate]) -> str:
    return hashlib.blake2b("\n".join(map(str, candidates)).encode(), digest_size=16).hexdigest()


def _on_weights(term: Term) -> int:
    """How many operations of the term are on weights alone."""
    return sum(not part.is_input and all(SORTS[name[0]].weight for name in part.inputs) for part in term)


def _note(shrinking: Shrinking, findings: Findings) -> None:
    findings.candidates = [candidate for candidate, _, _ in shrinking.kept]
    findings.kept = [(found, judgement) for _, found, judgement in shrinking.kept]
    findings.equations = shrinking.equations
    findings.derived, findings.pending = shrinking.derived, shrinking.pending
    for candidate, judgement in shrinking.rejected:
        findings.wrong[judgement.status] += 1
        findings.samples.setdefault(judgement.status, f"{candidate}: {judgement.reason}")
