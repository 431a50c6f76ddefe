"""Resizing images: by torch's kernels where those read the same places, else axis by axis, as lookups or as products with a matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from graphs.onnx.reading import resampling
from graphs.onnx.reading.registry import Node, reads
from graphs.onnx.reading.resampling import Way
from operators.arranging import RepeatInterleave
from operators.expressions import Dim, Expression
from operators.indexing import Index
from operators.interpolation import Interpolate
from operators.layout import Permute
from operators.operator import Unsupported


def way_of(node: Node) -> Way:
    """How a node resizes; before opset 11 positions are scaled from the corner."""
    mode = str(node.attribute("mode", "nearest"))
    if node.opset < 11 or node.name == "Upsample":
        return Way("linear" if mode == "bilinear" else mode, "asymmetric", "floor")
    return Way(
        mode,
        node.attribute("coordinate_transformation_mode", "half_pixel"),
        node.attribute("nearest_mode", "round_prefer_floor"),
        node.attribute("cubic_coeff_a", -0.75),
        bool(node.attribute("antialias", 0)),
        bool(node.attribute("exclude_outside", 0)),
    )


@reads("Resize", "Upsample")
def resize(node: Node) -> Any:
    x, shape, way = node[0], node.type(0).shape, way_of(node)
    places = [axis % len(shape) for axis in node.attribute("axes", list(range(len(shape))))]
    factors = _factors(node)
    out, scales = _sizes(node, places, factors)
    changed = [axis for axis in places if not _same(out[axis], shape[axis])]
    if not changed and way.transformation != "tf_crop_and_resize":
        return x
    whole = [int(factor) if float(factor).is_integer() and factor >= 1 else None for factor in (factors or [])]
    if way.mode == "nearest" and whole and None not in whole and _repeats(way, whole):
        for axis, factor in zip(places, whole, strict=True):
            if factor != 1 and factor is not None:
                x = node.apply(RepeatInterleave(factor, axis - len(shape)), x)
        return x
    if any(isinstance(dim, Expression) for axis in changed for dim in (shape[axis], out[axis])):
        raise Unsupported("Resize: sizes must be numbers")
    found = _as_torch(node, x, way, out, scales, changed)
    return found if found is not None else _axis_by_axis(node, x, way, out, scales, places)


def _same(a: Dim, b: Dim) -> bool:
    return isinstance(a - b, int) and a - b == 0


def _repeats(way: Way, factors: Sequence[int | None]) -> bool:
    """Each element is repeated as often as the factor says."""
    if way.transformation == "asymmetric" and way.rounding == "floor":
        return True
    centred = way.transformation in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
    return centred and way.rounding.startswith("round_prefer")


def _factors(node: Node) -> list[float] | None:
    """The factor of each axis that is resized; None where sizes are given."""
    if node.name == "Upsample" and node.opset < 9:
        return list(node.attribute("scales"))
    newer = node.name == "Resize" and node.opset >= 11
    if newer and node.has(3):
        return None
    tensor = node.tensor(2 if newer else 1)
    if tensor is None:
        raise Unsupported(f"{node.name}: scales depend on data")
    return [float(factor) for factor in tensor.reshape(-1).tolist()]


def _sizes(node: Node, places: Sequence[int], factors: list[float] | None) -> tuple[list[Dim], dict[int, float]]:
    """The size of every axis of the result, and the factor that positions are scaled by on each axis resized."""
    shape = list(node.type(0).shape)
    out: list[Dim] = list(shape)
    if factors is None:
        wanted = list(node.sizes(3))
        policy = node.attribute("keep_aspect_ratio_policy", "stretch")
        ratios = {}
        for axis, want in zip(places, wanted, strict=True):
            out[axis] = want
            size = shape[axis]
            ratios[axis] = want / size if isinstance(want, int) and isinstance(size, int) and size else 1.0
        if policy != "stretch":
            if any(isinstance(shape[axis], Expression) or isinstance(out[axis], Expression) for axis in places):
                raise Unsupported("Resize: sizes must be numbers")
            one = (min if policy == "not_larger" else max)(ratios.values())
            ratios = dict.fromkeys(places, one)
            for axis in places:
                out[axis] = math.floor(one * int(shape[axis]) + 0.5)
        return out, ratios
    for axis, factor in zip(places, factors, strict=True):
        size = shape[axis]
        if isinstance(size, int):
            out[axis] = math.floor(size * factor)
        elif float(factor).is_integer():
            out[axis] = size * int(factor)
        else:
            raise Unsupported("Resize: sizes must be numbers")
    return out, dict(zip(places, factors, strict=True))


def _as_torch(node: Node, x: Any, way: Way, out: Sequence[Any], scales: dict[int, float], changed: Sequence[int]) -> Any:
    """The resize by torch's own kernel, where it reads the same places with the same weights."""
    shape = node.type(0).shape
    rank = len(shape)
    if rank not in (3, 4, 5) or any(axis < 2 for axis in changed) or way.antialias or way.exclude_outside:
        return None
    if any(abs(int(shape[axis]) * scales[axis] - out[axis]) > 1e-9 for axis in changed):
        return None
    size = tuple(out[2:])
    if any(isinstance(dim, Expression) for dim in (*size, *shape[2:])):
        return None
    if way.mode == "nearest" and way.transformation == "asymmetric" and way.rounding == "floor":
        return node.apply(Interpolate(size, "nearest"), x)
    linear = way.mode == "linear" and way.transformation in ("half_pixel", "pytorch_half_pixel", "align_corners")
    if linear and "float" in x.type.dtype and (way.transformation != "pytorch_half_pixel" or 1 not in size):
        return F.interpolate(
            x, size=size, mode=("linear", "bilinear", "trilinear")[rank - 3], align_corners=way.transformation == "align_corners"
        )
    return None


def _axis_by_axis(node: Node, x: Any, way: Way, out: Sequence[Any], scales: dict[int, float], places: Sequence[int]) -> Any:
    rank = len(node.type(0).shape)
    dtype = x.type.dtype
    crop = _crop(node, rank, places) if way.transformation == "tf_crop_and_resize" else {}
    outside: Any = None
    if way.mode != "nearest" and dtype not in ("float32", "float64"):
        x = x.to(torch.float32)
    for axis in places:
        size, end = int(node.type(0).shape[axis]), int(out[axis])
        where = (size, end, scales[axis], *crop.get(axis, (0.0, 1.0)))
        if size == end and axis not in crop:
            continue
        if way.mode == "nearest":
            x = node.apply(Index(axis), x, torch.tensor(resampling.positions(way, *where), dtype=torch.int64))
        else:
            weights = torch.tensor(resampling.matrix(way, *where).T, dtype=getattr(torch, x.type.dtype)).contiguous()
            order = tuple(one - rank for one in range(rank) if one != axis) + (axis - rank,)
            back = tuple(order.index(one - rank) - rank for one in range(rank))
            x = node.apply(Permute(back), torch.matmul(node.apply(Permute(order), x), weights))
        beyond = torch.tensor(resampling.is_outside(way, *where))
        if bool(beyond.any()):
            shaped = beyond.reshape(*[1] * axis, -1, *[1] * (rank - axis - 1))
            outside = shaped if outside is None else outside | shaped
    if outside is not None:
        x = torch.where(node.held(outside), node.attribute("extrapolation_value", 0.0), x)
    return x if x.type.dtype == dtype else x.to(getattr(torch, dtype))


def _crop(node: Node, rank: int, places: Sequence[int]) -> dict[int, tuple[float, float]]:
    """The part of each axis that is kept, as fractions of it."""
    tensor = node.tensor(1)
    if tensor is None:
        raise Unsupported("Resize: the region depends on data")
    ends = [float(end) for end in tensor.reshape(-1).tolist()]
    half = len(ends) // 2
    return {axis: (ends[position], ends[half + position]) for position, axis in enumerate(places)}
