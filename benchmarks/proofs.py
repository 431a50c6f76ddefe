"""Proof times over the library and TASO's rules where they are at hand: one table of status and seconds a case.

`python benchmarks/proofs.py [--taso FILE] [--each]` prints the table; with `--each`, one line a rule that is not proved as well.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Iterable, Sequence

from benchmarks.tables import machine, table
from rewrites.library import family, library
from rewrites.rule import Rule
from verifier.proof.rules import CaseProof, prove_rule


def collections(taso: str | None) -> dict[str, list[type[Rule]]]:
    """Rules by collection: the families of the library, and TASO."""
    found: dict[str, list[type[Rule]]] = {}
    for rule in library():
        found.setdefault(family(rule), []).append(rule)
    if taso is not None:
        from rewrites.taso import load_taso

        found["TASO"] = load_taso(taso)
    return found


def measured(rules: Iterable[type[Rule]], each: bool) -> tuple[int, int, list[float], float]:
    """How many rules there are and how many are proved, the seconds of each case, and of all."""
    count, proved, seconds = 0, 0, []
    begin = time.perf_counter()
    for rule in rules:
        done = prove_rule(rule)
        count, proved = count + 1, proved + done.proved
        seconds += [case.proof.seconds for case in done.cases]
        if each and not done.proved:
            print(f"{rule.__name__}: {_why(done.first_open)}")
    return count, proved, seconds, time.perf_counter() - begin


def _why(case: CaseProof | None) -> str:
    if case is None:
        return "has no case"
    return f"{case.case}: {case.proof.status}: {case.proof.reason} {' and '.join(case.proof.unmatched)}"[:300]


def row(name: str, result: tuple[int, int, list[float], float]) -> list[str]:
    """One line of the table."""
    count, proved, seconds, total = result
    ordered: Sequence[float] = sorted(seconds) or [0.0]
    high = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return [
        name,
        str(count),
        str(proved),
        str(len(seconds)),
        f"{statistics.median(ordered):.3f}",
        f"{high:.3f}",
        f"{ordered[-1]:.2f}",
        f"{total:.1f}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--taso", help="TASO's rule collection as JSON")
    parser.add_argument("--each", action="store_true")
    options = parser.parse_args()
    importlib.import_module("z3")  # its import is no part of any proof
    rows, everything = [], []
    for name, rules in collections(options.taso).items():
        result = measured(rules, options.each)
        everything.append(result)
        rows.append(row(name, result))
    counts, proofs, seconds, totals = zip(*everything, strict=True)
    whole = (sum(counts), sum(proofs), [second for part in seconds for second in part], sum(totals))
    print(machine())
    print(table(("collection", "rules", "proved", "cases", "median s", "95 % s", "most s", "all s"), [*rows, row("all", whole)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
