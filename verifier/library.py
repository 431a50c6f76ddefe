"""Verifying the whole library and keeping what was found: `python -m verifier.library [--jobs N] [RULE]...`.

Writes docs/rules.json (status, reason, scope and seconds of proof of every rule, and the status of its reverse) and docs/rules.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch

from rewrites.library import library
from rewrites.library.document import DOCS, document, known_verdicts
from verifier.verdict import HOLDING, Verdict
from verifier.verify import BACKWARDS, verify

_PROOF = "proof for all sizes"


def summary(verdict: Verdict) -> dict[str, Any]:
    """What docs/rules.json keeps of a verdict."""
    seconds = next((part.seconds for part in verdict.parts if part.name == _PROOF), None)
    backwards = [part.result for part in verdict.parts if part.name == BACKWARDS]
    kept = {
        "status": verdict.status.value,
        "reason": verdict.reason,
        "scope": verdict.scope,
        "changes": list(verdict.changes),
        "gradients": verdict.gradients,
        "proof_seconds": None if seconds is None else round(seconds, 2),
    }
    return kept | {"reversed": backwards[0]} if backwards else kept


def verify_named(name: str, timeout: float) -> tuple[str, dict[str, Any]]:
    """The summary of the verdict on the library rule of this name."""
    torch.set_num_threads(1)
    rule = next(rule for rule in library() if rule.__name__ == name)
    return name, summary(verify(rule, timeout=timeout))


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify the named rules (all unless any is named) and write both files; 1 when a rule does not hold."""
    parser = argparse.ArgumentParser(prog="python -m verifier.library")
    parser.add_argument("rules", nargs="*", help="names of rules; all of the library unless given")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for each rule")
    given = parser.parse_args(arguments)
    names = given.rules or [rule.__name__ for rule in library()]
    found = {name: verdict for name, verdict in known_verdicts().items() if name in {rule.__name__ for rule in library()}}
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as executor:
        for name, verdict in executor.map(verify_named, names, [given.timeout] * len(names)):
            found[name] = verdict
            backwards = f", from right to left {verdict['reversed']}" if "reversed" in verdict else ""
            print(f"{verdict['status']:15} {name}{backwards} {verdict['reason']}")
    write(found)
    return int(any(found[name].get(way, "PROVED").partition(":")[0] not in HOLDING for name in names for way in ("status", "reversed")))


def write(found: dict[str, dict[str, Any]]) -> None:
    """Write docs/rules.json and docs/rules.md, rules in the library's order."""
    ordered = {rule.__name__: found[rule.__name__] for rule in library() if rule.__name__ in found}
    (DOCS / "rules.json").write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (DOCS / "rules.md").write_text(document(ordered), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
