"""Matching the whole library over models, and around one change: `python -m benchmarks.matching [MODEL...] [--write]`.

Per model: nodes (inputs, constants and numbers left out), rules (those read from right to left included), matches; milliseconds to
find all of them, to apply one rewrite in place, to find what is new around it, and to take it back. Medians of repeated runs;
tracing the rules, which happens once per process, is timed apart.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from examples.models import MODELS
from graphs.capture import capture
from operators.sources import Constant, Input, Scalar
from rewrites import Rule, apply_in_place, find_all, reverse
from rewrites.library import library
from rewrites.patterns import sketches

RESULTS = Path(__file__).parent / "results" / "matching.md"


def milliseconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """The median time of the call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def all_rules() -> list[type[Rule]]:
    """The library, with its bidirectional rules also from right to left."""
    rules = library()
    return rules + [reverse(rule) for rule in rules if rule.bidirectional]


def row(name: str, rules: list[type[Rule]]) -> list[str]:
    """One line of the table."""
    module, inputs = MODELS[name]()
    graph = capture(module, inputs)
    nodes = sum(not isinstance(graph.operator(node), (Input, Constant, Scalar)) for node in graph)
    matches = list(find_all(rules, graph))
    whole = milliseconds(lambda: list(find_all(rules, graph)))
    applied = [milliseconds(lambda m=match: apply_in_place(m, graph).undo(), 3) for match in matches[:20]]  # type: ignore[misc]
    around = []
    for match in matches[:20]:
        change = apply_in_place(match, graph)
        around.append(milliseconds(lambda touched=change.touched: list(find_all(rules, graph, touched)), 3))  # type: ignore[misc]
        change.undo()
    numbers = [whole, statistics.median(applied or [0.0]), statistics.median(around or [0.0])]
    return [name, str(nodes), str(len(rules)), str(len(matches)), *(f"{number:.1f}" for number in numbers)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["resnet50", "bert_base", "gpt2"], metavar="MODEL")
    parser.add_argument("--write", action="store_true", help=f"write the table to {RESULTS.name}")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rules = all_rules()
    start = time.perf_counter()
    for rule in rules:
        sketches(rule)
    tracing = time.perf_counter() - start
    head = ["model", "nodes", "rules", "matches", "all matches, ms", "apply and undo, ms", "around a change, ms"]
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    lines += [" | ".join(row(name, rules)) for name in arguments.models]
    table = "\n".join(f"| {line} |" for line in lines)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}; one thread"
    text = f"{table}\n\nTracing the rules once: {tracing:.2f} s. Machine: {machine}; load {os.getloadavg()[0]:.1f} at the end.\n"
    print(text)
    if arguments.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(f"# Matching the library over models\n\n`python -m benchmarks.matching`\n\n{text}")


if __name__ == "__main__":
    main()
