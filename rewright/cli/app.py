"""The Typer application on which the commands register."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="rewright",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        import rewright

        print(f"rewright {rewright.__version__}")
        raise typer.Exit()


@app.callback()
def rewright_(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version and exit."),
) -> None:
    """Prove or refute tensor-graph rewrite rules, and optimise models with the rules that hold."""
