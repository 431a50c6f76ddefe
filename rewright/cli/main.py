"""The console script: parses the command line, runs one command, and turns what it raises into an exit status and one line."""

from __future__ import annotations

import os
import sys
import traceback

import typer

from graphs.database import cache_folder
from rewright.cli import compare, costs, discover, fuzz, optimize, rules, show, verify  # noqa: F401  (commands register when imported)
from rewright.cli.app import app
from rewright.cli.console import BadInput, Exit, one_line

# Typer carries its own copy of click in newer releases, and depends on click in older ones.
_UsageProblem: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command line; its exit status."""
    # Hypothesis keeps notes in a folder `.hypothesis`; a command leaves none where the user happens to stand.
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(cache_folder() / "hypothesis"))
    try:
        status = app(args=(sys.argv[1:] if arguments is None else arguments) or ["--help"], standalone_mode=False, prog_name="rewright")
        return int(status or Exit.HOLDS)
    except _UsageProblem as error:
        where = getattr(getattr(error, "ctx", None), "command_path", "rewright")
        return _fail(f"{where}: {one_line(Exception(error.format_message()))}")  # type: ignore[attr-defined]
    except (typer.Abort, KeyboardInterrupt):
        return _fail("rewright: stopped", 130)
    except BadInput as error:
        return _fail(f"rewright: {error}")
    except BrokenPipeError:
        sys.stderr.close()
        return 141
    except Exception as error:
        if os.environ.get("REWRIGHT_TRACEBACK"):
            traceback.print_exc()
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(os.path.dirname(last.filename))}/{os.path.basename(last.filename)}:{last.lineno}"
        hint = "set REWRIGHT_TRACEBACK=1 to see where"
        return _fail(f"rewright: internal error, {type(error).__name__} at {place}: {one_line(error)} ({hint})")


def _fail(message: str, status: int = Exit.BAD_INPUT) -> int:
    print(message, file=sys.stderr)
    return status
