"""ONNX operators that nobody defined here: kept word for word, run by the `onnx` package's reference, and never looked into."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cache
from typing import Any

from operators.arrays import to_numpy, to_torch
from operators.expressions import Dim
from operators.operator import Effect, Operator, TensorType, kind_of, operator
from operators.reference import corrected


class NotRunnable(NotImplementedError):
    """A foreign operator that nothing here computes: a custom one, say. Models with such run only in the runtime that has it."""


UNTYPED = "untyped"
"""The dtype of what is no tensor of a known rank: a sequence, an optional value, a tensor whose rank depends on the data."""


@operator()
class Foreign(Operator):
    """A node of an ONNX model as an uninterpreted function of its operands.

    `name` is the operator's ("LSTM", "com.microsoft.FusedConv"), `node` the node itself (serialised, in base64), whose inputs are
    called `operand_0`, `operand_1`, … and whose outputs `result_0`, …; `captured` are the names under which subgraphs read the
    operands after the node's own inputs. `opsets` are the operator sets its meaning depends on; `results` the types of its outputs.
    """

    name: str
    node: str
    captured: tuple[str, ...]
    opsets: tuple[tuple[str, int], ...]
    results: tuple[TensorType, ...]
    draws: bool = False
    """It draws random numbers."""
    known: bool = True
    """Every operator in it is one of ONNX's own."""

    @property
    def multiple(self) -> bool:  # type: ignore[override]
        return len(self.results) > 1

    @property
    def effects(self) -> Effect:
        return (Effect.RANDOM if self.draws else Effect.PURE) | (Effect.PURE if self.known else Effect.UNKNOWN)

    def outputs(self, *operands: TensorType) -> tuple[TensorType, ...]:
        return self.results

    def flops(self, *operands: TensorType) -> Dim:
        return 0

    def run(self, *tensors: Any) -> Any:
        found = self._found(tensors)
        wide = any(str(getattr(tensor, "dtype", "")) == "torch.float64" for tensor in tensors)  # computed in more than was asked for
        for kind, one in zip(self.results, found if self.multiple else (found,), strict=False):
            dtype = str(getattr(one, "dtype", "")).removeprefix("torch.")
            if not wide and dtype and kind.dtype != UNTYPED and kind_of(kind.dtype) == "float" and dtype != kind.dtype:
                raise NotRunnable(f"{self.name}: the onnx package's reference gives {dtype} where ONNX has {kind.dtype}")
        return found

    def _found(self, tensors: tuple[Any, ...]) -> Any:
        try:
            return run_foreign(self.node, self.captured, self.opsets, *tensors)
        except NotRunnable:  # float64 was asked for, and stands beside float32 numbers inside, say
            wider = widened(self.node)
            if wider == self.node or not any(str(getattr(one, "dtype", "")) == "torch.float64" for one in tensors):
                raise
            return run_foreign(wider, self.captured, self.opsets, *tensors)

    def __str__(self) -> str:
        return f"Foreign:{self.name}"


def node_of(text: str) -> Any:
    """The `NodeProto` in the `node` of a `Foreign`."""
    import onnx

    node = onnx.NodeProto()
    node.ParseFromString(base64.b64decode(text))
    return node


def text_of(node: Any) -> str:
    """A `NodeProto` as the text that `Foreign` holds."""
    return base64.b64encode(node.SerializeToString(deterministic=True)).decode()


@cache
def widened(text: str) -> str:
    """The node with everything in it that is written as float32 written as float64."""
    node = node_of(text)
    _widen(node)
    return text_of(node)


def _widen(node: Any) -> None:
    from onnx import AttributeProto, TensorProto, numpy_helper

    def widen(tensor: Any) -> None:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float64"), tensor.name))

    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            widen(attribute.t)
        elif attribute.type == AttributeProto.INT and attribute.name in ("dtype", "to") and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.DOUBLE
        elif attribute.type == AttributeProto.GRAPH:
            for tensor in attribute.g.initializer:
                widen(tensor)
            for inner in attribute.g.node:
                _widen(inner)


def run_foreign(node: str, captured: tuple[str, ...], opsets: tuple[tuple[str, int], ...], *tensors: Any) -> Any:
    """The outputs of a foreign node, by the reference implementation of the `onnx` package; one, or a tuple (None for one left out).

    Raises: NotRunnable for an operator without a reference implementation, and where that fails.
    """
    prepared = _prepared(node, tuple(captured), tuple(map(tuple, opsets)), tuple(tensor is None for tensor in tensors))
    given = {prepared.names[position]: to_numpy(tensor) for position, tensor in enumerate(tensors) if tensor is not None}
    try:
        found = iter(map(to_torch, prepared.evaluator.run(None, given)))
    except Exception as error:  # the reference raises whatever its Python happens to raise; it is no answer
        raise NotRunnable(f"{node_of(node).op_type}: the onnx package's reference fails: {' '.join(str(error).split())[:120]}") from error
    results = tuple(next(found) if wanted else None for wanted in prepared.wanted)
    return results[0] if len(results) == 1 else results


@dataclass(frozen=True)
class _Prepared:
    evaluator: Any
    names: tuple[str, ...]
    wanted: tuple[bool, ...]


@cache
def _prepared(text: str, captured: tuple[str, ...], opsets: tuple[tuple[str, int], ...], absent: tuple[bool, ...]) -> _Prepared:
    from onnx import TypeProto, ValueInfoProto, helper
    from onnx.reference import ReferenceEvaluator

    node = node_of(text)
    own = [f"operand_{position}" for position in range(len(absent) - len(captured))]
    names = (*own, *captured)
    inputs = [ValueInfoProto(name=name, type=TypeProto()) for name, left_out in zip(names, absent, strict=True) if not left_out]
    outputs = [ValueInfoProto(name=name, type=TypeProto()) for name in node.output if name]
    graph = helper.make_graph([node], "foreign", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets])
    try:
        return _Prepared(ReferenceEvaluator(model, new_ops=list(corrected())), names, tuple(bool(name) for name in node.output))
    except (NotImplementedError, RuntimeError, TypeError, KeyError) as error:
        reason = " ".join(str(error).split())[:120]
        raise NotRunnable(f"{node.op_type}: nothing here computes this operator: the onnx package says {reason}") from error


__all__ = ["UNTYPED", "Foreign", "NotRunnable", "node_of", "run_foreign", "text_of"]
