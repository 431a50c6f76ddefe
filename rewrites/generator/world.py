"""Exact evaluation of terms: integers modulo a prime, in float64 kernels that hold every intermediate exactly.

Linear operators run on torch's own kernels: residues below 2**20 make products below 2**40, so that sums of thousands of them are exact
below 2**53.
Nonlinear functions would make a wrong law true if they were replaced by a polynomial. Instead they are what they are in *some* totally
ordered set: each world draws a
random total order of the residues; relu is the larger of its argument and 0 in that order, maxima are the largest in that order, and
every other function is a random but consistent
function of its argument. A law that survives several worlds uses nothing but what all of them share (lattice laws, congruence, linearity).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import torch
from torch import Tensor

PRIME = 1_048_573
"""The largest prime below 2**20."""


@dataclass
class World:
    """Sizes for the inputs and a draw of the order and the functions.

    `matrix` is the side of square matrices, `channels` a multiple of 2 (groups), `height` and `width` differ.
    """

    seed: int
    matrix: int
    channels: int
    height: int
    width: int
    samples: int = 1
    below_zero: float = 0.5
    """The share of residues that come before 0 in the order. Where it is large, relu changes even the largest of a window."""
    _generator: torch.Generator = field(init=False, repr=False)
    _slope: int = field(init=False, repr=False)
    _shift: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._generator = torch.Generator().manual_seed(self.seed)
        self._slope = int(torch.randint(1, PRIME, (), generator=self._generator))
        self._shift = int(self.below_zero * PRIME)

    def draw(self, shape: tuple[int, ...]) -> Tensor:
        """A tensor of uniform residues."""
        return torch.randint(0, PRIME, shape, generator=self._generator).to(torch.float64)

    def rank(self, x: Tensor) -> Tensor:
        """The place of each residue in the world's random order."""
        return torch.remainder(x * self._slope + self._shift, PRIME)

    def relu(self, x: Tensor) -> Tensor:
        """The larger of the argument and 0 in the world's order."""
        return torch.where(self.rank(x) > self.rank(torch.zeros(())), x, torch.zeros(()))

    def function(self, name: str, x: Tensor) -> Tensor:
        """A function of this name that is random, and the same each time in this world."""
        salt = int.from_bytes(hashlib.blake2b(f"{name}/{self.seed}".encode(), digest_size=2).digest(), "little") + 1
        mixed = torch.remainder(x * salt + self._shift, PRIME)
        mixed = torch.remainder(mixed * mixed + salt, PRIME)
        return torch.remainder(mixed * x + self._slope, PRIME)

    def largest_of_window(self, x: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
        """Max pooling in the world's order; padding never wins."""
        order = self.rank(x)
        _, where = torch.nn.functional.max_pool2d(order, kernel, stride, padding, return_indices=True)
        return x.flatten(2).gather(2, where.flatten(2)).reshape(where.shape)


def reduced(x: Tensor) -> Tensor:
    """The residues of exactly represented integers."""
    return torch.remainder(x, PRIME)


def inverse(number: int) -> int:
    """The residue that times `number` is 1."""
    return pow(number, -1, PRIME)


def digest(tensors: list[Tensor | None]) -> bytes | None:
    """A fingerprint of one term's values in all worlds (shapes included); None when it has none."""
    state = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        if tensor is None:
            return None
        state.update(str(tuple(tensor.shape)).encode())
        state.update(tensor.to(torch.int32).contiguous().numpy().tobytes())
    return state.digest()


WORLDS = (World(1, 4, 4, 5, 4, 2), World(2, 3, 2, 4, 6, 3, below_zero=0.87))
"""Two draws of sizes; sizes that must not coincide differ in one of them, and so does the place of 0."""
