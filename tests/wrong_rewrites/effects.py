"""What else a graph does: other readers of a value, shared weights, memory that is written, random draws, outputs."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule
from tests.wrong_rewrites.registry import mended, shipped

WIDER = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)


@shipped("openvino-26525", "value")
class ScaleProductForAllReaders(Rule):
    """A factor after a product goes into its weight, for whoever else reads the product."""

    source = "openvinotoolkit/openvino issue 26525"
    equality = WIDER

    def pattern(x: Float[Tensor, "m k"], weight: Float[Tensor, "k n"], factor: float):
        y = x @ weight
        return y * factor, torch.relu(y)

    def replacement(x, weight, factor):
        y = x @ (weight * factor)
        return y, torch.relu(y)


@mended("openvino-26525")
class ScaleProductForOneReader(Rule):
    """A factor after a product goes into its weight."""

    source = "openvinotoolkit/openvino issue 26525, with one reader"
    equality = WIDER

    def pattern(x: Float[Tensor, "m k"], weight: Float[Tensor, "k n"], factor: float):
        return (x @ weight) * factor

    def replacement(x, weight, factor):
        return x @ (weight * factor)


@shipped("pytorch-124808", "value")
class ScaleSharedWeightTwice(Rule):
    """A scale after each use of a shared weight goes into the weight, once for each use."""

    source = "pytorch/pytorch issue 124808"
    equality = WIDER

    def pattern(x: Float[Tensor, "m k"], y: Float[Tensor, "m k"], weight: Float[Tensor, "k n"], scale: Float[Tensor, "n"]):
        return (x @ weight) * scale, (y @ weight) * scale

    def replacement(x, y, weight, scale):
        folded = weight * scale * scale
        return x @ folded, y @ folded


@mended("pytorch-124808")
class ScaleSharedWeightOnce(Rule):
    """A scale after each use of a shared weight goes into the weight, once."""

    source = "pytorch/pytorch issue 124808, folded at most once"
    equality = WIDER

    def pattern(x: Float[Tensor, "m k"], y: Float[Tensor, "m k"], weight: Float[Tensor, "k n"], scale: Float[Tensor, "n"]):
        return (x @ weight) * scale, (y @ weight) * scale

    def replacement(x, y, weight, scale):
        folded = weight * scale
        return x @ folded, y @ folded


@shipped("onnxslim-136", "value")
class OverwriteSharedWeight(Rule):
    """A weight with a scale folded into it replaces the weight, for whoever else uses it."""

    source = "inisis/OnnxSlim issue 136"
    equality = WIDER

    def pattern(x: Float[Tensor, "m k"], y: Float[Tensor, "m k"], weight: Float[Tensor, "k n"], scale: Float[Tensor, "n"]):
        return (x @ weight) * scale, y @ weight

    def replacement(x, y, weight, scale):
        folded = weight * scale
        return x @ folded, y @ folded


@mended("onnxslim-136")
class KeepSharedWeight(Rule):
    """A weight with a scale folded into it is a new weight; whoever else uses the old one keeps it."""

    source = "inisis/OnnxSlim issue 136, under a fresh name"
    equality = WIDER

    def pattern(x: Float[Tensor, "m k"], y: Float[Tensor, "m k"], weight: Float[Tensor, "k n"], scale: Float[Tensor, "n"]):
        return (x @ weight) * scale, y @ weight

    def replacement(x, y, weight, scale):
        return x @ (weight * scale), y @ weight


@shipped("pytorch-140846", "value")
class ActivateForAllReaders(Rule):
    """A relu after a product is one fused unit, for whoever else reads the product."""

    source = "pytorch/pytorch issue 140846"

    def pattern(x: Float[Tensor, "m k"], weight: Float[Tensor, "k n"]):
        y = x @ weight
        return torch.relu(y), y + y

    def replacement(x, weight):
        y = torch.relu(x @ weight)
        return y, y + y


@mended("pytorch-140846")
class ActivateForOneReader(Rule):
    """A relu after a product is one fused unit; whoever else reads the product reads it as it was."""

    source = "pytorch/pytorch issue 140846, with the product kept"

    def pattern(x: Float[Tensor, "m k"], weight: Float[Tensor, "k n"]):
        y = x @ weight
        return torch.relu(y), y + y

    def replacement(x, weight):
        y = x @ weight
        return torch.clamp(y, min=0.0), y * 2.0


@shipped("pytorch-118829", "value")
class ActivateBeforeTheResidual(Rule):
    """The relu of a residual block goes before its addition, and the one inside is dropped."""

    source = "pytorch/pytorch issue 118829: one relu module used twice"

    def pattern(x: Float[Tensor, "m k"], a: Float[Tensor, "k k"], b: Float[Tensor, "k k"]):
        return torch.relu(torch.relu(x @ a) @ b + x)

    def replacement(x, a, b):
        return torch.relu((x @ a) @ b) + x


@mended("pytorch-118829")
class ScaleInsideTheResidual(Rule):
    """A scale inside a residual block goes into the weight before it; both relus stay where they are."""

    source = "pytorch/pytorch issue 118829, with each activation where it is"
    equality = WIDER

    def pattern(x: Float[Tensor, "m k"], a: Float[Tensor, "k k"], b: Float[Tensor, "k k"], scale: Float[Tensor, "k"]):
        return torch.relu((torch.relu(x @ a) @ b) * scale + x)

    def replacement(x, a, b, scale):
        return torch.relu(torch.relu(x @ a) @ (b * scale) + x)


@shipped("pytorch-86527", "value")
class ClampInPlaceForAllReaders(Rule):
    """A clamp is done in place, though the tensor is read again."""

    source = "pytorch/pytorch issue 86527"

    def pattern(x: Float[Tensor, "m k"], weight: Float[Tensor, "k n"]):
        y = x @ weight
        return torch.clamp(y, -1.0, 1.0), torch.floor(y)

    def replacement(x, weight):
        y = x @ weight
        y.clamp_(-1.0, 1.0)
        return y, torch.floor(y)


@mended("pytorch-86527")
class ClampInPlaceForOneReader(Rule):
    """A clamp of a value that nobody else reads is done in place."""

    source = "pytorch/pytorch issue 86527, with one reader"

    def pattern(x: Float[Tensor, "m k"], weight: Float[Tensor, "k n"]):
        return torch.clamp(x @ weight, -1.0, 1.0)

    def replacement(x, weight):
        return (x @ weight).clamp_(-1.0, 1.0)


@shipped("pytorch-197893", "mutation", "value")
class AddZeroOfAnOutput(Rule):
    """A tensor plus 0, which the caller then writes into, is the tensor itself."""

    source = "pytorch/pytorch issue 197893"

    def pattern(x: Float[Tensor, "n"]):
        y = x + 0
        return y.mul_(10.0)

    def replacement(x):
        return x.mul_(10.0)


@mended("pytorch-197893")
class AddZeroOfAnOutputByCopy(Rule):
    """A tensor plus 0, which the caller then writes into, is a copy of the tensor."""

    source = "pytorch/pytorch issue 197893, with memory of its own"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "n"]):
        y = x + 0
        return y.mul_(10.0)

    def replacement(x):
        return x.clone().mul_(10.0)


@shipped("pytorch-198131", "value", "mutation")
class RemoveCopyOfAnOverwrittenInput(Rule):
    """A copy of an input is the input, though that is written before the copy is read."""

    source = "pytorch/pytorch issue 198131"

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        kept = x.clone()
        x.add_(1.0)
        return y.copy_(kept)

    def replacement(x, y):
        x.add_(1.0)
        return y.copy_(x)


@mended("pytorch-198131")
class RemoveCopyOfAnInput(Rule):
    """A copy of an input is the input, where the copy is read before the input is written."""

    source = "pytorch/pytorch issue 198131, with the reader first"

    def pattern(x: Float[Tensor, "n"]):
        kept = x.clone()
        twice = kept * 2.0
        x.add_(1.0)
        return twice

    def replacement(x):
        twice = x * 2.0
        x.add_(1.0)
        return twice


@shipped("pytorch-198096", "value", "mutation")
class ScatterIntoALiveBuffer(Rule):
    """Rows scattered into a copy are scattered into the buffer itself, though that is cleared afterwards."""

    source = "pytorch/pytorch issue 198096"

    def pattern(x: Float[Tensor, "5"], rows: Float[Tensor, "2"]):
        y = torch.slice_scatter(x, rows, 0, 1, 3)
        x.zero_()
        return y

    def replacement(x, rows):
        x[1:3] = rows
        x.zero_()
        return x


@mended("pytorch-198096")
class ScatterIntoACopy(Rule):
    """Rows scattered into a tensor are written into a copy of it."""

    source = "pytorch/pytorch issue 198096, in memory of its own"

    def pattern(x: Float[Tensor, "5"], rows: Float[Tensor, "2"]):
        y = torch.slice_scatter(x, rows, 0, 1, 3)
        x.zero_()
        return y

    def replacement(x, rows):
        y = x.clone()
        y[1:3] = rows
        x.zero_()
        return y


@shipped("pytorch-190758", "value", "randomness")
class DrawTheMaskAgain(Rule):
    """The mask of a dropout is drawn again for the gradient."""

    source = "pytorch/pytorch issue 190758"

    def pattern(x: Float[Tensor, "n"], gradient: Float[Tensor, "n"]):
        mask = F.dropout(torch.ones_like(x), 0.5, True)
        return x * mask, gradient * mask

    def replacement(x, gradient):
        mask = F.dropout(torch.ones_like(x), 0.5, True)
        again = F.dropout(torch.ones_like(x), 0.5, True)
        return x * mask, gradient * again


@mended("pytorch-190758")
class KeepTheMask(Rule):
    """The mask of a dropout is kept for the gradient."""

    source = "pytorch/pytorch issue 190758, with one draw"

    def pattern(x: Float[Tensor, "n"], gradient: Float[Tensor, "n"]):
        mask = F.dropout(torch.ones_like(x), 0.5, True)
        return x * mask, gradient * mask

    def replacement(x, gradient):
        mask = F.dropout(torch.ones_like(gradient), 0.5, True)
        return mask * x, mask * gradient


@shipped("tvm-7550", "value", "randomness")
class FoldDropoutOfAConstant(Rule):
    """A dropout of a constant is a constant."""

    source = "apache/tvm issue 7550"

    def pattern(x: Float[Tensor, "n"]):
        return F.dropout(x, 0.5, True)

    def replacement(x):
        return x * 1.0


@mended("tvm-7550")
class FoldIdleDropout(Rule):
    """A dropout that is not training changes nothing."""

    source = "apache/tvm issue 7550, for an operator that draws nothing"

    def pattern(x: Float[Tensor, "n"]):
        return F.dropout(x, 0.5, False)

    def replacement(x):
        return x


@shipped("onnxslim-308", "number of outputs")
class MergeTwoOutputs(Rule):
    """Two equal outputs are one."""

    source = "inisis/OnnxSlim issue 308"

    def pattern(x: Float[Tensor, "n"]):
        return torch.relu(x), torch.relu(x)

    def replacement(x):
        return torch.relu(x)


@mended("onnxslim-308")
class ComputeTwoOutputsOnce(Rule):
    """Two equal outputs are computed once and returned twice."""

    source = "inisis/OnnxSlim issue 308, with both outputs bound"
    requires = [Requires("any size", lambda n: n >= 0)]

    def pattern(x: Float[Tensor, "n"]):
        return torch.relu(x), torch.relu(torch.relu(x))

    def replacement(x):
        y = torch.relu(x)
        return y, y
