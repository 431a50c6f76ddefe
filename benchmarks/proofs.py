"""Proof times over the library, XLA's laws and TASO's rules: `python -m benchmarks.proofs [FAMILY...] [--each] [--write]`.

One line a collection: rules and cases; the proof over the reals: proved ones, and the seconds of a rule's proof (all its cases): median,
95th percentile, largest, all; then the same for all that `verify` proves: shapes, every dtype, wrapping whole numbers, bit for bit.
Seconds are the process's own (of one core), so that a busy machine says the same. With `--each`, one line more for each rule that is not
proved, and one for each whose proof takes more than a second. TASO's collection is read from ../shared/data or $REWRIGHT_DATA and left out
where it is not there; some of its rules are wrong, and some of XLA's are, so that not all can be proved.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.tables import machine, table, write
from rewrites.library import family, library
from rewrites.rule import Rule
from verifier.proof.rules import CaseProof, RuleProof, prove_rule
from verifier.proving import Proofs, prove_all


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


@dataclass(frozen=True)
class Timed:
    """The proof of a rule over the reals, and what all of `verify`'s proof came to with its seconds."""

    rule: type[Rule]
    reals: RuleProof
    real_seconds: float
    whole: Proofs
    seconds: float


def timed(rule: type[Rule]) -> Timed:
    """The proofs of a rule, one after the other."""
    begin = time.process_time()
    reals = prove_rule(rule, timeout=60.0)
    between = time.process_time()
    whole = prove_all(rule, {}, time.monotonic() + 300.0)
    return Timed(rule, reals, between - begin, whole, time.process_time() - between)


def why(case: CaseProof | None) -> str:
    """Why the first open case is open."""
    if case is None:
        return "has no case"
    return f"{case.case}: {case.proof.status}: {case.proof.reason} {' and '.join(case.proof.unmatched)}"[:300]


def spread(seconds: Sequence[float]) -> list[str]:
    """Median, 95th percentile, largest and sum."""
    ordered = sorted(seconds)
    high = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return [f"{statistics.median(ordered):.3f}", f"{high:.3f}", f"{ordered[-1]:.2f}", f"{sum(ordered):.1f}"]


def row(name: str, proofs: Sequence[Timed]) -> list[str]:
    """One line of the table."""
    reals = [proof.reals for proof in proofs]
    counts = [len(proofs), sum(len(proof.cases) for proof in reals), sum(proof.proved for proof in reals)]
    whole = [str(sum(proof.whole.proved for proof in proofs)), *spread([proof.seconds for proof in proofs])]
    return [name, *map(str, counts), *spread([proof.real_seconds for proof in proofs]), *whole]


def main() -> int:
    """Print the table, and keep it when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="families of the library, XLA, TASO; all unless given")
    parser.add_argument("--each", action="store_true", help="one line for each rule that is not proved")
    parser.add_argument("--write", action="store_true", help="keep the table under benchmarks/results")
    options = parser.parse_args()
    importlib.import_module("z3")  # its import is no part of any proof
    rows: list[list[str]] = []
    everything: list[Timed] = []
    open_rules: list[str] = []
    slow: list[str] = []
    for name, rules in collections().items():
        if options.families and name not in options.families:
            continue
        proofs = list(map(timed, rules))
        everything += proofs
        rows.append(row(name, proofs))
        slow += [f"- {proof.rule.__name__}: {proof.seconds:.1f} s" for proof in proofs if proof.seconds > 1]
        open_rules += [f"- {p.rule.__name__}: {why(p.reals.first_open)}" for p in proofs if not p.reals.proved]
        open_rules += [f"- {p.rule.__name__}: {p.whole.reason}" for p in proofs if p.reals.proved and not p.whole.proved]
    heads = (
        "collection", "rules", "cases", "proved over the reals", "median s", "95 % s", "most s", "all s",
        "proved as `verify` does", "median s", "95 % s", "most s", "all s",
    )  # fmt: skip
    text = table(heads, [*rows, row("all", everything)])
    if options.each or options.write:
        text += "\n\nNot proved:\n\n" + "\n".join(open_rules) + "\n\nMore than a second:\n\n" + ("\n".join(slow) or "none")
    print(machine(), text, sep="\n")
    if options.write:
        write("proofs.md", "Proofs for all sizes", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
