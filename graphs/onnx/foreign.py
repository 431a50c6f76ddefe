"""Nodes that no operator of ours stands for, as `Foreign` operators with the types ONNX infers for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy
import onnx
from onnx import defs, numpy_helper, shape_inference

from graphs.onnx.bounds import at_least
from graphs.onnx.errors import OnnxError, shortened
from graphs.onnx.subgraphs import all_nodes, captured_names
from graphs.onnx.types import ELEMENT_TYPES, type_of
from operators.arrays import to_numpy
from operators.expressions import Dim, Expression
from operators.foreign import UNTYPED, Foreign, text_of
from operators.operator import TensorType, is_known_equal

if TYPE_CHECKING:
    from graphs.onnx.reader import Reader

RANDOM = frozenset(["RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"])


def make_foreign(proto: onnx.NodeProto, opsets: Mapping[str, int], types: tuple[TensorType, ...]) -> Foreign:
    """The operator that keeps a node word for word; names of its inputs and outputs are replaced by their positions."""
    node = onnx.NodeProto()
    node.CopyFrom(proto)
    node.ClearField("name")
    node.ClearField("doc_string")
    node.ClearField("metadata_props")
    for position, name in enumerate(node.input):
        node.input[position] = f"operand_{position}" if name else ""
    for position, name in enumerate(node.output):
        node.output[position] = f"result_{position}" if name else ""
    inner = list(all_nodes(proto))
    domains = {one.domain if one.domain != "ai.onnx" else "" for one in inner}
    own = all(is_declared(one.op_type, one.domain, opsets) for one in inner)
    name = proto.op_type if proto.domain in ("", "ai.onnx") else f"{proto.domain}.{proto.op_type}"
    return Foreign(
        name,
        text_of(node),
        tuple(captured_names(proto)),
        tuple(sorted((domain, opsets.get(domain, 1)) for domain in domains | {""} if domain in opsets or domain)),
        types,
        draws=any(one.op_type in RANDOM for one in inner),
        known=own,
    )


def foreign_constant(array: numpy.ndarray, kind: TensorType, opsets: Mapping[str, int]) -> Foreign:
    """A tensor of a dtype that torch does not have, as a `Constant` node."""
    node = onnx.helper.make_node("Constant", [], ["constant"], value=numpy_helper.from_array(array, "value"))
    return make_foreign(node, opsets, (kind,))


def is_declared(name: str, domain: str, opsets: Mapping[str, int]) -> bool:
    """The operator is one of ONNX's own."""
    domain = "" if domain == "ai.onnx" else domain
    try:
        defs.get_schema(name, opsets.get(domain, 1), domain)
    except defs.SchemaError:
        return False
    return True


def foreign_types(reader: Reader, proto: onnx.NodeProto) -> tuple[TensorType, ...]:
    """The types of a node's outputs, inferred from the types that its inputs have in our graph."""
    if proto.op_type in BROADCASTING and proto.domain in ("", "ai.onnx"):
        kind = _broadcast(reader, proto)
        if kind is not None:
            return (kind,)
    names: dict[str, Dim] = {}
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for name in proto.input:
        if not name:
            continue
        entry = reader.entries[name]
        if entry.type.dtype in ELEMENT_TYPES:
            types[name] = onnx.helper.make_tensor_type_proto(ELEMENT_TYPES[entry.type.dtype], _encoded(entry.type, names))
        elif name in reader.inferred:
            types[name] = reader.inferred[name]
        content = _content(entry)
        if content is not None:
            data[name] = numpy_helper.from_array(content, name)
    found: dict[str, onnx.TypeProto] = {}
    every = all(name in types for name in proto.input if name)
    if every and not captured_names(proto) and is_declared(proto.op_type, proto.domain, reader.opsets):
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        schema = defs.get_schema(proto.op_type, reader.opsets[domain], domain)
        opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in reader.opsets.items()]
        try:
            found = shape_inference.infer_node_outputs(schema, proto, types, data, opset_imports=opsets)
        except onnx.checker.ValidationError as error:
            raise OnnxError(f"{proto.op_type} {shortened(proto.name or proto.output[0])}: is not valid: {shortened(error)}") from error
        except (shape_inference.InferenceError, RuntimeError):
            found = {}
    result = []
    for name in proto.output:
        inferred = found.get(name, reader.inferred.get(name))
        result.append(_decoded(reader, name, inferred, names) if inferred is not None else TensorType((), UNTYPED))
    return tuple(result)


RECURRENT = frozenset(["GRU", "LSTM", "RNN"])


def lacks_axes(reader: Reader, proto: onnx.NodeProto) -> bool:
    """A recurrence whose sequence is known not to be [steps, batch, features], which no runtime takes."""
    if proto.op_type not in RECURRENT or proto.domain not in ("", "ai.onnx"):
        return False
    kind = reader.entries[proto.input[0]].type
    return kind.dtype != UNTYPED and kind.ndim != 3


BROADCASTING = frozenset(["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Where", "And", "Or", "Equal", "Less", "Greater", "PRelu"])


def _broadcast(reader: Reader, proto: onnx.NodeProto) -> TensorType | None:
    """The type of a node whose operands broadcast: where sizes are not known to be equal or 1, the larger."""
    types = [reader.entries[name].type for name in proto.input]
    dtype = reader.inferred_dtype(proto.output[0])
    if dtype is None or any(kind.dtype == UNTYPED for kind in types):
        return None
    rank = max(kind.ndim for kind in types)
    shape: list[Dim] = []
    for axis in range(-rank, 0):
        size: Dim = 1
        for kind in types:
            if kind.ndim >= -axis and not is_known_equal(kind.shape[axis], 1):
                other = kind.shape[axis]
                size = other if is_known_equal(size, 1) else size if is_known_equal(size, other) else at_least(size, other)
        shape.append(size)
    return TensorType(tuple(shape), dtype)


def _content(entry: Any) -> Any:
    if entry.sizes is not None:
        array = numpy.asarray(entry.sizes)
        return None if array.dtype == object else array
    if entry.tensor is not None and not isinstance(entry.tensor, numpy.ndarray) and entry.tensor.numel() <= 64:
        return to_numpy(entry.tensor)
    return None


def _encoded(kind: TensorType, names: dict[str, Dim]) -> list[int | str]:
    shape: list[int | str] = []
    for dim in kind.shape:
        if isinstance(dim, Expression):
            names[f"known: {dim}"] = dim
        shape.append(f"known: {dim}" if isinstance(dim, Expression) else dim)
    return shape


def _decoded(reader: Reader, name: str, proto: onnx.TypeProto, names: Mapping[str, Dim]) -> TensorType:
    def named(text: str) -> Dim:
        return names[text] if text in names else reader.data_size(f"{name}.{text}")

    return type_of(proto, lambda axis: reader.data_size(f"of {name} {axis}"), named)
