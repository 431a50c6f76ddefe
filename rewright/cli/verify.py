"""`rewright verify`: prove or refute the rules of files."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rewright.cli.app import app
from rewright.cli.console import BadInput, bad_input, messages, output, progress, require_places, write
from rewright.files import json_text
from rewright.reports import Entry, exit_status, github, junit, markdown

if TYPE_CHECKING:
    from rewright.verification import Request, Target


@app.command()
def verify(
    rules: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE[::RULE]...",
            show_default=False,
            help="Python files with rules, or TASO's JSON; the library if none is given. Rule files are code and run as you.",
        ),
    ] = None,
    examples: Annotated[int, typer.Option(min=1, help="Random examples to test each rule on.")] = 100,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds for each rule; a time-out is never a pass.")] = 60.0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes to verify in.")] = 1,
    cluster: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Verify on the Dask cluster of this scheduler instead.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides every random draw.")] = 0,
    require_proof: Annotated[
        bool, typer.Option("--require-proof", help="Only a proof for all sizes counts: exit with 3 where there is none.")
    ] = False,
    show_proof: Annotated[bool, typer.Option("--show-proof", help="Print both normal forms and the maps between their indices.")] = False,
    suggest: Annotated[bool, typer.Option(help="For a refuted rule, look for the condition that it lacks.")] = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not use verdicts stored before.")] = False,
    json: Annotated[str | None, typer.Option(metavar="F", help="Write the verdicts as JSON; - is standard output.")] = None,
    junit_: Annotated[str | None, typer.Option("--junit", metavar="F", help="Write a JUnit report.")] = None,
    github_: Annotated[bool, typer.Option("--github", help="Print annotations for GitHub.")] = False,
    markdown_: Annotated[str | None, typer.Option("--markdown", metavar="F", help="Write a Markdown report.")] = None,
    repro: Annotated[Path | None, typer.Option(metavar="DIR", help="Write a script for each refutation that reproduces it.")] = None,
) -> int:
    """Prove or refute rewrite rules for every shape; show the smallest input on which a wrong one differs."""
    from rewright.verification import Request, targets_of
    from rewrites.load import RuleFileError

    require_places(json, junit_, markdown_)
    with bad_input(RuleFileError), loading_limit(timeout), uncollected():
        targets = targets_of(rules or [])
    entries = _verdicts(targets, Request(examples, timeout, seed, stored=not fresh, suggest=suggest), jobs, cluster)
    scripts = _write_scripts(entries, repro) if repro is not None else {}
    if json is not None:
        write(json, json_text({"rules": [entry.verdict for entry in entries]}))
    if junit_ is not None:
        write(junit_, junit(entries, require_proof))
    if markdown_ is not None:
        write(markdown_, markdown(entries, require_proof))
    _show(entries, require_proof, show_proof, scripts, quiet="-" in (json, junit_, markdown_))
    if github_:
        for line in github(entries, require_proof):
            print(line)
    return exit_status(entries, require_proof)


@contextmanager
def loading_limit(seconds: float) -> Iterator[None]:
    """A rule file may run no longer than a rule may take."""
    from verifier.isolation import TimeLimit, time_limit

    try:
        with time_limit(seconds):
            yield
    except TimeLimit as error:
        raise BadInput(f"the rule files did not load within {seconds:g} s") from error


@contextmanager
def uncollected() -> Iterator[None]:
    """What is made meanwhile stays until the end, so the garbage collector leaves it alone: a fifth of PyTorch's loading time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


def _verdicts(targets: Sequence[Target], request: Request, jobs: int, cluster: str | None = None) -> list[Entry]:
    from rewright.executors import ClusterError, executor
    from rewright.verification import verify_all
    from verifier.store import StoreError

    entries = []
    with bad_input(StoreError, ClusterError), progress() as bar, executor(1, cluster) as where:
        task = bar.add_task("verifying", total=len(targets))
        for entry in verify_all(targets, request, jobs, where):
            entries.append(entry)
            bar.update(task, advance=1, description=f"verified {entry.name}")
    return entries


def _show(entries: Sequence[Entry], require_proof: bool, show_proof: bool, scripts: Mapping[int, Path], quiet: bool) -> None:
    from rewright.tables import verdict_table

    console = messages() if quiet else output()
    console.print(verdict_table(entries))
    for position, entry in enumerate(entries):
        if entry.problem(require_proof):
            console.rule(style="red")
            console.print(_naming(entry.text, scripts.get(position)), soft_wrap=True)
        elif show_proof and entry.verdict.get("proof"):
            console.rule(entry.name)
            console.print(entry.verdict["proof"], soft_wrap=True)
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.status] = counts.get(entry.status, 0) + 1
    console.print(
        ("1 rule: " if len(entries) == 1 else f"{len(entries)} rules: ")
        + ", ".join(f"{count} {status}" for status, count in counts.items())
    )


def _naming(text: str, script: Path | None) -> str:
    """A refutation's text with the script's file instead of the script, where there is one."""
    return text if script is None else text.partition("\nreproduce:\n")[0] + f"\nreproduce: python {script}"


def _write_scripts(entries: Sequence[Entry], folder: Path) -> dict[int, Path]:
    """A file for each refutation, by the entry's position; rules of one name are numbered."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{folder}: cannot be made: {error.strerror or error}") from error
    written: dict[int, Path] = {}
    for position, entry in enumerate(entries):
        script = (entry.verdict.get("counterexample") or {}).get("script")
        if script:
            name, number = _file_name(entry.name), 1
            path = folder / f"{name}.py"
            while path in written.values():
                number += 1
                path = folder / f"{name}_{number}.py"
            write(str(path), script)
            written[position] = path
    return written


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in name) or "rule"
