"""What all commands share: exit statuses, one-line errors, whole or absent output files, and where to print."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


class EveryMinute:
    """A line at most once a minute: progress where nothing can be drawn, as in the log of a CI job."""

    def __init__(self, console: Console, seconds: float = 60.0) -> None:
        self.console, self.seconds = console, seconds
        self.begun = self.last = time.monotonic()

    def __call__(self, text: str) -> None:
        """Print the text with the time gone, unless a line was printed within the last minute."""
        now = time.monotonic()
        if now - self.last >= self.seconds:
            self.last = now
            self.console.print(f"{timedelta(seconds=round(now - self.begun))} {text}", soft_wrap=True)


@contextmanager
def status(text: str) -> Iterator[Callable[[str], None]]:
    """A line on standard error that says what is done now; off a terminal, once a minute."""
    console = messages()
    if not console.is_terminal:
        yield EveryMinute(console)
        return
    with console.status(text) as shown:
        yield shown.update


def progress() -> Progress:
    """A progress bar on standard error; off a terminal, a line once a minute."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = messages()
    say = EveryMinute(console)

    class Bar(Progress):
        def update(self, task_id: Any, **fields: Any) -> None:
            super().update(task_id, **fields)
            if self.disable:
                task = next(task for task in self.tasks if task.id == task_id)
                of = "" if task.total is None else f" of {task.total:.0f}"
                say(f"{task.description} ({task.completed:.0f}{of})")

    return Bar(
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
