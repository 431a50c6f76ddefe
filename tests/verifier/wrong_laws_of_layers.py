"""Laws that are wrong, of layers: attention, convolutions, norms, linear layers, pools. None may ever be proved."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Requires
from tests.verifier.wrong_laws import WrongLaw


class CausalIsNotCausal(WrongLaw):
    """Masking the future changes nothing."""

    def pattern(q: Float[Tensor, "h n d"], k: Float[Tensor, "h n d"], v: Float[Tensor, "h n e"]):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def replacement(q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


class ScaleOfValuesIsScaleOfQueries(WrongLaw):
    """A factor of the values may be given to the queries."""

    def pattern(q: Float[Tensor, "h n d"], k: Float[Tensor, "h m d"], v: Float[Tensor, "h m e"]):
        return F.scaled_dot_product_attention(q, k, 2 * v)

    def replacement(q, k, v):
        return F.scaled_dot_product_attention(2 * q, k, v)


class TemperatureOutOfSoftmax(WrongLaw):
    """softmax(2 x) = 2 softmax(x)."""

    def pattern(x: Float[Tensor, "m n"]):
        return torch.softmax(2 * x, -1)

    def replacement(x):
        return 2 * torch.softmax(x, -1)


class TransposedConvolutionIsConvolution(WrongLaw):
    """A transposed convolution is the convolution by the exchanged kernel, whatever the stride."""

    def pattern(x: Float[Tensor, "n c w"], weight: Float[Tensor, "c o k"], stride: int):
        return F.conv_transpose1d(x, weight, None, 1)[..., :1]

    def replacement(x, weight, stride):
        return F.conv1d(F.pad(x, (0, weight.shape[2] - 1)), weight.transpose(0, 1), None, 1)[..., :1]


class PaddingAfterBias(WrongLaw):
    """A padded pointwise convolution is the padded result, although the bias reaches the border."""

    def pattern(x: Float[Tensor, "n c h w"], weight: Float[Tensor, "o c 1 1"], bias: Float[Tensor, "o"]):
        return F.conv2d(x, weight, bias, 1, 1)

    def replacement(x, weight, bias):
        return F.pad(F.conv2d(x, weight, bias), (1, 1, 1, 1))


class DilationIsStride(WrongLaw):
    """A dilated kernel of one tap is a strided one."""

    requires = [Requires("there are three positions", lambda w: w >= 3)]

    def pattern(x: Float[Tensor, "n c w"], weight: Float[Tensor, "o c 2"]):
        return F.conv1d(x, weight, None, 1, 0, 2)

    def replacement(x, weight):
        return F.conv1d(x, weight)[..., : x.shape[2] - 2]


class ConvolutionsOfTwoKernels(WrongLaw):
    """Two convolutions in a row are one by the sum of the kernels."""

    def pattern(x: Float[Tensor, "n c w"], a: Float[Tensor, "c c 1"], b: Float[Tensor, "c c 1"]):
        return F.conv1d(F.conv1d(x, a), b)

    def replacement(x, a, b):
        return F.conv1d(x, a + b)


class ConvolutionsInTheOtherOrder(WrongLaw):
    """Pointwise convolutions commute."""

    def pattern(x: Float[Tensor, "n c w"], a: Float[Tensor, "c c 1"], b: Float[Tensor, "c c 1"]):
        return F.conv1d(F.conv1d(x, a), b)

    def replacement(x, a, b):
        return F.conv1d(F.conv1d(x, b), a)


class LayerNormOfFeatureShift(WrongLaw):
    """A shift by feature does not change a layer norm."""

    def pattern(x: Float[Tensor, "m n"], b: Float[Tensor, "n"]):
        return F.layer_norm(x + b, (x.shape[1],))

    def replacement(x, b):
        return F.layer_norm(x, (x.shape[1],))


class LayerNormTwice(WrongLaw):
    """A layer norm of a layer norm is itself."""

    def pattern(x: Float[Tensor, "m n"]):
        return F.layer_norm(F.layer_norm(x, (x.shape[1],)), (x.shape[1],))

    def replacement(x):
        return F.layer_norm(x, (x.shape[1],))


class RmsNormIsLayerNorm(WrongLaw):
    """RMS norm is layer norm."""

    def pattern(x: Float[Tensor, "m n"]):
        return F.rms_norm(x, (x.shape[1],), None, 0.5)

    def replacement(x):
        return F.layer_norm(x, (x.shape[1],), None, None, 0.5)


class TriangleOfProduct(WrongLaw):
    """The triangle of a product is the product of the triangles."""

    def pattern(a: Float[Tensor, "n n"], b: Float[Tensor, "n n"]):
        return torch.tril(a @ b)

    def replacement(a, b):
        return torch.tril(a) @ torch.tril(b)


class ContractionWithTransposedResult(WrongLaw):
    """Letters of the result in the other order are the same matrix."""

    def pattern(a: Float[Tensor, "n n"], b: Float[Tensor, "n n"]):
        return torch.einsum("ij,jk->ki", a, b)

    def replacement(a, b):
        return a @ b


class BiasLeftUnscaled(WrongLaw):
    """s (x W + b) = x (s W) + b."""

    def pattern(x: Float[Tensor, "m k"], w: Float[Tensor, "n k"], b: Float[Tensor, "n"], s: float):
        return F.linear(x, w, b) * s

    def replacement(x, w, b, s):
        return F.linear(x, w * s, b)


class LoraInTheOtherOrder(WrongLaw):
    """x (W + A B) = x W + (x B) A for square factors."""

    def pattern(x: Float[Tensor, "m n"], w: Float[Tensor, "n n"], a: Float[Tensor, "n n"], b: Float[Tensor, "n n"]):
        return x @ (w + a @ b)

    def replacement(x, w, a, b):
        return x @ w + (x @ b) @ a


class KeysForQueries(WrongLaw):
    """Queries and keys may change places."""

    def pattern(x: Float[Tensor, "n c"], q: Float[Tensor, "d c"], k: Float[Tensor, "d c"]):
        return F.linear(x, q) @ F.linear(x, k).t()

    def replacement(x, q, k):
        return F.linear(x, k) @ F.linear(x, q).t()


class BiasOnEveryDevice(WrongLaw):
    """Each of two devices may add the bias before the sum."""

    def pattern(
        x: Float[Tensor, "m k"], y: Float[Tensor, "m k"], a: Float[Tensor, "n k"], b: Float[Tensor, "n k"], bias: Float[Tensor, "n"]
    ):
        return F.linear(torch.cat((x, y), 1), torch.cat((a, b), 1), bias)

    def replacement(x, y, a, b, bias):
        return F.linear(x, a, bias) + F.linear(y, b, bias)


class OddKernelAnyStride(WrongLaw):
    """Padding of half an odd kernel keeps the size, whatever the stride."""

    requires = [Requires("the stride is positive", lambda stride, w: stride >= 1 and w >= 1)]

    def pattern(x: Float[Tensor, "n c w"], stride: int):
        return F.max_pool1d(x, 3, stride, 1)

    def replacement(x, stride):
        return F.max_pool1d(x, 3, 1, 1)[..., : (x.shape[2] - 1) // stride + 1]


class PixelsShuffledTheOtherWay(WrongLaw):
    """Pixels of an upscaled image come from the channels in the other order."""

    def pattern(x: Float[Tensor, "n 4 h w"]):
        return F.pixel_shuffle(x, 2)

    def replacement(x):
        return F.pixel_shuffle(
            x.reshape(x.shape[0], 2, 2, x.shape[2], x.shape[3]).transpose(1, 2).reshape(x.shape[0], 4, x.shape[2], x.shape[3]), 2
        )
