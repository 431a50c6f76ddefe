"""Attributes that were lost or not checked, functions that do not commute, constants taken for granted."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule
from tests.wrong_rewrites.registry import mended, shipped

WIDER = Equality.REAL.allowing(Change.NAN_INF, Change.SIGNED_ZERO)


@shipped("hidet-97", "value")
class ClipWithoutBounds(Rule):
    """A clip, once fused, passes everything through."""

    source = "hidet-org/hidet issue 97"

    def pattern(x: Float[Tensor, "..."]):
        return torch.clamp(x, -1.0, 1.0)

    def replacement(x):
        return x


@mended("hidet-97")
class ClipByBothBounds(Rule):
    """A clip is the upper bound of the lower bound."""

    source = "hidet-org/hidet issue 97, with the bounds carried over"

    def pattern(x: Float[Tensor, "..."]):
        return torch.clamp(x, -1.0, 1.0)

    def replacement(x):
        return torch.clamp(torch.clamp(x, min=-1.0), max=1.0)


@shipped("onnxruntime-12517", "value")
class SoftmaxOverFlattenedAxes(Rule):
    """A softmax along axis 1 is one over axis 1 and all that follow."""

    source = "microsoft/onnxruntime issue 12517"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c d"], b: Float[Tensor, "n c d"]):
        return torch.softmax(x + b, 1)

    def replacement(x, b):
        flat = (x + b).reshape(x.shape[0], x.shape[1] * x.shape[2])
        return torch.softmax(flat, -1).reshape(x.shape[0], x.shape[1], x.shape[2])


@mended("onnxruntime-12517")
class SoftmaxOverTheLastAxis(Rule):
    """A softmax along the last axis is one over that axis and all that follow."""

    source = "microsoft/onnxruntime issue 12517, for the last axis"
    equality = WIDER

    def pattern(x: Float[Tensor, "n c"], b: Float[Tensor, "n c"]):
        return torch.softmax(x + b, 1)

    def replacement(x, b):
        return torch.softmax((x + b).reshape(x.shape[0], x.shape[1]), -1)


@shipped("onnxruntime-2776", "value")
class OneAlphaForTwo(Rule):
    """A leaky relu after a scaled product takes the last of both attributes named alpha for both."""

    source = "microsoft/onnxruntime issue 2776"

    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"], c: Float[Tensor, "n"]):
        return F.leaky_relu(torch.addmm(c, a, b, alpha=0.5), 0.125)

    def replacement(a, b, c):
        return F.leaky_relu(torch.addmm(c, a, b, alpha=0.125), 0.125)


@mended("onnxruntime-2776")
class TwoAlphas(Rule):
    """A leaky relu after a scaled product keeps both attributes named alpha."""

    source = "microsoft/onnxruntime issue 2776, with the attributes kept apart"

    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"], c: Float[Tensor, "n"]):
        return F.leaky_relu(torch.addmm(c, a, b, alpha=0.5), 0.125)

    def replacement(a, b, c):
        return F.leaky_relu(0.5 * (a @ b) + c, 0.125)


@shipped("onnxruntime-20627", "value")
class DropClipAndQuantiser(Rule):
    """A clip and a quantiser that saturates to its range can both be left out."""

    source = "microsoft/onnxruntime issue 20627"

    def pattern(x: Float[Tensor, "n"]):
        return torch.round(torch.clamp(torch.clamp(x, -1.0, 1.0) * 128.0, -128.0, 128.0)) / 128.0

    def replacement(x):
        return x


@mended("onnxruntime-20627")
class DropClipBeforeQuantiser(Rule):
    """A clip before a quantiser that saturates to its range can be left out while the quantiser stays."""

    source = "microsoft/onnxruntime issue 20627, with the quantiser kept"
    equality = Equality.REAL.allowing(Change.OVERFLOW)

    def pattern(x: Float[Tensor, "n"]):
        return torch.round(torch.clamp(torch.clamp(x, -1.0, 1.0) * 128.0, -128.0, 128.0)) / 128.0

    def replacement(x):
        return torch.round(torch.clamp(x * 128.0, -128.0, 128.0)) / 128.0


def _quantised(x, low, high):
    """x in [0, 1] rounded to 15 steps between low and high; the result has the shape of x."""
    steps = torch.round(torch.clamp(x, 0.0, 1.0) * 15.0) / 15.0
    return (steps * (high - low) + low).expand(x.shape)


@shipped("openvino-4570", "error", "shape")
class FoldBroadcastingFactorIntoRange(Rule):
    """A factor after a fake quantiser goes into its output range, also where it broadcasts the data."""

    source = "openvinotoolkit/openvino issue 4570"
    equality = WIDER

    def pattern(x: Float[Tensor, "1 n"], low: Float[Tensor, "1"], high: Float[Tensor, "1"], factor: Float[Tensor, "m n"]):
        return _quantised(x, low, high) * factor

    def replacement(x, low, high, factor):
        return _quantised(x, low * factor, high * factor)


@mended("openvino-4570")
class FoldFactorIntoRange(Rule):
    """A factor after a fake quantiser that keeps its shape goes into its output range."""

    source = "openvinotoolkit/openvino issue 4570, where the shape stays"
    equality = WIDER

    def pattern(x: Float[Tensor, "m n"], low: Float[Tensor, "1"], high: Float[Tensor, "1"], factor: Float[Tensor, "n"]):
        return _quantised(x, low, high) * factor

    def replacement(x, low, high, factor):
        return _quantised(x, low * factor, high * factor)


def _bias_gelu(x, bias):
    """A fused kernel that adds a row before the gelu."""
    if bias.ndim != 1:
        raise ValueError(f"bias must have 1 axis, got {bias.ndim}")
    return F.gelu(x + bias)


@shipped("onnxscript-2393", "error")
class FuseAnyAddendIntoGelu(Rule):
    """A gelu of a sum is the fused kernel, whatever the addend's shape."""

    source = "microsoft/onnxscript issue 2393"

    def pattern(x: Float[Tensor, "m n"], bias: Float[Tensor, "m 1"]):
        return F.gelu(bias + x)

    def replacement(x, bias):
        return _bias_gelu(x, bias)


@mended("onnxscript-2393")
class FuseRowIntoGelu(Rule):
    """A gelu of a sum with a row is the fused kernel."""

    source = "microsoft/onnxscript issue 2393, for a bias of one axis"

    def pattern(x: Float[Tensor, "m n"], bias: Float[Tensor, "n"]):
        return F.gelu(bias + x)

    def replacement(x, bias):
        return _bias_gelu(x, bias)


@shipped("pytorch-174049", "value")
class AttentionOfAnyScale(Rule):
    """A softmax of scaled products times values is the attention with its default scale."""

    source = "pytorch/pytorch issue 174049"
    equality = WIDER
    requires = [Requires("the scale is not zero", lambda scale: scale != 0)]

    def pattern(q: Float[Tensor, "b h n 4"], k: Float[Tensor, "b h m 4"], v: Float[Tensor, "b h m 4"], scale: float):
        return torch.softmax(q @ k.transpose(-1, -2) / scale, -1) @ v

    def replacement(q, k, v, scale):
        return F.scaled_dot_product_attention(q, k, v)


@mended("pytorch-174049")
class AttentionOfTheDefaultScale(Rule):
    """A softmax of products over the root of the head's size times values is the attention with its default scale."""

    source = "pytorch/pytorch issue 174049, with the scale of the head's size"
    equality = WIDER

    def pattern(q: Float[Tensor, "b h n 4"], k: Float[Tensor, "b h m 4"], v: Float[Tensor, "b h m 4"]):
        return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(4), -1) @ v

    def replacement(q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


@shipped("tensorflow-116436", "value")
class RemoveReluUnderArgmin(Rule):
    """The first smallest entry of a relu is the first smallest entry."""

    source = "tensorflow/tensorflow issue 116436"
    requires = [Requires("there is an entry", lambda n: n >= 1)]

    def pattern(x: Float[Tensor, "m n"]):
        return torch.argmin(torch.relu(x), -1)

    def replacement(x):
        return torch.argmin(x, -1)


@mended("tensorflow-116436")
class RemoveDoublingUnderArgmin(Rule):
    """The first smallest entry of the doubled numbers is the first smallest entry."""

    source = "tensorflow/tensorflow issue 116436, for a function that is strictly increasing"
    requires = [Requires("there is an entry", lambda n: n >= 1)]

    def pattern(x: Float[Tensor, "m n"]):
        return torch.argmin(x * 2.0, -1)

    def replacement(x):
        return torch.argmin(x, -1)


@shipped("tvm-2426", "value")
class MoveAnyScaleThroughRelu(Rule):
    """A channel scale before a relu goes into the weight after it."""

    source = "apache/tvm issue 2426"
    equality = WIDER

    def pattern(x: Float[Tensor, "m k"], scale: Float[Tensor, "k"], weight: Float[Tensor, "k n"]):
        return torch.relu(x * scale) @ weight

    def replacement(x, scale, weight):
        return torch.relu(x) @ (scale[:, None] * weight)


@mended("tvm-2426")
class MovePositiveScaleThroughRelu(Rule):
    """A channel scale that is not negative before a relu goes into the weight after it."""

    source = "apache/tvm issue 2426, for scales of at least 0"
    equality = WIDER
    requires = [Requires("the scale is not negative", lambda scale: scale >= 0)]

    def pattern(x: Float[Tensor, "m k"], scale: Float[Tensor, "k"], weight: Float[Tensor, "k n"]):
        return torch.relu(x * scale) @ weight

    def replacement(x, scale, weight):
        return torch.relu(x) @ (scale[:, None] * weight)
