"""Proofs for all shapes: softmax, normalisation and attention; with near misses."""

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites.rule import Requires, Rule
from verifier.proof.rules import prove_rule


class HeadSplit(Rule):
    """A law: head split."""

    source = "the tests"

    @staticmethod
    def pattern(
        x: Float[Tensor, "b t e"],
        wq: Float[Tensor, "heads*d e"],
        wk: Float[Tensor, "heads*d e"],
        wv: Float[Tensor, "heads*d e"],
        heads: int,
    ):
        b, t, _ = x.shape
        d = wq.shape[0] // heads
        q = F.linear(x, wq).view(b, t, heads, d).transpose(1, 2)
        k = F.linear(x, wk).view(b, t, heads, d).transpose(1, 2)
        v = F.linear(x, wv).view(b, t, heads, d).transpose(1, 2)
        return F.scaled_dot_product_attention(q, k, v)

    @staticmethod
    def replacement(x, wq, wk, wv, heads):
        b, t, _ = x.shape
        d = wq.shape[0] // heads
        y = F.linear(x, torch.cat([wq, wk, wv], 0))
        q, k, v = torch.split(y, [wq.shape[0], wq.shape[0], wq.shape[0]], -1)
        q = q.reshape(b, t, heads, d).transpose(1, 2)
        k = k.reshape(b, t, heads, d).transpose(1, 2)
        v = v.reshape(b, t, heads, d).transpose(1, 2)
        return F.scaled_dot_product_attention(q, k, v)


class ScaleFold(Rule):
    """A law: scale fold."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "t e"], w: Float[Tensor, "d e"], k: Float[Tensor, "s d"], scale: float):
        return torch.softmax((F.linear(x, w) @ k.T) * scale, -1)

    @staticmethod
    def replacement(x, w, k, scale):
        return torch.softmax(F.linear(x, w * scale) @ k.T, -1)


class SoftmaxShift(Rule):
    """A law: softmax shift."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "*b n"], c: Float[Tensor, "*b 1"]):
        return torch.softmax(x + c, -1)

    @staticmethod
    def replacement(x, c):
        return torch.softmax(x, -1)


class SoftmaxMax(Rule):
    """A law: softmax max."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "m n"]):
        y = torch.exp(x - x.amax(-1, keepdim=True))
        return y / y.sum(-1, keepdim=True)

    @staticmethod
    def replacement(x):
        return torch.softmax(x, -1)


class LogSoftmax(Rule):
    """A law: log softmax."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "*b n"]):
        return torch.log(torch.softmax(x, -1))

    @staticmethod
    def replacement(x):
        return torch.log_softmax(x, -1)


class WrongSoftmaxAxis(Rule):
    """Not a law: softmax axis."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n n"]):
        return torch.softmax(x, 0)

    @staticmethod
    def replacement(x):
        return torch.softmax(x, 1)


class VarLaw(Rule):
    """A law: var law."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "m n"]):
        return ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1)

    @staticmethod
    def replacement(x):
        return (x**2).mean(-1) - x.mean(-1) ** 2


class VarOp(Rule):
    """A law: var op."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "m n"]):
        return x.var(-1, unbiased=False)

    @staticmethod
    def replacement(x):
        return (x**2).mean(-1) - x.mean(-1) ** 2


class WrongVarLaw(Rule):
    """Not a law: var law."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "m n"]):
        return x.var(-1)

    @staticmethod
    def replacement(x):
        return (x**2).mean(-1) - x.mean(-1) ** 2


class LayerNormAffine(Rule):
    """A law: layer norm affine."""

    source = "the tests"

    @staticmethod
    def pattern(
        x: Float[Tensor, "*b e"], g: Float[Tensor, "e"], b: Float[Tensor, "e"], w: Float[Tensor, "o e"], c: Float[Tensor, "o"], eps: float
    ):
        return F.linear(F.layer_norm(x, (x.shape[-1],), g, b, eps), w, c)

    @staticmethod
    def replacement(x, g, b, w, c, eps):
        return F.linear(F.layer_norm(x, (x.shape[-1],), None, None, eps), w * g, c + w @ b)


class RMSAffine(Rule):
    """A law: rmsaffine."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "*b e"], g: Float[Tensor, "e"], w: Float[Tensor, "o e"], eps: float):
        return F.linear(F.rms_norm(x, (x.shape[-1],), g, eps), w)

    @staticmethod
    def replacement(x, g, w, eps):
        return F.linear(F.rms_norm(x, (x.shape[-1],), None, eps), w * g)


class LayerNormDecomp(Rule):
    """A law: layer norm decomp."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "*b e"], g: Float[Tensor, "e"], b: Float[Tensor, "e"], eps: float):
        m = x.mean(-1, keepdim=True)
        v = ((x - m) ** 2).mean(-1, keepdim=True)
        return (x - m) / torch.sqrt(v + eps) * g + b

    @staticmethod
    def replacement(x, g, b, eps):
        return F.layer_norm(x, (x.shape[-1],), g, b, eps)


class GroupNormDecomp(Rule):
    """A law: group norm decomp."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n groups*c h w"], groups: int, eps: float):
        return F.group_norm(x, groups, None, None, eps)

    @staticmethod
    def replacement(x, groups, eps):
        n, ch, h, w = x.shape
        y = x.reshape(n, groups, (ch // groups) * h * w)
        m = y.mean(-1, keepdim=True)
        v = ((y - m) ** 2).mean(-1, keepdim=True)
        return ((y - m) * torch.rsqrt(v + eps)).reshape(n, ch, h, w)


class BNTrain(Rule):
    """A law: bntrain."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n c h w"], rm: Float[Tensor, "c"], rv: Float[Tensor, "c"], eps: float):
        return F.batch_norm(x, rm, rv, None, None, True, 0.1, eps)

    @staticmethod
    def replacement(x, rm, rv, eps):
        m = x.mean((0, 2, 3), keepdim=True)
        v = (x * x).mean((0, 2, 3), keepdim=True) - m * m
        return (x - m) * torch.rsqrt(v + eps)


class ScaleIntoEpsilon(Rule):
    """A law: a layer norm of what is scaled divides its ε."""

    source = "the tests"
    requires = (Requires("the scale is positive", lambda s: s > 0),)

    @staticmethod
    def pattern(x: Float[Tensor, "m n"], s: float, eps: float):
        return F.layer_norm(x * s, (x.shape[-1],), None, None, eps)

    @staticmethod
    def replacement(x, s, eps):
        return F.layer_norm(x, (x.shape[-1],), None, None, eps / (s * s))


class ScaleOfRowsIntoEpsilon(Rule):
    """A law: a root-mean-square norm of rows that are scaled divides their ε."""

    source = "the tests"
    requires = (Requires("the scales are positive", lambda s: s > 0),)

    @staticmethod
    def pattern(x: Float[Tensor, "m n"], s: Float[Tensor, "m 1"], eps: float):
        return s * x * torch.rsqrt(((s * x) ** 2).mean(-1, keepdim=True) + eps)

    @staticmethod
    def replacement(x, s, eps):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps / (s * s))


class WrongScaleIntoEpsilon(ScaleIntoEpsilon):
    """No law: the variance has the scale squared."""

    @staticmethod
    def replacement(x, s, eps):
        return F.layer_norm(x, (x.shape[-1],), None, None, eps / s)


class WrongScaleOfAnySign(ScaleIntoEpsilon):
    """No law: a negative scale turns the sign."""

    requires = (Requires("the scale is not zero", lambda s: s != 0),)


@pytest.mark.parametrize(
    "rule",
    [
        HeadSplit,
        ScaleFold,
        SoftmaxShift,
        SoftmaxMax,
        LogSoftmax,
        VarLaw,
        VarOp,
        LayerNormAffine,
        RMSAffine,
        LayerNormDecomp,
        GroupNormDecomp,
        BNTrain,
        ScaleIntoEpsilon,
        ScaleOfRowsIntoEpsilon,
    ],
    ids=lambda rule: rule.__name__,
)
def test_normalisation_law_is_proved(rule):
    proof = prove_rule(rule)
    assert proof.proved, proof.first_open


@pytest.mark.parametrize("rule", [WrongSoftmaxAxis, WrongVarLaw, WrongScaleIntoEpsilon, WrongScaleOfAnySign], ids=str)
def test_normalisation_near_miss_is_not_proved(rule):
    assert not prove_rule(rule, timeout=5).proved
