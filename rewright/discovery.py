"""Discovering rules: the generator's run with the verifier as its judge, over local processes, a given executor, or none."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphs.graph import Graph
    from rewrites.generator.discovery import Findings
    from rewrites.generator.judging import Judgement


def discover(
    operators: Sequence[str] | None = None,
    most_operations: int = 3,
    *,
    executor: Executor | None = None,
    state: Path | None = None,
    most_classes: int = 4_000_000,
    most_memory: int | None = None,
    inputs: tuple[int, int] = (4, 2),
    model: Graph | None = None,
    report: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Findings:
    """Find rules over the operators' families (the default eleven and the constants when None) with at most so many operations a side.

    `executor` verifies candidates; `state` is a file from which an interrupted run goes on; `most_classes` is how many classes of terms are
    held in memory before the rest goes to disk, and where this process holds `most_memory` bytes the enumeration stops; `inputs` are the
    activations and the weights of each sort; `report(what, done, total)` is called as the run goes on. With a `model` the operators are the
    model's and those that replace them, and patterns only such as may occur in it.
    Raises: ValueError for an unknown operator, or a model without any known one.
    """
    from rewrites.generator.discovery import Discovery
    from rewrites.generator.occurrence import neighbourhood
    from rewrites.generator.vocabulary import DEFAULT, chosen, sorts_for, sources

    around = None if model is None else neighbourhood(model)
    if operators is None and around is not None:
        operators = sorted(around.families | around.helpers)
        if not operators:
            raise ValueError("the model: must have operators that discovery knows, got none")
    operations = chosen(DEFAULT if operators is None else operators)
    run = Discovery(
        operations,
        sources(*inputs, sorts_for(operations)),
        judge,
        most_operations,
        executor=executor,
        confirm=confirm,
        state=state,
        most_classes=most_classes,
        most_memory=most_memory,
        occurs=None if around is None else around.has,
        report=report,
    )
    return run.run()


def judge(name: str, text: str) -> Judgement:
    """Verify a rule given as Python text, and its reverse where it is bidirectional: it holds if both are proved for all sizes."""
    return _judged(name, text, examples=30, seed=0)


def confirm(name: str, text: str) -> Judgement:
    """The same with other and more examples: what few did not show is to be declared before a rule is handed out."""
    return _judged(name, text, examples=150, seed=1)


def _judged(name: str, text: str, examples: int, seed: int) -> Judgement:
    from rewrites.generator.generalisation import rule_from_text
    from rewrites.generator.judging import Judgement
    from rewrites.reverse import reverse
    from rewrites.signature import RuleDefinitionError
    from verifier.verdict import Status
    from verifier.verify import verify

    begun = time.process_time()
    rule = rule_from_text(name, text)
    verdict = verify(rule, examples=examples, timeout=90.0, seed=seed)
    if rule.bidirectional and verdict.status is Status.PROVED:
        try:
            verdict = verify(reverse(rule), examples=examples, timeout=90.0, seed=seed)
        except RuleDefinitionError as error:
            return Judgement(False, "not a rule", str(error))
    return Judgement(verdict.status is Status.PROVED, verdict.status.value, verdict.reason, time.process_time() - begun)
