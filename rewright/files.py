"""Output files that are whole or absent, and JSON that every reader takes."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file beside its place and rename it there, so that nobody ever reads half of it.

    Raises: OSError when the place cannot be written.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        # A pipe or a terminal (/dev/stdout) cannot be renamed over; a folder refuses by itself.
        target.write_bytes(_bytes(content))
        return
    with beside(target) as temporary:
        temporary.write_bytes(_bytes(content))


class beside:
    """A temporary path beside the target, renamed onto it when the block ends well and removed when it does not."""

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self.target = Path(target)

    def __enter__(self) -> Path:
        handle, name = tempfile.mkstemp(dir=self.target.parent, prefix=f".{self.target.name}.", suffix=self.target.suffix)
        os.close(handle)
        self.temporary = Path(name)
        return self.temporary

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self.temporary.unlink(missing_ok=True)
            return
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(self.temporary, 0o666 & ~mask)
        os.replace(self.temporary, self.target)


def json_text(value: Any) -> str:
    """A value as JSON: keys in the order given, numbers that JSON lacks (NaN, infinities) as strings."""
    return json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _bytes(content: str | bytes) -> bytes:
    if isinstance(content, bytes):
        return content
    text = content if content.endswith("\n") else content + "\n"
    return text.encode("utf-8", errors="backslashreplace")
