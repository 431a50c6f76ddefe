"""The ONNX project's own node tests through this house: `python -m benchmarks.onnx_nodes [NAME...] [--write]`.

Each case is a model with inputs and the outputs that ONNX wants. It is read into a graph and evaluated, written word for word, and
written anew without its origin (every operator in its one ONNX spelling); both models run in onnxruntime where that runs the case at
all. Inputs that decide sizes (`shape`, `axes`, `k`, …) are fixed to the case's values where reading asks for them: `bound` counts those.
A case is `defined` when no node of it is foreign: foreign nodes are evaluated by the reference of the onnx package, and prove nothing.
"""

from __future__ import annotations

import argparse
import collections
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import onnx

from benchmarks.tables import table, write
from graphs.evaluate import evaluate
from graphs.graph import Graph
from graphs.onnx import OnnxError, to_model
from graphs.onnx.files import prepared
from graphs.onnx.reader import Reader
from operators.arrays import to_numpy, to_torch
from operators.foreign import Foreign

IR_VERSION = 11
"""The newest that the onnxruntime of this environment reads."""


@dataclass
class Outcome:
    """What became of one case: words that start with `yes` are good, all others say what went wrong."""

    name: str
    operator: str
    defined: bool
    bound: bool
    evaluated: str
    verbatim: str
    anew: str
    reason: str


def cases(names: Sequence[str] = ()) -> Iterator[Any]:
    """The node tests of the onnx package, or those of these names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    for case in found:
        if not names or case.name in names:
            yield case


def outcome(case: Any) -> Outcome:
    """One case through reading, evaluating and writing."""
    operators = {node.op_type for node in case.model.graph.node}
    name = case.model.graph.node[0].op_type if len(operators) == 1 else "several"
    if case.name.endswith("_expanded") or "_expanded_" in case.name:
        name = "functions written out"
    inputs, expected = ([plain(value) for value in values] for values in case.data_sets[0])
    try:
        graph, bound, reason = read(case.model, inputs)
    except OnnxError as error:
        return Outcome(case.name, name, False, False, f"not read: {error}", "not read", "not read", str(error))
    foreign = sorted({operator.name for node in graph if isinstance(operator := graph.operator(node), Foreign)})
    evaluated = _evaluated(graph, case, inputs, expected)
    verbatim = _in_runtime(graph, case, inputs, expected, evaluated)
    anew = _in_runtime(without_origin(graph), case, inputs, expected, evaluated) if not foreign else "foreign"
    return Outcome(case.name, name, not foreign, bound, evaluated, verbatim, anew, reason if foreign else "")


def plain(value: Any) -> Any:
    """A test's value as an array."""
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def read(model: onnx.ModelProto, inputs: Sequence[Any]) -> tuple[Graph, bool, str]:
    """The graph; whether inputs were bound for it; why nodes of it are foreign."""
    reader = Reader(prepared(model))
    graph = reader.read()
    if not reader.needed:
        return graph, False, ""
    names = [info.name for info in model.graph.input]
    for first in (1, 0):  # what is computed with, where that is enough, is not bound
        known = {name: to_torch(value) for name, value in list(zip(names, inputs, strict=True))[first:] if decides_sizes(value)}
        if known:
            second = Reader(prepared(model), known)
            bound = second.read()
            if not second.needed:
                return bound, True, ""
    return graph, False, "; ".join(why for _, why in reader.needed)


def decides_sizes(value: Any) -> bool:
    """An input such as a shape, axes, or a number of classes; or a number such as a bound or a ratio."""
    array = numpy.asarray(value) if not isinstance(value, list) and value is not None else None
    if array is None or array.dtype == object:
        return False
    few = array.dtype.kind in "iub" or array.size <= 8
    return bool((array.ndim <= 1 and few) or array.size <= 1)


def without_origin(graph: Graph) -> Graph:
    """The graph as if it had not been read from ONNX."""
    copy = graph.copy()
    copy.metadata.pop("onnx")
    return copy


def _evaluated(graph: Graph, case: Any, inputs: Sequence[Any], expected: Sequence[Any]) -> str:
    given = {info.name: to_torch(value) for info, value in zip(case.model.graph.input, inputs, strict=True)}
    tensors = [given[graph.operator(node).attributes["name"]] for node in graph.inputs]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [to_numpy(value) for value in evaluate(graph, tensors)]
    except Exception as error:  # the table is there to say what goes wrong
        return f"raises {type(error).__name__}: {' '.join(str(error).split())[:120]}"
    return compared(found, expected, case.rtol, case.atol)


def compared(found: Sequence[Any], expected: Sequence[Any], rtol: float, atol: float) -> str:
    """`yes`, or how the outputs differ."""
    for position, (one, wanted) in enumerate(zip(found, expected, strict=False)):
        if isinstance(wanted, list) or wanted is None or isinstance(one, list) or one is None:
            same = (one is None) == (wanted is None) and (wanted is None or len(one) == len(wanted))
            if not same or (wanted is not None and compared(one, wanted, rtol, atol) != "yes"):
                return f"output {position} is another sequence"
            continue
        a, b = numpy.asarray(one), numpy.asarray(wanted)
        eighths = {value.dtype for value in (a, b) if value.dtype.name.startswith("float8")}
        if len(eighths) == 1 and numpy.uint8 in (a.dtype, b.dtype):  # onnxruntime hands out their bits
            a, b = (value.view(*eighths) for value in (a, b))
        if a.shape != b.shape or (a.dtype != b.dtype and a.dtype.kind not in "OU"):
            return f"output {position} is {a.dtype}{list(a.shape)}, wanted {b.dtype}{list(b.shape)}"
        if a.dtype.kind in "OU":
            if a.tolist() != b.tolist():
                return f"output {position} is another text"
            continue
        wide = numpy.complex128 if a.dtype.kind == "c" else numpy.float64
        relative, absolute = tolerances(b, rtol, atol)
        if not numpy.allclose(a.astype(wide), b.astype(wide), rtol=relative, atol=absolute, equal_nan=True):
            return f"output {position} is off"
    return "yes"


def tolerances(wanted: numpy.ndarray, rtol: float, atol: float) -> tuple[float, float]:
    """The case's own tolerances, and at least what its expected output is itself off by: two units in the last place of a dtype of
    16 bits; and of what was cancelled, four of the largest element."""
    unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(wanted.dtype.name, 0.0)
    size = numpy.abs(wanted[numpy.isfinite(wanted)]).max(initial=0.0) if wanted.dtype.name in ("float16", "float32", "float64") else 0.0
    epsilon = numpy.finfo(wanted.dtype).eps if wanted.dtype.name in ("float16", "float32", "float64") else 0.0
    return max(rtol, 2 * unit), max(atol, 4 * float(epsilon) * float(size))


def _in_runtime(graph: Graph, case: Any, inputs: Sequence[Any], expected: Sequence[Any], evaluated: str) -> str:
    """The written model in onnxruntime: as the original is there, or as ONNX wants."""
    try:
        model = to_model(graph)
        onnx.checker.check_model(model)
    except (OnnxError, onnx.checker.ValidationError) as error:
        return f"not written: {' '.join(str(error).split())[:120]}"
    given = {info.name: value for info, value in zip(case.model.graph.input, inputs, strict=True)}
    reference = run(case.model, given)
    found = run(model, given)
    if isinstance(found, str):
        return "yes, onnxruntime runs neither" if isinstance(reference, str) else f"does not run: {found[:160]}"
    if compared(found, expected, case.rtol, case.atol) == "yes":
        return "yes"
    if not isinstance(reference, str) and compared(found, reference, 1e-3, 1e-6) == "yes":
        return "yes, as onnxruntime has it"
    return "differs" if evaluated == "yes" else "differs, as evaluated"


def run(model: onnx.ModelProto, given: dict[str, Any]) -> list[Any] | str:
    """The model's outputs in onnxruntime without optimisation; what it says when it does not run the model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = min(copy.ir_version, IR_VERSION)
    try:
        session = onnxruntime.InferenceSession(copy.SerializeToString(), options, providers=["CPUExecutionProvider"])
        feed = {info.name: _fed(given[info.name]) for info in session.get_inputs()}
        return list(session.run(None, feed))
    except Exception as error:  # onnxruntime raises a class per status, without a common base
        return " ".join(str(error).split())


def _fed(value: Any) -> Any:
    """An array as onnxruntime takes it: dtypes that numpy does not know go as values of its own."""
    import onnxruntime

    if isinstance(value, numpy.ndarray) and value.dtype.name in onnx_types():
        bits = value.view(numpy.uint16 if value.dtype.itemsize == 2 else numpy.uint8)
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, onnx_types()[value.dtype.name])
    return value


def onnx_types() -> dict[str, int]:
    """ONNX's element types of the dtypes that numpy knows through `ml_dtypes`."""
    kinds = onnx.TensorProto
    return {
        "bfloat16": kinds.BFLOAT16,
        "float8_e4m3fn": kinds.FLOAT8E4M3FN,
        "float8_e4m3fnuz": kinds.FLOAT8E4M3FNUZ,
        "float8_e5m2": kinds.FLOAT8E5M2,
        "float8_e5m2fnuz": kinds.FLOAT8E5M2FNUZ,
    }


def report(outcomes: Sequence[Outcome]) -> str:
    """The totals, and what is not defined by operator."""
    total = len(outcomes)

    def share(count: int) -> str:
        return f"{count} of {total} ({100 * count / total:.1f} %)"

    defined = [one for one in outcomes if one.defined]
    rows = [
        ("defined by operators of this house", share(len(defined))),
        ("— of these, evaluate gives the expected outputs", f"{sum(one.evaluated == 'yes' for one in defined)} of {len(defined)}"),
        ("— of these, with inputs that decide sizes bound", f"{sum(one.bound for one in defined)}"),
        (
            "evaluate gives the expected outputs (foreign nodes by the onnx reference)",
            share(sum(one.evaluated == "yes" for one in outcomes)),
        ),
        ("written word for word: the same in onnxruntime", share(sum(one.verbatim.startswith("yes") for one in outcomes))),
        ("— of these, onnxruntime does not run the case's own model", f"{sum('neither' in one.verbatim for one in outcomes)}"),
        ("written anew: as expected in onnxruntime", f"{sum(one.anew.startswith('yes') for one in defined)} of {len(defined)}"),
        ("— of these, onnxruntime runs neither model", f"{sum('neither' in one.anew for one in defined)}"),
    ]
    text = table(("", "cases"), rows) + "\n\n## Not defined\n\n"
    groups: dict[str, list[Outcome]] = collections.defaultdict(list)
    for one in outcomes:
        if not one.defined:
            groups[one.operator].append(one)
    listed = [
        (
            f"`{name}`",
            len(group),
            sum(one.evaluated == "yes" for one in group),
            shortened(collections.Counter(one.reason for one in group).most_common(1)[0][0]),
        )
        for name, group in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]
    text += table(("operator", "cases", "evaluated by the reference", "why"), listed)
    wrong = [one for one in outcomes if one.defined and one.evaluated != "yes"]
    if wrong:
        text += "\n\n## Defined, and not as expected\n\n" + table(
            ("case", "evaluated"), [(f"`{one.name}`", shortened(one.evaluated)) for one in wrong]
        )
    unwritten = [one for one in outcomes if not one.verbatim.startswith("yes") or (one.defined and not one.anew.startswith("yes"))]
    if unwritten:
        rows3 = [(f"`{one.name}`", shortened(one.verbatim), shortened(one.anew)) for one in unwritten]
        text += "\n\n## Written, and not as expected\n\n" + table(("case", "word for word", "anew"), rows3)
    return text


def shortened(text: str) -> str:
    """A cell of a table."""
    return text.replace("|", "/")[:140]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/results/")
    options = parser.parse_args()
    outcomes = []
    for case in cases(options.names):
        outcomes.append(outcome(case))
        if options.names:
            print(outcomes[-1])
        elif len(outcomes) % 100 == 0:
            print(len(outcomes), file=sys.stderr, flush=True)
    text = report(outcomes)
    print(text)
    if options.write:
        write("onnx_nodes.md", "The ONNX project's node tests", f"`python -m benchmarks.onnx_nodes --write`\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
