"""Operators that ONNX itself defines as functions of simpler ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx
from onnx import defs

from graphs.onnx.defaults import defaults
from graphs.onnx.subgraphs import all_nodes, needed_nodes, rename_captured, subgraphs
from graphs.onnx.types import ELEMENT_TYPES, tensor_of
from graphs.trace import Proxy
from operators.expressions import Expression
from operators.operator import Unsupported

if TYPE_CHECKING:
    from graphs.onnx.reading.registry import Node


def expand(node: Node) -> Any:
    """The outputs of the operator's function body, read node by node.

    Raises: Unsupported when ONNX defines no function for it.
    """
    function = body_of(node)
    if function is None:
        raise Unsupported(f"{node.name}: no operator stands for it, and ONNX does not define it as a function")
    prefix = f"{node.proto.name or node.name}/{len(node.reader.entries)}/"
    names = dict(zip(function.input, node.proto.input, strict=False))
    names |= {formal: "" for formal in function.input if formal not in names}
    given = {attribute.name: attribute for attribute in node.proto.attribute}
    given = {attribute.name: attribute for attribute in function.attribute_proto} | defaults(node.proto, node.reader.opsets) | given
    return _read_all(node, function.node, list(function.output[: node.results]), names, prefix, given)


def inline(node: Node, graph: onnx.GraphProto, values: Sequence[Any], foreign: bool = False) -> Any:
    """The outputs of a subgraph of the node, its inputs being these traced values.

    foreign: nodes that our operators do not cover are kept as they are
    """
    reader = node.reader
    prefix = f"{node.proto.name or node.name}/{len(reader.entries)}/"
    names: dict[str, str] = {}
    for tensor in graph.initializer:
        names[tensor.name] = prefix + tensor.name
        reader.constant(names[tensor.name], tensor_of(tensor))
    for info, value in zip(graph.input, values, strict=True):
        names[info.name] = prefix + info.name
        reader.enter_value(names[info.name], value.value)
    needed = [graph.node[number] for number in sorted(needed_nodes(graph))]
    return _read_all(node, needed, [output.name for output in graph.output], names, prefix, {}, foreign)


def _read_all(
    node: Node,
    nodes: Iterable[onnx.NodeProto],
    outputs: Sequence[str],
    names: dict[str, str],
    prefix: str,
    given: Mapping[str, onnx.AttributeProto],
    foreign: bool = False,
) -> Any:
    """Read nodes whose names are known under others; `given` are the attributes that theirs may refer to."""
    reader = node.reader
    for inner in nodes:
        one = onnx.NodeProto()
        one.CopyFrom(inner)
        _fill(one, inner, given)
        for graph in subgraphs(one):
            for part in graph.node:
                for deep in all_nodes(part):
                    _fill(deep, deep, given)
        one.input[:] = [names.get(name, name) if name else "" for name in inner.input]
        one.output[:] = [prefix + name if name else "" for name in inner.output]
        rename_captured(one, names)
        for name in inner.output:
            names[name] = prefix + name
        reader.inner(one, foreign)
    return tuple(
        None if name not in names and name not in reader.entries else Proxy(reader.graph, reader.value(names.get(name, name)))
        for name in outputs
    )


def _fill(target: onnx.NodeProto, source: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> None:
    """Put the attributes of the calling node where a node of the function refers to them."""
    filled = []
    for attribute in source.attribute:
        copy = onnx.AttributeProto()
        if not attribute.ref_attr_name:
            copy.CopyFrom(attribute)
        elif attribute.ref_attr_name in given:
            copy.CopyFrom(given[attribute.ref_attr_name])
            copy.name = attribute.name
        else:
            continue
        filled.append(copy)
    del target.attribute[:]
    target.attribute.extend(filled)


def body_of(node: Node) -> onnx.FunctionProto | None:
    """ONNX's definition of a node's operator as a function, for the types of its inputs."""
    proto = node.proto
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    version = node.reader.opsets.get(domain, 1)
    try:
        schema: Any = defs.get_schema(proto.op_type, version, domain)
    except defs.SchemaError:
        return None
    content: bytes | None = None
    if schema.has_context_dependent_function:
        types = [_type(node, position) for position in range(node.count)]
        versions = [one for one in schema.context_dependent_function_opset_versions if one <= version]
        if versions:
            content = schema.get_context_dependent_function_with_opset_version(
                max(versions), proto.SerializeToString(), [kind.SerializeToString() for kind in types]
            )
    elif schema.has_function:
        versions = [one for one in schema.function_opset_versions if one <= version]
        if versions:
            content = schema.get_function_with_opset_version(max(versions))
    if not content:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(content)
    return function if function.node else None


def _type(node: Node, position: int) -> onnx.TypeProto:
    if not node.has(position):
        return onnx.TypeProto()
    kind = node.type(position)
    if kind.dtype not in ELEMENT_TYPES:
        raise Unsupported(f"{node.name}: input {position} is {kind.dtype}")
    dims = [str(dim) if isinstance(dim, Expression) else dim for dim in kind.shape]
    return onnx.helper.make_tensor_type_proto(ELEMENT_TYPES[kind.dtype], dims)
