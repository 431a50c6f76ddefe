"""Which tensors of a rule hold positions, and of how many: numbers drawn beyond those only show that PyTorch refuses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from graphs.graph import Graph, Value
from operators.expressions import Atom, Dim, Symbol, substitute
from operators.sources import Input
from verifier.wrapping import MOVES


@dataclass
class Positions:
    """What a tensor's positions index: how many there are, for each reading, and whether all readings count negative ones from the end."""

    extents: list[Dim] = field(default_factory=list)
    from_the_end: bool = True
    ignored: set[int] = field(default_factory=set)
    """Numbers that some reading passes over instead."""

    def within(self, tensor: torch.Tensor, sizes: Mapping[str, int], turned: bool) -> torch.Tensor:
        """The tensor with its whole numbers taken into the range of the fewest; `turned`, as negative ones where these count,
        or some of them as those that are passed over.
        """
        values: dict[Atom, Dim] = {Symbol(name): value for name, value in sizes.items()}
        fewest = min((size for extent in self.extents if isinstance(size := substitute(extent, values), int)), default=0)
        if not 0 < fewest <= torch.iinfo(tensor.dtype).max:
            return tensor
        taken = tensor.remainder(fewest)
        if turned and self.ignored and min(self.ignored) >= torch.iinfo(tensor.dtype).min:
            return torch.where(torch.arange(taken.numel()).reshape(taken.shape) % 3 == 0, min(self.ignored), taken)
        return taken - fewest if turned and self.from_the_end and len(self.extents) == 1 and tensor.dtype.is_signed else taken


def positions_in(graph: Graph) -> dict[str, Positions]:
    """The inputs that some operator reads as positions, as they are or moved."""
    found: dict[str, Positions] = {}
    for node in graph:
        operator, operands = graph.operator(node), graph.operands(node)
        types = [None if value is None else graph.type(value) for value in operands]
        for number, extent in operator.positions(*types).items():
            for name in _sources(graph, operands[number]):
                positions = found.setdefault(name, Positions())
                positions.extents.append(extent)
                positions.from_the_end &= operator.from_the_end
                positions.ignored |= set(operator.ignored)
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


__all__ = ["Positions", "positions_in"]
