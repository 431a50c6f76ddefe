"""Which tensors of a rule hold positions, and of how many: numbers drawn beyond those only show that PyTorch refuses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from graphs.graph import Graph, Value
from operators.expressions import Atom, Dim, Symbol, substitute
from operators.sources import Input
from verifier.wrapping import MOVES


def extents_of_positions(graph: Graph) -> dict[str, list[Dim]]:
    """Of the inputs that some operator reads as positions, as they are or moved: how many positions there are, for each reading."""
    found: dict[str, list[Dim]] = {}
    for node in graph:
        operands = graph.operands(node)
        types = [None if value is None else graph.type(value) for value in operands]
        for number, extent in graph.operator(node).positions(*types).items():
            for name in _sources(graph, operands[number]):
                found.setdefault(name, []).append(extent)
    return found


def _sources(graph: Graph, value: Value | None) -> set[str]:
    """The inputs whose elements, moved, are those of the value."""
    if value is None:
        return set()
    operator = graph.operator(value.node)
    if isinstance(operator, Input):
        return {operator.name}
    if type(operator).__name__ not in MOVES | {"Cast"}:
        return set()
    return {name for operand in graph.operands(value.node) for name in _sources(graph, operand)}


def within(tensor: torch.Tensor, extents: Sequence[Dim], sizes: Mapping[str, int]) -> torch.Tensor:
    """The tensor with its whole numbers taken into the range of the fewest positions that it is read as."""
    values: dict[Atom, Dim] = {Symbol(name): value for name, value in sizes.items()}
    fewest = min((size for extent in extents if isinstance(size := substitute(extent, values), int)), default=0)
    return tensor.remainder(fewest) if 0 < fewest <= torch.iinfo(tensor.dtype).max else tensor


__all__ = ["extents_of_positions", "within"]
