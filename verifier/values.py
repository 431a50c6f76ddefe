"""Tensors' contents: drawn by kind of value from a seed, in a memory layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from operators.operator import kind_of, torch_dtype

SMALL, POSITIVE, DISTINCT, TIES, ORDINARY, WIDE, SPECIAL, EXTREME = (
    "small integers",
    "positive integers",
    "distinct integers",
    "ties",
    "ordinary",
    "wide",
    "special",
    "extreme",
)

LAYOUTS = ("contiguous", "transposed", "strided", "channels-last", "offset")
"""How a tensor lies in memory."""


def modest(dtype: torch.dtype) -> float:
    """The fourth root of the dtype's largest number: products of four such numbers stay in range."""
    return float(2.0 ** (math.floor(math.log2(torch.finfo(dtype).max)) // 4))


def special_numbers(dtype: torch.dtype, extreme: bool = False) -> list[float]:
    """Numbers at which floating point departs from the reals: zeros, infinities, NaN, the tiny and the large.

    Without `extreme` the finite ones stay between the fourth roots of the smallest and of the largest number.
    """
    info = torch.finfo(dtype)
    bound = modest(dtype)
    numbers = [
        0.0,
        -0.0,
        math.inf,
        -math.inf,
        math.nan,
        1.0,
        -1.0,
        0.5,
        -1.5,
        2.5,
        -2.0,
        3.0,
        89.0,
        -104.0,
        12.0,
        bound,
        -bound,
        1 / bound,
        -1 / bound,
        1 / 3,
    ]
    if extreme:
        numbers += [
            info.max,
            -info.max,
            info.max / 2,
            info.tiny,
            -info.tiny,
            info.smallest_normal / 2,
            -info.smallest_normal / 2,
            info.eps,
            1 + info.eps,
        ]
    largest = info.max if extreme else bound
    return [number for number in numbers if not math.isfinite(number) or abs(number) <= largest]


def draw_values(kind: str, shape: Sequence[int], dtype: str, seed: int, scale: int = 0) -> torch.Tensor:
    """A contiguous tensor of the dtype whose elements are of the kind, determined by the seed.

    With a `scale`, extreme integers lie next to that power of two (so that those of several tensors are comparable).
    """
    generator = torch.Generator().manual_seed(seed)
    target = torch_dtype(dtype)
    count = math.prod(shape)
    if dtype == "bool":
        return torch.randint(0, 2, tuple(shape), generator=generator).bool()
    if kind_of(dtype) == "int":
        return _integers(kind, count, target, generator, scale).reshape(tuple(shape))
    if kind_of(dtype) == "complex":
        parts = [draw_values(kind, shape, "float64", seed + 7919 * i) for i in (0, 1)]
        return torch.complex(*parts).to(target)
    return _floats(kind, count, target, generator).reshape(tuple(shape))


def _floats(kind: str, count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    if kind == POSITIVE:
        return torch.randint(1, 5, (count,), generator=generator).to(dtype)
    if kind == DISTINCT:
        return (torch.randperm(count, generator=generator) - count // 2).to(dtype)
    if kind == TIES:
        halves = bool(torch.randint(0, 2, (), generator=generator))
        low, high, step = (-5, 6, 0.5) if halves else (0, 2, 1.0)
        return (torch.randint(low, high, (count,), generator=generator) * step).to(dtype)
    if kind == ORDINARY:
        spread = (0.25, 1.0, 4.0)[int(torch.randint(0, 3, (), generator=generator))]
        return (torch.randn(count, generator=generator, dtype=torch.float32) * spread).to(dtype)
    if kind == WIDE:
        most = min(20.0, math.log2(modest(dtype)))  # beyond a million, rounding hides what is wrong beside such numbers
        size = torch.exp2((2 * torch.rand(count, generator=generator, dtype=torch.float64) - 1) * most)
        return (size * (torch.randint(0, 2, (count,), generator=generator) * 2 - 1)).to(dtype)
    if kind in (SPECIAL, EXTREME):
        numbers = torch.tensor(special_numbers(dtype, kind == EXTREME), dtype=torch.float64).to(dtype)
        drawn = numbers[torch.randint(0, len(numbers), (count,), generator=generator)]
        if kind == EXTREME and bool(torch.randint(0, 2, (), generator=generator)):
            return drawn
        plain = torch.randint(-2, 3, (count,), generator=generator).to(dtype)
        share = (0.15, 0.5)[int(torch.randint(0, 2, (), generator=generator))]
        return torch.where(torch.rand(count, generator=generator) < share, drawn, plain)
    return torch.randint(-2, 3, (count,), generator=generator).to(dtype)


def _integers(kind: str, count: int, dtype: torch.dtype, generator: torch.Generator, scale: int) -> torch.Tensor:
    info = torch.iinfo(dtype)
    if kind in (SPECIAL, EXTREME):
        low, high = info.min, info.max
        if scale:
            power = 2 + scale % (info.bits - 3)
            close = [sign * (2**p + step) for p in (power, power - 1) for step in (0, 1, -1) for sign in (1, -1)]
            numbers = torch.tensor([number for number in close if low <= number <= high], dtype=torch.int64)
            return numbers[torch.randint(0, len(numbers), (count,), generator=generator)].to(dtype)
        near = [low, high, low + 1, high - 1, 0, 1, max(-1, low), 2, max(-2, low), high // 2, low // 2]
        near += [number for power in (7, 8, 15, 24, 31, 53, 54) for number in (2**power, 2**power + 1) if number <= high]
        numbers = torch.tensor(near, dtype=torch.int64)
        return numbers[torch.randint(0, len(numbers), (count,), generator=generator)].to(dtype)
    if kind == DISTINCT:
        return torch.randperm(count, generator=generator).remainder(info.max).to(dtype)
    if kind in (POSITIVE, TIES):
        return torch.randint(*((1, 5) if kind == POSITIVE else (0, 2)), (count,), generator=generator).to(dtype)
    if kind == ORDINARY:
        return torch.randint(max(info.min, -20), min(info.max, 20) + 1, (count,), generator=generator).to(dtype)
    return torch.randint(max(info.min, -3), 4, (count,), generator=generator).to(dtype)


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """A fresh tensor of the same elements in the memory layout; the contiguous one where the layout does not apply."""
    if layout == "transposed" and tensor.ndim >= 2:
        return tensor.transpose(-1, -2).contiguous().clone().transpose(-1, -2)
    if layout == "strided" and tensor.ndim >= 1:
        room = torch.zeros((*tensor.shape[:-1], 2 * tensor.shape[-1]), dtype=tensor.dtype)
        room[..., ::2] = tensor
        return room[..., ::2]
    if layout == "channels-last" and tensor.ndim == 4:
        return tensor.clone(memory_format=torch.channels_last)
    if layout == "offset":
        room = torch.zeros(tensor.numel() + 1, dtype=tensor.dtype)
        room[1:] = tensor.flatten()
        return room[1:].view(tensor.shape)
    return tensor.clone(memory_format=torch.contiguous_format)


def draw_number(kind: str, source: Any) -> float:
    """A real attribute of the kind, from a `random.Random`."""
    if kind == POSITIVE:
        return float(source.choice((1.0, 2.0, 4.0, 3.0)))
    if kind in (SMALL, DISTINCT, TIES):
        return float(source.choice((1.0, 2.0, 0.0, -1.0, 3.0, -2.0)))
    if kind == EXTREME:
        return float(source.choice((0.0, -0.0, math.inf, -math.inf, math.nan, 1e30, -1e30, 1.0, -1.0, 0.1)))
    return float(source.choice((1.0, 0.5, 2.0, 0.1, -1.0, 0.25, 3.0, -0.5, 1e-5, 0.0, 1.5)))


__all__ = [
    "DISTINCT", "EXTREME", "LAYOUTS", "ORDINARY", "POSITIVE", "SMALL", "SPECIAL", "TIES", "WIDE", "draw_number", "draw_values", "laid_out",
    "modest", "special_numbers",
]  # fmt: skip
