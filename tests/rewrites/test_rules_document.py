"""docs/rules.md is what the rules and the kept verdicts say."""

from __future__ import annotations

from rewrites.library import library
from rewrites.library.document import DOCS, document, known_verdicts


def test_the_document_is_current() -> None:
    kept = (DOCS / "rules.md").read_text(encoding="utf-8")
    assert kept == document(known_verdicts()), "run python -m rewrites.library.document"


def test_every_verdict_is_of_a_rule_that_holds() -> None:
    rules = {rule.__name__: rule for rule in library()}
    for name, verdict in known_verdicts().items():
        directions = ["status", "reversed"] if rules[name].bidirectional else ["status"]
        assert all(verdict[direction] in ("PROVED", "PROVED_BOUNDED", "TESTED") for direction in directions), name
