"""Work that every user expects done: dead code, identities, common subexpressions and constant folding, each exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from graphs.evaluate import apply_operator, default_dtype, map_attributes, widened, widened_operator
from graphs.graph import Graph, Value
from graphs.interface import interface_of
from graphs.structure import node_digest
from operators.expressions import Expression
from operators.foreign import Foreign
from operators.operator import Effect, Operator
from operators.sources import Constant, Input, Scalar

_IMPURE = Effect.RANDOM | Effect.UPDATES_BUFFER | Effect.UNKNOWN


def is_pure(operator: Operator) -> bool:
    """Computing the operator again, or not at all, changes nothing else; a view counts as pure."""
    return not operator.effects & _IMPURE


def remove_dead_code(graph: Graph) -> int:
    """Remove what no output needs, in place; the number of nodes removed. Inputs stay."""
    return graph.remove_dead()


def remove_identities(graph: Graph) -> int:
    """Let readers of an identity, of a copy, or of a cast to the same dtype read its operand, in place; how many went.

    A copy stays where an output of the graph is the copy or a view of it: the caller may write into that.
    """
    removed = 0
    for node in graph.topological_order():
        operand = identity_of(graph, node)
        if operand is None or (type(graph.operator(node)).__name__ in _COPIES and is_seen_outside(graph, node)):
            continue
        graph.replace_uses(Value(node), operand)
        graph.remove(node)
        removed += 1
    return removed


def identity_of(graph: Graph, node: int) -> Value | None:
    """The operand that a node gives as it is, in memory of its own or not; None for a node that computes or moves anything."""
    operator, operands = graph.operator(node), graph.operands(node)
    if not operands or operands[0] is None or graph.type(operands[0]) != graph.types(node)[0]:
        return None
    name = type(operator).__name__
    neutral = name in ("Reshape", "Expand", "Cast", "Identity", *_COPIES)
    if name == "Dropout":
        neutral = operator.attributes.get("training") is False
    if name == "Permute":
        neutral = tuple(operator.attributes["axes"]) == tuple(range(-len(operator.attributes["axes"]), 0))
    return operands[0] if neutral else None


_COPIES = ("Copy", "Contiguous")


def is_seen_outside(graph: Graph, node: int) -> bool:
    """The node, or a view of it, is an output of the graph."""
    pending = [node]
    while pending:
        current = pending.pop()
        if any(value.node == current for value in graph.outputs):
            return True
        readers = graph.users(current)
        pending.extend(user for user, _, position in readers if position == 0 and graph.operator(user).effects & Effect.ALIASES)
    return False


def merge_common_subexpressions(graph: Graph) -> int:
    """Compute once what is computed twice, in place; how many nodes went. Random and unknown operators are never merged."""
    seen: dict[bytes, int] = {}
    digests: dict[int, bytes] = {}
    positions = {node: position for position, node in enumerate(graph.inputs)}
    merged = 0
    for node in graph.topological_order():
        operator = graph.operator(node)
        mergeable = is_pure(operator) and not isinstance(operator, Input) and not _has_a_name(graph, operator)
        digests[node] = digest = node_digest(graph, node, digests, positions) if mergeable else f"node {node}".encode()
        other = seen.setdefault(digest, node)
        if other != node:
            for output in range(len(graph.types(node))):
                graph.replace_uses(Value(node, output), Value(other, output))
            graph.remove(node)
            merged += 1
    graph.remove_dead()
    return merged


def _has_a_name(graph: Graph, operator: Operator) -> bool:
    """A constant that the module's state dict names: two such are different even while they are equal."""
    if not isinstance(operator, Constant):
        return False
    return isinstance(graph.constants[operator.name], torch.nn.Parameter) or operator.name in interface_of(graph).persistent


MOST_GROWTH = 4
"""A folded constant may be this many times as large as what it is computed from (or `SMALL` elements)."""
SMALL = 1 << 16


def fold_constants(graph: Graph, views: Callable[[int], bool] = lambda node: False) -> int:
    """Replace expressions of constants by constants, in place; how many new ones there are.

    Floating values are computed in float64 and rounded once, at the end; only an explicit cast rounds in between.
    Mere views of a constant are left, as they cost nothing, but for the nodes of which `views` holds. So is what the caller gets to
    see, and may write to. Nothing is folded into a constant much larger than what it is computed from, nor over anything random, nor,
    in a module captured in training mode, over parameters.
    """
    constant: dict[int, set[str]] = {}
    computed: set[int] = set()
    training = interface_of(graph).training
    for node in graph.topological_order():
        operator = graph.operator(node)
        operands = [operand for operand in graph.operands(node) if operand is not None]
        if isinstance(operator, Constant):
            if not (training and isinstance(graph.constants[operator.name], torch.nn.Parameter)):
                constant[node] = {operator.name}
        elif isinstance(operator, Scalar):
            if not isinstance(operator.value, Expression):
                constant[node] = set()
        elif _may_fold(graph, node) and all(operand.node in constant for operand in operands):
            constant[node] = set().union(*(constant[operand.node] for operand in operands))
            if not operator.effects & Effect.ALIASES or any(operand.node in computed for operand in operands) or views(node):
                computed.add(node)
    foldable = [node for node in constant if node in computed and _is_worth(graph, node, constant[node])]
    chosen = set(foldable)
    folded = 0
    for node in foldable:
        users = {user for user, _, _ in graph.users(node)}
        if any(user not in chosen for user in users) and not is_seen_outside(graph, node):
            folded += _fold(graph, node, constant[node])
    graph.remove_dead()
    return folded


def _may_fold(graph: Graph, node: int) -> bool:
    """The node is a pure application of an operator with a meaning here, and its types and attributes hold no symbolic size."""
    if isinstance(graph.operator(node), (Input, Foreign)) or not is_pure(graph.operator(node)):
        return False
    symbolic: list[Any] = []

    def look(value: Any) -> Any:
        if isinstance(value, Expression):
            symbolic.append(value)
        return value

    map_attributes(graph.operator(node), look)
    dims = [dim for kind in graph.types(node) for dim in kind.shape]
    return not symbolic and all(isinstance(dim, int) for dim in dims) and not any(kind.weak for kind in graph.types(node))


def _is_worth(graph: Graph, node: int, names: set[str]) -> bool:
    size = sum(_elements(kind.shape) for kind in graph.types(node))
    return bool(size <= max(SMALL, MOST_GROWTH * sum(graph.constants[name].numel() for name in names)))


def _elements(shape: Any) -> int:
    total = 1
    for dim in shape:
        total *= dim
    return total


def _fold(graph: Graph, node: int, names: set[str]) -> int:
    """Put constants in the place of every output of a constant node."""
    values = wide_values(graph, node)
    largest = min(names, key=lambda name: (-graph.constants[name].numel(), name), default="constant")
    trained = any(isinstance(graph.constants[name], torch.nn.Parameter) for name in names)
    made = 0
    for output, kind in enumerate(graph.types(node)):
        if not graph.use_count(Value(node, output)):
            continue
        tensor = values[Value(node, output)].to(getattr(torch, kind.dtype)).contiguous()
        if trained and tensor.is_floating_point():
            needs = any(graph.constants[name].requires_grad for name in names)
            tensor = torch.nn.Parameter(tensor, requires_grad=needs)
        graph.replace_uses(Value(node, output), graph.constant(fresh_name(graph, f"{largest}_folded"), tensor))
        made += 1
    return made


def fresh_name(graph: Graph, name: str) -> str:
    """The name, numbered when a constant or a module on the way has it already."""
    taken = set(graph.constants) | set(interface_of(graph).tensors)
    number, result = 1, name
    while result in taken:
        number += 1
        result = f"{name}_{number}"
    return result


def wide_values(graph: Graph, node: int) -> dict[Value, Any]:
    """The outputs of a node that depends on constants only, computed in a dtype wider than any of them."""
    known: dict[Value, Any] = {}
    order = _ancestors(graph, node)
    with torch.no_grad(), default_dtype(torch.float64):
        for ancestor in order:
            operator = graph.operator(ancestor)
            if isinstance(operator, Constant):
                known[Value(ancestor)] = widened(graph.constants[operator.name].detach())
                continue
            operands = [None if operand is None else known[operand] for operand in graph.operands(ancestor)]
            if type(operator).__name__ == "Cast":
                known.update({value: widened(tensor) for value, tensor in apply_operator(ancestor, operator, operands, {}).items()})
            else:
                known.update(apply_operator(ancestor, widened_operator(operator), operands, {}))
    return {value: tensor for value, tensor in known.items() if value.node == node}


def _ancestors(graph: Graph, node: int) -> list[int]:
    """The node and everything it depends on, operands first."""
    order: list[int] = []
    done: set[int] = set()
    pending: list[tuple[int, bool]] = [(node, False)]
    while pending:
        current, expanded = pending.pop()
        if expanded:
            order.append(current)
        elif current not in done:
            done.add(current)
            pending.append((current, True))
            pending.extend((operand.node, False) for operand in graph.operands(current) if operand is not None)
    return order


def simplify(graph: Graph) -> dict[str, int]:
    """Every pass above, in place, until nothing changes; how much each did."""
    done = {"identities": 0, "common subexpressions": 0, "folded constants": 0, "dead": 0}
    while True:
        identities, merged, folded = remove_identities(graph), merge_common_subexpressions(graph), fold_constants(graph)
        done["identities"] += identities
        done["common subexpressions"] += merged
        done["folded constants"] += folded
        done["dead"] += graph.remove_dead()
        if not identities and not merged and not folded:
            return done
