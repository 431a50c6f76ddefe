"""Bottom-up enumeration: terms by number of operations, one representative per class of equal values."""

from __future__ import annotations

import itertools
import resource
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from rewrites.generator.terms import Term, TermBank, canonical_names
from rewrites.generator.vocabulary import Operation, Source
from rewrites.generator.world import WORLDS, World, digest

Values = list[Tensor]
Equation = tuple[Term, Term]


@dataclass
class Growth:
    """What one level of the enumeration took: terms tried, terms that are defined, new classes, equations, seconds, peak bytes."""

    operations: int
    tried: int = 0
    defined: int = 0
    classes: int = 0
    equations: int = 0
    seconds: float = 0.0
    memory: int = 0


class ClassIndex:
    """Fingerprint to representative; entries beyond `limit` go to a temporary SQLite file."""

    def __init__(self, limit: int = 4_000_000) -> None:
        self._memory: dict[bytes, int] = {}
        self._limit = limit
        self._disk: sqlite3.Connection | None = None

    def __len__(self) -> int:
        spilled = self._disk.execute("SELECT COUNT(*) FROM classes").fetchone()[0] if self._disk else 0
        return len(self._memory) + int(spilled)

    def setdefault(self, key: bytes, number: int) -> int:
        """The representative of the class, which becomes `number` when the class is new."""
        found = self._memory.get(key)
        if found is None and self._disk is not None:
            row = self._disk.execute("SELECT number FROM classes WHERE key = ?", (key,)).fetchone()
            found = row[0] if row else None
        if found is not None:
            return found
        if len(self._memory) < self._limit:
            self._memory[key] = number
        else:
            if self._disk is None:
                self._folder = tempfile.TemporaryDirectory(prefix="rewright-classes-")
                self._disk = sqlite3.connect(Path(self._folder.name) / "classes.sqlite")
                self._disk.execute("CREATE TABLE classes (key BLOB PRIMARY KEY, number INTEGER) WITHOUT ROWID")
            self._disk.execute("INSERT INTO classes VALUES (?, ?)", (key, number))
        return number


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
    levels: list[list[Term]] = field(default_factory=list)
    split_parts: dict[tuple[str, str], dict[str, Equation]] = field(default_factory=dict)
    """For each term that is split: each part's representative, and the part."""
    _values: dict[int, Values] = field(default_factory=dict)
    _terms: dict[int, Term] = field(default_factory=dict)
    _weights: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._weights = frozenset(source.name for source in self.sources if source.weight)
        inputs = []
        for source in self.sources:
            term = self.bank.input(source.name)
            self._values[term.number] = [world.draw(source.shape(world)) for world in self.worlds]
            self._terms[term.number] = term
            key = digest(list(self._values[term.number]))
            assert key is not None
            self.index.setdefault(key, term.number)
            inputs.append(term)
        self.levels.append(inputs)

    def level(self, last: bool = False, tick: Callable[[int], None] = lambda done: None) -> Growth:
        """Enumerate the terms of one operation more; the growth it took.

        Terms of the `last` level are not extended: no values are kept, and of terms that differ in which inputs they use, only those are
        made that use the first ones of each sort.
        """
        import time

        begun = time.perf_counter()
        size = len(self.levels)
        growth, fresh = Growth(size), []
        for operation in self.operations:
            for children in self._operand_lists(operation, size):
                if last and not self._uses_first_inputs(children):
                    continue
                growth.tried += 1
                if growth.tried % 1000 == 0:
                    tick(growth.tried)
                values = self._evaluate(operation, children)
                if values is None:
                    continue
                growth.defined += 1
                term = self.bank.apply(operation.name, *children)
                key = digest(list(values))
                assert key is not None
                representative = self.index.setdefault(key, term.number)
                if representative == term.number:
                    growth.classes += 1
                    self._terms[term.number] = term
                    if not last:
                        self._values[term.number] = values
                    fresh.append(term)
                elif representative in self._terms:
                    growth.equations += self._note(self._terms[representative], term)
                    if operation.family == "split":
                        self._note_part(operation, self._terms[representative], term)
        self.levels.append(fresh)
        growth.seconds = time.perf_counter() - begun
        growth.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self.growth.append(growth)
        return growth

    def _operand_lists(self, operation: Operation, size: int) -> Iterator[tuple[Term, ...]]:
        """Every list of representatives whose union has `size` − 1 operations."""
        arity = len(operation.ranks)
        known = list(itertools.chain(*self.levels))
        if arity == 1:
            yield from ((term,) for term in self.levels[size - 1] if self._suits(operation, 0, term))
            return
        choices = [[term for term in known if self._suits(operation, position, term)] for position in range(arity)]
        for first in choices[0]:
            rest = choices[1:] if arity > 2 else [[t for t in choices[1] if t.size >= size - 1 - first.size]]
            for others in itertools.product(*rest):
                children = (first, *others)
                if operation.commutative and first.number > others[0].number:
                    continue
                if len(frozenset().union(*(child.parts for child in children))) == size - 1:
                    yield children

    def _uses_first_inputs(self, children: tuple[Term, ...]) -> bool:
        used = {name for child in children for name in child.inputs}
        counts: dict[str, int] = {}
        for name in used:
            counts[name[0]] = max(counts.get(name[0], 0), int(name[1:]) + 1)
        return sum(counts.values()) == len(used)

    def _suits(self, operation: Operation, position: int, term: Term) -> bool:
        values = self._values.get(term.number)
        rank = operation.ranks[position]
        if values is None or (rank is not None and values[0].ndim != rank):
            return False
        if operation.weight == position:
            kernel = dict(operation.attributes).get("kernel")
            if not self._weights.issuperset(term.inputs) or (kernel is not None and values[0].shape[-1] != kernel):
                return False
        return operation.activation != position or not self._weights.issuperset(term.inputs)

    def _evaluate(self, operation: Operation, children: tuple[Term, ...]) -> Values | None:
        operands = [self._values[child.number] for child in children]
        if operation.weight is not None:
            groups = dict(operation.attributes)["groups"]
            if any(x.shape[1] != w.shape[1] * groups or w.shape[0] % groups for x, w in zip(*operands, strict=True)):
                return None
        try:
            return [operation.kernel(world, *at) for world, *at in zip(self.worlds, *operands, strict=True)]
        except (ValueError, RuntimeError, IndexError):
            return None  # the operands' shapes do not fit: the term has no value

    def _note(self, left: Term, right: Term) -> int:
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
