"""How soon the tests find the reported wrong rewrites: the median number of examples and seconds until the counterexample, by kind.

    python benchmarks/finding_bugs.py [--seeds 5] [--write benchmarks/results/finding_bugs.md]

Every rule of tests/wrong_rewrites as it was shipped is verified under several seeds; the kind is what differs in the counterexample.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import statistics
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def main() -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds to try each rule under")
    parser.add_argument("--write", type=Path, help="where to write the table; printed otherwise")
    options = parser.parse_args()
    text = table(options.seeds)
    if options.write:
        options.write.write_text(text)
    else:
        print(text)


def table(seeds: int) -> str:
    """The table as Markdown."""
    from tests.wrong_rewrites.registry import SHIPPED
    from verifier.verdict import Status
    from verifier.verify import verify

    for module in ("algebra", "convolutions", "effects", "floats", "integers", "layouts"):
        importlib.import_module(f"tests.wrong_rewrites.{module}")
    examples: dict[str, list[int]] = defaultdict(list)
    seconds: dict[str, list[float]] = defaultdict(list)
    rules: dict[str, set[str]] = defaultdict(set)
    missed: list[str] = []
    for report, rule in SHIPPED.items():
        for seed in range(seeds):
            verdict = verify(rule, seed=seed)
            if verdict.status is not Status.REFUTED or verdict.counterexample is None:
                missed.append(f"{report} under seed {seed}")
                continue
            kind = verdict.counterexample.kind
            examples[kind].append(verdict.counterexample.examples)
            seconds[kind].append(verdict.seconds)
            rules[kind].add(report)
    lines = [
        "# How soon wrong rewrites are found",
        "",
        f"{len(SHIPPED)} publicly reported wrong rewrites (tests/wrong_rewrites), each verified under {seeds} seeds with 100 examples,",
        f"on {platform.machine()} with Python {platform.python_version()}, one thread. Written by `python benchmarks/finding_bugs.py`.",
        "Seconds include shrinking to the smallest counterexample.",
        "",
        "| what differs | rules | median examples | most examples | median seconds | most seconds |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for kind in sorted(examples, key=lambda kind: -len(rules[kind])):
        counts, times = examples[kind], seconds[kind]
        found = f"{statistics.median(counts):g} | {max(counts)} | {statistics.median(times):.2f} | {max(times):.2f}"
        lines.append(f"| {kind} | {len(rules[kind])} | {found} |")
    lines += ["", f"Not found: {', '.join(missed)}." if missed else "Every rule is refuted under every seed.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
