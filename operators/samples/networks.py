"""Test data for products, convolutions, normalisations, attention, pooling, lookups, losses and collectives; see `operators.samples`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import operators.adaptive_pooling as adaptive
import operators.attention as attention
import operators.collectives as collectives
import operators.convolution as convolution
import operators.indexing as indexing
import operators.interpolation as interpolation
import operators.linear as linear
import operators.losses as losses
import operators.normalisation as normalisation
import operators.pooling as pooling
import operators.unfolding as unfolding
from operators.samples.drawing import WIDE, Case, Drawer, Row
from operators.samples.pointwise import EVERY, ROWS
from operators.samples.tensors import on

__all__ = ["ROWS"]


def _matmul(d: Drawer) -> Case:
    left, right = d.broadcastable(2)
    m, k, n = d.size(), d.size(), d.size()
    dtype = d.pick((*WIDE, "int64"))
    return Case(linear.MatMul(), [d.tensor((*left[-2:], m, k), dtype), d.tensor((*right[-2:], k, n), dtype)])


def _linear(d: Drawer) -> Case:
    k, n, dtype = d.size(), d.size(), d.pick(WIDE)
    bias = d.tensor((n,), dtype) if d.flag() else None
    return Case(linear.Linear(), [d.tensor((*d.shape(0, 2), k), dtype), d.tensor((n, k), dtype), bias])


def _add_matmul(d: Drawer) -> Case:
    batch = (d.size(),) if d.flag() else ()
    m, k, n, dtype = d.size(), d.size(), d.size(), d.pick(WIDE)
    bias = d.pick(((n,), (m, n), (1, n), (m, 1)))
    return Case(
        linear.AddMatMul(),
        [d.tensor(bias, dtype), d.tensor((*batch, m, k), dtype), d.tensor((*batch, k, n), dtype), d.pick((1, 2)), d.pick((1, 0.5))],
    )


def _einsum(d: Drawer) -> Case:
    equation = d.pick(
        ("ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->i", "i,j->ij", "bhid,bhjd->bhij", "ij,ij->", "ijk,k,j->ik", "ii->i", "ij->")
    )
    sizes = {letter: d.size() for letter in equation if letter.isalpha()}
    dtype = d.pick(WIDE)
    terms, operands = equation.partition("->")[0].split(","), []
    for position, term in enumerate(terms):
        alone = position > 0 and d.whole(0, 3) == 0
        operands.append(d.tensor([1 if alone and d.flag() else sizes[letter] for letter in term], dtype, -2, 2))
    return Case(linear.Einsum(equation), operands)


def _convolution(operator: Any) -> Callable[[Drawer], Case]:
    axes = operator.axes

    def draw(d: Drawer) -> Case:
        groups, c, o, dtype = d.whole(1, 2), d.size(1, 2), d.size(1, 2), d.pick(WIDE)
        kernel = [d.whole(1, 3 if axes < 3 else 2) for _ in range(axes)]
        stride, pad, dilation = ([d.whole(low, 2) for _ in range(axes)] for low in (1, 0, 1))
        sizes = [max(s * (k - 1) + 1 - 2 * p, 1) + d.whole(0, 2) for s, k, p in zip(dilation, kernel, pad)]
        bias = d.tensor((groups * o,), dtype) if d.flag() else None
        operands = [d.tensor((d.size(0, 2), groups * c, *sizes), dtype, -2, 2), d.tensor((groups * o, c, *kernel), dtype, -2, 2), bias]
        return Case(operator(tuple(stride), tuple(pad), tuple(dilation), groups), operands)

    return draw


def _convolution_transpose(operator: Any) -> Callable[[Drawer], Case]:
    axes = operator.axes

    def draw(d: Drawer) -> Case:
        groups, c, o, dtype = d.whole(1, 2), d.size(1, 2), d.size(1, 2), d.pick(WIDE)
        kernel = [d.whole(1, 3 if axes < 3 else 2) for _ in range(axes)]
        stride, dilation = ([d.whole(1, 2) for _ in range(axes)] for _ in range(2))
        sizes = [d.size(1, 3 if axes < 3 else 2) for _ in range(axes)]
        more = [d.whole(0, max(s, r) - 1) for s, r in zip(stride, dilation)]
        room = [(n - 1) * s + r * (k - 1) + e for n, s, r, k, e in zip(sizes, stride, dilation, kernel, more)]
        pad = [d.whole(0, min(amount // 2, 2)) for amount in room]
        bias = d.tensor((groups * o,), dtype) if d.flag() else None
        operands = [d.tensor((d.size(1, 2), groups * c, *sizes), dtype, -2, 2), d.tensor((groups * c, o, *kernel), dtype, -2, 2), bias]
        return Case(operator(tuple(stride), tuple(pad), tuple(dilation), groups, tuple(more)), operands)

    return draw


def _batch_norm(d: Drawer) -> Case:
    training, c, dtype = d.flag(), d.size(1), d.pick(WIDE)
    shape = (d.size(2 if training else 0), c, *d.shape(0, 2, 1 if training else 0))
    mean: Any = d.tensor((c,), dtype)
    var: Any = d.tensor((c,), dtype, 1, 4)
    weight, bias = (d.tensor((c,), dtype) if d.flag() else None for _ in range(2))
    if training and d.flag():
        mean, var = None, None
    momentum = 0.25 if training and mean is not None else None
    return Case(normalisation.BatchNorm(training), [d.tensor(shape, dtype), mean, var, weight, bias, momentum, 0.5])


def _last_axes(operator: Any, vectors: int) -> Callable[[Drawer], Case]:
    def draw(d: Drawer) -> Case:
        shape, dtype = d.shape(1, 3, 1), d.pick(WIDE)
        axes = d.whole(1, len(shape))
        shape = (d.size(), *shape[1:]) if axes < len(shape) else shape
        given = [d.tensor(shape[-axes:], dtype) if d.flag() else None for _ in range(vectors)]
        return Case(operator(axes), [d.tensor(shape, dtype), *given, 0.5])

    return draw


def _group_norm(d: Drawer) -> Case:
    groups, c, dtype, affine = d.whole(1, 3), d.whole(1, 2), d.pick(WIDE), d.flag()
    weight, bias = (d.tensor((groups * c,), dtype) if affine else None for _ in range(2))
    return Case(
        normalisation.GroupNorm(groups), [d.tensor((d.size(1), groups * c, d.size(2), *d.shape(0, 1, 1)), dtype), weight, bias, 0.5]
    )


def _instance_norm(d: Drawer) -> Case:
    c, dtype = d.size(1), d.pick(WIDE)
    weight, bias = (d.tensor((c,), dtype) if d.flag() else None for _ in range(2))
    return Case(normalisation.InstanceNorm(), [d.tensor((d.size(1), c, d.size(2), *d.shape(0, 1, 1)), dtype), weight, bias, 0.5])


def _attention(d: Drawer, differentiable: bool = False) -> Case:
    causal, grouped = (d.flag(), d.flag()) if not differentiable else (False, False)
    batch, heads, rows, keys, width, out, dtype = d.size(1), d.size(1, 2), d.size(1), d.size(1), d.size(1), d.size(1), d.pick(WIDE)
    mask = None
    if not causal and d.flag():
        mask = d.tensor(d.pick(((rows, keys), (1, keys), (batch, 1, rows, keys))), dtype if differentiable or d.flag() else "bool")
    repeats = d.whole(1, 2) if grouped else 1
    operands = [
        d.tensor((batch, heads * repeats, rows, width), dtype, -2, 2),
        d.tensor((batch, heads, keys, width), dtype, -2, 2),
        d.tensor((batch, heads, keys, out), dtype, -2, 2),
        mask,
        d.pick((None, 0.5)),
    ]
    return Case(attention.Attention(causal, grouped), operands)


def _pool(operator: Any) -> Callable[[Drawer], Case]:
    axes = operator.axes
    average = issubclass(operator, pooling.AveragePool)

    def draw(d: Drawer) -> Case:
        kernel = tuple(d.whole(1, 3) for _ in range(axes))
        stride = tuple(d.whole(1, 3) for _ in range(axes))
        pad = tuple(d.whole(0, k // 2) for k in kernel)
        spread = (1,) * axes if average else tuple(d.whole(1, 2) for _ in range(axes))
        beyond = not (average and axes == 3)
        sizes = tuple(max(s * (k - 1) + 1 - 2 * p * beyond, 1) + d.whole(0, 2) for s, k, p in zip(spread, kernel, pad))
        x = d.tensor((d.size(1, 2), d.size(1, 2), *sizes), d.pick(WIDE))
        if average:
            divisor = d.pick((None, None, 3)) if axes > 1 else None
            return Case(operator(kernel, stride, pad, d.flag(), d.flag(), divisor), [x])
        return Case(operator(kernel, stride, pad, d.flag(), spread), [x])

    return draw


def _adaptive(operator: Any) -> Callable[[Drawer], Case]:
    def draw(d: Drawer) -> Case:
        sizes = tuple(d.whole(1, 4) for _ in range(operator.axes))
        wanted = tuple(d.whole(1, 4) for _ in sizes)
        return Case(operator(wanted), [d.tensor((d.size(1, 2), d.size(1, 2), *sizes), d.pick(WIDE))])

    return draw


def _unfold(d: Drawer) -> Case:
    kernel, dilation, pad, stride = (tuple(d.whole(low, high) for _ in range(2)) for low, high in ((1, 3), (1, 2), (0, 2), (1, 2)))
    shape = [max(r * (k - 1) + 1 - 2 * p, 1) + d.whole(0, 2) for r, k, p in zip(dilation, kernel, pad)]
    return Case(unfolding.Unfold(kernel, dilation, pad, stride), [d.tensor((d.size(1, 2), d.size(1, 2), *shape), d.pick(WIDE))])


def _embedding(d: Drawer) -> Case:
    rows = d.size(1)
    operator = indexing.Embedding(d.whole(-1, rows - 1))
    return Case(operator, [d.tensor((rows, d.size()), d.pick(WIDE)), d.tensor(d.shape(0, 2), "int64", 0, rows - 1)])


def _gather(d: Drawer) -> Case:
    shape = d.shape(1, 3, 1)
    axis = d.axis(len(shape))
    wanted = [d.whole(0, size) for size in shape]
    wanted[axis] = d.size(0, 4)
    return Case(indexing.Gather(axis), [d.tensor(shape, d.pick(EVERY)), d.tensor(wanted, "int64", 0, shape[axis] - 1)])


def _index_select(d: Drawer) -> Case:
    shape = d.shape(1, 3, 1)
    axis = d.axis(len(shape))
    return Case(indexing.IndexSelect(axis), [d.tensor(shape, d.pick(EVERY)), d.tensor((d.size(),), "int64", 0, shape[axis] - 1)])


def _index(d: Drawer) -> Case:
    shape = d.shape(1, 3, 1)
    first = d.whole(0, len(shape) - 1)
    count = d.whole(1, min(2, len(shape) - first))
    indices = [d.tensor(given, "int64", -shape[first + k], shape[first + k] - 1) for k, given in enumerate(d.broadcastable(count))]
    return Case(indexing.Index(first), [d.tensor(shape, d.pick(EVERY)), *indices])


def _one_hot(d: Drawer) -> Case:
    classes = d.size(1)
    return Case(indexing.OneHot(classes), [d.tensor(d.shape(0, 2), "int64", 0, classes - 1)])


def _top_k(d: Drawer) -> Case:
    shape = d.shape(1, 2, 1)
    axis = d.axis(len(shape))
    x = d.tensor(shape, d.pick(WIDE))
    distinct = x + (x.shape[axis] - 1 - x.argsort(axis).argsort(axis)).to(x.dtype) * -16
    return Case(indexing.TopK(d.whole(0, shape[axis]), axis), [distinct])


def _interpolate(d: Drawer) -> Case:
    mode = d.pick(("nearest", "nearest-exact", "linear", "bilinear", "trilinear"))
    axes = {"linear": 1, "bilinear": 2, "trilinear": 3}.get(mode, 2)
    sizes = tuple(d.whole(1, 4) for _ in range(axes))
    corners = not mode.startswith("nearest") and d.flag()
    x = d.tensor((d.size(1, 2), 1, *sizes), d.pick(WIDE))
    if d.flag() and not corners:
        scales = tuple(d.pick((0.5, 1.5, 2.0)) for _ in sizes)
        wanted = tuple(int(size * scale) for size, scale in zip(sizes, scales))
        if all(wanted):
            return Case(interpolation.Interpolate(wanted, mode, False, scales), [x])
    return Case(interpolation.Interpolate(tuple(d.whole(1, 5) for _ in sizes), mode, corners), [x])


def _mean_squared_error(d: Drawer) -> Case:
    shape, dtype = d.shape(), d.pick(WIDE)
    return Case(losses.MeanSquaredError(d.pick(("mean", "sum", "none"))), [d.tensor(shape, dtype), d.tensor(shape, dtype)])


def _smooth_l1(d: Drawer) -> Case:
    shape, dtype = d.shape(), d.pick(WIDE)
    return Case(losses.SmoothL1Loss(d.pick(("mean", "sum", "none")), d.pick((1.0, 1.5))), [d.tensor(shape, dtype), d.tensor(shape, dtype)])


def _huber(d: Drawer) -> Case:
    shape, dtype = d.shape(), d.pick(WIDE)
    return Case(losses.HuberLoss(d.pick(("mean", "sum", "none")), d.pick((1.0, 1.5))), [d.tensor(shape, dtype), d.tensor(shape, dtype)])


def _cross_entropy(d: Drawer) -> Case:
    classes = d.size(1)
    rest = d.shape(0, 2, 1)
    x, target = (d.size(1), classes, *rest), d.flag()
    shape = (x[0], *rest)
    if target and not rest:
        x, shape = (classes,), ()
    return Case(
        losses.CrossEntropy(d.pick(("mean", "sum", "none")), -1), [d.tensor(x, d.pick(WIDE)), d.tensor(shape, "int64", -1, classes - 1)]
    )


def _cross_entropy_of_probabilities(d: Drawer) -> Case:
    x = d.pick(((d.size(1),), (d.size(1), d.size(1), *d.shape(0, 2, 1))))
    dtype = d.pick(WIDE)
    return Case(losses.CrossEntropyOfProbabilities(d.pick(("mean", "sum", "none"))), [d.tensor(x, dtype), d.tensor(x, dtype)])


def _with_devices(make: Callable[[Drawer, tuple[int, ...]], Any], multiple: bool = False) -> Callable[[Drawer], Case]:
    def draw(d: Drawer) -> Case:
        devices = d.size(1)
        shape = list(d.shape(1, 2))
        operator = make(d, (devices, *shape))
        if multiple:
            shape[operator.axis] *= devices
        whole = shape if isinstance(operator, collectives.Shard) else (devices, *shape)
        return Case(operator, [d.tensor(whole, d.pick((*WIDE, "int64")))])

    return draw


def _with_axis(operator: Any) -> Callable[[Drawer, tuple[int, ...]], Any]:
    return lambda d, shape: operator(d.axis(len(shape) - 1))


ROWS |= {
    "MatMul": Row(_matmul),
    "Linear": Row(_linear),
    "AddMatMul": Row(_add_matmul),
    "Einsum": Row(_einsum),
    "BatchNorm": Row(_batch_norm, exact=False, undifferentiable=(1, 2)),
    "LayerNorm": Row(_last_axes(normalisation.LayerNorm, 2), exact=False),
    "RMSNorm": Row(_last_axes(normalisation.RMSNorm, 1), exact=False),
    "GroupNorm": Row(_group_norm, exact=False),
    "InstanceNorm": Row(_instance_norm, exact=False),
    "Attention": Row(_attention, exact=False),
    "Embedding": Row(_embedding),
    "Unfold": Row(_unfold),
    "Gather": Row(_gather),
    "IndexSelect": Row(_index_select),
    "Index": Row(_index),
    "OneHot": Row(_one_hot),
    "TopK": Row(_top_k),
    "Interpolate": Row(_interpolate, exact=False),
    "MeanSquaredError": Row(_mean_squared_error, exact=False),
    "SmoothL1Loss": Row(_smooth_l1, exact=False),
    "HuberLoss": Row(_huber, exact=False),
    "CrossEntropy": Row(_cross_entropy, exact=False),
    "CrossEntropyOfProbabilities": Row(_cross_entropy_of_probabilities, exact=False),
    "AllReduce": Row(_with_devices(lambda d, shape: collectives.AllReduce(d.pick(("sum", "max"))))),
    "AllGather": Row(_with_devices(_with_axis(collectives.AllGather))),
    "ReduceScatter": Row(_with_devices(_with_axis(collectives.ReduceScatter), multiple=True)),
    "Shard": Row(_with_devices(lambda d, shape: collectives.Shard(shape[0], d.axis(len(shape) - 1)), multiple=True)),
    "Replicate": Row(on(lambda d, shape: collectives.Replicate(d.size()))),
}
for _operator in (convolution.Conv1d, convolution.Conv2d, convolution.Conv3d):
    ROWS[_operator.__name__] = Row(_convolution(_operator), empty_gradient=False)
for _transpose in (convolution.ConvTranspose1d, convolution.ConvTranspose2d, convolution.ConvTranspose3d):
    ROWS[_transpose.__name__] = Row(_convolution_transpose(_transpose))
for _rank in (1, 2, 3):
    for _name in (f"MaxPool{_rank}d", f"AvgPool{_rank}d"):
        ROWS[_name] = Row(_pool(getattr(pooling, _name)), exact=False)
    for _name in (f"AdaptiveAvgPool{_rank}d", f"AdaptiveMaxPool{_rank}d"):
        ROWS[_name] = Row(_adaptive(getattr(adaptive, _name)), exact=False)
