"""What discovered rules save in models: `python -m benchmarks.discovery_gains [--folder FOLDER] [--write]`.

Rules are discovered over small vocabularies of what the models are made of, each within seconds. For each model: which rules lower its cost
(roofline, one kernel for each operator) when the search may use that rule alone, which of them TASO's collection does not derive, and what
all together do. Every rule is used under a certificate for exactly its content.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.discovery import RESIDUAL, run
from benchmarks.tables import certification, machine, table, write
from benchmarks.taso_terms import equations, reached
from examples.models.convolutional import Fire, NasNetCell, inception_a, inception_b
from examples.models.residual import TwoBranchBlock, randomise_statistics
from examples.models.sequence import NasRNN
from graphs.capture import capture
from graphs.graph import Graph
from rewright.ranking import Gain, gains, together
from rewrites.rule import Rule

VOCABULARIES: tuple[tuple[Sequence[str], int, tuple[int, int]], ...] = (
    (("conv", "relu", "max", "average"), 2, (1, 1)),
    (("conv", "scale"), 2, (1, 1)),
    (("scale", "add"), 3, (2, 0)),
    (("matmul", "add", "identity", "scale"), 3, (3, 0)),
    (RESIDUAL, 4, (1, 1)),
    (("biased", "scale"), 3, (1, 1)),
    (("conv", "add", "centre"), 3, (1, 1)),
    (("average", "add"), 3, (2, 0)),
    (("Silu", "sigmoid", "mul"), 2, (2, 0)),
    (("Linear", "Add"), 2, (2, 1)),
    (("Sqrt", "Reciprocal", "Rsqrt"), 2, (1, 0)),
    (("Exp", "Divide", "Sum", "Softmax"), 3, (1, 0)),
)
"""The families of each discovery, the operations on a side at most, and the inputs of each sort (activations, weights)."""


class Transition(nn.Module):
    """DenseNet's transition: batch norm, relu, a 1x1 convolution, 2x2 average pooling; Huang et al. 2017, table 1.

    x: [n, c, h, w]   ->   [n, c/2, h/2, w/2]
    """

    def __init__(self, channels: int = 256) -> None:
        super().__init__()
        self.norm, self.convolution = nn.BatchNorm2d(channels), nn.Conv2d(channels, channels // 2, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(self.convolution(torch.relu(self.norm(x))), 2)


class ScaledResidual(nn.Module):
    """EDSR's block: two convolutions whose result is scaled by 0.1 and added to the input; Lim et al. 2017, figure 2.

    x: [n, c, h, w]   ->   [n, c, h, w]
    """

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, channels, 3, 1, 1), nn.Conv2d(channels, channels, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(torch.relu(self.first(x)))
        return x + 0.1 * y


class ConvolutionalResidual(nn.Module):
    """One linear convolution added to its input, as RepVGG's identity branch after folding; Ding et al. 2021, figure 2.

    x: [n, c, h, w]   ->   [n, c, h, w]
    """

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.convolution(x) + x)


class ScaledBlock(nn.Module):
    """The residual block of networks without norms, its input and its result scaled; Brock et al. 2021, section 3.1.

    x: [n, c, h, w]   ->   [n, c, h, w]
    """

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, 1, 1, bias=False) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(torch.relu(self.first(x * 0.9)))
        return x + 0.2 * y


class Average(nn.Module):
    """The mean of two branches, each weighted by a half.

    x: [n, c, h, w]   ->   [n, c, h, w]
    """

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, channels, 3, 1, 1), nn.Conv2d(channels, channels, 5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * torch.relu(self.first(x)) + 0.5 * torch.relu(self.second(x))


class Stage(nn.Module):
    """VGG's stage: a convolution, relu, 2x2 max pooling; Simonyan and Zisserman 2015, table 1.

    x: [n, c, h, w]   ->   [n, c, h/2, w/2]
    """

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool2d(torch.relu(self.convolution(x)), 2)


class LstmCell(nn.Module):
    """One step of an LSTM, each gate by its own products; Hochreiter and Schmidhuber 1997.

    x, h, c: [n, width]   ->   [n, width], [n, width]
    """

    def __init__(self, width: int = 512) -> None:
        super().__init__()
        self.of_x = nn.ParameterList([nn.Parameter(torch.randn(width, width) * width**-0.5) for _ in range(4)])
        self.of_h = nn.ParameterList([nn.Parameter(torch.randn(width, width) * width**-0.5) for _ in range(4)])

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i, f, g, o = (x @ a + h @ b for a, b in zip(self.of_x, self.of_h, strict=True))
        kept = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(kept), kept


class ResidualAdapter(nn.Module):
    """A linear map added to its input, and its scaled product with a transposed matrix.

    x: [n, width]   y: [m, width]   ->   [n, m]
    """

    def __init__(self, width: int = 512) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) * width**-0.5)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return width_scale(x @ self.weight + x) @ width_scale(y @ self.weight).T


class GatedPerceptron(nn.Module):
    """A perceptron whose gate is written x·sigmoid(x), and whose biases are added by themselves; Ramachandran et al. 2017, section 2.

    x: [n, width]   ->   [n, width]
    """

    def __init__(self, width: int = 512) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width, bias=False), nn.Linear(2 * width, width, bias=False)
        self.shift = nn.Parameter(torch.randn(width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(x)
        result: Tensor = self.down(y * torch.sigmoid(y)) + self.shift
        return result


class RootMeanSquare(nn.Module):
    """RMSNorm in parts, with the reciprocal of a root; Zhang and Sennrich 2019, equation 4.

    x: [n, width]   ->   [n, width]
    """

    def __init__(self, width: int = 512) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.reciprocal(torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)) * self.weight


class HandMadeAttention(nn.Module):
    """Attention weights over the rows of a matrix of scores, as exponentials over their sum; Bahdanau et al. 2015, equation 6.

    query, key, value: [n, width]   ->   [n, width]
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights = torch.exp(query @ key.mT)
        return weights / weights.sum(-1, keepdim=True) @ value


def width_scale(x: Tensor) -> Tensor:
    """Each factor of a product scaled by the fourth root of its width, as attention in half precision has it."""
    factor: float = x.shape[-1] ** -0.25
    return x * factor


def _of(module: nn.Module, *inputs: Tensor) -> Graph:
    return capture(randomise_statistics(module.eval()), inputs)


MODELS: dict[str, Callable[[], Graph]] = {
    "two-branch residual block": lambda: _of(TwoBranchBlock(), torch.randn(32, 64, 56, 56)),
    "DenseNet transition": lambda: _of(Transition(), torch.randn(8, 256, 56, 56)),
    "EDSR block": lambda: _of(ScaledResidual(), torch.randn(4, 64, 96, 96)),
    "block without norms": lambda: _of(ScaledBlock(), torch.randn(8, 64, 56, 56)),
    "mean of two branches": lambda: _of(Average(), torch.randn(8, 64, 56, 56)),
    "RepVGG identity branch": lambda: _of(ConvolutionalResidual(), torch.randn(32, 64, 56, 56)),
    "VGG stage": lambda: _of(Stage(), torch.randn(8, 64, 112, 112)),
    "SqueezeNet fire and pool": lambda: _of(nn.Sequential(Fire(96, 16, 64), nn.MaxPool2d(3, 2)), torch.randn(8, 96, 55, 55)),
    "Inception-v3 block A": lambda: _of(inception_a(192, 32), torch.randn(4, 192, 35, 35)),
    "Inception-v3 block B": lambda: _of(inception_b(288), torch.randn(4, 288, 35, 35)),
    "NasNet-A cell": lambda: _of(NasNetCell(96, 96, 44), torch.randn(4, 96, 32, 32), torch.randn(4, 96, 32, 32)),
    "LSTM cell": lambda: _of(LstmCell(), *(torch.randn(64, 512) for _ in range(3))),
    "residual adapter": lambda: _of(ResidualAdapter(), torch.randn(256, 512), torch.randn(256, 512)),
    "gated perceptron": lambda: _of(GatedPerceptron(), torch.randn(256, 512)),
    "RMSNorm in parts": lambda: _of(RootMeanSquare(), torch.randn(256, 512)),
    "attention in parts": lambda: _of(HandMadeAttention(), *(torch.randn(256, 64) * 0.3 for _ in range(3))),
    "NasRNN": lambda: _of(NasRNN(steps=1), torch.randn(1, 1, 512), torch.randn(1, 512)),
}


def discovered(jobs: int, folder: Path | None, first: int) -> tuple[list[type[Rule]], set[str], str]:
    """The rules of every vocabulary, the names of those that TASO's collection derives, and what each discovery took."""
    rules: dict[str, type[Rule]] = {}
    derived: set[str] = set()
    lines = []
    basis = [equation for found in equations().values() for equation in found]
    for families, most, inputs in VOCABULARIES[:first]:
        findings, seconds = run(families, most, jobs, folder, inputs)
        lines.append(f"- {', '.join(families)}, {most} a side: {len(findings.kept)} kept; {seconds}")
        for (found, _), candidate in zip(findings.kept, findings.candidates, strict=True):
            rules.setdefault(found.name, found.rule)
            if all(reached(equation, basis) for equation in candidate.equations):
                derived.add(found.name)
    return list(rules.values()), derived, "\n".join(lines)


def _row(gain: Gain, derived: set[str]) -> list[object]:
    name = gain.rule.__name__
    times = f"{gain.before.time * 1e6:.1f} → {gain.after.time * 1e6:.1f}"
    flops = f"{gain.before.flops / 1e9:.2f} → {gain.after.flops / 1e9:.2f}"
    kernels = f"{gain.before.kernels} → {gain.after.kernels}"
    in_taso = "derived" if name.removesuffix("Reversed") in derived else "no"
    return [name, gain.model, f"{100 * gain.share:.1f} %", times, flops, kernels, gain.applications, in_taso]


def main() -> None:
    """Discover, search each model, print the tables, and keep them when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=None, help="keep here what is found; a run with the same folder goes on")
    parser.add_argument("--first", type=int, default=len(VOCABULARIES), help="only so many of the vocabularies")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rules, derived, lines = discovered(options.jobs, options.folder, options.first)
    certified = certification()
    found: list[Gain] = []
    rows = []
    for name, build in MODELS.items():
        torch.manual_seed(0)
        graph = build()
        found += gains(rules, name, graph, certified)
        all_of_them = together(rules, name, graph, certified, expansions=20)
        used = ", ".join(f"{rule} {count}" for rule, count in all_of_them.applications.most_common())
        times = f"{all_of_them.before.time * 1e6:.1f} → {all_of_them.after.time * 1e6:.1f}"
        rows.append([name, times, f"{all_of_them.before.kernels} → {all_of_them.after.kernels}", used])
    found.sort(key=lambda gain: -gain.share)
    new = {gain.rule.__name__.removesuffix("Reversed") for gain in found} - derived
    heads = ["rule", "model", "gain", "µs", "GFLOP", "kernels", "times applied", "in TASO"]
    parts = [lines, f"Rules that lower a model's cost by themselves and that TASO's collection does not derive: {len(new)}."]
    parts += [table(heads, [_row(gain, derived) for gain in found]), "With all discovered rules, search as in `rewright optimize`:"]
    parts.append(table(["model", "µs", "kernels", "rules"], rows))
    text = "\n\n".join(parts)
    print(machine(), text, sep="\n")
    if options.write:
        write("discovery_gains.md", "What discovered rules save", f"{__doc__}\n{text}")


if __name__ == "__main__":
    main()
