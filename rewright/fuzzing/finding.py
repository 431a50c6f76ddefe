"""What fuzzing finds, and what a check needs to say about itself."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OWN = ("operators", "graphs", "rewrites", "verifier", "costs", "search", "rewright")


@dataclass(frozen=True)
class Subject:
    """What one check is about: its kind (`operator`, `rule`, `firing`, `proof`, `law`, `model`, `walk`, `given`) and a name.

    source: the words that load it again in another process, where it is not the library's   group: what it is one of; groups take turns
    """

    kind: str
    name: str
    source: str = ""
    group: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Problem:
    """What a check found wrong: the cause by which it is told from others, the report in full, a script that shows it again."""

    cause: str
    text: str
    script: str = ""


@dataclass(frozen=True)
class Finding:
    """A problem, where it was found and how it is found again."""

    subject: Subject
    problem: Problem
    seed: int
    task: int
    replayed: bool = False
    seconds: float = 0.0

    @property
    def cause(self) -> str:
        """Equal for findings that are one fault, as far as can be told."""
        return self.problem.cause

    def as_dict(self) -> dict[str, Any]:
        """The finding as docs/json.md describes it."""
        return {
            "kind": self.subject.kind,
            "name": self.subject.name,
            "cause": self.cause,
            "text": self.problem.text,
            "script": self.problem.script,
            "seed": self.seed,
            "task": self.task,
            "replayed": self.replayed,
            "seconds": round(self.seconds, 3),
        }


@dataclass
class Outcome:
    """What one task did: examples by kind of subject, findings, how often each rule was applied, what said nothing."""

    task: int
    subject: Subject
    examples: int = 0
    unsuitable: int = 0
    findings: list[Finding] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


def problem_of(error: BaseException, what: str, script: str = "") -> Problem:
    """An exception as a problem; its cause is its type and the innermost line of this project."""
    return Problem(f"{type(error).__name__} at {place_of(error)}", f"{what}\n{type(error).__name__}: {error}\nat {place_of(error)}", script)


def place_of(error: BaseException) -> str:
    """The innermost function of this project in the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _package(frame.filename) and "fuzzing" not in Path(frame.filename).parts]
    frame = (own or list(frames))[-1]
    path = Path(frame.filename)
    package = _package(frame.filename)
    name = "/".join(path.parts[path.parts.index(package) :]) if package else path.name
    return f"{name} in {frame.name}"


def _package(file: str) -> str:
    parts = Path(file).parts
    root = Path(__file__).resolve().parent.parent.parent.parts
    return parts[len(root)] if parts[: len(root)] == root and len(parts) > len(root) and parts[len(root)] in OWN else ""


__all__ = ["Finding", "Outcome", "Problem", "Subject", "place_of", "problem_of"]
