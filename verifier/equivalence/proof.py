"""The proof of a comparison: AFTER's values in order, each by structure, or by the prover on the region between matched values."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import torch

from graphs.graph import Value
from operators.expressions import Expression
from operators.formulas import Formula, Truth, at_least_zero, formula_symbols
from operators.operator import Effect
from operators.sources import Constant
from verifier.equivalence.classes import Classes
from verifier.equivalence.folding import UpToFolding
from verifier.equivalence.joining import Joined
from verifier.equivalence.matching import Matching
from verifier.equivalence.observing import is_source
from verifier.equivalence.regions import Region, regions, symbolic
from verifier.equivalence.result import Unproved
from verifier.proof.knowledge import Bound, Knowledge
from verifier.proof.prove import Proof, prove
from verifier.proof.solver import OutOfTime
from verifier.proving import may_wrap

SECONDS = 3.0
"""For one region."""
LAST_SECONDS = 15.0
"""For one region of an output."""
SECONDS_AGAIN = 15.0
"""For the second pass, which seldom finds what the first did not."""


@dataclass
class Progress:
    """How far the proof has come."""

    structural: int = 0
    proved: int = 0
    unproved: dict[Value, str] = field(default_factory=dict)
    scope: dict[str, None] = field(default_factory=dict)
    """What the proofs assume, in words."""


class Prover:
    """Proves values of the joined graph equal, up to a deadline (of `time.monotonic`)."""

    def __init__(self, joined: Joined, matching: Matching, deadline: float) -> None:
        self.joined, self.graph, self.matching, self.deadline = joined, joined.graph, matching, deadline
        self.classes = Classes(self.graph)
        self.progress = Progress()
        self.assuming = False
        self.assumed: set[Value] = set()
        """Values that were taken as equal on the way without a proof: whatever follows from them is not proved."""
        self._facts = list(dict.fromkeys(joined.facts))
        self._needed = self.graph.live()
        self._wide = any(kind.dtype == "float64" for node in self.graph.network for kind in self.graph.types(node))
        """Numbers of the file may be meant to more digits than float32 has."""

    def by_structure(self) -> bool:
        """Whether every output is computed by the same operators on the same operands; nothing is run, and nothing proved, for that."""
        for node in self.graph.topological_order():
            if self.classes.enter(node) and node not in self.joined.before:
                self.progress.structural += not is_source(self.graph, Value(node))
        return all(self.classes.same(pair.before, pair.after) for pair in self.joined.outputs)

    def run(self) -> bool:
        """Whether every output is proved.

        First, values that agree on all inputs without a proof are taken as equal on the way, which shows exactly what is open;
        if anything is, once more without them: what follows may hold although they do not.
        """
        if not self._pass(assuming=True):
            return False
        if not self.assumed:
            return True
        open_values = self.progress
        self.progress, self.classes = Progress(), Classes(self.graph)
        self.assumed = set()
        self.deadline = min(self.deadline, time.monotonic() + SECONDS_AGAIN)
        if self._pass(assuming=False):
            self.progress.unproved.clear()
            return True
        self.progress = open_values
        return False

    def _pass(self, assuming: bool) -> bool:
        """Whether every output is one class with its partner."""
        self.assuming = assuming
        order = self.graph.topological_order()
        for node in order:
            if node in self.joined.before and not self.classes.enter(node):
                self._unmoved(node)
        for node in order:
            if node not in self.joined.before and node not in self.classes.order:
                self._after(node)
        for pair in self.joined.outputs:
            if not self.classes.same(pair.before, pair.after):
                self._proved(pair.after, pair.before, LAST_SECONDS)
        return all(self.classes.same(pair.before, pair.after) for pair in self.joined.outputs)

    def _unmoved(self, node: int) -> None:
        """Find that a value of BEFORE is an earlier one moved there and back, as a chain of reshapes may be."""
        value = Value(node)
        if type(self.graph.operator(node)).__name__ not in _MOVES or node not in self._needed:
            return
        for other in self.matching.candidates(value):
            earlier = other in self.classes and self.classes.order[other.node] < self.classes.order[node]
            if earlier and not self.classes.same(other, value) and self._depends(value, other) and self._proved(value, other, SECONDS):
                self.progress.proved -= 1
                return
        self.progress.unproved.pop(value, None)

    def _depends(self, value: Value, other: Value) -> bool:
        """The value is made of the other one by moves alone."""
        while type(self.graph.operator(value.node)).__name__ in _MOVES:
            operand = self.graph.operands(value.node)[0]
            if operand is None:
                return False
            value = self.classes.leader(operand)
            if value == self.classes.leader(other):
                return True
        return False

    def _after(self, node: int) -> None:
        if self.classes.enter(node):
            self.progress.structural += not is_source(self.graph, Value(node))
            return
        folded = isinstance(self.graph.operator(node), Constant)  # perhaps what BEFORE computes from constants
        if node not in self._needed or (is_source(self.graph, Value(node)) and not folded):
            return
        for output in range(len(self.graph.types(node))):
            self._match(Value(node, output))

    def _match(self, value: Value) -> None:
        candidates = self.matching.candidates(value)
        for candidate in candidates:
            if self.classes.same(candidate, value) or self._proved(value, candidate, SECONDS):
                return
        if candidates or is_source(self.graph, value):
            if self.assuming and candidates:
                self.assumed.add(value)
                self.classes.unite(candidates[0], value)
            return
        for view in self.matching.layouts(value):
            self.classes.enter(view.node)
            if self.classes.same(view, value) or self._proved(value, view, SECONDS):
                return

    def _proved(self, after: Value, before: Value, seconds: float) -> bool:
        """Whether a region proves the two equal; then they are one class."""
        reason = "the region between it and what is known to be equal is too large"
        for region in self._regions(after, before):
            left = min(seconds, self.deadline - time.monotonic())
            if left <= 0:
                self.progress.unproved[after] = "the time was up"
                return False
            reason = self._region(region, left)
            if not reason:
                self.classes.unite(before, after)
                self.progress.proved += 1
                if after not in self.assumed:
                    self.progress.unproved.pop(after, None)
                return True
        self.progress.unproved[after] = reason
        return False

    def _regions(self, after: Value, before: Value) -> Iterator[Region]:
        """What may be proved, the smallest first; each as it is, then with numbers as the fractions that they round."""
        exact, fractions = (regions(self.classes, before, after, fractions=fractions) for fractions in (False, True))
        for region, near in zip(exact, fractions, strict=True):
            yield region
            if near.rounded and not self._wide:
                yield near
        if any(region.constants for region in regions(self.classes, before, after, scalars=True)):
            yield from regions(self.classes, before, after, scalars=True)

    def _region(self, region: Region, seconds: float) -> str:
        """Nothing when the region is proved, else why not."""
        impure = [o for g in (region.before, region.after) for n in g.network if (o := g.operator(n)).effects & _IMPURE]
        if impure:
            return f"{impure[0]} is not known to compute alike every time"
        if may_wrap(region.before) or may_wrap(region.after):
            return "whole numbers may wrap"
        constants = {name: tensor.detach() for name, tensor in region.constants.items()}
        floating = [tensor for tensor in constants.values() if tensor.is_floating_point()]
        formats = [torch.finfo(tensor.dtype) for tensor in floating]
        unit = max((format.eps / 2 for format in formats), default=2.0**-53)
        smallest = max((format.tiny if format.bits > 16 else format.smallest_normal * format.eps for format in formats), default=0.0)
        made: list[UpToFolding] = []

        def comparison() -> UpToFolding:
            made.append(UpToFolding(constants=constants, unit=unit, smallest=smallest))
            return made[-1]

        proof = self._prove(region, constants, comparison, seconds)
        if not proof.proved:
            unmatched = f": {' and '.join(proof.unmatched)}" if proof.unmatched else ""
            return f"{proof.reason}{unmatched}"[:300]
        self.progress.scope["over the reals"] = None
        if region.rounded or any(c.rounded for c in made):
            self.progress.scope["up to the rounding of folded constants"] = None
        if "all sizes ≥ 1" in proof.scope and symbolic(region.before):
            self.progress.scope["sizes ≥ 1"] = None
        return ""

    def _prove(self, region: Region, constants: Mapping[str, torch.Tensor], comparison: object, seconds: float) -> Proof:
        owed = [fact for node in region.nodes for fact in self.joined.owed.get(node, ())]
        make = partial(prove, region.before, region.after, self._facts, list(_signs(constants)), owed)
        try:
            return make(timeout=seconds, comparison=comparison)  # type: ignore[arg-type]
        except (ArithmeticError, ValueError, TypeError) as error:
            return Proof("undecided", 0.0, reason=f"{type(error).__name__}: {error}")


_MOVES = frozenset({"Reshape", "Permute"})
_IMPURE = Effect.RANDOM | Effect.UPDATES_BUFFER


def _signs(constants: Mapping[str, torch.Tensor]) -> Iterator[Bound]:
    """What the constants' elements are: all positive, none negative, none zero."""
    for name, tensor in constants.items():
        if not tensor.is_floating_point() or not tensor.numel() or not bool(tensor.isfinite().all()):
            continue
        least = float(tensor.min())
        if least > 0:
            yield Bound(">", ((name, Fraction(1)),))
        elif least == 0:
            yield Bound(">=", ((name, Fraction(1)),))
        elif not bool((tensor == 0).any()):
            yield Bound("!=", ((name, Fraction(1)),))


def unproved(progress: Progress, labels: Mapping[int, str]) -> tuple[Unproved, ...]:
    """What is open, in the order of the graph."""
    return tuple(Unproved(f"{labels.get(value.node, '?')} (node {value.node})", reason) for value, reason in progress.unproved.items())


def conditions(facts: Sequence[Truth], seconds: float = 2.0) -> list[str]:
    """What BEFORE requires of symbolic sizes, in words; what follows from the rest is left out."""
    sizes = sorted({s for fact in facts for s in (formula_symbols(fact) if isinstance(fact, Formula) else ())}, key=str)
    known: list[Truth] = [at_least_zero(Expression.of(s)) for s in sizes]
    kept = []
    try:
        for fact in sorted(dict.fromkeys(facts), key=lambda f: len(str(f))):
            if not Knowledge(known, seconds=seconds).proves(fact):
                kept.append(f"where {fact}")
                known.append(fact)
    except OutOfTime:
        kept.append("and what else BEFORE's operators require of sizes")
    return kept


__all__ = ["Progress", "Prover", "conditions", "unproved"]
