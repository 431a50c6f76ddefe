"""Certificates: verdicts kept in an SQLite file, found again only for exactly the same rule, operators and versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphs.database import SECONDS_TO_WAIT, Database, StoreError, cache_folder
from rewrites.rule import Rule
from verifier.verdict import Verdict
from verifier.versions import operators_digest, versions

_SCHEMA = """
CREATE TABLE IF NOT EXISTS certificates (
    content TEXT NOT NULL, rule TEXT NOT NULL, examples INTEGER NOT NULL, seed INTEGER NOT NULL, status TEXT NOT NULL,
    versions TEXT NOT NULL, verdict TEXT NOT NULL, written TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (content, examples, seed)
)
"""
_INSERT = "INSERT OR REPLACE INTO certificates (content, rule, examples, seed, status, versions, verdict) VALUES (?, ?, ?, ?, ?, ?, ?)"


def default_path() -> Path:
    """`certificates.sqlite` in the cache folder."""
    return cache_folder() / "certificates.sqlite"


class Store:
    """Verdicts by content of the rule. Several processes may use one file; a process killed while writing loses only its own write.

    Raises (from every method): StoreError when the file is no store, is damaged, or stays locked.
    """

    def __init__(self, path: Path | str | None = None, wait_seconds: float = SECONDS_TO_WAIT) -> None:
        self.path = Path(path) if path is not None else default_path()
        self._database = Database(self.path, _SCHEMA, "verdicts are reached anew", wait_seconds)

    def find(self, rule: type[Rule], options: Mapping[str, Any]) -> Verdict | None:
        """The verdict kept for this content under at least as many examples and the same seed, if it is still valid."""
        for verdict in self._kept(rule.content(), options.get("seed"), options.get("examples", 0)):
            if valid(verdict):
                return verdict
        return None

    def certificate(self, rule: type[Rule]) -> Verdict | None:
        """A valid verdict under which the rule may be used; None where there is none."""
        verdicts = [verdict for verdict in self._kept(rule.content()) if verdict.holds and valid(verdict)]
        order = ("PROVED", "PROVED_BOUNDED", "TESTED")
        return min(verdicts, key=lambda verdict: order.index(verdict.status.value), default=None)

    def _kept(self, content: str, seed: int | None = None, examples: int = 0) -> list[Verdict]:
        question = "SELECT verdict FROM certificates WHERE content = ? AND examples >= ? AND (? IS NULL OR seed = ?) ORDER BY examples"
        with self._database.connection() as connection:
            rows = connection.execute(question, (content, examples, seed, seed)).fetchall()
        try:
            return [Verdict.from_json(json.loads(text)) for (text,) in rows]
        except (ValueError, KeyError, TypeError):
            return []  # written by another version in another form: as good as absent, and overwritten by the next verdict

    def keep(self, rule: type[Rule], verdict: Verdict, options: Mapping[str, Any]) -> None:
        """Keep a verdict, in place of an older one under the same options; one that more time might better is not kept."""
        if verdict.cut_short:
            return
        row = (
            rule.content(),
            rule.__name__,
            options.get("examples", 0),
            options.get("seed", 0),
            verdict.status.value,
            json.dumps(dict(verdict.versions)),
            verdict.dumps(),
        )
        with self._database.connection() as connection:
            connection.execute(_INSERT, row)

    def __len__(self) -> int:
        with self._database.connection() as connection:
            return int(connection.execute("SELECT COUNT(*) FROM certificates").fetchone()[0])


def valid(verdict: Verdict) -> bool:
    """The verdict was reached by the present versions, on operators that have not changed since."""
    current = versions()
    for name, value in verdict.versions.items():
        expected = operators_digest(name) if name.startswith("operators.") else current.get(name)
        if value != expected:
            return False
    return set(current) <= set(verdict.versions)


def certificate_name(verdict: Verdict) -> str:
    """What the search notes as evidence: the status and the start of the rule's content hash."""
    return f"{verdict.status.value} {verdict.content[:12]}"


__all__ = ["Store", "StoreError", "certificate_name", "default_path", "valid"]
