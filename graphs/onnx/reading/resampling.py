"""Where ONNX's Resize reads: for each axis the positions of the input and their weights, one row per output position."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy


@dataclass(frozen=True)
class Way:
    """The attributes of a Resize that decide where it reads."""

    mode: str = "nearest"
    transformation: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False


def place(way: Way, i: int, size: int, out: int, scale: float, start: float, end: float) -> float:
    """The position in the input that output position i stands for."""
    if way.transformation == "asymmetric":
        return i / scale
    if way.transformation == "align_corners":
        return i * (size - 1) / (scale * size - 1) if out > 1 else 0.0
    if way.transformation == "pytorch_half_pixel" and out == 1:
        return 0.0
    if way.transformation == "tf_crop_and_resize":
        return start * (size - 1) + i * (end - start) * (size - 1) / (out - 1) if out > 1 else 0.5 * (start + end) * (size - 1)
    if way.transformation == "half_pixel_symmetric":
        whole = scale * size
        centre = size / 2
        return centre * (1 - out / whole) + (i + 0.5) / scale - 0.5
    return (i + 0.5) / scale - 0.5


def nearest(way: Way, position: float, size: int) -> int:
    """The position of the nearest element."""
    if way.rounding == "floor":
        found = math.floor(position)
    elif way.rounding == "ceil":
        found = math.ceil(position)
    elif way.rounding == "round_prefer_ceil":
        found = math.floor(position + 0.5)
    else:
        found = math.ceil(position - 0.5)
    return min(max(found, 0), size - 1)


def _linear(distance: float) -> float:
    return max(1.0 - abs(distance), 0.0)


def _cubic(a: float) -> Callable[[float], float]:
    def weight(distance: float) -> float:
        d = abs(distance)
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0

    return weight


def row(way: Way, position: float, size: int, scale: float) -> numpy.ndarray:
    """The weight of every element of the input for one output position; outside counts as the element at the edge."""
    kernel, reach = (_linear, 1.0) if way.mode == "linear" else (_cubic(way.cubic), 2.0)
    stretch = 1.0 / scale if way.antialias and scale < 1 else 1.0
    first, last = math.floor(position - reach * stretch), math.ceil(position + reach * stretch)
    weights = numpy.zeros(size)
    outside = 0.0
    for at in range(first, last + 1):
        weight = kernel((at - position) / stretch)
        if not 0 <= at < size and way.exclude_outside:
            continue
        if not 0 <= at < size:
            outside += weight
        weights[min(max(at, 0), size - 1)] += weight
    total = weights.sum()
    return weights / total if total and (way.exclude_outside or way.antialias) else weights


def positions(way: Way, size: int, out: int, scale: float, start: float, end: float) -> list[int]:
    """For each output position the element that a resize to the nearest reads."""
    return [nearest(way, place(way, i, size, out, scale, start, end), size) for i in range(out)]


def matrix(way: Way, size: int, out: int, scale: float, start: float, end: float) -> numpy.ndarray:
    """The weights of a linear or cubic resize along one axis: [out, size]."""
    rows = [row(way, place(way, i, size, out, scale, start, end), size, scale) for i in range(out)]
    return numpy.stack(rows) if rows else numpy.zeros((0, size))


def is_outside(way: Way, size: int, out: int, scale: float, start: float, end: float) -> list[bool]:
    """Which output positions lie outside the input, where a crop is filled with a value of its own."""
    if way.transformation != "tf_crop_and_resize":
        return [False] * out
    places = [place(way, i, size, out, scale, start, end) for i in range(out)]
    return [position < 0 or position > size - 1 for position in places]
