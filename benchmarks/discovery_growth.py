"""How enumeration grows with the number of operations: `python -m benchmarks.discovery_growth [--write]`.

Terms that are evaluated, classes among them, equations between them, seconds, and the most memory of the process, for each number of
operations as the last level (where terms that differ in the names of inputs are made once), each in a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

import torch

from benchmarks.tables import machine, table, write
from rewrites.generator.enumeration import Enumeration, Growth
from rewrites.generator.vocabulary import DEFAULT, chosen, sorts_for, sources

RUNS: tuple[tuple[str, Sequence[str], int, tuple[int, int]], ...] = (
    ("default", DEFAULT, 1, (4, 2)),
    ("default", DEFAULT, 2, (4, 2)),
    ("default", DEFAULT, 3, (4, 2)),
    ("matmul, add, relu, concat", ("matmul", "add", "relu", "concat"), 4, (3, 2)),
    ("conv, biased, batchnorm, scalerows, enlarge", ("conv", "biased", "batchnorm", "scalerows", "enlarge"), 4, (1, 1)),
)
"""Name, families, operations, and the inputs of each sort (activations, weights)."""


def grown(families: Sequence[str], operations: int, inputs: tuple[int, int]) -> list[Growth]:
    """The growth of every level, the last one as such."""
    torch.set_num_threads(1)
    chosen_operations = chosen(families)
    enumeration = Enumeration(chosen_operations, sources(*inputs, sorts_for(chosen_operations)))
    for level in range(1, operations + 1):
        enumeration.level(last=level == operations)
    return enumeration.growth


def main() -> None:
    """Run, print the table, and keep it when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    for name, families, operations, inputs in RUNS:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            levels = pool.submit(grown, families, operations, inputs).result()
        last = levels[-1]
        seconds = sum(level.seconds for level in levels)
        figures = [last.tried, last.classes, sum(level.equations for level in levels), f"{seconds:.1f}", f"{last.memory / 2**20:.0f}"]
        rows.append([name, operations, f"{inputs[0]} activations, {inputs[1]} weights", *figures])
        print(rows[-1], flush=True)
    text = table(
        [
            "operators",
            "operations",
            "inputs of a sort",
            "raw terms of the last level",
            "new classes among them",
            "equations",
            "seconds",
            "MiB",
        ],
        rows,
    )
    print(machine(), text, sep="\n")
    if options.write:
        write("discovery_growth.md", "Growth of enumeration", f"{__doc__}\n{text}")


if __name__ == "__main__":
    main()
