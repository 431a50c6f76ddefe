"""Networks over sequences: NasRNN, a transformer with LoRA adapters, a transformer with linear attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class NasRNN(nn.Module):
    """The recurrent cell of neural architecture search, unrolled; per step 16 weights of its own and 8 sums of two products.

    x: [steps, n, hidden]   h: [n, hidden]   ->   [n, hidden]
    """

    def __init__(self, hidden: int = 512, steps: int = 5) -> None:
        super().__init__()
        self.steps = steps
        scale = hidden**-0.5
        self.w = nn.ParameterList([nn.Parameter(torch.randn(hidden, hidden) * scale) for _ in range(8 * steps)])
        self.u = nn.ParameterList([nn.Parameter(torch.randn(hidden, hidden) * scale) for _ in range(8 * steps)])

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        for step in range(self.steps):
            t = [torch.matmul(x[step], self.w[8 * step + i]) + torch.matmul(h, self.u[8 * step + i]) for i in range(8)]
            m0 = torch.relu(t[0]) + torch.sigmoid(t[3])
            m1 = torch.sigmoid(t[1]) + torch.tanh(t[2])
            m2 = torch.sigmoid(t[4]) * torch.tanh(t[5])
            m3 = torch.sigmoid(t[6]) * torch.relu(t[7])
            m4 = torch.sigmoid(m1) + torch.tanh(m2)
            m5 = torch.tanh(m0) * torch.tanh(m3)
            h = torch.tanh(torch.tanh(m4) * torch.tanh(m5))
        return h


class LoRALinear(nn.Module):
    """A linear layer beside a low-rank one: x Wᵀ + b + scale · (x Aᵀ) Bᵀ; Hu et al. 2022.

    x: [*batch, in]   ->   [*batch, out]
    """

    def __init__(self, inside: int, outside: int, rank: int = 8, scale: float = 2.0) -> None:
        super().__init__()
        self.base = nn.Linear(inside, outside)
        self.a = nn.Parameter(torch.randn(rank, inside) * inside**-0.5)
        self.b = nn.Parameter(torch.randn(outside, rank) * 0.02)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + F.linear(F.linear(x, self.a), self.b) * self.scale


class Attention(nn.Module):
    """Multi-head attention by softmax, or linear attention φ(q) (φ(k)ᵀ v) with φ = elu + 1, left in the quadratic order.

    x: [n, s, width]   ->   [n, s, width]
    """

    def __init__(self, width: int, heads: int, linear: bool, rank: int) -> None:
        super().__init__()
        self.heads, self.linear_attention = heads, linear

        def layer() -> nn.Module:
            return LoRALinear(width, width, rank) if rank else nn.Linear(width, width)

        self.q, self.k, self.v, self.out = layer(), layer(), layer(), layer()

    def forward(self, x: Tensor) -> Tensor:
        n, s, width = x.shape
        q, k, v = (part(x).view(n, s, self.heads, width // self.heads).transpose(1, 2) for part in (self.q, self.k, self.v))
        if self.linear_attention:
            q, k = F.elu(q) + 1, F.elu(k) + 1
            y = (q @ k.transpose(-1, -2)) @ v / (q @ k.sum(-2, keepdim=True).transpose(-1, -2))
        else:
            y = torch.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5, -1) @ v
        return self.out(y.transpose(1, 2).reshape(n, s, width))


class TransformerLayer(nn.Module):
    """Pre-norm attention and feed-forward, each with its residual."""

    def __init__(self, width: int, heads: int, linear: bool, rank: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, linear, rank)
        self.up: nn.Module = LoRALinear(width, 4 * width, rank) if rank else nn.Linear(width, 4 * width)
        self.down: nn.Module = LoRALinear(4 * width, width, rank) if rank else nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """A small transformer over embedded tokens, its embedding shared with its output layer.

    tokens: [n, s] of integers   ->   [n, s, vocabulary]
    """

    def __init__(
        self,
        layers: int = 4,
        width: int = 256,
        heads: int = 4,
        vocabulary: int = 1000,
        length: int = 128,
        linear: bool = False,
        rank: int = 0,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.02)
        self.layers = nn.ModuleList([TransformerLayer(width, heads, linear, rank) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))
