"""Graphs that torch.export makes, before and after decomposition, run by operators to the bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.operators.interpreting import ExportedByOperators

torch.set_num_threads(1)


class Image(nn.Module):
    """Convolutions, norms, activations, pooling, resizing and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, 2, "valid"), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        self.second = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding="same", groups=4, bias=False), nn.GroupNorm(2, 8), nn.SiLU(), nn.AvgPool2d(2, ceil_mode=True)
        )
        self.up = nn.ConvTranspose2d(8, 4, 2, 2)
        self.last = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.first(x)
        y = self.second(x)
        z = F.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
        x = x + F.pad(z, (0, x.shape[3] - z.shape[3], 0, x.shape[2] - z.shape[2]))
        x = F.hardswish(self.up(x)).clamp(-1, 2)
        a, b = x.mean((2, 3)).chunk(2, 1)
        return self.last(torch.cat([b, a], 1)).softmax(-1), F.adaptive_avg_pool2d(x, 1).flatten(1)


class Text(nn.Module):
    """Embedding, attention, norms, gating, masks, cumulative sums and indexing."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True, activation="gelu")
        self.projections = nn.Linear(16, 48)
        self.norm = nn.RMSNorm(16, eps=1e-6)

    def forward(self, positions: torch.Tensor) -> Any:
        x = self.layer(self.embedding(positions))
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.projections(self.norm(x)).split(16, -1))
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        scores = (q @ k.mT / 8**0.5).masked_fill(~mask, float("-inf")).softmax(-1)
        y = torch.einsum("bhij,bhjd->bihd", scores, v).flatten(2) + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(
            1, 2
        ).reshape(x.shape)
        places = positions.ne(0).long().cumsum(-1) - 1
        best, where = y.max(-1)
        return (
            F.glu(y),
            y[:, 0],
            y[:, 1:, ::2],
            places.clamp(min=0),
            torch.where(best > 0, best, where.float()),
            y.gather(1, y.argmax(1, keepdim=True)),
        )


class Series(nn.Module):
    """One-dimensional convolutions, and a state carried through steps."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(4, 8, 3, padding=2, dilation=2)
        self.norm = nn.InstanceNorm1d(8, affine=True)
        self.cell = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> Any:
        x = F.leaky_relu(self.norm(self.convolution(x)), 0.1)
        state = x.new_zeros(x.shape[0], 8)
        for step in x.unbind(2):
            gate, value = self.cell(torch.cat([step, state], -1)).tensor_split(2, -1)
            state = gate.sigmoid() * state + (1 - gate.sigmoid()) * torch.tanh(value)
        return torch.stack([state, state.flip(1).roll(1, 0)]), x.std(-1), x.amax((1, 2)), F.log_softmax(x, 1)


MODULES: dict[str, tuple[type[nn.Module], torch.Tensor]] = {
    "image": (Image, torch.randn(2, 3, 19, 23, generator=torch.Generator().manual_seed(0))),
    "text": (Text, torch.tensor([[3, 5, 7, 0, 0], [4, 4, 9, 2, 0]])),
    "series": (Series, torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(1))),
}


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("name", sorted(MODULES))
def test_exported_graphs_run_by_operators(name: str, decomposed: bool) -> None:
    factory, example = MODULES[name]
    torch.manual_seed(0)
    program = torch.export.export(factory().eval(), (example,), strict=False)
    if decomposed:
        program = program.run_decompositions({})
    by_operators = ExportedByOperators(program.module())
    with torch.no_grad():
        by_operators.run(example)
    assert not by_operators.undeclared
    assert len(by_operators.met) > 20
