"""The laws of XLA's algebraic simplifier as rules over PyTorch functions.

An axis class α of the source is `*alpha` where only pointwise operators touch it, one axis where it is sliced, padded or reversed.
XLA's static slice takes 0 ≤ start ≤ stop ≤ size and step ≥ 1 (conditions here, because PyTorch clamps), its dynamic slice clamps the start
(`dynamic_slice` below), its pad has an interior, its remainder is truncating (`torch.fmod`).
`identifier` is the entry's name in the collection; `finding` says what is wrong with the entries that are not simply right.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule


class XlaRule(Rule):
    """A law of XLA's algebraic simplifier."""

    identifier: ClassVar[str] = ""
    finding: ClassVar[str] = ""
    source = "XLA, algebraic simplifier"

    def pattern(x: Float[Tensor, "n"]) -> Any:  # type: ignore[misc]
        return x

    def replacement(x: Any) -> Any:  # type: ignore[misc]
        return x


def interior(x: Any, gap: Any, value: Any) -> Any:
    """`gap` elements of `value` between each two elements of the last axis."""
    n = x.shape[-1]
    wide = torch.cat([x[..., None], value.expand(*x.shape, gap)], -1)
    return wide.flatten(-2)[..., : n + (n - 1) * gap]


def pad(x: Any, value: Any, low: Any, high: Any) -> Any:
    """`low` and `high` elements of `value` around the last axis."""
    return torch.cat([value.expand(*x.shape[:-1], low), x, value.expand(*x.shape[:-1], high)], -1)


def dynamic_slice(x: Any, start: Any, length: Any) -> Any:
    """`length` elements of the first axis from `start`, which is clamped so that they are inside (XLA, DynamicSlice)."""
    first = torch.clamp(start, 0, x.shape[0] - length)
    return torch.index_select(x, 0, first + torch.arange(length))


def dynamic_update_slice(x: Any, update: Any, start: Any) -> Any:
    """`x` with `update` written at `start`, which is clamped so that it is inside (XLA, DynamicUpdateSlice)."""
    n, m = x.shape[0], update.shape[0]
    first = torch.clamp(start, 0, n - m)
    place = torch.arange(n) - first
    inside = (place >= 0) & (place < m)
    return torch.where(inside, torch.index_select(update, 0, torch.clamp(place, 0, m - 1)), x)


SLICE = Requires(
    "the slice is inside: 0 <= start <= stop <= n, step >= 1",
    lambda start, stop, step, n: 0 <= start and start <= stop and stop <= n and step >= 1,
)


class AddConstantsTogether(XlaRule):
    """(A + c1) + c2 = A + (c1 + c2)."""

    identifier = "add/rule01"

    def pattern(a: Float[Tensor, "*alpha"], c1: Float[Tensor, ""], c2: Float[Tensor, ""]) -> Any:
        return (a + c1) + c2

    def replacement(a: Any, c1: Any, c2: Any) -> Any:
        return a + (c1 + c2)


class ConstantSecondInAddition(XlaRule):
    """c + A = A + c."""

    identifier = "add/rule04"
    equality = Equality.BITWISE

    def pattern(a: Float[Tensor, "*alpha"], c: Float[Tensor, ""]) -> Any:
        return c + a

    def replacement(a: Any, c: Any) -> Any:
        return a + c


class BroadcastOfProduct(XlaRule):
    """bcast(A) · bcast(B) = bcast(A · B)."""

    identifier = "broadcast/rule02"
    equality = Equality.BITWISE
    requires = [Requires("m is a size", lambda m: m >= 0)]

    def pattern(a: Float[Tensor, "*alpha"], b: Float[Tensor, "*alpha"], m: int) -> Any:
        return a[..., None].expand(*a.shape, m) * b[..., None].expand(*b.shape, m)

    def replacement(a: Any, b: Any, m: Any) -> Any:
        return (a * b)[..., None].expand(*a.shape, m)


class ReverseOfBroadcastScalar(XlaRule):
    """reverse(bcast(a)) = bcast(a) for a scalar a."""

    identifier = "broadcast/rule04"
    equality = Equality.BITWISE
    requires = [Requires("n is a size", lambda n: n >= 0)]

    def pattern(a: Float[Tensor, ""], n: int) -> Any:
        return torch.flip(a.expand(n), (0,))

    def replacement(a: Any, n: Any) -> Any:
        return a.expand(n)


class SliceOfBroadcastScalar(XlaRule):
    """slice(bcast(a)) = bcast(a) of the slice's size, for a scalar a."""

    identifier = "broadcast/rule05"
    equality = Equality.BITWISE
    requires = [SLICE]

    def pattern(a: Float[Tensor, ""], n: int, start: int, stop: int, step: int) -> Any:
        return a.expand(n)[start:stop:step]

    def replacement(a: Any, n: Any, start: Any, stop: Any, step: Any) -> Any:
        return a.expand((stop - start + step - 1) // step)


class BroadcastOfBroadcast(XlaRule):
    """bcast_k(bcast_m(A)) = bcast_(m,k)(A)."""

    identifier = "broadcast/rule08"
    equality = Equality.BITWISE
    requires = [Requires("m and k are sizes", lambda m, k: m >= 0 and k >= 0)]

    def pattern(a: Float[Tensor, "*alpha"], m: int, k: int) -> Any:
        return a[..., None].expand(*a.shape, m)[..., None].expand(*a.shape, m, k)

    def replacement(a: Any, m: Any, k: Any) -> Any:
        return a[..., None, None].expand(*a.shape, m, k)


class ClampTwice(XlaRule):
    """clamp(c1, clamp(c1, A, c2), c2) = clamp(c1, A, c2)."""

    identifier = "clamp/rule01"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)

    def pattern(a: Float[Tensor, "*alpha"], c1: Float[Tensor, "*alpha"], c2: Float[Tensor, "*alpha"]) -> Any:
        return torch.clamp(torch.clamp(a, c1, c2), c1, c2)

    def replacement(a: Any, c1: Any, c2: Any) -> Any:
        return torch.clamp(a, c1, c2)


class MaximumOfMinimumIsClamp(XlaRule):
    """max(c1, min(A, c2)) = clamp(c1, A, c2) where c1 < c2."""

    identifier = "clamp/rule02"
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO)
    requires = [Requires("c1 < c2 everywhere", lambda c1, c2: c1 < c2)]

    def pattern(a: Float[Tensor, "*alpha"], c1: Float[Tensor, "*alpha"], c2: Float[Tensor, "*alpha"]) -> Any:
        return torch.maximum(c1, torch.minimum(a, c2))

    def replacement(a: Any, c1: Any, c2: Any) -> Any:
        return torch.clamp(a, c1, c2)


class AtLeastItself(XlaRule):
    """A ≥ A is true."""

    identifier = "compare/rule04"
    equality = Equality.BITWISE
    finding = "false for NaN: it holds over integers, and not over floating-point numbers"

    def pattern(a: Int[Tensor, "*alpha"]) -> Any:
        return a >= a

    def replacement(a: Any) -> Any:
        return torch.ones_like(a, dtype=torch.bool)


class AtMostItself(XlaRule):
    """A ≤ A is true."""

    identifier = "compare/rule05"
    equality = Equality.BITWISE
    finding = "false for NaN: it holds over integers, and not over floating-point numbers"

    def pattern(a: Int[Tensor, "*alpha"]) -> Any:
        return a <= a

    def replacement(a: Any) -> Any:
        return torch.ones_like(a, dtype=torch.bool)


class EqualToItself(XlaRule):
    """A = A is true."""

    identifier = "compare/rule06"
    equality = Equality.BITWISE
    finding = "false for NaN: it holds over integers, and not over floating-point numbers"

    def pattern(a: Int[Tensor, "*alpha"]) -> Any:
        return a == a

    def replacement(a: Any) -> Any:
        return torch.ones_like(a, dtype=torch.bool)


class ConcatAssociates(XlaRule):
    """concat(A, concat(B, C)) = concat(concat(A, B), C)."""

    identifier = "concat/rule02"
    equality = Equality.BITWISE

    def pattern(a: Float[Tensor, "*alpha p"], b: Float[Tensor, "*alpha q"], c: Float[Tensor, "*alpha r"]) -> Any:
        return torch.cat([a, torch.cat([b, c], -1)], -1)

    def replacement(a: Any, b: Any, c: Any) -> Any:
        return torch.cat([torch.cat([a, b], -1), c], -1)


class ConcatOfAdjacentSlices(XlaRule):
    """concat(A[s0:e0:p0, s1:e1], A[s0:e0:p0, e1:e2]) = A[s0:e0:p0, s1:e2]."""

    identifier = "concat/rule04"
    equality = Equality.BITWISE
    requires = [
        Requires("the slice of rows is inside", lambda s0, e0, p0, n: 0 <= s0 and s0 <= e0 and e0 <= n and p0 >= 1),
        Requires("the slices of columns are adjacent and inside", lambda s1, e1, e2, m: 0 <= s1 and s1 <= e1 and e1 <= e2 and e2 <= m),
    ]

    def pattern(a: Float[Tensor, "n m"], s0: int, e0: int, p0: int, s1: int, e1: int, e2: int) -> Any:
        return torch.cat([a[s0:e0:p0, s1:e1], a[s0:e0:p0, e1:e2]], 1)

    def replacement(a: Any, s0: Any, e0: Any, p0: Any, s1: Any, e1: Any, e2: Any) -> Any:
        return a[s0:e0:p0, s1:e2]


class ConcatOfConstantIsPad(XlaRule):
    """concat(A, const a) = pad(A, a) at the high end."""

    identifier = "concat/rule06"
    equality = Equality.BITWISE
    requires = [Requires("h is a size", lambda h: h >= 0)]

    def pattern(a: Float[Tensor, "n m"], value: float, h: int) -> Any:
        return torch.cat([a, torch.full((h, a.shape[1]), value, dtype=a.dtype)], 0)

    def replacement(a: Any, value: Any, h: Any) -> Any:
        return F.pad(a, (0, 0, 0, h), value=value)


class NestedConcatIsOneConcat(XlaRule):
    """concat(A, concat(B, C)) = concat(A, B, C)."""

    identifier = "concat/rule07"
    equality = Equality.BITWISE

    def pattern(a: Float[Tensor, "*alpha p"], b: Float[Tensor, "*alpha q"], c: Float[Tensor, "*alpha r"]) -> Any:
        return torch.cat([a, torch.cat([b, c], -1)], -1)

    def replacement(a: Any, b: Any, c: Any) -> Any:
        return torch.cat([a, b, c], -1)


class PadIntoConvolution(XlaRule):
    """A convolution of stride 1 takes over padding by zeros, its interior as the input's dilation."""

    identifier = "conv/rule00"
    requires = [
        Requires(
            "every amount is at least 0",
            lambda low, high, below, above, gap: low >= 0 and high >= 0 and below >= 0 and above >= 0 and gap >= 0,
        )
    ]

    def pattern(
        x: Float[Tensor, "b f n"],
        weight: Float[Tensor, "o f k"],
        zero: Float[Tensor, ""],
        low: int,
        high: int,
        below: int,
        above: int,
        gap: int,
        dilation: int,
    ) -> Any:
        padded = F.pad(F.pad(interior(x, gap, zero * 0), (below, above)), (low, high))
        return F.conv1d(padded, weight, dilation=dilation)

    def replacement(x: Any, weight: Any, zero: Any, low: Any, high: Any, below: Any, above: Any, gap: Any, dilation: Any) -> Any:
        return F.conv1d(F.pad(interior(x, gap, zero * 0), (low + below, high + above)), weight, dilation=dilation)


class PointwiseConvolutionIsBatchedDot(XlaRule):
    """A convolution whose kernel covers τ and has size 1 along σ is a matrix product per position of σ."""

    identifier = "conv/rule03"
    requires = [Requires("there are input channels (PyTorch's convolution of none has no output channels either)", lambda f: f >= 1)]

    def pattern(x: Float[Tensor, "b f t n"], weight: Float[Tensor, "o f t 1"]) -> Any:
        return F.conv2d(x, weight)

    def replacement(x: Any, weight: Any) -> Any:
        b, f, t, n = x.shape
        columns = x.permute(3, 0, 1, 2).reshape(n, b, f * t)
        return torch.matmul(columns, weight.reshape(weight.shape[0], f * t).t()).permute(1, 2, 0)[:, :, None]


class QuotientOfQuotients(XlaRule):
    """(A/B)/(C/D) = (A·D)/(B·C) where B, C and D are not zero."""

    identifier = "divmod/rule03"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)
    finding = "needs D ≠ 0 as well as B, C ≠ 0 (at D = 0 the left side is 0 or NaN and the right side 0/0 or 0)"
    requires = [Requires("B, C and D are not zero", lambda b, c, d: (b != 0) & (c != 0) & (d != 0))]

    def pattern(a: Float[Tensor, "*alpha"], b: Float[Tensor, "*alpha"], c: Float[Tensor, "*alpha"], d: Float[Tensor, "*alpha"]) -> Any:
        return (a / b) / (c / d)

    def replacement(a: Any, b: Any, c: Any, d: Any) -> Any:
        return (a * d) / (b * c)


class RemainderTwice(XlaRule):
    """rem(rem(A, B), B) = rem(A, B)."""

    identifier = "divmod/rule05"
    equality = Equality.BITWISE
    requires = [Requires("B is not zero", lambda b: b != 0)]

    def pattern(a: Int[Tensor, "*alpha"], b: Int[Tensor, "*alpha"]) -> Any:
        return torch.fmod(torch.fmod(a, b), b)

    def replacement(a: Any, b: Any) -> Any:
        return torch.fmod(a, b)


class RemainderOfSmallIota(XlaRule):
    """rem(iota of n, c) = iota of n where n ≤ c."""

    identifier = "divmod/rule06"
    equality = Equality.BITWISE
    requires = [Requires("n and m are sizes and n is at most c", lambda n, m, c: n >= 0 and m >= 0 and c >= 1 and n <= c)]

    def pattern(n: int, m: int, c: int) -> Any:
        return torch.fmod(torch.arange(n)[:, None].expand(n, m), c)

    def replacement(n: Any, m: Any, c: Any) -> Any:
        return torch.arange(n)[:, None].expand(n, m)


class RemainderOfShifted(XlaRule):
    """rem(x + n, n) = rem(x, n) where x + n and x have the same sign."""

    identifier = "divmod/rule08"
    equality = Equality.BITWISE
    requires = [
        Requires("n is not zero", lambda n: n != 0),
        Requires("x and x + n have the same sign", lambda x, n: ((x >= 0) & (x + n >= 0)) | ((x < 0) & (x + n < 0))),
    ]

    def pattern(x: Int[Tensor, ""], n: Int[Tensor, ""]) -> Any:
        return torch.fmod(x + n, n)

    def replacement(x: Any, n: Any) -> Any:
        return torch.fmod(x, n)


class DotOfConcatIsSumOfDots(XlaRule):
    """The product of concatenations along the contracted dim is the sum of the products."""

    identifier = "dot/rule01"

    def pattern(x: Float[Tensor, "a m"], y: Float[Tensor, "b m"], c: Float[Tensor, "a n"], d: Float[Tensor, "b n"]) -> Any:
        return torch.cat([x, y], 0).t() @ torch.cat([c, d], 0)

    def replacement(x: Any, y: Any, c: Any, d: Any) -> Any:
        return torch.cat([(x.t() @ c)[None], (y.t() @ d)[None]], 0).sum(0)


class DotCommutes(XlaRule):
    """dot(a, b) = dot(b, a), the free axes exchanged."""

    identifier = "dot/rule02"

    def pattern(a: Float[Tensor, "beta k m"], b: Float[Tensor, "beta k n"]) -> Any:
        return torch.einsum("bkm,bkn->bmn", a, b)

    def replacement(a: Any, b: Any) -> Any:
        return torch.einsum("bkn,bkm->bmn", b, a)


class DotWithoutContractionIsProduct(XlaRule):
    """A product of matrices that contracts nothing is a product of broadcasts."""

    identifier = "dot/rule04"

    def pattern(x: Float[Tensor, "beta m"], y: Float[Tensor, "beta n"]) -> Any:
        return torch.einsum("bm,bn->bmn", x, y)

    def replacement(x: Any, y: Any) -> Any:
        return x[:, :, None] * y[:, None, :]


class DynamicSliceOfWhole(XlaRule):
    """A dynamic slice of the whole is the tensor: its start clamps to 0."""

    identifier = "dyslice/rule02"
    equality = Equality.BITWISE
    finding = "the condition s = 0 is not needed: the start is clamped to [0, n − n]"

    def pattern(a: Float[Tensor, "n"], s: Int[Tensor, ""]) -> Any:
        return dynamic_slice(a, s, a.shape[0])

    def replacement(a: Any, s: Any) -> Any:
        return a


class DynamicSliceCommutesWithTranspose(XlaRule):
    """Relabelling the axes that a dynamic slice leaves alone may happen before it."""

    identifier = "dyslice/rule04"
    equality = Equality.BITWISE
    requires = [Requires("the slice fits", lambda length, n: 0 <= length and length <= n)]

    def pattern(a: Float[Tensor, "n p q"], s: Int[Tensor, ""], length: int) -> Any:
        return dynamic_slice(a, s, length).permute(0, 2, 1)

    def replacement(a: Any, s: Any, length: Any) -> Any:
        return dynamic_slice(a.permute(0, 2, 1), s, length)


class DynamicSliceOfDynamicSlice(XlaRule):
    """dyslice(dyslice(A; s1, l1); s2, l2) = dyslice(A; s1 + s2, l2)."""

    identifier = "dyslice/rule05"
    equality = Equality.BITWISE
    finding = "wrong: starts are clamped, s2 against l1 − l2 on the left but s1 + s2 against n − l2 on the right"
    requires = [Requires("the slices fit", lambda l1, l2, n: 0 <= l2 and l2 <= l1 and l1 <= n)]

    def pattern(a: Float[Tensor, "n"], s1: Int[Tensor, ""], s2: Int[Tensor, ""], l1: int, l2: int) -> Any:
        return dynamic_slice(dynamic_slice(a, s1, l1), s2, l2)

    def replacement(a: Any, s1: Any, s2: Any, l1: Any, l2: Any) -> Any:
        return dynamic_slice(a, s1 + s2, l2)


class DynamicSliceOfDynamicSliceInside(XlaRule):
    """dyslice(dyslice(A; s1, l1); s2, l2) = dyslice(A; s1 + s2, l2) where no start is clamped."""

    identifier = "dyslice/rule05 (mended)"
    equality = Equality.BITWISE
    requires = [
        Requires("the slices fit", lambda l1, l2, n: 0 <= l2 and l2 <= l1 and l1 <= n),
        Requires("the starts are inside", lambda s1, s2, l1, l2, n: 0 <= s1 and s1 <= n - l1 and 0 <= s2 and s2 <= l1 - l2),
    ]

    def pattern(a: Float[Tensor, "n"], s1: int, s2: int, l1: int, l2: int) -> Any:
        return torch.narrow(torch.narrow(a, 0, s1, l1), 0, s2, l2)

    def replacement(a: Any, s1: Any, s2: Any, l1: Any, l2: Any) -> Any:
        return torch.narrow(a, 0, s1 + s2, l2)


class AddOfUpdatedZeros(XlaRule):
    """A + update(0, B; s) = update(A, B + slice(A; s); s)."""

    identifier = "dyupslice/rule01"
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO)
    requires = [Requires("the update fits", lambda n, m: 1 <= m and m <= n)]

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "m"], s: Int[Tensor, ""]) -> Any:
        return a + dynamic_update_slice(torch.zeros_like(a), b, s)

    def replacement(a: Any, b: Any, s: Any) -> Any:
        return dynamic_update_slice(a, b + dynamic_slice(a, s, b.shape[0]), s)


class UpdateOfWhole(XlaRule):
    """update(A, B; s) = B where B is as large as A."""

    identifier = "dyupslice/rule03"
    equality = Equality.BITWISE
    finding = "as stated (n = 0) both sides are empty: true but almost vacuous; no condition is needed, the start clamps to 0"

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"], s: Int[Tensor, ""]) -> Any:
        return dynamic_update_slice(a, b, s)

    def replacement(a: Any, b: Any, s: Any) -> Any:
        return b
