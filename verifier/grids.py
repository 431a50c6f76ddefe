"""Special values on a grid: for rules whose tensors can all have one shape, every combination of special numbers at once.

Floating-point tensors run through zeros, infinities, NaN and numbers at the dtype's limits, integers through the ends of their
range and the neighbours of powers of two; bytes through all of their values.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import replace

import torch

from verifier.instances import FLOATS, INTEGERS, Ground, Instance, Space
from verifier.running import record
from verifier.sizes import Assignment
from verifier.values import EXTREME, ORDINARY, SPECIAL, draw_number, modest, special_numbers

_MOST_POINTS = 8192


def grids(space: Space, extreme: bool, attribute_draws: int = 4) -> Iterator[Instance]:
    """Instances whose elements run through special numbers: all combinations where there are few tensors, drawn ones where many.

    A rule of one floating tensor gets every bit pattern of float16 and bfloat16. With `extreme` the largest and the smallest
    numbers are among the special ones.
    """
    found = _one_shape(space)
    if found is None:
        return
    ground, sizes, name, axis = found
    free = [v.name for v in space.signature.tensors]
    for family in space.families:
        if family == "float64" and len(space.families) > 1:
            continue
        columns = _columns(family, len(free), extreme, space.seed)
        if columns is None:
            continue
        points = columns[0].numel()
        for draw in range(attribute_draws if any(True for _ in _reals(space)) else 1):
            instance = space.build(ground, sizes | {name: 1}, ORDINARY, family, draw)
            if instance is None or not _fits(ground, sizes | {name: points}, points):
                continue
            source = random.Random(space.seed + draw)
            reals = {real: draw_number(EXTREME if extreme and draw % 2 else ORDINARY, source) for real in instance.reals}
            shape = next(iter(instance.tensors.values())).shape
            if shape.numel() != 1:
                return
            kinds = space.kinds(SPECIAL)
            filled = {
                n: _filled(t, column if kinds[n] == SPECIAL else torch.arange(points) % 5 - 2, shape, axis)
                for (n, t), column in zip(instance.tensors.items(), columns, strict=True)
            }
            made = replace(instance, sizes=sizes | {name: points}, tensors=filled, reals=reals, layouts={}, shared={})
            kept = _admitted(space, made)
            if kept is not None:
                count = kept.tensors[free[0]].numel()
                if _fits(ground, sizes | {name: count}, count):
                    yield replace(kept, sizes=sizes | {name: count})


def _fits(ground: Ground, sizes: Assignment, points: int) -> bool:
    """The sizes are admitted, and every tensor then has as many elements as there are points."""
    shapes = ground.shapes(sizes, most=1 << 20) if ground.model.admits(sizes) else None
    return shapes is not None and all(math.prod(shape) == points for shape in shapes.values())


def _stays_small(space: Space, ground: Ground, sizes: Assignment) -> bool:
    """Nothing that either side computes has many more elements than an instance's tensors: no axis was multiplied by another."""
    instance = space.build(ground, sizes, ORDINARY, space.families[0], 0)
    if instance is None:
        return False
    (left, calls), (_, others) = (
        record(side, instance.arguments(), instance.seed) for side in (space.rule.pattern, space.rule.replacement)
    )
    most = max(2 * instance.elements, _MOST_OF_OTHERS)
    return left.error is None and all(tensor.numel() <= most for call in (*calls, *others) for tensor in call.tensors())


_MOST_OF_OTHERS = 40
"""So many elements other tensors may have: fewer than 7 by 7, the square of the axis that is tried."""


def _every(dtype: torch.dtype, extreme: bool) -> torch.Tensor:
    """Every number of a half-precision dtype; without `extreme`, of those that are finite and not 0 the modest ones."""
    numbers = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int64).to(torch.int16).view(dtype)
    size = numbers.abs().double()
    return numbers if extreme else numbers[~numbers.isfinite() | (size == 0) | ((size <= modest(dtype)) & (size >= 1 / modest(dtype)))]


def _reals(space: Space) -> list[str]:
    from rewrites.signature import RealVariable

    return [v.name for v in space.signature.variables if isinstance(v, RealVariable)]


def _columns(family: str, count: int, extreme: bool, seed: int) -> list[torch.Tensor] | None:
    """One column of numbers for each tensor: every combination of the interesting ones, or a drawn part of them."""
    dtype = getattr(torch, family)
    if family in FLOATS:
        if count == 1 and dtype.itemsize == 2:
            return [_every(dtype, extreme)]
        values = torch.tensor(special_numbers(dtype, extreme), dtype=torch.float64).to(dtype)
    elif family in INTEGERS:
        values = torch.tensor(interesting_integers(dtype), dtype=torch.int64).to(dtype)
    else:
        return None
    if len(values) ** count <= max(_MOST_POINTS, 1 << 16 if dtype.itemsize == 1 else 0):
        rows = torch.tensor(list(itertools.product(range(len(values)), repeat=count)), dtype=torch.int64)
    else:
        rows = torch.randint(0, len(values), (_MOST_POINTS, count), generator=torch.Generator().manual_seed(seed))
    return [values[rows[:, column]] for column in range(count)]


def interesting_integers(dtype: torch.dtype) -> list[int]:
    """Every number of a byte; of wider integers small ones, the ends, and those next to powers of two."""
    info = torch.iinfo(dtype)
    if info.bits == 8:
        return sorted(range(info.min, info.max + 1), key=lambda n: (abs(n), n))
    near = [*range(-5, 11), 28, 29, 31, 64, 100, -29, info.min, info.max, info.min + 1, info.max - 1]
    near += [sign * 2**p + step for p in (7, 8, 15, 16, 24, 31, 32, 53, 54, 61, 62) for step in (0, 1, -1) for sign in (1, -1)]
    return list(dict.fromkeys(n for n in near if info.min <= n <= info.max))


def _filled(tensor: torch.Tensor, column: torch.Tensor, shape: torch.Size, axis: int) -> torch.Tensor:
    points = column.numel()
    long = [points if position == axis else size for position, size in enumerate(shape)]
    if tensor.dtype == column.dtype or tensor.is_floating_point():
        return column.to(tensor.dtype).reshape(long)
    return (torch.arange(points) * 7 % 3 - (1 if tensor.dtype != torch.uint8 else 0)).to(tensor.dtype).reshape(long)


def _admitted(space: Space, instance: Instance) -> Instance | None:
    """The instance with the points left out at which a condition fails; None when a condition does not speak per element."""
    from verifier.instances import condition_holds

    keep: torch.Tensor | None = None
    for condition in space.value_conditions:
        known = instance.named
        if any(name not in known for name in condition.names):
            return None
        answer = condition.predicate(*(known[name] for name in condition.names))
        if isinstance(answer, torch.Tensor) and answer.numel() == next(iter(instance.tensors.values())).numel():
            keep = answer.flatten() if keep is None else keep & answer.flatten()
        elif not condition_holds(instance, condition):
            return None
    if keep is None:
        return instance
    if not bool(keep.any()):
        return None
    axis = max(range(next(iter(instance.tensors.values())).ndim), key=lambda a: next(iter(instance.tensors.values())).shape[a])
    return replace(instance, tensors={n: t.index_select(axis, keep.nonzero().flatten()) for n, t in instance.tensors.items()})


def _one_shape(space: Space) -> tuple[Ground, Assignment, str, int] | None:
    """A case, sizes of one, a dim that stretches every tensor alike, and the axis along which it does."""
    for ground in space.usable:
        sizes = next((s for s in ground.pool if all(v == 1 for n, v in s.items() if n not in ground.model.attributes)), None)
        if sizes is None:
            continue
        for name in ground.model.names:
            if name in ground.model.attributes:
                continue
            stretched = sizes | {name: 7}
            shapes = ground.shapes(stretched) if ground.model.admits(stretched) else None
            if (
                shapes
                and len(set(shapes.values())) == 1
                and sorted(next(iter(shapes.values())))[-1:] == [7]
                and _stays_small(space, ground, stretched)
            ):
                return ground, sizes, name, list(next(iter(shapes.values()))).index(7)
    return None


def without_zeros(instance: Instance) -> Instance:
    """The instance with 1 for every whole number 0, by which PyTorch does not divide."""
    tensors = {
        n: t if t.is_floating_point() or t.dtype == torch.bool else torch.where(t == 0, torch.ones_like(t), t)
        for n, t in instance.tensors.items()
    }
    return replace(instance, tensors=tensors)


__all__ = ["grids", "interesting_integers", "without_zeros"]
