"""What a comparison of two graphs answers: a status with its scope, how the proof went, and the input on which they differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from verifier.verdict import Status


@dataclass(frozen=True)
class Intermediate:
    """A value that one side computes on the way: what computes it, its type, and one of its elements or the first few."""

    label: str
    type: str
    value: str

    def __str__(self) -> str:
        return f"{self.label} = {self.type} {self.value}"


@dataclass(frozen=True)
class Difference:
    """Where the two sides differ.

    `kind` is value, NaN/inf, precision, error, update, dtype, shape, size, number of outputs or order of outputs. `before` and `after` are
    the two elements at `index` of the output. `first` are the first intermediates that differ: one of BEFORE, one of AFTER.
    """

    kind: str
    sentence: str
    output: str = ""
    index: tuple[int, ...] = ()
    before: str = ""
    after: str = ""
    inputs: dict[str, Any] = field(default_factory=dict)
    """Each input by name: its elements where they are few, else how to draw it again."""
    first: tuple[Intermediate | None, Intermediate | None] = (None, None)
    tensors: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The inputs themselves."""

    def to_json(self) -> dict[str, Any]:
        """The difference as plain data."""
        first = [None if f is None else {"node": f.label, "type": f.type, "value": f.value} for f in self.first]
        return {
            "kind": self.kind, "sentence": self.sentence, "output": self.output, "index": list(self.index), "before": self.before,
            "after": self.after, "inputs": self.inputs, "first_before": first[0], "first_after": first[1],
        }  # fmt: skip

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.sentence}"]
        if self.output and self.before:
            lines.append(f"  output {self.output} at {list(self.index)}: {self.before} before, {self.after} after")
        lines += [f"  {name} = {value}" for name, value in self.inputs.items()]
        for side, found in zip(("BEFORE", "AFTER"), self.first, strict=True):
            if found is not None:
                lines.append(f"  the first value that differs, {side}: {found}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Unproved:
    """A value of AFTER that equals one of BEFORE on every input tried, without a proof."""

    label: str
    reason: str

    def __str__(self) -> str:
        return f"{self.label}: {self.reason}"


@dataclass(frozen=True)
class Comparison:
    """Whether two graphs are the same function.

    `status` is PROVED, TESTED, REFUTED or UNDECIDED; `scope` says for which sizes and under which equality.
    `structural`, `proved` count AFTER's values that are BEFORE's by the same operators, and by proof; `unproved` lists the rest.
    """

    status: Status
    scope: str = ""
    reason: str = ""
    equality: str = "float"
    difference: Difference | None = None
    structural: int = 0
    proved: int = 0
    unproved: tuple[Unproved, ...] = ()
    notes: tuple[str, ...] = ()
    error: dict[str, float] = field(default_factory=dict)
    """The largest difference of the outputs relative to their largest magnitude, in float64 and in the graph's own dtypes."""
    examples: int = 0
    seconds: float = 0.0
    seed: int = 0

    @property
    def equal(self) -> bool:
        """The two are the same function, as far as the status says."""
        return self.status in (Status.PROVED, Status.TESTED)

    def to_json(self) -> dict[str, Any]:
        """The comparison as plain data, in the form docs/json.md describes."""
        return {
            "status": self.status.value, "scope": self.scope, "reason": self.reason, "equality": self.equality,
            "difference": None if self.difference is None else self.difference.to_json(),
            "values": {"structural": self.structural, "proved": self.proved, "unproved": [vars(u) for u in self.unproved]},
            "notes": list(self.notes), "max_error": dict(self.error), "examples": self.examples,
            "seconds": round(self.seconds, 4), "seed": self.seed,
        }  # fmt: skip

    def __repr__(self) -> str:
        scope = f" [{self.scope}]" if self.scope and self.equal else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.status}{scope}{reason} ({self.seconds:.2f} s)"

    def __str__(self) -> str:
        lines = [repr(self)]
        if self.structural or self.proved or self.unproved:
            lines.append(f"  values: {self.structural} the same by structure, {self.proved} by proof, {len(self.unproved)} without proof")
        lines += [f"  not proved: {found}" for found in self.unproved[:5]]
        lines += [f"  {note}" for note in self.notes]
        if self.difference is not None:
            lines.append(str(self.difference))
        return "\n".join(lines)


__all__ = ["Comparison", "Difference", "Intermediate", "Unproved"]
