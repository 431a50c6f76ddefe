"""ONNX models node by node into graphs: declared operators where there are any, foreign nodes elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import onnx
import torch
from torch.utils import _pytree as pytree

from graphs.graph import Graph, GraphError, Value
from graphs.interface import Interface, Position
from graphs.onnx.errors import MOST_ELEMENTS, OnnxError, shortened
from graphs.onnx.foreign import foreign_constant, foreign_types, is_declared, lacks_axes, make_foreign
from graphs.onnx.inference import inferred
from graphs.onnx.known import KNOWN, NotKnown
from graphs.onnx.origin import NODE_KEY, Origin, mark_group
from graphs.onnx.reading.registry import Node, reader_of
from graphs.onnx.subgraphs import captured_names
from graphs.onnx.types import DTYPES, clean, constant_of, dense, dtype_of, numpy_dtype, size_symbol, tensor_of, type_of
from graphs.trace import TraceError, as_value
from operators.casts import Identity
from operators.expressions import Dim, Expression, Symbol
from operators.foreign import UNTYPED
from operators.formulas import UndecidedError
from operators.joining import Stack
from operators.layout import Reshape
from operators.operator import (
    OPERATORS,
    ShapeError,
    TensorType,
    Unsupported,
    collecting_narrowings,
    collecting_obligations,
    collecting_units,
    kind_of,
)
from operators.sources import Constant, Full, Scalar

MOST_KNOWN = 1 << 12
"""The most elements of a tensor of sizes that are followed one by one."""

NOT_COVERED = (Unsupported, UndecidedError, TraceError, ShapeError, NotImplementedError, GraphError)
"""What says that our operators do not cover a node."""
CHECKED = frozenset(["Conv", "Reshape", "MatMul", "Gemm", "Concat", "Flatten", "Transpose"])
"""Operators that ours cover whole: what ours do not take is broken, although ONNX's own inference lets it pass."""


@dataclass
class Entry:
    """What is known of one name: a value of the graph, a tensor of the file, or integers that are functions of sizes alone."""

    type: TensorType
    value: Value | None = None
    tensor: Any = None
    sizes: Any = None
    """A numpy array of the elements: numbers, or objects among which are symbolic sizes."""


class Reader:
    """One pass over a model's nodes."""

    def __init__(
        self,
        model: onnx.ModelProto,
        known: Mapping[str, Any] | None = None,
        whole: Collection[str] = (),
        choices: Mapping[int, bool] | None = None,
        both: bool = False,
    ) -> None:
        self.model = model
        self.graph = Graph()
        self.entries: dict[str, Entry] = {}
        self.origin = Origin(model)
        self.opsets = {opset.domain if opset.domain != "ai.onnx" else "": opset.version for opset in model.opset_import}
        self.given = dict(known or {})
        self.whole = whole
        self.hints: dict[Symbol, int] = {}
        self.symbols: dict[str, str] = {}
        self.inferred = inferred(model)
        self.number = -1
        """The node of the model that is being read."""
        self.current: onnx.NodeProto | None = None
        self.needed: list[tuple[str, str]] = []
        self.choices = dict(choices or {})
        """The branch that is taken of a node If of the model whose condition is not known."""
        self.both = both
        self.in_branches: set[int] = set()
        """With `both`, the nodes of our graph that are computed only where a branch is taken."""
        self.undecided: list[int] = []
        """The nodes If of the model that were kept, as their conditions are not known."""
        self.failing: list[int] = []
        """The nodes of the model that fail wherever they run, or something in them does."""

    def read(self) -> Graph:
        """The graph of the model.

        Raises: OnnxError when a node is broken.
        """
        self.sources()
        for number, node in enumerate(self.model.graph.node):
            for name in node.output:
                if name:
                    self.origin.producers[name] = number
            self.node(number, node)
        outputs = [output.name for output in self.model.graph.output]
        self.graph.outputs = [self.value(name) for name in outputs]
        self.origin.sizes = {name: entry.sizes for name, entry in self.entries.items() if entry.sizes is not None}
        self.origin.tensors = {name: entry.tensor for name, entry in self.entries.items() if entry.tensor is not None}
        self.origin.symbols = dict(self.symbols)
        self.graph.metadata["onnx"] = self.origin
        if self.in_branches:
            self.graph.metadata["in branches"] = frozenset(self.in_branches)
        self.graph.metadata["interface"] = self.interface(len(outputs))
        return self.graph

    def interface(self, outputs: int) -> Interface:
        names = tuple(self.graph.operator(node).attributes["name"] for node in self.graph.inputs)
        returned: Any = 0 if outputs == 1 else tuple(range(outputs))
        return Interface(
            names,
            tuple(Position(index) for index in range(len(names))),
            pytree.tree_structure((tuple(range(len(names))), {})),
            tuple(Position(index) for index in range(outputs)),
            pytree.tree_structure(returned),
            hints=self.hints,
        )

    def sources(self) -> None:
        """The entries of inputs and initialisers."""
        graph = self.model.graph
        for tensor in graph.initializer:
            content = self.given.get(tensor.name)
            self.constant(tensor.name, tensor_of(tensor) if content is None else content)
        for sparse in graph.sparse_initializer:
            self.constant(sparse.values.name, dense(sparse))
        for info in graph.input:
            if info.name in self.given and info.name not in self.entries:
                self.constant(info.name, self.given[info.name])
                self.origin.bound[info.name] = self.given[info.name]
            elif info.name not in self.entries:
                kind = type_of(info.type, self.fresh_size(info.name), self.named_size)
                self.entries[info.name] = Entry(kind, self.graph.input(info.name, kind))
                self.hint(kind)

    def constant(self, name: str, content: Any) -> None:
        if isinstance(content, numpy.ndarray):
            self.entries[name] = Entry(TensorType(tuple(content.shape), numpy_dtype(content)), tensor=content)
            return
        kind = TensorType(tuple(content.shape), str(content.dtype).removeprefix("torch."))
        entry = self.entries[name] = Entry(kind, tensor=content)
        if content.numel() <= MOST_KNOWN and not content.is_floating_point() and not content.is_complex():
            entry.sizes = content.numpy()

    def fresh_size(self, name: str) -> Callable[[int], Dim]:
        def fresh(axis: int) -> Dim:
            return self.named_size(f"{clean(name)}_{axis}")

        return fresh

    def named_size(self, name: str) -> Dim:
        word = clean(name)
        while self.symbols.setdefault(word, name) != name:
            word += "_"
        return size_symbol(word)

    def data_size(self, name: str) -> Dim:
        """The symbol of a size that depends on data."""
        found = self.named_size(name)
        assert isinstance(found, Expression)
        for one in found.symbols:
            self.hints.setdefault(one, 64)
        return found

    def hint(self, kind: TensorType) -> None:
        """What sizes of an input are taken to be where somebody needs numbers."""
        for axis, dim in enumerate(kind.shape):
            if isinstance(dim, Expression):
                usual = 1 if axis == 0 else 320 if len(kind.shape) == 4 else 128
                for symbol in dim.symbols:
                    self.hints.setdefault(symbol, usual)

    def value(self, name: str) -> Value:
        """The value of a name, made when it is first read."""
        entry = self.entries.get(name)
        if entry is None:
            raise OnnxError(f"{shortened(name)}: nothing computes a value of this name")
        if entry.value is None:
            if entry.tensor is not None:
                if isinstance(entry.tensor, numpy.ndarray):
                    entry.value = self.graph.add(foreign_constant(entry.tensor, entry.type, self.opsets))
                    return entry.value
                free = name
                while free in self.graph.constants and self.graph.constants[free] is not entry.tensor:
                    free += "_"
                entry.value = self.graph.constant(free, entry.tensor)
            else:
                entry.value = self.spelled(name, entry)
        return entry.value

    def spelled(self, name: str, entry: Entry) -> Value:
        """A tensor of sizes as nodes that compute it, in a group of their own."""
        mark = self.graph.mark()
        array = numpy.asarray(entry.sizes)
        if not any(isinstance(element, Expression) for element in array.reshape(-1)):
            entry.tensor = torch.from_numpy(numpy.array(array.astype(entry.type.dtype)))
            return self.graph.constant(name, entry.tensor)
        dtype = entry.type.dtype
        parts = [self.graph.add(Full((), dtype), self.graph.scalar(_number(element))) for element in array.reshape(-1)]
        if array.ndim == 0:
            value = parts[0]
        else:
            value = self.graph.add(Stack(-1), *parts)
            if array.ndim != 1:
                value = self.graph.add(Reshape(tuple(array.shape)), value)
        if name in self.origin.producers:
            self.group(self.origin.producers[name], mark, [], [(name, value)])
        return value

    def inner(self, proto: onnx.NodeProto, foreign: bool = False) -> None:
        """Read a node of the function or the branch that stands for another one; with `foreign`, what ours do not cover is kept as it is.

        Raises: Unsupported where our operators do not cover it.
        """
        if self.is_known(-1, proto):
            return
        mark = self.graph.mark()
        try:
            values = self.defined(proto)
        except NOT_COVERED as reason:
            if not foreign:
                raise
            self.undo(mark)
            if fails(proto, reason):
                self.failing.append(self.number)
            self.needed.append((proto.op_type, shortened(reason)))
            values = self.foreign(self.number, proto)
        for name, value in zip(proto.output, values, strict=False):
            if name and value is not None:
                self.entries[name] = Entry(self.graph.type(value), value)

    def node(self, number: int, proto: onnx.NodeProto) -> None:
        """Read one node: its outputs' entries."""
        self.number, self.current = number, proto
        if proto.domain in ("", "ai.onnx") and not is_declared(proto.op_type, "", self.opsets):
            raise OnnxError(f"{self.where(number)}: ONNX has no such operator in opset {self.opsets.get('', 0)}")
        if proto.domain not in ("", "ai.onnx") and proto.domain not in self.opsets:
            raise OnnxError(f"{self.where(number)}: the model imports no operators of {shortened(proto.domain, 60)!r}")
        for name in (*proto.input, *captured_names(proto)):
            if name and name not in self.entries:
                raise OnnxError(f"{self.where(number)}: reads {shortened(name)!r}, which nothing computes")
        if self.is_known(number, proto):
            return
        mark = self.graph.mark()
        try:
            values = self.defined(proto)
        except NOT_COVERED as reason:
            self.undo(mark)
            if fails(proto, reason):
                self.failing.append(number)
                raise OnnxError(f"{self.where(number)}: {shortened(reason)}") from reason
            self.needed.append((proto.op_type, shortened(reason)))
            values = self.foreign(number, proto)
        except (ValueError, TypeError, LookupError, ArithmeticError, RuntimeError) as error:
            if isinstance(error, OnnxError):
                raise
            raise OnnxError(f"{self.where(number)}: is broken: {type(error).__name__}: {shortened(error)}") from error
        self.enter(number, proto, mark, values)

    def is_known(self, number: int, proto: onnx.NodeProto) -> bool:
        """Compute the outputs at once when they are functions of sizes alone, or constants of the node's own."""
        if proto.domain not in ("", "ai.onnx"):
            return False
        if proto.op_type == "Constant":
            self.constant(proto.output[0], constant_of(proto))
            return True
        rule = KNOWN.get(proto.op_type)
        if rule is None:
            return False
        inputs = [None if not name else self.entries[name] for name in proto.input]
        try:
            results = rule(proto, self.opsets[""], inputs)
        except NotKnown:
            return False
        if any(array.size > MOST_KNOWN for array in results):
            return False
        for name, array in zip(proto.output, results, strict=False):
            inferred = self.inferred_dtype(name)
            if array.dtype.kind in "iu" and inferred is not None and kind_of(inferred) == "int":
                array = array.astype(inferred)  # sizes were objects on the way, without a dtype
            dtype = array.dtype.name if array.dtype != object else inferred or "int64"
            self.entries[name] = Entry(TensorType(tuple(array.shape), dtype), sizes=array)
        return True

    def inferred_dtype(self, name: str) -> str | None:
        info = self.inferred.get(name)
        if info is None or info.WhichOneof("value") != "tensor_type" or not info.tensor_type.elem_type:
            return None
        return dtype_of(info.tensor_type.elem_type)

    def defined(self, proto: onnx.NodeProto) -> list[Value | None]:
        """The outputs of a node by our own operators.

        Raises: Unsupported, TraceError, ShapeError where they do not cover it.
        """
        if proto.op_type in self.whole and proto.domain in ("", "ai.onnx"):
            raise Unsupported(f"{proto.op_type}: is to be kept whole")
        read = reader_of(proto)
        node = Node(self, proto)
        with collecting_obligations(), collecting_units() as units, collecting_narrowings() as narrowed:
            result = read(node) if read is not None else node.expanded()
        if units:
            raise Unsupported(f"sizes {', '.join(map(str, units))} may broadcast or not")
        if narrowed:
            raise Unsupported("sizes may be clamped or not")
        parts = result if isinstance(result, (tuple, list)) else [result]
        values = [as_value(self.graph, part) for part in parts]
        for name, value in zip(proto.output, values, strict=False):
            if value is not None and name:
                self.agree(name, self.graph.type(value))
        return values

    def agree(self, name: str, kind: TensorType) -> None:
        """Our type of a value is the one that ONNX infers, as far as that goes."""
        if kind.dtype == UNTYPED:
            return
        dtype = self.inferred_dtype(name)
        if dtype is not None and dtype != kind.dtype:
            raise Unsupported(f"{name}: would be of {kind.dtype}, and ONNX has it of {dtype}")
        info = self.inferred.get(name)
        if info is not None and info.tensor_type.HasField("shape"):
            dims = info.tensor_type.shape.dim
            known = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
            same = len(known) == len(kind.shape) and all(
                size is None or not isinstance(own, int) or own == size for size, own in zip(known, kind.shape, strict=True)
            )
            if not same:
                raise Unsupported(f"{name}: would be {kind}, and ONNX has it of sizes {known}")

    def foreign(self, number: int, proto: onnx.NodeProto) -> list[Value | None]:
        """The outputs of a node that is kept word for word."""
        names = [*proto.input, *captured_names(proto)]
        try:
            operands = [self.value(name) if name else None for name in names]
        except Unsupported as reason:
            raise OnnxError(f"{self.where(number)}: {reason}") from reason
        if lacks_axes(self, proto):
            self.failing.append(number)
        types = foreign_types(self, proto)
        node = self.graph.add(make_foreign(proto, self.opsets, types), *operands)
        values: list[Value | None] = [Value(node.node, output) for output in range(len(types))]
        return values

    def enter(self, number: int, proto: onnx.NodeProto, mark: int, values: Sequence[Value | None]) -> None:
        own: list[tuple[str, Value]] = []
        for name, value in zip(proto.output, values, strict=False):
            if not name or value is None:
                continue
            marked = NODE_KEY in self.graph.network.nodes[value.node]
            if value.node < mark or marked or isinstance(self.graph.operator(value.node), Constant):
                value = self.graph.add(Identity(), value)
            own.append((name, value))
            self.entries[name] = Entry(self.graph.type(value), value)
            elements = elements_of(self.graph.type(value))
            if elements > MOST_ELEMENTS:
                raise OnnxError(f"{self.where(number)}: {shortened(name)!r} must have at most {MOST_ELEMENTS} elements, got {elements}")
        found = {name for name, _ in own}
        missing = [name for name in proto.output if name and name not in found]
        if missing:
            raise OnnxError(f"{self.where(number)}: has no output {shortened(missing[0])!r}")
        self.group(number, mark, [*proto.input, *captured_names(proto)], own)

    def group(self, number: int, mark: int, inputs: Sequence[str], outputs: list[tuple[str, Value]]) -> None:
        network = self.graph.network
        nodes = [
            node
            for node in range(mark, self.graph.mark())
            if node in network and NODE_KEY not in network.nodes[node] and not isinstance(self.graph.operator(node), (Constant, Scalar))
        ]
        names = {entry.value: name for name in inputs if name and (entry := self.entries[name]).value is not None}
        self.origin.groups[number] = mark_group(self.graph, number, nodes, names, outputs)

    def undo(self, mark: int) -> None:
        self.graph.undo_to(mark)
        for entry in self.entries.values():
            if entry.value is not None and entry.value.node >= mark:
                entry.value = None

    def enter_value(self, name: str, value: Value) -> None:
        """A name inside a node for a value that is there already; one of known elements stays known."""
        operator = self.graph.operator(value.node)
        if isinstance(operator, Constant):
            self.constant(name, self.graph.constants[operator.name])
            self.entries[name].value = value
        else:
            self.entries[name] = Entry(self.graph.type(value), value)

    def where(self, number: int) -> str:
        """How a message names a node."""
        node = self.model.graph.node[number]
        name = f" {shortened(node.name, 80)!r}" if node.name else ""
        return f"node {number}{name} ({shortened(node.op_type, 60)})"


def fails(proto: onnx.NodeProto, reason: Exception) -> bool:
    """The node cannot run on its inputs, by what our operators say of it."""
    return isinstance(reason, ShapeError) and proto.op_type in CHECKED and proto.domain in ("", "ai.onnx")


def elements_of(kind: TensorType) -> int:
    """The number of elements of a tensor, sizes that are no numbers left out."""
    return math.prod(dim for dim in kind.shape if isinstance(dim, int))


def _number(element: Any) -> Any:
    return element if isinstance(element, Expression) else element.item() if isinstance(element, numpy.generic) else element


__all__ = ["DTYPES", "OPERATORS", "UNTYPED", "Entry", "Reader"]
