"""`rewright compare`: whether two models are the same function, whatever optimised the one into the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rewright.cli.app import app
from rewright.cli.console import BadInput, Exit, bad_input, messages, output, require_places, write
from rewright.cli.loading import refusing_models
from rewright.files import json_text

if TYPE_CHECKING:
    from graphs.graph import Graph
    from verifier.equivalence.result import Comparison

EQUALITIES = ("float", "real")


@app.command()
def compare(
    before: Annotated[str, typer.Argument(metavar="BEFORE", show_default=False, help="A .onnx or .pt2 file, or file.py:factory.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", show_default=False, help="The same, after somebody's optimisation.")],
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds after which nothing further is tried.")] = 120.0,
    examples: Annotated[int, typer.Option(min=1, help="Inputs to test at most.")] = 20,
    equality: Annotated[str, typer.Option(help="float: only rounding may differ; real: NaN and infinities may, too.")] = "float",
    require_proof: Annotated[bool, typer.Option("--require-proof", help="Only a proof counts: exit with 3 where there is none.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Decides every random draw.")] = 0,
    json: Annotated[str | None, typer.Option(metavar="F", help="Write the outcome as JSON; - is standard output.")] = None,
    save_inputs: Annotated[
        str | None, typer.Option("--save-inputs", metavar="F.npz", help="Write the inputs on which they differ, by name.")
    ] = None,
) -> int:
    """Prove that two models are the same function, or find an input on which they differ."""
    if equality not in EQUALITIES:
        raise BadInput(f"--equality must be one of {', '.join(EQUALITIES)}, got {equality}")
    from verifier.equivalence.comparing import CannotRunError, compare_graphs
    from verifier.equivalence.joining import AlignmentError

    require_places(json, save_inputs)
    sides = _side("BEFORE", before), _side("AFTER", after)
    with bad_input(AlignmentError, CannotRunError):
        result = compare_graphs(*sides, timeout=timeout, seed=seed, equality=equality, examples=examples)  # type: ignore[arg-type]
    console = messages() if json == "-" else output()
    console.print(str(result), soft_wrap=True)
    if json is not None:
        write(json, json_text({"before": before, "after": after, **result.to_json()}))
    if save_inputs is not None and result.difference is not None and result.difference.tensors:
        _save(result.difference.tensors, save_inputs)
        console.print(f"written: {save_inputs}")
    return _exit(result, require_proof)


def _side(which: str, name: str) -> Graph:
    from graphs.onnx import OnnxError
    from rewright.comparison import graph_of

    try:
        with refusing_models(), bad_input(OnnxError, OSError):
            return graph_of(name)
    except BadInput as error:
        raise BadInput(f"{which}: {error}") from error


def _exit(result: Comparison, require_proof: bool) -> int:
    status = result.status.value
    if status == "REFUTED":
        return Exit.REFUTED
    if status == "PROVED" or (status == "TESTED" and not require_proof):
        return Exit.HOLDS
    return Exit.UNDECIDED


def _save(tensors: dict[str, object], path: str) -> None:
    import numpy

    from rewright.files import beside

    with bad_input(OSError), beside(path) as temporary, temporary.open("wb") as file:
        numpy.savez(file, **{name: tensor.numpy() for name, tensor in tensors.items()})  # type: ignore[attr-defined]
