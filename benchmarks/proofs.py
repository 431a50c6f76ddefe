"""Proof times over the library, XLA's laws and TASO's rules: `python -m benchmarks.proofs [FAMILY...] [--each] [--write]`.

One line a collection: rules, proved ones, cases, and the seconds of a rule's proof (all its cases): median, 95th percentile, largest, all.
With `--each`, one line more for each rule that is not proved. TASO's collection is read from ../shared/data or $REWRIGHT_DATA and
left out where it is not there; some of its rules are wrong, and some of XLA's are, so that not all can be proved.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.tables import machine, table, write
from rewrites.library import family, library
from rewrites.rule import Rule
from verifier.proof.rules import CaseProof, RuleProof, prove_rule


def collections() -> dict[str, list[type[Rule]]]:
    """Rules by collection: the families of the library, XLA, and TASO where it is at hand."""
    found: dict[str, list[type[Rule]]] = {}
    for rule in library():
        found.setdefault(family(rule), []).append(rule)
    importlib.import_module("tests.xla.xla_rules_more")
    found["XLA"] = list(importlib.import_module("tests.xla.xla_rules").XlaRule.__subclasses__())
    file = Path(os.environ.get("REWRIGHT_DATA", Path(__file__).parents[1].parent / "shared" / "data")) / "taso_rules.json"
    if file.is_file():
        from rewrites.taso import load_taso

        found["TASO"] = load_taso(file)
    return found


def proofs_of(rules: Iterable[type[Rule]]) -> list[RuleProof]:
    """The proof of each rule."""
    return [prove_rule(rule) for rule in rules]


def seconds_of(proof: RuleProof) -> float:
    """The seconds of all cases of a rule."""
    return sum(case.proof.seconds for case in proof.cases)


def why(case: CaseProof | None) -> str:
    """Why the first open case is open."""
    if case is None:
        return "has no case"
    return f"{case.case}: {case.proof.status}: {case.proof.reason} {' and '.join(case.proof.unmatched)}"[:300]


def row(name: str, proofs: Sequence[RuleProof]) -> list[str]:
    """One line of the table."""
    seconds = sorted(map(seconds_of, proofs))
    high = seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))]
    counts = [len(proofs), sum(proof.proved for proof in proofs), sum(len(proof.cases) for proof in proofs)]
    return [name, *map(str, counts), f"{statistics.median(seconds):.3f}", f"{high:.3f}", f"{seconds[-1]:.2f}", f"{sum(seconds):.1f}"]


def main() -> int:
    """Print the table, and keep it when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="families of the library, XLA, TASO; all unless given")
    parser.add_argument("--each", action="store_true", help="one line for each rule that is not proved")
    parser.add_argument("--write", action="store_true", help="keep the table under benchmarks/results")
    options = parser.parse_args()
    importlib.import_module("z3")  # its import is no part of any proof
    rows, everything, open_rules = [], [], []
    for name, rules in collections().items():
        if options.families and name not in options.families:
            continue
        proofs = proofs_of(rules)
        everything += proofs
        rows.append(row(name, proofs))
        open_rules += [f"- {rule.__name__}: {why(proof.first_open)}" for rule, proof in zip(rules, proofs, strict=True) if not proof.proved]
    heads = ("collection", "rules", "proved", "cases", "median s", "95 % s", "most s", "all s")
    text = table(heads, [*rows, row("all", everything)])
    if options.each or options.write:
        text += "\n\nNot proved:\n\n" + "\n".join(open_rules)
    print(machine(), text, sep="\n")
    if options.write:
        write("proofs.md", "Proofs for all sizes", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
