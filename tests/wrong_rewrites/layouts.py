"""Shapes, axes and moved elements: reshapes, transposes, splits and broadcasts that were composed wrongly."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule
from tests.wrong_rewrites.registry import mended, shipped

WIDER = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)


@shipped("xnnpack-11203", "shape")
class BroadcastByLeadingDims(Rule):
    """A row broadcast to a square is the row plus zeros of shape 1 x n."""

    source = "google/XNNPACK issue 11203"
    equality = WIDER

    def pattern(x: Float[Tensor, "n"]):
        return x.expand(x.shape[0], x.shape[0])

    def replacement(x):
        return x + torch.zeros((1, x.shape[0]), dtype=x.dtype)


@mended("xnnpack-11203")
class BroadcastByTrailingDims(Rule):
    """A row broadcast to a square is the row plus zeros of that shape."""

    source = "google/XNNPACK issue 11203, dims aligned from the right"
    equality = WIDER

    def pattern(x: Float[Tensor, "n"]):
        return x.expand(x.shape[0], x.shape[0])

    def replacement(x):
        return x + torch.zeros((x.shape[0], x.shape[0]), dtype=x.dtype)


@shipped("paddle-67620", "error")
class MergeProductsOfAnyRank(Rule):
    """Products of one matrix with two others are a product with both side by side, whatever their ranks."""

    source = "PaddlePaddle/Paddle issue 67620"

    def pattern(x: Float[Tensor, "m k"], a: Float[Tensor, "k p"], b: Float[Tensor, "t k q"]):
        return x @ a, x @ b

    def replacement(x, a, b):
        both = x @ torch.cat([a, b], -1)
        return both[..., : a.shape[-1]], both[..., a.shape[-1] :]


@mended("paddle-67620")
class MergeProductsOfMatrices(Rule):
    """Products of one matrix with two others are a product with both side by side."""

    source = "PaddlePaddle/Paddle issue 67620, with matrices of equal height"

    def pattern(x: Float[Tensor, "m k"], a: Float[Tensor, "k p"], b: Float[Tensor, "k q"]):
        return x @ a, x @ b

    def replacement(x, a, b):
        both = x @ torch.cat([a, b], -1)
        return both[..., : a.shape[-1]], both[..., a.shape[-1] :]


@shipped("ncnn-unknown-upsample", "shape", "value")
class RemoveUpsampleOfUnknownSize(Rule):
    """An upsample whose sizes are unknown on both sides changes nothing."""

    source = "Tencent/ncnn, no-op upsample removal compares -1 with -1"

    def pattern(x: Float[Tensor, "n c h w"], height: int, width: int):
        return F.interpolate(x, size=(height, width), mode="nearest")

    def replacement(x, height, width):
        return x


@mended("ncnn-unknown-upsample")
class RemoveUpsampleToTheSameSize(Rule):
    """An upsample to the size that is there changes nothing."""

    source = "Tencent/ncnn, with sizes known to be equal"
    requires = [Requires("the height stays", lambda height, h: height == h), Requires("the width stays", lambda width, w: width == w)]

    def pattern(x: Float[Tensor, "n c h w"], height: int, width: int):
        return F.interpolate(x, size=(height, width), mode="nearest")

    def replacement(x, height, width):
        return x


@shipped("onnx-optimizer-293", "shape", "error")
class ComposeNegativeSqueezes(Rule):
    """Two squeezes of the last axis are one of the last and the first."""

    source = "onnx/optimizer issue 293"

    def pattern(x: Float[Tensor, "a b 1 1"]):
        return x.squeeze(-1).squeeze(-1)

    def replacement(x):
        return x.squeeze((-1, 0))


@mended("onnx-optimizer-293")
class ComposeNormalisedSqueezes(Rule):
    """Two squeezes of the last axis are one of the last two."""

    source = "onnx/optimizer issue 293, axes normalised with the rank"

    def pattern(x: Float[Tensor, "a b 1 1"]):
        return x.squeeze(-1).squeeze(-1)

    def replacement(x):
        return x.squeeze((-1, -2))


@shipped("onnx-optimizer-84", "shape", "error")
class InferOneDimForTwo(Rule):
    """A reshape to two unknown dims and 4 infers them as one."""

    source = "onnx/optimizer issue 84"

    def pattern(x: Float[Tensor, "a*b*4"], a: int, b: int):
        return x.reshape(a, b, 4)

    def replacement(x, a, b):
        return x.reshape(-1, 4)


@mended("onnx-optimizer-84")
class InferOneDimForOne(Rule):
    """A reshape to one unknown dim and 4 infers it."""

    source = "onnx/optimizer issue 84, with one unknown of one element"

    def pattern(x: Float[Tensor, "a*4"], a: int):
        return x.reshape(a, 2, 2).reshape(a, 4)

    def replacement(x, a):
        return x.reshape(-1, 4)


@shipped("onnx-optimizer-103", "value")
class FoldShapeForAllUses(Rule):
    """The shape of a reshape may hold -1, for whoever else reads it as well."""

    source = "onnx/optimizer issue 103"

    def pattern(x: Float[Tensor, "a 4 5"], y: Int[Tensor, "1"]):
        return x.reshape(x.shape[0], 20), y + x.shape[0]

    def replacement(x, y):
        return x.reshape(-1, 20), y + -1


@mended("onnx-optimizer-103")
class FoldShapeForOneUse(Rule):
    """The shape of a reshape may hold -1 for the reshape alone."""

    source = "onnx/optimizer issue 103, replacing the reshape's own operand only"

    def pattern(x: Float[Tensor, "a 4 5"], y: Int[Tensor, "1"]):
        return x.reshape(x.shape[0], 20), y + x.shape[0]

    def replacement(x, y):
        return x.reshape(-1, 20), x.shape[0] + y


@shipped("onnx-optimizer-keepdims", "shape")
class KeepDimsForAllUses(Rule):
    """A sum that is unsqueezed keeps its axis, for whoever else reads it as well."""

    source = "onnx/optimizer, reduce and unsqueeze merged on a shared node"

    def pattern(x: Float[Tensor, "m n"]):
        r = x.sum(1)
        return r.unsqueeze(1), r * 2.0

    def replacement(x):
        r = x.sum(1, keepdim=True)
        return r, r * 2.0


@mended("onnx-optimizer-keepdims")
class KeepDimsForOneUse(Rule):
    """A sum that is unsqueezed keeps its axis."""

    source = "onnx/optimizer, with one reader of the sum"

    def pattern(x: Float[Tensor, "m n"]):
        return x.sum(1).unsqueeze(1)

    def replacement(x):
        return x.sum(1, keepdim=True)


@shipped("onnx-optimizer-reshape", "shape")
class RemoveReshapeWithTwoUnknowns(Rule):
    """A reshape of an unknown middle dim to 8, the last one inferred, changes nothing."""

    source = "onnx/optimizer, reshape removed as a no-op"

    def pattern(x: Float[Tensor, "2 n 4"]):
        return x.reshape(2, 8, -1)

    def replacement(x):
        return x


@mended("onnx-optimizer-reshape")
class RemoveReshapeWithOneUnknown(Rule):
    """A reshape that infers the one unknown dim where it is changes nothing."""

    source = "onnx/optimizer, with at most one unknown position"

    def pattern(x: Float[Tensor, "2 8 n"]):
        return x.reshape(2, 8, -1)

    def replacement(x):
        return x


@shipped("onnx-2446", "shape", "value")
class ComposePermutationsBackwards(Rule):
    """A permutation by p after one by q is the permutation q[p[i]] the wrong way round."""

    source = "onnx/onnx issue 2446"

    def pattern(x: Float[Tensor, "a b c"]):
        return x.permute(1, 0, 2).permute(0, 2, 1)

    def replacement(x):
        return x.permute(2, 0, 1)


@mended("onnx-2446")
class ComposePermutations(Rule):
    """A permutation by p after one by q is the permutation q[p[i]]."""

    source = "onnx/onnx issue 2446, composed in the right order"
    equality = Equality.BITWISE

    def pattern(x: Float[Tensor, "a b c"]):
        return x.permute(1, 0, 2).permute(0, 2, 1)

    def replacement(x):
        return x.permute(1, 2, 0)


@shipped("onnxruntime-32228", "error", "shape", "value")
class FoldIdentityPermutationAsTranspose(Rule):
    """A permutation before a matrix product is the product's own transposition, whatever the permutation."""

    source = "microsoft/onnxruntime issue 32228"

    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"], c: Float[Tensor, "n"]):
        return torch.addmm(c, a.permute(0, 1), b)

    def replacement(a, b, c):
        return torch.addmm(c, a.t(), b)


@mended("onnxruntime-32228")
class FoldExchangeAsTranspose(Rule):
    """An exchange of both axes before a matrix product is the product's own transposition."""

    source = "microsoft/onnxruntime issue 32228, with the permutation [1, 0]"

    def pattern(a: Float[Tensor, "k m"], b: Float[Tensor, "k n"], c: Float[Tensor, "n"]):
        return torch.addmm(c, a.permute(1, 0), b)

    def replacement(a, b, c):
        return torch.einsum("km,kn->mn", a, b) + c


@shipped("onnxscript-2478", "value")
class RemoveReversal(Rule):
    """A slice that keeps the shape changes nothing, though it reverses."""

    source = "microsoft/onnxscript issue 2478"

    def pattern(x: Float[Tensor, "n"]):
        return torch.flip(x, (0,))

    def replacement(x):
        return x


@mended("onnxscript-2478")
class RemoveFullSlice(Rule):
    """A slice of the whole range by steps of 1 changes nothing."""

    source = "microsoft/onnxscript issue 2478, with step 1 and the full range"
    equality = Equality.BITWISE

    def pattern(x: Float[Tensor, "n"]):
        return x[0 : x.shape[0] : 1]

    def replacement(x):
        return x


@shipped("onnxscript-2858", "shape")
class SplitIntoNearlyEqualParts(Rule):
    """A split into pieces of k, when there are two, is a split into two nearly equal parts."""

    source = "microsoft/onnxscript issue 2858"
    requires = [Requires("there are two pieces", lambda n, k: (k < n) & (n <= 2 * k))]

    def pattern(x: Float[Tensor, "n"], k: int):
        return torch.split(x, k)

    def replacement(x, k):
        return torch.tensor_split(x, 2)


@mended("onnxscript-2858")
class SplitIntoEqualParts(Rule):
    """A split into pieces of k, when there are exactly two, is a split into two equal parts."""

    source = "microsoft/onnxscript issue 2858, with k dividing the size"
    equality = Equality.BITWISE
    requires = [Requires("there are two whole pieces", lambda n, k: (k >= 1) & (n == 2 * k))]

    def pattern(x: Float[Tensor, "n"], k: int):
        return torch.split(x, k)

    def replacement(x, k):
        return torch.tensor_split(x, 2)


@shipped("pytorch-102950", "shape")
class CancelSplitAndJoinOfDifferentAxes(Rule):
    """Rows split apart and joined along the last axis are the tensor itself."""

    source = "pytorch/pytorch issue 102950"

    def pattern(x: Float[Tensor, "2 n"]):
        first, second = torch.split(x, 1)
        return torch.cat([first, second], dim=-1)

    def replacement(x):
        return x


@mended("pytorch-102950")
class CancelSplitAndJoin(Rule):
    """Rows split apart and joined along the same axis are the tensor itself."""

    source = "pytorch/pytorch issue 102950, with equal axes"
    equality = Equality.BITWISE

    def pattern(x: Float[Tensor, "2 n"]):
        first, second = torch.split(x, 1)
        return torch.cat([first, second], dim=0)

    def replacement(x):
        return x


@shipped("pytorch-147784", "value")
class JoinPiecesOfTwoTensors(Rule):
    """The first piece of one tensor and the second of another, joined, are the first tensor."""

    source = "pytorch/pytorch issue 147784"

    def pattern(x: Float[Tensor, "2 n"], y: Float[Tensor, "2 n"]):
        return torch.cat([torch.split(x, 1)[0], torch.split(y, 1)[1]])

    def replacement(x, y):
        return x


@mended("pytorch-147784")
class JoinPiecesOfOneTensor(Rule):
    """The first and the second piece of one tensor, joined, are that tensor."""

    source = "pytorch/pytorch issue 147784, with every piece of one split in order"
    equality = Equality.BITWISE

    def pattern(x: Float[Tensor, "2 n"]):
        pieces = torch.split(x, 1)
        return torch.cat([pieces[0], pieces[1]])

    def replacement(x):
        return x


@shipped("pytorch-100679", "error")
class FuseProductsOfDifferentShapes(Rule):
    """The sum of two products is one product added to the other, also where the second broadcasts the first."""

    source = "pytorch/pytorch issue 100679"

    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"], c: Float[Tensor, "1 l"], d: Float[Tensor, "l n"]):
        return a @ b + c @ d

    def replacement(a, b, c, d):
        return torch.addmm(a @ b, c, d)


@mended("pytorch-100679")
class FuseProductsOfOneShape(Rule):
    """The sum of two products of one shape is one product added to the other."""

    source = "pytorch/pytorch issue 100679, with equal shapes"

    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"], c: Float[Tensor, "m l"], d: Float[Tensor, "l n"]):
        return a @ b + c @ d

    def replacement(a, b, c, d):
        return torch.addmm(a @ b, c, d)


@shipped("onnxslim-323", "error")
class FlattenProductWithAnyBias(Rule):
    """A batched product plus a tensor is one flat product with that tensor as its bias."""

    source = "inisis/OnnxSlim issue 323"

    def pattern(x: Float[Tensor, "b m k"], weight: Float[Tensor, "k n"], bias: Float[Tensor, "b 1 1"]):
        return x @ weight + bias

    def replacement(x, weight, bias):
        flat = x.reshape(x.shape[0] * x.shape[1], x.shape[2])
        return torch.addmm(bias, flat, weight).reshape(x.shape[0], x.shape[1], weight.shape[1])


@mended("onnxslim-323")
class FlattenProductWithRowBias(Rule):
    """A batched product plus a row is one flat product with that row as its bias."""

    source = "inisis/OnnxSlim issue 323, with a bias that is constant along the flattened dims"

    def pattern(x: Float[Tensor, "b m k"], weight: Float[Tensor, "k n"], bias: Float[Tensor, "n"]):
        return x @ weight + bias

    def replacement(x, weight, bias):
        flat = x.reshape(x.shape[0] * x.shape[1], x.shape[2])
        return torch.addmm(bias, flat, weight).reshape(x.shape[0], x.shape[1], weight.shape[1])


@shipped("onnxslim-110", "error", "shape", "value")
class MergeReshapesWithUnresolvedZero(Rule):
    """Two reshapes are the second one, with its 0 read as the first dim of the original input."""

    source = "inisis/OnnxSlim issue 110"

    def pattern(x: Float[Tensor, "2 2*a"], a: int):
        return x.reshape(a, 4).reshape(a, 2, 2)

    def replacement(x, a):
        return x.reshape(x.shape[0], 2, 2)


@mended("onnxslim-110")
class MergeReshapesWithResolvedZero(Rule):
    """Two reshapes are the second one, with its 0 read as the first dim of its own input."""

    source = "inisis/OnnxSlim issue 110, with 0 resolved before merging"
    equality = Equality.BITWISE

    def pattern(x: Float[Tensor, "2 2*a"], a: int):
        return x.reshape(a, 4).reshape(a, 2, 2)

    def replacement(x, a):
        return x.reshape(a, 2, 2)


@shipped("tvm-8266", "value")
class DifferenceOfUnknownDims(Rule):
    """The difference of two unknown dims is 0, as they print alike."""

    source = "apache/tvm issue 8266"

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "m"], z: Int[Tensor, "1"]):
        return z + (x.shape[0] - y.shape[0])

    def replacement(x, y, z):
        return z


@mended("tvm-8266")
class DifferenceOfOneDim(Rule):
    """The difference of a dim and itself is 0."""

    source = "apache/tvm issue 8266, with one symbol"

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"], z: Int[Tensor, "1"]):
        return z + (x.shape[0] - y.shape[0])

    def replacement(x, y, z):
        return z
