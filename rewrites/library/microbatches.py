"""A batch split into micro-batches and joined again.

What acts on samples alone gives the same for parts of a batch as for the whole: linear layers, layer norms, softmax, batch
norms with running statistics. The statistics of a batch are those of all its samples, so a batch norm in training may not
be split; a mean over samples may, if the parts are weighted by their sizes.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule

reordered = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)


class MicrobatchesOfLinear(Rule):
    """A linear layer of two micro-batches joined is its results joined."""

    source = "Huang et al. 2019 (GPipe), section 2.2"
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "n *s k"], y: Float[Tensor, "m *s k"], weight: Float[Tensor, "o k"], bias: Float[Tensor, "o"]):
        return torch.cat((F.linear(x, weight, bias), F.linear(y, weight, bias)))

    def replacement(x, y, weight, bias):
        return F.linear(torch.cat((x, y)), weight, bias)


class MicrobatchesOfBatchNorm(Rule):
    """A batch norm of two micro-batches joined is its results joined, if it uses running statistics and not the batch's own."""

    source = "Huang et al. 2019 (GPipe), section 2.2"
    requires = [Requires("the batch norm uses running statistics", lambda training: training == False)]  # noqa: E712
    bidirectional = True

    def pattern(x: Float[Tensor, "n c h w"], y: Float[Tensor, "m c h w"], mean: Float[Tensor, "c"], var: Float[Tensor, "c"],
                gamma: Float[Tensor, "c"], beta: Float[Tensor, "c"], eps: float, training: bool):  # fmt: skip
        first = F.batch_norm(x, mean, var, gamma, beta, training, 0.1, eps)
        return torch.cat((first, F.batch_norm(y, mean, var, gamma, beta, training, 0.1, eps)))

    def replacement(x, y, mean, var, gamma, beta, eps, training):
        return F.batch_norm(torch.cat((x, y)), mean, var, gamma, beta, training, 0.1, eps)


class MicrobatchesOfLayerNorm(Rule):
    """A layer norm of two micro-batches joined is its results joined."""

    source = "Ba et al. 2016, section 3"
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "n *s c"], y: Float[Tensor, "m *s c"], gamma: Float[Tensor, "c"], beta: Float[Tensor, "c"], eps: float):
        first = F.layer_norm(x, (x.shape[-1],), gamma, beta, eps)
        return torch.cat((first, F.layer_norm(y, (y.shape[-1],), gamma, beta, eps)))

    def replacement(x, y, gamma, beta, eps):
        return F.layer_norm(torch.cat((x, y)), (x.shape[-1],), gamma, beta, eps)


class MicrobatchesOfSoftmax(Rule):
    """A softmax along rows of two micro-batches joined is its results joined."""

    source = "Huang et al. 2019 (GPipe), section 2.2"
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "n *s k"], y: Float[Tensor, "m *s k"]):
        return torch.cat((torch.softmax(x, -1), torch.softmax(y, -1)))

    def replacement(x, y):
        return torch.softmax(torch.cat((x, y)), -1)


class MeanOverMicrobatches(Rule):
    """The mean over two micro-batches joined is the mean of their means, weighted by their sizes."""

    source = "Goyal et al. 2017, section 3: averaging over unequal batches weights them"
    equality = reordered
    requires = [Requires("neither micro-batch is empty", lambda n, m: n >= 1 and m >= 1)]
    trainable = True

    def pattern(x: Float[Tensor, "n *s"], y: Float[Tensor, "m *s"]):
        return torch.cat((x, y)).mean(0)

    def replacement(x, y):
        n, m = x.shape[0], y.shape[0]
        return (x.mean(0) * n + y.mean(0) * m) / (n + m)
