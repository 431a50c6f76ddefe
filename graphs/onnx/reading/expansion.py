"""Operators that ONNX itself defines as functions of simpler ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx
from onnx import defs

from graphs.onnx.subgraphs import rename_captured, subgraphs
from graphs.onnx.types import ELEMENT_TYPES
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
    reader = node.reader
    prefix = f"{node.proto.name or node.name}/{len(reader.entries)}/"
    names = {formal: actual for formal, actual in zip(function.input, node.proto.input, strict=False)}
    names |= {formal: "" for formal in function.input if formal not in names}
    given = {attribute.name: attribute for attribute in node.proto.attribute}
    given = {attribute.name: attribute for attribute in function.attribute_proto} | given
    for inner in function.node:
        one = onnx.NodeProto()
        one.CopyFrom(inner)
        del one.attribute[:]
        for attribute in inner.attribute:
            if not attribute.ref_attr_name:
                one.attribute.add().CopyFrom(attribute)
            elif attribute.ref_attr_name in given:
                filled = one.attribute.add()
                filled.CopyFrom(given[attribute.ref_attr_name])
                filled.name = attribute.name
        for graph in subgraphs(one):
            if any(attribute.ref_attr_name for part in graph.node for attribute in part.attribute):
                raise Unsupported(f"{node.name}: its function passes attributes to a subgraph")
        one.input[:] = [names.get(name, prefix + name) if name else "" for name in inner.input]
        one.output[:] = [prefix + name if name else "" for name in inner.output]
        for name in inner.output:
            names[name] = prefix + name
        rename_captured(one, names)
        reader.inner(one)
    return tuple(Proxy(reader.graph, reader.value(names[name])) for name in function.output[: node.results])


def body_of(node: Node) -> onnx.FunctionProto | None:
    """ONNX's definition of a node's operator as a function, for the types of its inputs."""
    proto = node.proto
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    version = node.reader.opsets.get(domain, 1)
    try:
        schema = defs.get_schema(proto.op_type, version, domain)
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
