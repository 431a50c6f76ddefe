"""A run of fuzzing for people and programs: text, JSON, JUnit, GitHub annotations, a Markdown report, scripts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rewright.files import write_whole
from rewright.fuzzing.campaign import Campaign
from rewright.fuzzing.finding import Finding
from rewright.reports import Entry, github, junit

KINDS = {
    "operator": "operators against torch's kernels", "rule": "rules: random tests", "proof": "rules: proofs and wrong variants",
    "law": "random laws: what is proved, evaluated",
    "firing": "rules on graphs of their own patterns", "walk": "rules within random models, rewritten at random",
    "model": "random models, optimised", "given": "given models, optimised and rewritten at random",
}  # fmt: skip


def as_dict(campaign: Campaign, known: Sequence[str] = ()) -> dict[str, Any]:
    """The run as docs/json.md describes it; `known` are the rules that could have been applied."""
    return {
        "seed": campaign.seed,
        "seconds": round(campaign.seconds, 3),
        "processor_seconds": round(campaign.computing, 3),
        "tasks": campaign.tasks,
        "lost": campaign.lost,
        "examples": dict(campaign.examples),
        "subjects": {kind: len(names) for kind, names in campaign.subjects.items()},
        "unsuitable": campaign.unsuitable,
        "findings": [finding.as_dict() | {"times": campaign.again[finding.cause]} for finding in campaign.findings],
        "fired": dict(campaign.fired.most_common()),
        "never_fired": [name for name in known if name not in campaign.fired],
    }


def summary(campaign: Campaign) -> str:
    """The run in one line."""
    examples = sum(campaign.examples.values())
    found = len(campaign.findings)
    verdict = "nothing found" if not found else "1 finding" if found == 1 else f"{found} findings"
    return f"{verdict} in {examples} examples of {campaign.tasks} tasks, {campaign.seconds:.0f} s, seed {campaign.seed}"


def entries(campaign: Campaign) -> list[Entry]:
    """The kinds of subjects as entries of reports: those with a finding fail."""
    found: list[Entry] = []
    for kind, names in campaign.subjects.items():
        if not any(finding.subject.kind == kind for finding in campaign.findings):
            found.append(Entry({"name": f"{kind} ({campaign.examples[kind]} examples of {len(names)})", "status": "PROVED"}, ""))
    return found + [entry_of(finding) for finding in campaign.findings]


def entry_of(finding: Finding) -> Entry:
    """A finding as an entry that fails."""
    verdict = {"name": str(finding.subject), "status": "REFUTED", "reason": finding.cause, "seconds": finding.seconds}
    return Entry(verdict, finding.problem.text, finding.subject.source.partition("::")[0])


def junit_of(campaign: Campaign) -> str:
    """The run as a JUnit test suite: a case for each kind of subject, a failure for each finding."""
    return junit(entries(campaign))


def github_of(campaign: Campaign) -> list[str]:
    """Workflow commands that annotate each finding."""
    return github(entries(campaign))


def script_names(campaign: Campaign) -> Mapping[int, str]:
    """A file name for each finding that has a script, by position; equal names are numbered."""
    names: dict[int, str] = {}
    for position, finding in enumerate(campaign.findings):
        if finding.problem.script:
            base = re.sub(r"\W+", "_", f"{finding.subject.kind}_{finding.subject.name}").strip("_")
            name, number = f"{base}.py", 1
            while name in names.values():
                number += 1
                name = f"{base}_{number}.py"
            names[position] = name
    return names


def write_scripts(campaign: Campaign, folder: Path) -> dict[int, Path]:
    """A script for each finding that shows it again; their paths by position.

    Raises: OSError when the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for position, name in script_names(campaign).items():
        written[position] = folder / name
        write_whole(written[position], campaign.findings[position].problem.script)
    return written


def text_of(finding: Finding, script: Path | None = None) -> str:
    """A finding in full."""
    lines = [f"{finding.subject}: {finding.cause}", finding.problem.text, ""]
    where = "an example kept from an earlier run" if finding.replayed else f"task {finding.task}"
    lines.append(f"seed {finding.seed}, {where}, after {finding.seconds:.1f} s")
    if script is not None:
        lines.append(f"reproduce: python {script}")
    return "\n".join(lines)


def markdown_of(campaign: Campaign, known: Sequence[str] = ()) -> str:
    """The run as a page: what was tried, what was found, how often each rule was applied and which never was."""
    lines = [summary(campaign), "", "| what | subjects | examples |", "|---|---:|---:|"]
    for kind, words in KINDS.items():
        if kind in campaign.subjects:
            lines.append(f"| {words} | {len(campaign.subjects[kind])} | {campaign.examples[kind]} |")
    lines += ["", f"{campaign.unsuitable} models said nothing: PyTorch or torch.export refuses them."]
    for finding in campaign.findings:
        lines += ["", f"## {finding.subject}: {finding.cause}", "", "```text", finding.problem.text, "```"]
    never = [name for name in known if name not in campaign.fired]
    fired = sum(campaign.fired.values())
    lines += ["", f"## Rules in random models and graphs: {len(campaign.fired)} were applied, {fired} times in all", ""]
    lines.append(", ".join(f"{name} {count}" for name, count in campaign.fired.most_common()) or "none")
    if known:
        lines += ["", f"## Never applied: {len(never)}", "", ", ".join(never) or "none"]
    return "\n".join(lines) + "\n"


__all__ = ["as_dict", "entries", "github_of", "junit_of", "markdown_of", "summary", "text_of", "write_scripts"]
