"""Quantisation: numbers as x ≈ (q − zero point) · scale, with a scale for the tensor, for each slice of an axis, or for each block."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from graphs.onnx.reading.convolution import padded, paddings, window
from graphs.onnx.reading.pointwise import LARGEST
from graphs.onnx.reading.registry import Node, reads
from graphs.onnx.types import dtype_of
from operators.arranging import RepeatInterleave
from operators.operator import Unsupported, canonical_axis

RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}


def _spread(node: Node, part: Any, rank: int, axis: int, size: Any) -> Any:
    """A scale or zero point so that it broadcasts with x."""
    if part.ndim == 0 or (part.ndim == 1 and part.type.shape == (1,)):
        return part.reshape(())
    place = canonical_axis(axis, rank)
    if part.ndim == 1:
        return part.reshape(part.type.shape[0], *[1] * (-place - 1))
    block = node.attribute("block_size", 0)
    if not block:
        return part
    part = node.apply(RepeatInterleave(block, place), part)
    return part.narrow(place, 0, size)


def _parts(node: Node, x: Any, scale: Any, zero: Any) -> tuple[Any, Any]:
    axis = node.attribute("axis", 1)
    place = canonical_axis(axis, x.ndim) if x.ndim and (scale.ndim > 1 or scale.type.shape not in ((), (1,))) else -1
    size = x.type.shape[place] if x.ndim else 1
    return _spread(node, scale, x.ndim, axis, size), None if zero is None else _spread(node, zero, x.ndim, axis, size)


def quantised(x: Any, zero: Any, dtype: str, saturate: bool = True) -> Any:
    """x, divided by its scale already, rounded to even, moved by the zero point, and cut to the dtype's ends."""
    if dtype in LARGEST:
        return (torch.clamp(x, -LARGEST[dtype], LARGEST[dtype]) if saturate else x).to(getattr(torch, dtype))
    if dtype not in RANGES:
        raise Unsupported(f"quantisation to {dtype} is not covered")
    rounded: Any = torch.round(x)
    if zero is not None:
        rounded = torch.add(rounded, zero.to(getattr(torch, rounded.type.dtype)))
    return torch.clamp(rounded, *map(float, RANGES[dtype])).to(torch.int32).to(getattr(torch, dtype))


@reads("QuantizeLinear")
def quantise(node: Node) -> Any:
    x, scale, zero = node[0], node[1], node.optional(2)
    wanted = node.attribute("output_dtype", 0)
    dtype = zero.type.dtype if zero is not None else dtype_of(wanted) if wanted else "uint8"
    if x.type.dtype == "int32":
        x = x.to(torch.float32)
    spread, moved = _parts(node, x, scale, zero)
    if x.type.dtype in ("float16", "bfloat16"):
        x, spread = x.to(torch.float32), spread.to(torch.float32)
    return quantised(torch.div(x, spread), None if dtype in LARGEST else moved, dtype, bool(node.attribute("saturate", 1)))


@reads("DequantizeLinear")
def dequantise(node: Node) -> Any:
    x, scale, zero = node[0], node[1], node.optional(2)
    wanted = node.attribute("output_dtype", 0)
    dtype = dtype_of(wanted) if wanted else scale.type.dtype
    spread, moved = _parts(node, x, scale, zero)
    if x.type.dtype in LARGEST:
        return torch.mul(x.to(getattr(torch, spread.type.dtype)), spread).to(getattr(torch, dtype))
    whole: Any = x.to(torch.int32)
    if moved is not None:
        whole = torch.sub(whole, moved.to(torch.int32))
    product = torch.mul(whole.to(torch.float32), spread.to(torch.float32))
    return product if dtype == "float32" else product.to(getattr(torch, dtype))


def _centred(x: Any, zero: Any, rows: bool) -> Any:
    """x − zero point in int32; a zero point for each row of the first factor, or column of the second."""
    whole = x.to(torch.int32)
    if zero is None:
        return whole
    if zero.ndim == 1 and zero.type.shape != (1,) and rows:
        zero = zero.reshape(*zero.shape, 1)
    return torch.sub(whole, zero.to(torch.int32))


@reads("MatMulInteger")
def matmul_of_integers(node: Node) -> Any:
    return torch.matmul(_centred(node[0], node.optional(2), True), _centred(node[1], node.optional(3), False))


@reads("QLinearMatMul")
def quantised_matmul(node: Node) -> Any:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs()
    product = torch.matmul(_centred(a, a_zero, True), _centred(b, b_zero, False)).to(torch.float32)
    scales = [scale.to(torch.float32) for scale in (a_scale, b_scale, y_scale)]
    if any(scale.type.shape not in ((), (1,)) for scale in scales):
        raise Unsupported("QLinearMatMul: a scale per row or column is not covered")
    factor = torch.div(torch.mul(scales[0].reshape(()), scales[1].reshape(())), scales[2].reshape(()))
    return quantised(torch.mul(product, factor), y_zero.reshape(()), y_zero.type.dtype)


def _integer_convolution(node: Node, x: Any, weight: Any, x_zero: Any, weight_zero: Any) -> Any:
    """A convolution of integers, in float64, where every sum is exact; the padding is the zero point."""
    axes = x.ndim - 2
    stride, dilation = window(node, axes)
    before, after = paddings(node, x.type.shape[2:], node.attribute("kernel_shape") or list(weight.type.shape[2:]), stride, dilation)
    if weight_zero is not None and weight_zero.type.shape not in ((), (1,)):
        weight_zero = weight_zero.reshape(weight_zero.type.shape[0], *[1] * (axes + 1))
    if axes not in (1, 2, 3):
        raise Unsupported(f"{node.name}: must have 1 to 3 axes of positions, got {axes}")
    left, right = _centred(x, x_zero, False).to(torch.float64), _centred(weight, weight_zero, False).to(torch.float64)
    function = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
    return function(padded(left, before, after), right, None, tuple(stride), (0,) * axes, tuple(dilation), node.attribute("group", 1))


@reads("ConvInteger")
def convolution_of_integers(node: Node) -> Any:
    return _integer_convolution(node, node[0], node[1], node.optional(2), node.optional(3)).to(torch.int32)


@reads("QLinearConv")
def quantised_convolution(node: Node) -> Any:
    x, x_scale, x_zero, weight, weight_scale, weight_zero, y_scale, y_zero = (node[position] for position in range(8))
    sums = _integer_convolution(node, x, weight, x_zero, weight_zero)
    channels = (-1, *[1] * (x.ndim - 2))
    if node.has(8):
        sums = sums + node[8].to(torch.float64).reshape(channels)
    factor: Any = torch.div(torch.mul(x_scale.reshape(()), weight_scale), y_scale.reshape(()))
    factor = factor.reshape(channels) if factor.ndim and factor.type.shape != (1,) else factor.reshape(())
    return quantised(torch.mul(sums.to(torch.float32), factor), y_zero.reshape(()), y_zero.type.dtype)
