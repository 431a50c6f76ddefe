"""Activations."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from graphs.onnx.reading.registry import Node, reads


@reads("LeakyRelu")
def leaky_relu(node: Node) -> Any:
    return F.leaky_relu(node[0], node.attribute("alpha", 0.01))


@reads("Elu")
def elu(node: Node) -> Any:
    return F.elu(node[0], node.attribute("alpha", 1.0))


@reads("HardSigmoid")
def hard_sigmoid(node: Node) -> Any:
    """max(0, min(1, alpha · x + beta))."""
    x = node[0]
    alpha, beta = node.attribute("alpha", 0.2), node.attribute("beta", 0.5)
    return torch.clamp(torch.add(torch.mul(x, alpha), beta), 0.0, 1.0)


@reads("HardSwish")
def hard_swish(node: Node) -> Any:
    return F.hardswish(node[0])


@reads("Mish")
def mish(node: Node) -> Any:
    return F.mish(node[0])


@reads("Gelu")
def gelu(node: Node) -> Any:
    return F.gelu(node[0], approximate=node.attribute("approximate", "none"))


@reads("Swish")
def swish(node: Node) -> Any:
    """x · sigmoid(alpha · x)."""
    x, alpha = node[0], node.attribute("alpha", 1.0)
    return F.silu(x) if alpha == 1.0 else torch.mul(x, torch.sigmoid(torch.mul(x, alpha)))


@reads("Softsign")
def softsign(node: Node) -> Any:
    return F.softsign(node[0])


@reads("Softplus")
def softplus(node: Node) -> Any:
    return F.softplus(node[0])


@reads("Softmax", "LogSoftmax")
def softmax(node: Node) -> Any:
    """Along one axis; before opset 13 along all axes from this one on."""
    x = node[0]
    function = torch.softmax if node.name == "Softmax" else torch.log_softmax
    if node.opset >= 13:
        return function(x, node.attribute("axis", -1))
    axis = node.attribute("axis", 1)
    axis += x.ndim if axis < 0 else 0
    if axis == x.ndim - 1:
        return function(x, -1)
    return function(x.flatten(axis), -1).reshape(x.shape)


@reads("ThresholdedRelu")
def thresholded_relu(node: Node) -> Any:
    """x where it is above alpha, else 0."""
    x = node[0]
    return torch.where(torch.gt(x, node.attribute("alpha", 1.0)), x, torch.zeros_like(x))
