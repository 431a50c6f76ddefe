"""Six rewrites that look right and are not; `rewright verify examples/wrong_rules.py` refutes each with a smallest counterexample."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Pair, Requires, Rule, Weight


class FoldBatchNormWithTrainingLeftOpen(Rule):
    """A batch norm after a convolution is that convolution with scaled kernels and a shifted bias, in training as well."""

    source = "Ioffe and Szegedy 2015, section 3.1, without its precondition"

    def pattern(
        x: Float[Tensor, "n groups*c h w"],
        weight: Weight[Float[Tensor, "groups*o c kh kw"]],
        bias: Weight[Float[Tensor, "groups*o"]],
        gamma: Weight[Float[Tensor, "groups*o"]],
        beta: Weight[Float[Tensor, "groups*o"]],
        mean: Weight[Float[Tensor, "groups*o"]],
        var: Weight[Float[Tensor, "groups*o"]],
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        groups: int,
        eps: float,
        training: bool,
    ):
        y = F.conv2d(x, weight, bias, stride, padding, dilation, groups)
        return F.batch_norm(y, mean, var, gamma, beta, training, 0.1, eps)

    def replacement(x, weight, bias, gamma, beta, mean, var, stride, padding, dilation, groups, eps, training):
        scale = gamma * torch.rsqrt(var + eps)
        return F.conv2d(x, weight * scale[:, None, None, None], (bias - mean) * scale + beta, stride, padding, dilation, groups)


class MergeActivatedConvolutions(Rule):
    """The sum of two rectified convolutions of one input is the rectified convolution by the sum of their kernels."""

    source = "an overreaching reading of linearity: relu is not additive"

    def pattern(
        x: Float[Tensor, "n c h w"],
        a: Weight[Float[Tensor, "o c kh kw"]],
        b: Weight[Float[Tensor, "o c kh kw"]],
        stride: Pair,
        padding: Pair,
    ):
        return torch.relu(F.conv2d(x, a, None, stride, padding)) + torch.relu(F.conv2d(x, b, None, stride, padding))

    def replacement(x, a, b, stride, padding):
        return torch.relu(F.conv2d(x, a + b, None, stride, padding))


class MergeKernelsWithoutEnlarging(Rule):
    """The sum of a 3x3 and a 1x1 convolution of one input is the 3x3 convolution by the sum of their kernels."""

    source = "RepVGG (Ding et al. 2021, section 3.3) without padding the 1x1 kernel with zeros"

    def pattern(x: Float[Tensor, "n c h w"], a: Weight[Float[Tensor, "o c 3 3"]], b: Weight[Float[Tensor, "o c 1 1"]]):
        return F.conv2d(x, a, None, 1, 1) + F.conv2d(x, b)

    def replacement(x, a, b):
        return F.conv2d(x, a + b, None, 1, 1)


class SplitRowsBeforeActivation(Rule):
    """A rectified product may be computed from halves of the contracted dim, each half rectified before the sum."""

    source = "tensor parallelism (Shoeybi et al. 2019, section 3) with the activation on the wrong side of the reduction"

    def pattern(x: Float[Tensor, "m k"], y: Float[Tensor, "m l"], a: Weight[Float[Tensor, "k n"]], b: Weight[Float[Tensor, "l n"]]):
        return torch.relu(torch.cat([x, y], 1) @ torch.cat([a, b], 0))

    def replacement(x, y, a, b):
        return torch.relu(x @ a) + torch.relu(y @ b)


class ConcatenateGroupedConvolutions(Rule):
    """Two grouped convolutions of one input, concatenated, are one grouped convolution by the concatenated kernels."""

    source = "the merge of parallel convolutions (TASO, Jia et al. 2019) without its condition groups = 1"
    requires = [Requires("there is at least one group", lambda groups: groups >= 1)]

    def pattern(
        x: Float[Tensor, "n groups*c h w"],
        a: Weight[Float[Tensor, "groups*o c kh kw"]],
        b: Weight[Float[Tensor, "groups*p c kh kw"]],
        padding: Pair,
        groups: int,
    ):
        return torch.cat([F.conv2d(x, a, None, 1, padding, 1, groups), F.conv2d(x, b, None, 1, padding, 1, groups)], 1)

    def replacement(x, a, b, padding, groups):
        return F.conv2d(x, torch.cat([a, b], 0), None, 1, padding, 1, groups)


class EnlargeKernelWithoutPadding(Rule):
    """A convolution by a 1x1 kernel is the convolution by that kernel in the middle of a 3x3 one, at the same padding."""

    source = "kernel enlargement (TASO, Jia et al. 2019) without adjusting the padding"

    def pattern(x: Float[Tensor, "n c h w"], weight: Weight[Float[Tensor, "o c 1 1"]], padding: Pair):
        return F.conv2d(x, weight, None, 1, padding)

    def replacement(x, weight, padding):
        return F.conv2d(x, F.pad(weight, (1, 1, 1, 1)), None, 1, padding)
