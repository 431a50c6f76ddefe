"""Verdicts for other programs: JUnit, GitHub annotations and Markdown. Names and texts are escaped for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

FAILING = ("REFUTED", "VACUOUS")
PROVED = "PROVED"
UNPROVED = ("PROVED_BOUNDED", "TESTED")
"""Statuses that hold as far as was looked, and fail where a proof for all sizes is required."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Entry:
    """One verdict as reports need it: its JSON form, its text in full, and where the rule stands in its file."""

    verdict: dict[str, Any]
    text: str
    file: str = ""
    line: int = 1

    @property
    def name(self) -> str:
        return str(self.verdict["name"])

    @property
    def status(self) -> str:
        return str(self.verdict["status"])

    def problem(self, require_proof: bool = False) -> str:
        """What speaks against the rule, in one line; empty when nothing does."""
        if self.status in (PROVED, "TRIVIAL") or (self.status in UNPROVED and not require_proof):
            return ""
        words = (self.verdict.get("reason") or self.verdict.get("scope"), self.verdict.get("suggestion"))
        reason = "; ".join(" ".join(str(part).split()) for part in words if part)
        return f"{self.status}: {reason}" if reason else self.status


def exit_status(entries: Sequence[Entry], require_proof: bool = False) -> int:
    """0 all hold; 1 something is refuted or vacuous; 2 a rule that cannot be used; 3 undecided, or unproved where proof is required."""
    statuses = {entry.status for entry in entries if entry.problem(require_proof)}
    if statuses & set(FAILING):
        return 1
    if "ERROR" in statuses:
        return 2
    return 3 if statuses else 0


def junit(entries: Sequence[Entry], require_proof: bool = False) -> str:
    """The entries as a JUnit test suite: a failure for what does not hold, an error for what cannot be used."""
    cases = []
    for entry in entries:
        problem, seconds = entry.problem(require_proof), float(entry.verdict.get("seconds") or 0.0)
        opening = f'<testcase classname={_attribute(entry.file or "rewright")} name={_attribute(entry.name)} time="{seconds:.3f}"'
        if not problem:
            cases.append(f"  {opening}/>")
            continue
        kind = "error" if entry.status == "ERROR" else "failure"
        cases.append(f"  {opening}>\n    <{kind} message={_attribute(problem)}>{escape(_clean(entry.text))}</{kind}>\n  </testcase>")
    errors = sum(entry.status == "ERROR" for entry in entries)
    failures = sum(bool(entry.problem(require_proof)) for entry in entries) - errors
    time = sum(float(entry.verdict.get("seconds") or 0.0) for entry in entries)
    head = f'<testsuite name="rewright" tests="{len(entries)}" failures="{failures}" errors="{errors}" time="{time:.3f}">'
    return "\n".join(['<?xml version="1.0" encoding="utf-8"?>', head, *cases, "</testsuite>"])


def github(entries: Sequence[Entry], require_proof: bool = False) -> list[str]:
    """Workflow commands that annotate each rule that does not hold, at its line."""
    lines = []
    for entry in entries:
        if problem := entry.problem(require_proof):
            place = f"file={_property(entry.file)},line={entry.line}," if entry.file else ""
            lines.append(f"::error {place}title={_property(entry.name)}::{_data(problem + chr(10) + entry.text)}")
    return lines


def markdown(entries: Sequence[Entry], require_proof: bool = False) -> str:
    """A table of all verdicts, and the text of each that does not hold."""
    lines = ["| rule | verdict | scope | equality | seconds |", "|---|---|---|---|---:|"]
    for entry in entries:
        verdict = entry.verdict
        cells = [entry.name, entry.status, verdict.get("scope"), verdict.get("equality")]
        lines.append("| " + " | ".join(map(_cell, cells)) + f" | {float(verdict.get('seconds') or 0.0):.2f} |")
    for entry in entries:
        if entry.problem(require_proof):
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", entry.text)), default=0))
            lines += ["", f"### {_cell(entry.name)}", "", _cell(entry.problem(require_proof)), "", f"{fence}text", entry.text, fence]
    return "\n".join(lines)


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", text)


def _attribute(text: str) -> str:
    return quoteattr(_clean(text), {"\n": "&#10;"})


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _cell(value: Any) -> str:
    text = " ".join(str("" if value is None else value).split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\|`*_\[\]#])", r"\\\1", text)
