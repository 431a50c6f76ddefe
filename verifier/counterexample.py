"""A refutation that a person can act on: what was run, on what, what came out, and a script that shows it again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_MOST_SHOWN = 600
"""Longer lists of elements are cut in print (never in JSON or in the script)."""


@dataclass(frozen=True)
class Step:
    """One intermediate value of a side: the torch call and its result as text."""

    call: str
    value: str

    def __str__(self) -> str:
        return f"{self.call} = {self.value}" if self.value else self.call


@dataclass(frozen=True)
class Counterexample:
    """The smallest instance found on which both sides of a rule differ.

    `kind` is what differs (value, shape, dtype, rounding, signed zero, NaN/inf, overflow range, an effect, gradient, error);
    `inputs` the elements of each tensor as nested lists with their `types`; `left` and `right` every intermediate value of pattern
    and replacement; `index` the first differing element of output `output`.
    """

    rule: str
    statement: str
    pattern: str
    replacement: str
    kind: str
    sentence: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = ""
    mode: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    left: tuple[Step, ...] = ()
    right: tuple[Step, ...] = ()
    output: int = 0
    index: tuple[int, ...] = ()
    left_value: str = ""
    right_value: str = ""
    seed: int = 0
    examples: int = 0
    script: str = ""

    def to_json(self) -> dict[str, Any]:
        """The counterexample as plain data, in the form docs/json.md describes."""
        return {
            "rule": self.rule,
            "statement": self.statement,
            "pattern": self.pattern,
            "replacement": self.replacement,
            "kind": self.kind,
            "sentence": self.sentence,
            "sizes": dict(self.sizes),
            "attributes": {name: plain(value) for name, value in self.attributes.items()},
            "dtype": self.dtype,
            "mode": self.mode,
            "inputs": {name: plain(value) for name, value in self.inputs.items()},
            "types": dict(self.types),
            "left": [{"call": step.call, "value": step.value} for step in self.left],
            "right": [{"call": step.call, "value": step.value} for step in self.right],
            "element": {"output": self.output, "index": list(self.index), "left": self.left_value, "right": self.right_value},
            "seed": self.seed,
            "examples": self.examples,
            "script": self.script,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Counterexample:
        """The counterexample that `to_json` wrote."""
        element = data["element"]
        kept = {name: value for name, value in data.items() if name not in ("element", "left", "right")}
        return Counterexample(
            **kept,
            left=tuple(Step(**step) for step in data["left"]),
            right=tuple(Step(**step) for step in data["right"]),
            output=element["output"],
            index=tuple(element["index"]),
            left_value=element["left"],
            right_value=element["right"],
        )

    @property
    def summary(self) -> str:
        """The difference in one line."""
        where = self._place()
        return f"{self.kind}: {self.sentence}" + (f" (at {where})" if where else "")

    def _place(self) -> str:
        dims = [f"{name} = {size}" for name, size in self.sizes.items() if name.split("[")[0] not in self.attributes]
        return ", ".join(dims + [f"{name} = {value}" for name, value in self.attributes.items()])

    def __str__(self) -> str:
        lines = [f"{self.rule}: {self.statement}", "", "pattern:", _indent(self.pattern), "replacement:", _indent(self.replacement)]
        lines += ["", f"at {self._place() or 'no sizes'}; dtype {self.dtype}; {self.mode}"]
        lines += [f"  {name} = {self.types.get(name, '')} {_cut(str(value))}" for name, value in self.inputs.items()]
        for title, steps in (("the pattern computes", self.left), ("the replacement computes", self.right)):
            lines += [f"{title}:", *(f"  {_cut(str(step))}" for step in steps)]
        lines += ["", f"{self.kind}: {self.sentence}"]
        if self.left_value or self.right_value:
            place = f"output {self.output}" + (f" at {list(self.index)}" if self.index else "")
            lines.append(f"  {place}: pattern {self.left_value}, replacement {self.right_value}")
        lines += [f"seed {self.seed}; found after {self.examples} examples", "", "reproduce:", _indent(self.script)]
        return "\n".join(lines)


def plain(value: Any) -> Any:
    """A value as JSON has it: NaN and infinities are strings."""
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + " …"


def _indent(text: str) -> str:
    return "\n".join("  " + line if line else "" for line in text.rstrip().splitlines())


__all__ = ["Counterexample", "Step", "plain"]
