"""Declaring the shapes of intermediate values, so that a runtime sees which symbolic sizes are one.

ONNX's own inference gives up on most arithmetic of symbolic sizes; a runtime that cannot see that both operands of a sum have one shape
leaves fusions out.
"""

from __future__ import annotations

import onnx

from graphs.onnx import named_values, read
from graphs.onnx.origin import origin_of
from graphs.onnx.types import ELEMENT_TYPES
from operators.expressions import Dim
from operators.foreign import UNTYPED


def with_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the type of every intermediate value declared; a size that is not a number has one name wherever it is the same.

    Raises: OnnxError when the model cannot be read.
    """
    graph = read(model)
    origin = origin_of(graph)
    result = onnx.ModelProto()
    result.CopyFrom(model)
    known = {info.name for info in (*model.graph.input, *model.graph.output, *model.graph.value_info)}
    made = {name for node in model.graph.node for name in node.output if name}
    taken = {dim.dim_param for info in (*model.graph.input, *model.graph.output) for dim in info.type.tensor_type.shape.dim}
    names: dict[Dim, str] = {}

    def named(dim: Dim) -> str | int:
        if isinstance(dim, int):
            return dim
        if dim not in names:
            own = {} if origin is None else origin.symbols
            number = len(names)
            while f"size_{number}" in taken:
                number += 1
            names[dim] = own.get(str(dim)) or f"size_{number}"
            taken.add(names[dim])
        return names[dim]

    for name, value in named_values(graph).items():
        kind = graph.type(value)
        if name in made and name not in known and kind.dtype != UNTYPED and not kind.weak:
            info = onnx.helper.make_tensor_value_info(name, ELEMENT_TYPES[kind.dtype], list(map(named, kind.shape)))
            result.graph.value_info.append(info)
    return result


__all__ = ["with_shapes"]
