"""Where Hypothesis keeps its notes while rewright runs it: in the cache folder, not where the user happens to stand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import configuration

from graphs.database import cache_folder


@contextmanager
def notes_kept_apart() -> Iterator[None]:
    """Inside the block Hypothesis writes into the cache folder; a user's own Hypothesis finds its folder unchanged afterwards.

    A folder that the user chose by HYPOTHESIS_STORAGE_DIRECTORY is left.
    """
    if os.environ.get("HYPOTHESIS_STORAGE_DIRECTORY"):
        yield
        return
    before = configuration.storage_directory(intent_to_write=False).home_directory
    configuration.set_hypothesis_home_dir(cache_folder() / "hypothesis")
    try:
        yield
    finally:
        configuration.set_hypothesis_home_dir(before)
