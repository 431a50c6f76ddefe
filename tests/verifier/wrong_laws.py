"""Laws that are wrong, each by one thing that a careless proof overlooks. None may ever be proved."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Int8
from torch import Tensor

from rewrites import Axis, Pair, Requires, Rule


class WrongLaw(Rule):
    """The base of the wrong laws."""

    source = "made to be wrong"

    def pattern(x: Float[Tensor, "n"]) -> Any:  # type: ignore[misc]
        return x

    def replacement(x: Any) -> Any:  # type: ignore[misc]
        return x


class MatMulCommutes(WrongLaw):
    """a b = b a."""

    def pattern(a: Float[Tensor, "n n"], b: Float[Tensor, "n n"]):
        return a @ b

    def replacement(a, b):
        return b @ a


class TransposeKeepsTheOrderOfFactors(WrongLaw):
    """(a b)ᵀ = aᵀ bᵀ for square matrices."""

    def pattern(a: Float[Tensor, "n n"], b: Float[Tensor, "n n"]):
        return (a @ b).t()

    def replacement(a, b):
        return a.t() @ b.t()


class SoftmaxOfSum(WrongLaw):
    """softmax(a + b) = softmax(a) + softmax(b)."""

    def pattern(a: Float[Tensor, "m n"], b: Float[Tensor, "m n"]):
        return torch.softmax(a + b, -1)

    def replacement(a, b):
        return torch.softmax(a, -1) + torch.softmax(b, -1)


class SoftmaxShiftAlongTheWrongAxis(WrongLaw):
    """A shift that varies along the softmax axis does not cancel."""

    def pattern(a: Float[Tensor, "m n"], b: Float[Tensor, "n"]):
        return torch.softmax(a + b, -1)

    def replacement(a, b):
        return torch.softmax(a, -1) + 0 * b


class LinearAttentionThroughSoftmax(WrongLaw):
    """softmax(q kᵀ) v = q (kᵀ v)."""

    def pattern(q: Float[Tensor, "n d"], k: Float[Tensor, "n d"], v: Float[Tensor, "n e"]):
        return torch.softmax(q @ k.t(), -1) @ v

    def replacement(q, k, v):
        return q @ (k.t() @ v)


class MeanOfUnequalParts(WrongLaw):
    """The mean of a concatenation is the mean of the means."""

    def pattern(a: Float[Tensor, "m"], b: Float[Tensor, "n"]):
        return torch.cat([a, b]).mean()

    def replacement(a, b):
        return (a.mean() + b.mean()) / 2


class MaximumOfSum(WrongLaw):
    """max(a + b) = max(a) + max(b)."""

    def pattern(a: Float[Tensor, "m n"], b: Float[Tensor, "m n"]):
        return (a + b).amax(-1)

    def replacement(a, b):
        return a.amax(-1) + b.amax(-1)


class MaximumScaledByAnything(WrongLaw):
    """max(s·a) = s·max(a) for every s."""

    def pattern(a: Float[Tensor, "m n"], s: Float[Tensor, ""]):
        return (s * a).amax(-1)

    def replacement(a, s):
        return s * a.amax(-1)


class ReluScaledByAnything(WrongLaw):
    """relu(s·a) = s·relu(a) for every s."""

    def pattern(a: Float[Tensor, "n"], s: float):
        return torch.relu(s * a)

    def replacement(a, s):
        return s * torch.relu(a)


class ReluOfSum(WrongLaw):
    """relu(a + b) = relu(a) + relu(b)."""

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return torch.relu(a + b)

    def replacement(a, b):
        return torch.relu(a) + torch.relu(b)


class ReluOfProduct(WrongLaw):
    """relu(a b) = relu(a) relu(b)."""

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return torch.relu(a * b)

    def replacement(a, b):
        return torch.relu(a) * torch.relu(b)


class ReluAfterPoolOfNegatives(WrongLaw):
    """avg_pool(relu(x)) = relu(avg_pool(x))."""

    def pattern(x: Float[Tensor, "n c h w"], k: int):
        return F.avg_pool2d(torch.relu(x), k)

    def replacement(x, k):
        return torch.relu(F.avg_pool2d(x, k))


class SquareRootOfSquare(WrongLaw):
    """sqrt(x²) = x."""

    def pattern(x: Float[Tensor, "n"]):
        return torch.sqrt(x * x)

    def replacement(x):
        return x + 0


class QuotientByItself(WrongLaw):
    """x / x = 1 without x ≠ 0: NaN at zero."""

    def pattern(x: Float[Tensor, "n"]):
        return x / x

    def replacement(x):
        return torch.ones_like(x)


class LogarithmOfProduct(WrongLaw):
    """log(a b) = log a + log b for all signs."""

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return torch.log(a * b)

    def replacement(a, b):
        return torch.log(a) + torch.log(b)


class SigmoidIsOdd(WrongLaw):
    """sigmoid(−x) = −sigmoid(x)."""

    def pattern(x: Float[Tensor, "n"]):
        return torch.sigmoid(-x)

    def replacement(x):
        return -torch.sigmoid(x)


class ClampInTheOtherOrder(WrongLaw):
    """max(min(x, hi), lo) = min(max(x, lo), hi) without lo ≤ hi."""

    def pattern(x: Float[Tensor, "n"], lo: float, hi: float):
        return torch.clamp(torch.clamp(x, max=hi), min=lo)

    def replacement(x, lo, hi):
        return torch.clamp(x, lo, hi)


class ConvolutionsOfDifferentStrides(WrongLaw):
    """Merging two convolutions whose strides differ."""

    def pattern(x: Float[Tensor, "n c h w"], a: Float[Tensor, "o c k l"], b: Float[Tensor, "o c k l"], s: Pair, t: Pair):
        return F.conv2d(x, a, None, s) + F.conv2d(x, b, None, t)

    def replacement(x, a, b, s, t):
        return F.conv2d(x, a + b, None, s)


class GroupedConcatOfOutputs(WrongLaw):
    """Concatenating kernels of grouped convolutions of one input."""

    def pattern(x: Float[Tensor, "n groups*c h w"], a: Float[Tensor, "groups*o c k l"], b: Float[Tensor, "groups*p c k l"], groups: int):
        return torch.cat([F.conv2d(x, a, groups=groups), F.conv2d(x, b, groups=groups)], 1)

    def replacement(x, a, b, groups):
        return F.conv2d(x, torch.cat([a, b], 0), groups=groups)


class GroupedConcatOfInputs(WrongLaw):
    """Concatenating the inputs of grouped convolutions that are added."""

    def pattern(
        x: Float[Tensor, "n groups*c h w"],
        y: Float[Tensor, "n groups*c h w"],
        a: Float[Tensor, "groups*o c k l"],
        b: Float[Tensor, "groups*o c k l"],
        groups: int,
    ):
        return F.conv2d(x, a, groups=groups) + F.conv2d(y, b, groups=groups)

    def replacement(x, y, a, b, groups):
        return F.conv2d(torch.cat([x, y], 1), torch.cat([a, b], 1), groups=groups)


class BiasBeforePaddedConvolution(WrongLaw):
    """A bias before a zero-padded convolution becomes a bias after it (wrong at the border)."""

    def pattern(x: Float[Tensor, "n c h w"], b: Float[Tensor, "c"], w: Float[Tensor, "o c 3 3"]):
        return F.conv2d(x + b[:, None, None], w, None, 1, 1)

    def replacement(x, b, w):
        return F.conv2d(x, w, torch.einsum("ocij,c->o", w, b), 1, 1)


class PadByValueIntoConvolution(WrongLaw):
    """A pad by a value that is not zero taken over by a convolution."""

    def pattern(x: Float[Tensor, "n c h w"], w: Float[Tensor, "o c k l"], p: int, value: float):
        return F.conv2d(F.pad(x, (p, p, p, p), value=value), w)

    def replacement(x, w, p, value):
        return F.conv2d(x, w, padding=p)


class EnlargeWithDilation(WrongLaw):
    """Enlarging a dilated kernel as if it were not dilated."""

    def pattern(x: Float[Tensor, "n c h w"], w: Float[Tensor, "o c k l"], padding: int, dilation: int):
        return F.conv2d(x, w, None, 1, padding, dilation)

    def replacement(x, w, padding, dilation):
        return F.conv2d(x, F.pad(w, (1, 1, 1, 1)), None, 1, padding + 1, dilation)


class EnlargeOnOneSide(WrongLaw):
    """Enlarging a kernel at its end while padding on both sides."""

    def pattern(x: Float[Tensor, "n c h w"], w: Float[Tensor, "o c 1 1"]):
        return F.conv2d(x, w)

    def replacement(x, w):
        return F.conv2d(x, F.pad(w, (0, 2, 0, 2)), None, 1, 1)


class FlipConvolution(WrongLaw):
    """A convolution by a flipped kernel is the convolution."""

    def pattern(x: Float[Tensor, "n c h w"], w: Float[Tensor, "o c k l"]):
        return F.conv2d(x, w)

    def replacement(x, w):
        return F.conv2d(x, w.flip(-1))


class TransposedKernel(WrongLaw):
    """A square kernel may be transposed."""

    def pattern(x: Float[Tensor, "n c h w"], w: Float[Tensor, "o c k k"]):
        return F.conv2d(x, w)

    def replacement(x, w):
        return F.conv2d(x, w.transpose(-1, -2))


class ReshapeInTheWrongOrder(WrongLaw):
    """Splitting an axis into (heads, dim) is not splitting it into (dim, heads) and exchanging them."""

    def pattern(x: Float[Tensor, "n h*d"], h: int, d: int):
        return x.reshape(x.shape[0], h, d)

    def replacement(x, h, d):
        return x.reshape(x.shape[0], d, h).transpose(1, 2)


class ReshapeOfTranspose(WrongLaw):
    """Flattening a transposed matrix is flattening the matrix."""

    def pattern(x: Float[Tensor, "n n"]):
        return x.t().reshape(-1)

    def replacement(x):
        return x.reshape(-1)


class PermutationsComposeBackwards(WrongLaw):
    """permute(1,2,0) twice is the identity."""

    def pattern(x: Float[Tensor, "n n n"]):
        return x.permute(1, 2, 0).permute(1, 2, 0)

    def replacement(x):
        return x + 0


class ConcatCommutes(WrongLaw):
    """Concatenation commutes."""

    def pattern(a: Float[Tensor, "m n"], b: Float[Tensor, "m n"]):
        return torch.cat([a, b], 0)

    def replacement(a, b):
        return torch.cat([b, a], 0)


class SplitAtTheWrongPlace(WrongLaw):
    """The first n of a concatenation of m and n is not its first part."""

    def pattern(a: Float[Tensor, "m"], b: Float[Tensor, "m"], k: int):
        return torch.cat([a, b])[k : k + a.shape[0]]

    def replacement(a, b, k):
        return a + 0


class SliceOfSlice(WrongLaw):
    """x[a:][:b] = x[a:b]."""

    requires = [Requires("inside", lambda a, b, n: 0 <= a and a <= b and a + b <= n)]

    def pattern(x: Float[Tensor, "n"], a: int, b: int):
        return x[a:][:b]

    def replacement(x, a, b):
        return x[a : a + b].flip(0)


class FlipOfConcat(WrongLaw):
    """Flipping a concatenation flips its parts in place."""

    def pattern(a: Float[Tensor, "m"], b: Float[Tensor, "m"]):
        return torch.cat([a, b]).flip(0)

    def replacement(a, b):
        return torch.cat([a.flip(0), b.flip(0)])


class LayerNormIsScaleFree(WrongLaw):
    """layer_norm(s·x) = layer_norm(x) with an epsilon."""

    def pattern(x: Float[Tensor, "m n"], s: float):
        return F.layer_norm(s * x, (x.shape[1],))

    def replacement(x, s):
        return F.layer_norm(x, (x.shape[1],))


class LayerNormOverTheOtherAxis(WrongLaw):
    """Normalising rows is normalising columns."""

    def pattern(x: Float[Tensor, "n n"]):
        return F.layer_norm(x, (x.shape[1],))

    def replacement(x):
        return F.layer_norm(x.t(), (x.shape[0],)).t()


class VarianceWithTheOtherDivisor(WrongLaw):
    """The unbiased variance is E[x²] − E[x]²."""

    def pattern(x: Float[Tensor, "m n"]):
        return x.var(-1, correction=1)

    def replacement(x):
        return (x * x).mean(-1) - x.mean(-1) ** 2


class BatchStatisticsBySample(WrongLaw):
    """Normalising a batch by its statistics in two halves is normalising it whole."""

    def pattern(a: Float[Tensor, "n c h w"], b: Float[Tensor, "n c h w"]):
        return F.batch_norm(torch.cat([a, b], 0), None, None, None, None, True)

    def replacement(a, b):
        return torch.cat([F.batch_norm(a, None, None, None, None, True), F.batch_norm(b, None, None, None, None, True)], 0)


class CumulativeSumOfConcat(WrongLaw):
    """The running sum of a concatenation is the concatenation of the running sums."""

    def pattern(a: Float[Tensor, "m"], b: Float[Tensor, "n"]):
        return torch.cat([a, b]).cumsum(0)

    def replacement(a, b):
        return torch.cat([a.cumsum(0), b.cumsum(0)])


class EmbeddingShift(WrongLaw):
    """Looking up i + 1 is looking up i in the rolled table."""

    def pattern(i: Int[Tensor, "n"], w: Float[Tensor, "v d"]):
        return F.embedding(i, w)

    def replacement(i, w):
        return F.embedding(i, w.flip(0))


class GatherOfScatteredRows(WrongLaw):
    """index_select commutes with itself."""

    def pattern(x: Float[Tensor, "n"], i: Int[Tensor, "n"], j: Int[Tensor, "n"]):
        return x[i][j]

    def replacement(x, i, j):
        return x[j][i]


class FloorOfSum(WrongLaw):
    """⌊a + b⌋ = ⌊a⌋ + ⌊b⌋."""

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return torch.floor(a + b)

    def replacement(a, b):
        return torch.floor(a) + torch.floor(b)


class FloorIsTrunc(WrongLaw):
    """Floor and truncating division of integers agree."""

    requires = [Requires("b is not zero", lambda b: b != 0)]

    def pattern(a: Int[Tensor, "n"], b: Int[Tensor, "n"]):
        return torch.div(a, b, rounding_mode="floor")

    def replacement(a, b):
        return torch.div(a, b, rounding_mode="trunc")


class DivideThenMultiply(WrongLaw):
    """(a // b)·b = a."""

    requires = [Requires("b is positive", lambda b: b > 0)]

    def pattern(a: Int[Tensor, "n"], b: Int[Tensor, "n"]):
        return torch.div(a, b, rounding_mode="floor") * b

    def replacement(a, b):
        return a + 0


class WhereWithSwappedBranches(WrongLaw):
    """where(p, a, b) = where(p, b, a)."""

    def pattern(p: Bool[Tensor, "n"], a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return torch.where(p, a, b)

    def replacement(p, a, b):
        return torch.where(p, b, a)


class StrictAndWeakComparison(WrongLaw):
    """a > b is a ≥ b."""

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return a > b

    def replacement(a, b):
        return a >= b


class NotOfLess(WrongLaw):
    """¬(a < b) is a > b."""

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return torch.logical_not(a < b)

    def replacement(a, b):
        return a > b


class SumOverTheWrongAxis(WrongLaw):
    """Summing rows of a square matrix is summing its columns."""

    def pattern(x: Float[Tensor, "n n"]):
        return x.sum(0)

    def replacement(x):
        return x.sum(1)


class SumOfConstantForgetsTheSize(WrongLaw):
    """Σ (x + c) = Σ x + c."""

    def pattern(x: Float[Tensor, "m n"], c: Float[Tensor, ""]):
        return (x + c).sum(-1)

    def replacement(x, c):
        return x.sum(-1) + c


class SumOfConstantByTheWrongSize(WrongLaw):
    """Σ over n of (x + c) = Σ x + m·c."""

    def pattern(x: Float[Tensor, "m n"], c: Float[Tensor, ""]):
        return (x + c).sum(-1)

    def replacement(x, c):
        return x.sum(-1) + x.shape[0] * c


class MaxPoolWithZeroPadding(WrongLaw):
    """Max pooling pads with minus infinity, not with zero."""

    def pattern(x: Float[Tensor, "n c h w"]):
        return F.max_pool2d(x, 3, 1, 1)

    def replacement(x):
        return F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 1)


class AveragePoolThatExcludesPadding(WrongLaw):
    """Average pooling with and without counting the padding agree."""

    def pattern(x: Float[Tensor, "n c h w"]):
        return F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)

    def replacement(x):
        return F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 1)


class PoolOfPool(WrongLaw):
    """Pooling by 2 twice is pooling by 3."""

    def pattern(x: Float[Tensor, "n c h w"]):
        return F.max_pool2d(F.max_pool2d(x, 2, 1), 2, 2)

    def replacement(x):
        return F.max_pool2d(x, 3, 2, 0)[:, :, :, :].flip(-1)


class ArgmaxOfRelu(WrongLaw):
    """argmax(relu(x)) = argmax(x)."""

    def pattern(x: Float[Tensor, "m n"]):
        return torch.relu(x).argmax(-1)

    def replacement(x):
        return x.argmax(-1)


class ArgmaxOfNegated(WrongLaw):
    """argmax(−x) = argmax(x)."""

    def pattern(x: Float[Tensor, "m n"]):
        return (-x).argmax(-1)

    def replacement(x):
        return x.argmax(-1)


class ReductionAlongAnyAxis(WrongLaw):
    """A sum along one axis of a product with a vector along the last commutes with the vector."""

    def pattern(x: Float[Tensor, "n n"], v: Float[Tensor, "n"], dim: Axis):
        return (x * v).sum(dim)

    def replacement(x, v, dim):
        return x.sum(dim) * v


class BatchedProductOfBroadcast(WrongLaw):
    """Rows of all batches share one weight: the batches may not be summed first."""

    def pattern(x: Float[Tensor, "*batch m k"], w: Float[Tensor, "k n"]):
        return torch.softmax(x @ w, -1)

    def replacement(x, w):
        return torch.softmax(x, -1) @ w


class TensorParallelWithActivation(WrongLaw):
    """relu(x₁W₁ + x₂W₂) = relu(x₁W₁) + relu(x₂W₂)."""

    def pattern(x: Float[Tensor, "m k"], y: Float[Tensor, "m l"], v: Float[Tensor, "k n"], w: Float[Tensor, "l n"]):
        return torch.relu(torch.cat([x, y], 1) @ torch.cat([v, w], 0))

    def replacement(x, y, v, w):
        return torch.relu(x @ v) + torch.relu(y @ w)


class ConcatOfWrongBlocks(WrongLaw):
    """Block multiplication with the blocks of the weight exchanged."""

    def pattern(x: Float[Tensor, "m k"], y: Float[Tensor, "m k"], v: Float[Tensor, "k n"], w: Float[Tensor, "k n"]):
        return torch.cat([x, y], 1) @ torch.cat([v, w], 0)

    def replacement(x, y, v, w):
        return torch.cat([x, y], 1) @ torch.cat([w, v], 0)


class RollIsFlip(WrongLaw):
    """Rolling by one is flipping."""

    def pattern(x: Float[Tensor, "n"]):
        return torch.cat([x[1:], x[:1]])

    def replacement(x):
        return x.flip(0)


class GroupNormWithOtherGroups(WrongLaw):
    """Group norm with one group is group norm with any."""

    def pattern(x: Float[Tensor, "n g*c h w"], g: int):
        return F.group_norm(x, g)

    def replacement(x, g):
        return F.group_norm(x, 1)


class ExponentialOfMaximumTimes(WrongLaw):
    """exp(a b) = exp(a) exp(b)."""

    def pattern(a: Float[Tensor, "n"], b: Float[Tensor, "n"]):
        return torch.exp(a * b)

    def replacement(a, b):
        return torch.exp(a) * torch.exp(b)


class TanhOfTwice(WrongLaw):
    """tanh(x) = 2·sigmoid(x) − 1 (it is 2·sigmoid(2x) − 1)."""

    def pattern(x: Float[Tensor, "n"]):
        return torch.tanh(x)

    def replacement(x):
        return 2 * torch.sigmoid(x) - 1


class GeluBothForms(WrongLaw):
    """The exact and the tanh form of gelu agree."""

    def pattern(x: Float[Tensor, "n"]):
        return F.gelu(x)

    def replacement(x):
        return F.gelu(x, approximate="tanh")


class RoundThroughInteger(WrongLaw):
    """Casting to int and back is the identity."""

    def pattern(x: Float[Tensor, "n"]):
        return x.to(torch.int64).to(x.dtype)

    def replacement(x):
        return x + 0


class BoolThroughFloat(WrongLaw):
    """Casting to bool and back is the identity."""

    def pattern(x: Int[Tensor, "n"]):
        return x.to(torch.bool).to(torch.int64)

    def replacement(x):
        return x + 0


class SumOfBroadcastBias(WrongLaw):
    """Σ (x + b) = Σ x + Σ b although b may be of size 1 and broadcast."""

    def pattern(x: Float[Tensor, "m n"], b: Float[Tensor, "k"]):
        return (x + b).sum(-1)

    def replacement(x, b):
        return x.sum(-1) + b.sum(-1)


class SumOfBroadcastMap(WrongLaw):
    """Σ (conv(x) + y) = Σ conv(x) + Σ y although y may have one row or column."""

    def pattern(x: Float[Tensor, "n c h w"], k: Float[Tensor, "o c kh kw"], y: Float[Tensor, "n o p q"]):
        return (F.conv2d(x, k) + y).sum((2, 3))

    def replacement(x, k, y):
        return F.conv2d(x, k).sum((2, 3)) + y.sum((2, 3))


class SqueezeOfWhatMayBeOne(WrongLaw):
    """squeeze(x) = x although the axis may be of size 1."""

    def pattern(x: Float[Tensor, "m n"]):
        return torch.relu(x.squeeze(1))

    def replacement(x):
        return torch.relu(x)


class SumOfExpanded(WrongLaw):
    """Summing an expanded axis is summing the axis, although it may have been of size 1."""

    def pattern(x: Float[Tensor, "m k"], n: int):
        return x.expand(-1, n).sum(1)

    def replacement(x, n):
        return x.sum(1)


class ContractionOfBroadcastLetter(WrongLaw):
    """A sum over a contracted letter may be taken of one operand, although the letter may be of size 1 in the other."""

    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "l"]):
        return torch.einsum("mk,k->m", a, b)

    def replacement(a, b):
        return torch.einsum("mk->m", a * 1.0) * b.sum() / a.shape[1]


class FirstColumnOfWhatMayBeEmpty(WrongLaw):
    """The first column has one element a row, although there may be no column."""

    def pattern(x: Float[Tensor, "n m"]):
        return x[:, :1] * 2.0

    def replacement(x):
        return x[:, :1].reshape(-1, 1) * 2.0


class SliceBeyondTheEnd(WrongLaw):
    """x[k:] has n − k elements, although k may be beyond the end."""

    def pattern(x: Float[Tensor, "n"], k: int):
        return torch.cat([x[:k], x[k:]]) * 2.0

    def replacement(x, k):
        return torch.cat([x[:k], x[k : x.shape[0]].reshape(x.shape[0] - k)]) * 2.0


class ChunksOfAnOddSize(WrongLaw):
    """The second of two chunks begins in the middle, although the first is the larger of an odd size."""

    def pattern(x: Float[Tensor, "n m"]):
        return x.chunk(2, -1)[1] * 2.0

    def replacement(x):
        return x[:, x.shape[1] // 2 :] * 2.0


class PositionFromTheEnd(WrongLaw):
    """Position k is position k + 1 after one more column, although a negative k counts from the end."""

    def pattern(x: Float[Tensor, "n m"], k: int):
        return torch.select(x, 1, k) * 2.0

    def replacement(x, k):
        return torch.select(F.pad(x, (1, 0)), 1, k + 1) * 2.0


class IndexFromTheEnd(WrongLaw):
    """x[k] is the sum of x[k : k + 1], which is empty for the last, k = −1."""

    def pattern(x: Float[Tensor, "n m"], k: int):
        return x[:, k] * 2.0

    def replacement(x, k):
        return x[:, k : k + 1].sum(1) * 2.0


class NarrowFromTheEnd(WrongLaw):
    """A slice that starts at k starts at k + 1 after one more column, although a negative k counts from the end."""

    def pattern(x: Float[Tensor, "n m"], k: int, length: int):
        return torch.narrow(x, 1, k, length) * 2.0

    def replacement(x, k, length):
        return torch.narrow(F.pad(x, (1, 0)), 1, k + 1, length) * 2.0


class PadAfterCrop(WrongLaw):
    """Two pads are one by the sum, although a negative one crops before the other pads with zeros."""

    def pattern(x: Float[Tensor, "n m"], p: int, q: int):
        return F.pad(F.pad(x, (p, 0)), (q, 0)) * 2.0

    def replacement(x, p, q):
        return F.pad(x, (p + q, 0)) * 2.0


class WideningAfterTheSum(WrongLaw):
    """A sum taken to int64 is the sum in int64, although a narrow sum wraps."""

    def pattern(a: Int[Tensor, "n"], b: Int[Tensor, "n"]):
        return (a + b).long()

    def replacement(a, b):
        return a.long() + b.long()


class SumsOfNarrowSums(WrongLaw):
    """sum(a + b) = sum(a) + sum(b), although a + b wraps in int8 and the sum over an axis is taken in int64."""

    def pattern(a: Int8[Tensor, "n"], b: Int8[Tensor, "n"]):
        return (a + b).sum()

    def replacement(a, b):
        return a.sum() + b.sum()
