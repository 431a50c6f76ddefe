"""The mutation self-test: changes of the library's rules, none of which may be proved when plain evaluation shows it to be wrong.

`python -m benchmarks.mutants [RULE...] [--each 20] [--seconds 900] [--seed 0] [--state FILE] [--write]` prints one line a wrong proof, then
the table. With `--state`, a run that was stopped by its time goes on where it was.
Exit status 1 when there is one. Mutants that evaluation has shown to be wrong get 0.3 s of proof, the others three.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import zlib
from collections import Counter
from dataclasses import astuple, dataclass
from pathlib import Path

import torch

from benchmarks.tables import machine, table, write
from rewrites.library import family, library
from rewrites.rule import Rule
from verifier.mutation import trials
from verifier.running import one_thread


@dataclass(frozen=True)
class Result:
    """What a trial came to."""

    rule: str
    family: str
    wrong: bool
    proved: bool
    seconds: float

    @property
    def proved_wrongly(self) -> bool:
        """It is wrong, and it is proved."""
        return self.wrong and self.proved


def known(state: Path | None, each: int, seed: int) -> dict[str, list[Result]]:
    """The results of an earlier run by the content of their rules."""
    if state is None or not state.is_file():
        return {}
    lines = [json.loads(line) for line in state.read_text().splitlines()]
    return {
        line["content"]: [Result(*result) for result in line["results"]] for line in lines if (line["each"], line["seed"]) == (each, seed)
    }


def results_of(rule: type[Rule], each: int, seed: int) -> list[Result]:
    """Trials of a rule; a wrong proof is printed."""
    found = []
    for trial in trials(rule, each, seed):
        found.append(Result(rule.__name__, family(rule), bool(trial.wrong), trial.proof.proved, trial.proof.seconds))
        if trial.proved_wrongly:
            print(f"WRONG PROOF: {rule.__name__}: {trial.change}: {trial.wrong}", flush=True)
    return found


def lines_of(found: dict[str, list[Result]], fewest: int) -> str:
    """The table, a line a family."""
    rows = []
    everything = [trial for of_family in found.values() for trial in of_family]
    for name, tried in [*found.items(), ("all", everything)]:
        rules = Counter(trial.rule for trial in tried)
        seconds = sorted(trial.seconds for trial in tried)
        right = [trial for trial in tried if not trial.wrong]
        wrong, proved = len(tried) - len(right), sum(trial.proved_wrongly for trial in tried)
        counts = [len(rules), len(tried), min(rules.values(), default=0), wrong, proved, len(right), sum(t.proved for t in right)]
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
    parser.add_argument("--state", type=Path, metavar="FILE", help="keep results there, and go on from those that it holds")
    parser.add_argument("--write", action="store_true", help="keep the table under benchmarks/results")
    options = parser.parse_args()
    begin = time.monotonic()
    rules = [rule for rule in library() if not options.rules or rule.__name__ in options.rules]
    random.Random(options.seed).shuffle(rules)
    before = known(options.state, options.each, options.seed)
    found: dict[str, list[Result]] = {}
    with one_thread():
        for rule in rules:
            results = before.get(rule.content())
            if results is None:
                if time.monotonic() - begin > options.seconds:
                    continue
                results = results_of(rule, options.each, options.seed + zlib.crc32(rule.__name__.encode()) % 10_000)
                if options.state is not None:
                    with options.state.open("a") as file:
                        kept = [astuple(result) for result in results]
                        line = {"content": rule.content(), "each": options.each, "seed": options.seed, "results": kept}
                        file.write(json.dumps(line) + "\n")
            found.setdefault(family(rule), []).extend(results)
    tried = [trial for results in found.values() for trial in results]
    wrong, spent = sum(trial.proved_wrongly for trial in tried), sum(trial.seconds for trial in tried)
    text = lines_of(dict(sorted(found.items())), options.each)
    names, seen = {t.rule for t in tried}, sum(t.wrong for t in tried)
    total = (
        f"{len(tried)} mutants of {len(names)} of {len(rules)} rules, {spent:.0f} s of proofs (seed {options.seed}): "
        f"{seen} seen to be wrong, {wrong} of them proved; {sum(t.proved for t in tried) - wrong} true ones proved."
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
