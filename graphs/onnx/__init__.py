"""ONNX models in and out.

    graph = graphs.onnx.load("model.onnx")           # a Graph; OnnxError says in one sentence what is wrong with a file
    outputs = graphs.evaluate.evaluate(graph, inputs)
    model = graphs.onnx.to_model(graph)              # an onnx.ModelProto; what no rule touched is written word for word
    graphs.onnx.save(graph, "out.onnx")

`load` and `read` (of a `ModelProto`) take `known={"name": tensor}`: inputs that are fixed to a value, as `shape` of a Reshape may be.
`example_inputs(graph, sizes=…)` draws inputs of the graph's types. The node of each ONNX name is in `graphs.onnx.named_values(graph)`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from graphs.onnx.errors import OnnxError

if TYPE_CHECKING:
    import onnx

    from graphs.graph import Graph, Value


def load(path: str | PathLike[str], known: Mapping[str, Any] | None = None, opset: int | None = None) -> Graph:
    """The graph of an ONNX file. External data is read from the file's own folder only.

    With `opset` the model is converted to this opset first (and written in it): a newer one has operators that rules may need.

    Raises: OnnxError, one sentence that says what is wrong and where.
    """
    from graphs.onnx.files import open_model

    return read(open_model(path), known, opset)


def read(
    model: onnx.ModelProto,
    known: Mapping[str, Any] | None = None,
    opset: int | None = None,
    whole: Collection[str] = (),
    running: bool = False,
) -> Graph:
    """The graph of a model, as `load`; ONNX's operators of the names in `whole` are kept as they are, whatever they could be read as.

    With `running`, the graph is the model's wherever that runs: a branch of an If after which it cannot run is taken never to be.
    Raises: OnnxError.
    """
    from graphs.onnx.deciding import read_running
    from graphs.onnx.files import converted, prepared
    from graphs.onnx.reader import Reader

    ready = prepared(model if opset is None else converted(model, opset))
    return read_running(ready, known, whole).graph if running else Reader(ready, known, whole).read()


def with_both_branches(graph: Graph) -> Graph | None:
    """The graph read again with both branches of every undecided If in it, as if both were computed: for proofs alone, not to be run.

    A node that stands for the choice reads the condition and the outputs of both; `metadata["in branches"]` are the nodes that are
    computed only where a branch is taken. None where there is no such If, or the graph is no longer what was read from ONNX.
    """
    from graphs.onnx.origin import origin_of
    from graphs.onnx.reader import Reader
    from graphs.structure import structural_hash

    origin = origin_of(graph)
    if origin is None or not any(node.op_type == "If" for node in origin.model.graph.node):
        return None
    if structural_hash(Reader(origin.model, origin.bound).read()) != structural_hash(graph):
        return None
    found = Reader(origin.model, origin.bound, both=True).read()
    return found if "in branches" in found.metadata else None


def to_model(graph: Graph, fold_sizes: bool = False, opset: int | None = None) -> onnx.ModelProto:
    """The graph as an ONNX model; with `fold_sizes`, arithmetic on sizes that gives numbers is written as numbers.

    A graph that was read from ONNX keeps its opset; `opset` is that of any other.
    Raises: OnnxError for an operator that ONNX has no word for.
    """
    from graphs.onnx.writer import Writer

    return Writer(graph, fold_sizes, opset).model()


def save(graph: Graph, path: str | PathLike[str], fold_sizes: bool = False) -> None:
    """Write the graph as an ONNX file, which the checker of the `onnx` package has accepted; whole or not at all.

    Raises: OnnxError, OSError.
    """
    from graphs.onnx.files import write_model

    write_model(to_model(graph, fold_sizes), path)


def named_values(graph: Graph) -> dict[str, Value]:
    """The values of a graph that stand for names of the ONNX model it was read from, as far as they are still there."""
    from graphs.onnx.names import named_values as found

    return found(graph)


def example_inputs(graph: Graph, sizes: Mapping[str, int] | None = None, seed: int = 0) -> list[Any]:
    """Drawn tensors for the graph's inputs, symbolic sizes at `sizes` or else at the usual ones."""
    from graphs.onnx.names import example_inputs as drawn

    return drawn(graph, sizes, seed)


__all__ = ["OnnxError", "example_inputs", "load", "named_values", "read", "save", "to_model", "with_both_branches"]
