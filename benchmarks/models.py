"""Capturing and emitting every model of examples/models: `python -m benchmarks.models [NAME...] [--write]`.

Per model: nodes (inputs, constants and numbers left out), opaque ones among them, seconds for torch.export alone, for capture
(torch.export included) and for emit, their ratio, and the largest difference between the emitted module and eager.
"""

from __future__ import annotations

import argparse
import collections
import os
import platform
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from examples.models import MODELS
from graphs.capture import call_arguments, from_exported_program
from graphs.emit import to_module
from operators.opaque import Opaque
from operators.sources import Constant, Input, Scalar

RESULTS = Path(__file__).parent / "results" / "models.md"


def measure(name: str, opaque: collections.Counter[str]) -> dict[str, Any]:
    """One row of the table; opaque targets are counted in `opaque`."""
    module, inputs = MODELS[name]()
    arguments, named = call_arguments(inputs)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, arguments, named)
    exported = time.perf_counter()
    graph = from_exported_program(program, module)
    captured = time.perf_counter()
    emitted = to_module(graph)
    done = time.perf_counter()
    nodes = [graph.operator(node) for node in graph if not isinstance(graph.operator(node), (Input, Constant, Scalar))]
    unknown = [operator for operator in nodes if isinstance(operator, Opaque)]
    opaque.update(operator.target for operator in unknown)
    with torch.no_grad():
        error = largest_difference(module(*arguments, **named), emitted(*arguments, **named))
    seconds = {"export": exported - start, "capture": captured - start, "emit": done - captured}
    return {
        "model": name,
        "nodes": len(nodes),
        "opaque": len(unknown),
        **seconds,
        "ratio": (done - start) / (exported - start),
        "max error": error,
    }


def largest_difference(expected: Any, found: Any) -> float:
    """The largest absolute difference of two outputs of the same structure; inf where structure, dtype or NaNs differ."""
    left, right = pytree.tree_flatten(expected), pytree.tree_flatten(found)
    if left[1] != right[1]:
        return float("inf")
    worst = 0.0
    for a, b in zip(left[0], right[0], strict=True):
        if not isinstance(a, torch.Tensor):
            worst = max(worst, 0.0 if a == b else float("inf"))
        elif a.dtype != b.dtype or a.shape != b.shape or not torch.equal(a.isnan(), b.isnan()):
            worst = float("inf")
        elif not torch.equal(a.nan_to_num(), b.nan_to_num()):
            worst = max(worst, (a.double() - b.double()).abs().nan_to_num(float("inf")).max().item())
    return worst


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a Markdown table."""
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    for row in rows:
        cells = [
            f"{value:.2f}" if isinstance(value, float) and key != "max error" else f"{value:g}" if key != "model" else value
            for key, value in row.items()
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--write", action="store_true", help="write the tables into benchmarks/results/ and docs/opaque.md")
    options = parser.parse_args()
    opaque: collections.Counter[str] = collections.Counter()
    rows = []
    for name in options.names:
        rows.append(measure(name, opaque))
        print(rows[-1], file=sys.stderr, flush=True)
    nodes, unknown = sum(row["nodes"] for row in rows), sum(row["opaque"] for row in rows)
    share = f"{unknown} of {nodes} nodes are opaque: {100 * (1 - unknown / nodes):.2f} % are defined operators."
    machine = (
        f"torch {torch.__version__}, {torch.get_num_threads()} threads on {os.cpu_count()} cores, {platform.machine()}, float32, eval mode."
    )
    report = f"# Models captured and emitted\n\n`python -m benchmarks.models --write`; {machine}\n\n{table(rows)}\n\n{share}\n"
    names = [f"| `{name}` | {count} |" for name, count in sorted(opaque.items(), key=lambda item: (-item[1], item[0]))]
    head = (
        f"# What is opaque\n\nOver all models of `examples/models`: {share}\nAn opaque node is kept as it is; rules never look into it.\n\n"
    )
    listing = head + "\n".join(["| torch operator | nodes |", "|---|---|", *names]) + "\n"
    print(report + "\n" + listing)
    if options.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(report)
        (Path(__file__).parents[1] / "docs" / "opaque.md").write_text(listing)
    return 0 if all(row["max error"] == 0 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
