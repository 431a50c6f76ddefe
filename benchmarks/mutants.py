"""The mutation self-test: changes of the library's rules, none of which may be proved when plain evaluation shows it to be wrong.

`python benchmarks/mutants.py [--each 20] [--seconds 3600] [--seed 0]` prints one line a wrong proof, then the totals.
Exit status 1 when there is one.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from rewrites.cases import cases, trace_case
from rewrites.library import library
from verifier.mutants import mutants
from verifier.proof.conditions import bounds_from
from verifier.proof.prove import prove
from verifier.proof.refute import Refuter


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=20, help="mutants of each rule")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begin, tried, proved, wrong, slowest = time.monotonic(), 0, 0, 0, 0.0
    chance = random.Random(options.seed)
    rules = library()
    chance.shuffle(rules)
    for rule in rules:
        if time.monotonic() - begin > options.seconds:
            break
        traced = trace_case(rule, chance.choice(list(cases(rule))))
        bounds = [bound for condition in traced.value_conditions for bound in bounds_from(condition)]
        for mutant in mutants(traced.replacement, options.each, chance.randrange(10**6)):
            tried += 1
            proof = prove(traced.pattern, mutant.graph, traced.facts, bounds, mutant.required, timeout=3.0)
            slowest = max(slowest, proof.seconds)
            if not proof.proved:
                continue
            proved += 1
            model = Refuter(traced.pattern, mutant.graph, traced.facts, bounds, seed=tried).model(draws=20)
            if model is not None and not ("all sizes ≥ 1" in proof.scope and 0 in model.sizes.values()):
                wrong += 1
                print(f"WRONG PROOF: {rule.__name__}: {mutant.change}: {model}")
    seconds = time.monotonic() - begin
    print(f"{tried} mutants in {seconds:.0f} s: {proved} proved (true mutants), {wrong} proved wrongly; slowest proof {slowest:.1f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
