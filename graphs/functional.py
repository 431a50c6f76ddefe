"""Which in-place operators of an exported graph can be read as functional ones, because nobody else sees what they write to."""

from __future__ import annotations

from functools import cache
from operator import getitem
from typing import Any

import torch

_FRESH = """
    adaptive_avg_pool1d adaptive_avg_pool2d avg_pool1d avg_pool2d avg_pool3d batch_norm conv1d conv2d conv3d
    concat concatenate conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity cross_entropy_loss divide
    floor_divide group_norm hstack instance_norm kron layer_norm linear log_softmax matmul max_pool1d max_pool2d max_pool3d
    multiply outer pad rms_norm scaled_dot_product_attention softmax square std subtract tile true_divide upsample_bicubic2d
    upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d var
    vstack where
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
        if not _owns_its_memory(owner):
            raise NotFunctional(f"{node.name} writes to what {owner.name} gives")
        owners[target] = owners[node] = owner
    place = {node: number for number, node in enumerate(graph.nodes)}
    last: dict[torch.fx.Node, int] = {}
    for node, owner in owners.items():
        if writes(node.target):
            last[owner] = max(place[node], last.get(owner, -1))
    for node, owner in owners.items():
        for user in node.users:
            # A view that is made after the last write sees what it should.
            if place[user] < last[owner] and user not in owners and not returns_new_memory(user.target):
                raise NotFunctional(f"{user.name} may be a view of {node.name}, which is written to")
    return owners


def _owns_its_memory(node: torch.fx.Node) -> bool:
    """The node is one tensor of new memory: the output, or one of several outputs, of an operator that makes it."""
    if node.target is getitem:
        node = node.args[0]  # type: ignore[assignment]
        return node.op == "call_function" and returns_new_memory(node.target)
    return node.op == "call_function" and returns_new_memory(node.target) and not isinstance(node.meta.get("val"), (tuple, list))


def _updates_statistics(node: torch.fx.Node) -> bool:
    """A batch or instance norm with running statistics in training mode: torch's schema does not say that it writes."""
    name = getattr(node.target, "_opname", "")
    position = {"batch_norm": 5, "instance_norm": 5, "cudnn_batch_norm": 5, "native_batch_norm": 5}.get(name)
    return position is not None and bool(node.args[position]) and any(argument is not None for argument in node.args[3:5])


def prepare(graph: torch.fx.Graph) -> None:
    """Make a graph ready for torch's functionalisation, which takes the result of every composite operator for new memory.

    A dropout that is switched off gives its operand itself, and is replaced by it.
    Raises: AliasError where another composite operator may hand through memory that is written to.
    """
    for node in list(graph.nodes):
        if node.op == "call_function" and getattr(node.target, "_opname", "") in _SWITCHED and node.args[2] is False:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    same = _Classes()
    doubtful: list[torch.fx.Node] = []
    writers = [node for node in graph.nodes if writes(node.target)]
    targets = [argument for node in writers for argument in _written(node)]
    for node in graph.nodes:
        if node.op != "call_function" or _is_fresh(node):
            continue
        operands = [operand for operand in node.all_input_nodes if isinstance(operand.meta.get("val"), (torch.Tensor, tuple, list))]
        for operand in operands:
            same.join(node, operand)
        inside = [part for region in _regions(node) for part in region.nodes if part.op == "call_function"]
        if any(writes(part.target) for part in inside):
            targets += node.all_input_nodes
        if _hides_aliases(node.target) or any(_hides_aliases(part.target) and not _is_fresh(part) for part in inside):
            doubtful.append(node)
    written = {same.of(argument) for argument in targets}
    for node in doubtful:
        if same.of(node) in written:
            raise AliasError(node)


class AliasError(ValueError):
    """A write to a tensor that a composite operator may share with its operand; `node` is that operator's."""

    def __init__(self, node: torch.fx.Node) -> None:
        super().__init__(f"what {node.target} takes or gives is written to, and the two may share memory; write to a clone of it")
        self.node = node


class _Classes:
    """Sets of nodes that may share memory."""

    def __init__(self) -> None:
        self.parent: dict[torch.fx.Node, torch.fx.Node] = {}

    def of(self, node: torch.fx.Node) -> torch.fx.Node:
        while node in self.parent:
            node = self.parent[node]
        return node

    def join(self, first: torch.fx.Node, second: torch.fx.Node) -> None:
        first, second = self.of(first), self.of(second)
        if first is not second:
            self.parent[first] = second


_SWITCHED = ("dropout", "dropout_", "feature_dropout", "feature_dropout_", "alpha_dropout", "alpha_dropout_", "feature_alpha_dropout")


def _written(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The operands that torch's schema says the node writes to."""
    found = []
    for position, argument in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.kwargs.get(argument.name, node.args[position] if position < len(node.args) else None)
            found += [part for part in (given if isinstance(given, (tuple, list)) else [given]) if isinstance(part, torch.fx.Node)]
    return found


def _regions(node: torch.fx.Node) -> list[torch.fx.Graph]:
    """The graphs of the regions that a node runs."""
    named = [argument for argument in node.args if isinstance(argument, torch.fx.Node) and argument.op == "get_attr"]
    found = [getattr(node.graph.owning_module, str(argument.target), None) for argument in named]
    return [module.graph for module in found if isinstance(module, torch.fx.GraphModule)]


def _is_fresh(node: torch.fx.Node) -> bool:
    """The node gives new memory; an einsum of several operands does."""
    if getattr(node.target, "_opname", "") == "einsum" and isinstance(node.args[1], (tuple, list)) and len(node.args[1]) > 1:
        return True
    return returns_new_memory(node.target)


def _hides_aliases(target: Any) -> bool:
    """A composite aten operator that torch's schema says gives new memory, and that may not."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten" or target._schema.is_mutable:
        return False
    return all(result.alias_info is None for result in target._schema.returns)


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
