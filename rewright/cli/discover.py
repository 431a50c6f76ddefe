"""`rewright discover`: find rules nobody wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewright.cli.app import app
from rewright.cli.console import Exit, bad_input, output, progress, require_places, write
from rewright.cli.loading import captured
from rewright.files import json_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphs.graph import Graph
    from rewright.ranking import Gain
    from rewrites.generator.discovery import Findings

_BYTES_PER_CLASS = 400
"""What one class of terms takes in memory: fingerprint, representative, and as much again for what else is held."""


@app.command()
def discover(
    operators: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...", help="Operators that take part, Softmax or silu for two; matmul, conv, add, relu, … if none are named."
        ),
    ] = None,
    max_ops: Annotated[int, typer.Option(min=1, max=6, help="Operations on a side at most.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that verify candidates.")] = 1,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Verify candidates on the Dask cluster of this scheduler instead.")
    ] = None,
    max_memory: Annotated[
        float, typer.Option(min=0.1, metavar="GIB", help="Memory for terms; classes beyond go to disk, then the run stops.")
    ] = 4.0,
    model: Annotated[
        str | None,
        typer.Option("--for", metavar="MODEL", help="Only patterns that may occur in this model, ranked by what they save there."),
    ] = None,
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
    graph = None if model is None else captured(model)[0]
    with bad_input(ValueError, ClusterError), progress() as bar, executor(jobs, cluster) as where:
        task = bar.add_task("enumerating", total=None)

        def report(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        memory = int(max_memory * 2**30)
        findings = run(
            names,
            max_ops,
            executor=where,
            state=state,
            most_classes=memory // _BYTES_PER_CLASS,
            most_memory=memory,
            model=graph,
            report=report,
        )
    ranked = [] if model is None or graph is None else _ranked(findings, model, graph)
    found = findings.to_json() | ({} if model is None else {"gains": [_as_dict(gain) for gain in ranked]})
    if rules is not None:
        write(rules, findings.source() if rules.endswith(".py") else json_text(found))
    if json is not None:
        write(json, json_text(found))
    if "-" not in (rules, json):
        _show(findings)
        if model is not None:
            _show_gains(ranked, model)
    return Exit.UNDECIDED if findings.pending or findings.stopped else Exit.HOLDS


def _ranked(findings: Findings, model: str, graph: Graph) -> list[Gain]:
    """The kept rules that lower the model's cost by themselves, what saves most first."""
    from rewright.certification import Certification
    from rewright.ranking import gains
    from rewright.verification import Request, verdict_of

    certified = Certification(lambda rule: verdict_of(rule, Request()))
    return sorted(gains(findings.rules, model, graph, certified), key=lambda gain: -gain.share)


def _as_dict(gain: Gain) -> dict[str, Any]:
    return {
        "rule": gain.rule.__name__,
        "share": gain.share,
        "before": gain.before.as_dict(),
        "after": gain.after.as_dict(),
        "applications": gain.applications,
    }


def _show_gains(ranked: Sequence[Gain], model: str) -> None:
    from rich.table import Table

    shown = Table("rule", "time saved", "µs", "kernels", "times applied", title=f"What each rule saves in {model} by itself")
    for gain in ranked:
        times = f"{gain.before.time * 1e6:.1f} → {gain.after.time * 1e6:.1f}"
        kernels = f"{gain.before.kernels} → {gain.after.kernels}"
        shown.add_row(gain.rule.__name__, f"{100 * gain.share:.1f} %", times, kernels, str(gain.applications))
    output().print(shown)


def _show(findings: Findings) -> None:
    from rich.table import Table

    console = output()
    growth = Table("operations", "terms", "new classes", "equations", "seconds", "MiB at most", title="Growth")
    for level in findings.growth:
        cells: list[Any] = [level.operations, level.tried, level.classes, level.equations]
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
    if findings.stopped:
        console.print(f"ended early: {findings.stopped}")
