"""The values of single terms in every world."""

from __future__ import annotations

import zlib
from functools import cache

import torch
from torch import Tensor

from rewrites.generator.terms import Term
from rewrites.generator.vocabulary import OPERATIONS, SORTS
from rewrites.generator.world import PRIME, WORLDS, World


@cache
def _input(name: str, world: int) -> Tensor:
    """An input's residues, drawn from its name: [1, *shape]."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) + world)
    return torch.randint(0, PRIME, (1, *SORTS[name[0]].shape(WORLDS[world])), generator=generator).to(torch.float64)


def value_of(term: Term, number: int, world: World) -> Tensor:
    """The value of a term in the world of this number.

    Raises: ValueError, RuntimeError, IndexError where the operands' shapes do not fit.
    """
    made: dict[int, Tensor] = {}
    for part in term:
        if part.is_input:
            made[part.number] = _input(part.operation, number)
        else:
            made[part.number] = OPERATIONS[part.operation].kernel(world, *(made[child.number] for child in part.children))
    return made[term.number]


def equal_values(left: Term, right: Term) -> bool:
    """Whether two terms have equal values, of equal shapes, in every world."""
    try:
        return all(torch.equal(value_of(left, i, world), value_of(right, i, world)) for i, world in enumerate(WORLDS))
    except (ValueError, RuntimeError, IndexError):
        return False  # the shapes do not fit: a term has no value
