"""Discovering rules: the generator's run with the verifier as its judge, over local processes, a given executor, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rewrites.generator.discovery import Findings
    from rewrites.generator.judging import Judgement


def discover(
    operators: Sequence[str] | None = None,
    most_operations: int = 3,
    *,
    executor: Executor | None = None,
    state: Path | None = None,
    most_classes: int = 4_000_000,
    report: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Findings:
    """Find rules over the operators' families (the default eleven and the constants when None) with at most so many operations a side.

    `executor` verifies candidates; `state` is a file from which an interrupted run goes on; `most_classes` is how many classes of terms are
    held in memory before the rest goes to disk; `report(what, done, total)` is called as the run goes on.
    Raises: ValueError for an unknown operator.
    """
    from rewrites.generator.discovery import Discovery
    from rewrites.generator.vocabulary import DEFAULT, chosen, sorts_for, sources

    operations = chosen(DEFAULT if operators is None else operators)
    run = Discovery(
        operations,
        sources(4, 2, sorts_for(operations)),
        judge,
        most_operations,
        executor=executor,
        state=state,
        most_classes=most_classes,
        report=report,
    )
    return run.run()


def judge(name: str, text: str) -> Judgement:
    """Verify a rule given as Python text, and its reverse where it is bidirectional: it holds if both are proved for all sizes."""
    from rewrites.generator.generalisation import rule_from_text
    from rewrites.generator.judging import Judgement
    from rewrites.reverse import reverse
    from rewrites.signature import RuleDefinitionError
    from verifier.verdict import Status
    from verifier.verify import verify

    rule = rule_from_text(name, text)
    verdict = verify(rule, examples=30, timeout=30.0)
    if rule.bidirectional and verdict.status is Status.PROVED:
        try:
            verdict = verify(reverse(rule), examples=30, timeout=30.0)
        except RuleDefinitionError as error:
            return Judgement(False, "not a rule", str(error))
    return Judgement(verdict.status is Status.PROVED, verdict.status.value, verdict.reason)


@contextmanager
def processes(jobs: int) -> Iterator[Executor | None]:
    """An executor of so many processes; None for one."""
    if jobs == 1:
        yield None
        return
    import multiprocessing

    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_one_thread) as pool:
        yield pool


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
