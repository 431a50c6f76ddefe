"""Proofs for all shapes: reshapes by mixed radix digits, splits over devices; with near misses."""

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites.rule import Requires, Rule
from verifier.proof.rules import prove_rule


class ReshapeReshape(Rule):
    """A law: reshape reshape."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "a b c d"]):
        return x.reshape(x.shape[0] * x.shape[1], x.shape[2] * x.shape[3]).reshape(x.shape[0], x.shape[1] * x.shape[2], x.shape[3])

    @staticmethod
    def replacement(x):
        return x.reshape(x.shape[0], x.shape[1] * x.shape[2], x.shape[3])


class WrongReshapeTranspose(Rule):
    """Not a law: reshape transpose."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "a b c"]):
        return x.transpose(0, 1).reshape(x.shape[0] * x.shape[1], x.shape[2])

    @staticmethod
    def replacement(x):
        return x.reshape(x.shape[0] * x.shape[1], x.shape[2])


class ReshapeMM(Rule):
    """A law: reshape mm."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "a b c"], w: Float[Tensor, "c d"]):
        return (x.reshape(x.shape[0] * x.shape[1], x.shape[2]) @ w).reshape(x.shape[0], x.shape[1], w.shape[1])

    @staticmethod
    def replacement(x, w):
        return x @ w


class FlattenCat(Rule):
    """A law: flatten cat."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "n c h w"], b: Float[Tensor, "n d h w"]):
        return torch.cat([a, b], 1).flatten(1)

    @staticmethod
    def replacement(a, b):
        return torch.cat([a.flatten(1), b.flatten(1)], 1)


class WrongFlattenCat(Rule):
    """Not a law: flatten cat."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "n c h w"], b: Float[Tensor, "n c h w"]):
        return torch.cat([a, b], 2).flatten(1)

    @staticmethod
    def replacement(a, b):
        return torch.cat([a.flatten(1), b.flatten(1)], 1)


class WrongPatch(Rule):
    """Not a law: patch."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n c p q"], w: Float[Tensor, "c p q"]):
        return (x * w).sum((1, 2, 3))

    @staticmethod
    def replacement(x, w):
        n, c, p, q = x.shape
        return (x.permute(0, 2, 1, 3).reshape(n, c * p * q) * w.reshape(c * p * q)).sum(-1)


class Megatron(Rule):
    """A law: megatron."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "t e"], a: Float[Tensor, "e r*f"], b: Float[Tensor, "r*f e"], r: int):
        assert r is not None
        return F.gelu(x @ a) @ b

    @staticmethod
    def replacement(x, a, b, r):
        e = x.shape[1]
        f = b.shape[0] // r
        a2 = a.reshape(e, r, f).permute(1, 0, 2)
        b2 = b.reshape(r, f, e)
        return (F.gelu(x @ a2) @ b2).sum(0)


class Megatron2(Rule):
    """A law: megatron2."""

    source = "the tests"

    @staticmethod
    def pattern(
        x: Float[Tensor, "t e"], a: Float[Tensor, "e f"], a2: Float[Tensor, "e g"], b: Float[Tensor, "f o"], b2: Float[Tensor, "g o"]
    ):
        return F.gelu(x @ torch.cat([a, a2], 1)) @ torch.cat([b, b2], 0)

    @staticmethod
    def replacement(x, a, a2, b, b2):
        return F.gelu(x @ a) @ b + F.gelu(x @ a2) @ b2


class WrongMegatron(Rule):
    """Not a law: megatron."""

    source = "the tests"

    @staticmethod
    def pattern(
        x: Float[Tensor, "t e"], a: Float[Tensor, "e f"], b: Float[Tensor, "f o"], x2: Float[Tensor, "t g"], a2: Float[Tensor, "g f"]
    ):
        return F.gelu(x @ a + x2 @ a2) @ b

    @staticmethod
    def replacement(x, a, b, x2, a2):
        return F.gelu(x @ a) @ b + F.gelu(x2 @ a2) @ b


class DataParallel(Rule):
    """A law: data parallel."""

    source = "the tests"

    @staticmethod
    def pattern(g: Float[Tensor, "r*n p"], r: int):
        assert r is not None
        return g.mean(0)

    @staticmethod
    def replacement(g, r):
        return g.reshape(r, g.shape[0] // r, g.shape[1]).mean(1).mean(0)


class WrongUnequal(Rule):
    """Not a law: unequal."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "n p"], b: Float[Tensor, "m p"]):
        return torch.cat([a, b], 0).mean(0)

    @staticmethod
    def replacement(a, b):
        return (a.mean(0) + b.mean(0)) / 2


class Weighted(Rule):
    """A law: weighted."""

    source = "the tests"
    requires = [Requires("shards are not empty", lambda n, m: n >= 1 and m >= 1)]

    @staticmethod
    def pattern(a: Float[Tensor, "n p"], b: Float[Tensor, "m p"]):
        return torch.cat([a, b], 0).mean(0)

    @staticmethod
    def replacement(a, b):
        n, m = a.shape[0], b.shape[0]
        return (a.mean(0) * n + b.mean(0) * m) / (n + m)


@pytest.mark.parametrize(
    "rule", [ReshapeReshape, ReshapeMM, FlattenCat, Megatron, Megatron2, DataParallel, Weighted], ids=lambda rule: rule.__name__
)
def test_layout_law_is_proved(rule):
    proof = prove_rule(rule)
    assert proof.proved, proof.first_open


@pytest.mark.parametrize(
    "rule", [WrongReshapeTranspose, WrongFlattenCat, WrongPatch, WrongMegatron, WrongUnequal], ids=lambda rule: rule.__name__
)
def test_layout_near_miss_is_not_proved(rule):
    assert not prove_rule(rule, timeout=5).proved
