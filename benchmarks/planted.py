"""Planted faults: which of them `rewright fuzz` finds, by what, and how soon.

`python -m benchmarks.planted [NAME...] [--seconds 120] [--seed 0] [--limit S] [--state F] [--write]` applies each patch of
tests/planted/ to a copy of this tree, with caches of its own, and fuzzes there until the first finding. Prints one table; `--write`
keeps it in results/planted.md. With `--state`, a run goes on where an earlier one of the same tree stopped.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

# Nothing of this project is imported here: the processes that fuzz take it from the tree with the fault.
PRELOADED = ["torch", "torch.export", "torch._dynamo", "hypothesis", "z3", "networkx", "jaxtyping", "typer", "rich"]
ROOT = Path(__file__).resolve().parent.parent
PATCHES = ROOT / "tests" / "planted"
COPIED = ("operators", "graphs", "rewrites", "verifier", "costs", "search", "rewright", "docs", "pyproject.toml")


@dataclass(frozen=True)
class Outcome:
    """What fuzzing made of one fault."""

    name: str
    about: str
    found: bool
    by: str = ""
    cause: str = ""
    seconds: float = 0.0
    processor: float = 0.0
    """Seconds of processor time until the finding, the start included."""

    @property
    def row(self) -> tuple[str, ...]:
        cause = self.cause.replace("|", "/").splitlines()[0][:90] if self.cause else ""
        return self.name, self.about, self.by if self.found else "NOT FOUND", cause, f"{self.seconds:.0f}", f"{self.processor:.0f}"


def patches(names: Sequence[str] = ()) -> list[Path]:
    """The patches, or those of these names, in order."""
    return [path for path in sorted(PATCHES.glob("*.patch")) if not names or path.stem in names]


def about(patch: Path) -> str:
    """The fault in words: the patch's first line."""
    return patch.read_text(encoding="utf-8").splitlines()[0]


@contextmanager
def tree_copy() -> Iterator[Path]:
    """A copy of the packages."""
    with tempfile.TemporaryDirectory(prefix="rewright-planted.") as folder:
        for name in COPIED:
            source, target = ROOT / name, Path(folder) / name
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copy2(source, target)
        yield Path(folder)


def apply(patch: Path, tree: Path, reverse: bool = False, dry: bool = False) -> bool:
    """Apply a patch to a tree, or take it back; whether it fits."""
    options = ["--strip=1", "--forward", "--fuzz=3", "--silent", "--no-backup-if-mismatch", "--reject-file=-"]
    command = ["patch", *options, *(["--reverse"] if reverse else []), *(["--dry-run"] if dry else [])]
    with patch.open("rb") as content:
        done = subprocess.run(command, cwd=tree, stdin=content, capture_output=True, check=False)
    return done.returncode == 0


def fuzz(tree: Path, seconds: float, seed: int) -> dict[str, object]:
    """The JSON of `rewright fuzz` in the tree, ended at the first finding; in a process that has only the libraries loaded."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with tempfile.TemporaryDirectory(prefix="rewright-cache.") as cache:
        report = Path(cache) / "fuzz.json"
        arguments = ["fuzz", "-x", "--seconds", f"{seconds:g}", "--seed", str(seed), "--json", str(report)]
        process = context.Process(target=_fuzz, args=(str(tree), cache, arguments))
        process.start()
        process.join(seconds + 120)
        if process.is_alive():
            process.kill()
            process.join()
            return {"error": "it does not end"}
        if report.exists():
            answer: dict[str, object] = json.loads(report.read_text(encoding="utf-8"))
            return answer
        return {"error": f"exit status {process.exitcode}"}


def _fuzz(tree: str, cache: str, arguments: list[str]) -> None:
    """One run of the command line of the tree."""
    os.environ["REWRIGHT_CACHE"] = cache
    os.chdir(tree)
    sys.path.insert(0, tree)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout = nowhere
        from rewright.cli.main import run

        sys.exit(run(arguments))


def tried(patch: Path, tree: Path, seconds: float, seed: int) -> Outcome:
    """What fuzzing makes of the fault; a tree in which the command itself breaks is a find as well."""
    started = time.monotonic()
    if not apply(patch, tree):
        return Outcome(patch.stem, about(patch), False, cause="the patch does not apply")
    try:
        answer = fuzz(tree, seconds, seed)
    finally:
        apply(patch, tree, reverse=True)
    taken = time.monotonic() - started
    if "error" in answer:
        return Outcome(patch.stem, about(patch), True, "the command breaks", str(answer["error"]), taken)
    findings, processor = answer["findings"], answer["processor_seconds"]
    assert isinstance(findings, list)
    assert isinstance(processor, float)
    if not findings:
        return Outcome(patch.stem, about(patch), False, seconds=taken, processor=processor)
    first = findings[0]
    return Outcome(patch.stem, about(patch), True, f"{first['kind']} {first['name']}", first["cause"], taken, processor)


def main() -> int:
    from benchmarks.tables import table, write

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="patches by name; all of tests/planted unless given")
    parser.add_argument("--seconds", type=float, default=120.0, help="for each fault")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=float("inf"), help="begin no further fault after so many seconds in all")
    parser.add_argument("--state", type=Path, help="keep outcomes in this file, and do not try again what is in it")
    parser.add_argument("--write", action="store_true", help="keep the table in results/planted.md")
    given = parser.parse_args()
    started = time.monotonic()
    known = json.loads(given.state.read_text()) if given.state is not None and given.state.exists() else {}
    with tree_copy() as tree:
        for patch in patches(given.names):
            if patch.stem in known:
                continue
            if time.monotonic() - started > given.limit:
                print(f"not tried, the time is up: {patch.stem}")
                continue
            known[patch.stem] = asdict(tried(patch, tree, given.seconds, given.seed))
            print("  ".join(Outcome(**known[patch.stem]).row), flush=True)
            if given.state is not None:
                given.state.write_text(json.dumps(known, indent=1))
    outcomes = [Outcome(**known[patch.stem]) for patch in patches(given.names) if patch.stem in known]
    found = sum(outcome.found for outcome in outcomes)
    heads = ("fault", "what it is", "found by", "first finding", "seconds with start", "of processor time")
    left = [patch.stem for patch in patches(given.names) if patch.stem not in known]
    text = "\n\n".join([
        f"{found} of {len(outcomes)} planted faults found, each within {given.seconds:g} s of fuzzing, seed {given.seed}.",
        f"`python -m benchmarks.planted --seconds {given.seconds:g} --seed {given.seed} --write`",
        table(heads, [outcome.row for outcome in outcomes]),
        f"Not tried: {', '.join(left) or 'none'}.",
    ])  # fmt: skip
    print(text)
    if given.write:
        write("planted.md", "Planted faults", text)
    return 0 if outcomes and found >= 0.95 * len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
