"""Reading ONNX: its own semantics where they differ from PyTorch's, arithmetic on sizes, and what is kept as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from graphs.evaluate import evaluate  # noqa: E402
from graphs.onnx import OnnxError, load, read, save, to_model  # noqa: E402
from operators.expressions import Expression  # noqa: E402
from operators.foreign import Foreign  # noqa: E402
from operators.operator import Effect  # noqa: E402

KINDS = {
    "float32": TensorProto.FLOAT,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "float64": TensorProto.DOUBLE,
    "bool": TensorProto.BOOL,
}


def model(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], held: dict[str, Any] | None = None, opset: int = 17) -> Any:
    """A model; inputs are shapes (of float32) or pairs of shape and dtype, `held` arrays are initialisers."""
    infos = []
    for name, shape in inputs.items():
        dims, kind = shape if isinstance(shape, tuple) else (shape, "float32")
        infos.append(helper.make_tensor_value_info(name, KINDS[kind], dims))
    results = [onnx.ValueInfoProto(name=name, type=onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor(elem_type=1))) for name in outputs]
    tensors = [numpy_helper.from_array(numpy.asarray(array), name) for name, array in (held or {}).items()]
    graph = helper.make_graph(nodes, "g", infos, results, tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    for output in made.graph.output:  # the declared dtype follows from the nodes
        output.type.Clear()
    inferred = onnx.shape_inference.infer_shapes(made, data_prop=True)
    del made.graph.output[:]
    made.graph.output.extend(
        onnx.ValueInfoProto(name=one.name, type=onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor(elem_type=one.type.tensor_type.elem_type)))
        for one in inferred.graph.output
    )
    return made


def node(name: str, inputs: str, outputs: str = "y", **attributes: Any) -> Any:
    return helper.make_node(name, ["" if one == "_" else one for one in inputs.split()], outputs.split(), **attributes)


def run(made: Any, arrays: dict[str, Any]) -> list[Any]:
    """The outputs in onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return list(onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, arrays))


def agrees(made: Any, arrays: dict[str, Any], foreign: int = 0) -> None:
    """Our evaluation gives what onnxruntime gives, and both do so of the model written anew."""
    graph = read(made)
    assert sum(isinstance(graph.operator(one), Foreign) for one in graph) == foreign
    expected = run(made, arrays)
    found = evaluate(graph, [torch.from_numpy(arrays[graph.operator(one).attributes["name"]]) for one in graph.inputs])
    check(found, expected)
    graph.metadata.pop("onnx")
    anew = to_model(graph, opset=made.opset_import[0].version)
    check(run(anew, arrays), expected)
    again = read(anew)
    check(evaluate(again, [torch.from_numpy(arrays[again.operator(one).attributes["name"]]) for one in again.inputs]), expected)


def check(found: list[Any], expected: list[Any]) -> None:
    for one, wanted in zip(found, expected, strict=True):
        array = one.numpy() if isinstance(one, torch.Tensor) else numpy.asarray(one)
        assert array.dtype == wanted.dtype and array.shape == wanted.shape
        numpy.testing.assert_allclose(array, wanted, rtol=1e-4, atol=1e-5)


def floats(*shape: int) -> Any:
    return numpy.random.default_rng(sum(shape)).standard_normal(shape).astype(numpy.float32)


@pytest.mark.parametrize("way", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize(("size", "stride"), [(7, 2), (8, 3), (5, 1)])
def test_convolutions_pad_themselves(way: str, size: int, stride: int) -> None:
    made = model([node("Conv", "x w", auto_pad=way, strides=[stride, 1])], {"x": [2, 3, size, size]}, ["y"], {"w": floats(4, 3, 2, 3)})
    agrees(made, {"x": floats(2, 3, size, size)})


def test_padding_may_be_unequal_at_both_ends() -> None:
    made = model([node("Conv", "x w", pads=[0, 1, 2, 3])], {"x": [1, 3, 6, 5]}, ["y"], {"w": floats(4, 3, 3, 3)})
    agrees(made, {"x": floats(1, 3, 6, 5)})


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("ceil", [0, 1])
def test_average_pools_count_what_onnx_counts(include: int, ceil: int) -> None:
    settings = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": include, "ceil_mode": ceil}
    agrees(model([node("AveragePool", "x", **settings)], {"x": [1, 2, 6, 7]}, ["y"], opset=19), {"x": floats(1, 2, 6, 7)})


def test_reshape_keeps_the_size_of_an_axis_at_0_and_takes_the_rest_at_minus_1() -> None:
    agrees(model([node("Reshape", "x s")], {"x": [2, 3, 4]}, ["y"], {"s": [0, -1]}), {"x": floats(2, 3, 4)})
    agrees(model([node("Reshape", "x s", allowzero=1)], {"x": [0, 3]}, ["y"], {"s": [3, 0]}), {"x": floats(0, 3)})


def test_where_the_ends_of_a_clip_cross_the_upper_counts() -> None:
    made = model([node("Clip", "x low high")], {"x": [5]}, ["y"], {"low": numpy.float32(2), "high": numpy.float32(-1)})
    expected = numpy.full(5, -1, numpy.float32)
    found = evaluate(read(made), [torch.from_numpy(floats(5))])
    assert numpy.array_equal(found[0].numpy(), expected)


@pytest.mark.parametrize("settings", [{}, {"alpha": 0.5}, {"beta": 2.0}, {"transA": 1, "transB": 1, "alpha": 1.5, "beta": 0.25}])
@pytest.mark.parametrize("shape", [(4,), (1, 4), (3, 1), ()])
def test_gemm_scales_and_broadcasts(settings: dict[str, Any], shape: tuple[int, ...]) -> None:
    flipped = settings.get("transA", 0)
    a, b = ((2, 3), (4, 2)) if flipped else ((3, 2), (2, 4))
    made = model([node("Gemm", "a b c", **settings)], {"a": list(a)}, ["y"], {"b": floats(*b), "c": floats(*shape)})
    agrees(made, {"a": floats(*a)})


def test_integers_are_divided_towards_zero_and_their_remainder_follows_the_divisor() -> None:
    x, by = numpy.array([7, -7, 7, -7]), numpy.array([2, 2, -2, -2])
    for name, attributes in (("Div", {}), ("Mod", {}), ("Mod", {"fmod": 1})):
        made = model([node(name, "x b", **attributes)], {"x": ([4], "int64"), "b": ([4], "int64")}, ["y"])
        expected = {"Div": [3, -3, -3, 3]}.get(name, [1, -1, 1, -1] if attributes else [1, 1, -1, -1])
        assert evaluate(read(made), [torch.from_numpy(x), torch.from_numpy(by)])[0].tolist() == expected


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("way", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
@pytest.mark.parametrize("size", [[1, 2, 7, 3], [1, 2, 2, 9]])
def test_resize_reads_where_onnx_reads(mode: str, way: str, size: list[int]) -> None:
    settings = {"mode": mode, "coordinate_transformation_mode": way, "nearest_mode": "floor"}
    agrees(model([node("Resize", "x _ _ s", **settings)], {"x": [1, 2, 4, 5]}, ["y"], {"s": size}), {"x": floats(1, 2, 4, 5)})


def test_softmax_took_all_axes_from_one_on_before_opset_13() -> None:
    arrays = {"x": floats(2, 3, 4)}
    old, new = (
        evaluate(read(model([node("Softmax", "x", axis=1)], {"x": [2, 3, 4]}, ["y"], opset=opset)), [torch.from_numpy(arrays["x"])])[0]
        for opset in (11, 13)
    )
    assert torch.allclose(old.sum((1, 2)), torch.ones(2))
    assert torch.allclose(new.sum(1), torch.ones(2, 4))


@pytest.mark.parametrize(
    ("made", "shape"),
    [
        (model([node("Slice", "x a b c d")], {"x": [6, 5]}, ["y"], {"a": [-1, 1], "b": [-7, 100], "c": [0, 1], "d": [-2, 2]}), (6, 5)),
        (model([node("Transpose", "x")], {"x": [2, 3, 4]}, ["y"]), (2, 3, 4)),
        (model([node("Flatten", "x", axis=0)], {"x": [2, 3, 4]}, ["y"]), (2, 3, 4)),
        (model([node("Split", "x", "y z", axis=1)], {"x": [2, 6]}, ["y", "z"]), (2, 6)),
        (model([node("Tile", "x r")], {"x": [2, 3]}, ["y"], {"r": [2, 3]}), (2, 3)),
        (model([node("Pad", "x p v", mode="constant")], {"x": [2, 3]}, ["y"], {"p": [1, 0, 0, 2], "v": numpy.float32(7)}), (2, 3)),
        (model([node("Pad", "x p", mode="reflect")], {"x": [4, 5]}, ["y"], {"p": [1, 2, 2, 1]}), (4, 5)),
        (model([node("Expand", "x s")], {"x": [3, 1]}, ["y"], {"s": [2, 1, 4]}), (3, 1)),
        (model([node("Gather", "x p", axis=1)], {"x": [2, 5]}, ["y"], {"p": [[0, -1], [2, 2]]}), (2, 5)),
        (model([node("ReduceL2", "x", axes=[-1], keepdims=0)], {"x": [2, 5]}, ["y"]), (2, 5)),
        (model([node("ArgMax", "x", axis=1, select_last_index=1)], {"x": [2, 5]}, ["y"]), (2, 5)),
        (model([node("CumSum", "x a", exclusive=1, reverse=1)], {"x": [2, 5]}, ["y"], {"a": numpy.int64(1)}), (2, 5)),
        (model([node("LRN", "x", size=3)], {"x": [2, 5, 3, 3]}, ["y"]), (2, 5, 3, 3)),
        (model([node("DepthToSpace", "x", blocksize=2, mode="CRD")], {"x": [1, 8, 2, 3]}, ["y"]), (1, 8, 2, 3)),
        (model([node("LayerNormalization", "x w b", axis=1)], {"x": [2, 3, 4]}, ["y"], {"w": floats(3, 4), "b": floats(3, 4)}), (2, 3, 4)),
        (
            model(
                [node("ConvTranspose", "x w", strides=[2, 2], output_padding=[1, 0])], {"x": [1, 3, 4, 4]}, ["y"], {"w": floats(3, 2, 3, 3)}
            ),
            (1, 3, 4, 4),
        ),
        (model([node("ConvTranspose", "x w", pads=[0, 1, 1, 0])], {"x": [1, 3, 4, 4]}, ["y"], {"w": floats(3, 2, 3, 3)}), (1, 3, 4, 4)),
        (model([node("MaxPool", "x", kernel_shape=[2, 2], pads=[0, 0, 1, 1])], {"x": [1, 2, 4, 5]}, ["y"]), (1, 2, 4, 5)),
        (model([node("GlobalMaxPool", "x")], {"x": [1, 2, 4, 5]}, ["y"]), (1, 2, 4, 5)),
        (model([node("Celu", "x", alpha=2.0)], {"x": [2, 5]}, ["y"]), (2, 5)),
        (model([node("ThresholdedRelu", "x")], {"x": [2, 5]}, ["y"]), (2, 5)),
    ],
)
def test_a_node_means_what_onnx_says(made: Any, shape: tuple[int, ...]) -> None:
    agrees(made, {"x": floats(*shape)})


def test_arithmetic_on_sizes_is_done_over_symbols() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s i", "n"),
        node("Concat", "n r", "t", axis=0),
        node("Reshape", "x t", "y"),
        node("Expand", "b t2", "z"),
        node("Concat", "n q", "t2", axis=0),
    ]
    made = model(nodes, {"x": ["batch", 6, "w"]}, ["y", "z"], {"i": [0], "r": [-1], "q": [4], "b": floats(1, 4)})
    graph = read(made)
    types = [graph.type(value) for value in graph.outputs]
    assert str(types[0]) == "float32[batch, 6*w]" and str(types[1]) == "float32[batch, 4]"
    assert all(isinstance(kind.shape[0], Expression) for kind in types)
    assert not any(isinstance(graph.operator(one), Foreign) for one in graph)
    for batch, width in ((2, 3), (5, 1)):
        x = torch.from_numpy(floats(batch, 6, width))
        y, z = evaluate(graph, [x])
        assert torch.equal(y, x.reshape(batch, -1)) and z.shape == (batch, 4)
    graph.metadata.pop("onnx")
    again = read(to_model(graph, opset=17))
    assert [str(again.type(value)) for value in again.outputs] == [str(kind) for kind in types]


def test_sizes_that_may_broadcast_stay_open() -> None:
    graph = read(model([node("Add", "x z")], {"x": ["a", 3], "z": ["b", 3]}, ["y"]))
    assert isinstance(graph.operator(graph.outputs[0].node), Foreign)
    assert str(graph.type(graph.outputs[0]).shape[0]) == "max(a, b)"
    found = evaluate(graph, [torch.ones(1, 3), torch.ones(4, 3)])
    assert found[0].shape == (4, 3)


def test_anonymous_sizes_are_different_sizes() -> None:
    graph = read(model([node("Relu", "x")], {"x": ["?", "?"]}, ["y"]))
    first, second = graph.types(graph.inputs[0])[0].shape
    assert str(first) != str(second)
    assert evaluate(graph, [torch.ones(2, 3)])[0].shape == (2, 3)


def branch(name: str, reads: str) -> Any:
    return helper.make_graph([node(name, reads, "b")], "branch", [], [helper.make_tensor_value_info("b", TensorProto.FLOAT, [2, 3])])


def test_a_choice_by_data_is_kept_with_what_its_branches_read() -> None:
    choice = node("If", "c", "y", then_branch=branch("Relu", "h"), else_branch=branch("Neg", "x"))
    made = model([node("Exp", "x", "h"), choice], {"x": [2, 3], "c": ([], "bool")}, ["y"])
    graph = read(made)
    kept = graph.outputs[0].node
    assert isinstance(graph.operator(kept), Foreign) and len(graph.operands(kept)) == 3
    x = torch.from_numpy(floats(2, 3))
    assert torch.equal(evaluate(graph, [x, torch.tensor(False)])[0], -x)
    assert to_model(graph).graph.node[1].SerializeToString() == choice.SerializeToString()
    graph.metadata.pop("onnx")
    again = run(to_model(graph, opset=17), {"x": x.numpy(), "c": numpy.array(True)})
    numpy.testing.assert_allclose(again[0], numpy.exp(x.numpy()), rtol=1e-6)


def test_a_choice_that_sizes_decide_is_made_while_reading() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Size", "s", "r"),
        node("Equal", "r two", "c"),
        node("If", "c", "y", then_branch=branch("Relu", "x"), else_branch=branch("Neg", "x")),
    ]
    agrees(model(nodes, {"x": [2, 3]}, ["y"], {"two": numpy.int64(2)}), {"x": floats(2, 3)})


def test_operators_of_others_are_kept_and_never_dropped() -> None:
    made = model([node("Relu", "x", "a")], {"x": [2]}, ["a"])
    made.graph.node.append(helper.make_node("Secret", ["a"], ["y"], domain="com.example", strength=3))
    made.opset_import.append(helper.make_opsetid("com.example", 2))
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]))
    graph = read(made)
    operator = graph.operator(graph.outputs[0].node)
    assert isinstance(operator, Foreign) and operator.name == "com.example.Secret" and operator.effects & Effect.UNKNOWN
    written = to_model(graph)
    assert written.graph.node[1] == made.graph.node[1] and written.opset_import == made.opset_import


def test_functions_are_read_through() -> None:
    twice = helper.make_function("own", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], [helper.make_opsetid("", 17)])
    made = model([node("Relu", "x", "h")], {"x": [3]}, ["h"])
    made.graph.node.append(helper.make_node("Twice", ["h"], ["y"], domain="own"))
    made.opset_import.append(helper.make_opsetid("own", 1))
    made.functions.append(twice)
    made.graph.output[0].name = "y"
    x = torch.from_numpy(floats(3))
    assert torch.equal(evaluate(read(made), [x])[0], 2 * x.relu())


def test_sparse_weights_are_made_dense() -> None:
    made = model([node("MatMul", "x w")], {"x": [1, 3]}, ["y"], {"w": floats(3, 2)})
    del made.graph.initializer[:]
    values = numpy_helper.from_array(numpy.array([2.0, 5.0], numpy.float32), "w")
    positions = numpy_helper.from_array(numpy.array([[0, 1], [2, 0]]))
    made.graph.sparse_initializer.append(onnx.SparseTensorProto(values=values, indices=positions, dims=[3, 2]))
    assert evaluate(read(made), [torch.tensor([[1.0, 1.0, 1.0]])])[0].tolist() == [[5.0, 2.0]]


def test_weights_may_lie_beside_the_model_in_its_folder(tmp_path: Path) -> None:
    weights = floats(3, 2)
    made = model([node("MatMul", "x w")], {"x": [1, 3]}, ["y"], {"w": weights})
    onnx.save(made, str(tmp_path / "m.onnx"), save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").exists()
    graph = load(tmp_path / "m.onnx")
    x = torch.from_numpy(floats(1, 3))
    assert torch.allclose(evaluate(graph, [x])[0], x @ torch.from_numpy(weights))
    save(graph, tmp_path / "again.onnx")
    assert not list(tmp_path.glob(".again*"))
    assert torch.allclose(evaluate(load(tmp_path / "again.onnx"), [x])[0], x @ torch.from_numpy(weights))


def test_sizes_that_depend_on_data_are_known_once_a_tensor_has_them() -> None:
    nodes = [
        node("NonZero", "x", "p"),
        node("Cast", "p", "f", to=TensorProto.FLOAT),
        node("Shape", "f", "s"),
        node("ConstantOfShape", "s", "z"),
        node("Add", "f z", "y"),
    ]
    graph = read(model(nodes, {"x": [2, 3]}, ["y"]))
    x = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
    assert torch.equal(evaluate(graph, [x])[0], x.nonzero().T.float())


def test_outputs_that_are_left_out_have_no_value() -> None:
    held = {"w": floats(1, 6, 3), "r": floats(1, 6, 2)}
    made = model([helper.make_node("GRU", ["x", "w", "r"], ["", "y"], hidden_size=2)], {"x": [4, 1, 3]}, ["y"], held)
    graph = read(made)
    x = floats(4, 1, 3)
    numpy.testing.assert_allclose(evaluate(graph, [torch.from_numpy(x)])[0].numpy(), run(made, {"x": x})[0], rtol=1e-5, atol=1e-6)


def test_sequences_go_from_one_foreign_node_to_the_next() -> None:
    nodes = [node("SplitToSequence", "x", "parts", axis=0), node("ConcatFromSequence", "parts", "y", axis=1)]
    made = model(nodes, {"x": [2, 3]}, ["y"])
    x = floats(2, 3)
    assert numpy.array_equal(evaluate(read(made), [torch.from_numpy(x)])[0].numpy(), run(made, {"x": x})[0])


def test_a_model_may_be_read_in_a_newer_opset() -> None:
    made = model([node("ReduceMean", "x", axes=[1])], {"x": [2, 3]}, ["y"], opset=13)
    graph = read(made, opset=21)
    assert to_model(graph).opset_import[0].version == 21
    x = torch.from_numpy(floats(2, 3))
    assert torch.equal(evaluate(graph, [x])[0], x.mean(1, keepdim=True))
    with pytest.raises(OnnxError, match="cannot be converted"):
        read(made, opset=400)


def test_an_error_names_the_file_and_the_node(tmp_path: Path) -> None:
    made = model([node("Relu", "x", "h"), node("Neg", "h", "y")], {"x": [2]}, ["y"])
    made.graph.node[1].input[0] = "nowhere"
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(OnnxError, match=r"node 1 \(Neg\) reads 'nowhere', which nothing computes"):
        load(tmp_path / "m.onnx")


def test_a_loop_without_a_condition_stacks_what_its_rounds_give() -> None:
    info, node = helper.make_tensor_value_info, helper.make_node
    kind = TensorProto
    body = helper.make_graph(
        [node("Add", ["sum", "sum"], ["more"]), node("Relu", ["more"], ["kept"]), node("Identity", ["on"], ["still"])],
        "body",
        [info("round", kind.INT64, []), info("on", kind.BOOL, []), info("sum", kind.FLOAT, [2, 3])],
        [info("still", kind.BOOL, []), info("more", kind.FLOAT, [2, 3]), info("kept", kind.FLOAT, [2, 3])],
    )
    loop = node("Loop", ["most", "", "x"], ["last", "all"], body=body)
    inputs = [info("most", kind.INT64, []), info("x", kind.FLOAT, [2, 3])]
    outputs = [info("last", kind.FLOAT, [2, 3]), info("all", kind.FLOAT, ["rounds", 2, 3])]
    looping = helper.make_model(helper.make_graph([loop], "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)])
    x = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.0, -1.0]])
    last, every = evaluate(read(looping), [torch.tensor(3), x])
    assert torch.equal(last, 8 * x)
    assert torch.equal(every, torch.stack([2 * x, 4 * x, 8 * x]).relu())


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("name", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrences_over_sequences_of_different_lengths(name: str, gates: int, direction: str) -> None:
    draw, ways, hidden = numpy.random.default_rng(0), 2 if direction == "bidirectional" else 1, 4
    held = {
        "w": draw.standard_normal((ways, gates * hidden, 3)).astype("float32"),
        "r": draw.standard_normal((ways, gates * hidden, hidden)).astype("float32"),
        "b": draw.standard_normal((ways, 2 * gates * hidden)).astype("float32"),
        "h": draw.standard_normal((ways, 2, hidden)).astype("float32"),
    }
    outputs = "y last cell" if name == "LSTM" else "y last"
    recurrence = node(name, "x w r b lengths h", outputs, hidden_size=hidden, direction=direction)
    made = model([recurrence], {"x": [5, 2, 3], "lengths": ([2], "int32")}, outputs.split(), held)
    x = draw.standard_normal((5, 2, 3)).astype("float32")
    for lengths in ([5, 5], [5, 2], [1, 4]):
        given = {"x": x, "lengths": numpy.array(lengths, "int32")}
        found = evaluate(read(made), [torch.from_numpy(one) for one in given.values()])
        for one, wanted in zip(found, run(made, given), strict=True):
            numpy.testing.assert_allclose(one.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_what_the_reference_of_a_recurrence_ignores_is_not_computed() -> None:
    draw = numpy.random.default_rng(0)
    held = {name: draw.standard_normal((1, 12, width)).astype("float32") for name, width in (("w", 3), ("r", 4))}
    for settings in ({"clip": 0.5}, {"activations": ["HardSigmoid", "Tanh"]}):
        made = model([node("GRU", "x w r", hidden_size=4, **settings)], {"x": [5, 2, 3]}, ["y"], held)
        with pytest.raises(NotImplementedError, match=next(iter(settings))):
            evaluate(read(made), [torch.zeros(5, 2, 3)])


def test_values_that_the_package_takes_for_shapes_are_no_fault_of_the_model() -> None:
    nodes = [node("Unsqueeze", "b axes", "c"), node("Add", "c a", "d"), node("Mul", "d x", "y")]
    held = {"a": numpy.arange(5), "b": numpy.arange(4), "axes": numpy.array([-1])}
    made = model(nodes, {"x": (["n"], "int64")}, ["y"], held)
    with pytest.raises(onnx.shape_inference.InferenceError, match="rank"):
        onnx.shape_inference.infer_shapes(made, strict_mode=True, data_prop=True)
    x = numpy.arange(5)
    assert numpy.array_equal(evaluate(read(made), [torch.from_numpy(x)])[0].numpy(), run(made, {"x": x})[0])


def test_shapes_that_a_branch_declares_wrongly_are_passed_over_as_runtimes_do() -> None:
    def branch(name: str, factor: float) -> Any:
        declared = [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, [])]
        weight = numpy_helper.from_array(numpy.float32(factor), f"{name}_factor")
        nodes = [node("Mul", f"x {name}_factor", f"{name}_product"), node("Identity", f"{name}_product", f"{name}_out")]
        return helper.make_graph(nodes, name, [], declared, [weight])

    choice = node("If", "c", then_branch=branch("then", 2), else_branch=branch("else", 3))
    made = model([choice], {"x": ["n"], "c": ([], "bool")}, ["y"])
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    given = {"x": numpy.ones(3, "float32"), "c": numpy.array(True)}
    graph = read(made)
    tensors = [torch.from_numpy(given[graph.operator(one).attributes["name"]]) for one in graph.inputs]
    assert numpy.array_equal(evaluate(graph, tensors)[0].numpy(), run(made, given)[0])


def test_floors_of_sizes_that_may_be_negative_are_sizes() -> None:
    """(n − 2 − (n − 2) mod 3) / 3 is ⌊(n − 2) / 3⌋, as a floor is written where ONNX divides towards zero."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Sub", "shape two", "less"),
        node("Mod", "less three", "rest"),
        node("Sub", "less rest", "whole"),
        node("Div", "whole three", "floor"),
        node("Add", "floor two", "size"),
        node("Expand", "one size", "y"),
    ]
    made = model(nodes, {"x": ["n"]}, ["y"], {"two": numpy.array([2]), "three": numpy.array([3]), "one": numpy.ones(1, "float32")})
    graph = read(made)
    assert not any(isinstance(graph.operator(one), Foreign) for one in graph)
    for size in (0, 1, 2, 4, 5, 11):
        x = numpy.zeros(size, "float32")
        assert evaluate(graph, [torch.from_numpy(x)])[0].shape == run(made, {"x": x})[0].shape == ((size - 2) // 3 + 2,)
    again = read(to_model(graph))
    assert [str(again.type(one)) for one in again.outputs] == [str(graph.type(one)) for one in graph.outputs]


def counting() -> Any:
    """x + how many different elements it has, in a branch that is known to be taken; only the size of what `Unique` gives is read."""
    nodes = [node("Unique", "x", "u"), node("Size", "u", "n"), node("Cast", "n", "f", to=TensorProto.FLOAT), node("Add", "x f", "t")]
    info = helper.make_tensor_value_info
    then = helper.make_graph(nodes, "then", [], [info("t", TensorProto.FLOAT, None)])
    other = helper.make_graph([node("Identity", "x", "e")], "else", [], [info("e", TensorProto.FLOAT, None)])
    made = model([node("If", "c", then_branch=then, else_branch=other)], {"x": ["n"]}, ["y"], {"c": numpy.array(True)})
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    return made


def test_a_branch_that_is_known_is_read_although_some_of_it_is_foreign() -> None:
    graph = read(counting())
    kinds = {operator.name for one in graph if isinstance(operator := graph.operator(one), Foreign)}
    assert kinds == {"Unique"}
    x = numpy.array([1, 2, 1, 5], "float32")
    wanted = run(counting(), {"x": x})[0]
    assert wanted.tolist() == [4, 5, 4, 8]
    assert numpy.array_equal(evaluate(graph, [torch.from_numpy(x)])[0].numpy(), wanted)


def test_what_decides_a_size_lives_as_long_as_the_size_is_read() -> None:
    from benchmarks.onnx_nodes import without_origin

    graph = without_origin(read(counting()))
    graph.remove_dead()
    order = graph.topological_order()
    deciding = next(one for one in order if isinstance(graph.operator(one), Foreign))
    reading = next(one for one in order if isinstance(getattr(graph.operator(one), "value", None), Expression))
    assert order.index(deciding) < order.index(reading)
    x = numpy.array([1, 2, 1, 5], "float32")
    assert run(to_model(graph), {"x": x})[0].tolist() == [4, 5, 4, 8]


def test_a_size_is_read_off_a_tensor_that_has_it() -> None:
    """Where computing it from the inputs' sizes takes more nodes."""
    nodes = [
        node("MaxPool", "x", "p", kernel_shape=[3], strides=[2]),
        node("Shape", "p", "s"),
        node("Expand", "one s", "e"),
        node("Add", "e p", "y"),
    ]
    made = model(nodes, {"x": [1, 1, "n"]}, ["y"], {"one": numpy.ones(1, "float32")})
    graph = read(made)
    written = to_model(graph, fold_sizes=True)
    assert "Div" not in {one.op_type for one in written.graph.node}
    x = numpy.arange(9, dtype="float32").reshape(1, 1, 9)
    assert numpy.array_equal(run(written, {"x": x})[0], run(made, {"x": x})[0])


def _backwards(shape: list[Any]) -> Any:
    held = {"s": numpy.array([-7]), "e": numpy.array([-20]), "a": numpy.array([0]), "t": numpy.array([-1])}
    return model([node("Slice", "x s e a t")], {"x": shape}, ["y"], held)


ONNXS_OWN: dict[str, tuple[Any, tuple[int, ...]]] = {
    "backwards from before the axis": (_backwards([5]), (5,)),
    "backwards from before an axis of a symbolic size": (_backwards(["n"]), (5,)),
    "sizes backwards": (
        model(
            [node("Shape", "x", "z"), node("Slice", "z s e a t")],
            {"x": ["n", 3]},
            ["y"],
            {"s": numpy.array([-7]), "e": numpy.array([-20]), "a": numpy.array([0]), "t": numpy.array([-1])},
        ),
        (2, 3),
    ),
    "a size cast to int32": (
        model(
            [node("Shape", "x", "z"), node("Cast", "z", "c", to=6), node("Gather", "c i")], {"x": ["n", 3]}, ["y"], {"i": numpy.array(1)}
        ),
        (2, 3),
    ),
    "a sum over no axes": (
        model([node("Shape", "x", "z"), node("ReduceSum", "z", noop_with_empty_axes=1)], {"x": [2, 3]}, ["y"]),
        (2, 3),
    ),
    "the largest over several axes": (model([node("Hardmax", "x")], {"x": [2, 2, 2]}, ["y"], opset=11), (2, 2, 2)),
}


@pytest.mark.parametrize("name", ONNXS_OWN)
def test_what_onnx_means_where_others_mean_something_else(name: str) -> None:
    from benchmarks.onnx_nodes import without_origin

    made, shape = ONNXS_OWN[name]
    x = numpy.random.default_rng(0).standard_normal(shape).astype("float32")
    wanted = run(made, {"x": x})[0]
    graph = read(made)
    for found in (evaluate(graph, [torch.from_numpy(x)])[0].numpy(), run(to_model(without_origin(graph)), {"x": x})[0]):
        assert found.dtype == wanted.dtype
        assert numpy.array_equal(found, wanted)


def test_a_choice_between_truth_values_runs() -> None:
    """Runtimes have no kernel for it."""
    made = model([node("Where", "x y z", "t"), node("Cast", "t", "r", to=1)], {name: (["n"], "bool") for name in "xyz"}, ["r"])
    from benchmarks.onnx_nodes import without_origin

    given = {name: numpy.array(bits, bool) for name, bits in zip("xyz", ([0, 1, 0, 1], [0, 0, 1, 1], [1, 0, 1, 0]), strict=True)}
    assert run(to_model(without_origin(read(made))), given)[0].tolist() == [1, 0, 1, 1]


def test_whole_numbers_are_divided_towards_zero_from_the_smallest_one_on() -> None:
    pairs = [(-(2**31), 2), (-(2**31), 3), (7, -2), (-7, 2), (-7, -2), (-6, 2), (0, -3)]
    a, b = (numpy.array(numbers, "int32") for numbers in zip(*pairs, strict=True))
    made = model([node("Div", "a b", "d"), node("Mul", "d x", "y")], {"x": ([1], "int32")}, ["y"], {"a": a, "b": b})
    x = numpy.array([1], "int32")
    assert evaluate(read(made), [torch.from_numpy(x)])[0].tolist() == run(made, {"x": x})[0].tolist()


def test_what_the_reference_gives_in_another_dtype_is_no_value() -> None:
    norm = node("LayerNormalization", "x s", "y mean", axis=-1)
    made = model([node("Cast", "x_", "x", to=TensorProto.FLOAT16), norm], {"x_": ["n"]}, ["mean"], {"s": numpy.ones(4, "float16")})
    with pytest.raises(NotImplementedError, match="reference gives float16"):
        evaluate(read(made), [torch.ones(4)])
