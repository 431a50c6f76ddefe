"""The library as Markdown: for each family its algebra, and for each rule the law, its conditions, its equality and its verdict.

`python -m rewrites.library.document` rewrites docs/rules.md from the rules and the verdicts kept in docs/rules.json, which
`python -m verifier.library` finds.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rewrites.library import FAMILIES, family, library
from rewrites.rule import Rule

DOCS = Path(__file__).parents[2] / "docs"


def document(verdicts: Mapping[str, Mapping[str, Any]]) -> str:
    """The whole document; `verdicts` gives status, reason and seconds of proof for rules by name."""
    rules = library()
    found = Counter(str(verdicts[rule.__name__]["status"]) if rule.__name__ in verdicts else "not verified" for rule in rules)
    lines = [
        "# The library of laws",
        "",
        f"{len(rules)} rules in {len(FAMILIES)} families: " + ", ".join(f"{count} {status}" for status, count in found.most_common()) + ".",
        "A rule marked ⇄ is also used from right to left, one marked ∇ also in training. Equality says what floating point may",
        "change: *bitwise* nothing, *real* rounding, and whatever else is named. The time is that of the proof for all sizes.",
    ]
    for name, files in FAMILIES.items():
        lines += ["", f"## {name}", ""]
        for file in files:
            lines += [inspect.getdoc(importlib.import_module(f"rewrites.library.{file}")) or "", ""]
        lines += ["| rule | law | conditions | equality | verdict | proof |", "|---|---|---|---|---|---|"]
        lines += [_row(rule, verdicts.get(rule.__name__)) for rule in rules if family(rule) == name]
    return "\n".join(lines + _open(rules, verdicts)) + "\n"


def _row(rule: type[Rule], verdict: Mapping[str, Any] | None) -> str:
    marks = " ⇄" * rule.bidirectional + " ∇" * rule.trainable
    stated = [condition.sentence for condition in rule.requires]
    conditions = "; ".join(stated + [f"from right to left: {condition.sentence}" for condition in rule.requires_reversed]) or "none"
    seconds = "" if verdict is None or verdict.get("proof_seconds") is None else f"{verdict['proof_seconds']:.2f} s"
    status = "not verified" if verdict is None else str(verdict["status"])
    law = f"{rule.statement()} ({rule.source})"
    return "| " + " | ".join(map(_cell, (f"`{rule.__name__}`{marks}", law, conditions, str(rule.equality), status, seconds))) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _open(rules: list[type[Rule]], verdicts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The rules that are not proved for all shapes, each with the reason."""
    rows = [
        f"| `{rule.__name__}` | {verdicts[rule.__name__]['status']} | {_cell(str(verdicts[rule.__name__]['reason']))} |"
        for rule in rules
        if rule.__name__ in verdicts and verdicts[rule.__name__]["status"] != "PROVED"
    ]
    return ["", "## Not proved for all shapes", "", "| rule | verdict | reason |", "|---|---|---|", *rows] if rows else []


def known_verdicts() -> dict[str, dict[str, Any]]:
    """The verdicts kept in docs/rules.json; none where it is missing."""
    path = DOCS / "rules.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


if __name__ == "__main__":
    (DOCS / "rules.md").write_text(document(known_verdicts()), encoding="utf-8")
