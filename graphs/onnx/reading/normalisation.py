"""Normalisation."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from graphs.onnx.reading.registry import Node, reads
from operators.normalisation import GroupNorm
from operators.operator import Unsupported


@reads("BatchNormalization")
def batch_norm(node: Node) -> Any:
    """With the running statistics; in training mode also the new ones, which take the batch's variance without correction."""
    x, scale, shift, mean, variance = (node[position] for position in range(5))
    eps = node.attribute("epsilon", 1e-5)
    if not node.attribute("training_mode", 0):
        if node.opset < 9 and not node.attribute("spatial", 1):
            raise Unsupported("BatchNormalization: statistics per position are not covered")
        if len({kind.type.dtype for kind in (x, scale, shift, mean, variance)}) > 1:
            raise Unsupported("BatchNormalization: several dtypes are not covered")
        return F.batch_norm(x, mean, variance, scale, shift, False, 0.0, eps)
    momentum = node.attribute("momentum", 0.9)
    axes = (0, *range(2, x.ndim))
    per_channel = (-1, *[1] * (x.ndim - 2))
    batch_mean = torch.mean(x, axes)
    centred = x - batch_mean.reshape(per_channel)
    batch_variance = torch.mean(centred * centred, axes)
    scaled = centred * torch.rsqrt(batch_variance + eps).reshape(per_channel)
    y = scaled * scale.reshape(per_channel) + shift.reshape(per_channel)
    return y, mean * momentum + batch_mean * (1 - momentum), variance * momentum + batch_variance * (1 - momentum)


@reads("InstanceNormalization")
def instance_norm(node: Node) -> Any:
    x, scale, shift = node.inputs()
    return F.instance_norm(x, None, None, scale, shift, True, 0.0, node.attribute("epsilon", 1e-5))


@reads("LayerNormalization")
def layer_norm(node: Node) -> Any:
    x, scale, shift = node[0], node[1], node.optional(2)
    axis = node.attribute("axis", -1)
    axis += x.ndim if axis < 0 else 0
    if node.results > 1 or node.attribute("stash_type", 1) != 1:
        return node.expanded()
    size = x.shape[axis:]
    if tuple(scale.shape) != tuple(size) or (shift is not None and tuple(shift.shape) != tuple(size)):
        return node.expanded()
    return F.layer_norm(x, size, scale, shift, node.attribute("epsilon", 1e-5))


@reads("RMSNormalization")
def rms_norm(node: Node) -> Any:
    x, scale = node.inputs()
    axis = node.attribute("axis", -1)
    axis += x.ndim if axis < 0 else 0
    size = x.shape[axis:]
    if tuple(scale.shape) != tuple(size) or node.attribute("stash_type", 1) != 1 or x.type.dtype != scale.type.dtype:
        return node.expanded()
    return F.rms_norm(x, size, scale, node.attribute("epsilon", 1e-5))


@reads("GroupNormalization")
def group_norm(node: Node) -> Any:
    x, scale, shift = node.inputs()
    if node.opset < 21 or node.attribute("stash_type", 1) != 1:
        return node.expanded()
    return node.apply(GroupNorm(node.attribute("num_groups")), x, scale, shift, node.attribute("epsilon", 1e-5))


@reads("LpNormalization")
def norm(node: Node) -> Any:
    """x over its p-norm along an axis; 0 where that is 0."""
    x, axis, p = node[0], node.attribute("axis", -1), node.attribute("p", 2)
    length = torch.sum(torch.abs(x), axis, keepdim=True) if p == 1 else torch.sqrt(torch.sum(x * x, axis, keepdim=True))
    return torch.where(torch.eq(length, 0.0), torch.zeros_like(x), x / length)


@reads("Dropout")
def dropout(node: Node) -> Any:
    """As it is at inference; dropping is random."""
    x = node[0]
    if node.opset >= 12 and node.has(2) and (node.tensor(2) is None or bool(node.tensor(2))):
        ratio = node.tensor(1) if node.has(1) else None
        if ratio is None or float(ratio) != 0.0:
            raise Unsupported("Dropout: in training mode it is random")
    return (x, torch.eq(x, x).logical_or(torch.ne(x, x))) if node.results > 1 else x
