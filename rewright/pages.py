"""The HTML report of an optimisation: one self-contained page, every name escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costs.roofline import Cost
    from rewright.optimization import Result

DRAWN = 1500
"""Graphs with more nodes than this are given by their figures only."""

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; background: #fff }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .25rem .8rem }
td, th { border-bottom: 1px solid #ddd; text-align: left; vertical-align: top }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums } tr.regression td { background: #fff3e0 }
code { font-size: 90% } .graph { overflow: auto; border: 1px solid #ddd; padding: .5rem; max-height: 40rem } summary { cursor: pointer }
"""


def page(result: Result) -> str:
    """The report of one optimisation as an HTML page."""
    parts = [
        f"<p>Objective <b>{escape(result.objective)}</b> on <b>{escape(result.device)}</b>, "
        f"kernels grouped as <b>{escape(result.kernels)}</b>: "
        f"<b>{result.gain:.2f} times</b> better, found in {result.seconds:.1f} s"
        f"{'' if result.complete else ' (the budget ended before the search did)'}.</p>",
        "<h2>Before and after</h2>",
        _figures(result.before, result.after),
        f"<p>Largest difference from the original on the check's inputs, "
        f"relative to each output's largest magnitude: {_errors(result)}.</p>",
        "<h2>By the clock</h2>",
        _clock(result),
        "<h2>Steps</h2>",
        _steps(result),
        "<h2>Evidence</h2>",
        _evidence(result),
        "<h2>Graphs</h2>",
        _drawing("before", result.original),
        _drawing("after", result.graph),
    ]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>rewright: optimisation report</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>Optimisation report</h1>\n{body}\n</body></html>"
    )


def _figures(before: Cost, after: Cost) -> str:
    rows = [
        ("time", f"{before.time * 1e6:,.1f} µs", f"{after.time * 1e6:,.1f} µs", before.time, after.time),
        ("arithmetic", f"{before.flops / 1e9:,.3f} GFLOP", f"{after.flops / 1e9:,.3f} GFLOP", before.flops, after.flops),
        ("bytes moved", f"{before.bytes / 1e6:,.1f} MB", f"{after.bytes / 1e6:,.1f} MB", before.bytes, after.bytes),
        ("kernels", f"{before.kernels:,}", f"{after.kernels:,}", before.kernels, after.kernels),
        ("peak memory", f"{before.memory / 1e6:,.1f} MB", f"{after.memory / 1e6:,.1f} MB", before.memory, after.memory),
    ]
    cells = [(name, old, new, f"{start / end:.2f}x" if end else "") for name, old, new, start, end in rows]
    return _table(("", "before", "after", "before / after"), cells, numbers=(1, 2, 3))


def _clock(result: Result) -> str:
    """What was timed on this machine, and what that decided."""
    parts = [f"<p>{escape(result.speed_note)}.</p>"] if result.speed_note else ["<p>Nothing was timed.</p>"]
    if result.speed is not None:
        parts.append(f"<p>{escape(result.speed.machine)}.</p>")
    rows = [
        (
            runtime,
            side,
            f"{found[side]['seconds'] * 1e3:,.2f} ms",
            found[side]["kernels"],
            f"{found['ratio']:.2f}" if side == "after" else "",
        )
        for runtime, found in (result.profile or {}).items()
        for side in ("before", "after")
    ]
    if rows:
        parts.append(_table(("runtime", "module", "time", "kernels", "before / after"), rows, numbers=(2, 3, 4)))
    return "\n".join(parts)


def _errors(result: Result) -> str:
    return ", ".join(
        f"{error:.2g} in {'the dtypes of the model' if name == 'native' else escape(name)}" for name, error in result.max_error.items()
    )


def _steps(result: Result) -> str:
    if not result.steps:
        return "<p>Nothing that the rules do makes this model better.</p>"
    rows, marked = [], []
    for number, step in enumerate(result.steps, 1):
        before, after = step.cost_before, step.cost_after
        change = result.figure(after) / result.figure(before) - 1 if result.figure(before) else 0.0
        note = "a step back that pays later" if step.regression else ""
        rows.append(
            (
                number,
                step.rule,
                step.place,
                f"{after.time * 1e6:,.1f}",
                f"{after.flops / 1e9:,.3f}",
                after.kernels,
                f"{change:+.1%}",
                note,
                step.certificate[:12],
            )
        )
        marked.append(step.regression)
    heads = ("", "rule", "place", "µs", "GFLOP", "kernels", result.objective, "", "certificate")
    return _table(heads, rows, numbers=(0, 3, 4, 5, 6), marked=marked)


def _evidence(result: Result) -> str:
    rows = [
        (name, verdict.status, verdict.scope, verdict.equality, f"{verdict.seconds:.2f} s", verdict.content[:12])
        for name, verdict in sorted(result.certificates.items())
    ]
    return (
        _table(("rule", "verdict", "scope", "equality", "took", "certificate"), rows, numbers=(4,))
        if rows
        else "<p>No rule was applied.</p>"
    )


def _drawing(title: str, graph: Any) -> str:
    from graphs.draw import draw

    if len(graph) > DRAWN:
        return f"<p>The graph {title} has {len(graph)} nodes, too many to draw here.</p>"
    return f'<details open><summary>The graph {title}, {len(graph)} nodes</summary><div class="graph">{draw(graph)}</div></details>'


def _table(heads: Sequence[Any], rows: Iterable[Sequence[Any]], numbers: Sequence[int] = (), marked: Sequence[bool] = ()) -> str:
    def cell(tag: str, column: int, value: Any) -> str:
        kind = ' class="number"' if column in numbers else ""
        return f"<{tag}{kind}>{escape(str(value))}</{tag}>"

    lines = ["<table>", "<tr>" + "".join(cell("th", i, value) for i, value in enumerate(heads)) + "</tr>"]
    for position, row in enumerate(rows):
        kind = ' class="regression"' if position < len(marked) and marked[position] else ""
        lines.append(f"<tr{kind}>" + "".join(cell("td", i, value) for i, value in enumerate(row)) + "</tr>")
    return "\n".join([*lines, "</table>"])
