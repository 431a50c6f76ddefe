"""NaN and infinity that an operator means, and those of a kernel's own making, which no declaration licenses."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule
from rewrites.reverse import reverse
from verifier.meant import is_meant
from verifier.running import record
from verifier.verdict import Status
from verifier.verify import verify


class CausalFlagForAnyScale(Rule):
    """Attention under a lower triangular mask is causal attention."""

    source = "wrong in PyTorch's kernels for CPUs, which put −∞ in before they scale, where the scale is not positive"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)

    def pattern(q: Float[Tensor, "b h l d"], k: Float[Tensor, "b h s d"], v: Float[Tensor, "b h s e"], scale: float):
        mask = torch.ones((q.shape[-2], k.shape[-2]), dtype=torch.bool).tril()
        return F.scaled_dot_product_attention(q, k, v, mask, scale=scale)

    def replacement(q, k, v, scale):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)


class CausalFlagForPositiveScale(CausalFlagForAnyScale):
    """Attention under a lower triangular mask is causal attention, where the scale is positive."""

    requires = [Requires("the scale is positive", lambda scale: scale > 0)]


class SumOfLogarithms(Rule):
    """log x + log y = log(x · y)."""

    source = "for positive numbers; where one is negative, its logarithm means no number"
    equality = CausalFlagForAnyScale.equality

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return torch.log(x) + torch.log(y)

    def replacement(x, y):
        return torch.log(x * y)


def test_a_kernels_own_nan_is_a_wrong_value_whatever_is_declared() -> None:
    verdict = verify(CausalFlagForAnyScale)
    assert verdict.status is Status.REFUTED
    assert "one side is NaN or infinite where its operator means a finite number" in verdict.reason
    assert verify(CausalFlagForPositiveScale).holds


def test_what_a_function_does_not_define_may_be_declared() -> None:
    assert verify(SumOfLogarithms).holds
    assert verify(reverse(SumOfLogarithms)).status is Status.REFUTED


def test_which_calls_are_meant() -> None:
    zeros, huge = torch.zeros(1, 1, 2, 2), torch.full((3,), 1e30)
    (call,) = record(lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True, scale=-1.0), [zeros], 0)[1]
    assert not bool(call.result.isfinite().all())
    assert not is_meant(call)
    for function, operand in ((torch.log, -zeros - 1), (torch.square, huge), (torch.lgamma, zeros), (torch.exp, huge)):
        (call,) = record(function, [operand], 0)[1]
        assert not bool(call.result.isfinite().any())
        assert is_meant(call)
