"""Whether tests are flaky: the suite, run again and again, with what failed in each run.

`python -m benchmarks.suite [--runs 20] [--state RUNS.jsonl] [--write]` runs what `make test` runs, adds a line for each run to the state,
and prints one table of all runs in it; `--write` keeps it in results/suite.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.tables import table, write

ROOT = Path(__file__).resolve().parent.parent
SUITE = ["-q", "-n", "2", "--dist", "worksteal", "-m", "not nightly"]


def run() -> dict[str, Any]:
    """One run of the suite: the commit, seconds, how many passed, failed and were skipped, and what failed."""
    at = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    begun = time.monotonic()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-m", "pytest", *SUITE], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return {"commit": at, "seconds": round(time.monotonic() - begun), "status": done.returncode, **read(done.stdout)}


def read(text: str) -> dict[str, Any]:
    """Counts and names of failures from what pytest prints."""
    last = text.rstrip().rpartition("\n")[2]
    counts = Counter({word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|skipped|error)", last)})
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.MULTILINE)
    return {"passed": counts["passed"], "skipped": counts["skipped"], "failed": failed}


def text_of(runs: list[dict[str, Any]]) -> str:
    """The runs in order, and how many of them failed."""
    rows = [(k, r["commit"], r["passed"], r["skipped"], ", ".join(r["failed"]) or "nothing", r["seconds"]) for k, r in enumerate(runs, 1)]
    failing = sum(bool(r["failed"]) or r["status"] != 0 for r in runs)
    heads = ("run", "commit", "passed", "skipped", "failed", "seconds")
    return f"`python -m benchmarks.suite --runs N --write`: {failing} of {len(runs)} runs failed\n\n{table(heads, rows)}"


def kept(state: Path) -> Iterator[dict[str, Any]]:
    """The runs that the state has."""
    if state.exists():
        yield from map(json.loads, state.read_text(encoding="utf-8").splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="how many to add; 0 only prints what is kept")
    parser.add_argument("--state", type=Path, default=Path("suite.jsonl"))
    parser.add_argument("--write", action="store_true", help="keep the table in results/suite.md")
    options = parser.parse_args()
    for number in range(1, options.runs + 1):
        found = run()
        with options.state.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(found) + "\n")
        print(f"run {number}: status {found['status']}, {found['passed']} passed, {found['failed'] or 'none failed'}, {found['seconds']} s")
    runs = list(kept(options.state))
    text = text_of(runs)
    print(text)
    if options.write:
        write("suite.md", "Runs of the suite", text)
    return int(any(r["failed"] or r["status"] for r in runs))


if __name__ == "__main__":
    raise SystemExit(main())
