"""Padding before convolutions and pools becomes theirs, where it adds what they would."""

from __future__ import annotations

import numpy
import pytest

onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from graphs.onnx.joining import with_joined_padding  # noqa: E402

WEIGHT = numpy.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype("float32")


def model_of(nodes, pads, value=None, outputs=("y",)):
    info = helper.make_tensor_value_info
    held = [numpy_helper.from_array(WEIGHT, "w"), numpy_helper.from_array(numpy.array(pads, "int64"), "pads")]
    if value is not None:
        held.append(numpy_helper.from_array(numpy.array(value, "float32"), "value"))
    x = info("x", TensorProto.FLOAT, [2, 3, 8, 9])
    graph = helper.make_graph(nodes, "g", [x], [info(name, TensorProto.FLOAT, None) for name in outputs], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def pad(mode="constant", value=False):
    return helper.make_node("Pad", ["x", "pads", *(["value"] if value else [])], ["p"], mode=mode)


CONVOLUTION = helper.make_node("Conv", ["p", "w"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 0, 0, 1])
POOL = helper.make_node("MaxPool", ["p"], ["y"], kernel_shape=[3, 3], strides=[2, 2])


def check(model):
    told = with_joined_padding(model)
    assert "Pad" not in [node.op_type for node in told.graph.node]
    x = numpy.random.default_rng(1).standard_normal((2, 3, 8, 9)).astype("float32")
    before, after = (ReferenceEvaluator(one).run(None, {"x": x}) for one in (model, told))
    for left, right in zip(before, after, strict=True):
        numpy.testing.assert_array_equal(left, right)


def test_zeros_before_a_convolution():
    check(model_of([pad(), CONVOLUTION], [0, 0, 0, 1, 0, 0, 1, 1]))


def test_lowest_values_before_a_pool():
    check(model_of([pad(value=True), POOL], [0, 0, 0, 1, 0, 0, 1, 1], -numpy.inf))


@pytest.mark.parametrize(
    "model",
    [
        model_of([pad("edge"), CONVOLUTION], [0, 0, 0, 1, 0, 0, 1, 1]),
        model_of([pad(value=True), CONVOLUTION], [0, 0, 0, 1, 0, 0, 1, 1], 1.0),
        model_of([pad(), POOL], [0, 0, 0, 1, 0, 0, 1, 1]),
        model_of([pad(), CONVOLUTION], [1, 0, 0, 1, 0, 0, 1, 1]),
        model_of([pad(), CONVOLUTION], [0, 0, -1, 1, 0, 0, 1, 1]),
        model_of([pad(value=True), POOL], [0, 0, 0, 3, 0, 0, 1, 1], -numpy.inf),
        model_of([pad(), CONVOLUTION, helper.make_node("Relu", ["p"], ["z"])], [0, 0, 0, 1, 0, 0, 1, 1], outputs=("y", "z")),
        model_of([pad(), CONVOLUTION], [0, 0, 0, 1, 0, 0, 1, 1], outputs=("y", "p")),
    ],
    ids=["edges", "ones", "zeros in a pool", "samples", "cut off", "as wide as the window", "read elsewhere", "an output"],
)
def test_other_padding_stays(model):
    assert with_joined_padding(model) == model
