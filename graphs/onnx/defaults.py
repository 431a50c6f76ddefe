"""What ONNX takes for attributes that a node leaves out."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import defs


def defaults(proto: onnx.NodeProto, opsets: Mapping[str, int]) -> dict[str, onnx.AttributeProto]:
    """What ONNX takes for attributes that a node leaves out."""
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    try:
        schema = defs.get_schema(proto.op_type, opsets.get(domain, 1), domain)
    except defs.SchemaError:
        return {}
    values = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    return {name: value for name, value in values.items() if value.type != onnx.AttributeProto.UNDEFINED}
