"""Which in-place operators of an exported graph can be read as functional ones, because nobody else sees what they write to."""

from __future__ import annotations

from functools import cache
from operator import getitem
from typing import Any

import torch

_FRESH = """
    adaptive_avg_pool1d adaptive_avg_pool2d avg_pool1d avg_pool2d avg_pool3d batch_norm conv1d conv2d conv3d
    conv_transpose1d conv_transpose2d conv_transpose3d group_norm instance_norm layer_norm linear log_softmax matmul
    max_pool1d max_pool2d max_pool3d rms_norm scaled_dot_product_attention softmax
"""
_FRESH_COMPOSITES = frozenset(_FRESH.split())
"""Composite operators that always return new memory. Other composites may hand back an operand (dropout in eval mode)."""


class NotFunctional(ValueError):
    """The graph writes to tensors that others may see; it has to be functionalised by torch first."""


@cache
def returns_new_memory(target: Any) -> bool:
    """No output of the aten operator shares memory with an operand, nor is an operand written to."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return False
    if target._schema.is_mutable or any(result.alias_info is not None for result in target._schema.returns):
        return False
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(str(target._name), "CompositeImplicitAutograd")
    return not composite or target._opname in _FRESH_COMPOSITES


@cache
def writes(target: Any) -> bool:
    """The aten operator writes to an operand."""
    return isinstance(target, torch._ops.OpOverload) and bool(target._schema.is_mutable)


def in_place_owners(graph: torch.fx.Graph) -> dict[torch.fx.Node, torch.fx.Node]:
    """For each in-place node and each tensor it writes to, one node that stands for all names of that tensor.

    Raises: NotFunctional when what is written to may be seen under another name (a view, an input, a buffer), when a batch
    norm updates its buffers, or when an operator writes to anything but its first operand.
    """
    owners: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if _updates_statistics(node):
            raise NotFunctional(f"{node.name} updates running statistics")
        if not writes(node.target) or (node.target._opname in ("dropout_", "feature_dropout_") and node.args[2] is False):
            continue
        declared = node.target._schema.arguments
        written = [argument for argument in declared if argument.alias_info is not None and argument.alias_info.is_write]
        target = node.args[0] if node.args else None
        if len(written) != 1 or written[0].name != "self" or not isinstance(target, torch.fx.Node):
            raise NotFunctional(f"{node.name} writes to more than its first operand")
        owner = owners.get(target, target)
        if owner.op != "call_function" or not returns_new_memory(owner.target) or isinstance(owner.meta.get("val"), (tuple, list)):
            raise NotFunctional(f"{node.name} writes to what {owner.name} gives")
        owners[target] = owners[node] = owner
    for node in owners:
        for user in node.users:
            if user.op != "output" and user not in owners and not returns_new_memory(user.target):
                raise NotFunctional(f"{user.name} may be a view of {node.name}, which is written to")
    return owners


def _updates_statistics(node: torch.fx.Node) -> bool:
    """A batch or instance norm with running statistics in training mode: torch's schema does not say that it writes."""
    name = getattr(node.target, "_opname", "")
    position = {"batch_norm": 5, "instance_norm": 5, "cudnn_batch_norm": 5, "native_batch_norm": 5}.get(name)
    return position is not None and bool(node.args[position]) and any(argument is not None for argument in node.args[3:5])


def detach_regions(graph: torch.fx.Graph) -> None:
    """Detach what every no_grad region gives, so that the region may be merged into the graph without letting gradients through."""
    for node in list(graph.nodes):
        if str(node.target) != "wrap_with_set_grad_enabled" or node.args[0] is not False:
            continue
        for result in [user for user in node.users if user.target is getitem]:
            with graph.inserting_after(result):
                detached = graph.call_function(torch.ops.aten.detach.default, (result,))
            detached.meta = dict(result.meta)
            result.replace_all_uses_with(detached, delete_user_cb=lambda user, own=detached: user is not own)
