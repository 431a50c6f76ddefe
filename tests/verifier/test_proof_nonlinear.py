"""Proofs for all shapes: maxima, positions that are data, piecewise and nonlinear functions; with near misses."""

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from rewrites.rule import Requires, Rule
from verifier.proof.rules import prove_rule


class ReluCat(Rule):
    """A law: relu cat."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "p k"]):
        return F.relu(torch.cat([a, b], 0))

    @staticmethod
    def replacement(a, b):
        return torch.cat([F.relu(a), F.relu(b)], 0)


class ReluTwice(Rule):
    """A law: relu twice."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "..."]):
        return F.relu(F.relu(a))

    @staticmethod
    def replacement(a):
        return F.relu(a)


class WrongReluAdd(Rule):
    """Not a law: relu add."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "..."], b: Float[Tensor, "..."]):
        return F.relu(a + b)

    @staticmethod
    def replacement(a, b):
        return F.relu(a) + F.relu(b)


class ReluScale(Rule):
    """A law: relu scale."""

    source = "the tests"
    requires = [Requires("c is positive", lambda c: c > 0)]

    @staticmethod
    def pattern(a: Float[Tensor, "..."], c: float):
        return F.relu(a * c)

    @staticmethod
    def replacement(a, c):
        return c * F.relu(a)


class WrongReluScale(Rule):
    """Not a law: relu scale."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "..."], c: float):
        return F.relu(a * c)

    @staticmethod
    def replacement(a, c):
        return c * F.relu(a)


class MaxCat(Rule):
    """A law: max cat."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n c h w"], y: Float[Tensor, "n d h w"]):
        return F.max_pool2d(torch.cat([x, y], 1), 3, 2, 1)

    @staticmethod
    def replacement(x, y):
        return torch.cat([F.max_pool2d(x, 3, 2, 1), F.max_pool2d(y, 3, 2, 1)], 1)


class MaxRelu(Rule):
    """A law: max relu."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n c h w"]):
        return F.max_pool2d(F.relu(x), 2, 2)

    @staticmethod
    def replacement(x):
        return F.relu(F.max_pool2d(x, 2, 2))


class MaxReluPad(Rule):
    """A law: max relu pad."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n c h w"]):
        return F.max_pool2d(F.relu(x), 3, 2, 1)

    @staticmethod
    def replacement(x):
        return F.relu(F.max_pool2d(x, 3, 2, 1))


class WrongMaxNeg(Rule):
    """Not a law: max neg."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n c h w"]):
        return F.max_pool2d(-x, 2, 2)

    @staticmethod
    def replacement(x):
        return -F.max_pool2d(x, 2, 2)


class AmaxAmax(Rule):
    """A law: amax amax."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n c h w"]):
        return x.amax(-1).amax(-1)

    @staticmethod
    def replacement(x):
        return x.amax((-2, -1))


class AmaxFlat(Rule):
    """A law: amax flat."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n c h w"]):
        return x.flatten(2).amax(-1)

    @staticmethod
    def replacement(x):
        return x.amax((-2, -1))


class GlobalAvg(Rule):
    """A law: global avg."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n c h w"]):
        return F.adaptive_avg_pool2d(x, 1)

    @staticmethod
    def replacement(x):
        return x.mean((2, 3), keepdim=True)


class GatherOneHot(Rule):
    """A law: gather one hot."""

    source = "the tests"

    @staticmethod
    def pattern(i: Int[Tensor, "t"], w: Float[Tensor, "v d"]):
        return F.embedding(i, w)

    @staticmethod
    def replacement(i, w):
        return F.one_hot(i, w.shape[0]).to(torch.float32) @ w


class EmbMM(Rule):
    """A law: emb mm."""

    source = "the tests"

    @staticmethod
    def pattern(i: Int[Tensor, "t"], w: Float[Tensor, "v d"], m: Float[Tensor, "d e"]):
        return F.embedding(i, w) @ m

    @staticmethod
    def replacement(i, w, m):
        return F.embedding(i, w @ m)


class Clamp(Rule):
    """A law: clamp."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "..."]):
        return torch.clamp(torch.clamp(x, 0.0, 6.0), 1.0, 5.0)

    @staticmethod
    def replacement(x):
        return torch.clamp(x, 1.0, 5.0)


class WrongClamp(Rule):
    """Not a law: clamp."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "..."]):
        return torch.clamp(torch.clamp(x, 0.0, 6.0), 1.0, 7.0)

    @staticmethod
    def replacement(x):
        return torch.clamp(x, 1.0, 7.0)


class WhereRelu(Rule):
    """A law: where relu."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "..."]):
        return torch.where(x > 0, x, 0.0)

    @staticmethod
    def replacement(x):
        return F.relu(x)


class MaxGt(Rule):
    """A law: max gt."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return torch.maximum(a, b) > b

    @staticmethod
    def replacement(a, b):
        return a > b


class HardSwish(Rule):
    """A law: hard swish."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "..."]):
        return x * torch.clamp(x + 3, 0.0, 6.0) / 6

    @staticmethod
    def replacement(x):
        return F.hardswish(x)


class SiluDef(Rule):
    """A law: silu def."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "..."]):
        return x / (1 + torch.exp(-x))

    @staticmethod
    def replacement(x):
        return F.silu(x)


class TanhSig(Rule):
    """A law: tanh sig."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "..."]):
        return 2 * torch.sigmoid(2 * x) - 1

    @staticmethod
    def replacement(x):
        return torch.tanh(x)


class ExpAdd(Rule):
    """A law: exp add."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "..."], y: Float[Tensor, "..."]):
        return torch.exp(x) * torch.exp(y)

    @staticmethod
    def replacement(x, y):
        return torch.exp(x + y)


class SqrtSq(Rule):
    """A law: sqrt sq."""

    source = "the tests"
    requires = [Requires("x nonneg", lambda x: (x >= 0).all())]

    @staticmethod
    def pattern(x: Float[Tensor, "n"]):
        return torch.sqrt(x) * torch.sqrt(x)

    @staticmethod
    def replacement(x):
        return x * 1.0


class WrongSqrtSq(Rule):
    """Not a law: sqrt sq."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n"]):
        return torch.sqrt(x) * torch.sqrt(x)

    @staticmethod
    def replacement(x):
        return x * 1.0


class WrongXdivX(Rule):
    """Not a law: xdiv x."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n"]):
        return x / x * x

    @staticmethod
    def replacement(x):
        return x * 1.0


class AbsSq(Rule):
    """A law: abs sq."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n"]):
        return x.abs() * x.abs()

    @staticmethod
    def replacement(x):
        return x * x


class RemRem(Rule):
    """A law: rem rem."""

    source = "the tests"

    @staticmethod
    def pattern(a: Int[Tensor, "n"], b: Int[Tensor, "n"]):
        return torch.fmod(torch.fmod(a, b), b)

    @staticmethod
    def replacement(a, b):
        return torch.fmod(a, b)


@pytest.mark.parametrize(
    "rule",
    [
        ReluCat,
        ReluTwice,
        ReluScale,
        MaxCat,
        MaxRelu,
        MaxReluPad,
        AmaxAmax,
        AmaxFlat,
        GlobalAvg,
        GatherOneHot,
        EmbMM,
        Clamp,
        WhereRelu,
        MaxGt,
        HardSwish,
        SiluDef,
        TanhSig,
        ExpAdd,
        SqrtSq,
        AbsSq,
        RemRem,
    ],
    ids=lambda rule: rule.__name__,
)
def test_nonlinear_law_is_proved(rule):
    proof = prove_rule(rule)
    assert proof.proved, proof.first_open


@pytest.mark.parametrize(
    "rule", [WrongReluAdd, WrongReluScale, WrongMaxNeg, WrongClamp, WrongSqrtSq, WrongXdivX], ids=lambda rule: rule.__name__
)
def test_nonlinear_near_miss_is_not_proved(rule):
    assert not prove_rule(rule, timeout=5).proved
