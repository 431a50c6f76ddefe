"""`rewright show`: what a model consists of and costs, and a drawing of its graph."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewright.cli.app import app
from rewright.cli.console import Exit, bad_input, messages, output, write
from rewright.cli.loading import captured
from rewright.files import json_text

if TYPE_CHECKING:
    from graphs.graph import Graph


@app.command()
def show(
    model: Annotated[str, typer.Argument(metavar="MODEL", show_default=False, help="As for `optimize`.")],
    svg: Annotated[Path | None, typer.Option(metavar="F.svg", help="Draw the graph; a block that repeats is drawn once.")] = None,
    json: Annotated[str | None, typer.Option(metavar="F", help="Write the figures as JSON; - is standard output.")] = None,
    device: Annotated[str, typer.Option(help="The device to price for.")] = "h100",
    kernels: Annotated[str, typer.Option(help="How operators share kernels: none, pointwise or inductor-like.")] = "inductor-like",
) -> int:
    """Show a model's operators, parameters, arithmetic, memory traffic and time by the roofline."""
    from costs.devices import UnknownDeviceError
    from costs.devices import device as find_device
    from costs.kernels import UnknownPolicyError, policy
    from costs.roofline import CostError, cost

    with bad_input(UnknownDeviceError, UnknownPolicyError):
        find_device(device), policy(kernels)
    graph, sizes = captured(model)
    with bad_input(CostError):
        figures = described(graph) | cost(graph, device, kernels, sizes).as_dict()
    if svg is not None:
        from graphs.draw import draw

        write(str(svg), draw(graph))
    if json is not None:
        write(json, json_text({"model": model, "device": device, "kernels_policy": kernels, "sizes": sizes, **figures}))
    _print(figures, device, kernels, json == "-")
    return Exit.HOLDS


def described(graph: Graph) -> dict[str, Any]:
    """The graph's nodes and operators by number, its parameters, and the share of opaque ones."""
    from operators.foreign import Foreign
    from operators.opaque import Opaque
    from operators.sources import Constant, Input, Scalar

    operators = [graph.operator(node) for node in graph if not isinstance(graph.operator(node), (Constant, Input, Scalar))]
    counts = Counter(op.target if isinstance(op, Opaque) else str(op) if isinstance(op, Foreign) else type(op).__name__ for op in operators)
    tensors = {id(tensor): tensor for tensor in graph.constants.values()}.values()
    return {
        "nodes": len(graph),
        "operators": dict(counts.most_common()),
        "opaque": sum(isinstance(operator, (Opaque, Foreign)) for operator in operators),
        "parameters": sum(tensor.numel() for tensor in tensors),
        "parameter_bytes": sum(tensor.numel() * tensor.element_size() for tensor in tensors),
    }


def _print(figures: dict[str, Any], device: str, kernels: str, quiet: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    console = messages() if quiet else output()
    table = Table("operator")
    table.add_column("number", justify="right")
    for name, count in figures["operators"].items():
        table.add_row(Text(name), f"{count:,}")
    console.print(table)
    total = sum(figures["operators"].values())
    console.print(f"{total:,} operators ({figures['opaque']} opaque), {figures['nodes']:,} nodes with inputs and constants")
    console.print(f"{figures['parameters']:,} numbers in parameters and buffers, {figures['parameter_bytes'] / 1e6:,.1f} MB")
    work = f"{figures['flops'] / 1e9:,.3f} GFLOP, {figures['bytes'] / 1e6:,.1f} MB moved"
    console.print(f"{work}, {figures['memory'] / 1e6:,.1f} MB at the peak")
    console.print(f"{figures['time'] * 1e6:,.1f} µs in {figures['kernels']:,} kernels on {device}, kernels {kernels}")
