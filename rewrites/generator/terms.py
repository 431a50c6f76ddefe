"""Hash-consed terms: an input, or an operation of the vocabulary on terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True, eq=False)
class Term:
    """One node of a term graph; equal terms of one `TermBank` are the same object.

    `operation` is the name of an input or of an operation, `size` counts the distinct operations in the term.
    """

    operation: str
    children: tuple[Term, ...]
    number: int
    parts: frozenset[int] = field(repr=False)
    inputs: tuple[str, ...] = field(repr=False)
    occurrences: int = field(repr=False)
    """The operations written out, a shared one as often as it is used."""

    @property
    def size(self) -> int:
        return len(self.parts)

    def __str__(self) -> str:
        if self.is_input:
            return self.operation
        return f"{self.operation}({', '.join(map(str, self.children))})"

    def __iter__(self) -> Iterator[Term]:
        """Every distinct subterm, operands before users."""
        return iter(self._ordered)

    @cached_property
    def _ordered(self) -> tuple[Term, ...]:
        seen: dict[int, Term] = {}
        for child in self.children:
            for part in child:
                seen.setdefault(part.number, part)
        return (*seen.values(), self)

    @cached_property
    def is_input(self) -> bool:
        return not self.children and not self.parts


class TermBank:
    """Makes terms; the same operation on the same children is the same object."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[int, ...]], Term] = {}
        self._terms: list[Term] = []

    def __len__(self) -> int:
        return len(self._known)

    def term(self, number: int) -> Term:
        """The term of this number."""
        return self._terms[number]

    def input(self, name: str) -> Term:
        """The input of this name."""
        return self._make(name, (), is_operation=False)

    def apply(self, operation: str, *children: Term) -> Term:
        """The operation on the children."""
        return self._make(operation, children, is_operation=True)

    def _make(self, operation: str, children: tuple[Term, ...], *, is_operation: bool) -> Term:
        key = operation, tuple(child.number for child in children)
        found = self._known.get(key)
        if found is None:
            number = len(self._known)
            parts = frozenset().union(*(child.parts for child in children)) | ({number} if is_operation else set())
            inputs = tuple(dict.fromkeys(name for child in children for name in child.inputs)) if is_operation else (operation,)
            occurrences = sum(child.occurrences for child in children) + is_operation
            found = self._known[key] = Term(operation, children, number, parts, inputs, occurrences)
            self._terms.append(found)
        return found

    def read(self, text: str) -> Term:
        """The term that prints so: `add(m0, relu(m1))`."""
        name, bracket, rest = text.partition("(")
        if not bracket:
            return self.input(text)
        parts, depth = [""], 0
        for letter in rest[:-1]:
            depth += (letter == "(") - (letter == ")")
            if letter == "," and not depth:
                parts.append("")
            else:
                parts[-1] += letter
        return self.apply(name, *(self.read(part.strip()) for part in parts))

    def rename(self, term: Term, names: dict[str, str]) -> Term:
        """The term with its inputs renamed (names that are not given stay)."""
        return self.rebuild(term, lambda name: self.input(names.get(name, name)))

    def rebuild(self, term: Term, replace: Callable[[str], Term]) -> Term:
        """The term with each input replaced by a term."""
        made: dict[int, Term] = {}
        for part in term:
            made[part.number] = (
                replace(part.operation) if part.is_input else self.apply(part.operation, *(made[c.number] for c in part.children))
            )
        return made[term.number]


def canonical_names(terms: Sequence[Term], sort_of: Callable[[str], Any]) -> dict[str, str]:
    """Inputs renamed in the order in which the terms use them, within each sort (`a0`, `a1`, … of sort `a`)."""
    names: dict[str, str] = {}
    counts: dict[Any, int] = {}
    for term in terms:
        for part in term:
            if part.is_input and part.operation not in names:
                sort = sort_of(part.operation)
                names[part.operation] = f"{sort}{counts.get(sort, 0)}"
                counts[sort] = counts.get(sort, 0) + 1
    return names
