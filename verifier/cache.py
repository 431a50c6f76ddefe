"""Where files that may be made again are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """$REWRIGHT_CACHE, else rewright's folder of the user's cache."""
    chosen = os.environ.get("REWRIGHT_CACHE")
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "rewright"
