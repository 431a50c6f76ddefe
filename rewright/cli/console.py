"""What all commands share: exit statuses, one-line errors, whole or absent output files, and where to print."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from rewright.files import write_whole

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


def require_places(*paths: str | Path | None) -> None:
    """The folders of output files must stand before the work starts, or its end would be lost.

    Raises: BadInput.
    """
    for path in paths:
        if path is not None and str(path) != "-" and not Path(path).absolute().parent.is_dir():
            raise BadInput(f"{path}: cannot be written: there is no folder {Path(path).parent}")


def write(path: str, content: str) -> None:
    """Write an output file whole, or to standard output when the path is `-`.

    Raises: BadInput when the place cannot be written.
    """
    if path == "-":
        sys.stdout.write(content if content.endswith("\n") else content + "\n")
        sys.stdout.flush()
        return
    try:
        write_whole(path, content)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror or error}") from error
