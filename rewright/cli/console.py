"""What all commands share: exit statuses, one-line errors, whole or absent output files, and where to print."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


class Exit(IntEnum):
    """The exit statuses of every command."""

    HOLDS = 0
    REFUTED = 1
    BAD_INPUT = 2
    UNDECIDED = 3


class BadInput(Exception):
    """What the user gave cannot be used; the message says what and where, in one line. Ends the command with status 2."""


@contextmanager
def bad_input(*kinds: type[BaseException]) -> Iterator[None]:
    """Exceptions of these kinds are the input's fault, and become BadInput with their first line."""
    try:
        yield
    except kinds as error:
        raise BadInput(one_line(error)) from error


def one_line(error: BaseException) -> str:
    """The message of an exception in one line."""
    text = " ".join(line.strip() for line in str(error).splitlines() if line.strip())
    return text or type(error).__name__


def output() -> Console:
    """Where results go: standard output. Names are printed as they are, never as markup."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else 140)


def messages() -> Console:
    """Where progress and remarks go: standard error."""
    from rich.console import Console

    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def progress() -> Progress:
    """A progress bar on standard error; silent when that is not a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = messages()
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a file beside its place and rename it there, so that it is never half written; `-` is standard output.

    Raises: BadInput when the place cannot be written.
    """
    if str(path) == "-":
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    target = Path(path)
    try:
        with tempfile.NamedTemporaryFile("w", dir=target.parent, prefix=f".{target.name}.", delete=False, encoding="utf-8") as beside:
            beside.write(text if text.endswith("\n") else text + "\n")
        try:
            os.chmod(beside.name, 0o666 & ~_umask())
            os.replace(beside.name, target)
        except OSError:
            os.unlink(beside.name)
            raise
    except OSError as error:
        raise BadInput(f"{target}: cannot be written: {error.strerror or error}") from error


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write a value as JSON: keys in the order given, numbers that JSON lacks (NaN, infinities) as strings."""
    write_whole(path, json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
