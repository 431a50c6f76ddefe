"""Proofs for all shapes where windows and groups are numbers: an index below 4 is two below 2, or 0, 1, 2 and 3; with near misses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.verifier.laws_of_functions import proof_of


def groups(x: Any, size: int) -> Any:
    return x.reshape(x.shape[0], -1, size)


ROWS, SERIES, IMAGE = "b n", "b c n", "b c h w"
RIGHT = {
    "sums of pairs of pairs": ("b 4*n", lambda x: groups(groups(x, 2).sum(-1), 2).sum(-1), lambda x: groups(x, 4).sum(-1)),
    "means of threes of pairs": (
        "b 6*n",
        lambda x: groups(x, 6).mean(-1),
        lambda x: x.reshape(x.shape[0], -1, 3, 2).mean(-1).mean(-1),
    ),
    "maxima three times": (
        "b 8*n",
        lambda x: groups(x, 8).amax(-1),
        lambda x: groups(groups(groups(x, 2).amax(-1), 2).amax(-1), 2).amax(-1),
    ),
    "average pools": (IMAGE, lambda x: F.avg_pool2d(F.avg_pool2d(x, 2), 2), lambda x: F.avg_pool2d(x, 4)),
    "average pools that drop a rest": (SERIES, lambda x: F.avg_pool1d(F.avg_pool1d(x, 3), 2), lambda x: F.avg_pool1d(x, 6)),
    "average pools, padded": (SERIES, lambda x: F.avg_pool1d(F.avg_pool1d(x, 2, padding=1), 2), lambda x: F.avg_pool1d(x, 4, padding=1)),
    "maximum pools": (IMAGE, lambda x: F.max_pool2d(F.max_pool2d(x, 2), 3), lambda x: F.max_pool2d(x, 6)),
    "a global pool of a pool": (
        "b c 2*h 2*w",
        lambda x: F.adaptive_avg_pool2d(F.avg_pool2d(x, 2), 1),
        lambda x: F.adaptive_avg_pool2d(x, 1),
    ),
}
WRITTEN_OUT = {
    "an average of two": (SERIES, lambda x: F.avg_pool1d(x, 2, 1), lambda x: (x[..., 1:] + x[..., :-1]) / 2),
    "a maximum of two": (SERIES, lambda x: F.max_pool1d(x, 2, 1), lambda x: torch.maximum(x[..., 1:], x[..., :-1])),
    "an average of four": (
        "b c 2*h 2*w",
        lambda x: F.avg_pool2d(x, 2),
        lambda x: (x[..., ::2, ::2] + x[..., 1::2, ::2] + x[..., ::2, 1::2] + x[..., 1::2, 1::2]) / 4,
    ),
    "a softmax of two": ("n 2", lambda x: torch.softmax(x, -1)[:, 0], lambda x: torch.sigmoid(x[:, 0] - x[:, 1])),
    "a variance of three": (
        "n 3",
        lambda x: x.var(-1, correction=0),
        lambda x: ((x[:, 0] - x[:, 1]) ** 2 + (x[:, 0] - x[:, 2]) ** 2 + (x[:, 1] - x[:, 2]) ** 2) / 9,
    ),
    "a kernel with zeros for a dilation": (
        "d c 3",
        lambda x: F.conv1d(torch.ones(1, x.shape[1], 9), x, dilation=2),
        lambda x: F.conv1d(torch.ones(1, x.shape[1], 9), torch.stack([x[..., 0], 0 * x[..., 0], x[..., 1], 0 * x[..., 0], x[..., 2]], -1)),
    ),
}
RIGHT |= WRITTEN_OUT
WRONG = {
    "an average of distant two": (SERIES, lambda x: F.avg_pool1d(x, 3, 1), lambda x: (x[..., 2:] + x[..., :-2]) / 2),
    "a variance of three, doubled": (
        "n 3",
        lambda x: x.var(-1, correction=0),
        lambda x: ((x[:, 0] - x[:, 1]) ** 2 + (x[:, 0] - x[:, 2]) ** 2 + (x[:, 1] - x[:, 2]) ** 2) / 6,
    ),
    "a softmax of two, turned": ("n 2", lambda x: torch.softmax(x, -1)[:, 0], lambda x: torch.sigmoid(x[:, 1] - x[:, 0])),
    "a group of another size": ("b 12*n", lambda x: groups(groups(x, 2).sum(-1), 2).sum(-1), lambda x: groups(x, 4).amax(-1)),
    "every other element": ("b 4*n", lambda x: groups(x[:, ::2], 2).sum(-1), lambda x: groups(x, 4).sum(-1)),
    "pairs of distant elements": (
        "b 4*n",
        lambda x: x.reshape(x.shape[0], 2, -1, 2).sum((1, 3)),
        lambda x: groups(x, 4).sum(-1),
    ),
    "windows that overlap": (SERIES, lambda x: F.avg_pool1d(F.avg_pool1d(x, 2, 1), 2, 1), lambda x: F.avg_pool1d(x, 3, 1)),
    "padding of the second pool": (
        SERIES,
        lambda x: F.avg_pool1d(F.avg_pool1d(x, 2), 2, padding=1),
        lambda x: F.avg_pool1d(x, 4, padding=1),
    ),
    "strides that leave gaps": (SERIES, lambda x: F.avg_pool1d(F.avg_pool1d(x, 2, 3), 2, 3), lambda x: F.avg_pool1d(x, 4, 9)),
    "a maximum of averages": (IMAGE, lambda x: F.max_pool2d(F.avg_pool2d(x, 2), 2), lambda x: F.max_pool2d(x, 4)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_proved(name: str) -> None:
    proof = proof_of(RIGHT[name][:1], *RIGHT[name][1:])
    assert proof.proved, proof


@pytest.mark.parametrize("name", WRONG)
def test_not_proved(name: str) -> None:
    assert not proof_of(WRONG[name][:1], *WRONG[name][1:], timeout=5).proved
