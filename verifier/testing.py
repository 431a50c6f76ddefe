"""Hypothesis tests of a rule: both sides run in PyTorch on drawn instances, stage by stage; a failure shrinks to the smallest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import Flaky, Unsatisfiable

from rewrites.rule import Rule
from verifier.comparing import Difference, Standard, compare
from verifier.grids import grids, without_zeros
from verifier.instances import FLOATS, Instance, Space, instances
from verifier.judging import Kind
from verifier.notes import notes_kept_apart
from verifier.running import Outcome, run_sides
from verifier.shrinking import smallest
from verifier.values import DISTINCT, EXTREME, ORDINARY, POSITIVE, SMALL, SPECIAL, TIES, WIDE


@dataclass
class Failure:
    """An instance on which the sides differ, how, and after how many examples it was found."""

    instance: Instance
    difference: Difference
    examples: int = 0
    seconds: float = 0.0


@dataclass
class Report:
    """What the tests saw: how many valid examples, of which dtypes and ranges, and the failure if there is one."""

    examples: int = 0
    invalid: int = 0
    filled: int = 0
    """Of the examples, those with an output element."""
    failure: Failure | None = None
    error: str = ""
    """What the pattern raised, when it raised every time."""
    dtypes: dict[str, int] = field(default_factory=dict)
    largest: int = 0
    aliasing: set[str] = field(default_factory=set)
    limits: set[str] = field(default_factory=set)
    seen: set[Kind] = field(default_factory=set)
    """What differed in floating point, allowed by the rule's equality."""
    gridded: int = 0
    """Grids of special values that agree."""
    written: set[str] = field(default_factory=set)
    seconds: float = 0.0
    timed_out: bool = False


@dataclass(frozen=True)
class Stage:
    """One kind of test: which values, which dtypes, and which share of the examples."""

    name: str
    values: tuple[str, ...]
    families: tuple[str, ...]
    share: float
    plain: bool = False


def stages(space: Space) -> list[Stage]:
    """The stages for a rule: exact first, then ordinary numbers, other dtypes, and special values."""
    widest = space.families[:1]
    rest = tuple(space.families[1:]) or tuple(widest)
    floats = tuple(family for family in space.families if family in FLOATS)
    special = floats[1:] or floats or tuple(widest)
    found = [
        Stage("small integers", (SMALL, DISTINCT, TIES, POSITIVE), tuple(widest), 0.4, plain=True),
        Stage("layouts and sharing", (SMALL, POSITIVE, ORDINARY), tuple(widest), 0.15),
        Stage("ordinary numbers", (ORDINARY,), tuple(widest), 0.15, plain=True),
        Stage("other dtypes", (SMALL, POSITIVE, ORDINARY), rest, 0.15),
        Stage("special values", (SPECIAL,), special, 0.15, plain=True),  # on grids first
    ]
    others = tuple(family for family in space.families if family not in FLOATS)
    if others:
        found.append(Stage("extreme integers", (EXTREME, SMALL), others, 0.3))
    if floats:
        found.append(Stage("wide numbers", (WIDE,), floats[:1], 0.1, plain=True))
    return found


def check(instance: Instance, standard: Standard, report: Report | None = None) -> Difference | None:
    """Run both sides on the instance; the difference if there is one. An instance the pattern refuses counts as invalid."""
    left, right = run_sides(instance)
    if left.error is not None:
        if report is not None:
            report.invalid += 1
            report.error = f"{type(left.error).__name__}: {' '.join(str(left.error).split())}"
        return None
    if right.error is not None and any(phrase in str(right.error) for phrase in _LIMITS):
        if report is not None:
            report.limits.add("where PyTorch has a kernel (not for every dtype and empty tensor)")
        return None
    difference = compare(instance, left, right, standard, None if report is None else report.seen)
    if report is not None:
        report.examples += 1
        report.filled += any(not isinstance(o, torch.Tensor) or o.numel() > 0 for o in left.outputs)
        report.dtypes[instance.dtype] = report.dtypes.get(instance.dtype, 0) + 1
        report.largest = max(report.largest, *(size for t in instance.tensors.values() for size in t.shape), 0)
        if difference is None:
            names = instance.rule.signature().names
            report.written |= _written(instance, left)
            for output, position in right.aliased - left.aliased:
                report.aliasing.add(f"output {output} may be {names[position]} itself or a view of it")
    return difference


def _written(instance: Instance, outcome: Outcome) -> set[str]:
    before = instance.arguments()
    pairs = zip(instance.rule.signature().names, before, outcome.arguments, strict=True)
    return {
        f"both sides write into {name}"
        for name, a, b in pairs
        if isinstance(a, torch.Tensor) and (a.shape != b.shape or not bool(((a == b) | ((a != a) & (b != b))).all()))
    }


_LIMITS = (
    "not implemented for '",
    "Only zero batch or zero channel inputs",
    "with optional 0 dim batch size",
    "not supported on CPU",
    "expected a non-empty",
)
"""What PyTorch says when it has no kernel for a dtype or an empty tensor: a limit of this machine, not of the rule."""


class _Found(Exception):
    """Tells Hypothesis that an example fails."""


def search(
    space: Space,
    stage: Stage,
    standard: Standard,
    examples: int,
    seed: int,
    deadline: float,
    report: Report,
    judge: Callable[[Instance], Difference | None] | None = None,
) -> Failure | None:
    """Draw examples of a stage until one fails; Hypothesis shrinks its choices."""
    failing: list[Failure] = []
    started = time.monotonic()

    @seeded(seed)
    @settings(
        max_examples=examples, database=None, deadline=None, derandomize=False, report_multiple_bugs=False, print_blob=False,
        verbosity=Verbosity.quiet, suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink),
    )  # fmt: skip
    @given(instances(space, stage.values, stage.families, stage.plain))
    def attempt(instance: Instance | None) -> None:
        if time.monotonic() > deadline:
            report.timed_out = True
            return
        if instance is None:
            return
        counted = report if not failing else None
        difference = judge(instance) if judge is not None else check(instance, standard, counted)
        if difference is not None and (not failing or difference.kind is failing[0].difference.kind):
            seen = failing[0].examples if failing else report.examples
            seconds = failing[0].seconds if failing else time.monotonic() - started
            failing.append(Failure(instance, difference, seen, seconds))
            raise _Found

    try:
        with notes_kept_apart():
            attempt()
    except (_Found, Flaky):
        if not failing:
            raise
    except Unsatisfiable:
        return None
    return failing[-1] if failing else None


def run_tests(
    rule: type[Rule], space: Space, standard: Standard, examples: int = 100, seed: int = 0, deadline: float = float("inf"),
    hints: Sequence[Instance] = (), wanted: Sequence[Stage] | None = None,
) -> Report:  # fmt: skip
    """Test a rule; `hints` are instances to try first (models of a shape that Z3 could not show equal, for one)."""
    started = time.monotonic()
    report = Report()
    failure: Failure | None = None
    for instance in hints:
        difference = check(instance, standard, report)
        if difference is not None:
            failure = Failure(instance, difference, report.examples, time.monotonic() - started)
            break
    if failure is None and wanted is None:
        failure = _everywhere(space, standard, report, examples, seed, deadline)
    for position, stage in enumerate(wanted if wanted is not None else stages(space)):
        if failure is None and stage.values == (SPECIAL,) and space.places and time.monotonic() < deadline:
            failure = _on_grids(space, standard, report)
        if failure is not None or not space.places:
            break
        count = max(2, round(examples * stage.share))
        failure = search(space, stage, standard, count, seed + 1000 * position, deadline, report)
    if failure is not None:
        failure.seconds = time.monotonic() - started

        def differs(instance: Instance) -> Difference | None:
            difference = check(instance, standard)
            return difference if difference is not None and difference.kind in (failure.difference.kind, Kind.VALUE) else None

        failure.instance, failure.difference = smallest(
            space, failure.instance, failure.difference, differs, min(deadline, time.monotonic() + 5)
        )
        report.failure = failure
    report.seconds = time.monotonic() - started
    return report


def _everywhere(space: Space, standard: Standard, report: Report, most: int, seed: int, deadline: float) -> Failure | None:
    """Every case at each of its sizes once (evenly spread where there are more than `most`): draws alone leave some out."""
    places = space.places
    for count, position in enumerate(range(0, len(places), max(1, -(-len(places) // max(1, most))))):
        if time.monotonic() > deadline:
            return None
        instance = space.build(*places[position], (SMALL, DISTINCT)[count % 2], space.families[0], seed + position)
        difference = None if instance is None else check(instance, standard, report)
        if instance is not None and difference is not None:
            return Failure(instance, difference, report.examples)
    return None


def _on_grids(space: Space, standard: Standard, report: Report) -> Failure | None:
    counted = Report()
    for instance in grids(space, extreme=standard.equality.bitwise):
        before = counted.invalid
        difference = check(instance, standard, counted)
        if counted.invalid > before:
            instance = without_zeros(instance)
            difference = check(instance, standard, counted)
        report.seen |= counted.seen
        if difference is not None:
            return Failure(instance, difference, report.examples + counted.examples)
    report.gridded += counted.examples
    return None


def summary(report: Report) -> str:
    """The tests in words."""
    dtypes = ", ".join(sorted(report.dtypes))
    grid = f" and {report.gridded} grids of special values" if report.gridded else ""
    return f"{report.examples} examples{grid} agree, sizes up to {report.largest}, {dtypes}"


__all__ = ["Failure", "Report", "Stage", "check", "run_tests", "search", "stages", "summary"]
