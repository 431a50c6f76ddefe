"""Fuzzing on a time budget: subjects take turns in an order that the seed decides; kept examples of earlier findings go first.

The order of tasks, and what each of them tries, follow from the seed alone; the budget decides where they stop. Tasks run here, or in
the processes of an executor; their outcomes are taken in the order of the tasks.
"""

from __future__ import annotations

import dis
import itertools
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewright.fuzzing.finding import Finding, Outcome, Problem, Subject

if TYPE_CHECKING:
    from rewrites.rule import Rule

TASK_SECONDS = 120.0
"""A task is ended after so long; where it computed all the time, that is a finding: something does not end."""
GRACE = 2.0
"""Seconds after the budget in which running tasks may still answer."""
OPERATORS_PER_TURN = 44
"""Operators are quick; a round of all of them takes four turns."""
OPERATORS_FIRST = 1000
"""So many go in the first turns, six rounds, and then a quarter in each."""
IN_FLIGHT = 3
"""Tasks given out for each process."""


@dataclass(frozen=True)
class Task:
    """Fresh examples of one subject; with `replay`, those kept from earlier findings."""

    number: int
    subject: Subject
    examples: int
    replay: bool = False


@dataclass
class Campaign:
    """One run: what was tried, what was found (one finding for each cause), and how often each rule was applied."""

    seed: int
    findings: list[Finding] = field(default_factory=list)
    again: Counter[str] = field(default_factory=Counter)
    examples: Counter[str] = field(default_factory=Counter)
    subjects: dict[str, set[str]] = field(default_factory=dict)
    fired: Counter[str] = field(default_factory=Counter)
    unsuitable: int = 0
    tasks: int = 0
    seconds: float = 0.0
    computing: float = 0.0
    """Seconds of processor time in this process."""
    lost: int = 0
    """Tasks whose process died, or that were under way when the time was up."""

    def take(self, outcome: Outcome, started: float) -> list[Finding]:
        """Note what a task did; its findings with a cause that is new."""
        kind = outcome.subject.kind
        self.tasks += 1
        self.examples[kind] += outcome.examples
        self.subjects.setdefault(kind, set()).add(outcome.subject.name)
        self.fired.update(outcome.fired)
        self.unsuitable += outcome.unsuitable
        new = []
        for finding in outcome.findings:
            self.again[finding.cause] += 1
            if self.again[finding.cause] == 1:
                self.findings.append(replace(finding, seconds=time.time() - started))
                new.append(self.findings[-1])
        return new


def library_subjects() -> list[Subject]:
    """Everything this distribution has: operators, rules (tests, proofs, firing), random laws, families of models, rules within models."""
    from rewright.certification import usable_rules
    from rewright.fuzzing.families import FAMILIES
    from rewright.fuzzing.laws import FORMS
    from rewright.fuzzing.operators import names

    found = [Subject("operator", name) for name in names()]
    for rule in usable_rules():
        group = f"{rule.__module__}, several outputs" if gives_several(rule) else rule.__module__
        found += [Subject(kind, rule.__name__, group=group) for kind in ("rule", "proof", "firing", "walk")]
    return [*found, *(Subject("law", name) for name in FORMS), *(Subject("model", name) for name in FAMILIES)]


def gives_several(rule: type[Rule]) -> bool:
    """The rule's pattern ends in a tuple or list of results: such rules are few, and rewrite in a way of their own."""
    steps = [step.opname for step in dis.get_instructions(rule.pattern)]
    return any(step == "RETURN_VALUE" and before in ("BUILD_TUPLE", "BUILD_LIST") for before, step in itertools.pairwise(steps))


def file_subjects(files: Sequence[str]) -> list[Subject]:
    """The rules of files: their tests, proofs, firing, and models around them; and the models that MODEL arguments name.

    Raises: RuleFileError for a file that cannot be used, LoadError for a model.
    """
    from rewrites.load import load_rules

    found = []
    for file in files:
        if is_model(file):
            from rewright.fuzzing.models import given_model

            given_model(file)
            found.append(Subject("given", Path(file).name, file))
            continue
        for rule in load_rules(file):
            found += [Subject(kind, rule.__name__, file) for kind in ("rule", "proof", "firing", "walk")]
    return found


def is_model(name: str) -> bool:
    """The argument names a model (`file.py:factory`, `.pt2`), not a file of rules (`file.py`, `file.py::Rule`)."""
    return name.endswith((".pt2", ".onnx")) or (":" in name and "::" not in name)


def order(subjects: Sequence[Subject], seed: int) -> Iterator[Task]:
    """Tasks without end: in each turn some operators, laws and models, and the tests, proofs, firing and surroundings of some rules.

    Each kind goes through its subjects in a drawn order, and with twice the examples each time round.
    """
    chance = random.Random(seed)
    queues = {kind: _rounds([s for s in subjects if s.kind == kind], chance.randrange(2**32)) for kind in _TURN}
    known = {subject.kind for subject in subjects}
    if not known:
        return
    number = itertools.count()
    for turn in itertools.count():
        for kind in _turn(turn):
            if kind not in known:
                continue
            subject, times = next(queues[kind])
            yield Task(next(number), subject, min(_TURN[kind] << times, _MOST[kind]))


_TURN = {"operator": 8, "rule": 1, "proof": 1, "law": 1, "firing": 1, "walk": 1, "model": 1, "given": 1}
"""Examples of a task, by kind, the first time round."""
_MOST = {"operator": 16, "rule": 4, "proof": 4, "law": 2, "firing": 4, "walk": 4, "model": 4, "given": 1}
"""Examples of a task at most."""
_OTHERS = (
    "model", "firing", "law", "firing", "law", "proof", "walk", "firing", "law", "firing", "law", "rule", "model", "firing", "law",
    "firing", "law", "given", "firing", "walk", "law", "firing", "law", "proof",
)  # fmt: skip


def _turn(number: int) -> Iterator[str]:
    """The kinds of one turn, operators between the others."""
    many = OPERATORS_PER_TURN if number * OPERATORS_PER_TURN < OPERATORS_FIRST else OPERATORS_PER_TURN // 4
    for position, kind in enumerate(_OTHERS):
        yield kind
        yield from ["operator"] * ((position + 1) * many // len(_OTHERS) - position * many // len(_OTHERS))


def _rounds(subjects: list[Subject], seed: int) -> Iterator[tuple[Subject, int]]:
    """The subjects in a drawn order, again and again, with how often all were through; groups take turns, small ones first."""
    chance = random.Random(seed)
    for times in itertools.count():
        groups: dict[str, list[Subject]] = {}
        for subject in chance.sample(subjects, len(subjects)):
            groups.setdefault(subject.group, []).append(subject)
        for row in itertools.zip_longest(*sorted(groups.values(), key=len)):
            for subject in row:
                if subject is not None:
                    yield subject, min(times, 4)


def replays(subjects: Sequence[Subject], database: str) -> list[Task]:
    """A task for each subject of which examples are kept."""
    from rewright.fuzzing.exploring import kept

    return [Task(-1 - k, s, 0, True) for k, s in enumerate(s for s in subjects if kept(s, database))]


def run(
    subjects: Sequence[Subject],
    seconds: float,
    seed: int = 0,
    *,
    database: str,
    executor: Executor | None = None,
    jobs: int = 1,
    first_only: bool = False,
    most_tasks: int | None = None,
    started: float | None = None,
    tell: Callable[[Campaign, Outcome, list[Finding]], None] = lambda campaign, outcome, new: None,
) -> Campaign:
    """Fuzz until the time is up (or so many tasks are done, or with `first_only` until something is found).

    database: the folder of kept examples   executor: where tasks run; here without one   tell: hears of each outcome
    started: when the time began, by `time.time()`; now, if left out
    """
    started = time.time() if started is None else started
    campaign = Campaign(seed)
    tasks: Iterator[Task] = itertools.chain(replays(subjects, database), itertools.islice(order(subjects, seed), most_tasks))
    deadline = started + seconds
    source = _here(tasks, seed, database, deadline) if executor is None else _there(tasks, seed, database, deadline, executor, jobs)
    for outcome in source:
        if outcome is None:
            campaign.lost += 1
            continue
        new = campaign.take(outcome, started)
        tell(campaign, outcome, new)
        if new and first_only:
            break
    campaign.seconds, campaign.computing = time.time() - started, time.process_time()
    return campaign


def _here(tasks: Iterator[Task], seed: int, database: str, deadline: float) -> Iterator[Outcome | None]:
    for task in tasks:
        if time.time() >= deadline:
            return
        yield attempt(task, seed, database, deadline + GRACE)


def _there(tasks: Iterator[Task], seed: int, database: str, deadline: float, executor: Executor, jobs: int) -> Iterator[Outcome | None]:
    """Outcomes in the order of the tasks, some tasks given out ahead."""
    waiting: deque[tuple[Task, Future[Any]]] = deque()
    for task in tasks:
        if time.time() >= deadline:
            break
        try:
            waiting.append((task, executor.submit(attempt, task, seed, database, deadline + GRACE)))
        except BrokenExecutor:
            break  # those waiting say that a process died
        if len(waiting) >= IN_FLIGHT * jobs:
            yield _answer(*waiting.popleft(), deadline)
    while waiting:
        yield _answer(*waiting.popleft(), deadline)


def _answer(task: Task, future: Future[Any], deadline: float) -> Outcome | None:
    """The task's outcome; None where the time was up first; a finding where a process died."""
    try:
        return future.result(max(0.0, deadline + GRACE - time.time()))  # type: ignore[no-any-return]
    except (TimeoutError, CancelledError):
        future.cancel()
        return None
    except BrokenExecutor as error:
        problem = Problem("a process dies", f"the process that ran {task.subject}, or one beside it, died: {error}")
        return Outcome(task.number, task.subject, findings=[Finding(task.subject, problem, 0, task.number)])


_struck = False
"""A time limit has struck in this process: some module may be half loaded, or some cache half filled."""


def attempt(task: Task, seed: int, database: str, until: float) -> Outcome | None:
    """One task within its time, and until a time by the clock; None where the budget ended it.

    What is found in a process in which a time limit has struck before counts as far as a fresh process finds it, too.
    """
    outcome = _attempt(task, seed, database, until)
    if outcome is None or not outcome.findings or not _struck:
        return outcome
    from verifier.isolation import IsolationError, isolated

    try:
        return isolated(_attempt, task, seed, database, until, seconds=max(0.0, until - time.time()))  # type: ignore[no-any-return]
    except IsolationError:
        return None


def _attempt(task: Task, seed: int, database: str, until: float) -> Outcome | None:
    global _struck
    from rewright.fuzzing.finding import problem_of
    from verifier.isolation import TimeLimit, time_limit

    left, computing = until - time.time(), time.process_time()
    if left <= 0:
        return None
    strikes: list[float] = []
    try:
        with time_limit(min(left, TASK_SECONDS)) as strikes:
            from rewright.fuzzing.exploring import explore

            outcome = explore(task.subject, seed, task.number, task.examples, database, task.replay)
        if not strikes:
            return outcome
    except TimeLimit:
        pass
    except Exception as error:  # what no check of the subject took for its own: a strike that came out as something else, or a fault
        if not strikes:
            problem = problem_of(error, f"{task.subject} raises", "")
            return Outcome(task.number, task.subject, findings=[Finding(task.subject, problem, seed, task.number)])
    _struck = True
    if left <= TASK_SECONDS or time.process_time() - computing < 0.8 * TASK_SECONDS:
        return None  # the time was up, or the machine had little time for this process
    problem = Problem(f"does not end: {task.subject}", f"{task.subject} did not end within {TASK_SECONDS:g} s")
    return Outcome(task.number, task.subject, findings=[Finding(task.subject, problem, seed, task.number)])


__all__ = ["Campaign", "Task", "attempt", "file_subjects", "library_subjects", "order", "replays", "run"]
