"""Convolutions: ONNX's padding may be unequal at both ends, or follow from the sizes (`auto_pad`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F

from graphs.onnx.reading.registry import Node, reads
from operators.expressions import Dim, Expression, floor_divide
from operators.operator import Unsupported


def paddings(
    node: Node, sizes: Sequence[Dim], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[list[Any], list[Any]]:
    """The padding before and after each axis of positions."""
    axes = len(kernel)
    way = node.attribute("auto_pad", "NOTSET")
    if way in ("NOTSET", ""):
        pads = node.attribute("pads", [0] * (2 * axes))
        return pads[:axes], pads[axes:]
    if way == "VALID":
        return [0] * axes, [0] * axes
    before: list[Any] = []
    after: list[Any] = []
    for size, k, s, d in zip(sizes, kernel, stride, dilation, strict=True):
        whole = d * (k - 1) + 1
        if s == 1:
            total: Dim = whole - 1
        elif isinstance(size, Expression):
            raise Unsupported(f"{node.name}: auto_pad {way} with a stride needs sizes that are numbers, got {size}")
        else:
            total = max((-(-size // s) - 1) * s + whole - size, 0)
        less = floor_divide(total, 2)
        before.append(less if way == "SAME_UPPER" else total - less)
        after.append(total - less if way == "SAME_UPPER" else less)
    return before, after


def padded(x: Any, before: Sequence[Any], after: Sequence[Any], value: float = 0.0) -> Any:
    """x with its last axes enlarged."""
    if not any(isinstance(amount, Expression) or amount for amount in (*before, *after)):
        return x
    sides = [amount for ends in zip(reversed(before), reversed(after), strict=True) for amount in ends]
    return F.pad(x, sides, value=value)


def window(node: Node, axes: int) -> tuple[list[int], list[int]]:
    """Strides and dilations."""
    return node.attribute("strides", [1] * axes), node.attribute("dilations", [1] * axes)


@reads("Conv")
def convolution(node: Node) -> Any:
    x, weight, bias = node[0], node[1], node.optional(2)
    axes = x.ndim - 2
    if axes not in (1, 2, 3):
        raise Unsupported(f"Conv: must have 1 to 3 axes of positions, got {axes}")
    stride, dilation = window(node, axes)
    kernel = node.attribute("kernel_shape") or list(node.type(1).shape[2:])
    before, after = paddings(node, node.type(0).shape[2:], kernel, stride, dilation)
    if any(isinstance(amount, int) and amount < 0 for amount in before) or not all(isinstance(size, int) for size in node.type(1).shape):
        raise Unsupported("Conv: negative padding, and weights of symbolic sizes, are not covered")
    if before != after:
        x, before = padded(x, before, after), [0] * axes
    function = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
    return function(x, weight, bias, tuple(stride), tuple(before), tuple(dilation), node.attribute("group", 1))


@reads("ConvTranspose")
def transposed_convolution(node: Node) -> Any:
    """The padding is cut off the result; `output_shape` decides it where given."""
    x, weight, bias = node[0], node[1], node.optional(2)
    axes = x.ndim - 2
    if axes not in (1, 2, 3):
        raise Unsupported(f"ConvTranspose: must have 1 to 3 axes of positions, got {axes}")
    stride, dilation = window(node, axes)
    kernel = node.attribute("kernel_shape") or list(node.type(1).shape[2:])
    extra = list(node.attribute("output_padding", [0] * axes))
    before, after = _cut(node, axes, kernel, stride, dilation, extra)
    groups = node.attribute("group", 1)
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[axes - 1]
    fits = before == after and all(e < max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)) and min(before) >= 0
    if fits:
        return function(x, weight, bias, tuple(stride), tuple(before), tuple(extra), groups, tuple(dilation))
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise Unsupported("ConvTranspose: output_padding must be less than stride or dilation")
    whole = function(x, weight, None, tuple(stride), (0,) * axes, tuple(extra), groups, tuple(dilation))
    whole = padded(whole, [-amount for amount in before], [-amount for amount in after])
    return whole if bias is None else whole + bias.reshape(-1, *[1] * axes)


def _cut(
    node: Node, axes: int, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], extra: Sequence[int]
) -> tuple[list[int], list[int]]:
    """How much of each end of the whole result is cut off."""
    way = node.attribute("auto_pad", "NOTSET")
    wanted = node.attribute("output_shape")
    if wanted is None and way in ("NOTSET", "", "VALID"):
        pads = node.attribute("pads", [0] * (2 * axes)) if way != "VALID" else [0] * (2 * axes)
        return pads[:axes], pads[axes:]
    sizes = node.type(0).shape[2:]
    if not all(isinstance(size, int) for size in sizes):
        raise Unsupported("ConvTranspose: output_shape needs sizes that are numbers")
    wanted = [size * s for size, s in zip(sizes, stride, strict=True)] if wanted is None else wanted[-axes:]
    before, after = [], []
    for size, k, s, d, e, out in zip(sizes, kernel, stride, dilation, extra, wanted, strict=True):
        total = s * (size - 1) + e + (k - 1) * d + 1 - out
        less = total // 2
        before.append(less if way != "SAME_LOWER" else total - less)
        after.append(total - less if way != "SAME_LOWER" else less)
    if way == "NOTSET":
        before, after = after, before
    return before, after
