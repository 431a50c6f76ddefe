"""Search seconds against nodes: `python -m benchmarks.scale [--layers 2,4,8,...] [--write] [--uncertified]`.

Llama-like models of growing depth (examples.models, small widths, random weights). Equal layers are searched once and the moves
replayed, so that depth costs replays only. The exponent is that of nodes in seconds, fitted from 8 layers on; seconds are those of the
search, the time to make certificates not counted; CPU seconds say more where the machine is busy. Below the table: candidate graphs
evaluated per second on ResNet-50.
"""

from __future__ import annotations

import argparse
import math
import resource
import time

import torch

from benchmarks.tables import certification, processor_seconds, table, uncertified, write
from examples.models import MODELS
from examples.models.transformers_models import llama_of
from graphs.capture import capture
from rewright.certification import relevant, usable_rules
from search import search

HEADS = (
    "layers", "nodes", "capture s", "search s", "CPU s", "graphs expanded", "evaluated", "µs before", "µs after", "kernels",
    "peak memory GiB",
)  # fmt: skip


def exponent(points: list[tuple[int, float]]) -> float:
    """The slope of log seconds over log nodes, by least squares."""
    xs, ys = [math.log(nodes) for nodes, _ in points], [math.log(seconds) for _, seconds in points]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def resnet(expansions: int) -> str:
    """Candidate graphs a second on ResNet-50, in the search as a whole, tracing of rules included."""
    module, inputs = MODELS["resnet50"]()
    graph = capture(module, inputs)
    rules, _ = relevant(usable_rules(), graph)
    processor = processor_seconds()
    found = search(graph, rules, uncertified, expansions=expansions, check=False)
    processor = processor_seconds() - processor
    rates = f"{found.candidates / found.seconds:.0f} a second, {found.candidates / processor:.0f} a CPU second"
    return f"ResNet-50, {len(rules)} rules: {found.candidates} candidate graphs in {found.seconds:.1f} s (CPU {processor:.1f} s): {rates}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", default="2,4,8,16,32,64")
    parser.add_argument("--layers-only", action="store_true", help="leave ResNet-50 out")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/scale.md")
    parser.add_argument("--uncertified", action="store_true", help="do not ask for certificates (nothing is written)")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--expansions", type=int, default=60)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    certified = uncertified if arguments.uncertified else certification()
    rows, points = [], []
    for layers in map(int, arguments.layers.split(",")):
        started = time.perf_counter()
        module, inputs = llama_of(layers)
        graph = capture(module, inputs)
        captured = time.perf_counter() - started
        rules, _ = relevant(usable_rules(), graph)
        processor = processor_seconds()
        found = search(graph, rules, certified, seconds=arguments.seconds, expansions=arguments.expansions, check=False)
        processor = processor_seconds() - processor
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        rows.append((
            layers, len(graph), f"{captured:.1f}", f"{found.seconds:.1f}", f"{processor:.1f}", found.expanded, found.candidates,
            f"{found.before.time * 1e6:.1f}", f"{found.after.time * 1e6:.1f}", f"{found.before.kernels} → {found.after.kernels}",
            f"{memory:.2f}",
        ))  # fmt: skip
        print(table(HEADS, rows[-1:]), flush=True)
        if layers >= 8:
            points.append((len(graph), processor))
    text = table(HEADS, rows)
    if len(points) > 1:
        text += f"\n\nExponent from 8 layers on, by CPU seconds: {exponent(points):.2f}"
    if not arguments.layers_only:
        text += f"\n\n{resnet(arguments.expansions)}"
    print(text)
    if arguments.write and not arguments.uncertified:
        write("scale.md", "Search seconds against depth", f"{__doc__}\n{text}")


if __name__ == "__main__":
    main()
