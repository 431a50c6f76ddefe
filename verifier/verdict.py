"""What `verify` answers: a status with its scope, every part's result and time, and what refutes the rule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from verifier.counterexample import Counterexample

OUT_OF_TIME = "ran out of time"
"""How a reason says that a proof used up its time."""


class Status(StrEnum):
    """How a verification ended."""

    PROVED = "PROVED"
    PROVED_BOUNDED = "PROVED_BOUNDED"
    TESTED = "TESTED"
    REFUTED = "REFUTED"
    VACUOUS = "VACUOUS"
    TRIVIAL = "TRIVIAL"
    UNDECIDED = "UNDECIDED"
    ERROR = "ERROR"


HOLDING = frozenset({Status.PROVED, Status.PROVED_BOUNDED, Status.TESTED})
"""The statuses under which a rule may be used."""


@dataclass(frozen=True)
class Part:
    """One part of a verification: its name, what it found in words, and how long it took."""

    name: str
    result: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.name}: {self.result} ({self.seconds:.2f} s)"


@dataclass(frozen=True)
class Verdict:
    """The outcome of verifying one rule.

    `scope` says for which shapes, ranks, dtypes and modes the status holds; `changes` what may differ in floating point;
    `errors` is the worst relative error seen per dtype; `content` the hash of the rule; `versions` what judged it.
    """

    name: str
    status: Status
    reason: str = ""
    scope: str = ""
    equality: str = ""
    effects: str = ""
    gradients: str = ""
    changes: tuple[str, ...] = ()
    errors: Mapping[str, float] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    counterexample: Counterexample | None = None
    examples: int = 0
    seconds: float = 0.0
    seed: int = 0
    content: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    proof: str = ""
    """The proof as text: normal forms and index maps, where there is one."""

    @property
    def cut_short(self) -> bool:
        """Time ran out on the proof: more of it, or a machine with less to do, may reach a better verdict."""
        return OUT_OF_TIME in self.reason

    @property
    def holds(self) -> bool:
        """The rule may be used: proved, proved up to a size, or tested."""
        return self.status in HOLDING

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain data, in the form docs/json.md describes."""
        return {
            "name": self.name,
            "status": self.status.value,
            "scope": self.scope,
            "equality": self.equality,
            "effects": self.effects,
            "gradients": self.gradients,
            "seconds": round(self.seconds, 4),
            "counterexample": None if self.counterexample is None else self.counterexample.to_json(),
            "reason": self.reason,
            "changes": list(self.changes),
            "errors": dict(self.errors),
            "examples": self.examples,
            "seed": self.seed,
            "parts": [{"name": part.name, "result": part.result, "seconds": round(part.seconds, 4)} for part in self.parts],
            "content": self.content,
            "versions": dict(self.versions),
            "proof": self.proof,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Verdict:
        """The verdict that `to_json` wrote."""
        found = data["counterexample"]
        return Verdict(
            name=data["name"],
            status=Status(data["status"]),
            reason=data["reason"],
            scope=data["scope"],
            equality=data["equality"],
            effects=data["effects"],
            gradients=data["gradients"],
            changes=tuple(data["changes"]),
            errors=dict(data["errors"]),
            parts=tuple(Part(part["name"], part["result"], part["seconds"]) for part in data["parts"]),
            counterexample=None if found is None else Counterexample.from_json(found),
            examples=data["examples"],
            seconds=data["seconds"],
            seed=data["seed"],
            content=data["content"],
            versions=dict(data["versions"]),
            proof=data["proof"],
        )

    def __repr__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        scope = f" [{self.scope}]" if self.scope and self.holds else ""
        return f"{self.name}: {self.status}{scope}{reason} ({self.seconds:.2f} s)"

    def __str__(self) -> str:
        lines = [repr(self)]
        lines += [f"  {part}" for part in self.parts]
        if self.counterexample is not None:
            lines.append(str(self.counterexample))
        return "\n".join(lines)

    def dumps(self) -> str:
        """The verdict as canonical JSON text."""
        return json.dumps(self.to_json(), sort_keys=True)


__all__ = ["HOLDING", "Part", "Status", "Verdict"]
