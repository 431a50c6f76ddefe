"""Proofs for all shapes: matrix products, pointwise sums and concatenations; with near misses."""

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from rewrites.rule import Rule
from verifier.proof.rules import prove_rule


class MatMulAssoc(Rule):
    """A law: mat mul assoc."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "*b m k"], b: Float[Tensor, "*b k n"], c: Float[Tensor, "*b n l"]):
        return (a @ b) @ c

    @staticmethod
    def replacement(a, b, c):
        return a @ (b @ c)


class WrongMatMulAssoc(Rule):
    """Not a law: mat mul assoc."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "n n"], b: Float[Tensor, "n n"], c: Float[Tensor, "n n"]):
        return (a @ b) @ c

    @staticmethod
    def replacement(a, b, c):
        return a @ (c @ b)


class Distribute(Rule):
    """A law: distribute."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"], c: Float[Tensor, "k n"]):
        return a @ b + a @ c

    @staticmethod
    def replacement(a, b, c):
        return a @ (b + c)


class ConcatMM(Rule):
    """A law: concat mm."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"], c: Float[Tensor, "k p"]):
        return torch.cat([a @ b, a @ c], 1)

    @staticmethod
    def replacement(a, b, c):
        return a @ torch.cat([b, c], 1)


class ConcatMM2(Rule):
    """A law: concat mm2."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "m k"], a2: Float[Tensor, "m p"], b: Float[Tensor, "k n"], c: Float[Tensor, "p n"]):
        return a @ b + a2 @ c

    @staticmethod
    def replacement(a, a2, b, c):
        return torch.cat([a, a2], 1) @ torch.cat([b, c], 0)


class SplitMM(Rule):
    """A law: split mm."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"], c: Float[Tensor, "k p"]):
        return a @ b, a @ c

    @staticmethod
    def replacement(a, b, c):
        return torch.split(a @ torch.cat([b, c], 1), [b.shape[1], c.shape[1]], 1)


class TransMM(Rule):
    """A law: trans mm."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"]):
        return (a @ b).T

    @staticmethod
    def replacement(a, b):
        return b.T @ a.T


class WrongTransMM(Rule):
    """Not a law: trans mm."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "n n"], b: Float[Tensor, "n n"]):
        return (a @ b).T

    @staticmethod
    def replacement(a, b):
        return a.T @ b.T


class Lora(Rule):
    """A law: lora."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "*b i"], w: Float[Tensor, "i o"], a: Float[Tensor, "i r"], b: Float[Tensor, "r o"]):
        return x @ w + (x @ a) @ b

    @staticmethod
    def replacement(x, w, a, b):
        return x @ (w + a @ b)


class LinAttn(Rule):
    """A law: lin attn."""

    source = "the tests"

    @staticmethod
    def pattern(q: Float[Tensor, "*b t d"], k: Float[Tensor, "*b s d"], v: Float[Tensor, "*b s e"]):
        return (q @ k.mT) @ v

    @staticmethod
    def replacement(q, k, v):
        return q @ (k.mT @ v)


class WrongLinAttn(Rule):
    """Not a law: lin attn."""

    source = "the tests"

    @staticmethod
    def pattern(q: Float[Tensor, "t d"], k: Float[Tensor, "s d"], v: Float[Tensor, "s e"]):
        return torch.softmax(q @ k.mT, -1) @ v

    @staticmethod
    def replacement(q, k, v):
        return q @ (k.mT @ v)


class StackSum(Rule):
    """A law: stack sum."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "n m"], b: Float[Tensor, "n m"]):
        return torch.stack([a, b]).sum(0)

    @staticmethod
    def replacement(a, b):
        return a + b


class FlipFlip(Rule):
    """A law: flip flip."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "n m"]):
        return a.flip(0).flip(0)

    @staticmethod
    def replacement(a):
        return a * 1


class WrongFlip(Rule):
    """Not a law: flip."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "n m"]):
        return a.flip(0)

    @staticmethod
    def replacement(a):
        return a * 1


class FlipSum(Rule):
    """A law: flip sum."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "n m"]):
        return a.flip(0).sum(0)

    @staticmethod
    def replacement(a):
        return a.sum(0)


class Cumsum(Rule):
    """A law: cumsum."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n d"], w: Float[Tensor, "d e"]):
        return torch.cumsum(x @ w, 0)

    @staticmethod
    def replacement(x, w):
        return torch.cumsum(x, 0) @ w


@pytest.mark.parametrize(
    "rule",
    [MatMulAssoc, Distribute, ConcatMM, ConcatMM2, SplitMM, TransMM, Lora, LinAttn, StackSum, FlipFlip, FlipSum, Cumsum],
    ids=lambda rule: rule.__name__,
)
def test_linear_law_is_proved(rule):
    proof = prove_rule(rule)
    assert proof.proved, proof.first_open


@pytest.mark.parametrize("rule", [WrongMatMulAssoc, WrongTransMM, WrongLinAttn, WrongFlip], ids=lambda rule: rule.__name__)
def test_linear_near_miss_is_not_proved(rule):
    assert not prove_rule(rule, timeout=5).proved
