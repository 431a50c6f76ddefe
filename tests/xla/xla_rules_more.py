"""The laws of XLA's algebraic simplifier as rules over PyTorch functions: from iota to subtraction (see xla_rules)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from rewrites import Change, Equality, Requires
from tests.xla.xla_rules import SLICE, XlaRule, interior, pad


class IotaOfOneIsZero(XlaRule):
    """iota along an axis of size 1 is 0."""

    identifier = "iota/rule01"
    equality = Equality.BITWISE
    requires = [Requires("n is 1 and m is a size", lambda n, m: n == 1 and m >= 0)]

    def pattern(n: int, m: int) -> Any:
        return torch.arange(n)[:, None].expand(n, m)

    def replacement(n: Any, m: Any) -> Any:
        return torch.zeros((n, m), dtype=torch.int64)


class TrueOrAnything(XlaRule):
    """True ∨ A is True."""

    identifier = "logical/rule02"
    equality = Equality.BITWISE

    def pattern(a: Bool[Tensor, "*alpha"]) -> Any:
        return torch.logical_or(torch.ones_like(a), a)

    def replacement(a: Any) -> Any:
        return torch.ones_like(a)


class AnythingOrFalse(XlaRule):
    """A ∨ False = A."""

    identifier = "logical/rule03"
    equality = Equality.BITWISE

    def pattern(a: Bool[Tensor, "*alpha"]) -> Any:
        return torch.logical_or(a, torch.zeros_like(a))

    def replacement(a: Any) -> Any:
        return a


class FalseOrAnything(XlaRule):
    """False ∨ A = A."""

    identifier = "logical/rule04"
    equality = Equality.BITWISE

    def pattern(a: Bool[Tensor, "*alpha"]) -> Any:
        return torch.logical_or(torch.zeros_like(a), a)

    def replacement(a: Any) -> Any:
        return a


class AnythingAndFalse(XlaRule):
    """A ∧ False is False."""

    identifier = "logical/rule07"
    equality = Equality.BITWISE

    def pattern(a: Bool[Tensor, "*alpha"]) -> Any:
        return torch.logical_and(a, torch.zeros_like(a))

    def replacement(a: Any) -> Any:
        return torch.zeros_like(a)


class MaximumGreaterThanSecond(XlaRule):
    """max(A, B) > B is A > B."""

    identifier = "logical/rule10"
    equality = Equality.BITWISE

    def pattern(a: Float[Tensor, "*alpha"], b: Float[Tensor, "*alpha"]) -> Any:
        return torch.maximum(a, b) > b

    def replacement(a: Any, b: Any) -> Any:
        return a > b


class MaximumGreaterThanFirst(XlaRule):
    """max(A, B) > A is B > A."""

    identifier = "logical/rule11"
    equality = Equality.BITWISE

    def pattern(a: Float[Tensor, "*alpha"], b: Float[Tensor, "*alpha"]) -> Any:
        return torch.maximum(a, b) > a

    def replacement(a: Any, b: Any) -> Any:
        return b > a


class MinimumWithInfinity(XlaRule):
    """min(A, +inf) = A."""

    identifier = "max/rule02"
    equality = Equality.BITWISE

    def pattern(a: Float[Tensor, "*alpha"]) -> Any:
        return torch.clamp(a, max=float("inf"))

    def replacement(a: Any) -> Any:
        return a


class TimesZero(XlaRule):
    """A·0 = 0."""

    identifier = "mul/rule03"
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO, Change.NAN_INF)
    finding = "false for NaN, inf and negative A in floating point: the source states it over Int and Real only"

    def pattern(a: Float[Tensor, "*alpha"]) -> Any:
        return a * 0.0

    def replacement(a: Any) -> Any:
        return torch.zeros_like(a)


class ConstantsOfProductTogether(XlaRule):
    """(A·c1)·(B·c2) = (A·B)·(c1·c2)."""

    identifier = "mul/rule05"
    equality = Equality.REAL.allowing(Change.OVERFLOW, Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(a: Float[Tensor, "*alpha"], b: Float[Tensor, "*alpha"], c1: Float[Tensor, ""], c2: Float[Tensor, ""]) -> Any:
        return (a * c1) * (b * c2)

    def replacement(a: Any, b: Any, c1: Any, c2: Any) -> Any:
        return (a * b) * (c1 * c2)


class FactorCommonFactor(XlaRule):
    """A·C + B·C = (A + B)·C."""

    identifier = "mul/rule08"
    equality = Equality.REAL.allowing(Change.OVERFLOW, Change.NAN_INF, Change.SIGNED_ZERO)

    def pattern(a: Float[Tensor, "*alpha"], b: Float[Tensor, "*alpha"], c: Float[Tensor, "*alpha"]) -> Any:
        return a * c + b * c

    def replacement(a: Any, b: Any, c: Any) -> Any:
        return (a + b) * c


class SquareOfAbsolute(XlaRule):
    """|A|·|A| = A·A."""

    identifier = "mul/rule09"
    equality = Equality.BITWISE

    def pattern(a: Float[Tensor, "*alpha"]) -> Any:
        return torch.abs(a) * torch.abs(a)

    def replacement(a: Any) -> Any:
        return a * a


class ProductOfExponentials(XlaRule):
    """exp(A)·exp(B) = exp(A + B)."""

    identifier = "mul/rule10"
    equality = Equality.REAL.allowing(Change.OVERFLOW, Change.NAN_INF)

    def pattern(a: Float[Tensor, "*alpha"], b: Float[Tensor, "*alpha"]) -> Any:
        return torch.exp(a) * torch.exp(b)

    def replacement(a: Any, b: Any) -> Any:
        return torch.exp(a + b)


class DoubleNegation(XlaRule):
    """¬¬A = A."""

    identifier = "not/rule01"
    equality = Equality.BITWISE

    def pattern(a: Bool[Tensor, "*alpha"]) -> Any:
        return torch.logical_not(torch.logical_not(a))

    def replacement(a: Any) -> Any:
        return a


class PadByNothing(XlaRule):
    """Padding by nothing is the tensor."""

    identifier = "pad/rule01"
    equality = Equality.BITWISE
    requires = [Requires("every amount is 0", lambda low, high, gap: low == 0 and high == 0 and gap == 0)]

    def pattern(a: Float[Tensor, "n"], value: Float[Tensor, ""], low: int, high: int, gap: int) -> Any:
        return pad(interior(a, gap, value), value, low, high)

    def replacement(a: Any, value: Any, low: Any, high: Any, gap: Any) -> Any:
        return a


class NegativePadIsSlice(XlaRule):
    """Padding by negative amounts (cuts) is a slice of the padding by the positive ones."""

    identifier = "pad/rule04"
    equality = Equality.BITWISE
    requires = [
        Requires(
            "amounts have the stated signs",
            lambda l0, h0, l1, cut1, cut2, h2, cut3, end3: (
                l0 >= 0 and h0 >= 0 and l1 >= 0 and cut1 > 0 and cut2 > 0 and h2 >= 0 and cut3 > 0 and end3 > 0
            ),
        ),
        Requires(
            "no more is cut than there is",
            lambda cut1, cut2, cut3, end3, n1, n2, n3: cut1 <= n1 and cut2 <= n2 and cut3 + end3 <= n3,
        ),
    ]

    def pattern(
        a: Float[Tensor, "n0 n1 n2 n3"], value: float, l0: int, h0: int, l1: int, cut1: int, cut2: int, h2: int, cut3: int, end3: int
    ) -> Any:
        return F.pad(a, (-cut3, -end3, -cut2, h2, l1, -cut1, l0, h0), value=value)

    def replacement(a: Any, value: Any, l0: Any, h0: Any, l1: Any, cut1: Any, cut2: Any, h2: Any, cut3: Any, end3: Any) -> Any:
        _, n1, n2, n3 = a.shape
        padded = F.pad(a, (0, 0, 0, h2, l1, 0, l0, h0), value=value)
        return padded[:, : n1 + l1 - cut1, cut2 : n2 + h2, cut3 : n3 - end3]


class ProductOfSums(XlaRule):
    """(Σ X)·(Σ Y) = ΣΣ X·Y."""

    identifier = "reduce/rule01"

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "m"]) -> Any:
        return x.sum() * y.sum()

    def replacement(x: Any, y: Any) -> Any:
        return (x[:, None] * y[None, :]).sum((0, 1))


class ScaleIntoSum(XlaRule):
    """a·Σ x = Σ (a·x)."""

    identifier = "reduce/rule03"

    def pattern(x: Float[Tensor, "p *omega"], a: Float[Tensor, ""]) -> Any:
        return a * x.sum(0)

    def replacement(x: Any, a: Any) -> Any:
        return (a * x).sum(0)


class SumOfTransposed(XlaRule):
    """Summing an axis after exchanging it with another is summing the other."""

    identifier = "reduce/rule04"

    def pattern(x: Float[Tensor, "n m"]) -> Any:
        return x.permute(1, 0).sum(1)

    def replacement(x: Any) -> Any:
        return x.sum(0)


class SumOfSum(XlaRule):
    """Σ_β Σ_α X = Σ_(α,β) X."""

    identifier = "reduce/rule05"

    def pattern(x: Float[Tensor, "a b c"]) -> Any:
        return x.sum(0).sum(0)

    def replacement(x: Any) -> Any:
        return x.sum((0, 1))


class RelabelToItself(XlaRule):
    """Relabelling an axis with its own label is the tensor."""

    identifier = "relabel/rule02"
    equality = Equality.BITWISE
    finding = "both sides are the same tensor once labels are positions: an identity permutation"

    def pattern(a: Float[Tensor, "n m"]) -> Any:
        return a.permute(0, 1)

    def replacement(a: Any) -> Any:
        return a


class ReverseOfReverse(XlaRule):
    """Reversing αβ and then βγ is reversing γα."""

    identifier = "reverse/rule03"
    equality = Equality.BITWISE

    def pattern(a: Float[Tensor, "x y z"]) -> Any:
        return torch.flip(torch.flip(a, (0, 1)), (1, 2))

    def replacement(a: Any) -> Any:
        return torch.flip(a, (2, 0))


class ReverseOfAddedScalar(XlaRule):
    """reverse(A + c) = reverse(A) + c."""

    identifier = "reverse/rule04"
    equality = Equality.BITWISE

    def pattern(a: Float[Tensor, "n"], c: Float[Tensor, ""]) -> Any:
        return torch.flip(a + c, (0,))

    def replacement(a: Any, c: Any) -> Any:
        return torch.flip(a, (0,)) + c


class SelectOfSame(XlaRule):
    """select(P, A, A) = A."""

    identifier = "select/rule01"
    equality = Equality.BITWISE

    def pattern(p: Bool[Tensor, "*alpha"], a: Float[Tensor, "*alpha"]) -> Any:
        return torch.where(p, a, a)

    def replacement(p: Any, a: Any) -> Any:
        return a


class SelectByFalse(XlaRule):
    """select(False, A, B) = B."""

    identifier = "select/rule03"
    equality = Equality.BITWISE

    def pattern(a: Float[Tensor, "*alpha"], b: Float[Tensor, "*alpha"]) -> Any:
        return torch.where(torch.zeros_like(a, dtype=torch.bool), a, b)

    def replacement(a: Any, b: Any) -> Any:
        return b


class SliceOfConstant(XlaRule):
    """slice(const a) = const a of the slice's size."""

    identifier = "slice/rule02"
    equality = Equality.BITWISE
    requires = [SLICE]

    def pattern(value: float, n: int, start: int, stop: int, step: int) -> Any:
        return torch.full((n,), value)[start:stop:step]

    def replacement(value: Any, n: Any, start: Any, stop: Any, step: Any) -> Any:
        return torch.full(((stop - start + step - 1) // step,), value)


class SliceOfBroadcast(XlaRule):
    """Slicing a broadcast slices the operand and the new axis."""

    identifier = "slice/rule03"
    equality = Equality.BITWISE
    requires = [SLICE, Requires("the slice of the new axis is inside", lambda s1, e1, p1, m: 0 <= s1 and s1 <= e1 and e1 <= m and p1 >= 1)]

    def pattern(a: Float[Tensor, "n"], m: int, start: int, stop: int, step: int, s1: int, e1: int, p1: int) -> Any:
        return a[:, None].expand(a.shape[0], m)[start:stop:step, s1:e1:p1]

    def replacement(a: Any, m: Any, start: Any, stop: Any, step: Any, s1: Any, e1: Any, p1: Any) -> Any:
        part = a[start:stop:step]
        return part[:, None].expand(part.shape[0], (e1 - s1 + p1 - 1) // p1)


class SliceOfPadRestores(XlaRule):
    """Slicing out what was padded, stepping over the interior, is the tensor."""

    identifier = "slice/rule04"
    equality = Equality.BITWISE
    requires = [
        Requires("amounts are at least 0 and there is an element", lambda n, low, high, gap: n >= 1 and low >= 0 and high >= 0 and gap >= 0)
    ]

    def pattern(a: Float[Tensor, "n"], value: Float[Tensor, ""], low: int, high: int, gap: int) -> Any:
        n = a.shape[0]
        return pad(interior(a, gap, value), value, low, high)[low : n + low + (n - 1) * gap : gap + 1]

    def replacement(a: Any, value: Any, low: Any, high: Any, gap: Any) -> Any:
        return a


class SliceOfConcatIsSecond(XlaRule):
    """Slicing the second part out of a concatenation is a slice of the second."""

    identifier = "slice/rule08"
    equality = Equality.BITWISE
    requires = [Requires("the slice of the other axis is inside", lambda s1, e1, p1, m: 0 <= s1 and s1 <= e1 and e1 <= m and p1 >= 1)]

    def pattern(a: Float[Tensor, "p m"], b: Float[Tensor, "q m"], s1: int, e1: int, p1: int) -> Any:
        first, second = a.shape[0], b.shape[0]
        return torch.cat([a, b], 0)[first : first + second, s1:e1:p1]

    def replacement(a: Any, b: Any, s1: Any, e1: Any, p1: Any) -> Any:
        return b[:, s1:e1:p1]


class SliceOfNewAxis(XlaRule):
    """Slicing the new axis of a broadcast is a smaller broadcast."""

    identifier = "slice/rule09"
    equality = Equality.BITWISE
    requires = [Requires("the slice is inside", lambda start, stop, step, m: 0 <= start and start <= stop and stop <= m and step >= 1)]

    def pattern(a: Float[Tensor, "n"], m: int, start: int, stop: int, step: int) -> Any:
        return a[:, None].expand(a.shape[0], m)[:, start:stop:step]

    def replacement(a: Any, m: Any, start: Any, stop: Any, step: Any) -> Any:
        return a[:, None].expand(a.shape[0], (stop - start + step - 1) // step)


class SliceInsideSecondOfConcat(XlaRule):
    """A slice that begins behind the first part of a concatenation is a slice of the second."""

    identifier = "slice/rule11"
    equality = Equality.BITWISE
    requires = [
        Requires(
            "the slice begins in the second part and is inside", lambda s0, e0, p0, p, q: p <= s0 and s0 <= e0 and e0 <= p + q and p0 >= 1
        ),
        Requires("the slice of the other axis is inside", lambda s1, e1, p1, m: 0 <= s1 and s1 <= e1 and e1 <= m and p1 >= 1),
    ]

    def pattern(a: Float[Tensor, "p m"], b: Float[Tensor, "q m"], s0: int, e0: int, p0: int, s1: int, e1: int, p1: int) -> Any:
        return torch.cat([a, b], 0)[s0:e0:p0, s1:e1:p1]

    def replacement(a: Any, b: Any, s0: Any, e0: Any, p0: Any, s1: Any, e1: Any, p1: Any) -> Any:
        first = a.shape[0]
        return b[s0 - first : e0 - first : p0, s1:e1:p1]


class SliceOfReverse(XlaRule):
    """Slicing a reversed axis is reversing the mirrored slice."""

    identifier = "slice/rule13"
    equality = Equality.BITWISE
    requires = [
        Requires("the slice is inside and not empty", lambda start, stop, step, n: 0 <= start and start < stop and stop <= n and step >= 1),
        Requires("the slice of the other axis is inside", lambda s1, e1, p1, m: 0 <= s1 and s1 <= e1 and e1 <= m and p1 >= 1),
    ]

    def pattern(a: Float[Tensor, "n m"], start: int, stop: int, step: int, s1: int, e1: int, p1: int) -> Any:
        return torch.flip(a, (0,))[start:stop:step, s1:e1:p1]

    def replacement(a: Any, start: Any, stop: Any, step: Any, s1: Any, e1: Any, p1: Any) -> Any:
        n = a.shape[0]
        last = start + (stop - start - 1) // step * step
        return torch.flip(a[n - 1 - last : n - start : step, s1:e1:p1], (0,))


class MinusZero(XlaRule):
    """A − 0 = A."""

    identifier = "sub/rule00"
    equality = Equality.BITWISE

    def pattern(a: Float[Tensor, "*alpha"]) -> Any:
        return a - 0.0

    def replacement(a: Any) -> Any:
        return a


class MinusItself(XlaRule):
    """A − A = 0."""

    identifier = "sub/rule02"
    equality = Equality.REAL.allowing(Change.NAN_INF)
    finding = "false for NaN and inf: the source states it over Int and Real only"

    def pattern(a: Float[Tensor, "*alpha"]) -> Any:
        return a - a

    def replacement(a: Any) -> Any:
        return torch.zeros_like(a)
