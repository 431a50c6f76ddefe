"""Against the optimum: `python -m benchmarks.optimum [--graphs N] [--write]`.

Random graphs of 4 to 7 operators (products with weights, sums, relu, transposes, joins), small enough that every graph the rules
reach can be visited: breadth first, every match of every rule, no pruning and no order of the search's own. The search is given the
same rules and its usual limits. A graph whose space has more than `MOST` members is passed over and counted.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence

import torch

from benchmarks.tables import table, uncertified, write
from costs.kernels import computed_from_constants
from costs.roofline import Roofline
from graphs.graph import Graph, Value
from operators.arithmetic import Add
from operators.joining import Cat
from operators.layout import Permute
from operators.linear import MatMul
from operators.operator import OPERATORS, TensorType
from rewright.certification import usable_rules
from rewrites.apply import RewriteError
from rewrites.library import library
from rewrites.match import find_all
from rewrites.rule import Rule
from search import search
from search.keys import Keys
from search.sharing import apply_shared

MOST = 400
"""The most graphs visited for one start."""

NAMES = {
    "MatMulAssociates", "FactorMatMulLeft", "FactorMatMulRight", "TransposeOfMatMul", "AddMatMulsAsOne", "MergeParallelMatMuls",
    "MergeMatMulsOfOneRightOperand", "FunctionMovesOutOfConcatenation", "OperationMovesOutOfConcatenation", "FunctionMovesPastSplit",
    "OperationMovesPastSplit", "SplitOfConcatenation", "ConcatenationOfSplit", "ReluOfRelu", "TransposeOfTranspose",
    "TransposeOfConcatenation", "FunctionMovesPastTranspose", "OperationMovesPastTranspose", "ConcatenateMatMulColumns",
    "ConcatenateMatMulRows",
}  # fmt: skip


def rules() -> list[type[Rule]]:
    """The rules of the experiment, with the reverses of those that may be used both ways."""
    return usable_rules(rule for rule in library() if rule.__name__ in NAMES)


def random_graph(seed: int) -> Graph:
    """A connected graph over one or two inputs; sizes are such that launches, bytes and arithmetic each matter somewhere."""
    draw = random.Random(seed)
    graph = Graph()
    rows, width = draw.choice((16, 512)), draw.choice((64, 1024))
    values = [graph.input(f"x{i}", TensorType((rows, width))) for i in range(draw.choice((1, 1, 2)))]
    for number in range(draw.randint(4, 7)):
        x = values[-1] if draw.random() < 0.6 else draw.choice(values)
        values.append(_apply(graph, draw, x, values, number))
    read = {value.node for node in graph.network for value in graph.operands(node) if value is not None}
    graph.outputs = [value for value in values if value.node not in read] or [values[-1]]
    return graph


def _apply(graph: Graph, draw: random.Random, x: Value, values: Sequence[Value], number: int) -> Value:
    shape = graph.type(x).shape
    same = [value for value in values if graph.type(value).shape == shape]
    kind = draw.choice(("product", "product", "product", "sum", "sum", "relu", "transpose", "join"))
    if kind == "sum":
        return graph.add(Add(), x, draw.choice(same))
    if kind == "relu":
        return graph.add(OPERATORS["Relu"](), x)
    if kind == "transpose":
        return graph.add(Permute((-1, -2)), x)
    if kind == "join":
        return graph.add(Cat(-1), x, draw.choice(same))
    columns = draw.choice((shape[-1], 64, 1024))
    weight = graph.constant(f"weight_{number}", torch.empty((shape[-1], columns), device="meta"))  # type: ignore[arg-type]
    return graph.add(MatMul(), x, weight)


def optimum(graph: Graph, using: Sequence[type[Rule]], roofline: Roofline) -> tuple[float, int] | None:
    """The least time among all graphs reached, and their number; None when there are more than `MOST`."""
    keys = Keys()
    start = graph.copy()
    seen = {keys.key(start, computed_from_constants(start))}
    best = roofline.cost(start, memory=False).time
    pending = [start]
    while pending:
        current = pending.pop(0)
        for match in list(find_all(using, current)):
            after = current.copy()
            try:
                apply_shared(match, after)
            except RewriteError:
                continue
            name = keys.key(after, computed_from_constants(after))
            if name not in seen:
                seen.add(name)
                if len(seen) > MOST:
                    return None
                best = min(best, roofline.cost(after, memory=False).time)
                pending.append(after)
    return best, len(seen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/optimum.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    using, roofline = rules(), Roofline("a100", "none")
    ratios: list[float] = []
    sizes: list[int] = []
    passed_over, seed, started, searching = 0, 0, time.perf_counter(), 0.0
    while len(ratios) < arguments.graphs:
        graph = random_graph(seed)
        seed += 1
        found = optimum(graph, using, roofline)
        if found is None:
            passed_over += 1
            continue
        best, size = found
        if size < 2:
            continue
        result = search(graph, using, uncertified, device="a100", check=False)
        searching += result.seconds
        ratios.append(result.after.time / best)
        sizes.append(size)
        if ratios[-1] > 1 + 1e-9:
            print(f"seed {seed - 1}: {ratios[-1]:.4f} times the optimum of {size} graphs", flush=True)
    exact = sum(ratio <= 1 + 1e-9 for ratio in ratios)
    rows = [
        ("graphs", len(ratios)), ("passed over (space too large)", passed_over), ("rules, reverses included", len(using)),
        ("graphs reached, median and most", f"{sorted(sizes)[len(sizes) // 2]}, {max(sizes)}"),
        ("optimum found", f"{exact / len(ratios):.1%}"),
        ("worst ratio to the optimum", f"{max(ratios):.4f}"), ("seconds of search a graph", f"{searching / len(ratios):.2f}"),
    ]  # fmt: skip
    text = table(("", ""), rows)
    print(text, f"\n{time.perf_counter() - started:.0f} s")
    if arguments.write:
        write("optimum.md", "The search against the optimum", f"{__doc__}\n{text}")


if __name__ == "__main__":
    main()
