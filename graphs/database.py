"""Files in the user's cache that several processes share: where they lie, and an SQLite file that says plainly what is wrong with it.

The packages that keep something (verdicts, measured times, solved windows) have a table each in a file of its own.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS_TO_WAIT = 20.0
"""How long another process may hold a file before it counts as locked."""

_here = threading.local()
"""Each thread's open connections by file, with the process that opened them."""


class StoreError(RuntimeError):
    """A store cannot be read or written; the message says which file and what to do."""


def cache_folder() -> Path:
    """$REWRIGHT_CACHE, else rewright's folder of the user's cache."""
    chosen = os.environ.get("REWRIGHT_CACHE")
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "rewright"


class Database:
    """An SQLite file with its tables. Several processes may use one file; a process killed while writing loses only its own write.

    schema: statements that make the tables where they are missing   loss: what is lost with the file, for the message when it is damaged
    """

    def __init__(self, path: Path, schema: str, loss: str, wait_seconds: float = SECONDS_TO_WAIT) -> None:
        self.path = path
        self.schema = schema
        self.loss = loss
        self.wait_seconds = wait_seconds

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """This thread's connection, opened at first use (and anew in a forked process); every statement is its own transaction.

        Raises: StoreError when the file is no database, is damaged, or stays locked.
        """
        try:
            yield self._open()
        except sqlite3.OperationalError as error:
            self._forget()
            if "locked" in str(error) or "busy" in str(error):
                raise StoreError(
                    f"store: {self.path} is locked by another process for more than {self.wait_seconds:g} s; try again when it has ended"
                ) from error
            raise StoreError(f"store: {self.path} cannot be used: {error}") from error
        except sqlite3.DatabaseError as error:
            self._forget()
            raise StoreError(f"store: {self.path} is damaged ({error}); remove it, and {self.loss}") from error
        except OSError as error:
            raise StoreError(f"store: {self.path} cannot be used: {error}") from error

    def _open(self) -> sqlite3.Connection:
        connections: dict[tuple[int, str, float], sqlite3.Connection] = _here.__dict__.setdefault("connections", {})
        owner = self._owner()
        if owner not in connections:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=self.wait_seconds, isolation_level=None)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(self.schema)
            connections[owner] = connection
        return connections[owner]

    def _forget(self) -> None:
        _here.__dict__.get("connections", {}).pop(self._owner(), None)

    def _owner(self) -> tuple[int, str, float]:
        return os.getpid(), str(self.path), self.wait_seconds


__all__ = ["SECONDS_TO_WAIT", "Database", "StoreError", "cache_folder"]
