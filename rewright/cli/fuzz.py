"""`rewright fuzz`: rules, operators and the optimiser on random input, on a time budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rewright.cli.app import app
from rewright.cli.console import BadInput, Exit, bad_input, messages, output, progress, require_places, write
from rewright.files import json_text

if TYPE_CHECKING:
    from rewright.fuzzing.campaign import Campaign
    from rewright.fuzzing.finding import Finding, Outcome, Subject


@app.command()
def fuzz(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE...",
            show_default=False,
            help="Files with rules, or models; all that rewright ships if none is given. Files are code and run as you.",
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1.0, help="The time budget.")] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="Decides what is tried, and in which order.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    cluster: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run on the Dask cluster of this scheduler.")] = None,
    exit_first: Annotated[bool, typer.Option("-x", "--exit-first", help="Stop at the first finding.")] = False,
    most_tasks: Annotated[int | None, typer.Option("--tasks", min=1, help="Stop after so many tasks, whatever the time.")] = None,
    repro: Annotated[Path | None, typer.Option(metavar="DIR", help="Write a script for each finding that shows it again.")] = None,
    report: Annotated[
        str | None, typer.Option(metavar="F", help="Write a Markdown page: what was tried, which rules were applied.")
    ] = None,
    json: Annotated[str | None, typer.Option(metavar="F", help="Write the run as JSON; - is standard output.")] = None,
    junit: Annotated[str | None, typer.Option(metavar="F", help="Write a JUnit report.")] = None,
    github: Annotated[bool, typer.Option("--github", help="Print annotations for GitHub.")] = False,
) -> int:
    """Fuzz rules, operators and the whole optimiser; what fails is made small, told apart by cause, and tried first the next time."""
    from rewright.fuzzing import reporting

    started = time.time()
    require_places(json, junit, report, repro)
    subjects = _subjects(files or [])
    console = messages() if "-" in (json, junit, report) else output()

    def tell(campaign: Campaign, outcome: Outcome, new: Sequence[Finding]) -> None:
        scripts = _scripts(campaign, repro) if new else {}
        for finding in new:
            console.rule(style="red")
            console.print(reporting.text_of(finding, scripts.get(campaign.findings.index(finding))), soft_wrap=True)

    campaign = _run(subjects, seconds, seed, jobs, cluster, exit_first, most_tasks, started, tell)
    known = sorted({subject.name for subject in subjects if subject.kind == "firing"})
    if json is not None:
        write(json, json_text(reporting.as_dict(campaign, known)))
    if junit is not None:
        write(junit, reporting.junit_of(campaign))
    if report is not None:
        write(report, reporting.markdown_of(campaign, known))
    if campaign.findings:
        console.rule(style="red")
    for finding in campaign.findings:
        console.print(f"{finding.subject}: {finding.cause} ({campaign.again[finding.cause]} times)", soft_wrap=True)
    console.print(reporting.summary(campaign))
    if github:
        for line in reporting.github_of(campaign):
            print(line)
    return Exit.REFUTED if campaign.findings else Exit.HOLDS if campaign.tasks else Exit.UNDECIDED


def _scripts(campaign: Campaign, folder: Path | None) -> dict[int, Path]:
    from rewright.fuzzing.reporting import write_scripts

    if folder is None:
        return {}
    try:
        return write_scripts(campaign, folder)
    except OSError as error:
        raise BadInput(f"{folder}: cannot be written: {error.strerror or error}") from error


def _subjects(files: Sequence[str]) -> list[Subject]:
    from rewright.cli.loading import refusing_models
    from rewright.fuzzing.campaign import file_subjects, library_subjects
    from rewrites.load import RuleFileError

    with bad_input(RuleFileError), refusing_models():
        return file_subjects(files) if files else library_subjects()


def _run(
    subjects: Sequence[Subject], seconds: float, seed: int, jobs: int, cluster: str | None, exit_first: bool, most_tasks: int | None,
    started: float, hear: Callable[[Campaign, Outcome, list[Finding]], None],
) -> Campaign:  # fmt: skip
    from graphs.database import cache_folder
    from rewright.executors import ClusterError, executor, workers
    from rewright.fuzzing.campaign import run
    from rewright.fuzzing.exploring import database_folder

    with bad_input(ClusterError), progress() as bar:
        task = bar.add_task("fuzzing", total=None)

        def tell(campaign: Campaign, outcome: Outcome, new: list[Finding]) -> None:
            found = len(campaign.findings)
            bar.update(task, completed=campaign.tasks, description=f"fuzzing, {sum(campaign.examples.values())} examples, {found} findings")
            hear(campaign, outcome, new)

        jobs = workers(cluster) if cluster is not None else jobs
        with executor(jobs, cluster) as where:
            return run(
                subjects, seconds, seed, database=database_folder(cache_folder()), executor=where, jobs=jobs, first_only=exit_first,
                most_tasks=most_tasks, started=started, tell=tell,
            )  # fmt: skip
