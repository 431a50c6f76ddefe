"""Predicted against measured totals: `python -m benchmarks.calibration [MODELS...] [--batches 1,8] [--threads 2] [--write]`.

Every model of `examples.models` runs in eager mode, as emitted; beside it stand the sum of its kernels, each measured by itself
(`costs.measured`), and the roofline of a device fitted to those kernels (`costs.fitting`; `--fit` prints it as it stands in
`costs/devices.py`). A model counts as heavy in convolutions and matrix products where these take at least three quarters of its time.
The process keeps the memory that it frees, so that page faults are not in the times; with one thread they are those of the thread's own
clock, which leaves out what other programs take. Kernels and totals are kept in `--state` and `--store`, to be taken up again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.batches import keep_memory, model_with
from benchmarks.tables import table, write
from costs.devices import DEVICES, Device
from costs.fitting import Sample, fitted, predicted, rank_correlation, samples
from costs.measured import Measured, Measurements, is_cold
from costs.runtimes import Eager, fingerprint
from costs.timing import interleaved
from examples.models import MODELS
from graphs.capture import call_arguments, capture
from graphs.emit import to_module

HEADS = ("model", "batch", "measured ms", "sum of kernels ms", "off by", "fitted roofline ms", "off by", "heavy")
HEAVY = ("convolution", "pointwise convolution", "grouped convolution", "depthwise convolution", "matrix product", "attention")


def measured(name: str, batch: int, store: Measurements, seconds: float) -> dict[str, Any]:
    """One model's measured total, the sum of its kernels, and the samples that a device is fitted to."""
    module, inputs = model_with(name, batch)
    graph = capture(module, inputs)
    pricing = Measured(store=store, cold=is_cold(graph))
    kernels = pricing.cost(graph, memory=False)
    arguments, named = call_arguments(inputs)
    emitted = to_module(graph)
    with torch.no_grad():
        (timing,) = interleaved([lambda: emitted(*arguments, **named)], seconds, fewest=5, clock=Eager().clock())
    found = [sample for _, sample in samples(pricing, graph)]
    heavy = sum(sample.seconds for sample in found if sample.of in HEAVY)
    return {
        "measured": timing.median,
        "kernels": kernels.time,
        "share": heavy / kernels.time if kernels.time else 0.0,
        "samples": [[sample.of, sample.flops, sample.bytes, sample.seconds] for sample in found],
    }


def report(rows: dict[str, dict[str, Any]], device: Device) -> str:
    """The table and the figures below it."""
    lines, errors, rooflines = [], {"kernels": [], "roofline": []}, []  # type: ignore[var-annotated]
    for key, row in rows.items():
        name, batch = key.split(" ")
        roofline = sum(predicted(device, Sample(*sample)) for sample in row["samples"])
        heavy = row["share"] >= 0.75
        off = [row["kernels"] / row["measured"] - 1, roofline / row["measured"] - 1]
        if heavy:
            errors["kernels"].append(abs(off[0]))
            errors["roofline"].append(abs(off[1]))
        rooflines.append(roofline)
        ms = [f"{value * 1e3:.2f}" for value in (row["measured"], row["kernels"], roofline)]
        lines.append((name, batch, ms[0], ms[1], f"{off[0]:+.0%}", ms[2], f"{off[1]:+.0%}", "yes" if heavy else f"{row['share']:.0%}"))
    totals = [row["measured"] for row in rows.values()]
    ranks = {
        "kernels": rank_correlation([row["kernels"] for row in rows.values()], totals),
        "roofline": rank_correlation(rooflines, totals),
    }
    words = []
    for which, title in (("kernels", "Sum of measured kernels"), ("roofline", "Fitted roofline")):
        off = statistics.median(errors[which] or [0.0])
        heavy_ones = f"the {len(errors[which])} totals heavy in convolutions and matrix products"
        words.append(f"{title}: Spearman {ranks[which]:.3f} over {len(totals)} totals; off by {off:.1%} at the median of {heavy_ones}.")
    return "\n\n".join([table(HEADS, lines), *words])


def literal(device: Device) -> str:
    """The device's rates as they stand in costs/devices.py."""
    rates = "\n".join(f'    "{of}": Rates({r.peak:.3g}, {r.bandwidth:.3g}, {r.launch:.3g}),' for of, r in device.rates.items())
    return f"peak {device.peak['float32']:.3g}, bandwidth {device.bandwidth:.3g}, launch {device.launch:.3g}\n{{\n{rates}\n}}"


def all_samples(rows: Sequence[dict[str, Any]]) -> list[Sample]:
    """Each distinct kernel of all models once (equal figures are one kernel)."""
    return [Sample(*sample) for sample in dict.fromkeys(tuple(sample) for row in rows for sample in row["samples"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each model's total")
    parser.add_argument("--state", type=Path, default=Path(tempfile.gettempdir()) / "rewright-calibration.json")
    parser.add_argument("--store", type=Path, help="the file of measured kernels, instead of the cache's")
    parser.add_argument("--fit", action="store_true", help="print the fitted device")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/calibration.md")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_memory()
    store = Measurements(arguments.store)
    rows: dict[str, dict[str, Any]] = json.loads(arguments.state.read_text()) if arguments.state.exists() else {}
    for batch in arguments.batches.split(","):
        for name in arguments.models:
            if f"{name} {batch}" not in rows:
                rows[f"{name} {batch}"] = row = measured(name, int(batch), store, arguments.seconds)
                arguments.state.write_text(json.dumps(rows))
                print(f"{name} {batch}: measured {row['measured'] * 1e3:.2f} ms, kernels {row['kernels'] * 1e3:.2f} ms", flush=True)
    device = fitted("cpu", all_samples(list(rows.values())), DEVICES["cpu"], fingerprint(Eager()))
    if arguments.fit:
        print(literal(device))
    text = report(rows, device)
    print(text)
    if arguments.write:
        command = f"`python -m benchmarks.calibration --batches {arguments.batches} --threads {arguments.threads} --write`"
        command = f"{command}, float32, eager; {fingerprint(Eager())}"
        write(
            "calibration.md",
            "Predicted and measured totals",
            f"{__doc__}\n{command}\n\n{text}\n\nThe fitted device:\n\n```\n{literal(device)}\n```",
        )


if __name__ == "__main__":
    main()
