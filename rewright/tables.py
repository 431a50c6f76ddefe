"""Rich tables of verdicts and of optimisations, for the terminal. Names are printed as they are, never as markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from rewright.reports import Entry

if TYPE_CHECKING:
    from costs.roofline import Cost
    from rewright.optimization import Result

_COLOURS = {"PROVED": "green", "PROVED_BOUNDED": "green", "TESTED": "cyan", "TRIVIAL": "yellow", "UNDECIDED": "yellow"}


def verdict_table(entries: Sequence[Entry]) -> Table:
    """A row per rule: its verdict, and the scope in which it holds or the reason why not."""
    table = Table("rule", "verdict", "scope or reason", "equality")
    table.add_column("seconds", justify="right")
    for entry in entries:
        verdict = entry.verdict
        status = Text(entry.status, style=_COLOURS.get(entry.status, "bold red"))
        words = "; ".join(part for part in (*_scope_or_reason(entry), verdict.get("suggestion")) if part)
        cells = (Text(entry.name, overflow="fold"), status, Text(words), Text(str(verdict["equality"])))
        table.add_row(*cells, f"{verdict['seconds']:.2f}")
    return table


def _scope_or_reason(entry: Entry) -> tuple[str, ...]:
    """For a rule that was only tested both: how far, and why there is no proof."""
    scope, reason = str(entry.verdict["scope"] or ""), str(entry.verdict["reason"] or "")
    if entry.status in ("PROVED", "PROVED_BOUNDED"):
        return (scope,)
    if entry.status == "TESTED":
        return scope, reason
    return (reason,)


def step_table(result: Result) -> Table:
    """A row per step of an optimisation, with the figures after it; steps that made things worse are marked."""
    table = Table("", "step", "place", title=f"{result.objective} on {result.device}, kernels {result.kernels}", title_justify="left")
    for heading in ("µs", "GFLOP", "MB moved", "kernels", "change"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    table.add_row("", Text("the model as it is"), "", *_figures(result.before), "", "")
    begun = result.steps[0].cost_before if result.steps else result.after
    if result.figure(begun) != result.figure(result.before):
        change = f"{result.figure(begun) / result.figure(result.before) - 1:+.1%}" if result.figure(result.before) else ""
        table.add_row("", Text("no-ops and copies dropped, constants folded"), "", *_figures(begun), change, "")
    for number, step in enumerate(result.steps, 1):
        before = result.figure(step.cost_before)
        change = f"{result.figure(step.cost_after) / before - 1:+.1%}" if before else ""
        mark = Text("regression", style="bold yellow") if step.regression else ""
        table.add_row(str(number), Text(step.rule), Text(step.place), *_figures(step.cost_after), change, mark)
    return table


def _figures(cost: Cost) -> tuple[str, ...]:
    return f"{cost.time * 1e6:,.1f}", f"{cost.flops / 1e9:,.2f}", f"{cost.bytes / 1e6:,.1f}", f"{cost.kernels:,}"


def profile_table(profile: Mapping[str, Any]) -> Table:
    """A row per runtime and module: milliseconds, kernels, and in eager mode what they read and write."""
    table = Table("runtime", "module")
    for heading in ("ms", "kernels", "from libraries", "MB moved", "before / after"):
        table.add_column(heading, justify="right", no_wrap=True)
    for runtime, found in profile.items():
        ratio = f"{found['ratio']:.2f} ({found['low']:.2f} to {found['high']:.2f})"
        for side in ("before", "after"):
            figures = found[side]
            moved = f"{figures['bytes'] / 1e6:,.1f}" if "bytes" in figures else ""
            library = f"{figures['library']:,}" if "library" in figures else ""
            cells = (f"{figures['seconds'] * 1e3:,.2f}", f"{figures['kernels']:,}", library, moved)
            table.add_row(runtime, side, *cells, ratio if side == "after" else "")
    return table
