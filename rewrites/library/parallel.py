"""Work split over devices or over micro-batches.

A tensor with an explicit first axis holds what each of the p devices has; shard cuts a tensor for them, replicate copies it,
all_gather joins the parts, all_reduce sums them, reduce_scatter sums and cuts. Columns of a matrix give columns of the
product, and rows add up to it: x·[A B] = [x·A x·B], [x y]·[A; B] = x·A + y·B. Only what acts on samples alone may be split
into micro-batches; the statistics of a batch may not.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from operators.collectives import all_gather, all_reduce, reduce_scatter, replicate, shard
from rewrites import Change, Equality, Requires, Rule

Unary = Literal["relu", "sigmoid", "tanh", "exp", "neg", "abs"]
Activation = Literal["relu", "gelu", "silu"]

reordered = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)
some_device = Requires("there is at least one device", lambda p: p >= 1)


class AllReduceOfSum(Rule):
    """The sum of two all-reduced tensors is the all-reduced sum."""

    source = "linearity"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "p *s"], y: Float[Tensor, "p *s"]):
        return all_reduce(x) + all_reduce(y)

    def replacement(x, y):
        return all_reduce(x + y)


class AllReduceOfScaled(Rule):
    """A scalar factor comes out of an all-reduce."""

    source = "linearity"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "p *s"], factor: float):
        return all_reduce(x * factor)

    def replacement(x, factor):
        return all_reduce(x) * factor


class AllReduceOfConcatenation(Rule):
    """All-reduced tensors, side by side, are the all-reduce of the tensors side by side: one message instead of two."""

    source = "Li et al. 2020 (PyTorch DDP), section 3.2.2"
    equality = Equality.REAL
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "p *s k"], y: Float[Tensor, "p *s l"]):
        return torch.cat((all_reduce(x), all_reduce(y)), -1)

    def replacement(x, y):
        return all_reduce(torch.cat((x, y), -1))


class AllReduceAsScatterAndGather(Rule):
    """Summing and cutting, then joining the slices, is the sum on every device."""

    source = "Thakur, Rabenseifner and Gropp 2005, section 4.4"
    equality = Equality.REAL
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "p *s p*k"]):
        return all_gather(reduce_scatter(x, -1), -1)

    def replacement(x):
        return all_reduce(x)


class GatherOfShard(Rule):
    """Cutting a tensor for the devices and joining the slices gives every device the tensor."""

    source = "definition of the collectives"
    equality = Equality.BITWISE
    trainable = True

    def pattern(x: Float[Tensor, "*s p*k"], p: int):
        return all_gather(shard(x, p, -1), -1)

    def replacement(x, p):
        return replicate(x, p)


class ReplicatedAsGatherOfShard(Rule):
    """A tensor on every device is cut for the devices, and the slices are joined."""

    source = "definition of the collectives"
    equality = Equality.BITWISE
    trainable = True
    requires = [some_device]

    def pattern(x: Float[Tensor, "*s p*k"], p: int):
        return replicate(x, p)

    def replacement(x, p):
        return all_gather(shard(x, p, -1), -1)


class AllReduceOfReplicated(Rule):
    """Summing the copies on all devices multiplies by their number."""

    source = "definition of the collectives"
    equality = reordered
    trainable = True

    def pattern(x: Float[Tensor, "*s"], p: int):
        return all_reduce(replicate(x, p))

    def replacement(x, p):
        return replicate(x * p, p)


class FunctionMovesPastGather(Rule):
    """A pointwise function may come before or after joining the devices' parts; before, each device does its share."""

    source = "pointwise functions act on single elements"
    equality = Equality.REAL
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "p *s k"], function: Unary):
        return getattr(torch, function)(all_gather(x, -1))

    def replacement(x, function):
        return all_gather(getattr(torch, function)(x), -1)


class FunctionMovesPastShard(Rule):
    """A pointwise function may come before or after cutting a tensor for the devices."""

    source = "pointwise functions act on single elements"
    equality = Equality.REAL
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s p*k"], p: int, function: Unary):
        return shard(getattr(torch, function)(x), p, -1)

    def replacement(x, p, function):
        return getattr(torch, function)(shard(x, p, -1))


class FunctionMovesPastReplicate(Rule):
    """A pointwise function may come before or after copying a tensor to the devices."""

    source = "pointwise functions act on single elements"
    equality = Equality.REAL
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s"], p: int, function: Unary):
        return replicate(getattr(torch, function)(x), p)

    def replacement(x, p, function):
        return getattr(torch, function)(replicate(x, p))


class ColumnParallelMatMul(Rule):
    """Each device multiplies by its columns, and the columns of the product are joined."""

    source = "Shoeybi et al. 2019 (Megatron-LM), section 3"
    requires = [some_device]
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "m k"], w: Float[Tensor, "k p*n"], p: int):
        return replicate(torch.matmul(x, w), p)

    def replacement(x, w, p):
        return all_gather(torch.matmul(replicate(x, p), shard(w, p, -1)), -1)


class RowParallelMatMul(Rule):
    """Each device multiplies its columns by its rows, and the products are added up."""

    source = "Shoeybi et al. 2019 (Megatron-LM), section 3"
    equality = reordered
    requires = [some_device]
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "m p*k"], w: Float[Tensor, "p*k n"], p: int):
        return replicate(torch.matmul(x, w), p)

    def replacement(x, w, p):
        return all_reduce(torch.matmul(shard(x, p, -1), shard(w, p, -2)))


class ParallelPerceptron(Rule):
    """Two layers are split by columns and then by rows, with one sum at the end: the activation between acts on single elements."""

    source = "Shoeybi et al. 2019 (Megatron-LM), section 3, figure 3a"
    equality = reordered
    requires = [some_device]
    trainable = True

    def pattern(x: Float[Tensor, "m k"], a: Float[Tensor, "k p*n"], b: Float[Tensor, "p*n o"], p: int, activation: Activation):
        return replicate(torch.matmul(getattr(F, activation)(torch.matmul(x, a)), b), p)

    def replacement(x, a, b, p, activation):
        hidden = getattr(F, activation)(torch.matmul(replicate(x, p), shard(a, p, -1)))
        return all_reduce(torch.matmul(hidden, shard(b, p, -2)))


class ParallelGatedPerceptron(Rule):
    """A gated pair of layers is split by columns and the last by rows, with one sum at the end."""

    source = "Shazeer 2020 (GLU variants); Touvron et al. 2023 (Llama)"
    equality = reordered
    requires = [some_device]
    trainable = True

    def pattern(x: Float[Tensor, "m k"], gate: Float[Tensor, "k p*n"], up: Float[Tensor, "k p*n"], down: Float[Tensor, "p*n o"], p: int):
        return replicate(torch.matmul(F.silu(torch.matmul(x, gate)) * torch.matmul(x, up), down), p)

    def replacement(x, gate, up, down, p):
        copies = replicate(x, p)
        gated = F.silu(torch.matmul(copies, shard(gate, p, -1))) * torch.matmul(copies, shard(up, p, -1))
        return all_reduce(torch.matmul(gated, shard(down, p, -2)))


class HeadParallelAttention(Rule):
    """Each device attends with its heads, and the heads are joined."""

    source = "Shoeybi et al. 2019 (Megatron-LM), section 3, figure 3b"
    equality = reordered
    requires = [some_device]
    trainable = True

    def pattern(q: Float[Tensor, "b p*h l d"], k: Float[Tensor, "b p*h s d"], v: Float[Tensor, "b p*h s e"], scale: float, p: int):
        return replicate(F.scaled_dot_product_attention(q, k, v, scale=scale), p)

    def replacement(q, k, v, scale, p):
        heads = [shard(tensor, p, -3) for tensor in (q, k, v)]
        return all_gather(F.scaled_dot_product_attention(*heads, scale=scale), -3)


class QueryParallelAttention(Rule):
    """Each device attends with its queries to all keys, and the queries are joined."""

    source = "Li et al. 2023 (sequence parallelism), section 3"
    equality = reordered
    requires = [some_device]
    trainable = True

    def pattern(q: Float[Tensor, "b p*l d"], k: Float[Tensor, "b s d"], v: Float[Tensor, "b s e"], scale: float, p: int):
        return replicate(F.scaled_dot_product_attention(q, k, v, scale=scale), p)

    def replacement(q, k, v, scale, p):
        part = F.scaled_dot_product_attention(shard(q, p, -2), replicate(k, p), replicate(v, p), scale=scale)
        return all_gather(part, -2)


class SequenceParallelLayerNorm(Rule):
    """Each device normalises its rows, and the rows are joined."""

    source = "Korthikanti et al. 2022 (sequence parallelism), section 4.2.2"
    equality = reordered
    requires = [some_device]
    trainable = True

    def pattern(x: Float[Tensor, "p*m c"], gamma: Float[Tensor, "c"], beta: Float[Tensor, "c"], eps: float, p: int):
        return replicate(F.layer_norm(x, (x.shape[-1],), gamma, beta, eps), p)

    def replacement(x, gamma, beta, eps, p):
        return all_gather(F.layer_norm(shard(x, p, -2), (x.shape[-1],), gamma, beta, eps), -2)


class SequenceParallelMatMul(Rule):
    """Rows of a product summed over devices are left where their slice belongs, instead of being gathered everywhere."""

    source = "Korthikanti et al. 2022 (sequence parallelism), section 4.2.2"
    equality = reordered
    trainable = True

    def pattern(x: Float[Tensor, "p*m p*k"], w: Float[Tensor, "p*k n"], p: int):
        return shard(torch.matmul(x, w), p, -2)

    def replacement(x, w, p):
        return reduce_scatter(torch.matmul(shard(x, p, -1), shard(w, p, -2)), -2)


class BatchParallelMatMul(Rule):
    """Each device multiplies its samples, and the samples are joined."""

    source = "Krizhevsky 2014, section 2: data parallelism"
    requires = [some_device]
    trainable = True

    def pattern(x: Float[Tensor, "p*m k"], w: Float[Tensor, "k n"], p: int):
        return replicate(torch.matmul(x, w), p)

    def replacement(x, w, p):
        return all_gather(torch.matmul(shard(x, p, -2), replicate(w, p)), -2)


class DataParallelGradient(Rule):
    """The gradient of a weight is the sum of the gradients from each device's samples."""

    source = "Krizhevsky 2014, section 2: data parallelism"
    equality = reordered
    requires = [some_device]
    trainable = True

    def pattern(x: Float[Tensor, "p*m k"], gradient: Float[Tensor, "p*m n"], p: int):
        return replicate(torch.matmul(x.transpose(-1, -2), gradient), p)

    def replacement(x, gradient, p):
        return all_reduce(torch.matmul(shard(x, p, -2).transpose(-1, -2), shard(gradient, p, -2)))


class DataParallelMean(Rule):
    """The mean over all samples is the mean of the devices' means, as each has equally many."""

    source = "Goyal et al. 2017, section 3"
    equality = reordered
    requires = [some_device]
    trainable = True

    def pattern(x: Float[Tensor, "p*m k"], p: int):
        return replicate(x.mean(0), p)

    def replacement(x, p):
        return all_reduce(shard(x, p, -2).mean(-2)) / p


class ParallelMaximum(Rule):
    """The maximum of a row is the maximum of the devices' maxima."""

    source = "Shoeybi et al. 2019 (Megatron-LM), the parallel cross entropy"
    equality = Equality.BITWISE.allowing(Change.SIGNED_ZERO)

    def pattern(x: Float[Tensor, "m p*k"], p: int):
        return replicate(x.amax(-1), p)

    def replacement(x, p):
        return all_reduce(shard(x, p, -1).amax(-1), "max")


class ExpertParallelSum(Rule):
    """The weighted sum of experts is the sum of the weighted sums of each device's experts."""

    source = "Lepikhin et al. 2021 (GShard), section 3.2"
    equality = reordered
    requires = [some_device]
    trainable = True

    def pattern(gates: Float[Tensor, "p*e n 1"], experts: Float[Tensor, "p*e n d"], p: int):
        return replicate((gates * experts).sum(0), p)

    def replacement(gates, experts, p):
        return all_reduce((shard(gates, p, -3) * shard(experts, p, -3)).sum(1))


class GatherMovesPastMatMul(Rule):
    """Rows may be joined before or after they are multiplied by one matrix; before, each device multiplies its own."""

    source = "rows of a product are independent"
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "p m k"], w: Float[Tensor, "k n"]):
        return torch.matmul(all_gather(x, -2), w)

    def replacement(x, w):
        return all_gather(torch.matmul(x, w), -2)


class SumMovesPastMatMul(Rule):
    """Parts may be summed over the devices before or after they are multiplied by one matrix."""

    source = "linearity"
    equality = reordered
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "p m k"], w: Float[Tensor, "k n"]):
        return torch.matmul(all_reduce(x), w)

    def replacement(x, w):
        return all_reduce(torch.matmul(x, w))
