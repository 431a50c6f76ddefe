"""What the operations of discovery compute modulo a prime, on stacks of terms.

Every operand has one more axis in front, along which the terms lie; a kernel raises ValueError where the operands' shapes do not fit.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from rewrites.generator.world import World, inverse, reduced

Kernel = Callable[..., Tensor]


def _same_shape(a: Tensor, b: Tensor) -> None:
    if a.shape[1:] != b.shape[1:]:
        raise ValueError("shapes differ")


def pointwise(function: Callable[[Tensor, Tensor], Tensor]) -> Kernel:
    def kernel(world: World, a: Tensor, b: Tensor) -> Tensor:
        _same_shape(a, b)
        return reduced(function(a, b))

    return kernel


def named(name: str) -> Kernel:
    return lambda world, x: world.function(name, x)


def product(world: World, a: Tensor, b: Tensor) -> Tensor:
    return reduced(a @ b)


def _convolve(x: Tensor, w: Tensor, stride: int, padding: int, groups: int) -> Tensor:
    """Each term's images with its own kernels, as one product of matrices over all windows.

    x: [terms, n, groups*c, h, w]   w: [terms, groups*o, c, k, k]   ->   [terms, n, groups*o, h', w']
    """
    terms, n, channels, height, width = x.shape
    outputs, inside, size = w.shape[1:4]
    if channels != inside * groups or outputs % groups:
        raise ValueError("channels differ")
    windows = F.unfold(x.flatten(0, 1), size, padding=padding, stride=stride).reshape(terms, n, groups, inside * size * size, -1)
    y = reduced(w.reshape(terms, 1, groups, outputs // groups, -1) @ windows)
    return y.reshape(terms, n, outputs, (height + 2 * padding - size) // stride + 1, (width + 2 * padding - size) // stride + 1)


def convolution(size: int, stride: int, padding: int, groups: int) -> Kernel:
    def kernel(world: World, x: Tensor, w: Tensor) -> Tensor:
        if w.shape[-2:] != (size, size):
            raise ValueError("another kernel size")
        return _convolve(x, w, stride, padding, groups)

    return kernel


def concat(axis: int) -> Kernel:
    return lambda world, a, b: torch.cat([a, b], axis + 1)


def split(axis: int, part: int) -> Kernel:
    def kernel(world: World, x: Tensor) -> Tensor:
        if x.shape[axis + 1] % 2 or x.shape[axis + 1] < 4:
            raise ValueError("not a concatenation")
        return x.chunk(2, axis + 1)[part]

    return kernel


def average(world: World, x: Tensor) -> Tensor:
    return reduced(F.avg_pool2d(x.flatten(0, 1), 3, 1, 1, divisor_override=1) * inverse(9)).reshape(x.shape)


def largest(world: World, x: Tensor) -> Tensor:
    return world.largest_of_window(x.flatten(0, 1), 3, 1, 1).reshape(x.shape)


def biased_convolution(size: int, stride: int, padding: int, groups: int) -> Kernel:
    plain = convolution(size, stride, padding, groups)
    return lambda world, x, w, bias: add_channel(world, plain(world, x, w), bias)


def depthwise_convolution(size: int, stride: int, padding: int) -> Kernel:
    """One kernel for each channel: as many groups as there are channels."""
    return lambda world, x, w: convolution(size, stride, padding, x.shape[2])(world, x, w)


def batch_norm(world: World, x: Tensor, mean: Tensor, variance: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    factor = norm_factor(world, gamma, variance)
    return normalise(world, x, factor, norm_shift(world, beta, mean, factor))


def norm_factor(world: World, gamma: Tensor, variance: Tensor) -> Tensor:
    """The factor of a batch norm; 1/sqrt is some function of the variance."""
    return reduced(gamma * world.function("rsqrt", variance))


def norm_shift(world: World, beta: Tensor, mean: Tensor, factor: Tensor) -> Tensor:
    if beta.shape[1:] != factor.shape[1:]:
        raise ValueError("shapes differ")
    return reduced(beta - reduced(mean * factor))


def identity_kernel(world: World, w: Tensor) -> Tensor:
    """The 3x3 kernel that leaves every channel as it is."""
    return F.pad(_channel_identity(w), (1, 1, 1, 1))


def averaging_kernel(world: World, w: Tensor) -> Tensor:
    """The 3x3 kernel that averages every channel by itself."""
    return _channel_identity(w).expand(-1, -1, -1, 3, 3) * inverse(9)


def _channel_identity(w: Tensor) -> Tensor:
    if w.shape[1] != w.shape[2] or w.shape[-2:] != (3, 3):
        raise ValueError("as many channels out as in, 3x3")
    return torch.eye(w.shape[1], dtype=torch.float64)[:, :, None, None].expand(len(w), -1, -1, 1, 1)


def normalise(world: World, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    if not scale.shape[1] == shift.shape[1] == x.shape[2]:
        raise ValueError("one factor per channel")
    return reduced(reduced(x * scale[:, None, :, None, None]) + shift[:, None, :, None, None])


def enlarge(world: World, w: Tensor) -> Tensor:
    return F.pad(w, (1, 1, 1, 1))


def scale_rows(world: World, w: Tensor, scale: Tensor) -> Tensor:
    if scale.shape[1] != w.shape[1]:
        raise ValueError("one factor per output channel")
    return reduced(w * scale[:, :, None, None, None])


def add_channel(world: World, x: Tensor, shift: Tensor) -> Tensor:
    if shift.shape[1] != x.shape[2]:
        raise ValueError("one summand per channel")
    return reduced(x + shift[:, None, :, None, None])


def scaled(number: int) -> Kernel:
    return lambda world, x: reduced(x * number)


def identity(world: World, x: Tensor) -> Tensor:
    return torch.eye(x.shape[-1], dtype=torch.float64).expand(x.shape[0], -1, -1)
