"""Making a failing instance the smallest: fewer elements, plainer layout, smaller numbers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from verifier.comparing import Difference
from verifier.instances import Ground, Instance, Space, condition_holds
from verifier.judging import Kind
from verifier.sizes import Assignment
from verifier.values import DISTINCT, POSITIVE, SMALL, TIES

_MOST_GATHERED = 32
"""Elements of a tensor, and positions along an axis, that are tried one by one."""
Judge = Callable[[Instance], Difference | None]


def smallest(space: Space, instance: Instance, difference: Difference, differs: Judge, deadline: float) -> tuple[Instance, Difference]:
    """The instance made smaller as long as `differs` still finds a difference, until nothing smaller fails."""
    current = instance, difference

    def better(candidates: Iterator[Instance | None]) -> bool:
        nonlocal current
        for candidate in candidates:
            if time.monotonic() > deadline:
                return False
            if candidate is None or not _admitted(space, candidate):
                continue
            found = differs(candidate)
            if found is not None:
                current = candidate, found
                return True
        return False

    if difference.kind not in (Kind.VALUE, Kind.SHAPE, Kind.DTYPE, Kind.ERROR):
        better(_plainer_values(space, current[0]))
    better(_focused(current[0], current[1]))
    better(_plainer(current[0]))
    while better(_smaller_sizes(space, current[0])):
        pass
    better(_plainer(current[0]))
    _simplify(lambda: current[0], better)
    gathered = False
    while better(_gathered(current[0])) or better(_without_one_position(space, current[0])):
        gathered = True
    if gathered:
        _simplify(lambda: current[0], better)
    return current


def _admitted(space: Space, instance: Instance) -> bool:
    return all(condition_holds(instance, condition) for condition in space.value_conditions)


def _plainer_values(space: Space, instance: Instance) -> Iterator[Instance | None]:
    """Plain positive numbers at the same sizes: a wrong value says more than a NaN."""
    ground = next(g for g in space.grounds if g.case == instance.case)
    for sizes in [dict(instance.sizes), *ground.pool[:12]]:
        for kind in (POSITIVE, DISTINCT, SMALL):
            yield space.build(ground, sizes, kind, _family(instance), instance.seed)


def _family(instance: Instance) -> str:
    return next((str(t.dtype).removeprefix("torch.") for t in instance.tensors.values()), "float64")


def _focused(instance: Instance, difference: Difference) -> Iterator[Instance]:
    """The tensors rolled so that the differing element comes first: then a crop to smaller sizes keeps it."""
    if any(difference.index):
        tensors = {n: _rolled(t, difference.index) for n, t in instance.tensors.items()}
        yield replace(instance, tensors=tensors)


def _rolled(tensor: torch.Tensor, index: tuple[int, ...]) -> torch.Tensor:
    axes = range(-min(tensor.ndim, len(index)), 0)
    shifts = [-index[axis] if tensor.shape[axis] > index[axis] else 0 for axis in axes]
    return torch.roll(tensor, shifts, list(axes)) if shifts else tensor


def _plainer(instance: Instance) -> Iterator[Instance]:
    if instance.layouts or instance.shared:
        yield replace(instance, layouts={}, shared={})
        yield replace(instance, layouts={})
        yield replace(instance, shared={})


def _smaller_sizes(space: Space, instance: Instance) -> Iterator[Instance | None]:
    ground = next(g for g in space.grounds if g.case == instance.case)
    options = [sizes for sizes in ground.model.smaller(dict(instance.sizes)) if ground.shapes(sizes) is not None]
    for sizes in sorted(options, key=ground.model.weight):
        yield _cropped(instance, ground, sizes)
        kinds = dict.fromkeys((instance.values, SMALL, POSITIVE, DISTINCT, TIES))
        layouts = [instance.layouts.get(v.name, "contiguous") for v in space.signature.tensors] if instance.layouts else []
        for kind in kinds:
            for step in range(2):
                yield space.build(ground, sizes, kind, _family(instance), instance.seed + step, layouts)


def _cropped(instance: Instance, ground: Ground, sizes: Assignment) -> Instance | None:
    """The instance at smaller sizes, with the first elements along each axis; zeros where an axis grew."""
    shapes = ground.shapes(sizes)
    if shapes is None:
        return None
    tensors = {}
    for name, tensor in instance.tensors.items():
        if len(shapes[name]) != tensor.ndim:
            return None
        made = torch.zeros(shapes[name], dtype=tensor.dtype)
        common = tuple(slice(0, min(a, b)) for a, b in zip(shapes[name], tensor.shape, strict=True))
        made[common] = tensor[common]
        tensors[name] = made
    shared = {a: b for a, b in instance.shared.items() if shapes[a] == shapes[b]}
    return replace(instance, sizes=sizes, tensors=tensors, shared=shared)


def _gathered(instance: Instance) -> Iterator[Instance]:
    """Two elements as one that is their sum, and a zero: a difference may hang on what the elements make together."""
    for name, tensor in instance.tensors.items():
        if name in instance.shared or tensor.dtype == torch.bool or tensor.is_complex() or tensor.numel() > _MOST_GATHERED:
            continue
        flat = tensor.flatten()
        places = [place for place in range(flat.numel()) if flat[place] != 0]
        for first, second in itertools.pairwise(places):
            made = flat.clone()
            made[first], made[second] = flat[first] + flat[second], 0
            yield _with_tensor(instance, name, made.reshape(tensor.shape))


def _without_one_position(space: Space, instance: Instance) -> Iterator[Instance | None]:
    """One position less along the axes of one size, wherever it lies."""
    ground = next(g for g in space.grounds if g.case == instance.case)
    for name, size in instance.sizes.items():
        sizes = {**instance.sizes, name: size - 1}
        if not 2 <= size <= _MOST_GATHERED or not ground.model.admits(sizes) or ground.shapes(sizes) is None:
            continue
        axes = {v.name: [axis - len(v.dims) for axis, dim in enumerate(v.dims) if str(dim) == name] for v in space.signature.tensors}
        for place in range(size - 1):  # the last one goes when sizes shrink
            kept = torch.tensor([position for position in range(size) if position != place])
            tensors = dict(instance.tensors)
            for variable, found in axes.items():
                for axis in found:
                    tensors[variable] = tensors[variable].index_select(axis, kept)
            yield _cropped(replace(instance, tensors=tensors), ground, sizes)


def _simplify(current: Callable[[], Instance], better: Callable[[Iterator[Instance | None]], bool]) -> None:
    """Simpler numbers: whole tensors first, then element by element."""
    for name in list(current().tensors):
        if name not in current().shared:
            better(_with_tensor(current(), name, whole) for whole in _plain_tensors(current().tensors[name]))
    for name in list(current().tensors):
        if name in current().shared or current().tensors[name].numel() > 128:
            continue
        for position in range(current().tensors[name].numel()):
            better(_with_tensor(current(), name, tensor) for tensor in _plainer_element(current().tensors[name], position))
    for name, value in list(current().reals.items()):
        simpler = [x for x in (0.0, 1.0, -1.0, 2.0, 0.5) if _weight(x) < _weight(value)]
        better(replace(current(), reals={**current().reals, name: x}) for x in simpler)


def _with_tensor(instance: Instance, name: str, tensor: torch.Tensor) -> Instance:
    tied = {name} | {a for a, b in instance.shared.items() if b == name}
    return replace(instance, tensors={n: tensor if n in tied else t for n, t in instance.tensors.items()})


def _plain_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    for fill in (0, 1):
        plain = torch.full_like(tensor, fill)
        if not torch.equal(plain, tensor):
            yield plain
        else:
            return


def _plainer_element(tensor: torch.Tensor, position: int) -> Iterator[torch.Tensor]:
    flat = tensor.flatten()
    value: Any = flat[position].item()
    candidates: list[Any]
    if tensor.dtype == torch.bool:
        candidates = [False] if value else []
    elif tensor.is_complex():
        candidates = [x for x in (0, 1, 1j) if abs(x) < abs(value)]
    else:
        candidates = [
            x for x in (0, 1, -1, 2, -2, 3, 0.5) if _weight(x) < _weight(value) and (tensor.is_floating_point() or isinstance(x, int))
        ]
        if tensor.is_floating_point() and abs(value) < 1e6 and value != round(value):
            candidates += [x for x in (float(round(value)), round(value * 4) / 4) if _weight(x) < _weight(value)]
        if not tensor.is_floating_point():
            candidates = [
                x
                for x in (*candidates, value // 2)
                if torch.iinfo(tensor.dtype).min <= x <= torch.iinfo(tensor.dtype).max and abs(x) < abs(value)
            ]
    for candidate in candidates:
        plain = flat.clone()
        plain[position] = candidate
        yield plain.reshape(tensor.shape)


def _weight(value: float) -> tuple[float, ...]:
    """How complicated a number is: whole before not, small before large, positive before negative."""
    import math

    if math.isnan(value):
        return (4.0,)
    if math.isinf(value):
        return (3.0, float(value < 0))
    return (
        0.0 if value == round(value) and abs(value) < 1e6 else 1.0 if (4 * value) % 1 == 0 else 2.0,
        abs(value),
        float(math.copysign(1, value) < 0),
    )


__all__ = ["smallest"]
