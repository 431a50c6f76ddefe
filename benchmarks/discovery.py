"""Discovery: growth, what is kept, and TASO's rules: `python -m benchmarks.discovery [--max-ops N] [--jobs N] [--write]`.

TASO's collection is read from ../shared/data or $REWRIGHT_DATA and left out where it is not there: for each of its rules that is
right, whether the kept rules derive it (at most `ROUNDS` rounds of equality saturation). Each kept rule is verified once more with
another seed and more examples.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.tables import machine, table, write
from rewright.discovery import discover, processes
from rewrites.generator.derivation import derivable
from rewrites.generator.discovery import Findings
from rewrites.generator.enumeration import Equation
from rewrites.generator.terms import Term, TermBank
from rewrites.generator.vocabulary import OPERATIONS
from verifier.verdict import Status
from verifier.verify import verify

ROUNDS = 4
NODES = 4_000
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


def coverage(findings: Findings) -> tuple[list[int], list[int]]:
    """TASO's right rules that the kept ones derive, and those they do not."""
    bank = TermBank()
    derived, missing = [], []
    for entry in entries():
        if entry["id"] in WRONG:
            continue
        equations = terms_of(bank, entry["src_expr"], entry["dst_expr"])
        reached = all(a is b or derivable((a, b), findings.equations, ROUNDS, NODES) for a, b in equations)
        (derived if reached else missing).append(entry["id"])
    return derived, missing


def wrong_at_other_shapes(findings: Findings) -> list[str]:
    """Kept rules that fresh tests refute."""
    return [rule.__name__ for rule in findings.rules if verify(rule, examples=200, seed=1).status is not Status.PROVED]


def main() -> None:
    """Run, print the tables, and keep them when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-ops", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--operators", default=None)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = options.operators.split(",") if options.operators else None
    begun, cpu = time.perf_counter(), time.process_time()
    with processes(options.jobs) as executor:
        findings = discover(names, options.max_ops, executor=executor, report=lambda what, done, total: None)
    seconds, used = time.perf_counter() - begun, time.process_time() - cpu
    growth = [
        [g.operations, g.tried, g.defined, g.classes, g.equations, f"{g.seconds:.1f}", f"{g.memory / 2**20:.0f}"] for g in findings.growth
    ]
    text = table(["operations", "terms tried", "defined", "classes", "equations", "seconds", "MiB"], growth)
    counts = f"{len(findings.kept)} kept, {findings.derived} derived, {findings.superseded} special cases of kept rules"
    rest = f"{dict(findings.wrong)} not kept, {findings.no_rule} equations are no rules"
    text += f"\n\n{findings.raw} candidates: {counts}, {rest}; {seconds:.0f} s in all, {used:.0f} s of them on the processor here."
    derived, missing = coverage(findings)
    if derived or missing:
        text += f"\n\nTASO's right rules: {len(derived)} derived, {len(missing)} not: {missing}."
    refuted = wrong_at_other_shapes(findings)
    text += f"\n\nKept rules that fresh tests refute: {refuted or 'none'}.\n\n"
    text += table(["rule", "law", "conditions"], [[f.name, f.rule.statement(), ", ".join(f.conditions)] for f, _ in findings.kept])
    print(machine(), text, sep="\n")
    if options.write:
        write("discovery.md", "Discovery of rules", text)


if __name__ == "__main__":
    main()
