"""Floating point: NaN, infinities, zeros' signs, range and rounding that a law over the reals does not see; dtypes."""

import torch
import torch.nn.functional as F
from jaxtyping import BFloat16, Complex128, Float, Float16, Float32, Int8
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule
from tests.wrong_rewrites.registry import mended, shipped

WIDER = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)


@shipped("tensorflow-119429", "rounding", "value")
class ReciprocalTwiceExactly(Rule):
    """The reciprocal of the reciprocal is the number, bit for bit."""

    source = "tensorflow/tensorflow issue 119429"
    equality = Equality.BITWISE

    def pattern(x: Float[Tensor, "n"]):
        return torch.reciprocal(torch.reciprocal(x))

    def replacement(x):
        return x


@mended("tensorflow-119429")
class ReciprocalTwice(Rule):
    """The reciprocal of the reciprocal is the number, but for rounding."""

    source = "tensorflow/tensorflow issue 119429, over the reals without 0"
    requires = [Requires("x is not zero", lambda x: x != 0)]

    def pattern(x: Float[Tensor, "n"]):
        return torch.reciprocal(torch.reciprocal(x))

    def replacement(x):
        return x


@shipped("tensorflow-57744", "undefined", "value")
class LogarithmOfPower(Rule):
    """The logarithm of a power is the exponent times the logarithm of the base's magnitude."""

    source = "tensorflow/tensorflow issue 57744"

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return torch.log(torch.pow(a, b))

    def replacement(a, b):
        return b * torch.log(torch.abs(a))


@mended("tensorflow-57744")
class LogarithmOfPowerOfPositive(Rule):
    """The logarithm of a power of a positive number is the exponent times its logarithm, within the range of the power."""

    source = "tensorflow/tensorflow issue 57744, for positive bases"
    equality = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)
    requires = [Requires("the base is positive", lambda a: a > 0)]

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return torch.log(torch.pow(a, b))

    def replacement(a, b):
        return b * torch.log(a)


@shipped("tinygrad-11760", "NaN/inf")
class SelectByProductWithOneHot(Rule):
    """The first row is the sum of all rows, each times 1 or 0."""

    source = "tinygrad/tinygrad issue 11760"
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO)
    requires = [Requires("there is a row", lambda n: n >= 1)]

    def pattern(x: Float[Tensor, "n m"]):
        return x[0]

    def replacement(x):
        first = torch.arange(x.shape[0]) == 0
        return (torch.where(first, 1.0, 0.0).to(x.dtype)[:, None] * x).sum(0)


@mended("tinygrad-11760")
class SelectByChoice(Rule):
    """The first row is the sum of all rows where all others are replaced by 0."""

    source = "tinygrad/tinygrad issue 11760, with where instead of a product"
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO)
    requires = [Requires("there is a row", lambda n: n >= 1)]

    def pattern(x: Float[Tensor, "n m"]):
        return x[0]

    def replacement(x):
        first = torch.arange(x.shape[0]) == 0
        return torch.where(first[:, None], x, torch.zeros_like(x)).sum(0)


@shipped("xla-42732", "overflow range", "NaN/inf")
class LogarithmOfExponential(Rule):
    """The logarithm of the exponential is the number."""

    source = "openxla/xla issue 42732"

    def pattern(x: Float[Tensor, "n"]):
        return torch.log(torch.exp(x))

    def replacement(x):
        return x


@mended("xla-42732")
class LogarithmOfExponentialInRange(Rule):
    """The logarithm of the exponential is the number, but for the range of the exponential."""

    source = "openxla/xla issue 42732, with the change of range declared"
    equality = Equality.REAL.allowing(Change.OVERFLOW, Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"]):
        return torch.log(torch.exp(x))

    def replacement(x):
        return x


@shipped("xla-14074", "value")
class ProductOfTwoRoots(Rule):
    """The product of two square roots is the first operand."""

    source = "openxla/xla issue 14074: both operands bind one capture"
    requires = [Requires("a is not negative", lambda a: a >= 0), Requires("b is not negative", lambda b: b >= 0)]

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return torch.sqrt(a) * torch.sqrt(b)

    def replacement(a, b):
        return a


@mended("xla-14074")
class SquareOfRoot(Rule):
    """The product of a square root with itself is the operand."""

    source = "openxla/xla issue 14074, with one operand that is not negative"
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO)
    requires = [Requires("a is not negative", lambda a: a >= 0)]

    def pattern(a: Float[Tensor, "n"]):
        return torch.sqrt(a) * torch.sqrt(a)

    def replacement(a):
        return a


@shipped("xla-46594", "NaN/inf")
class FoldArctangentOfZeros(Rule):
    """The angle of the point (0, 0) is NaN."""

    source = "openxla/xla issue 46594"

    def pattern(x: Float[Tensor, "n"]):
        return torch.atan2(torch.zeros_like(x), torch.zeros_like(x))

    def replacement(x):
        return torch.full_like(x, float("nan"))


@mended("xla-46594")
class FoldArctangentOfZerosToZero(Rule):
    """The angle of the point (0, 0) is 0."""

    source = "openxla/xla issue 46594, by Annex F of the C standard"

    def pattern(x: Float[Tensor, "n"]):
        return torch.atan2(torch.zeros_like(x), torch.zeros_like(x))

    def replacement(x):
        return torch.zeros_like(x)


@shipped("tensorflow-116992", "NaN/inf", "value", "signed zero")
class MaximumByComparison(Rule):
    """The larger of two numbers is y where x < y, else x."""

    source = "tensorflow/tensorflow issue 116992"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return torch.maximum(x, y)

    def replacement(x, y):
        return torch.where(x < y, y, x)


@mended("tensorflow-116992")
class MaximumOfNumbersByComparison(Rule):
    """The larger of two numbers that are not NaN is y where x < y, else x."""

    source = "tensorflow/tensorflow issue 116992, without NaN"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
    requires = [Requires("x is a number", lambda x: x == x), Requires("y is a number", lambda y: y == y)]

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return torch.maximum(x, y)

    def replacement(x, y):
        return torch.where(x < y, y, x)


@shipped("pytorch-189787", "value", "rounding")
class FloorOfSumOfSoftmax(Rule):
    """The floor of the sum of a softmax is 1."""

    source = "pytorch/pytorch issue 189787"
    equality = WIDER
    requires = [Requires("there is an entry", lambda n: n >= 1)]

    def pattern(x: Float[Tensor, "m n"]):
        return torch.floor(torch.softmax(x, -1).sum(-1))

    def replacement(x):
        return torch.ones_like(x[:, 0])


@mended("pytorch-189787")
class SumOfSoftmax(Rule):
    """The sum of a softmax is 1, but for rounding."""

    source = "pytorch/pytorch issue 189787, under no discontinuous function"
    equality = WIDER
    requires = [Requires("there is an entry", lambda n: n >= 1)]

    def pattern(x: Float[Tensor, "m n"]):
        return torch.softmax(x, -1).sum(-1)

    def replacement(x):
        return torch.ones_like(x[:, 0])


@shipped("tensorflow-27500", "value")
class RemoveConjugate(Rule):
    """A conjugate transpose by the identity permutation changes nothing."""

    source = "tensorflow/tensorflow issue 27500"

    def pattern(a: Complex128[Tensor, "m n"]):
        return torch.conj_physical(a.permute(0, 1))

    def replacement(a):
        return a


@mended("tensorflow-27500")
class RemoveConjugateOfReals(Rule):
    """A conjugate transpose of real numbers by the identity permutation changes nothing."""

    source = "tensorflow/tensorflow issue 27500, for real dtypes"

    def pattern(a: Float[Tensor, "m n"]):
        return torch.conj_physical(a.permute(0, 1))

    def replacement(a):
        return a


@shipped("onnxruntime-27845", "value")
class QuantiseSignedAsUnsigned(Rule):
    """Reshaping dequantised numbers is quantising them to unsigned bytes and back in between."""

    source = "microsoft/onnxruntime issue 27845"
    equality = WIDER
    requires = [Requires("the scale is positive", lambda scale: scale > 0)]

    def pattern(q: Int8[Tensor, "m n"], scale: Float32[Tensor, "1"]):
        return (q.to(torch.float32) * scale).reshape(-1)

    def replacement(q, scale):
        flat = (q.to(torch.float32) * scale).reshape(-1)
        return torch.clamp(torch.round(flat / scale), 0, 255) * scale


@mended("onnxruntime-27845")
class QuantiseSignedAsSigned(Rule):
    """Reshaping dequantised numbers is quantising them to signed bytes and back in between."""

    source = "microsoft/onnxruntime issue 27845, with the element type of the quantised tensor"
    equality = WIDER.allowing(Change.OVERFLOW)
    requires = [Requires("the scale is positive", lambda scale: scale > 0)]

    def pattern(q: Int8[Tensor, "m n"], scale: Float32[Tensor, "1"]):
        return (q.to(torch.float32) * scale).reshape(-1)

    def replacement(q, scale):
        flat = (q.to(torch.float32) * scale).reshape(-1)
        return torch.clamp(torch.round(flat / scale), -128, 127) * scale


@shipped("onnxruntime-16910", "value")
class QuantiseOnceByAnotherScale(Rule):
    """Quantising by one scale and then another is quantising once by their mean."""

    source = "microsoft/onnxruntime issue 16910"
    equality = WIDER
    requires = [Requires("the scales are positive", lambda s, t: (s > 0) & (t > 0))]

    def pattern(x: Float[Tensor, "n"], s: Float[Tensor, "1"], t: Float[Tensor, "1"]):
        once = torch.round(x / s) * s
        return torch.round(once / t) * t

    def replacement(x, s, t):
        mean = (s + t) / 2
        return torch.round(x / mean) * mean


@mended("onnxruntime-16910")
class QuantiseOnce(Rule):
    """Quantising twice by one scale is quantising once."""

    source = "microsoft/onnxruntime issue 16910, for equal scales"
    equality = WIDER.allowing(Change.OVERFLOW)
    requires = [Requires("the scale is positive", lambda s: s > 0)]

    def pattern(x: Float[Tensor, "n"], s: Float[Tensor, "1"]):
        once = torch.round(x / s) * s
        return torch.round(once / s) * s

    def replacement(x, s):
        return torch.round(x / s) * s


def _clip_kernel(x, low, high):
    """A fused kernel that was written for two dtypes."""
    if x.dtype not in (torch.float32, torch.float16):
        raise TypeError(f"no clip kernel for {x.dtype}")
    return torch.clamp(x, max(low, 0.0), high)


@shipped("onnxruntime-11836", "error")
class FuseReluIntoClipKernel(Rule):
    """A clip after a relu is the fused kernel with its lower bound raised to 0."""

    source = "microsoft/onnxruntime issue 11836"
    requires = [Requires("the bounds are in order", lambda low, high: low <= high)]

    def pattern(x: Float[Tensor, "n"], low: float, high: float):
        return torch.clamp(torch.relu(x), low, high)

    def replacement(x, low, high):
        return _clip_kernel(x, low, high)


@mended("onnxruntime-11836")
class FuseReluIntoClipKernelOfSingles(Rule):
    """A clip after a relu of single-precision numbers is the fused kernel with its lower bound raised to 0."""

    source = "microsoft/onnxruntime issue 11836, restricted to a dtype of the kernel"
    equality = Equality.REAL.allowing(Change.SIGNED_ZERO)
    requires = [Requires("the bounds are in order", lambda low, high: low <= high)]

    def pattern(x: Float32[Tensor, "n"], low: float, high: float):
        return torch.clamp(torch.relu(x), low, high)

    def replacement(x, low, high):
        return _clip_kernel(x, low, high)


@shipped("pytorch-159492", "error", "dtype")
class FuseProductWithWiderAddend(Rule):
    """A product of half-precision matrices plus a single-precision one is a fused product and sum."""

    source = "pytorch/pytorch issue 159492"

    def pattern(a: BFloat16[Tensor, "m k"], b: BFloat16[Tensor, "k n"], c: Float32[Tensor, "m n"]):
        return torch.mm(a, b) + c

    def replacement(a, b, c):
        return torch.addmm(c, a, b)


@mended("pytorch-159492")
class FuseProductWithAddend(Rule):
    """A product of matrices plus a matrix of their dtype is a fused product and sum."""

    source = "pytorch/pytorch issue 159492, with one dtype"

    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"], c: Float[Tensor, "m n"]):
        return torch.mm(a, b) + c

    def replacement(a, b, c):
        return torch.addmm(c, a, b)


@shipped("pytorch-76578", "error", "dtype")
class FoldWiderScaleIntoHalfConvolution(Rule):
    """A single-precision scale after a half-precision convolution goes into its weight."""

    source = "pytorch/pytorch issue 76578"
    equality = WIDER

    def pattern(x: Float16[Tensor, "n c h w"], weight: Float16[Tensor, "o c kh kw"], scale: Float32[Tensor, "o"]):
        return (F.conv2d(x, weight).to(torch.float32) * scale[:, None, None]).to(torch.float16)

    def replacement(x, weight, scale):
        return F.conv2d(x, weight * scale[:, None, None, None])


@mended("pytorch-76578")
class FoldScaleIntoHalfConvolution(Rule):
    """A single-precision scale after a half-precision convolution goes into its weight, which keeps its dtype."""

    source = "pytorch/pytorch issue 76578, with the folded weight cast back"
    equality = WIDER.allowing(Change.OVERFLOW)

    def pattern(x: Float16[Tensor, "n c h w"], weight: Float16[Tensor, "o c kh kw"], scale: Float32[Tensor, "o"]):
        return (F.conv2d(x, weight).to(torch.float32) * scale[:, None, None]).to(torch.float16)

    def replacement(x, weight, scale):
        return F.conv2d(x, (weight * scale[:, None, None, None]).to(torch.float16))
