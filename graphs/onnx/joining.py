"""Padding as attributes of the convolutions and pools behind it: ONNX's own may be unequal at both ends, ours is a `Pad` before them."""

from __future__ import annotations

import math
from collections import Counter

import numpy
import onnx
from onnx import helper, numpy_helper

from graphs.onnx.subgraphs import captured_names

NEUTRAL = {"Conv": 0.0, "MaxPool": -math.inf}
"""What each operator pads with itself."""


def with_joined_padding(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every `Pad` that only a convolution or a max pool reads, and that adds what it would, as its attribute."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    reads = Counter(name for node in graph.node for name in (*node.input, *captured_names(node)))
    reads.update(output.name for output in graph.output)
    held = {tensor.name: tensor for tensor in graph.initializer}
    constants = [node for node in graph.node if node.op_type == "Constant"]
    held |= {node.output[0]: one.t for node in constants for one in node.attribute if one.name == "value"}
    pads = {node.output[0]: node for node in graph.node if node.op_type == "Pad" and node.domain in ("", "ai.onnx")}
    gone = []
    for node in graph.node:
        pad = pads.get(node.input[0]) if node.input and node.op_type in NEUTRAL and node.domain in ("", "ai.onnx") else None
        if pad is None or reads[pad.output[0]] != 1:
            continue
        more = _amounts(pad, held, NEUTRAL[node.op_type])
        if more is not None and _add(node, more):
            node.input[0] = pad.input[0]
            gone.append(pad)
    for pad in gone:
        graph.node.remove(pad)
    return result


def _amounts(pad: onnx.NodeProto, held: dict[str, onnx.TensorProto], neutral: float) -> list[int] | None:
    """The amounts before and after each axis of positions; None for other padding."""
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in pad.attribute}
    if attributes.get("mode", b"constant") != b"constant":
        return None
    if "pads" in attributes:
        amounts, value = list(attributes["pads"]), float(attributes.get("value", 0.0))
    else:
        inputs = [*pad.input, "", "", ""][:4]
        if inputs[1] not in held or inputs[3] or (inputs[2] and inputs[2] not in held):
            return None
        amounts = numpy_helper.to_array(held[inputs[1]]).tolist()
        value = float(numpy_helper.to_array(held[inputs[2]]).reshape(-1)[0]) if inputs[2] else 0.0
    rank = len(amounts) // 2
    if value != neutral or min(amounts) < 0 or rank < 3 or any(amounts[axis] or amounts[rank + axis] for axis in (0, 1)):
        return None
    return [*amounts[2:rank], *amounts[rank + 2 :]]


def _add(node: onnx.NodeProto, more: list[int]) -> bool:
    """Add to a node's own padding; False where that follows from other attributes, or would be more than a pool takes."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if "auto_pad" in attributes and attributes["auto_pad"].s not in (b"NOTSET", b""):
        return False
    own = list(attributes["pads"].ints) if "pads" in attributes else [0] * len(more)
    total = [int(amount) for amount in numpy.add(own, more)]
    if node.op_type == "MaxPool":
        kernel = list(attributes["kernel_shape"].ints)
        ceiling = "ceil_mode" in attributes and attributes["ceil_mode"].i
        if ceiling or any(amount >= size for amount, size in zip(total, kernel * 2, strict=True)):
            return False
    if "pads" in attributes:
        node.attribute.remove(attributes["pads"])
    node.attribute.append(helper.make_attribute("pads", total))
    return True


__all__ = ["with_joined_padding"]
