"""Whether the packages that this distribution consists of are the ones that Python finds."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

SIBLINGS = ("operators", "graphs", "rewrites", "verifier", "costs", "search")
"""The import packages of the distribution besides `rewright`, in the order in which they may import one another."""


def check_siblings(names: tuple[str, ...] = SIBLINGS) -> None:
    """See that each sibling package resolves to the one installed beside `rewright`.

    Raises: ImportError naming the file that shadows one.
    """
    home = Path(__file__).resolve().parent.parent
    for name in names:
        expected = home / name / "__init__.py"
        found = _origin(name)
        if found is None:
            raise ImportError(f"rewright: its package `{name}` must lie in {home}, but is missing; install rewright again")
        if found.resolve() != expected:
            raise ImportError(
                f"rewright: its package `{name}` must come from {expected.parent}, but {found} shadows it; "
                "rename that file or folder, or start Python from another folder"
            )


def _origin(name: str) -> Path | None:
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None):
        return Path(str(loaded.__file__))
    if loaded is not None and getattr(loaded, "__path__", None):
        return Path(next(iter(loaded.__path__)))
    spec = find_spec(name)
    if spec is None:
        return None
    if spec.origin is not None:
        return Path(spec.origin)
    locations = list(spec.submodule_search_locations or [])
    return Path(locations[0]) if locations else None
