"""Real time, optimised against not.

`python -m benchmarks.real_time [MODELS...] [--batches 1,8] [--modes eager,compile,freezing] [--write]`

Every model of `examples.models` on this machine, float32. For eager mode it is optimised with kernels measured here (objective `measured`),
for torch.compile with inductor-like kernels on the fitted `cpu` device; `freezing` is torch.compile with TorchInductor's `freezing`. Three
modules run in turn: the model as it came, its graph emitted unchanged (what capturing alone changes), and the optimised one; figures are
medians, ratios are medians over rounds with their range at 95 %. What `optimize` would take back, because the clock says that it is slower
than either of the others, is the model as it came, and counts as 1. The process keeps the memory that it frees, so that page faults are not
in the times. Optimised graphs and times are kept in the folder `--state`, so that the benchmark can be stopped and taken up again (`--only
optimise` does the first half, `--anew` times once more).

With one thread, times are the thread's own, without what other programs take. With more, and `OMP_WAIT_POLICY=PASSIVE` set before the
start, they are those of the thread that calls: its share of the work beside the other threads', waiting left out; without it, the wall's.
Graphs for eager mode are optimised by the kernels of as many threads as were given when they first were, as said below each table.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.batches import keep_memory, model_with
from benchmarks.tables import table, write
from costs.runtimes import Eager, fingerprint
from costs.timing import Comparison, interleaved
from examples.models import MODELS
from graphs.capture import call_arguments, capture
from graphs.emit import to_module
from graphs.serialise import load, save
from rewright.layouts import channels_last
from rewright.optimization import optimize
from rewright.speed import compared
from rewright.timed import layout_of

HEADS = (
    "model",
    "batch",
    "as it came ms",
    "unchanged graph ms",
    "optimised ms",
    "as it came / optimised",
    "unchanged / optimised",
    "steps",
    "error",
)
STATE = Path(tempfile.gettempdir()) / "rewright-real-time"


def optimised(name: str, batch: int, mode: str, folder: Path, budget: float) -> dict[str, Any]:
    """Optimise a model and keep its graph; the figures of the search."""
    kind = "eager" if mode == "eager" else "compile"
    path = folder / f"{name}-{batch}-{kind}.graph"
    notes = path.with_suffix(".json")
    if notes.exists():
        return dict(json.loads(notes.read_text()))
    module, inputs = model_with(name, batch)
    aim: dict[str, Any] = {"objective": "measured", "then": "eager"} if kind == "eager" else {"device": "cpu", "then": "inductor"}
    started = time.perf_counter()
    with torch.no_grad():
        result = optimize(module, inputs, budget=budget, allow_slower=True, time_here=False, **aim)
    save(result.graph, path)
    found = {
        "rules": [step.rule for step in result.steps],
        "max_error": dict(result.max_error),
        "seconds": time.perf_counter() - started,
        "before": result.before.as_dict(),
        "after": result.after.as_dict(),
        "path": str(path),
        "threads": torch.get_num_threads(),
    }
    notes.write_text(json.dumps(found))
    return found


def runner(module: torch.nn.Module, mode: str) -> Callable[..., Any]:
    """The module as the mode runs it."""
    return module if mode == "eager" else torch.compile(module, dynamic=False)


def timed(name: str, batch: int, mode: str, notes: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The three modules in turn, after the clock's two decisions: the layout, and whether the result is handed out."""
    module, inputs = model_with(name, batch)
    arguments, named = call_arguments(inputs)
    steps = len(notes["rules"])
    graph = load(Path(notes["path"]))
    clock = Eager().clock()
    unchanged, layout = to_module(capture(module, inputs)), "as it was"
    chosen: torch.nn.Module = to_module(graph)
    if mode == "eager":
        laid_out, number = channels_last(graph)
        found = layout_of(chosen, to_module(laid_out), to_module(laid_out), arguments, named, clock) if number else None
        if found is not None:
            chosen, layout, steps = found[0], "packed" if "packed" in found[1] else "channels-last", steps + 1
    calls = [runner(each, mode) for each in (module, unchanged, chosen)]
    taken_back = steps > 0 and compared(calls[0], calls[2], arguments, named, "eager", seconds, clock).slower
    with torch.no_grad():
        timings = interleaved([lambda call=call: call(*arguments, **named) for call in calls], seconds, fewest=5, most=31, clock=clock)  # type: ignore[misc]
        error = largest_error(calls[0](*arguments, **named), calls[2](*arguments, **named))
    given, graph_alone = Comparison.of(timings[0], timings[2]), Comparison.of(timings[1], timings[2])
    return {
        "ms": [timing.median * 1e3 for timing in timings],
        "given": [given.ratio, given.low, given.high],
        "unchanged": [graph_alone.ratio, graph_alone.low, graph_alone.high],
        "steps": steps,
        "layout": layout,
        "taken back": taken_back or (steps > 0 and graph_alone.is_slower),
        "error": error,
        "max_error": notes["max_error"],
        "priced": notes.get("threads"),
        "rounds": len(timings[0].samples),
    }


def largest_error(left: Any, right: Any) -> float:
    """The largest difference of any output, relative to the output's largest magnitude."""
    from torch.utils import _pytree as pytree

    from search.check import relative_error

    pairs = zip(pytree.tree_leaves(left), pytree.tree_leaves(right), strict=True)
    return max(relative_error(a, b) for a, b in pairs if isinstance(a, torch.Tensor))


def report(rows: dict[str, dict[str, Any]]) -> str:
    """A table for each mode, and the geometric means below it."""
    parts = []
    for mode, threads in sorted(dict.fromkeys(tuple(key.split(" ")[2:]) for key in rows), key=lambda kind: (kind[0] != "eager", kind)):
        found = {key: row for key, row in rows.items() if key.endswith(f" {mode} {threads}")}
        lines = []
        for key, row in found.items():
            name, batch, *_ = key.split(" ")
            ratios = [f"{ratio:.2f} ({low:.2f} to {high:.2f})" for ratio, low, high in (row["given"], row["unchanged"])]
            note = ", taken back" if row["taken back"] else "" if row["layout"] == "as it was" else f", {row['layout']}"
            lines.append((name, batch, *(f"{ms:.2f}" for ms in row["ms"]), *ratios, f"{row['steps']}{note}", f"{row['error']:.1e}"))
        parts.append(
            "\n\n".join([f"## {mode}, {threads} threads", table(HEADS, lines), summary(list(found.values())), *priced(mode, found)])
        )
    return "\n\n".join(parts)


def priced(mode: str, rows: dict[str, dict[str, Any]]) -> list[str]:
    """A sentence about those graphs for eager mode that were optimised by the kernels of another number of threads."""
    others = [key.split(" ") for key, row in rows.items() if mode == "eager" and str(row.get("priced")) != key.split(" ")[3]]
    by = sorted({str(row.get("priced")) for row in rows.values()})
    return [
        f"Optimised by kernels of {', '.join(by)} threads; not by as many: " + ", ".join(f"{name} {batch}" for name, batch, *_ in others)
    ] * bool(others)


def handed_out(row: dict[str, Any]) -> float:
    """How many times as fast what `optimize` hands out is."""
    return 1.0 if row["taken back"] or not row["steps"] else float(row["given"][0])


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """Geometric means over what changed, and the least ratio."""
    changed = [row for row in rows if row["steps"] and not row["taken back"]]
    if not changed:
        return "Nothing changed."
    means = [math.exp(sum(math.log(row[of][0]) for row in changed) / len(changed)) for of in ("given", "unchanged")]
    least = min(handed_out(row) for row in rows)
    found = (
        f"Over the {len(changed)} of {len(rows)} that something was found for: geometric mean {means[0]:.2f} against the model as it came"
    )
    rest = f"{means[1]:.2f} against its unchanged graph; least of all handed out {least:.2f}; largest error"
    return f"{found}, {rest} {max(row['error'] for row in rows):.1e}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--modes", default="eager,compile,freezing")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of search for each model")
    parser.add_argument("--seconds", type=float, default=6.0, help="of timing for each model")
    parser.add_argument("--state", type=Path, default=STATE)
    parser.add_argument("--only", choices=("optimise", "time"), help="optimise without timing, or time what is optimised already")
    parser.add_argument("--anew", action="store_true", help="time again what was timed before")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/real_time.md")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_memory()
    arguments.state.mkdir(parents=True, exist_ok=True)
    times = arguments.state / "times.json"
    rows: dict[str, dict[str, Any]] = json.loads(times.read_text()) if times.exists() else {}
    for mode in arguments.modes.split(","):
        for batch in map(int, arguments.batches.split(",")):
            for name in arguments.models:
                key = f"{name} {batch} {mode} {arguments.threads}"
                if key in rows and not arguments.anew:
                    continue
                kept = (arguments.state / f"{name}-{batch}-{'eager' if mode == 'eager' else 'compile'}.json").exists()
                if arguments.only == "time" and not kept:
                    continue
                notes = optimised(name, batch, mode, arguments.state, arguments.budget)
                print(f"{key}: optimised in {notes['seconds']:.0f} s, {len(notes['rules'])} steps", flush=True)
                if arguments.only == "optimise":
                    continue
                with torch._inductor.config.patch(freezing=mode == "freezing"):
                    rows[key] = timed(name, batch, mode, notes, arguments.seconds)
                torch._dynamo.reset()
                times.write_text(json.dumps(rows))
                print(f"{key}: {rows[key]['given'][0]:.2f}x, {rows[key]['unchanged'][0]:.2f}x of the unchanged graph", flush=True)
    text = report(rows)
    print(text)
    if arguments.write:
        command = f"`python -m benchmarks.real_time --write` (once more for another `--threads`); {fingerprint(Eager())}"
        write("real_time.md", "Real time of optimised models", f"{__doc__}\n{command}\n\n{text}")


if __name__ == "__main__":
    main()
