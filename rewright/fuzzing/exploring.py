"""One task of fuzzing: a subject, some fresh examples by Hypothesis from a seed, and what was found, shrunk."""

from __future__ import annotations

import time
import warnings
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase, ExampleDatabase
from hypothesis.errors import Flaky, Unsatisfiable
from hypothesis.strategies import SearchStrategy

from rewright.fuzzing import laws, operators, rules
from rewright.fuzzing.finding import Finding, Outcome, Problem, Subject, problem_of
from rewrites.rule import Rule
from verifier.notes import notes_kept_apart

Check = Callable[[Any, Outcome], Problem | None]
REPLAYS = 20
"""Kept examples of a subject that are tried again."""


def explore(subject: Subject, seed: int, task: int, examples: int, database: str, replay: bool = False) -> Outcome:
    """Fresh examples of the subject, the same for the same seed and task; or those kept from earlier findings.

    examples: how many of a plain subject; of an operator with many attributes some times that

    A finding's example is kept in Hypothesis' database in this folder, and forgotten when a replay passes.
    """
    from verifier.running import one_thread

    started = time.monotonic()
    outcome = Outcome(task, subject)
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strategy, check, shrinks = _of(subject, seed, task)
        examples *= operators.variety(subject.name) if subject.kind == "operator" else 1
        _drive(subject, strategy, check, outcome, seed, task, examples, database, replay, shrinks)
    outcome.seconds = time.monotonic() - started
    return outcome


def kept(subject: Subject, database: str) -> bool:
    """Examples of earlier findings of the subject are kept."""
    return any(True for _ in DirectoryBasedExampleDatabase(database).fetch(subject_key(subject)))


def subject_key(subject: Subject) -> bytes:
    """The database's key for the subject."""
    return f"rewright fuzz {subject.kind} {subject.name} {subject.source}".encode()


def _drive(
    subject: Subject, strategy: SearchStrategy[Any], check: Check, outcome: Outcome, seed: int, task: int, examples: int, database: str,
    replay: bool, shrinks: bool,
) -> None:  # fmt: skip
    found: list[Problem] = []
    calls = 0
    skips = not replay and subject.kind != "operator"

    def fails(drawn: Any) -> bool:
        nonlocal calls
        calls += 1
        if skips and calls == 1:
            return False  # the simplest example comes first whatever the seed: of a model, it says little
        if found and calls > MOST_SHRINKS:
            return False
        if not found:
            outcome.examples += 1
        problem = check(drawn, outcome)
        if problem is None or (found and problem.cause != found[0].cause):
            return False
        found.append(problem)
        return True

    # Hypothesis also keeps the example during which a time limit strikes; on disk are only those of findings.
    key, disk = subject_key(subject), DirectoryBasedExampleDatabase(database)
    examples_of_run = _Kept(disk.fetch(key) if replay else ())
    before = set(examples_of_run.kept)
    options = settings(
        max_examples=REPLAYS if replay else examples + skips, database=examples_of_run, deadline=None, verbosity=Verbosity.quiet,
        phases=(Phase.reuse,) if replay else (Phase.generate, *((Phase.shrink,) if shrinks else ())),
        suppress_health_check=list(HealthCheck), report_multiple_bugs=False, derandomize=False, print_blob=False,
    )  # fmt: skip

    @given(strategy)
    def attempt(drawn: Any) -> None:
        if fails(drawn):
            raise _Found

    # The settings come last: `seed` would take the database away.
    attempt = options(seeded(zlib.crc32(f"{seed} {task} {subject}".encode()))(attempt))
    # Nothing was found, or what was found did not fail a second time: it is in `found` either way.
    with suppress(_Found, Unsatisfiable, Flaky), notes_kept_apart():
        attempt()
    if not found:
        for example in before:
            disk.delete(key, example)
        return
    for example in examples_of_run.kept:
        disk.save(key, example)
    outcome.findings.append(Finding(subject, found[-1], seed, task, replay))


class _Found(Exception):
    """Tells Hypothesis that an example fails."""


class _Kept(ExampleDatabase):
    """The examples of one run, whatever Hypothesis calls the test; what it notes besides failures is left."""

    def __init__(self, examples: Iterable[bytes]) -> None:
        super().__init__()
        self.kept = dict.fromkeys(examples)

    def fetch(self, key: bytes) -> Iterable[bytes]:
        return () if key.endswith(_ASIDE) else tuple(self.kept)

    def save(self, key: bytes, value: bytes) -> None:
        if not key.endswith(_ASIDE):
            self.kept[value] = None

    def delete(self, key: bytes, value: bytes) -> None:
        if not key.endswith(_ASIDE):
            self.kept.pop(value, None)


_ASIDE = (b".secondary", b".pareto")
MOST_SHRINKS = 150
"""Examples that are tried to make a finding smaller."""


def _of(subject: Subject, seed: int, task: int) -> tuple[SearchStrategy[Any], Check, bool]:
    """The subject's strategy, its check, and whether Hypothesis is to shrink what is found."""
    if subject.kind == "operator":
        return operators.examples_of(subject.name), _guarded(subject, lambda drawn, outcome: operators.check(subject.name, drawn)), True
    if subject.kind in ("rule", "proof", "firing"):
        return st.integers(0, 2**31), _guarded(subject, _rule_check(subject)), False
    if subject.kind == "law":
        return st.integers(0, 2**31), _guarded(subject, lambda drawn, outcome: laws.check_law(subject.name, drawn)), False
    if subject.kind == "given":
        from rewright.fuzzing.judging import judged_given

        return st.integers(0, 2**31), lambda drawn, outcome: judged_given(subject.source, drawn, outcome), False
    return _model_strategy(subject), _model_check(subject), False


def _guarded(subject: Subject, check: Check) -> Check:
    """The check, whose exceptions are problems as well."""

    def guarded(drawn: Any, outcome: Outcome) -> Problem | None:
        try:
            return check(drawn, outcome)
        except Exception as error:  # a fault of whatever raised; its place tells it from others
            return problem_of(error, f"{subject} raises on {drawn!r}", "")

    return guarded


def _rule_check(subject: Subject) -> Check:
    rule = rule_of(subject)
    if subject.kind == "rule":
        return lambda drawn, outcome: rules.check_tests(rule, drawn, 10)
    if subject.kind == "proof":
        return lambda drawn, outcome: rules.check_proof(rule, drawn, subject.source)
    return lambda drawn, outcome: rules.check_firing(rule, drawn, outcome.fired, subject.source)


def rule_of(subject: Subject) -> type[Rule]:
    """The rule of a subject: the library's, or one of a file."""
    return rules.rule_named(subject.name, subject.source)


def _model_strategy(subject: Subject) -> SearchStrategy[Any]:
    from rewright.fuzzing.families import FAMILIES, around_rule, programs

    if subject.name in FAMILIES:
        return programs((FAMILIES[subject.name],))
    line = f"from rewright.fuzzing.rules import rule_named\n{subject.name} = rule_named({subject.name!r}, {subject.source!r})"
    return programs((around_rule(rule_of(subject), line),))


def _model_check(subject: Subject) -> Check:
    from rewright.fuzzing.judging import judged

    return lambda program, outcome: judged(subject, program, outcome)


def database_folder(cache: Path) -> str:
    """Where examples of findings are kept."""
    return str(cache / "fuzz" / "examples")


__all__ = ["database_folder", "explore", "kept", "rule_of", "subject_key"]
