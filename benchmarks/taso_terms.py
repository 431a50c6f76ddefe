"""TASO's rules as terms of the generator, and which of them a set of equations derives.

The collection is read from ../shared/data or $REWRIGHT_DATA, and left out where it is not there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rewrites.generator.derivation import derivable
from rewrites.generator.enumeration import Equation
from rewrites.generator.terms import Term, TermBank
from rewrites.generator.vocabulary import OPERATIONS

BUDGETS = ((2, 300), (3, 1_000), (4, 3_000))
"""Rounds of equality saturation and nodes of the e-graph with which a derivation is tried, one after the other."""
WRONG = {98, 99, 100, 105, *range(125, 132)}
"""TASO's rules that tests/rewrites/test_taso_verdicts refutes."""

_TOKEN = re.compile(r"[A-Za-z_0-9]+(?:<[^>]*>)?|[(),]")


def entries() -> list[dict[str, Any]]:
    """TASO's entries; none where the collection is not there."""
    folder = Path(os.environ.get("REWRIGHT_DATA", Path(__file__).parents[1].parent / "shared" / "data"))
    file = folder / "taso_rules.json"
    return list(json.loads(file.read_text())) if file.is_file() else []


Tree = tuple[str, list[Any]]


def parsed(text: str) -> Tree:
    """An expression of the collection as a tree of names."""
    tokens = _TOKEN.findall(text)

    def read(position: int) -> tuple[Tree, int]:
        name, children = tokens[position], []
        position += 1
        if position < len(tokens) and tokens[position] == "(":
            while tokens[position] != ")":
                child, position = read(position + 1)
                children.append(child)
            position += 1
        return (name, children), position

    return read(0)[0]


def _rank(tree: Tree) -> int | None:
    name, children = tree
    found = re.search(r"nd(\d)", name)
    if found:
        return int(found[1])
    if name.startswith("conv2d"):
        return 4
    if name == "matmul":
        return 2
    return next((rank for rank in map(_rank, children) if rank), None)


def _leaves(tree: Tree, weight: bool = False) -> Iterator[tuple[str, bool]]:
    name, children = tree
    if not children:
        yield name, weight
    for position, child in enumerate(children):
        yield from _leaves(child, weight or (name.startswith("conv2d") and position == 1))


def terms_of(bank: TermBank, sources: list[str], targets: list[str]) -> list[Equation]:
    """Both sides of an entry as terms of the generator, output by output."""
    trees = [[parsed(text) for text in side] for side in (sources, targets)]
    everything = [tree for side in trees for tree in side]
    rank = next((found for found in map(_rank, everything) if found), 2)
    weights = {name for tree in everything for name, weight in _leaves(tree) if weight}
    names: dict[str, str] = {}
    for tree in everything:
        for name, _ in _leaves(tree):
            sort = "w" if name in weights else "x" if rank == 4 else "m"
            names.setdefault(name, f"{sort}{sum(other.startswith(sort) for other in names.values())}")

    def build(tree: Tree) -> Term:
        name, children = tree
        if not children:
            return bank.input(names[name])
        made = [build(child) for child in children]
        head = name.split("<")[0]
        if head == "concat":
            axis, dims = re.findall(r"ax(\d),nd(\d)", name)[0]
            return _nested(bank, f"concat_{axis}_{dims}", made)
        if head.startswith("split_"):
            axis = re.findall(r"ax(\d)", name)[0]
            return bank.apply(f"split_{axis}_{rank}_{'first' if head.endswith('0') else 'second'}", *made)
        if head == "conv2d":
            convolved = bank.apply("conv_3", *made)
            return bank.apply("relu", convolved) if name.endswith("relu>") else convolved
        return bank.apply(head.removeprefix("ew_"), *_ordered(head.removeprefix("ew_"), made))

    return [(build(a), build(b)) for a, b in zip(*trees, strict=True)]


def _nested(bank: TermBank, operation: str, parts: list[Term]) -> Term:
    joined = parts[0]
    for part in parts[1:]:
        joined = bank.apply(operation, joined, part)
    return joined


def _ordered(operation: str, children: list[Term]) -> list[Term]:
    return sorted(children, key=lambda term: term.number) if OPERATIONS[operation].commutative else children


def equations() -> dict[int, list[Equation]]:
    """TASO's right rules by number, output by output; none where the collection is not there."""
    bank = TermBank()
    return {entry["id"]: terms_of(bank, entry["src_expr"], entry["dst_expr"]) for entry in entries() if entry["id"] not in WRONG}


def reached(equation: Equation, known: Sequence[Equation]) -> bool:
    """Whether the known equations derive the equation, or that of the operands of one operation, within one of the budgets."""
    left, right = equation
    if left is right:
        return True
    if left.operation == right.operation and not left.is_input:
        operands = list(zip(left.children, right.children, strict=True))
        if all(a is b or derivable((a, b), known, *BUDGETS[0]) for a, b in operands):
            return True
    return any(derivable(equation, known, rounds, nodes) for rounds, nodes in BUDGETS)


def coverage(known: Sequence[Equation]) -> tuple[list[int], list[int]]:
    """TASO's right rules that the known equations derive, and those they do not."""
    derived, missing = [], []
    for number, found in equations().items():
        (derived if all(reached(equation, known) for equation in found) else missing).append(number)
    return derived, missing
