"""Discovery over the default operators: `python -m benchmarks.discovery [--max-ops N] [--jobs N] [--folder FOLDER] [--write]`.

Growth, what is kept, and for each of TASO's rules that is right whether the kept rules derive it (equality saturation over the kept
rules' equations). Each kept rule is verified once more with another seed and more examples. With `--residual` the operators are those of
the two-branch residual block instead, up to four a side, and the table says which kept rule is which piece of its fusion.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.tables import machine, table, write
from benchmarks.taso_terms import coverage
from rewright.discovery import discover
from rewright.executors import executor
from rewright.verification import Request, verdict_of
from rewrites.generator.derivation import derivable
from rewrites.generator.discovery import Findings
from rewrites.generator.terms import TermBank
from verifier.verdict import Status

RESIDUAL = ("conv", "biased", "batchnorm", "scalerows", "enlarge")
_FACTOR = "batchnorm_factor(s0, r0)"
PIECES = {
    "fold a batch norm into the convolution before it": (
        "batchnorm(conv_3(x0, w0), e0, r0, s0, z0)",
        f"biased_3(x0, scalerows(w0, {_FACTOR}), batchnorm_shift(z0, e0, {_FACTOR}))",
    ),
    "enlarge a 1x1 kernel to 3x3": ("biased_1(x0, v0, b0)", "biased_3(x0, enlarge(v0), b0)"),
    "merge two convolutions of one input": ("add(conv_3(x0, w0), conv_3(x0, w1))", "conv_3(x0, add(w0, w1))"),
    "merge two convolutions with bias of one input": (
        "add(biased_3(x0, w0, b0), biased_3(x0, w1, b1))",
        "biased_3(x0, add(w0, w1), add(b0, b1))",
    ),
}
"""The steps from two branches (a 3x3 and a 1x1 convolution, each with its batch norm) to one convolution."""


def run(
    families: Sequence[str] | None, most: int, jobs: int, folder: Path | None, inputs: tuple[int, int] = (4, 2)
) -> tuple[Findings, str]:
    """What is found, and the seconds it took: on the clock, and of processor time in this process and its workers.

    In the folder, what was found stays for the next time, and judgements as they come.
    """
    if folder is None:
        return _found(families, most, jobs, None, inputs)
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{'_'.join(families or ['default'])}_{most}.json"
    if not kept.exists():
        findings, seconds = _found(families, most, jobs, folder / "judgements.sqlite", inputs)
        if not findings.pending:
            kept.write_text(json.dumps({"findings": findings.to_json(), "seconds": seconds}))
        return findings, seconds
    known = json.loads(kept.read_text())
    return Findings.from_json(known["findings"]), known["seconds"]


def _found(families: Sequence[str] | None, most: int, jobs: int, state: Path | None, inputs: tuple[int, int]) -> tuple[Findings, str]:
    begun, used = time.perf_counter(), time.process_time()
    with executor(jobs) as pool:
        findings = discover(families, most, executor=pool, state=state, inputs=inputs)
    clock, used = time.perf_counter() - begun, time.process_time() - used
    peak = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, *(resource.RUSAGE_CHILDREN,) * jobs)) / 2**20
    judging = f"{findings.judging:.0f} s for judging {findings.judged} texts"
    split = f"{used:.0f} s, {judging} among it" if jobs == 1 else f"{used:.0f} s for all else and {judging} by {jobs} workers"
    return findings, f"{clock:.0f} s on the clock; of processor time {split}; {peak:.1f} GiB at most"


def growth_table(findings: Findings) -> str:
    """Terms, classes, seconds and memory at each number of operations."""
    rows = [[g.operations, g.tried, g.classes, g.equations, f"{g.seconds:.1f}", f"{g.memory / 2**20:.0f}"] for g in findings.growth]
    return table(["operations", "terms", "new classes", "equations", "seconds", "MiB"], rows)


def counts(findings: Findings) -> str:
    """How many candidates there were, and what became of them."""
    kept = f"{len(findings.kept)} kept, {findings.derived} derived by kept rules, {findings.superseded} special cases of kept rules"
    lines = [f"{findings.raw} candidates: {kept}, {sum(findings.wrong.values())} not kept, {findings.pending} left."]
    lines += [f"- {status}: {count}, for example {findings.samples[status]}" for status, count in findings.wrong.most_common()]
    return "\n".join(lines)


def refuted_afresh(findings: Findings) -> list[str]:
    """Kept rules that fresh tests (another seed, more examples) do not leave proved."""
    request = Request(examples=200, seed=2)
    return [rule.__name__ for rule in findings.rules if verdict_of(rule, request).status is not Status.PROVED]


def rules_table(findings: Findings) -> str:
    """Every kept rule."""
    return table(["rule", "law", "conditions"], [[f.name, f.rule.statement(), ", ".join(f.conditions)] for f, _ in findings.kept])


def pieces(findings: Findings) -> str:
    """Which kept rule is, or which derive, each piece of the residual fusion."""
    rows = []
    for name, (left, right) in PIECES.items():
        equation = TermBank().read(left), TermBank().read(right)
        own = [
            found.name
            for (found, _), candidate in zip(findings.kept, findings.candidates, strict=True)
            if derivable(equation, candidate.equations, 1)
        ]
        rows.append([name, ", ".join(own) or ("derived" if derivable(equation, findings.equations, 3, 1000) else "missing")])
    return table(["piece", "kept rule"], rows)


def main() -> None:
    """Run, print the tables, and keep them when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-ops", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=None, help="keep here what is found; a run with the same folder goes on")
    parser.add_argument("--residual", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.residual:
        findings, seconds = run(RESIDUAL, options.max_ops or 4, options.jobs, options.folder, (1, 1))
        merging, merging_seconds = run(("conv", "biased", "add"), 3, options.jobs, options.folder, (3, 2))
        together = Findings(kept=findings.kept + merging.kept, candidates=findings.candidates + merging.candidates)
        together.equations = findings.equations + merging.equations
        parts = [f"Operators {', '.join(RESIDUAL)}: {seconds}.", growth_table(findings), counts(findings)]
        parts += [
            f"Operators conv, biased, add: {merging_seconds}.",
            growth_table(merging),
            counts(merging),
            pieces(together),
            rules_table(together),
        ]
        name, title = "discovery_residual.md", "Discovery of the two-branch residual fusion"
        findings = together
    else:
        findings, seconds = run(None, options.max_ops or 3, options.jobs, options.folder)
        parts = [growth_table(findings), counts(findings), f"In all {seconds}."]
        derived, missing = coverage(findings.equations)
        if derived or missing:
            parts.append(f"TASO's right rules: {len(derived)} derived, {len(missing)} not{f': {missing}' if missing else ''}.")
        parts.append(rules_table(findings))
        name, title = "discovery.md", "Discovery of rules"
    parts.insert(-1, f"Kept rules that fresh tests do not leave proved: {', '.join(refuted_afresh(findings)) or 'none'}.")
    text = "\n\n".join(parts)
    print(machine(), text, sep="\n")
    if options.write:
        write(name, title, f"{__doc__}\n{text}")


if __name__ == "__main__":
    main()
