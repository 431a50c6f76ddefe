"""The classes of equal terms: from fingerprint to representative, in memory and beyond a limit on disk."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path


class ClassIndex:
    """Fingerprint (64 bits, signed) to representative (a number of any length); entries beyond `limit` go to a temporary SQLite file."""

    def __init__(self, limit: int = 4_000_000) -> None:
        self._memory: dict[int, int] = {}
        self._limit = limit
        self._disk: sqlite3.Connection | None = None

    def __len__(self) -> int:
        return len(self._memory) + self.spilled

    @property
    def spilled(self) -> int:
        """How many classes are on disk."""
        return int(self._disk.execute("SELECT COUNT(*) FROM classes").fetchone()[0]) if self._disk else 0

    def setdefault(self, key: int, number: int) -> int:
        """The representative of the class, which becomes `number` when the class is new."""
        found = self._memory.get(key)
        if found is not None:
            return found
        if len(self._memory) < self._limit:
            self._memory[key] = number
            return number
        disk = self._opened()
        row = disk.execute("SELECT number FROM classes WHERE key = ?", (key,)).fetchone()
        if row is not None:
            return int(row[0], 16)
        disk.execute("INSERT INTO classes VALUES (?, ?)", (key, f"{number:x}"))
        return number

    def _opened(self) -> sqlite3.Connection:
        if self._disk is None:
            self._folder = tempfile.TemporaryDirectory(prefix="rewright-classes-")
            self._disk = sqlite3.connect(Path(self._folder.name) / "classes.sqlite", isolation_level=None)
            self._disk.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN")
            self._disk.execute("CREATE TABLE classes (key INTEGER PRIMARY KEY, number TEXT) WITHOUT ROWID")
        return self._disk
