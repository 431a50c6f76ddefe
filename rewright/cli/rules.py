"""`rewright rules`: what the library holds."""

from __future__ import annotations

import inspect
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewright.cli.app import app
from rewright.cli.console import BadInput, Exit, bad_input, messages, output, write
from rewright.files import json_text

if TYPE_CHECKING:
    from rewrites.rule import Rule
    from verifier.verdict import Verdict


@app.command()
def rules(
    name: Annotated[str | None, typer.Argument(metavar="NAME", show_default=False, help="One rule, shown in full.")] = None,
    family: Annotated[str | None, typer.Option(metavar="F", help="Only the rules of this family.")] = None,
    json: Annotated[str | None, typer.Option(metavar="F", help="Write the rules as JSON; - is standard output.")] = None,
) -> int:
    """List the rules of the library: statement, conditions and stored verdict."""
    from rewrites.library import FAMILIES, library
    from rewrites.library import family as family_of
    from verifier.store import Store, StoreError

    if family is not None and family not in FAMILIES:
        raise BadInput(f"--family {family}: must be one of {', '.join(FAMILIES)}")
    chosen = [rule for rule in library() if family in (None, family_of(rule)) and name in (None, rule.__name__)]
    if not chosen:
        raise BadInput(f"rules: the library has no rule {name}" + (f" in the family {family}" if family else ""))
    with bad_input(StoreError):
        store = Store()
        verdicts = {rule: store.certificate(rule) for rule in chosen}
    if json is not None:
        write(json, json_text({"rules": [_as_dict(rule, family_of(rule), verdicts[rule]) for rule in chosen]}))
    console = messages() if json == "-" else output()
    if name is not None:
        for rule in chosen:
            console.print(_in_full(rule, family_of(rule), verdicts[rule]), soft_wrap=True)
        return Exit.HOLDS
    from rich.table import Table
    from rich.text import Text

    table = Table("family")
    table.add_column("rule", overflow="fold", min_width=max(len(rule.__name__) for rule in chosen))
    for heading in ("statement", "conditions", "equality", "verdict"):
        table.add_column(heading)
    for rule in chosen:
        verdict = verdicts[rule]
        conditions = "; ".join(condition.sentence for condition in rule.requires)
        cells = (family_of(rule), rule.__name__, rule.statement(), conditions, str(rule.equality), str(verdict.status) if verdict else "")
        table.add_row(*map(Text, cells))
    console.print(table)
    console.print(f"{len(chosen)} rules")
    return Exit.HOLDS


def _as_dict(rule: type[Rule], family: str, verdict: Verdict | None) -> dict[str, Any]:
    return {
        "name": rule.__name__,
        "family": family,
        "statement": rule.statement(),
        "source": rule.source,
        "equality": str(rule.equality),
        "conditions": [condition.sentence for condition in rule.requires],
        "trainable": rule.trainable,
        "bidirectional": rule.bidirectional,
        "conditions_reversed": [condition.sentence for condition in rule.requires_reversed],
        "status": None if verdict is None else verdict.status.value,
    }


def _in_full(rule: type[Rule], family: str, verdict: Verdict | None) -> str:
    lines = [f"{rule.__name__} ({family}): {rule.statement()}", f"source: {rule.source}", f"equality: {rule.equality}"]
    lines += [f"requires: {condition.sentence}" for condition in rule.requires]
    lines += ["may be used in training"] if rule.trainable else []
    lines += ["may be used from right to left"] if rule.bidirectional else []
    lines += [f"requires from right to left: {condition.sentence}" for condition in rule.requires_reversed]
    lines += ["", *(textwrap.dedent(inspect.getsource(side)).rstrip() for side in (rule.pattern, rule.replacement)), ""]
    lines.append(
        f"verdict: {verdict!r}" if verdict else f"verdict: none yet; run `rewright verify {inspect.getsourcefile(rule)}::{rule.__name__}`"
    )
    return "\n".join(lines)
