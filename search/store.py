"""Solved windows in an SQLite file, so that a search that was ended or killed goes on where it was, and a known model needs none.

A window is found again for exactly its structure, the rules (their content, in order), the prices, the objective and the limits, by
the same code of search, costs and matching. Its rules are asked for their certificates anew each time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Sequence
from dataclasses import asdict, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from costs.roofline import Roofline
from graphs.database import Database, cache_folder
from graphs.serialise import encoded
from operators.operator import Operator
from search.recipes import Recipe
from search.solving import Setting

_SCHEMA = """
CREATE TABLE IF NOT EXISTS windows (
    question TEXT PRIMARY KEY, recipe TEXT NOT NULL, written TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
)
"""
_CODE = ("search", "costs", "rewrites", "graphs", "operators")


class Solutions:
    """Recipes by window, for one setting. A process killed while writing loses only its own write.

    Raises (from every method): StoreError when the file is no database, is damaged, or stays locked.
    """

    def __init__(self, setting: Setting, path: Path | None = None) -> None:
        self._database = Database(path or cache_folder() / "windows.sqlite", _SCHEMA, "windows are searched anew")
        self._setting = _fingerprint(setting)

    def question(self, description: tuple[Hashable, ...], denied: Sequence[int], favoured: Sequence[int]) -> str:
        """The key of a window."""
        text = json.dumps([self._setting, _plain(description), sorted(denied), sorted(favoured)])
        return hashlib.sha256(text.encode()).hexdigest()

    def find(self, question: str) -> Recipe | None:
        """The recipe kept for a window, if any."""
        with self._database.connection() as connection:
            row = connection.execute("SELECT recipe FROM windows WHERE question = ?", (question,)).fetchone()
        return None if row is None else Recipe.from_json(row[0])

    def keep(self, question: str, recipe: Recipe) -> None:
        """Keep a recipe."""
        with self._database.connection() as connection:
            connection.execute("INSERT OR REPLACE INTO windows (question, recipe) VALUES (?, ?)", (question, recipe.to_json()))


def keeps(roofline: Roofline) -> bool:
    """The prices are the same another day: computed ones are, measured ones are not."""
    return type(roofline) is Roofline


def _fingerprint(setting: Setting) -> str:
    roofline = setting.roofline
    parts = [
        asdict(roofline.device), asdict(roofline.policy), sorted((str(name), size) for name, size in roofline._sizes.items()),
        asdict(setting.objective), asdict(setting.start), setting.expansions, _code(),
        [(rule.__name__, rule.content()) for rule in setting.rules],
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


@cache
def _code() -> str:
    """A digest of the code that decides what is found."""
    root, total = Path(__file__).resolve().parent.parent, hashlib.sha256()
    for folder in _CODE:
        for path in sorted((root / folder).glob("*.py")):
            total.update(path.name.encode() + path.read_bytes())
    return total.hexdigest()


def _plain(value: Any) -> Any:
    """A window's description as JSON; numbers of different kinds stay different."""
    if isinstance(value, Operator):
        return [type(value).__name__, {name: _plain(part) for name, part in value.attributes.items()}]
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return {"float": repr(value)}
    return encoded(value) if not is_dataclass(value) or hasattr(value, "shape") else repr(value)


__all__ = ["Solutions", "keeps"]
