"""Known re-parameterisations, found by themselves: `python -m benchmarks.found [NAME...] [--write] [--uncertified]`.

RepVGG's training form should become its deployed form (one 3x3 convolution and one relu a block: the same parameters and kernels),
LoRA's adapters merge into their base weights, the query, key and value products of an attention become one, linear attention is
re-associated from n·n·d to n·d·d, and a batch norm after a linear layer folds into it. Every rule is one of the library's.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.tables import Certified, certification, table, uncertified, write
from examples.models.residual import RepVGG, RepVGGBlock, randomise_statistics
from examples.models.sequence import Transformer
from graphs.capture import capture
from graphs.graph import Graph
from operators.sources import Constant
from rewright.certification import relevant, usable_rules
from search import SearchResult, search


class LinearWithNorm(nn.Module):
    """A linear layer, a batch norm, relu.

    x: [n, inside]   ->   [n, outside]
    """

    def __init__(self, inside: int = 256, outside: int = 512) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(inside, outside), nn.BatchNorm1d(outside)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.linear(x))
        return torch.relu(y)


class Projections(nn.Module):
    """Query, key and value of one input, as three linear layers, and softmax attention.

    x: [n, s, width]   ->   [n, s, width]
    """

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        y: Tensor = torch.softmax(q @ k.transpose(-1, -2), -1) @ v
        return y


def _parameters(graph: Graph) -> int:
    read = {graph.operator(node) for node in graph.network if graph.network.out_degree(node)}
    return sum(graph.constants[operator.name].numel() for operator in read if isinstance(operator, Constant))


def _count(graph: Graph, name: str) -> int:
    return Counter(type(graph.operator(node)).__name__ for node in graph.network)[name]


def _repvgg(found: SearchResult) -> str:
    """The deployed form has, for each block, one 3x3 convolution with bias and one relu."""
    module = RepVGG()
    blocks = [(b.conv3.in_channels, b.conv3.out_channels) for b in module.stages.children() if isinstance(b, RepVGGBlock)]
    classifier = sum(parameter.numel() for parameter in module.classifier.parameters())
    deployed = sum(9 * inside * outside + outside for inside, outside in blocks) + classifier
    convolutions, relus = _count(found.graph, "Conv2d"), _count(found.graph, "Relu")
    return (
        f"{convolutions} convolutions, {relus} relus, {_parameters(found.graph)} parameters "
        f"(deployed form: {len(blocks)}, {len(blocks)}, {deployed})"
    )


def _products(found: SearchResult) -> str:
    return ", ".join(f"{_count(found.graph, name)} {name}" for name in ("Linear", "MatMul", "AddMatMul") if _count(found.graph, name))


def repvgg() -> Graph:
    """RepVGG-A0, training form, small images."""
    return capture(randomise_statistics(RepVGG().eval()), (torch.randn(2, 3, 64, 64),))


def lora() -> Graph:
    """Two layers of a transformer with LoRA adapters."""
    return capture(Transformer(2, rank=8).eval(), (torch.randint(0, 1000, (2, 64)),))


def linear_attention() -> Graph:
    """Two layers with linear attention over a sequence much longer than a head is wide."""
    return capture(Transformer(2, linear=True, length=1024).eval(), (torch.randint(0, 1000, (2, 1024)),))


def projections() -> Graph:
    """One attention."""
    return capture(Projections().eval(), (torch.randn(2, 128, 256),))


def linear_with_norm() -> Graph:
    """One layer."""
    return capture(randomise_statistics(LinearWithNorm().eval()), (torch.randn(32, 256),))


CASES: dict[str, tuple[Callable[[], Graph], Callable[[SearchResult], str]]] = {
    "RepVGG": (repvgg, _repvgg),
    "LoRA": (lora, _products),
    "QKV": (projections, _products),
    "linear attention": (linear_attention, _products),
    "batch norm after linear": (linear_with_norm, _products),
}
HEADS = ("model", "µs before", "µs after", "GFLOP", "kernels", "what is left", "error float64", "search s", "rules")


def row(name: str, certified: Certified, seconds: float, expansions: int) -> tuple[object, ...]:
    """One line of the table."""
    build, describe = CASES[name]
    torch.manual_seed(0)
    graph = build()
    rules, _ = relevant(usable_rules(), graph)
    found = search(graph, rules, certified, seconds=seconds, expansions=expansions)
    used = Counter(step.rule for step in found.steps)
    return (
        name,
        f"{found.before.time * 1e6:.1f}",
        f"{found.after.time * 1e6:.1f}",
        f"{found.before.flops / 1e9:.2f} → {found.after.flops / 1e9:.2f}",
        f"{found.before.kernels} → {found.after.kernels}",
        describe(found),
        f"{found.max_error.get('float64', 0.0):.1e}",
        f"{found.seconds:.1f}",
        ", ".join(f"{rule} {count}" for rule, count in used.most_common()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/found.md")
    parser.add_argument("--uncertified", action="store_true", help="do not ask for certificates (nothing is written)")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--expansions", type=int, default=100)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    certified = uncertified if arguments.uncertified else certification()
    rows = []
    for name in arguments.names or CASES:
        rows.append(row(name, certified, arguments.seconds, arguments.expansions))
        print(table(HEADS, rows[-1:]), flush=True)
    if arguments.write and not arguments.uncertified:
        write("found.md", "Known re-parameterisations", f"{__doc__}\n{table(HEADS, rows)}")


if __name__ == "__main__":
    main()
