"""`rewright optimize`: the best equivalent of a model that verified rules lead to."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewright.cli.app import app
from rewright.cli.console import BadInput, Exit, bad_input, messages, output, require_places, status, write
from rewright.cli.loading import loaded, refusing_models
from rewright.files import beside, json_text

if TYPE_CHECKING:
    from rich.console import Console

    from graphs.graph import Graph
    from rewright.optimization import Result
    from search.searching import Progress


@app.command()
def optimize(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            show_default=False,
            help="file.py:factory or package.module:factory (it gives a module, or a pair of it and example inputs), a .pt2 or .onnx file.",
        ),
    ],
    device: Annotated[str | None, typer.Option(help="The device to optimise for: h100, or with --objective measured this machine.")] = None,
    objective: Annotated[
        str, typer.Option(help="time, flops, bytes, memory, kernels, measured (time here), or a mix such as time=1,memory=0.2.")
    ] = "time",
    kernels: Annotated[
        str | None, typer.Option(help="How operators share kernels: none, pointwise or inductor-like; as --then has it, if left out.")
    ] = None,
    then: Annotated[str | None, typer.Option(help="What runs the result on this machine: eager or inductor.")] = None,
    runtime: Annotated[
        str | None,
        typer.Option(help="Time an .onnx model in this runtime, kernels and whole models: onnxruntime, as without --device."),
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(metavar="NAME=N,...", help="Numbers for an .onnx model's symbolic sizes, at which it is timed.")
    ] = None,
    threads: Annotated[str | None, typer.Option(metavar="N,...", help="Threads to time an .onnx model with; 1 and all cores.")] = None,
    allow_slower: Annotated[bool, typer.Option("--allow-slower", help="Hand out a result that is slower here than what came in.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Count kernels and time both modules, eager and under inductor.")] = False,
    budget: Annotated[float, typer.Option(min=0.001, help="Seconds of search.")] = 60.0,
    require_proof: Annotated[bool, typer.Option("--require-proof", help="Use no rule that is only tested.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Decides every random draw.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes to search in; the result is the same for any number.")] = 1,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not use what earlier searches found, and keep nothing.")] = False,
    out: Annotated[Path | None, typer.Option("-o", "--output", metavar="OUT", help="Write the optimised model, as .pt2 or .onnx.")] = None,
    report: Annotated[Path | None, typer.Option(metavar="F.html", help="Write an HTML report.")] = None,
    json: Annotated[str | None, typer.Option(metavar="F", help="Write figures and steps as JSON; - is standard output.")] = None,
) -> int:
    """Search for the best equivalent of a model, every step by a verified rule; hand it out with the evidence."""
    if out is not None and out.suffix not in (".pt2", ".onnx"):
        raise BadInput(f"-o {out}: must end in .pt2 or .onnx")
    require_places(out, report, json)
    from rewright.optimization import EmissionDiffersError
    from search.check import NumericCheckError

    console = messages() if json == "-" else output()
    try:
        result = _optimised(
            model,
            device=device,
            objective=objective,
            kernels=kernels,
            then=then,
            runtime=runtime,
            sizes=_numbers(sizes, "--sizes"),
            threads=_threads(threads),
            allow_slower=allow_slower,
            profile=profile,
            budget=budget,
            seed=seed,
            require_proof=require_proof,
            jobs=jobs,
            resume=not fresh,
        )
    except (NumericCheckError, EmissionDiffersError) as error:
        messages().print(f"rewright: {model}: nothing is handed out, because {error}")
        return Exit.REFUTED
    _show(result, console)
    if out is not None:
        _save(result, out)
        console.print(f"written: {out}" + ("" if result.changed else ", the model as it came in"))
    if report is not None:
        with bad_input(OSError):
            result.report(report)
        console.print(f"written: {report}")
    if json is not None:
        write(json, json_text(result.as_dict()))
    return Exit.UNDECIDED if not result.complete and not result.steps else Exit.HOLDS


def _numbers(text: str | None, option: str) -> dict[str, int]:
    """NAME=N,... as a mapping."""
    found = {}
    for part in (text or "").split(","):
        name, _, number = part.strip().rpartition("=")
        if part.strip():
            if not name or not number.strip().isdigit():
                raise BadInput(f"{option}: must be NAME=N,..., got {text}")
            found[name.strip()] = int(number)
    return found


def _threads(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise BadInput(f"--threads: must be positive numbers, got {text}")
    return [int(part) for part in parts]


def _optimised(model: str, **options: Any) -> Result:
    from costs.devices import UnknownDeviceError
    from costs.kernels import UnknownPolicyError
    from costs.roofline import CostError
    from costs.runtimes import UnknownRuntimeError
    from graphs.emit import EmitError
    from operators.foreign import NotRunnable
    from rewright.optimization import optimize as optimised
    from search.objective import UnknownObjectiveError
    from verifier.store import StoreError

    found = loaded(model)
    unknown = (UnknownDeviceError, UnknownPolicyError, UnknownObjectiveError, UnknownRuntimeError)
    with refusing_models(), bad_input(EmitError, CostError, StoreError, NotRunnable, *unknown), status("searching") as say:

        def tell(progress: Progress) -> None:
            gone = f"{progress.seconds:.0f} of {progress.allowed:.0f} s"
            say(f"searching: {gone}, {progress.candidates} graphs priced, best {progress.best}")

        def name(rule: str) -> None:
            say(f"verifying {rule}")

        runtime, sizes, threads = (options.pop(name) for name in ("runtime", "sizes", "threads"))
        if runtime not in (None, "onnxruntime"):
            raise BadInput(f"--runtime {runtime}: must be onnxruntime")
        if found.graph is None and (runtime or sizes or threads):
            raise BadInput(f"{model}: --runtime, --sizes and --threads are for .onnx models")
        if found.graph is not None and _is_timed(runtime, **options):
            chosen = {option: options[option] for option in ("budget", "require_proof", "allow_slower", "seed")}
            heard = {"progress": tell, "on_rule": name, "on_candidate": lambda candidate: say(f"timing {candidate}")}
            return _timed(found.graph, sizes=sizes, threads=threads, **chosen, **heard)
        subject = found.graph or found.program or found.module
        assert subject is not None
        return optimised(subject, found.example_inputs, progress=tell, on_rule=name, **options)


def _timed(graph: Graph, **options: Any) -> Result:
    from costs.runtimes import MeasuringError
    from rewright.onnx_optimization import SizesError, optimize_onnx

    with bad_input(SizesError, MeasuringError):
        return optimize_onnx(graph, **options)


def _is_timed(runtime: str | None, **options: Any) -> bool:
    """An ONNX model is timed in ONNX Runtime, unless it is optimised for another device or by figures that are not times here."""
    installed = find_spec("onnxruntime") is not None
    if runtime is not None:
        if not installed:
            raise BadInput("--runtime onnxruntime: needs the onnxruntime package: pip install 'rewright[onnx]'")
        return True
    return (
        installed and all(options[name] is None for name in ("device", "kernels", "then")) and options["objective"] in ("time", "measured")
    )


def _show(result: Result, console: Console) -> None:
    """Print the steps and the figures of a result."""
    from rewright.tables import profile_table, step_table

    console.print(step_table(result))
    errors = ", ".join(f"{error:.1e} ({name})" for name, error in result.max_error.items())
    console.print(f"{result.gain:.2f}x by {result.objective}: {result.before} -> {result.after}")
    console.print(f"largest error {errors}; {len(result.steps)} steps in {result.seconds:.1f} s")
    console.print(result.speed_note, soft_wrap=True)
    for sentence in result.assumed:
        console.print(f"assumed: {sentence}", soft_wrap=True)
    if result.profile is not None:
        console.print(profile_table(result.profile))
    for name, verdict in sorted(result.certificates.items()):
        console.print(f"  {name}: {verdict.status}, {verdict.scope}", soft_wrap=True)


def _save(result: Result, path: Path) -> None:
    import torch

    from graphs.emit import EmitError, to_exported_program

    if path.suffix == ".onnx":
        from graphs.onnx import OnnxError, to_model
        from graphs.onnx.files import write_model

        with bad_input(OnnxError, OSError):
            write_model(result.model or to_model(result.graph, fold_sizes=True), path)
        return
    with bad_input(EmitError, OSError), beside(path) as temporary:
        torch.export.save(to_exported_program(result.graph), temporary)
