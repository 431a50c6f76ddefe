"""Against the published graphs of TASO and TENSAT: `python -m benchmarks.published [NAME...] [--write] [--uncertified]`.

Cost model: one kernel per operator, a100 roofline in float32, views (split, reshape, transpose) free. Improvement is the time of the
input graph over that of the result, less one. TASO and TENSAT also have operators with an activation inside (one cuDNN kernel), which
no operator here is: `with activations inside` prices the result (or the input graph, if that is better so) in this way, relu, sigmoid
or tanh of a convolution or product being part of its kernel (policy `epilogues`), against the same input graph. CPU seconds are those of
the search and its processes together: on a busy machine wall seconds say little. TASO's and TENSAT's figures are measured on their GPUs
with their kernels, so the comparison is of how much each finds to do, not of the same seconds.
"""

from __future__ import annotations

import argparse
from collections import Counter

import torch

from benchmarks.published_graphs import GRAPHS, Published
from benchmarks.tables import Certified, certification, processor_seconds, table, uncertified, write
from costs.roofline import Roofline
from rewright.certification import relevant, usable_rules
from search import search
from search.check import compare

HEADS = (
    "graph",
    "µs before",
    "µs after",
    "improvement",
    "with activations inside",
    "TASO",
    "TENSAT",
    "kernels",
    "search s",
    "CPU s",
    "TASO s",
    "TENSAT s",
    "error float64",
    "rules",
)


def row(published: Published, certified: Certified, seconds: float, expansions: int) -> tuple[object, ...]:
    """One line of the table."""
    graph = published.graph()
    rules, _ = relevant(usable_rules(), graph)
    processor = processor_seconds()
    found = search(graph, rules, certified, device="a100", seconds=seconds, expansions=expansions, jobs=2, check=False)
    processor = processor_seconds() - processor
    errors = compare(graph, found.graph, found.unfolded)
    inside = min(Roofline("a100", "epilogues").cost(form).time for form in (graph, found.graph))
    used = Counter(step.rule for step in found.steps)
    return (
        published.name,
        f"{found.before.time * 1e6:.1f}",
        f"{found.after.time * 1e6:.1f}",
        f"{found.before.time / found.after.time - 1:.1%}",
        f"{found.before.time / inside - 1:.1%}",
        f"{published.taso}%",
        f"{published.tensat}%",
        f"{found.before.kernels} → {found.after.kernels}",
        f"{found.seconds:.1f}",
        f"{processor:.1f}",
        published.taso_seconds,
        published.tensat_seconds,
        f"{errors['float64']:.1e}",
        ", ".join(f"{name} {count}" for name, count in used.most_common()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only graphs whose name contains one of these")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/published.md")
    parser.add_argument("--uncertified", action="store_true", help="do not ask for certificates (nothing is written)")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--expansions", type=int, default=60)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    certified = uncertified if arguments.uncertified else certification()
    wanted = [graph for graph in GRAPHS if not arguments.names or any(name.lower() in graph.name.lower() for name in arguments.names)]
    rows = []
    for published in wanted:
        rows.append(row(published, certified, arguments.seconds, arguments.expansions))
        print(table(HEADS, rows[-1:]), flush=True)
    text = table(HEADS, rows)
    if arguments.write and not arguments.uncertified:
        write("published.md", "The published graphs", f"{__doc__}\n{text}")


if __name__ == "__main__":
    main()
