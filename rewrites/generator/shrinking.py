"""From thousands of equations to a few laws: what kept laws derive is dropped, the rest is judged, smallest and most general first.

All candidates' terms stand in one e-graph, which every kept law saturates, so that whatever it derives is known at once
(Nandi et al. 2021). A law that holds under conditions derives less than it seems (of attributes at one value only). Therefore candidates
are first judged at their most general, and only what holds so derives; what does not is set aside, with all that follows from it, and
judged with conditions when nothing else is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rewrites.generator.derivation import EGraph, derivable, saturate
from rewrites.generator.enumeration import Equation
from rewrites.generator.generalisation import Candidate, Discovered
from rewrites.generator.judging import Court, Judged, Judgement
from rewrites.generator.terms import Term, TermBank
from rewrites.generator.variants import variants
from rewrites.generator.vocabulary import OPERATIONS

_BATCH = 16
_GROWTH = 2.5
"""All kept laws are applied to all terms again when there are so many times more of them; a new law is applied at once."""


_FOLLOWS = Judgement(False, "not judged", "it follows from kept laws and what is not kept")


class Ends:
    """The two sides of every candidate in one e-graph, saturated by laws as they come."""

    def __init__(self, candidates: Sequence[Candidate], rounds: int) -> None:
        self._graph, self._rounds = EGraph(), rounds
        self._ends = [[(self._graph.add(a), self._graph.add(b)) for a, b in candidate.equations] for candidate in candidates]
        self._laws: list[Equation] = []
        self._saturated = 0

    def add(self, laws: Sequence[Equation]) -> None:
        """Apply laws; all of them once more when there are many more than the last time."""
        self._laws += laws
        saturate(self._graph, laws, self._rounds)
        if len(self._laws) > _GROWTH * self._saturated:
            self._saturated = len(self._laws)
            saturate(self._graph, self._laws, 1)

    def meet(self, index: int) -> bool:
        """Whether the two sides of each output of the candidate have become equal."""
        return all(self._graph.find(a) == self._graph.find(b) for a, b in self._ends[index])


@dataclass
class Shrinking:
    """One pass after the other over the candidates; `kept`, `derived`, `rejected` are what came out so far.

    `rounds` is how often kept laws are applied one after the other when a candidate is derived. `kind` names runs with the same candidates:
    what the judgements' file says of them is taken as it is, so that an interrupted run goes on.
    """

    candidates: Sequence[Candidate]
    court: Court
    bank: TermBank
    rounds: int = 2
    kind: str = ""
    report: Callable[[str, int, int], None] = lambda what, done, total: None
    kept: list[tuple[Candidate, Discovered, Judgement]] = field(default_factory=list)
    rejected: list[tuple[Candidate, Judgement]] = field(default_factory=list)
    derived: int = 0
    pending: int = 0
    equations: list[Equation] = field(default_factory=list)
    _aside: list[int] = field(default_factory=list)
    _how: dict[str, str] = field(default_factory=dict)
    _known: Ends = field(init=False)
    """What the kept laws derive."""
    _shadow: Ends = field(init=False)
    """What they derive together with what was set aside, or rejected."""

    def run(self) -> None:
        """Both passes, then the merging laws."""
        merging = [index for index, candidate in enumerate(self.candidates) if candidate.merges]
        self._known, self._shadow = Ends(self.candidates, self.rounds), Ends(self.candidates, self.rounds)
        self._pass(self._remembered([index for index, c in enumerate(self.candidates) if not c.merges]), conditional=False)
        aside, self._aside = sorted(self._aside), []
        self._shadow = Ends(self.candidates, self.rounds)
        self._shadow.add(self.equations)
        self._pass(aside, conditional=True)
        self._merge(merging)

    def _remembered(self, indices: list[int]) -> list[int]:
        """Those of which nothing is known from earlier runs; the others are derived, or aside, as they were."""
        known = self.court.judgements.settled(self.kind)
        left: list[int] = []
        for index in indices:
            how = known.get(str(self.candidates[index]))
            if how is None:
                left.append(index)
            elif how == "derived":
                self.derived += 1
            else:
                self._aside.append(index)
                if how == "failed":
                    self._shadow.add(self.candidates[index].equations)
        return left

    def _note(self, index: int, how: str) -> None:
        self._how[str(self.candidates[index])] = how
        if how == "derived":
            self.derived += 1
        else:
            self._aside.append(index)

    def _merge(self, indices: Sequence[int]) -> None:
        """Judge laws that merge two operations into one and split its result.

        Other laws derive them, but only by joining what nothing joins; a rewrite from separate operations must be a law of its own.
        """
        covered: set[str] = set()
        for start in range(0, len(indices), _BATCH):
            self.pending = len(indices) - start
            batch = [c for c in (self.candidates[i] for i in indices[start : start + _BATCH]) if str(c) not in covered]
            names = {found.name: found for _, found, _ in self.kept}
            for candidate, general in zip(batch, self.court.general(batch, names), strict=True):
                found, judgement = general if general[1].holds else self.court.conditional([candidate], names)[0]
                if found is None or not judgement.holds:
                    self.rejected.append((candidate, judgement))
                    continue
                self.kept.append((candidate, found, judgement))
                pairs = list(variants(candidate, found, self.bank))
                covered |= {str(Candidate(*zip(*pairs[i : i + 2], strict=True))) for i in range(0, len(pairs), 2)}
        self.pending = 0

    def _pass(self, remaining: list[int], *, conditional: bool) -> None:
        remaining = self._sifted(remaining, conditional=conditional)
        while remaining:
            self.pending = len(remaining) + len(self._aside)
            self.report("laws" if not conditional else "laws with conditions", len(self.candidates) - self.pending, len(self.candidates))
            batch = self._batch(remaining)
            chosen = [self.candidates[i] for i in batch]
            names = {found.name: found for _, found, _ in self.kept}
            results = self.court.conditional(chosen, names) if conditional else self.court.general(chosen, names)
            for index, result in zip(batch, results, strict=True):
                self._settle(index, result, conditional=conditional)
            done = set(batch)
            remaining = self._sifted([index for index in remaining if index not in done], conditional=conditional)
            if not conditional:
                self.court.judgements.settle(self.kind, self._how)
            self._how.clear()
        self.pending = len(self._aside)

    def _settle(self, index: int, result: Judged, *, conditional: bool) -> None:
        candidate, (found, judgement) = self.candidates[index], result
        if self._known.meet(index):
            self._note(index, "derived")
        elif found is not None and judgement.holds:
            self.kept.append((candidate, found, judgement))
            equations = [*candidate.equations, *variants(candidate, found, self.bank)]
            self.equations += equations
            self._known.add(equations)
            self._shadow.add(equations)
        else:
            self._shadow.add(candidate.equations)
            if conditional or judgement.status == "TRIVIAL":
                self.rejected.append((candidate, judgement))
            else:
                self._note(index, "failed")

    def _sifted(self, indices: list[int], *, conditional: bool) -> list[int]:
        """Those that are neither derived nor follow from what was set aside or rejected; the latter go the same way unjudged."""
        left: list[int] = []
        for index in indices:
            if self._known.meet(index):
                self._note(index, "derived")
            elif not self._shadow.meet(index):
                left.append(index)
            elif conditional:
                self.rejected.append((self.candidates[index], _FOLLOWS))
            else:
                self._note(index, "follows")
        return left

    def _batch(self, remaining: list[int]) -> list[int]:
        """The next candidates to judge: of one size, of different operations, so that few derive each other; none that is derived."""
        batch: list[int] = []
        kinds: set[tuple[str, str]] = set()
        derived: set[int] = set()
        size = self.candidates[remaining[0]].size if remaining else (0, 0)
        for index in remaining:
            candidate = self.candidates[index]
            if candidate.size != size or len(batch) == _BATCH:
                break
            kind = _family(candidate.left[0]), _family(candidate.right[0])
            if kind in kinds:
                continue
            if all(derivable(equation, self.equations, self.rounds) for equation in candidate.equations):
                derived.add(index)
                self._note(index, "derived")
                continue
            kinds.add(kind)
            batch.append(index)
        remaining[:] = [index for index in remaining if index not in derived]
        return batch

    def supersede(self) -> int:
        """Drop kept rules that the other kept ones derive: special cases that were met before the general law; how many."""
        standing = dict(enumerate(self.kept))
        own = {index: [*candidate.equations, *variants(candidate, found, self.bank)] for index, (candidate, found, _) in standing.items()}
        for index in sorted(standing, key=lambda i: (len(self.kept[i][1].conditions) == 0, len(self.kept[i][0].inputs))):
            if self.kept[index][0].merges:
                continue
            others = [equation for i in standing if i != index for equation in own[i]]
            if all(derivable(equation, others, self.rounds) for equation in self.kept[index][0].equations):
                del standing[index]
        dropped = len(self.kept) - len(standing)
        both = self.court.both_ways([(found, judgement) for _, found, judgement in standing.values()])
        judged: list[Judged] = list(both) if self.court.confirm is None else self.court.confirmed([found for found, _ in both])
        self.kept = []
        for (candidate, _, _), (found, judgement) in zip(standing.values(), judged, strict=True):
            if found is not None and judgement.holds:
                self.kept.append((candidate, found, judgement))
            else:
                self.rejected.append((candidate, judgement))
        held = {id(candidate) for candidate, _, _ in self.kept}
        self.equations = [equation for i, (candidate, _, _) in standing.items() if id(candidate) in held for equation in own[i]]
        return dropped


def _family(term: Term) -> str:
    return term.operation if term.is_input else OPERATIONS[term.operation].family
