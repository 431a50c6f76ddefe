"""Resizing images."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from graphs.onnx.reading.registry import Node, reads
from operators.arranging import RepeatInterleave
from operators.expressions import Expression
from operators.interpolation import Interpolate
from operators.operator import Unsupported


@reads("Resize", "Upsample")
def resize(node: Node) -> Any:
    """Nearest and linear over the axes of positions where torch reads the same places."""
    x, shape = node[0], node.type(0).shape
    if node.attribute("antialias", 0) or node.attribute("exclude_outside", 0) or node.attribute("axes") is not None:
        raise Unsupported("Resize: antialias, exclude_outside and axes are not covered")
    factors = _factors(node, len(shape))
    sizes = _sizes(node, len(shape), factors)
    if len(shape) not in (3, 4, 5) or any(a != b for a, b in zip(sizes[:2], shape[:2], strict=True)):
        raise Unsupported("Resize: only axes of positions, after samples and channels")
    mode = node.attribute("mode", "nearest")
    way = node.attribute("coordinate_transformation_mode", "half_pixel") if node.opset >= 11 else "asymmetric"
    rounding = node.attribute("nearest_mode", "round_prefer_floor") if node.opset >= 11 else "floor"
    whole = None if factors is None else [int(f) if float(f).is_integer() and f >= 1 else None for f in factors]
    if mode == "nearest" and whole is not None and None not in whole and _repeats(way, rounding, whole):
        for axis in range(2, len(shape)):
            if whole[axis] != 1:
                x = node.apply(RepeatInterleave(whole[axis], axis - len(shape)), x)
        return x
    if any(isinstance(dim, Expression) for dim in (*shape[2:], *sizes[2:])):
        raise Unsupported("Resize: sizes must be numbers")
    scales = None if factors is None else tuple(float(factor) for factor in factors[2:])
    if scales is not None and all(size * scale == out for size, scale, out in zip(shape[2:], scales, sizes[2:], strict=True)):
        scales = None
    if scales is not None:
        raise Unsupported("Resize: scales that do not give whole sizes are not covered")
    if mode == "nearest" and way == "asymmetric" and rounding == "floor":
        return node.apply(Interpolate(tuple(sizes[2:]), "nearest"), x)
    if mode == "nearest" and way == "half_pixel" and rounding == "round_prefer_ceil":
        return node.apply(Interpolate(tuple(sizes[2:]), "nearest-exact"), x)
    linear = ("linear", "bilinear", "trilinear")[len(shape) - 3]
    if mode == "linear" and way in ("half_pixel", "pytorch_half_pixel", "align_corners") and "float" in x.type.dtype:
        if way != "half_pixel" or True:
            return F.interpolate(x, size=tuple(sizes[2:]), mode=linear, align_corners=way == "align_corners")
    raise Unsupported(f"Resize: {mode} with {way} and {rounding} is not covered")


def _repeats(way: str, rounding: str, factors: list[Any]) -> bool:
    """Each element is repeated as often as the factor says."""
    if way == "asymmetric" and rounding == "floor":
        return True
    return (
        way in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
        and rounding in ("round_prefer_floor", "round_prefer_ceil")
        and all(factor in (1, 2, 4, 8) or factor % 2 for factor in factors)
    )


def _factors(node: Node, rank: int) -> list[float] | None:
    """The factor of each axis; None where sizes are given."""
    if node.name == "Upsample" and node.opset < 9:
        return list(node.attribute("scales"))
    position = 2 if node.name == "Resize" and node.opset >= 11 else 1
    if node.name == "Resize" and node.opset >= 11 and node.has(3):
        return None
    tensor = node.tensor(position)
    if tensor is None:
        raise Unsupported(f"{node.name}: scales depend on data")
    return [float(factor) for factor in tensor.reshape(-1).tolist()]


def _sizes(node: Node, rank: int, factors: list[float] | None) -> list[Any]:
    shape = node.type(0).shape
    if factors is None:
        if node.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise Unsupported("Resize: keeping the aspect ratio is not covered")
        return list(node.sizes(3))
    result: list[Any] = []
    for dim, factor in zip(shape, factors, strict=True):
        if isinstance(dim, int):
            result.append(int(dim * factor))
        elif float(factor).is_integer():
            result.append(dim * int(factor))
        else:
            raise Unsupported("Resize: sizes must be numbers")
    return result
