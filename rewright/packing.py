"""Kernels of convolutions kept in the blocks in which oneDNN computes, instead of being laid out so at every call.

PyTorch's eager mode hands oneDNN a convolution's weights as they lie in memory, and oneDNN reorders them whenever the convolution runs.
A module emitted here may keep the reordered copy beside the weights: the same elements in another order, so the same function. What a
module holds and saves stays as it is; the copies are made when the module first runs, and made anew when a weight or a size changes.
The kernels put out channels-last memory, so that a graph should be laid out so first (`rewright.layouts`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx


class PackedConvolution(torch.nn.Module):
    """`torch.conv2d` with a reordered copy of its weights.

    x: [n, groups·c, h, w]   weight: [groups·o, c, kh, kw]   bias: [groups·o]  ->  [n, groups·o, h', w']
    Where gradients are asked for, in lower precision, under a compiler or tracer, or without oneDNN it is `torch.conv2d` itself.
    """

    def __init__(self, stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...], groups: int) -> None:
        super().__init__()
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self._made_for: tuple[Any, ...] = ()
        self._packed: Tensor | None = None

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if not may_pack(x, weight):
            return torch.conv2d(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        made_for = (weight.data_ptr(), weight._version, weight.stride(), x.shape)
        if made_for != self._made_for:
            where = (self.padding, self.stride, self.dilation, self.groups)
            self._packed = torch.ops.mkldnn._reorder_convolution_weight(weight.detach(), *where, list(x.shape))
            self._made_for = made_for
        return torch.ops.mkldnn._convolution_pointwise(  # type: ignore[no-any-return]
            x, self._packed, bias, self.padding, self.stride, self.dilation, self.groups, "none", [], ""
        )

    def __getstate__(self) -> dict[str, Any]:
        # The copy is in a layout of this processor's, which cannot be written.
        return {**self.__dict__, "_made_for": (), "_packed": None}


def may_pack(x: Tensor, weight: Tensor) -> bool:
    """The convolution may run on reordered weights: plain float32 tensors of this processor, and nobody asks for gradients."""
    plain = type(x) is Tensor and type(weight) in (Tensor, torch.nn.Parameter) and x.layout is weight.layout is torch.strided
    if not plain or x.ndim != 4 or not x.numel() or not weight.numel() or torch.compiler.is_compiling():
        return False
    if x.device.type != "cpu" or weight.device.type != "cpu" or (x.dtype, weight.dtype) != (torch.float32, torch.float32):
        return False
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        return False
    onednn = torch.backends.mkldnn
    return bool(onednn.is_available() and onednn.enabled) and not torch.is_autocast_enabled("cpu")  # type: ignore[no-untyped-call]


def pack(module: fx.GraphModule) -> int:
    """Let the module's convolutions by weights of its own run on reordered copies of them; how many there are.

    The module is changed in place; its parameters, buffers and state dict stay as they are.
    """
    convolutions = [node for node in module.graph.nodes if node.op == "call_function" and node.target is torch.conv2d]
    convolutions = [node for node in convolutions if _is_by_weights(node)]
    if not convolutions:
        return 0
    name = "packed"
    while hasattr(module, name):
        name += "_"
    copies = torch.nn.ModuleList()
    module.add_module(name, copies)
    for number, node in enumerate(convolutions):
        x, weight, bias, stride, padding, dilation, groups = node.args
        copies.append(PackedConvolution(tuple(stride), tuple(padding), tuple(dilation), groups))
        with module.graph.inserting_before(node):
            call = module.graph.call_module(f"{name}.{number}", (x, weight, bias))
        node.replace_all_uses_with(call)
        module.graph.erase_node(node)
    module.recompile()
    return len(convolutions)


def _is_by_weights(node: fx.Node) -> bool:
    """The call has all seven arguments in order, numbers where numbers belong, and weights that the module holds."""
    if len(node.args) != 7 or node.kwargs:
        return False
    _, weight, bias, *where, groups = node.args
    held = isinstance(weight, fx.Node) and weight.op == "get_attr" and (bias is None or isinstance(bias, fx.Node))
    numbers = all(isinstance(part, (tuple, list)) and len(part) == 2 and all(isinstance(size, int) for size in part) for part in where)
    return held and numbers and isinstance(groups, int)


__all__ = ["PackedConvolution", "may_pack", "pack"]
