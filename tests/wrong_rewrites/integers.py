"""Whole numbers: divisions, remainders, bounds and casts that hold for some numbers only."""

import torch
from jaxtyping import Bool, Float32, Int, Int8, Int32, Int64
from torch import Tensor

from rewrites import Requires, Rule
from tests.wrong_rewrites.registry import mended, shipped


def _wrapped(x, low: int, high: int):
    """x wrapped into [low, high]."""
    return torch.remainder(x - low, high - low + 1) + low


@shipped("llvm-88732", "value")
class ExtendedProductByOneBit(Rule):
    """The two halves of a one-bit signed product with 1 are the other factor and its sign."""

    source = "llvm/llvm-project issue 88732: the 1 of a one-bit signed type is -1"
    requires = [Requires("x is a signed bit", lambda x: (x == 0) | (x == -1))]

    def pattern(x: Int64[Tensor, "n"]):
        product = x * -1
        return -torch.bitwise_and(product, 1), -torch.bitwise_and(torch.div(product, 2, rounding_mode="floor"), 1)

    def replacement(x):
        return x, torch.where(x < 0, -1, 0)


@mended("llvm-88732")
class ExtendedProductByMinusOne(Rule):
    """The two halves of a one-bit signed product with 1 are the other factor and 0."""

    source = "llvm/llvm-project issue 88732, with 1 read as -1"
    requires = [Requires("x is a signed bit", lambda x: (x == 0) | (x == -1))]

    def pattern(x: Int64[Tensor, "n"]):
        product = x * -1
        return -torch.bitwise_and(product, 1), -torch.bitwise_and(torch.div(product, 2, rounding_mode="floor"), 1)

    def replacement(x):
        return x, x * 0


@shipped("llvm-140328", "value")
class MergeAddsKeepingNoWrap(Rule):
    """Two two-bit additions that do not wrap are one that does not wrap (99 stands for poison)."""

    source = "llvm/llvm-project issue 140328"
    requires = [Requires("x has two bits", lambda x: (x >= -2) & (x <= 1))]

    def pattern(x: Int64[Tensor, "n"]):
        first = x - 2
        second = first - 1
        return torch.where((first >= -2) & (second >= -2), second, 99)

    def replacement(x):
        return torch.where(x + 1 <= 1, x + 1, 99)


@mended("llvm-140328")
class MergeAddsDroppingNoWrap(Rule):
    """Two two-bit additions that do not wrap, at an x where they are defined, are one that may wrap."""

    source = "llvm/llvm-project issue 140328, without the flag"
    requires = [Requires("x has two bits and neither addition wraps", lambda x: (x >= 1) & (x <= 1))]

    def pattern(x: Int64[Tensor, "n"]):
        first = x - 2
        second = first - 1
        return torch.where((first >= -2) & (second >= -2), second, 99)

    def replacement(x):
        return _wrapped(x + 1, -2, 1)


@shipped("onnxruntime-4039", "value")
class RemoveCastThroughWholeNumbers(Rule):
    """A cast to whole numbers and back changes nothing."""

    source = "microsoft/onnxruntime issue 4039"

    def pattern(x: Float32[Tensor, "n"]):
        return x.to(torch.int32).to(torch.float32)

    def replacement(x):
        return x


@mended("onnxruntime-4039")
class RemoveCastThroughWiderWholeNumbers(Rule):
    """A cast to wider whole numbers and back changes nothing."""

    source = "microsoft/onnxruntime issue 4039, with a type between that holds every value"

    def pattern(x: Int8[Tensor, "n"]):
        return x.to(torch.int32).to(torch.int8)

    def replacement(x):
        return x


@shipped("onnxslim-281", "value")
class ElideCastsAroundDivision(Rule):
    """A quotient of whole numbers by way of floats, doubled and cut, is twice their truncated quotient."""

    source = "inisis/OnnxSlim issue 281"
    requires = [Requires("the divisor is not zero", lambda b: b != 0)]

    def pattern(a: Int32[Tensor, "n"], b: Int32[Tensor, "n"]):
        return (a.to(torch.float64) / b.to(torch.float64) * 2.0).to(torch.int64)

    def replacement(a, b):
        return torch.div(a.to(torch.int64), b.to(torch.int64), rounding_mode="trunc") * 2


@mended("onnxslim-281")
class ElideCastsAroundSum(Rule):
    """A sum of whole numbers of 32 bits by way of double-precision floats is their sum."""

    source = "inisis/OnnxSlim issue 281, for sums that floats hold exactly"

    def pattern(a: Int32[Tensor, "n"], b: Int32[Tensor, "n"]):
        return (a.to(torch.float64) + b.to(torch.float64)).to(torch.int64)

    def replacement(a, b):
        return a.to(torch.int64) + b.to(torch.int64)


@shipped("tvm-13056", "value")
class CollapseCastsThroughBool(Rule):
    """A cast to bool and then to whole numbers is the cast to whole numbers."""

    source = "apache/tvm issue 13056"

    def pattern(x: Int64[Tensor, "n"]):
        return x.to(torch.bool).to(torch.int32)

    def replacement(x):
        return x.to(torch.int32)


@mended("tvm-13056")
class CollapseCastsOfBool(Rule):
    """A cast of a truth to a narrow and then a wide whole number is the cast to the wide one."""

    source = "apache/tvm issue 13056, with a type between that holds every value"

    def pattern(x: Bool[Tensor, "n"]):
        return x.to(torch.int8).to(torch.int32)

    def replacement(x):
        return x.to(torch.int32)


@shipped("tinygrad-9674", "value")
class FoldConstantInTruncatedRemainder(Rule):
    """In a truncated remainder a multiple of the divisor may be added to the dividend."""

    source = "tinygrad/tinygrad issue 9674"
    requires = [Requires("a lies in [0, 10]", lambda a: (a >= 0) & (a <= 10))]

    def pattern(a: Int64[Tensor, "n"]):
        return torch.fmod(a - 29, 28)

    def replacement(a):
        return torch.fmod(a + 27, 28)


@mended("tinygrad-9674")
class FoldConstantInRemainderOfPositive(Rule):
    """In a truncated remainder of a dividend that is not negative a multiple of the divisor may be added."""

    source = "tinygrad/tinygrad issue 9674, with a numerator of at least 0"
    requires = [Requires("the numerator is not negative", lambda a: (a >= 29) & (a <= 1000000))]

    def pattern(a: Int64[Tensor, "n"]):
        return torch.fmod(a - 29, 28)

    def replacement(a):
        return torch.fmod(a + 27, 28)


@shipped("tinygrad-16054", "value")
class MergeFlooredQuotients(Rule):
    """A floored quotient of a floored quotient is the floored quotient by the product."""

    source = "tinygrad/tinygrad issue 16054"
    requires = [Requires("no divisor is zero", lambda c, d: (c != 0) & (d != 0))]

    def pattern(x: Int32[Tensor, "n"], c: int, d: int):
        return (x // c) // d

    def replacement(x, c, d):
        return x // (c * d)


@mended("tinygrad-16054")
class MergeFlooredQuotientsOfPositive(Rule):
    """A floored quotient of a floored quotient by positive numbers is the floored quotient by the product."""

    source = "tinygrad/tinygrad issue 16054, with positive divisors"
    requires = [Requires("the divisors are positive", lambda c, d: (c > 0) & (d > 0) & (c < 1000) & (d < 1000))]

    def pattern(x: Int32[Tensor, "n"], c: int, d: int):
        return (x // c) // d

    def replacement(x, c, d):
        return x // (c * d)


@shipped("tinygrad-16199", "value")
class DivideByMagicNumberOfASmallRange(Rule):
    """A quotient by 3 of a number in [0, 1] is the number times 1, shifted by nothing."""

    source = "tinygrad/tinygrad issue 16199"
    requires = [Requires("x is 0 or 1", lambda x: (x >= 0) & (x <= 1))]

    def pattern(x: Int64[Tensor, "n"]):
        return x // 3

    def replacement(x):
        return x * 1


@mended("tinygrad-16199")
class DivideSmallNumbers(Rule):
    """A quotient by 3 of a number in [0, 1] is 0."""

    source = "tinygrad/tinygrad issue 16199, as the range lies below the divisor"
    requires = [Requires("x is 0 or 1", lambda x: (x >= 0) & (x <= 1))]

    def pattern(x: Int64[Tensor, "n"]):
        return x // 3

    def replacement(x):
        return x * 0


@shipped("tinygrad-17290", "value")
class BoundByFloatDivision(Rule):
    """2x < c where x lies below the ceiling of c / 2, computed in floats."""

    source = "tinygrad/tinygrad issue 17290"
    requires = [
        Requires("twice x does not wrap", lambda x: (x > -(2**61)) & (x < 2**61)),
        Requires("c stays away from the largest number", lambda c: (c > -(2**61)) & (c < 2**61)),
    ]

    def pattern(x: Int64[Tensor, "n"], c: Int64[Tensor, "n"]):
        return 2 * x < c

    def replacement(x, c):
        return x < torch.ceil(c.to(torch.float64) / 2).to(torch.int64)


@mended("tinygrad-17290")
class BoundByWholeDivision(Rule):
    """2x < c where x lies below the ceiling of c / 2, computed in whole numbers."""

    source = "tinygrad/tinygrad issue 17290, by whole-number division"
    requires = [
        Requires("twice x does not wrap", lambda x: (x > -(2**61)) & (x < 2**61)),
        Requires("c stays away from the largest number", lambda c: (c > -(2**61)) & (c < 2**61)),
    ]

    def pattern(x: Int64[Tensor, "n"], c: Int64[Tensor, "n"]):
        return 2 * x < c

    def replacement(x, c):
        return x < (c + 1) // 2


@shipped("tvm-10626", "value")
class SplitRemainderBelow(Rule):
    """The remainder of 32x + y by 64 is 32 times the remainder of x by 2, plus y, for y < 32."""

    source = "apache/tvm issue 10626"
    requires = [Requires("y < 32", lambda y: y < 32)]

    def pattern(x: Int64[Tensor, "n"], y: Int64[Tensor, "n"]):
        return torch.remainder(x * 32 + y, 64)

    def replacement(x, y):
        return torch.remainder(x, 2) * 32 + y


@mended("tvm-10626")
class SplitRemainderBetween(Rule):
    """The remainder of 32x + y by 64 is 32 times the remainder of x by 2, plus y, for 0 <= y < 32."""

    source = "apache/tvm issue 10626, with y not negative"
    requires = [Requires("0 <= y < 32", lambda y: (y >= 0) & (y < 32))]

    def pattern(x: Int64[Tensor, "n"], y: Int64[Tensor, "n"]):
        return torch.remainder(x * 32 + y, 64)

    def replacement(x, y):
        return torch.remainder(x, 2) * 32 + y


@shipped("tvm-10336", "value")
class ScaleNestedRemainderFirst(Rule):
    """The remainder by 4 of the halved and doubled remainder by 20 is the doubled remainder by 4, halved."""

    source = "apache/tvm issue 10336"

    def pattern(x: Int64[Tensor, "n"]):
        return torch.remainder(torch.remainder(x, 20) // 2 * 2, 4)

    def replacement(x):
        return torch.remainder(x, 4) * 2 // 2


@mended("tvm-10336")
class ScaleNestedRemainderLast(Rule):
    """The remainder by 4 of the halved and doubled remainder by 20 is the halved remainder by 4, doubled."""

    source = "apache/tvm issue 10336, in the right order"

    def pattern(x: Int64[Tensor, "n"]):
        return torch.remainder(torch.remainder(x, 20) // 2 * 2, 4)

    def replacement(x):
        return torch.remainder(x, 4) // 2 * 2


@shipped("tvm-18025", "value")
class DropSmallAddendOfInequality(Rule):
    """8x + r < 16 where x < 2, for |r| < 8."""

    source = "apache/tvm issue 18025"
    requires = [Requires("|r| < 8", lambda r: (r > -8) & (r < 8)), Requires("8x does not wrap", lambda x: (x > -(2**50)) & (x < 2**50))]

    def pattern(x: Int64[Tensor, "n"], r: Int64[Tensor, "n"]):
        return 8 * x + r < 16

    def replacement(x, r):
        return x < 2


@mended("tvm-18025")
class DropSmallPositiveAddendOfInequality(Rule):
    """8x + r < 16 where x < 2, for 0 <= r < 8."""

    source = "apache/tvm issue 18025, with r not negative"
    requires = [Requires("0 <= r < 8", lambda r: (r >= 0) & (r < 8)), Requires("8x does not wrap", lambda x: (x > -(2**50)) & (x < 2**50))]

    def pattern(x: Int64[Tensor, "n"], r: Int64[Tensor, "n"]):
        return 8 * x + r < 16

    def replacement(x, r):
        return x < 2


@shipped("tvm-5749", "value")
class FactorMinimumBySignOfQuotient(Rule):
    """The minimum of -2x and -4 is -2 times the minimum of x and 2."""

    source = "apache/tvm issue 5749"
    requires = [Requires("twice x does not wrap", lambda x: (x > -(2**50)) & (x < 2**50))]

    def pattern(x: Int64[Tensor, "n"]):
        return torch.clamp(x * -2, max=-4)

    def replacement(x):
        return torch.clamp(x, max=2) * -2


@mended("tvm-5749")
class FactorMinimumBySignOfFactor(Rule):
    """The minimum of -2x and -4 is -2 times the maximum of x and 2."""

    source = "apache/tvm issue 5749, by the sign of the factor"
    requires = [Requires("twice x does not wrap", lambda x: (x > -(2**50)) & (x < 2**50))]

    def pattern(x: Int64[Tensor, "n"]):
        return torch.clamp(x * -2, max=-4)

    def replacement(x):
        return torch.clamp(x, min=2) * -2


@shipped("tvm-8852", "value")
class RemainderOfARampOfFive(Rule):
    """The remainder by 64 of a ramp of 5 from 4x is a ramp of 5 from the remainder of 4x."""

    source = "apache/tvm issue 8852"

    def pattern(x: Int64[Tensor, "n"]):
        return torch.remainder(4 * x[:, None] + torch.arange(5), 64)

    def replacement(x):
        return torch.remainder(4 * x, 64)[:, None] + torch.arange(5)


@mended("tvm-8852")
class RemainderOfARampOfFour(Rule):
    """The remainder by 64 of a ramp of 4 from 4x is a ramp of 4 from the remainder of 4x."""

    source = "apache/tvm issue 8852, with every lane in one period"

    def pattern(x: Int64[Tensor, "n"]):
        return torch.remainder(4 * x[:, None] + torch.arange(4), 64)

    def replacement(x):
        return torch.remainder(4 * x, 64)[:, None] + torch.arange(4)


@shipped("tvm-19503", "NaN/inf", "signed zero")
class SubtractFromItselfInFloats(Rule):
    """A float minus itself is 0."""

    source = "apache/tvm issue 19503"

    def pattern(x: Float32[Tensor, "n"]):
        return x - x

    def replacement(x):
        return torch.zeros_like(x)


@mended("tvm-19503")
class SubtractFromItselfInWholeNumbers(Rule):
    """A whole number minus itself is 0."""

    source = "apache/tvm issue 19503, for whole numbers"

    def pattern(x: Int[Tensor, "n"]):
        return x - x

    def replacement(x):
        return torch.zeros_like(x)
