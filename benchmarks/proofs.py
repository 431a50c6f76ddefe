"""How long proofs for all sizes take, and what is proved: `python -m benchmarks.proofs [library|xla|taso ...] [--write]`.

One row a collection: rules by verdict (with tests on 20 examples each), and the seconds of the proof alone (all cases of the rule): median, 95th
percentile, largest, and all together. TASO's collection is read from ../shared/data or $REWRIGHT_DATA and left out where it is not there.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from benchmarks.tables import table, write
from rewrites import Rule
from rewrites.library import library
from verifier.verdict import Verdict
from verifier.verify import verify

PROOF = "proof for all sizes"


def xla() -> list[type[Rule]]:
    """The laws of XLA's simplifier as rules."""
    import tests.xla.xla_rules_more  # noqa: F401  (declares the rest)
    from tests.xla.xla_rules import XlaRule

    return list(XlaRule.__subclasses__())


def taso() -> list[type[Rule]]:
    """TASO's collection; empty where it is not there."""
    from rewrites.taso import load_taso

    folder = Path(os.environ.get("REWRIGHT_DATA", Path(__file__).parents[1].parent / "shared" / "data"))
    file = folder / "taso_rules.json"
    return load_taso(file) if file.is_file() else []


COLLECTIONS: dict[str, Callable[[], list[type[Rule]]]] = {"library": library, "xla": xla, "taso": taso}


def proof_seconds(verdict: Verdict) -> float | None:
    """What the proof took; None where the tests settled the rule before."""
    found = [part.seconds for part in verdict.parts if part.name == PROOF]
    return sum(found) if found else None


def measured(rules: Sequence[type[Rule]], examples: int = 20) -> list[Verdict]:
    """A fresh verdict for each rule."""
    return [verify(rule, examples=examples, timeout=60.0) for rule in rules]


def row(name: str, verdicts: Sequence[Verdict]) -> list[str]:
    """One line of the table."""
    counts = Counter(verdict.status.value for verdict in verdicts)
    seconds = sorted(s for s in map(proof_seconds, verdicts) if s is not None)
    late = seconds[min(len(seconds) - 1, int(len(seconds) * 0.95))]
    times = [statistics.median(seconds), late, seconds[-1], sum(seconds)]
    return [name, str(len(verdicts)), ", ".join(f"{n} {s}" for s, n in counts.most_common()), *(f"{t:.3f}" for t in times)]


def exceptions(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Every rule that is not proved, with why, and the slow proofs."""
    rows = [[v.name, v.status.value, v.reason.splitlines()[0][:160]] for v in verdicts if v.status.value != "PROVED"]
    return rows + [
        [v.name, "PROVED", f"proof took {s:.1f} s"] for v in verdicts if (s := proof_seconds(v)) and s > 1 and v.status.value == "PROVED"
    ]


def main() -> None:
    """Print the table, and write it when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="*", default=[], metavar="COLLECTION")
    parser.add_argument("--write", action="store_true", help="keep the results under benchmarks/results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows, open_rules = [], []
    for name in options.collections or COLLECTIONS:
        rules = COLLECTIONS[name]()
        if not rules:
            continue
        verdicts = measured(rules)
        rows.append(row(name, verdicts))
        open_rules += [[name, *line] for line in exceptions(verdicts)]
    heads = ["collection", "rules", "verdicts", "proof: median s", "95th percentile s", "largest s", "all s"]
    text = table(heads, rows) + "\n\n" + table(["collection", "rule", "verdict", "reason"], open_rules)
    print(text)
    if options.write:
        write("proofs.md", "Proofs for all sizes", text)


if __name__ == "__main__":
    main()
