"""What fuzzing tries and what it finds on this tree; how often each rule is applied in random models, and which never is.

`python -m benchmarks.fuzz [--seconds 600] [--seed 1] [--jobs 1] [--from F.json ...] [--write]` runs `rewright fuzz` (or takes runs that
`--json` kept) and prints one table; `--write` keeps it in results/fuzz.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.tables import table, write
from rewright.fuzzing.reporting import KINDS

ROOT = Path(__file__).resolve().parent.parent


def run(seconds: float, seed: int, jobs: int) -> dict[str, Any]:
    """The JSON of one run of the command line."""
    with tempfile.TemporaryDirectory(prefix="rewright-fuzz.") as folder:
        report = Path(folder) / "fuzz.json"
        options = ["--seconds", f"{seconds:g}", "--seed", str(seed), "--jobs", str(jobs), "--json", str(report)]
        subprocess.run([sys.executable, "-m", "rewright", "fuzz", *options], cwd=ROOT, check=False)
        answer: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return answer


def commit() -> str:
    """The commit of the tree, short."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def text_of(runs: list[dict[str, Any]], at: str) -> str:
    """The runs together: a line for each, what was tried, what was found, which rules were applied."""
    lines = [
        f"seed {run['seed']}: {len(run['findings'])} findings in {sum(run['examples'].values())} examples of {run['tasks']} tasks, "
        f"{run['seconds']:.0f} s"
        for run in runs
    ]
    examples, fired = Counter[str](), Counter[str]()
    for run in runs:
        examples.update(run["examples"])
        fired.update(run["fired"])
    subjects = {kind: max(run["subjects"].get(kind, 0) for run in runs) for kind in KINDS}
    rows = [(words, subjects[kind], examples[kind]) for kind, words in KINDS.items() if examples[kind]]
    found = [
        f"- seed {run['seed']}, {f['kind']} {f['name']}: {f['cause']} ({f['times']} times, after {f['seconds']:.0f} s)"
        for run in runs
        for f in run["findings"]
    ]
    names = sorted({*fired, *(name for run in runs for name in run["never_fired"])})
    never = [name for name in names if name not in fired]
    parts = [
        f"commit {at}; `python -m benchmarks.fuzz --seconds S --seed N --jobs 2 --write`",
        *lines,
        table(("what", "subjects", "examples"), rows),
    ]
    parts += ["\n".join(["Findings:", *found]) if found else "Nothing was found."]
    parts += [f"{sum(run['unsuitable'] for run in runs)} models said nothing: PyTorch or torch.export refuses them."]
    parts += [f"## {len(fired)} of {len(names)} rules were applied, {fired.total()} times in all"]
    parts += [", ".join(f"{name} {count}" for name, count in fired.most_common())]
    parts += [f"## Never applied: {len(never)}", ", ".join(never) or "none"]
    return "\n\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--from", dest="kept", type=Path, nargs="*", help="JSON files of earlier runs instead of a new one")
    parser.add_argument("--commit", help="the commit that those runs were made at")
    parser.add_argument("--write", action="store_true", help="keep the text in results/fuzz.md")
    given = parser.parse_args()
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in given.kept or ()] or [run(given.seconds, given.seed, given.jobs)]
    text = text_of(runs, given.commit or commit())
    print(text)
    if given.write:
        write("fuzz.md", "Fuzzing", text)
    return int(any(run["findings"] for run in runs))


if __name__ == "__main__":
    sys.exit(main())
