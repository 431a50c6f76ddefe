"""Hashes of graphs by structure: equal for graphs that are isomorphic and hold equal constants, whatever their nodes are called."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import torch

from graphs.graph import Graph, Value
from operators.opaque import Opaque
from operators.operator import Operator
from operators.sources import Constant, Input, Scalar

Digest = bytes
_SIZE = 16


def _digest(*parts: bytes) -> Digest:
    state = blake2b(digest_size=_SIZE)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()


def operator_digest(operator: Operator) -> Digest:
    """The operator with its attributes; types of attributes count (1, 1.0 and True differ, as do 0.0 and -0.0)."""
    # Operators that hold numbers are equal to Python where they must not be here, so they cannot be cache keys.
    return _operator_digest(operator) if isinstance(operator, (Scalar, Opaque)) else _cached_digest(operator)


@lru_cache(maxsize=1 << 16)
def _cached_digest(operator: Operator) -> Digest:
    return _operator_digest(operator)


def _operator_digest(operator: Operator) -> Digest:
    fields = [f"{name}={_described(value)}" for name, value in operator.attributes.items()]
    return _digest(type(operator).__name__.encode(), *(field.encode() for field in fields))


def _described(value: Any) -> str:
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return "(" + ",".join(map(_described, value)) + ")"
    if isinstance(value, float):
        return f"float:{value.hex()}"
    return f"{type(value).__name__}:{value}"


def tensor_digest(tensor: torch.Tensor) -> Digest:
    """The content of a tensor: dtype, shape and elements, bit by bit; remembered while the tensor lives and is not written to."""
    key = id(tensor)
    known = _TENSORS.get(key)
    if known is not None and known[0]() is tensor and known[1] == tensor._version:
        return known[2]
    content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)
    state = blake2b(f"{tensor.dtype}{list(tensor.shape)}".encode(), digest_size=_SIZE)
    state.update(content.numpy().data)
    _TENSORS[key] = (weakref.ref(tensor, lambda _: _TENSORS.pop(key, None)), tensor._version, state.digest())
    return state.digest()


_TENSORS: dict[int, tuple[weakref.ref[torch.Tensor], int, Digest]] = {}


def node_digests(graph: Graph, known: Mapping[int, Digest] | None = None) -> dict[int, Digest]:
    """For every node, what it computes: equal digests, equal operators on operands of equal digests.

    Inputs are told apart by their position. Operands of a commutative operator count in either order. `known` gives the digests
    of nodes that did not change since (those of everything they depend on must not have changed either).
    """
    digests: dict[int, Digest] = {}
    positions = {node: position for position, node in enumerate(graph.inputs)}
    for node in graph.topological_order():
        if known is not None and node in known:
            digests[node] = known[node]
        else:
            digests[node] = node_digest(graph, node, digests, positions)
    return digests


def node_digest(graph: Graph, node: int, digests: Mapping[int, Digest], positions: Mapping[int, int]) -> Digest:
    """The digest of one node from those of its operands."""
    operator = graph.operator(node)
    if isinstance(operator, Input):
        return _digest(b"input", str(positions[node]).encode(), str((operator.type, operator.type.weak)).encode())
    if isinstance(operator, Constant):
        return _digest(b"constant", tensor_digest(graph.constants[operator.name]))
    parts = [_read(operand, digests) for operand in graph.operands(node)]
    if operator.commutative:
        parts[:2] = sorted(parts[:2])
    return _digest(operator_digest(operator), *parts)


def _read(operand: Value | None, digests: Mapping[int, Digest]) -> bytes:
    return b"" if operand is None else digests[operand.node] + operand.output.to_bytes(4, "little")


def structural_hash(graph: Graph, digests: Mapping[int, Digest] | None = None) -> str:
    """Equal for graphs that compute the same outputs by the same nodes: names, numbering and dead nodes do not count.

    A value computed once differs from the same value computed twice. `digests` are those of `node_digests`, where at hand.
    """
    digests = node_digests(graph) if digests is None else digests
    outputs = [_read(value, digests) for value in graph.outputs]
    live = graph.live()
    twins: dict[Digest, int] = {}
    for node in live:
        twins[digests[node]] = twins.get(digests[node], 0) + 1
    signatures = []
    for node in live:
        users: list[bytes] = []
        if twins[digests[node]] > 1:
            users = sorted(digests[user] + bytes((output, position)) for user, output, position in graph.users(node) if user in live)
        signatures.append(_digest(digests[node], *users))
    types = [str(graph.types(node)).encode() for node in graph.inputs]
    return _digest(b"".join(outputs), *sorted(signatures), b"inputs", *types).hex()
