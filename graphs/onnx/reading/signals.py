"""Spectra as products with matrices of sines and cosines, and normalisation across channels."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from graphs.onnx.reading.pointwise import in_dtype
from graphs.onnx.reading.registry import Node, reads
from operators.layout import Permute
from operators.operator import Unsupported


@reads("LRN")
def across_channels(node: Node) -> Any:
    """x / (bias + alpha / size · Σ x² over neighbouring channels)^beta."""
    x, size = node[0], node.attribute("size")
    n, c, *rest = x.shape
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = torch.mul(x, x).reshape(n, 1, c, -1)
    means = F.avg_pool2d(F.pad(squares, (0, 0, before, after)), (size, 1), (1, 1), 0, False, True)
    scale = torch.add(torch.mul(means.reshape(n, c, *rest), node.attribute("alpha", 1e-4)), node.attribute("bias", 1.0))
    return torch.div(x, torch.pow(scale, node.attribute("beta", 0.75)))


@reads("Shrink")
def shrink(node: Node) -> Any:
    """x moved towards 0 by the bias where it is further than lambd from it, else 0."""
    x, bias, far = node[0], node.attribute("bias", 0.0), node.attribute("lambd", 0.5)
    above = torch.where(torch.gt(x, far), torch.sub(x, bias), torch.zeros_like(x))
    result = torch.where(torch.lt(x, -far), torch.add(x, bias), above)
    return in_dtype(result, x.type.dtype)


def _waves(size: int, length: int, rows: int, dtype: torch.dtype, inverse: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of 2π·k·t/length for t below size and k below rows: [size, rows]."""
    angles = 2 * math.pi * torch.outer(torch.arange(size, dtype=torch.float64), torch.arange(rows, dtype=torch.float64)) / length
    sign, scale = (1.0, 1.0 / length) if inverse else (-1.0, 1.0)
    return (torch.cos(angles) * scale).to(dtype), (torch.sin(angles) * sign * scale).to(dtype)


@reads("DFT")
def fourier(node: Node) -> Any:
    """The discrete Fourier transform of one axis; the last axis holds real and imaginary parts, or real ones only."""
    x, rank = node[0], node.type(0).ndim
    if node.opset >= 20:
        axis = node.integers(2)[0] if node.has(2) else -2
    else:
        axis = node.attribute("axis", 1)
    axis %= rank
    size, parts = node.type(0).shape[axis], node.type(0).shape[-1]
    length = node.integers(1)[0] if node.has(1) else size
    inverse, onesided = bool(node.attribute("inverse", 0)), bool(node.attribute("onesided", 0))
    if not isinstance(size, int) or not isinstance(length, int) or axis == rank - 1 or "float" not in x.type.dtype:
        raise Unsupported("DFT: sizes must be numbers")
    if inverse and onesided:
        raise Unsupported("DFT: the inverse of one side is not covered")
    rows = length // 2 + 1 if onesided else length
    cosines, sines = (node.held(wave) for wave in _waves(min(size, length), length, rows, getattr(torch, x.type.dtype), inverse))
    order = tuple(one - rank for one in range(rank - 1) if one != axis) + (-1, axis - rank)
    back = tuple(order.index(one - rank) - rank for one in range(rank))
    moved = node.apply(Permute(order), x.narrow(axis, 0, min(size, length)))  # [..., parts, time]
    real = moved.narrow(-2, 0, 1)
    if parts == 1:
        both = torch.cat([torch.matmul(real, cosines), torch.matmul(real, sines)], -2)
    else:
        imaginary = moved.narrow(-2, 1, 1)
        first = torch.sub(torch.matmul(real, cosines), torch.matmul(imaginary, sines))
        second = torch.add(torch.matmul(real, sines), torch.matmul(imaginary, cosines))
        both = torch.cat([first, second], -2)
    return node.apply(Permute(back), both)


@reads("STFT")
def short_time_fourier(node: Node) -> Any:
    """The transform of overlapping frames of a real signal."""
    x, shape = node[0], node.type(0).shape
    step = node.integers(1)[0]
    window = node.optional(2)
    length = node.integers(3)[0] if node.has(3) else window.type.shape[0] if window is not None else None
    if not isinstance(shape[1], int) or not isinstance(length, int) or (len(shape) == 3 and shape[2] != 1):
        raise Unsupported("STFT: sizes must be numbers, and the signal real")
    frames = (shape[1] - length) // step + 1
    places = torch.arange(length)[None, :] + step * torch.arange(frames)[:, None]
    signal = x.reshape(shape[0], shape[1])[:, node.held(places)]  # [batch, frames, length]
    if window is not None:
        signal = torch.mul(signal, window)
    rows = length // 2 + 1 if node.attribute("onesided", 1) else length
    cosines, sines = (node.held(wave) for wave in _waves(length, length, rows, getattr(torch, x.type.dtype), False))
    return torch.stack([torch.matmul(signal, cosines), torch.matmul(signal, sines)], -1)
