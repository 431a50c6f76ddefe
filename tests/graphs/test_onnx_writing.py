"""Writing ONNX: word for word what nothing touched, one valid spelling for everything else, names and opset kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as F

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from graphs.capture import capture  # noqa: E402
from graphs.evaluate import evaluate  # noqa: E402
from graphs.graph import Graph, Value  # noqa: E402
from graphs.onnx import OnnxError, load, named_values, read, save, to_model  # noqa: E402
from graphs.passes import fold_constants, simplify  # noqa: E402
from operators.arithmetic import Maximum  # noqa: E402
from operators.casts import Identity  # noqa: E402


def run(model: Any, arrays: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return list(onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, arrays))


def floats(*shape: int) -> Any:
    return numpy.random.default_rng(sum(shape)).standard_normal(shape).astype(numpy.float32)


def node(name: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(name, inputs.split(), outputs.split(), name=f"the {outputs}", doc_string=f"makes {outputs}", **attributes)


def network() -> Any:
    """Two convolutions with a batch norm, a shortcut, and a reshape by the sizes of the input."""
    weights = {"w1": floats(3, 3, 3, 3), "w2": floats(4, 3, 1, 1), "unread": floats(2)}
    weights |= {name: numpy.abs(floats(3)) + 0.5 for name in ("scale", "shift", "mean", "variance")}
    nodes = [
        node("Conv", "x w1", "c", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c scale shift mean variance", "n"),
        node("Relu", "n", "r"),
        node("Add", "r x", "a"),
        node("Conv", "a w2", "d"),
        node("Shape", "x", "s"),
        node("Constant", "", "zero", value=numpy_helper.from_array(numpy.array([0]))),
        node("Gather", "s zero", "b"),
        node("Constant", "", "rest", value=numpy_helper.from_array(numpy.array([-1]))),
        node("Concat", "b rest", "t", axis=0),
        node("Reshape", "d t", "y"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 5, 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 100])
    graph = helper.make_graph(nodes, "network", [x], [y], [numpy_helper.from_array(w, name) for name, w in weights.items()], "what it is")
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7, producer_name="somebody", doc_string="a doc"
    )
    helper.set_model_props(model, {"author": "somebody else"})
    return model


def test_what_nothing_touched_is_written_word_for_word() -> None:
    model = network()
    written = to_model(read(model))
    assert sorted(one.SerializeToString() for one in written.graph.node) == sorted(one.SerializeToString() for one in model.graph.node)
    assert written.graph.input == model.graph.input and written.graph.output == model.graph.output
    assert {one.name for one in written.graph.initializer} == {one.name for one in model.graph.initializer} - {"unread"}
    assert written.opset_import == model.opset_import and written.metadata_props == model.metadata_props
    assert (written.producer_name, written.doc_string, written.graph.name, written.ir_version) == ("somebody", "a doc", "network", 7)
    x = floats(2, 3, 5, 5)
    assert numpy.array_equal(run(model, {"x": x})[0], run(written, {"x": x})[0])


def replace(graph: Graph, name: str, make: Callable[[Graph, Value], Value]) -> None:
    """Let what reads the value of a name read another one of the same meaning."""
    value = named_values(graph)[name]
    operand = graph.operands(value.node)[0]
    assert operand is not None
    graph.replace_uses(value, make(graph, operand))
    graph.remove_dead()


def test_around_a_rewrite_nodes_and_names_stay() -> None:
    graph = read(network())
    replace(graph, "r", lambda graph, operand: graph.add(Maximum(), operand, graph.scalar(0.0)))
    written = to_model(graph)
    names = {one.name: one for one in written.graph.node}
    assert {"the c", "the n", "the a", "the d", "the y"} <= set(names) and "the r" not in names
    assert any(one.op_type == "Max" and list(one.output) == ["r"] for one in written.graph.node), "the new node makes what the old one did"
    x = floats(2, 3, 5, 5)
    assert numpy.array_equal(run(network(), {"x": x})[0], run(written, {"x": x})[0])


def test_a_rewritten_output_keeps_its_name() -> None:
    graph = read(network())
    replace(graph, "y", lambda graph, operand: graph.add(Identity(), graph.add(graph.operator(graph.outputs[0].node), operand)))
    written = to_model(graph)
    assert [one.name for one in written.graph.output] == ["y"]
    assert numpy.array_equal(run(network(), {"x": floats(2, 3, 5, 5)})[0], run(written, {"x": floats(2, 3, 5, 5)})[0])


def test_an_output_that_is_an_input_or_a_weight_is_copied() -> None:
    graph = read(network())
    graph.outputs = [Value(graph.inputs[0])]
    assert [(one.op_type, list(one.output)) for one in to_model(graph).graph.node] == [("Identity", ["y"])]


def test_sizes_are_folded_where_asked() -> None:
    graph = read(network())
    plain, folded = to_model(graph), to_model(graph, fold_sizes=True)
    assert {"Shape", "Gather"} <= {one.op_type for one in plain.graph.node}
    assert not {"Shape", "Gather", "Concat"} & {one.op_type for one in folded.graph.node}
    for batch in (1, 4):
        x = floats(batch, 3, 5, 5)
        assert numpy.array_equal(run(plain, {"x": x})[0], run(folded, {"x": x})[0])


def test_simplifying_changes_nothing_that_can_stand() -> None:
    graph = read(network())
    simplify(graph)
    assert {one.name for one in to_model(graph).graph.node} == {one.name for one in network().graph.node}


def test_folding_inside_a_node_leaves_the_node() -> None:
    """Reading turns a transposed, scaled factor into nodes of its own; that they were folded is no reason to write it otherwise."""
    made = helper.make_node("Gemm", ["x", "w", "c"], ["y"], name="gemm", alpha=2.0, beta=0.5, transA=1)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])
    weights = [numpy_helper.from_array(floats(3, 4), "w"), numpy_helper.from_array(floats(4), "c")]
    model = helper.make_model(helper.make_graph([made], "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    graph = read(model)
    assert fold_constants(graph) == 1
    assert to_model(graph).graph.node[0] == made


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    graph = read(network())
    save(graph, tmp_path / "out.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["out.onnx"]
    x = torch.from_numpy(floats(2, 3, 5, 5))
    assert torch.equal(evaluate(load(tmp_path / "out.onnx"), [x])[0], evaluate(graph, [x])[0])
    graph.add(Identity(), Value(graph.inputs[0]))
    with pytest.raises(OSError):
        save(graph, tmp_path / "nowhere" / "out.onnx")


def test_weights_that_are_too_large_for_one_file_lie_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphs.onnx.files.MOST_BYTES", 100)
    monkeypatch.setattr("graphs.onnx.files.LARGE", 64)
    graph = read(network())
    save(graph, tmp_path / "out.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.onnx", "out.onnx.data"]
    x = floats(2, 3, 5, 5)
    found = onnxruntime.InferenceSession(str(tmp_path / "out.onnx"), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    numpy.testing.assert_allclose(found[0], run(network(), {"x": x})[0], rtol=1e-5, atol=1e-5)
    assert torch.equal(evaluate(load(tmp_path / "out.onnx"), [torch.from_numpy(x)])[0], evaluate(graph, [torch.from_numpy(x)])[0])


CALLS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "linear": (lambda x, w, b: F.linear(x, w, b), [(2, 3, 4), (5, 4), (5,)]),
    "linear of two axes": (lambda x, w: F.linear(x, w), [(3, 4), (5, 4)]),
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2.0), [(4,), (2, 3), (3, 4)]),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2.0), [(2, 2, 4), (2, 2, 3), (2, 3, 4)]),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b), [(2, 3, 4), (2, 5, 4)]),
    "conv1d": (lambda x, w: F.conv1d(x, w, None, 2, 1, 1, 2), [(1, 4, 7), (6, 2, 3)]),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, (1, 2), 1, (2, 1)), [(1, 3, 7, 7), (4, 3, 3, 3), (4,)]),
    "conv transposed": (lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1), [(1, 3, 4, 4), (3, 2, 3, 3)]),
    "max pool": (lambda x: F.max_pool2d(x, 3, 2, 1), [(1, 2, 7, 7)]),
    "average pool": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), [(1, 2, 7, 7)]),
    "adaptive pool": (lambda x: F.adaptive_avg_pool2d(x, 1), [(1, 2, 7, 7)]),
    "adaptive pool to a part": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), [(1, 2, 8, 6)]),
    "interpolate": (lambda x: F.interpolate(x, size=(7, 5), mode="bilinear"), [(1, 2, 4, 3)]),
    "interpolate to the nearest": (lambda x: F.interpolate(x, scale_factor=2), [(1, 2, 4, 3)]),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=3.0), [(2, 3, 4)]),
    "pad by mirrors": (lambda x: F.pad(x, (1, 2), mode="reflect"), [(2, 3, 4)]),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (3, 4), w, b), [(2, 3, 4), (3, 4), (3, 4)]),
    "layer norm without weights": (lambda x: F.layer_norm(x, (4,)), [(2, 3, 4)]),
    "group norm": (lambda x, w, b: F.group_norm(x, 2, w, b), [(2, 4, 5), (4,), (4,)]),
    "instance norm": (lambda x: F.instance_norm(x), [(2, 4, 5)]),
    "rms norm": (lambda x, w: F.rms_norm(x, (4,), w), [(2, 3, 4), (4,)]),
    "gelu": (lambda x: F.gelu(x), [(3, 4)]),
    "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), [(3, 4)]),
    "activations": (lambda x: F.silu(x) + F.mish(x) * F.hardswish(x) - F.hardsigmoid(x) + F.relu6(x) + F.logsigmoid(x), [(3, 4)]),
    "slopes": (lambda x: F.leaky_relu(x, 0.1) + F.elu(x) + F.softplus(x) + F.selu(x) + F.softsign(x), [(3, 4)]),
    "prelu": (lambda x, w: F.prelu(x, w), [(2, 3, 4), (3,)]),
    "glu": (lambda x: F.glu(x, 1), [(2, 6, 3)]),
    "softmax": (lambda x: torch.softmax(x, 1) + torch.log_softmax(x, -1), [(2, 6, 3)]),
    "reductions": (lambda x: x.sum(1) + x.mean(1) + x.amax(1) - x.amin(1) + x.prod(1) + x.logsumexp(1) + x.norm(dim=1), [(2, 6, 3)]),
    "variance": (lambda x: x.var(1) + x.std(1, correction=0), [(2, 6, 3)]),
    "extremes": (lambda x: x.max(1)[0] + x.argmax(1) + x.argmin(1), [(2, 6, 3)]),
    "logic": (lambda x, y: torch.where((x > y) & (x != 0) | ~(x <= y), x, 2 * y), [(2, 3), (2, 3)]),
    "all and any": (lambda x: (x > 0).all(1).float() + (x > 0).any(1), [(2, 3)]),
    "arithmetic": (
        lambda x, y: torch.fmod(x, y) + torch.remainder(x, y) + x**2 - x // y + torch.trunc(x),
        [(2, 3), (2, 3)],
    ),
    "functions": (lambda x: x.expm1() + x.abs().log1p() + x.exp2() + (x.abs() + 1).log2() + x.erf() + x.sign() + x.round(), [(2, 3)]),
    "fused": (
        lambda x, y, z: torch.addcmul(x, y, z, value=2.0) + torch.addcdiv(x, y, z.abs() + 1) + torch.lerp(x, y, 0.3) + torch.lerp(x, y, z),
        [(2, 3), (2, 3), (3,)],
    ),
    "logaddexp": (lambda x, y: torch.logaddexp(x, y) + torch.logaddexp(x * 400, x * 400), [(2, 3), (3,)]),
    "clamp": (lambda x, y: x.clamp(-0.5, 0.5) + x.clamp(min=0.1) + torch.clamp(x, max=y), [(2, 3), (2, 3)]),
    "moving": (lambda x: torch.roll(x.flip(1), 1, 1).permute(1, 2, 0).reshape(3, -1).unsqueeze(0).expand(2, 3, 8), [(2, 3, 4)]),
    "parts": (lambda x: torch.cat([torch.stack(x.split([1, 2], 1)[1].unbind(1), 1), x[:, ::2, 1:3].repeat(1, 1, 2)], 1), [(2, 3, 4)]),
    "select": (lambda x: x.select(1, 2) + x[:, 0], [(2, 3, 4)]),
    "triangles": (lambda x: x.tril() + x.triu(1), [(4, 4)]),
    "cumsum": (lambda x: x.cumsum(1), [(2, 5)]),
    "indexing": (lambda x: x[:, torch.tensor([1, 0])] + F.embedding(torch.tensor([[1, 0], [1, 1]]), x), [(2, 2)]),
    "gather": (lambda x: x.gather(1, torch.tensor([[0, 2], [1, 1]])), [(2, 3)]),
    "one hot": (lambda x: x + F.one_hot(torch.tensor([0, 2]), 3), [(2, 3)]),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)]),
    "attention with a mask": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m > 0),
        [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6), (3, 5)],
    ),
    "attention, scaled": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3), [(2, 3, 4), (2, 5, 4), (2, 5, 6)]),
    "attention, causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [(2, 3, 4), (2, 5, 4), (2, 5, 6)]),
    "attention, grouped": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        [(1, 4, 3, 8), (1, 2, 5, 8), (1, 2, 5, 6)],
    ),
    "attention, grouped with a mask": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, enable_gqa=True),
        [(2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6), (3, 5)],
    ),
    "repeat interleave": (lambda x: x.repeat_interleave(3, 1), [(2, 3, 4)]),
    "batch norm": (lambda x, m, v: F.batch_norm(x, m, v * v + 1), [(2, 3, 4), (3,), (3,)]),
    "fills": (lambda x: x + torch.ones(2, 3) * torch.arange(3), [(2, 3)]),
}

NEEDS = {"triangles": 14, "cumsum": 11, "einsum": 12, "gather": 11, "interpolate": 11, "interpolate to the nearest": 11}


class Call(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


@pytest.mark.parametrize("opset", [11, 13, 17, 21])
@pytest.mark.parametrize("name", CALLS)
def test_an_operator_has_a_valid_spelling_in_every_opset(name: str, opset: int) -> None:
    function, shapes = CALLS[name]
    tensors = tuple(torch.from_numpy(floats(*shape)) for shape in shapes)
    graph = capture(Call(function).eval(), tensors)
    if opset < NEEDS.get(name, 0):
        with pytest.raises(OnnxError, match="needs opset"):
            to_model(graph, opset=opset)
        return
    model = to_model(graph, opset=opset)
    onnx.checker.check_model(model, full_check=True)
    names = [one.name for one in model.graph.input]
    model.ir_version = min(model.ir_version, 10)
    found = run(model, {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)})[0]
    expected = function(*tensors)
    assert found.shape == tuple(expected.shape)
    numpy.testing.assert_allclose(found, expected.detach().numpy(), rtol=2e-5, atol=2e-5)


ATTENTIONS: dict[str, Callable[..., Any]] = {
    "plain": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    "causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "grouped": lambda q, k, v: F.scaled_dot_product_attention(torch.cat([q, -q], 1), k, v, enable_gqa=True),
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_is_written_for_all_sizes(name: str) -> None:
    function = ATTENTIONS[name]
    sizes = {axis: torch.export.Dim(f"size_{axis}", min=2, max=64) for axis in range(4)}
    keys = {**{axis: sizes[axis] for axis in (0, 1, 3)}, 2: torch.export.Dim("keys", min=2, max=64)}
    tensors = tuple(torch.from_numpy(floats(*shape)) for shape in [(2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4)])
    model = to_model(capture(Call(function).eval(), tensors, {"tensors": (sizes, keys, keys)}), opset=17)
    onnx.checker.check_model(model, full_check=True)
    model.ir_version = min(model.ir_version, 10)
    others = tuple(torch.from_numpy(floats(*shape)) for shape in [(3, 2, 4, 6), (3, 2, 5, 6), (3, 2, 5, 6)])
    found = run(model, dict(zip([one.name for one in model.graph.input], [one.numpy() for one in others], strict=True)))[0]
    numpy.testing.assert_allclose(found, function(*others).numpy(), rtol=2e-5, atol=2e-5)


FOUND: dict[str, tuple[Callable[..., Any], str]] = {
    "gelu": (lambda x, w, b: F.gelu(x), "Gelu"),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (6,), w, b), "LayerNormalization"),
    "layer norm of a sum": (lambda x, w, b: F.layer_norm(x + x.flip(0), (6,), w, b), "SkipLayerNormalization"),
    "rms norm": (lambda x, w, b: F.rms_norm(x, (6,), w), "SimplifiedLayerNormalization"),
    "silu": (lambda x, w, b: F.silu(x), "QuickGelu"),
}


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("name", FOUND)
def test_what_is_written_out_is_one_kernel_to_the_runtime(name: str, opset: int, tmp_path: Path) -> None:
    function, kernel = FOUND[name]

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b = (torch.nn.Parameter(torch.from_numpy(floats(6)), requires_grad=False) for _ in range(2))

        def forward(self, x: torch.Tensor) -> Any:
            return function(x, self.w, self.b)

    written = to_model(capture(Layer().eval(), (torch.from_numpy(floats(2, 4, 6)),)), opset=opset)
    written.ir_version = min(written.ir_version, 10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    onnxruntime.InferenceSession(written.SerializeToString(), options, providers=["CPUExecutionProvider"])
    assert kernel in {node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node}
