"""Proofs for all shapes: convolutions with symbolic stride, padding, dilation, groups and kernel; with near misses."""

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites.rule import Requires, Rule
from rewrites.signature import Pair
from verifier.proof.rules import prove_rule


class FoldBN(Rule):
    """A law: fold bn."""

    source = "the tests"

    @staticmethod
    def pattern(
        x: Float[Tensor, "n groups*c h w"],
        weight: Float[Tensor, "groups*o c kh kw"],
        bias: Float[Tensor, "groups*o"],
        gamma: Float[Tensor, "groups*o"],
        beta: Float[Tensor, "groups*o"],
        mean: Float[Tensor, "groups*o"],
        var: Float[Tensor, "groups*o"],
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        groups: int,
        eps: float,
    ):
        y = F.conv2d(x, weight, bias, stride, padding, dilation, groups)
        return F.batch_norm(y, mean, var, gamma, beta, False, 0.1, eps)

    @staticmethod
    def replacement(x, weight, bias, gamma, beta, mean, var, stride, padding, dilation, groups, eps):
        s = gamma * torch.rsqrt(var + eps)
        return F.conv2d(x, weight * s[:, None, None, None], (bias - mean) * s + beta, stride, padding, dilation, groups)


class WrongFoldBN(Rule):
    """Not a law: fold bn."""

    source = "the tests"

    @staticmethod
    def pattern(
        x: Float[Tensor, "n groups*c h w"],
        weight: Float[Tensor, "groups*o c kh kw"],
        bias: Float[Tensor, "groups*o"],
        gamma: Float[Tensor, "groups*o"],
        beta: Float[Tensor, "groups*o"],
        mean: Float[Tensor, "groups*o"],
        var: Float[Tensor, "groups*o"],
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        groups: int,
        eps: float,
    ):
        y = F.conv2d(x, weight, bias, stride, padding, dilation, groups)
        return F.batch_norm(y, mean, var, gamma, beta, False, 0.1, eps)

    @staticmethod
    def replacement(x, weight, bias, gamma, beta, mean, var, stride, padding, dilation, groups, eps):
        s = gamma * torch.rsqrt(var + eps)
        return F.conv2d(x, weight * s[:, None, None, None], (bias - mean) * gamma + beta, stride, padding, dilation, groups)


class Enlarge(Rule):
    """A law: enlarge."""

    source = "the tests"
    requires = [Requires("q>=0", lambda q: q >= 0)]

    @staticmethod
    def pattern(
        x: Float[Tensor, "n groups*c h w"],
        weight: Float[Tensor, "groups*o c kh kw"],
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        groups: int,
        q: int,
    ):
        return F.conv2d(x, weight, None, stride, padding, dilation, groups) + q

    @staticmethod
    def replacement(x, weight, stride, padding, dilation, groups, q):
        return (
            F.conv2d(
                x, F.pad(weight, (q, q, q, q)), None, stride, (padding[0] + q * dilation[0], padding[1] + q * dilation[1]), dilation, groups
            )
            + q
        )


class WrongEnlarge(Rule):
    """Not a law: enlarge."""

    source = "the tests"
    requires = [Requires("q>=0", lambda q: q >= 0)]

    @staticmethod
    def pattern(
        x: Float[Tensor, "n groups*c h w"],
        weight: Float[Tensor, "groups*o c kh kw"],
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        groups: int,
        q: int,
    ):
        return F.conv2d(x, weight, None, stride, padding, dilation, groups) + q

    @staticmethod
    def replacement(x, weight, stride, padding, dilation, groups, q):
        return (
            F.conv2d(
                x,
                F.pad(weight, (2 * q, 0, q, q)),
                None,
                stride,
                (padding[0] + q * dilation[0], padding[1] + q * dilation[1]),
                dilation,
                groups,
            )
            + q
        )


class MergeParallel(Rule):
    """A law: merge parallel."""

    source = "the tests"

    @staticmethod
    def pattern(
        x: Float[Tensor, "n c h w"],
        w1: Float[Tensor, "o c kh kw"],
        w2: Float[Tensor, "p c kh kw"],
        stride: Pair,
        padding: Pair,
        dilation: Pair,
    ):
        return torch.cat([F.conv2d(x, w1, None, stride, padding, dilation), F.conv2d(x, w2, None, stride, padding, dilation)], 1)

    @staticmethod
    def replacement(x, w1, w2, stride, padding, dilation):
        return F.conv2d(x, torch.cat([w1, w2], 0), None, stride, padding, dilation)


class InCat(Rule):
    """A law: in cat."""

    source = "the tests"

    @staticmethod
    def pattern(
        x: Float[Tensor, "n c h w"],
        y: Float[Tensor, "n d h w"],
        w1: Float[Tensor, "o c kh kw"],
        w2: Float[Tensor, "o d kh kw"],
        stride: Pair,
        padding: Pair,
        dilation: Pair,
    ):
        return F.conv2d(x, w1, None, stride, padding, dilation) + F.conv2d(y, w2, None, stride, padding, dilation)

    @staticmethod
    def replacement(x, y, w1, w2, stride, padding, dilation):
        return F.conv2d(torch.cat([x, y], 1), torch.cat([w1, w2], 1), None, stride, padding, dilation)


class BatchCat(Rule):
    """A law: batch cat."""

    source = "the tests"

    @staticmethod
    def pattern(
        x: Float[Tensor, "n groups*c h w"],
        y: Float[Tensor, "m groups*c h w"],
        w1: Float[Tensor, "groups*o c kh kw"],
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        groups: int,
    ):
        return torch.cat(
            [F.conv2d(x, w1, None, stride, padding, dilation, groups), F.conv2d(y, w1, None, stride, padding, dilation, groups)], 0
        )

    @staticmethod
    def replacement(x, y, w1, stride, padding, dilation, groups):
        return F.conv2d(torch.cat([x, y], 0), w1, None, stride, padding, dilation, groups)


class PadConv(Rule):
    """A law: pad conv."""

    source = "the tests"
    requires = [Requires("q>=0", lambda q: q >= 0)]

    @staticmethod
    def pattern(
        x: Float[Tensor, "n groups*c h w"],
        weight: Float[Tensor, "groups*o c kh kw"],
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        groups: int,
        q: int,
    ):
        return F.conv2d(F.pad(x, (q, q, q, q)), weight, None, stride, padding, dilation, groups)

    @staticmethod
    def replacement(x, weight, stride, padding, dilation, groups, q):
        return F.conv2d(x, weight, None, stride, (padding[0] + q, padding[1] + q), dilation, groups)


class Residual(Rule):
    """A law: residual."""

    source = "the tests"
    requires = [
        Requires("ε is positive", lambda eps: eps > 0),
        Requires("v3 is a variance", lambda v3: v3 >= 0),
        Requires("v1 is a variance", lambda v1: v1 >= 0),
    ]

    @staticmethod
    def pattern(
        x: Float[Tensor, "n c h w"],
        w3: Float[Tensor, "o c 3 3"],
        w1: Float[Tensor, "o c 1 1"],
        g3: Float[Tensor, "o"],
        b3: Float[Tensor, "o"],
        m3: Float[Tensor, "o"],
        v3: Float[Tensor, "o"],
        g1: Float[Tensor, "o"],
        b1: Float[Tensor, "o"],
        m1: Float[Tensor, "o"],
        v1: Float[Tensor, "o"],
        stride: Pair,
        eps: float,
    ):
        y = F.batch_norm(F.conv2d(x, w3, None, stride, 1), m3, v3, g3, b3, False, 0.1, eps)
        z = F.batch_norm(F.conv2d(x, w1, None, stride, 0), m1, v1, g1, b1, False, 0.1, eps)
        return F.relu(y + z)

    @staticmethod
    def replacement(x, w3, w1, g3, b3, m3, v3, g1, b1, m1, v1, stride, eps):
        s3 = g3 * torch.rsqrt(v3 + eps)
        s1 = g1 * torch.rsqrt(v1 + eps)
        w = w3 * s3[:, None, None, None] + F.pad(w1 * s1[:, None, None, None], (1, 1, 1, 1))
        return F.relu(F.conv2d(x, w, (b3 - m3 * s3) + (b1 - m1 * s1), stride, 1))


class RepVGG(Rule):
    """A law: rep vgg."""

    source = "the tests"
    requires = [
        Requires("ε is positive", lambda eps: eps > 0),
        Requires("v3 is a variance", lambda v3: v3 >= 0),
        Requires("v1 is a variance", lambda v1: v1 >= 0),
        Requires("v0 is a variance", lambda v0: v0 >= 0),
    ]

    @staticmethod
    def pattern(
        x: Float[Tensor, "n c h w"],
        w3: Float[Tensor, "c c 3 3"],
        w1: Float[Tensor, "c c 1 1"],
        g3: Float[Tensor, "c"],
        b3: Float[Tensor, "c"],
        m3: Float[Tensor, "c"],
        v3: Float[Tensor, "c"],
        g1: Float[Tensor, "c"],
        b1: Float[Tensor, "c"],
        m1: Float[Tensor, "c"],
        v1: Float[Tensor, "c"],
        g0: Float[Tensor, "c"],
        b0: Float[Tensor, "c"],
        m0: Float[Tensor, "c"],
        v0: Float[Tensor, "c"],
        eps: float,
    ):
        y = F.batch_norm(F.conv2d(x, w3, None, 1, 1), m3, v3, g3, b3, False, 0.1, eps)
        z = F.batch_norm(F.conv2d(x, w1, None, 1, 0), m1, v1, g1, b1, False, 0.1, eps)
        i = F.batch_norm(x, m0, v0, g0, b0, False, 0.1, eps)
        return F.relu(y + z + i)

    @staticmethod
    def replacement(x, w3, w1, g3, b3, m3, v3, g1, b1, m1, v1, g0, b0, m0, v0, eps):
        s3 = g3 * torch.rsqrt(v3 + eps)
        s1 = g1 * torch.rsqrt(v1 + eps)
        s0 = g0 * torch.rsqrt(v0 + eps)
        eye = torch.eye(w1.shape[0])
        w = (
            w3 * s3[:, None, None, None]
            + F.pad(w1 * s1[:, None, None, None], (1, 1, 1, 1))
            + F.pad((eye * s0[:, None])[:, :, None, None], (1, 1, 1, 1))
        )
        return F.relu(F.conv2d(x, w, (b3 - m3 * s3) + (b1 - m1 * s1) + (b0 - m0 * s0), 1, 1))


class Conv1x1After(Rule):
    """A law: conv1x1 after."""

    source = "the tests"

    @staticmethod
    def pattern(
        x: Float[Tensor, "n c h w"],
        w1: Float[Tensor, "o c kh kw"],
        b1: Float[Tensor, "o"],
        w2: Float[Tensor, "p o 1 1"],
        b2: Float[Tensor, "p"],
        stride: Pair,
        padding: Pair,
        dilation: Pair,
    ):
        return F.conv2d(F.conv2d(x, w1, b1, stride, padding, dilation), w2, b2)

    @staticmethod
    def replacement(x, w1, b1, w2, b2, stride, padding, dilation):
        w = torch.einsum("po,ocab->pcab", w2[:, :, 0, 0], w1)
        return F.conv2d(x, w, b2 + w2[:, :, 0, 0] @ b1, stride, padding, dilation)


class WrongConv1x1Before(Rule):
    """Not a law: conv1x1 before."""

    source = "the tests"

    @staticmethod
    def pattern(
        x: Float[Tensor, "n c h w"],
        w1: Float[Tensor, "o c 1 1"],
        b1: Float[Tensor, "o"],
        w2: Float[Tensor, "p o 3 3"],
        b2: Float[Tensor, "p"],
    ):
        return F.conv2d(F.conv2d(x, w1, b1), w2, b2, 1, 1)

    @staticmethod
    def replacement(x, w1, b1, w2, b2):
        w = torch.einsum("oc,poab->pcab", w1[:, :, 0, 0], w2)
        return F.conv2d(x, w, b2 + torch.einsum("poab,o->p", w2, b1), 1, 1)


class Conv1x1BeforeNoBias(Rule):
    """A law: conv1x1 before no bias."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n c h w"], w1: Float[Tensor, "o c 1 1"], w2: Float[Tensor, "p o 3 3"], b2: Float[Tensor, "p"]):
        return F.conv2d(F.conv2d(x, w1), w2, b2, 1, 1)

    @staticmethod
    def replacement(x, w1, w2, b2):
        w = torch.einsum("oc,poab->pcab", w1[:, :, 0, 0], w2)
        return F.conv2d(x, w, b2, 1, 1)


class FlattenLinear(Rule):
    """A law: flatten linear."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n c h w"], weight: Float[Tensor, "o c*h*w"], bias: Float[Tensor, "o"]):
        return F.linear(x.flatten(1), weight, bias)

    @staticmethod
    def replacement(x, weight, bias):
        _, c, h, w = x.shape
        return F.conv2d(x, weight.reshape(weight.shape[0], c, h, w), bias).flatten(1)


class ConvT(Rule):
    """A law: conv t."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n c h w"], y: Float[Tensor, "n c h w"], weight: Float[Tensor, "c o kh kw"], stride: Pair, padding: Pair):
        return F.conv_transpose2d(x, weight, None, stride, padding) + F.conv_transpose2d(y, weight, None, stride, padding)

    @staticmethod
    def replacement(x, y, weight, stride, padding):
        return F.conv_transpose2d(x + y, weight, None, stride, padding)


class AvgConv(Rule):
    """A law: avg conv."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n c h w"]):
        return F.avg_pool2d(x, 2, 2, 1)

    @staticmethod
    def replacement(x):
        c = x.shape[1]
        return F.conv2d(x, torch.full((c, 1, 2, 2), 0.25), None, 2, 1, 1, c)


@pytest.mark.parametrize(
    "rule",
    [
        FoldBN,
        Enlarge,
        MergeParallel,
        InCat,
        BatchCat,
        PadConv,
        Residual,
        RepVGG,
        Conv1x1After,
        Conv1x1BeforeNoBias,
        FlattenLinear,
        ConvT,
        AvgConv,
    ],
    ids=lambda rule: rule.__name__,
)
def test_convolutions_law_is_proved(rule):
    proof = prove_rule(rule)
    assert proof.proved, proof.first_open


@pytest.mark.parametrize("rule", [WrongFoldBN, WrongEnlarge, WrongConv1x1Before], ids=lambda rule: rule.__name__)
def test_convolutions_near_miss_is_not_proved(rule):
    assert not prove_rule(rule, timeout=5).proved
