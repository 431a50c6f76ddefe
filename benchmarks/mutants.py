"""The mutation self-test: changes of the library's rules, none of which may be proved when plain evaluation shows it to be wrong.

`python -m benchmarks.mutants [RULE...] [--each 20] [--seconds 900] [--seed 0] [--write]` prints one line a wrong proof, then the table.
Exit status 1 when there is one. Mutants that evaluation has shown to be wrong get 0.3 s of proof, the others three.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

import torch

from benchmarks.tables import machine, table, write
from rewrites.library import family, library
from verifier.mutation import Trial, trials
from verifier.running import one_thread


def lines_of(found: dict[str, list[Trial]], fewest: int) -> str:
    """The table, a line a family."""
    rows = []
    everything = [trial for of_family in found.values() for trial in of_family]
    for name, tried in [*found.items(), ("all", everything)]:
        rules = Counter(trial.rule.__name__ for trial in tried)
        seconds = sorted(trial.proof.seconds for trial in tried)
        right = [trial for trial in tried if not trial.wrong]
        wrong, proved = len(tried) - len(right), sum(trial.proved_wrongly for trial in tried)
        counts = [len(rules), len(tried), min(rules.values(), default=0), wrong, proved, len(right), sum(t.proof.proved for t in right)]
        rows.append([name, *counts, f"{seconds[len(seconds) // 2] if seconds else 0:.3f}", f"{seconds[-1] if seconds else 0:.1f}"])
    heads = (
        "family", "rules", "mutants", f"fewest a rule ({fewest} asked)", "seen to be wrong", "of these proved", "not seen to be wrong",
        "of these proved", "median s", "most s",
    )  # fmt: skip
    return table(heads, rows)


def main() -> int:
    """Print the table, and keep it when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rules", nargs="*", metavar="RULE", help="rules by name; the whole library unless given")
    parser.add_argument("--each", type=int, default=20, help="mutants of each rule")
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="keep the table under benchmarks/results")
    options = parser.parse_args()
    begin = time.monotonic()
    rules = [rule for rule in library() if not options.rules or rule.__name__ in options.rules]
    random.Random(options.seed).shuffle(rules)
    found: dict[str, list[Trial]] = {}
    with one_thread():
        for position, rule in enumerate(rules):
            if time.monotonic() - begin > options.seconds:
                break
            for trial in trials(rule, options.each, options.seed + position):
                found.setdefault(family(rule), []).append(trial)
                if trial.proved_wrongly:
                    print(f"WRONG PROOF: {rule.__name__}: {trial.change}: {trial.wrong}", flush=True)
    tried = [trial for trials_ in found.values() for trial in trials_]
    wrong = sum(trial.proved_wrongly for trial in tried)
    text = lines_of(dict(sorted(found.items())), options.each)
    names, seen = {t.rule.__name__ for t in tried}, sum(bool(t.wrong) for t in tried)
    total = (
        f"{len(tried)} mutants of {len(names)} of {len(rules)} rules in {time.monotonic() - begin:.0f} s (seed {options.seed}): "
        f"{seen} seen to be wrong, {wrong} of them proved; {sum(t.proof.proved for t in tried) - wrong} true ones proved."
    )
    print(machine(), text, "", total, sep="\n")
    if options.write:
        write(
            "mutants.md",
            "Mutants of the library's rules",
            f"{text}\n\n{total}\n\n`python -m benchmarks.mutants --each {options.each} --write`",
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
