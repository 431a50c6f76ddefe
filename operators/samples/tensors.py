"""Test data for layouts, reductions and the softmax family; see `operators.samples`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import operators.arranging as arranging
import operators.casts as casts
import operators.extremes as extremes
import operators.joining as joining
import operators.layout as layout
import operators.padding as padding
import operators.reductions as reductions
import operators.softmax as softmax
import operators.spreads as spreads
from operators.samples.drawing import WIDE, Case, Drawer, Row
from operators.samples.pointwise import EVERY, NUMBERS, ROWS


def on(
    make: Callable[[Drawer, tuple[int, ...]], Any], dtypes: Any = EVERY, low: int = 0, smallest: int = 0, high: int = 3
) -> Callable[[Drawer], Case]:
    """One tensor of a drawn shape, and the operator that `make` gives for the shape."""

    def draw(d: Drawer) -> Case:
        shape = d.shape(low, high, smallest)
        return Case(make(d, shape), [d.tensor(shape, d.pick(dtypes))])

    return draw


def _factorised(d: Drawer, count: int) -> tuple[int, ...]:
    """Some shape of this many elements."""
    if count == 0:
        return (0, d.size(1))
    result = []
    for factor in (2, 3):
        while count % factor == 0 and d.flag():
            result.append(factor)
            count //= factor
    return (*result, count, *((1,) if d.flag() else ()))


def _count(shape: tuple[int, ...]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result


def _permutation(d: Drawer, shape: tuple[int, ...]) -> Any:
    order = list(range(-len(shape), 0))
    if d.flag():  # most permutations of few axes are their own inverse, and rotations are not
        return layout.Permute.of([*order[1:], *order[:1]])
    for position in range(len(order) - 1, 0, -1):
        other = d.whole(0, position)
        order[position], order[other] = order[other], order[position]
    return layout.Permute.of(order)


def _expand(d: Drawer) -> Case:
    size = d.shape()
    start = d.whole(0, len(size))
    shape = tuple(1 if d.flag() else dim for dim in size[start:])
    return Case(layout.Expand(size), [d.tensor(shape, d.pick(EVERY))])


def _slice(d: Drawer, shape: tuple[int, ...]) -> Any:
    axis = d.axis(len(shape))
    start = d.whole(0, shape[axis])
    return layout.Slice(axis, start, d.whole(start, shape[axis]), d.whole(1, 3))


def _select(d: Drawer, shape: tuple[int, ...]) -> Any:
    axis = d.axis(len(shape))
    return layout.Select(axis, d.whole(-shape[axis], shape[axis] - 1))


def _split_sizes(d: Drawer, size: int) -> tuple[int, ...]:
    first = d.whole(0, size)
    return (first, size - first) if d.flag() else (size,)


def _split(d: Drawer, shape: tuple[int, ...]) -> Any:
    axis = d.axis(len(shape))
    return joining.Split(axis, _split_sizes(d, shape[axis]))


def _cat(d: Drawer) -> Case:
    shape, axis = list(d.shape(1, 3)), 0
    axis = d.axis(len(shape))
    dtypes = d.pick((("float64", "float32"), ("float32", "int64"), ("bool", "bool"), ("int8", "int64")))
    operands = []
    for position in range(d.whole(1, 3)):
        shape[axis] = d.size()
        operands.append(d.tensor(shape if len(shape) > 1 else [max(shape[0], 1)], dtypes[position % 2]))
    return Case(joining.Cat(axis), operands)


def _stack(d: Drawer) -> Case:
    shape, dtype = d.shape(), d.pick(EVERY)
    return Case(joining.Stack(d.axis(len(shape) + 1)), [d.tensor(shape, dtype) for _ in range(d.whole(1, 3))])


def _pad(d: Drawer) -> Case:
    dtype = d.pick((*WIDE, "int64", "bool"))
    shape = d.shape(1, 3)
    amounts = []
    for size in reversed(shape[-d.whole(1, len(shape)) :]):
        before = d.whole(-size, 2)
        amounts += [before, d.whole(-min(size + min(before, 0), size), 2)]
    return Case(padding.Pad(tuple(amounts)), [d.tensor(shape, dtype), d.flag() if dtype == "bool" else d.whole(0, 2)])


def _pad_other(d: Drawer) -> Case:
    mode = d.pick(("reflect", "replicate", "circular"))
    shape = (d.size(1), d.size(1), *(d.size(1, 4) for _ in range(d.whole(1, 2))))
    amounts: list[int] = []
    for size in reversed(shape[2:]):
        most = {"reflect": size - 1, "circular": size, "replicate": 3}[mode]
        amounts += [d.whole(0, most), d.whole(0, most)]
    return Case(padding.Pad(tuple(amounts), mode), [d.tensor(shape, d.pick(WIDE))])


def _roll(d: Drawer, shape: tuple[int, ...]) -> Any:
    axes = d.axes(len(shape))
    return arranging.Roll(tuple(d.whole(0, max(shape[axis] - 1, 0)) for axis in axes), axes)


def _reduction(operator: Any, *more: Any) -> Callable[[Drawer, tuple[int, ...]], Any]:
    return lambda d, shape: operator(d.axes(len(shape)), d.flag(), *(d.pick(choices) for choices in more))


def _along(operator: Any) -> Callable[[Drawer, tuple[int, ...]], Any]:
    return lambda d, shape: operator(d.axis(len(shape)), d.flag())


ROWS |= {
    "Copy": Row(on(lambda d, shape: casts.Copy())),
    "Contiguous": Row(on(lambda d, shape: casts.Contiguous())),
    "Reshape": Row(on(lambda d, shape: layout.Reshape(_factorised(d, _count(shape))))),
    "Permute": Row(on(_permutation, low=1, high=4)),
    "Expand": Row(_expand),
    "Slice": Row(on(_slice, low=1)),
    "Select": Row(on(_select, low=1, smallest=1)),
    "Cat": Row(_cat),
    "Stack": Row(_stack),
    "Split": Row(on(_split, low=1)),
    "Unbind": Row(on(lambda d, shape: joining.Unbind(d.axis(len(shape))), low=1, smallest=1)),
    "Pad": Row(lambda d: _pad(d) if d.flag() else _pad_other(d)),
    "Flip": Row(on(lambda d, shape: arranging.Flip(d.axes(len(shape))))),
    "Roll": Row(on(_roll)),
    "Repeat": Row(on(lambda d, shape: arranging.Repeat((*((2,) if d.flag() else ()), *(d.whole(0, 2) for _ in shape))))),
    "RepeatInterleave": Row(on(lambda d, shape: arranging.RepeatInterleave(d.whole(0, 2), d.axis(len(shape))), low=1)),
    "Tril": Row(on(lambda d, shape: arranging.Tril(d.whole(-2, 2)), low=2)),
    "Triu": Row(on(lambda d, shape: arranging.Triu(d.whole(-2, 2)), low=2)),
    "Sum": Row(on(_reduction(reductions.Sum), (*WIDE, "int64", "int32", "bool"))),
    "Mean": Row(on(_reduction(reductions.Mean), WIDE), exact=False),
    "Amax": Row(on(_reduction(reductions.Amax), EVERY, smallest=1)),
    "Amin": Row(on(_reduction(reductions.Amin), EVERY, smallest=1)),
    "MaxAlong": Row(on(_along(extremes.MaxAlong), NUMBERS, low=1, smallest=1)),
    "MinAlong": Row(on(_along(extremes.MinAlong), NUMBERS, low=1, smallest=1)),
    "ArgMax": Row(on(_along(extremes.ArgMax), NUMBERS, low=1, smallest=1)),
    "ArgMin": Row(on(_along(extremes.ArgMin), NUMBERS, low=1, smallest=1)),
    "Product": Row(on(_reduction(reductions.Product), (*WIDE, "int64", "bool"))),
    "Variance": Row(on(_reduction(spreads.Variance, (0, 1, 2)), WIDE), exact=False),
    "StandardDeviation": Row(on(_reduction(spreads.StandardDeviation, (0, 1, 2)), WIDE), exact=False),
    "All": Row(on(_reduction(reductions.All), (*WIDE, "int64", "bool"))),
    "AnyOf": Row(on(_reduction(reductions.AnyOf), (*WIDE, "int64", "bool"))),
    "Cumsum": Row(on(lambda d, shape: reductions.Cumsum(d.axis(max(len(shape), 1))), (*WIDE, "int64", "int32", "bool"))),
    "EuclideanNorm": Row(on(_reduction(spreads.EuclideanNorm), WIDE), exact=False),
    "Softmax": Row(on(lambda d, shape: softmax.Softmax(d.axis(max(len(shape), 1))), WIDE), exact=False),
    "LogSoftmax": Row(on(lambda d, shape: softmax.LogSoftmax(d.axis(max(len(shape), 1))), WIDE), exact=False),
    "LogSumExp": Row(on(_reduction(softmax.LogSumExp), WIDE), exact=False),
}
