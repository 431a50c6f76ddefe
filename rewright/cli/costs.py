"""`rewright costs`: where a model's time goes, by operator and by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewright.cli.app import app
from rewright.cli.console import Exit, bad_input, messages, output, require_places, status, write
from rewright.cli.loading import captured
from rewright.files import json_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from costs.roofline import Roofline
    from graphs.graph import Graph
    from rewright.breakdown import Breakdown, Share


@app.command()
def costs(
    model: Annotated[str, typer.Argument(metavar="MODEL", show_default=False, help="As for `optimize`.")],
    device: Annotated[str | None, typer.Option(help="The device to price for: h100, or with --measured this machine.")] = None,
    kernels: Annotated[str | None, typer.Option(help="How operators share kernels: none, pointwise or inductor-like.")] = None,
    measured: Annotated[bool, typer.Option("--measured", help="Run every distinct kernel on this machine, instead of a roofline.")] = False,
    then: Annotated[str | None, typer.Option(help="What runs the kernels when they are measured: eager or inductor.")] = None,
    training: Annotated[bool, typer.Option("--training", help="Price a forward pass and the gradients of all parameters.")] = False,
    top: Annotated[int, typer.Option(min=1, help="The most rows of each table.")] = 20,
    json: Annotated[str | None, typer.Option(metavar="F", help="Write the figures as JSON; - is standard output.")] = None,
) -> int:
    """Show where a model's time goes: per operator and per layer, with arithmetic, memory traffic and what bounds them."""
    from costs.devices import UnknownDeviceError
    from costs.kernels import UnknownPolicyError
    from costs.measured import Measured
    from costs.roofline import CostError, trained
    from costs.runtimes import UnknownRuntimeError
    from graphs.database import StoreError
    from rewright.breakdown import breakdown

    require_places(json)
    with bad_input(UnknownDeviceError, UnknownPolicyError, UnknownRuntimeError):
        _pricing(device, kernels, measured, then, {})
    graph, sizes = captured(model)
    with bad_input(CostError, StoreError):
        priced = trained(graph) if training else graph
        roofline = _pricing(device, kernels, measured, then, sizes, graph)
        with status("measuring" if measured else "pricing"):
            total = roofline.cost(priced)
            parts = breakdown(priced, roofline)
    figures = {
        "model": model,
        "device": roofline.device.name,
        "kernels_policy": roofline.policy.name,
        "runtime": roofline.runtime.name if isinstance(roofline, Measured) else None,
        "training": training,
        "sizes": sizes,
        "total": total.as_dict(),
        **{name: [share.as_dict() for share in getattr(parts, name)] for name in ("operators", "layers", "repeated")},
        "unmeasured": sorted(roofline.unmeasured) if isinstance(roofline, Measured) else [],
    }
    if json is not None:
        write(json, json_text(figures))
    _print(figures, parts, top, messages() if json == "-" else output())
    return Exit.HOLDS


def _pricing(
    device: str | None, kernels: str | None, measured: bool, then: str | None, sizes: dict[str, int], graph: Graph | None = None
) -> Roofline:
    from costs.measured import Measured, is_cold
    from costs.roofline import Roofline
    from costs.runtimes import runtime

    found = None if then is None else runtime(then)
    if measured:
        policy = kernels or (found.policy if found is not None else "none")
        return Measured(found or "eager", device or "cpu", sizes, cold=graph is not None and is_cold(graph, sizes), kernels=policy)
    return Roofline(device or "h100", kernels or (found.policy if found is not None else "inductor-like"), sizes)


def _print(figures: dict[str, Any], parts: Breakdown, top: int, console: Console) -> None:
    how = f"measured in {figures['runtime']} on this machine" if figures["runtime"] else f"by the roofline of {figures['device']}"
    console.print(f"{'A step of training' if figures['training'] else 'Inference'}, {how}, kernels {figures['kernels_policy']}")
    console.print(_table("operator", parts.operators, top))
    if len(parts.layers) > 1:
        repeats = len(parts.repeated) < len(parts.layers)
        console.print(_table("layer", parts.repeated if repeats else parts.layers, top))
    total = figures["total"]
    work = f"{total['flops'] / 1e9:,.3f} GFLOP, {total['bytes'] / 1e6:,.1f} MB moved, {total['memory'] / 1e6:,.1f} MB at the peak"
    console.print(f"{total['time'] * 1e6:,.1f} µs in {total['kernels']:,} kernels; {work}")
    for name in figures["unmeasured"]:
        console.print(f"not measured, the roofline's figure instead: {name}", soft_wrap=True)


def _table(title: str, shares: Sequence[Share], top: int) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title)
    for heading in ("kernels", "µs", "share", "GFLOP", "MB moved"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("bound by")
    for share in shares[:top]:
        cells = (f"{share.time * 1e6:,.1f}", f"{share.share:.1%}", f"{share.flops / 1e9:,.3f}", f"{share.bytes / 1e6:,.1f}")
        table.add_row(Text(share.name), f"{share.kernels:,}", *cells, share.bound)
    if len(shares) > top:
        rest = sum(share.share for share in shares[top:])
        table.add_row(Text(f"… {len(shares) - top} more"), f"{sum(s.kernels for s in shares[top:]):,}", "", f"{rest:.1%}", "", "", "")
    return table
