"""The graphs on which tensor-graph optimisers were compared in print, batch 1, float32.

TASO (Jia et al. 2019) and TENSAT (Yang et al. 2021) give the improvement of seven graphs. The convolutional ones have no batch
norms there, so those of the models here are folded first: the folded graph is the input graph.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from graphs.capture import capture
from graphs.graph import Graph
from graphs.passes import simplify
from rewrites.apply import RewriteError, apply_in_place
from rewrites.library import library
from rewrites.match import find_matches


@dataclass(frozen=True)
class Published:
    """A graph with what was published for it: improvement in per cent and search seconds, of TASO and of TENSAT."""

    name: str
    graph: Callable[[], Graph]
    taso: float
    tensat: float
    taso_seconds: float
    tensat_seconds: float


class PublishedBert(nn.Module):
    """TASO's BERT: 8 layers on [64, 1024], 16 heads, without softmax, scale, biases or residuals.

    As published, the last product of a layer reads the layer's input, so that the attention before it is dead code; with `correct`
    it reads the attention's result.
    """

    def __init__(self, correct: bool, layers: int = 8, width: int = 1024, heads: int = 16) -> None:
        super().__init__()
        self.correct, self.layers, self.width, self.heads = correct, layers, width, heads
        scale = width**-0.5
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(width, width) * scale) for _ in range(4 * layers)])

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(x)
        rows = x.shape[0]
        for layer in range(self.layers):
            q, k, v = (
                (x @ self.weights[4 * layer + part]).reshape(rows, self.heads, self.width // self.heads).permute(1, 0, 2)
                for part in range(3)
            )
            scores = q @ k.transpose(-1, -2)
            attended = (scores @ v).permute(1, 0, 2).reshape(rows, self.width)
            x = (attended if self.correct else x) @ self.weights[4 * layer + 3]
        return x


def _captured(module: nn.Module, *inputs: Tensor) -> Graph:
    return capture(module.eval(), inputs)


def bert(correct: bool) -> Graph:
    """TASO's BERT, as published or with the attention in use."""
    torch.manual_seed(0)
    return _captured(PublishedBert(correct), torch.randn(64, 1024))


def nasrnn() -> Graph:
    """NasRNN, hidden 512, 5 steps, one row."""
    module, inputs = _model("nasrnn")
    return capture(module, inputs)


def convolutional(name: str) -> Graph:
    """A convolutional model of examples/models at batch 1, its batch norms folded."""
    module, (images,) = _model(name)
    graph = capture(module, (images[:1],))
    folding = [rule for rule in library() if rule.__name__.startswith("FoldBatchNormIntoConvolution")]
    found = True
    while found:
        found = False
        for rule in folding:
            match = next(find_matches(rule, graph), None)
            if match is not None:
                try:
                    apply_in_place(match, graph)
                except RewriteError as error:
                    raise ValueError(f"{name}: a batch norm cannot be folded: {error}") from error
                found = True
    simplify(graph)
    return graph


def _model(name: str) -> Any:
    return importlib.import_module("examples.models").MODELS[name]()


GRAPHS = (
    Published("NasRNN", nasrnn, 45.4, 68.9, 177, 0.5),
    Published("BERT (as published)", lambda: bert(False), 8.5, 9.2, 13.6, 1.4),
    Published("BERT (attention in use)", lambda: bert(True), 8.5, 9.2, 13.6, 1.4),
    Published("ResNeXt-50", lambda: convolutional("resnext50"), 5.5, 8.8, 25, 0.7),
    Published("NasNet-A", lambda: convolutional("nasnet"), 1.9, 7.3, 1226, 10.6),
    Published("SqueezeNet", lambda: convolutional("squeezenet"), 6.7, 24.5, 16, 0.3),
    Published("Inception-v3", lambda: convolutional("inception_v3"), 6.3, 10.0, 69, 5.1),
    Published("VGG-19", lambda: convolutional("vgg19"), 8.9, 8.9, 9, 0.4),
)
