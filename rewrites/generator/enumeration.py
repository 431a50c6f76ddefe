"""Bottom-up enumeration: terms by number of operations, one representative per class of equal values."""

from __future__ import annotations

import itertools
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from torch import Tensor

from rewrites.generator.classes import ClassIndex
from rewrites.generator.stacks import Inputs, Integers, Shapes, Stack, fingerprints, operand_lists, result_shapes, uses_first
from rewrites.generator.terms import Term, TermBank, canonical_names
from rewrites.generator.vocabulary import Operation, Source
from rewrites.generator.world import WORLDS, World

Equation = tuple[Term, Term]
_AT_ONCE = 4096
_BITS = 24


@dataclass
class Growth:
    """What one level of the enumeration took: terms evaluated, new classes, new equations, seconds, peak bytes of this process."""

    operations: int
    tried: int = 0
    classes: int = 0
    equations: int = 0
    seconds: float = 0.0
    memory: int = 0


@dataclass
class _Found:
    """New representatives of one kind, not yet in a stack."""

    terms: list[Term] = field(default_factory=list)
    masks: list[int] = field(default_factory=list)
    values: list[list[Tensor]] = field(default_factory=list)


@dataclass
class Enumeration:
    """Enumerates terms of the operations over the sources; `equations` collects what turned out equal (one per renaming)."""

    operations: Sequence[Operation]
    sources: Sequence[Source]
    worlds: Sequence[World] = WORLDS
    bank: TermBank = field(default_factory=TermBank)
    equations: dict[tuple[str, str], Equation] = field(default_factory=dict)
    growth: list[Growth] = field(default_factory=list)
    index: ClassIndex = field(default_factory=ClassIndex)
    most_memory: int | None = None
    """Bytes of this process at which the enumeration stops; `stopped` then says so."""
    stopped: str = ""
    stacks: dict[tuple[Shapes, bool], Stack] = field(default_factory=dict)
    split_parts: dict[tuple[str, str], dict[str, Equation]] = field(default_factory=dict)
    """For each term that is split: each part's representative, and the part."""
    _masks: dict[int, int] = field(default_factory=dict)
    _fresh: dict[tuple[Shapes, bool], _Found] = field(default_factory=dict)
    _lists: dict[tuple[int, ...], list[list[Integers]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        bits = Inputs([source.name for source in self.sources])
        for source in self.sources:
            term = self.bank.input(source.name)
            shapes = tuple(source.shape(world) for world in self.worlds)
            values = [world.draw(shape)[None] for world, shape in zip(self.worlds, shapes, strict=True)]
            self._masks[term.number] = bits.bit[source.name]
            self.index.setdefault(int(fingerprints(values, shapes, 0)[0]), self._packed_input(term))
            self._keep((shapes, source.weight), [term], [bits.bit[source.name]], values)
        self._stack()

    def level(self, last: bool = False, tick: Callable[[int], None] = lambda done: None) -> Growth:
        """Enumerate the terms of one operation more; the growth it took.

        Terms of the `last` level are not extended: no values are kept, and of terms that differ in which inputs they use, only those are
        made that use the first ones of each sort.
        """
        begun = time.perf_counter()
        growth = Growth(len(self.growth) + 1)
        self._lists.clear()
        for number, operation in enumerate(self.operations):
            for stacks, indices in self._operands(operation, growth.operations, last):
                growth.tried += len(indices[0])
                tick(growth.tried)
                self._evaluate(number, stacks, indices, last, growth)
                if self.most_memory is not None and resident() > self.most_memory:
                    limit = f"{self.most_memory / 2**30:.1f} GiB"
                    self.stopped = f"terms of {growth.operations} operations: stopped at {growth.tried} terms, {limit} of memory are used"
                    break
            if self.stopped:
                break
        self._stack()
        growth.seconds = time.perf_counter() - begun
        growth.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self.growth.append(growth)
        return growth

    def _operands(self, operation: Operation, size: int, last: bool) -> Iterator[tuple[list[Stack], list[Integers]]]:
        """Every list of representatives whose union has `size` − 1 operations, in blocks of one kind."""
        choices = [[stack for stack in self.stacks.values() if _suits(operation, p, stack)] for p in range(len(operation.ranks))]
        if operation.inputs:
            restricted = [[stack.restricted(sort) for stack in found] for found, sort in zip(choices, operation.inputs, strict=True)]
            choices = [[stack for stack in found if stack.terms] for found in restricted]
        for stacks in map(list, itertools.product(*choices)):
            if operation.constant and size > 1:
                continue
            if result_shapes(operation, [stack.shapes for stack in stacks], self.worlds) is None:
                continue
            key = tuple(map(id, stacks))
            if key not in self._lists:
                self._lists[key] = list(operand_lists(stacks, size - 1, only_first=last))
            for indices in self._lists[key]:
                if operation.commutative:
                    ordered = stacks[0].numbers[indices[0]] <= stacks[1].numbers[indices[1]]
                    indices = [index[ordered] for index in indices]
                for start in range(0, len(indices[0]), _AT_ONCE):
                    yield stacks, [index[start : start + _AT_ONCE] for index in indices]

    def _evaluate(self, number: int, stacks: list[Stack], indices: list[Integers], last: bool, growth: Growth) -> None:
        operation = self.operations[number]
        operands = [[values[index] for values in stack.values] for stack, index in zip(stacks, indices, strict=True)]
        values = [operation.kernel(world, *at) for world, *at in zip(self.worlds, *operands, strict=True)]
        shapes = tuple(tuple(tensor.shape[1:]) for tensor in values)
        keys = fingerprints(values, shapes, 0).tolist()
        masks = np.bitwise_or.reduce([stack.inputs[index] for stack, index in zip(stacks, indices, strict=True)])
        children = np.stack([stack.numbers[index] for stack, index in zip(stacks, indices, strict=True)], 1)
        noted = uses_first(masks)
        new: list[int] = []
        for row, (key, numbers) in enumerate(zip(keys, children.tolist(), strict=True)):
            packed = self._packed(number, numbers)
            representative = self.index.setdefault(key, packed)
            if representative == packed:
                new.append(row)
            elif noted[row]:
                growth.equations += self._note(operation, self._unpacked(representative), self._unpacked(packed))
        growth.classes += len(new)
        if new and not last:
            terms = [self.bank.apply(operation.name, *(self.bank.term(child) for child in children[row].tolist())) for row in new]
            self._keep((shapes, all(stack.weight for stack in stacks)), terms, masks[new].tolist(), [tensor[new] for tensor in values])

    def _keep(self, kind: tuple[Shapes, bool], terms: list[Term], masks: list[int], values: list[Tensor]) -> None:
        found = self._fresh.setdefault(kind, _Found())
        found.terms += terms
        found.masks += masks
        found.values.append(values)

    def _stack(self) -> None:
        """Append the new representatives to the stacks of their kinds."""
        for kind, found in self._fresh.items():
            stack = self.stacks.setdefault(kind, Stack(*kind))
            stack.chunks += found.values[:-1]
            stack.add(found.terms, found.values[-1], found.masks)
        self._fresh.clear()

    def _packed_input(self, term: Term) -> int:
        return term.number << 8

    def _packed(self, operation: int, children: list[int]) -> int:
        packed = 0
        for child in reversed(children):
            packed = packed << _BITS | child
        return packed << 8 | operation + 1

    def _unpacked(self, packed: int) -> Term:
        operation, packed = (packed & 255) - 1, packed >> 8
        if operation < 0:
            return self.bank.term(packed)
        chosen = self.operations[operation]
        children = [packed >> _BITS * position & (1 << _BITS) - 1 for position in range(len(chosen.ranks))]
        return self.bank.apply(chosen.name, *map(self.bank.term, children))

    def _note(self, operation: Operation, left: Term, right: Term) -> int:
        if operation.family == "split":
            self._note_part(operation, left, right)
        names = canonical_names((left, right), lambda name: name[0])
        left, right = self.bank.rename(left, names), self.bank.rename(right, names)
        key = str(left), str(right)
        if key in self.equations or key[::-1] in self.equations or left is right:
            return 0
        self.equations[key] = (left, right)
        return 1

    def _note_part(self, operation: Operation, representative: Term, part: Term) -> None:
        names = canonical_names((part,), lambda name: name[0])
        representative, part = self.bank.rename(representative, names), self.bank.rename(part, names)
        axis, _, which = operation.name.rpartition("_")
        self.split_parts.setdefault((axis, str(part.children[0])), {})[which] = (representative, part)


def resident() -> int:
    """The bytes of memory that this process holds at the moment; the most it ever held where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def _suits(operation: Operation, position: int, stack: Stack) -> bool:
    """Whether terms of this kind can be the operand at this position."""
    rank = operation.ranks[position]
    if rank is not None and len(stack.shapes[0]) != rank:
        return False
    return stack.weight if position in operation.weights else not (stack.weight and operation.activation == position)
