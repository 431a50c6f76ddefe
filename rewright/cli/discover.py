"""`rewright discover`: find rules nobody wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewright.cli.app import app
from rewright.cli.console import Exit, bad_input, output, progress, require_places, write
from rewright.files import json_text

if TYPE_CHECKING:
    from rewrites.generator.discovery import Findings

_BYTES_PER_CLASS = 700
"""What one class of terms takes in memory, fingerprint and bookkeeping included (measured at three operations)."""


@app.command()
def discover(
    operators: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Operators that take part; matmul, conv, add, relu, … if none are named.")
    ] = None,
    max_ops: Annotated[int, typer.Option(min=1, max=6, help="Operations on a side at most.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that verify candidates.")] = 1,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Verify candidates on the Dask cluster of this scheduler instead.")
    ] = None,
    max_memory: Annotated[float, typer.Option(min=0.1, metavar="GIB", help="Memory for classes of terms; the rest goes to disk.")] = 4.0,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep progress here; the same file goes on where a run stopped.")
    ] = None,
    rules: Annotated[
        str | None, typer.Option("-o", "--output", metavar="F", help="Write the rules: .py as Python, otherwise JSON.")
    ] = None,
    json: Annotated[str | None, typer.Option(metavar="F", help="Write everything found as JSON; - is standard output.")] = None,
) -> int:
    """Enumerate small graphs that compute the same, keep what no kept rule derives, and prove it for every shape."""
    from rewright.discovery import discover as run
    from rewright.executors import ClusterError, executor

    require_places(rules, json, state)
    names = None if operators is None else [name.strip() for name in operators.split(",") if name.strip()]
    with bad_input(ValueError, ClusterError), progress() as bar, executor(jobs, cluster) as where:
        task = bar.add_task("enumerating", total=None)

        def report(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        limit = int(max_memory * 2**30 / _BYTES_PER_CLASS)
        findings = run(names, max_ops, executor=where, state=state, most_classes=limit, report=report)
    if rules is not None:
        write(rules, findings.source() if rules.endswith(".py") else json_text(findings.to_json()))
    if json is not None:
        write(json, json_text(findings.to_json()))
    if "-" not in (rules, json):
        _show(findings)
    return Exit.UNDECIDED if findings.pending else Exit.HOLDS


def _show(findings: Findings) -> None:
    from rich.table import Table

    console = output()
    growth = Table("operations", "terms tried", "defined", "classes", "equations", "seconds", "MiB at most", title="Growth")
    for level in findings.growth:
        cells: list[Any] = [level.operations, level.tried, level.defined, level.classes, level.equations]
        growth.add_row(*map(str, cells), f"{level.seconds:.1f}", f"{level.memory / 2**20:.0f}")
    console.print(growth)
    kept = Table("rule", "law", "conditions", "verdict", title="Kept")
    for found, judgement in findings.kept:
        kept.add_row(found.name, found.rule.statement(), ", ".join(found.conditions), judgement.status)
    console.print(kept)
    for status, count in findings.wrong.most_common():
        console.print(f"not kept, {status}: {count}, for example {findings.samples[status]}", soft_wrap=True)
    console.print(
        f"{findings.raw} candidates: {len(findings.kept)} kept, {findings.derived} derived by kept rules, "
        f"{findings.superseded} special cases of kept rules, {sum(findings.wrong.values())} not kept, "
        f"{findings.pending} left; {findings.no_rule} equations are no rules"
    )
