"""Stacks of terms: the representatives of one kind lie along one axis, so that an operation runs on thousands of them at once.

A kind is the shape in every world, and whether a term is made of weights alone. For each term a stack holds its values, the inputs that it
uses (seven bits for each sort, one bit for each input) and the operations in it, as arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rewrites.generator.terms import Term
from rewrites.generator.vocabulary import Operation
from rewrites.generator.world import World

Shapes = tuple[tuple[int, ...], ...]
"""The shape in each world."""
Integers = NDArray[np.int64]
_BLOCK = 4_000_000
_SORTS = 9
_LANE = 7
_FIRST_BITS = sum(1 << _LANE * sort for sort in range(_SORTS))


@dataclass
class Stack:
    """The representatives of one kind; `add` appends, in the order in which they are found."""

    shapes: Shapes
    weight: bool
    terms: list[Term] = field(default_factory=list)
    chunks: list[list[Tensor]] = field(default_factory=list)
    masks: list[int] = field(default_factory=list)
    _restricted: dict[str, Stack] = field(default_factory=dict)

    def restricted(self, sort: str) -> Stack:
        """Those of the terms that are inputs of this sort; with a capital, computed ones as well. A dot stands for all."""
        if sort == ".":
            return self
        if sort not in self._restricted:
            wanted = [i for i, t in enumerate(self.terms) if (t.operation[0] == sort.lower() if t.is_input else sort.isupper())]
            terms, masks = [self.terms[i] for i in wanted], [self.masks[i] for i in wanted]
            self._restricted[sort] = Stack(self.shapes, self.weight, terms, [[values[wanted] for values in self.values]], masks)
        return self._restricted[sort]

    def add(self, terms: Sequence[Term], values: Sequence[Tensor], masks: Sequence[int]) -> None:
        """Append terms with their values in each world ([terms, *shape]) and the inputs they use."""
        self.terms += terms
        self.masks += masks
        self.chunks.append(list(values))
        self._restricted.clear()
        for name in ("values", "inputs", "numbers", "sizes", "parts", "users"):
            self.__dict__.pop(name, None)

    @cached_property
    def values(self) -> list[Tensor]:
        """In each world, the values of all terms: [terms, *shape]."""
        joined = [torch.cat(parts) for parts in zip(*self.chunks, strict=True)]
        self.chunks = [joined]
        return joined

    @cached_property
    def inputs(self) -> Integers:
        """The inputs of each term as bits."""
        return np.array(self.masks, dtype=np.int64)

    @cached_property
    def numbers(self) -> Integers:
        """The number of each term."""
        return np.array([term.number for term in self.terms], dtype=np.int64)

    @cached_property
    def sizes(self) -> Integers:
        """The operations in each term."""
        return np.array([term.size for term in self.terms], dtype=np.int64)

    @cached_property
    def parts(self) -> Integers:
        """The numbers of the operations in each term, padded with -1: [terms, most operations]."""
        found = np.full((len(self.terms), max((term.size for term in self.terms), default=0)), -1, dtype=np.int64)
        for row, term in enumerate(self.terms):
            found[row, : term.size] = sorted(term.parts)
        return found

    @cached_property
    def users(self) -> tuple[Integers, Integers]:
        """Operations in order, each once for every term that has it, and the positions of those terms."""
        rows, columns = np.nonzero(self.parts >= 0)
        operations = self.parts[rows, columns]
        order = np.argsort(operations, kind="stable")
        return operations[order], rows[order]


class Inputs:
    """The bits of inputs: seven for each sort, so that at most nine sorts of at most six inputs take part."""

    def __init__(self, names: Sequence[str]) -> None:
        sorts = list(dict.fromkeys(name[0] for name in names))
        if len(sorts) > _SORTS or any(int(name[1:]) >= _LANE - 1 for name in names):
            raise ValueError(f"inputs: must be at most six of each of at most nine sorts, got {', '.join(names)}")
        self.bit = {name: 1 << (_LANE * sorts.index(name[0]) + int(name[1:])) for name in names}


def uses_first(masks: Any) -> Any:
    """Whether of each sort only the first inputs are used: x0 and x1, never x1 alone."""
    return (masks & (masks + _FIRST_BITS)) == 0


def fingerprints(values: Sequence[Tensor], shapes: Shapes, seed: int) -> Integers:
    """For each term of a stack of values, 64 bits that depend on the values and the shape in every world.

    Each world's residues are hashed by a random linear form modulo 2**64; two terms that differ in both worlds meet with a chance below
    2**-64, in one below 2**-44.
    """
    generator = np.random.default_rng([seed, *(size for shape in shapes for size in (len(shape), *shape))])
    total = np.full(len(values[0]), generator.integers(0, 2**64, dtype=np.uint64), dtype=np.uint64)
    for tensor in values:
        flat = tensor.reshape(len(tensor), -1).numpy().astype(np.uint64)
        form = generator.integers(0, 2**64, flat.shape[1], dtype=np.uint64) | np.uint64(1)
        total = _mixed(total ^ (flat @ form))
    found: Integers = total.view(np.int64)
    return found


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A permutation of 64-bit numbers in which every bit depends on every other (the finaliser of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def result_shapes(operation: Operation, operands: Sequence[Shapes], worlds: Sequence[World]) -> Shapes | None:
    """The operation's shapes for operands of these shapes; None when they do not fit."""
    try:
        return tuple(
            tuple(operation.kernel(world, *(torch.zeros((1, *shapes[i]), dtype=torch.float64) for shapes in operands)).shape[1:])
            for i, world in enumerate(worlds)
        )
    except (ValueError, RuntimeError, IndexError):
        return None


@dataclass
class _Lists:
    """Lists of operands: an index into each stack, with the union of their operations and inputs."""

    indices: list[Integers]
    inputs: Integers
    parts: Integers

    def __len__(self) -> int:
        return len(self.inputs)


def operand_lists(stacks: Sequence[Stack], operations: int, *, only_first: bool) -> Iterator[list[Integers]]:
    """Every list of operands, one from each stack, that together have so many operations, as indices in blocks.

    With `only_first` only those that together use the first inputs of each sort.
    """
    first = stacks[0]
    keep = first.sizes <= operations if len(stacks) > 1 else first.sizes == operations
    if len(stacks) == 1 and only_first:
        keep &= uses_first(first.inputs)
    (indices,) = np.nonzero(keep)
    if len(stacks) == 1:
        if len(indices):
            yield [indices]
        return
    begun = _Lists([indices], first.inputs[indices], first.parts[indices])
    yield from _extended(begun, stacks[1:], operations, only_first)


def _extended(lists: _Lists, stacks: Sequence[Stack], operations: int, only_first: bool) -> Iterator[list[Integers]]:
    last, stack = len(stacks) == 1, stacks[0]
    rows = max(1, _BLOCK // max(1, len(stack.terms)))
    for start in range(0, len(lists), rows):
        block = slice(start, start + rows)
        parts, inputs = lists.parts[block], lists.inputs[block]
        above, beside = _joined(parts, inputs, stack, operations, last=last, only_first=only_first)
        if not len(above):
            continue
        indices = [index[block][above] for index in lists.indices] + [beside]
        if last:
            yield indices
        else:
            union = _union(parts[above], stack.parts[beside], operations)
            yield from _extended(_Lists(indices, inputs[above] | stack.inputs[beside], union), stacks[1:], operations, only_first)


def _joined(parts: Integers, inputs: Integers, stack: Stack, operations: int, *, last: bool, only_first: bool) -> tuple[Integers, Integers]:
    """The pairs of a row of `parts` and a term of the stack that together have so many operations, or at most so many if not `last`."""
    width, sizes = len(stack.terms), (parts >= 0).sum(1)
    rows, columns = np.nonzero(parts >= 0)
    shared_parts, users = stack.users
    begin = np.searchsorted(shared_parts, parts[rows, columns], "left")
    count = np.searchsorted(shared_parts, parts[rows, columns], "right") - begin
    places = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(begin, count)
    codes, overlap = np.unique(np.repeat(rows, count) * width + users[places], return_counts=True)
    union = sizes[codes // width] + stack.sizes[codes % width] - overlap
    keep = union == operations if last else union <= operations
    if last and only_first:
        keep &= uses_first(inputs[codes // width] | stack.inputs[codes % width])
    found = [codes[keep]]
    for size in np.unique(sizes):
        (above,) = np.nonzero(sizes == size)
        (beside,) = np.nonzero(stack.sizes == operations - size if last else stack.sizes <= operations - size)
        apart = above[:, None] * width + beside[None, :]
        if last and only_first:
            apart = apart[uses_first(inputs[above][:, None] | stack.inputs[beside][None, :])]
        apart = apart.ravel()
        found.append(apart[~np.isin(apart, codes, assume_unique=True)] if len(codes) else apart)
    joined = np.sort(np.concatenate(found))
    return joined // width, joined % width


def _union(left: Integers, right: Integers, most: int) -> Integers:
    """Row by row, the union of two padded sets of at most `most` elements."""
    both = np.sort(np.concatenate([left, right], 1), 1)[:, ::-1]
    doubled = np.zeros_like(both, dtype=bool)
    doubled[:, 1:] = both[:, 1:] == both[:, :-1]
    return np.sort(np.where(doubled, -1, both), 1)[:, ::-1][:, :most]
