"""`compare_graphs`: whether two graphs are the same function; proved where it can be, tested in any case, else told apart by an input."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from graphs.graph import Graph
from graphs.onnx import with_both_branches
from operators.expressions import Symbol
from verifier.equivalence.drawing import KINDS, SPECIAL, size_choices, undrawable, written_numbers
from verifier.equivalence.joining import Joined, joined, update_obstacle
from verifier.equivalence.locating import first_difference
from verifier.equivalence.matching import Matching
from verifier.equivalence.observing import RunError, Trace
from verifier.equivalence.proof import Prover, conditions, unproved
from verifier.equivalence.result import Comparison, Difference
from verifier.equivalence.testing import Example, Found, Tests
from verifier.running import one_thread
from verifier.verdict import Status

Equal = Literal["float", "real"]
"""float: rounding may differ and nothing else; real: where a value is NaN or infinite may differ as well."""
_SIZES = 3
_FEW = 64
_ATTEMPTS = 3
"""How many inputs are drawn at most for each that is to be tested: BEFORE may not take some."""
_WRITTEN = 6
"""The most inputs with numbers that the graphs are written with."""
_BIT_FOR_BIT = "bit for bit: the same operators on the same operands"


class CannotRunError(ValueError):
    """A graph that runs on none of the inputs tried, so that nothing can be compared; the message says why."""


@dataclass
class _Work:
    """One comparison in progress."""

    joined: Joined
    tests: Tests
    seed: int
    equality: Equal
    started: float
    deadline: float
    branches: Joined | None = None
    """Both sides with both branches of what data decides, for the proof."""
    sizes: list[dict[Symbol, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def verdict(self, status: Status, scope: str = "", reason: str = "", **more: Any) -> Comparison:
        """The comparison with everything noted so far."""
        seconds = time.monotonic() - self.started
        return Comparison(
            status, scope, reason, self.equality, notes=tuple(self.notes), error=self.tests.errors, examples=self.tests.examples,
            seconds=seconds, seed=self.seed, **more,
        )  # fmt: skip


def compare_graphs(
    before: Graph, after: Graph, *, timeout: float = 120.0, seed: int = 0, equality: Equal = "float", examples: int = 20
) -> Comparison:
    """Whether the two graphs are the same function.

    `timeout` is the seconds after which nothing further is tried; `seed` decides every draw; `examples` is how many inputs are
    tested at most.
    Raises: AlignmentError when inputs or outputs cannot be paired; CannotRunError when BEFORE runs on no input, and nothing is proved.
    """
    started = time.monotonic()
    obstacle = update_obstacle(before, after)
    if obstacle is not None:
        words = ": ".join(obstacle)
        return Comparison(Status.REFUTED, reason=words, equality=equality, difference=Difference(*obstacle), seed=seed)
    both = joined(before, after)
    work = _Work(both, Tests(both), seed, equality, started, started + timeout, _branches(before, after))
    if both.obstacles:
        kind, sentence = both.obstacles[0]
        return work.verdict(Status.REFUTED, reason=f"{kind}: {sentence}", difference=Difference(kind, sentence))
    with one_thread():
        return _compared(work, examples)


def _branches(before: Graph, after: Graph) -> Joined | None:
    """Both sides with both branches of what data decides; None where neither has any, or they do not go together."""
    whole = [(with_both_branches(graph), graph) for graph in (before, after)]
    if all(found is None for found, _ in whole):
        return None
    both = joined(*(found or graph for found, graph in whole))
    return None if both.obstacles else both


def _compared(work: _Work, examples: int) -> Comparison:
    prover = Prover(work.joined, _guesses(work.joined, []), work.deadline)
    same = prover.by_structure()  # then tests can show nothing more: one is run
    first = _first_examples(work, 1 if same else _SIZES)
    if not first:
        return _unrun(work)
    for example in first:
        refuted = _refuted(work, example)
        if refuted is not None:
            return refuted
    proved = same
    if not same:
        prover, proved = _proved(work, first)
        refuted = _tested(work, first, examples)
        if refuted is not None:
            return refuted
    more: dict[str, Any] = {"structural": prover.progress.structural, "proved": prover.progress.proved}
    words = _sizes_in_words(work)
    if proved:
        assumed = [*prover.progress.scope] or [_BIT_FOR_BIT]
        return work.verdict(Status.PROVED, "; ".join([words, *assumed, *conditions(work.joined.facts)]), **more)
    left = unproved(prover.progress, work.joined.labels)
    reason = "no proof" + (f": {left[0]}" if left else "")
    if not work.tests.examples:
        return work.verdict(Status.UNDECIDED, reason="the time was up before anything was tested", unproved=left, **more)
    scope = f"{work.tests.examples} inputs, {', '.join(_tried(work))}"
    return work.verdict(Status.TESTED, scope, reason, unproved=left, **more)


def _proved(work: _Work, first: list[Example]) -> tuple[Prover, bool]:
    """The prover of the graphs as they are, or of those with both branches of what data decides; and whether it has a proof."""
    limit = work.started + 0.75 * (work.deadline - work.started)
    prover = Prover(work.joined, _matching(work, first), limit)
    if prover.run():
        return prover, True
    if work.branches is not None:
        within = Prover(work.branches, _guesses(work.branches, first), limit)
        if within.run():
            return within, True
    return prover, False


def _unrun(work: _Work) -> Comparison:
    """What can be said where BEFORE cannot be run as a whole: proved, with guesses from what of it can be run, or nothing.

    Raises: CannotRunError.
    """
    examples = [work.tests.example("normal", sizes, work.seed) for sizes in itertools.islice(size_choices(work.joined), 2)]
    drawn = [example for example in examples if example is not None]
    prover = Prover(work.joined, _guesses(work.joined, drawn), work.deadline)
    why = f"BEFORE runs on none of the inputs tried: {work.tests.refused or _nothing_drawn(work)}"
    if not prover.run():
        raise CannotRunError(why)
    work.notes.append(f"not run: {why}")
    scope = [_sizes_in_words(work), *([*prover.progress.scope] or [_BIT_FOR_BIT]), *conditions(work.joined.facts)]
    return work.verdict(Status.PROVED, "; ".join(scope), structural=prover.progress.structural, proved=prover.progress.proved)


def _guesses(both: Joined, examples: Sequence[Example]) -> Matching:
    """Values matched on what of the graph can be run."""
    traces = [Trace(example.tensors, example.sizes, tolerant=True) for example in examples[:2]]
    return Matching(both.graph, both.before, traces, both.graph.topological_order())


def _nothing_drawn(work: _Work) -> str:
    return "; ".join(undrawable(work.joined.graph)) or "no sizes meet its conditions"


def _first_examples(work: _Work, most: int) -> list[Example]:
    """The first inputs that BEFORE takes, at up to so many choices of sizes; none where it cannot be run here."""
    found: list[Example] = []
    for sizes in size_choices(work.joined):
        for kind in ("normal", "uniform"):
            example = work.tests.example(kind, sizes, work.seed)
            if example is None or not _runs(work, example):
                continue
            found.append(example)
            work.sizes.append(sizes)
            break
        if len(found) == most:
            break
    return found


def _runs(work: _Work, example: Example) -> bool:
    try:
        work.tests.outputs(example)
    except RunError as error:
        work.tests.refused = str(error)
        return error.node not in work.joined.before
    return True


def _matching(work: _Work, first: list[Example]) -> Matching:
    """Values matched on two inputs: of the first sizes, and of the next ones where there are others."""
    one = first[0]
    again = first[1] if len(first) > 1 else work.tests.example(one.kind, one.sizes, work.seed + 1)
    chosen = [example for example in (one, again) if example is not None]
    traces = [Trace(example.tensors, example.sizes) for example in chosen]
    return Matching(work.joined.graph, work.joined.before, traces, work.tests.order)


def _tested(work: _Work, first: list[Example], examples: int) -> Comparison | None:
    found = work.tests.coarser(first[0])
    if found is not None:
        return _refutation(work, first[0], found)
    for example in itertools.islice(_further(work), _ATTEMPTS * examples):
        if work.tests.examples >= examples:
            break
        if time.monotonic() > work.deadline:
            work.notes.append(f"the time was up after {work.tests.examples} inputs")
            return None
        refuted = _refuted(work, example)
        if refuted is not None:
            return refuted
    return None


def _further(work: _Work) -> Iterator[Example]:
    """Inputs of every kind at the sizes in turn: numbers that the graphs are written with first, then some that are not finite."""
    for position, written in enumerate(written_numbers(work.joined.graph)[:_WRITTEN]):
        for sizes in work.sizes:  # which BEFORE takes may depend on the number
            example, before = work.tests.example("normal", sizes, work.seed + position, written), work.tests.examples
            if example is not None:
                yield example
            if work.tests.examples > before:
                break
    for number in itertools.count(1):
        for position, kind in enumerate((*SPECIAL, *KINDS)):
            sizes = work.sizes[(number + position) % len(work.sizes)]
            example = work.tests.example(kind, sizes, work.seed + 1000 * number + position)
            if example is not None:
                yield example


def _refuted(work: _Work, example: Example) -> Comparison | None:
    found = work.tests.difference(example)
    if found is None:
        return None
    if found.kind == "NaN/inf" and work.equality == "real":
        note = f"differs at NaN or infinity: output {found.output.name if found.output else ''}, {found.before} and {found.after}"
        if note not in work.notes and len(work.notes) < 5:
            work.notes.append(note)
        return None
    return _refutation(work, example, found)


def _refutation(work: _Work, example: Example, found: Found) -> Comparison:
    graph = work.joined.graph
    pair = found.output or work.joined.outputs[0]
    names = [str(graph.operator(node).attributes["name"]) for node in graph.inputs]
    tensors = dict(zip(names, example.tensors, strict=True))
    difference = Difference(
        found.kind, found.sentence, pair.name if found.output else "", found.index, found.before, found.after,
        {name: _shown(tensor, example) for name, tensor in tensors.items()},
        first_difference(work.joined, example, pair.before, pair.after), tensors,
    )  # fmt: skip
    return work.verdict(Status.REFUTED, reason=f"{found.kind}: {found.sentence} ({example.words()})", difference=difference)


def _shown(tensor: torch.Tensor, example: Example) -> Any:
    """The elements of a small input, else how it was drawn."""
    if tensor.numel() <= _FEW:
        return tensor.tolist()
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}, {example.words()}"


def _sizes_in_words(work: _Work) -> str:
    graph = work.joined.graph
    if work.joined.symbols:
        return f"all sizes {', '.join(map(str, work.joined.symbols))}"
    shapes = [f"{graph.operator(node).attributes['name']}: {graph.types(node)[0]}" for node in graph.inputs]
    return f"the sizes {'; '.join(shapes)}" if shapes else "no inputs"


def _tried(work: _Work) -> list[str]:
    """The sizes at which inputs were tried."""
    choices: list[Mapping[Symbol, int]] = [sizes for sizes in work.sizes if sizes]
    if not choices:
        return [_sizes_in_words(work)]
    return ["sizes " + " or ".join(f"({', '.join(f'{s} = {n}' for s, n in sizes.items())})" for sizes in choices)]


__all__ = ["CannotRunError", "Equal", "compare_graphs"]
