"""Types of a model's values as the `onnx` package infers them; declared ones only have to agree, and stand where nothing can be inferred:
behind an operator that ONNX does not know."""

from __future__ import annotations

import onnx
from onnx import shape_inference

from graphs.onnx.defaults import defaults
from graphs.onnx.errors import OnnxError, shortened
from graphs.onnx.foreign import is_declared
from graphs.onnx.subgraphs import all_graphs

SMALL = 1 << 10
"""Initialisers of at most so many bytes may decide shapes; the content of larger ones is not looked at."""


def inferred(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """The type of every value of the main graph, as far as it can be inferred.

    Raises: OnnxError when types cannot be as declared, or a node does not take its inputs.
    """
    skeleton = without_weights(model)
    try:
        propagates = _taken(skeleton)
        opsets = {part.domain: part.version for part in model.opset_import}
        unknown = {name for node in model.graph.node if not is_declared(node.op_type, node.domain, opsets) for name in node.output}
        declared = [info for info in skeleton.graph.value_info if info.name in unknown]
        del skeleton.graph.value_info[:]
        skeleton.graph.value_info.extend(declared)
        for output in skeleton.graph.output:
            if output.type.HasField("tensor_type") and output.name not in unknown:
                output.type.tensor_type.ClearField("shape")
        graph = shape_inference.infer_shapes(skeleton, data_prop=propagates).graph
    except shape_inference.InferenceError as error:
        raise OnnxError(f"types do not fit: {_reason(error)}") from error
    except (ValueError, RuntimeError) as error:
        raise OnnxError(f"types cannot be inferred: {_reason(error)}") from error
    infos = [*graph.input, *graph.value_info, *graph.output]
    return {info.name: info.type for info in infos if info.HasField("type")}


def _taken(skeleton: onnx.ModelProto) -> bool:
    """Whether every node takes its inputs with values of shapes propagated; shapes that inner graphs declare wrongly are taken away.

    The package propagates values as shapes' that are none ([455] + [640, 1]), and runtimes go by what an inner graph computes.
    Raises: InferenceError, the first of them, where neither helps.
    """
    refused = None
    for propagates, inner in ((True, True), (False, True), (True, False), (False, False)):
        if not inner:
            for graph in all_graphs(skeleton.graph):
                for output in graph.output if graph is not skeleton.graph else ():
                    if output.type.HasField("tensor_type"):
                        output.type.tensor_type.ClearField("shape")
        try:
            shape_inference.infer_shapes(skeleton, check_type=True, strict_mode=True, data_prop=propagates)
        except shape_inference.InferenceError as error:
            refused = refused or error
        else:
            return propagates
    assert refused is not None
    raise refused


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with large initialisers turned into inputs, so that it is small."""
    result = onnx.ModelProto()
    for part in model.opset_import:
        result.opset_import.add().CopyFrom(part)
    result.ir_version = max(model.ir_version, 4)
    graph = result.graph
    graph.name = "skeleton"
    graph.node.extend(model.graph.node)
    # Operators that are functions are inferred through their bodies, which read attributes whether they are given or not.
    opsets = {part.domain.removeprefix("ai.onnx") if part.domain == "ai.onnx" else part.domain: part.version for part in model.opset_import}
    for node in graph.node:
        given = {attribute.name for attribute in node.attribute}
        node.attribute.extend(value for name, value in defaults(node, opsets).items() if name not in given)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    initialised = {tensor.name for tensor in model.graph.initializer}
    graph.input.extend(info for info in model.graph.input if info.name not in initialised)
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) <= SMALL and tensor.ByteSize() <= SMALL + 256:
            graph.initializer.add().CopyFrom(tensor)
        else:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    for sparse in model.graph.sparse_initializer:
        graph.input.append(onnx.helper.make_tensor_value_info(sparse.values.name, sparse.values.data_type, list(sparse.dims)))
    return result


def _reason(error: BaseException) -> str:
    text = str(error).replace("[ShapeInferenceError]", "").replace("[TypeInferenceError]", "")
    return shortened(text.removeprefix("Inference error(s): "))
