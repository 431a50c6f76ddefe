"""Shapes of intermediate values, declared with one name for one size."""

from __future__ import annotations

import pytest

onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")

from onnx import TensorProto, helper  # noqa: E402

from graphs.onnx.annotation import with_shapes  # noqa: E402


def test_equal_sizes_have_one_name():
    info = helper.make_tensor_value_info
    weights = [
        helper.make_tensor("w", TensorProto.FLOAT, [4, 4, 3, 3], [0.1] * 144),
        helper.make_tensor("v", TensorProto.FLOAT, [4, 4, 1, 1], [0.1] * 16),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "w"], ["b"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["b", "v"], ["c"]),
        helper.make_node("Add", ["a", "c"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    x = info("x", TensorProto.FLOAT, ["batch", 4, "size_0", "width"])
    graph = helper.make_graph(nodes, "g", [x], [info("y", TensorProto.FLOAT, ["batch", 4, None, None])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    told = with_shapes(model)
    onnx.checker.check_model(told, full_check=True)
    dims = {one.name: [dim.dim_param or dim.dim_value for dim in one.type.tensor_type.shape.dim] for one in told.graph.value_info}
    assert dims["a"] == dims["b"] == dims["c"] == dims["d"]
    assert dims["a"][:2] == ["batch", 4]
    assert not {"size_0", "width", dims["a"][0]} & set(dims["a"][2:])
    assert len(set(dims["a"][2:])) == 2
    assert [node.op_type for node in told.graph.node] == [node.op_type for node in model.graph.node]
    assert not model.graph.value_info
