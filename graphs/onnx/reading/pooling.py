"""Pooling: windows that hang over the end are cut where ONNX cuts them, and means count what ONNX counts."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from graphs.onnx.reading.convolution import padded, paddings, window
from graphs.onnx.reading.registry import Node, reads
from operators.operator import Unsupported


def _torch_padding(before: list[Any], after: list[Any], kernel: list[int]) -> bool:
    """torch pads so itself."""
    return before == after and all(isinstance(b, int) and 2 * b <= k for b, k in zip(before, kernel, strict=True))


@reads("MaxPool")
def max_pool(node: Node) -> Any:
    if node.wants(1):
        raise Unsupported("MaxPool: the positions of the largest elements are not covered")
    x = node[0]
    axes = x.ndim - 2
    kernel = node.attribute("kernel_shape")
    stride, dilation = window(node, axes)
    before, after = paddings(node, node.type(0).shape[2:], kernel, stride, dilation)
    if axes not in (1, 2, 3) or x.type.dtype not in ("float32", "float64", "float16", "bfloat16"):
        raise Unsupported(f"MaxPool: {x.type} is not covered")
    ceil = bool(node.attribute("ceil_mode", 0))
    if not _torch_padding(before, after, kernel):
        if ceil:
            raise Unsupported("MaxPool: ceil_mode with unequal padding is not covered")
        x, before = padded(x, before, after, float("-inf")), [0] * axes
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[axes - 1]
    return function(x, tuple(kernel), tuple(stride), tuple(before), tuple(dilation), ceil)


@reads("AveragePool")
def average_pool(node: Node) -> Any:
    x = node[0]
    axes = x.ndim - 2
    if axes not in (1, 2, 3):
        raise Unsupported(f"AveragePool: must have 1 to 3 axes of positions, got {axes}")
    kernel = node.attribute("kernel_shape")
    stride, dilation = window(node, axes)
    before, after = paddings(node, node.type(0).shape[2:], kernel, stride, dilation)
    ceil, include = bool(node.attribute("ceil_mode", 0)), bool(node.attribute("count_include_pad", 0))
    function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[axes - 1]
    if any(d != 1 for d in dilation):
        return _dilated(node, x, kernel, stride, dilation, before, after, ceil, include)
    plain_padding = not any(before) and not any(after)
    if plain_padding or _torch_padding(before, after, kernel):
        return function(x, tuple(kernel), tuple(stride), tuple(before), ceil, include)
    if ceil:
        raise Unsupported("AveragePool: ceil_mode with unequal padding is not covered")
    whole = function(padded(x, before, after), tuple(kernel), tuple(stride), 0, False, True)
    if include:
        return whole
    ones = torch.ones_like(x)
    return torch.div(whole, function(padded(ones, before, after), tuple(kernel), tuple(stride), 0, False, True))


def _dilated(
    node: Node,
    x: Any,
    kernel: list[int],
    stride: list[int],
    dilation: list[int],
    before: list[Any],
    after: list[Any],
    ceil: bool,
    include: bool,
) -> Any:
    """The mean of a dilated window: a convolution of each channel with ones, over how many elements it sees."""
    axes = len(kernel)
    sizes: Any = node.type(0).shape[2:]
    after = list(after)
    if not all(isinstance(size, int) for size in sizes):
        raise Unsupported("AveragePool: dilated windows need sizes that are numbers")
    beyond = [0] * axes
    for axis in range(axes):
        room = int(sizes[axis]) + before[axis] + after[axis] - dilation[axis] * (kernel[axis] - 1) - 1
        count = room // stride[axis] + 1
        if ceil and room % stride[axis] and count * stride[axis] < int(sizes[axis]) + before[axis]:
            beyond[axis] = stride[axis] - room % stride[axis]
    function = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
    n: Any
    c: Any
    n, c = node.type(0).shape[:2]
    ones = node.held(torch.ones(1, 1, *kernel, dtype=getattr(torch, x.type.dtype)))

    def sums(part: Any) -> Any:
        return function(part, ones, None, tuple(stride), (0,) * axes, tuple(dilation), 1)

    whole = padded(x.reshape(n * c, 1, *sizes), before, [a + b for a, b in zip(after, beyond, strict=True)])
    counted = torch.ones((1, 1, *(int(size) for size in sizes)), dtype=getattr(torch, x.type.dtype))
    sides = [amount for ends in zip(reversed(before), reversed(after), strict=True) for amount in ends]
    counted = F.pad(counted, sides, value=1.0 if include else 0.0)
    counted = F.pad(counted, [amount for last in reversed(beyond) for amount in (0, last)])
    seen = node.held(function(counted, torch.ones(1, 1, *kernel, dtype=counted.dtype), None, stride, 0, dilation))
    result = torch.div(sums(whole), seen)
    return result.reshape(n, c, *result.shape[2:])


@reads("LpPool")
def norm_pool(node: Node) -> Any:
    """The p-norm of each window."""
    x = node[0]
    axes = x.ndim - 2
    kernel = node.attribute("kernel_shape")
    stride, dilation = window(node, axes)
    before, after = paddings(node, node.type(0).shape[2:], kernel, stride, dilation)
    p = node.attribute("p", 2)
    if axes not in (1, 2, 3) or node.attribute("ceil_mode", 0) or any(d != 1 for d in dilation):
        raise Unsupported("LpPool: ceil_mode and dilated windows are not covered")
    elements = 1
    for k in kernel:
        elements *= k
    powers = torch.pow(torch.abs(x), p)
    function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[axes - 1]
    sums = torch.mul(function(padded(powers, before, after), tuple(kernel), tuple(stride), 0, False, True), elements)
    return torch.sqrt(sums) if p == 2 else sums if p == 1 else torch.pow(sums, 1.0 / p)


@reads("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node) -> Any:
    x = node[0]
    axes = tuple(range(-(x.ndim - 2), 0))
    return torch.mean(x, axes, keepdim=True) if node.name == "GlobalAveragePool" else torch.amax(x, axes, keepdim=True)


@reads("GlobalLpPool")
def global_norm_pool(node: Node) -> Any:
    x, p = node[0], node.attribute("p", 2)
    sums = torch.sum(torch.pow(torch.abs(x), p), tuple(range(-(x.ndim - 2), 0)), keepdim=True)
    return torch.sqrt(sums) if p == 2 else sums if p == 1 else torch.pow(sums, 1.0 / p)
