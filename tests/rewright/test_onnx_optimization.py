"""ONNX models made faster in ONNX Runtime: what is handed out, and with what evidence."""

from __future__ import annotations

import json

import numpy
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from costs.onnxruntime import OnnxRuntime  # noqa: E402
from costs.runtimes import MeasuringError  # noqa: E402
from graphs.onnx import read  # noqa: E402
from rewright.cli.main import run  # noqa: E402
from rewright.onnx_optimization import SizesError, optimize_onnx  # noqa: E402
from rewrites.library import library  # noqa: E402
from search.check import NumericCheckError  # noqa: E402
from tests.graphs.test_onnx_deciding import RECURRENCE, squeezing  # noqa: E402
from verifier.verdict import Status, Verdict  # noqa: E402

GENERATOR = numpy.random.default_rng(0)


def weight(name, *shape):
    return numpy_helper.from_array(GENERATOR.standard_normal(shape).astype("float32"), name)


def number(name, value):
    return numpy_helper.from_array(numpy.array(value, "float32"), name)


def model_of(nodes, initialisers, shape, out_shape, opset=13, domains=()):
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [info("x", TensorProto.FLOAT, shape)], [info("y", TensorProto.FLOAT, out_shape)], initialisers)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(model)
    return model


def blocks(count=6, channels=16, size="size"):
    """Convolutions with a scale and a shift with channels last, and a hard-swish in pieces."""
    nodes, initialisers = [], [number("three", 3), number("zero", 0), number("six", 6)]
    name = "x"
    for block in range(count):
        initialisers += [
            weight(f"w{block}", channels, channels, 1, 1),
            weight(f"s{block}", 1, 1, 1, channels),
            weight(f"t{block}", channels),
        ]
        nodes += [
            helper.make_node("Conv", [name, f"w{block}"], [f"c{block}"], kernel_shape=[1, 1]),
            helper.make_node("Transpose", [f"c{block}"], [f"l{block}"], perm=[0, 2, 3, 1]),
            helper.make_node("Mul", [f"l{block}", f"s{block}"], [f"m{block}"]),
            helper.make_node("Sub", [f"m{block}", f"t{block}"], [f"a{block}"]),
            helper.make_node("Transpose", [f"a{block}"], [f"b{block}"], perm=[0, 3, 1, 2]),
            helper.make_node("Add", [f"b{block}", "three"], [f"d{block}"]),
            helper.make_node("Clip", [f"d{block}", "zero", "six"], [f"e{block}"]),
            helper.make_node("Mul", [f"b{block}", f"e{block}"], [f"f{block}"]),
            helper.make_node("Div", [f"f{block}", "six"], ["y" if block == count - 1 else f"g{block}"]),
        ]
        name = f"g{block}"
    return model_of(nodes, initialisers, ["batch", channels, size, size], ["batch", channels, size, size])


def believed(rule):
    """A verdict without the work of verifying: the library's rules are verified elsewhere."""
    return Verdict(name=rule.__name__, status=Status.PROVED, content=rule.content())


def optimised(model, **options):
    settings = {"certified": believed, "budget": 3.0, "threads": (1,), "sizes": {"batch": 1, "size": 24}}
    return optimize_onnx(read(model), **(settings | options))


def test_pieces_are_folded_and_timed():
    model = blocks()
    result = optimised(model, allow_slower=True)
    assert "handed out" in result.speed_note
    assert result.measured["1"]["before"] > 0
    assert [node.op_type for node in result.model.graph.node].count("Conv") == 6
    assert "Transpose" not in {node.op_type for node in result.model.graph.node}
    assert {"HardswishFromClamp", "FoldOutputScaleIntoConvolution"} <= {step.rule for step in result.steps}
    assert all(step.certificate for step in result.steps)
    assert result.max_error["float64"] < 1e-12
    assert result.max_error["onnxruntime"] < 1e-4
    onnx.checker.check_model(result.model, full_check=True)
    x = GENERATOR.standard_normal((2, 16, 9, 11)).astype("float32")
    before, after = (OnnxRuntime(1).outputs(one, [torch.from_numpy(x)])[0] for one in (model, result.model))
    torch.testing.assert_close(after, before, rtol=1e-3, atol=1e-3 * float(before.abs().max()))


def test_what_says_the_result_as_json():
    written = json.loads(json.dumps(optimised(blocks(2)).as_dict()))
    assert {"before", "after", "steps", "max_error", "seconds", "measured", "candidates", "sizes"} <= set(written)
    assert written["sizes"] == {"batch": 1, "size": 24}
    assert {"time", "flops", "bytes", "kernels", "memory"} == set(written["before"])


def test_what_cannot_be_bettered_comes_back_word_for_word():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"], name="product"), helper.make_node("Tanh", ["z"], ["y"], name="end")]
    model = model_of(nodes, [weight("w", 8, 8)], [4, 8], [4, 8])
    result = optimised(model, sizes=None, budget=3.0)
    assert not result.steps
    assert "not" in result.speed_note or "nothing changed" in result.speed_note
    assert [(node.op_type, node.name) for node in result.model.graph.node] == [("MatMul", "product"), ("Tanh", "end")]
    assert result.max_error == {"float64": 0.0, "native": 0.0}


def test_rules_without_certificates_are_not_used():
    def doubted(rule):
        return Verdict(name=rule.__name__, status=Status.UNDECIDED)

    assert not optimised(blocks(1), certified=doubted, budget=3.0).steps


def test_a_wrong_rule_hands_nothing_out():
    from rewrites.rule import Rule

    fold = next(rule for rule in library() if rule.__name__ == "FoldOutputScaleIntoConvolution")

    def replacement(x, weight, bias, scale, stride, padding, dilation, groups):
        return torch.nn.functional.conv2d(x, weight, bias * scale[:, 0, 0], stride, padding, dilation, groups)

    body = {"__doc__": "A wrong law.", "source": "none", "settles": True, "pattern": fold.pattern, "replacement": replacement}
    wrong = type("WrongFold", (Rule,), body)
    rules = [wrong if rule is fold else rule for rule in library()]
    with pytest.raises(NumericCheckError):
        optimised(blocks(2), rules=rules)


def around_a_runtimes_own_operator():
    """A batch norm to fold before an operator that only ONNX Runtime has, and another behind it."""
    node, names = helper.make_node, ["w", "g", "b", "m", "v", "u", "h", "c", "n", "s"]
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["a", "g", "b", "m", "v"], ["d"]),
        node("FusedMatMul", ["d", "u"], ["e"], domain="com.microsoft", alpha=0.5),
        node("Conv", ["e", "h"], ["f"]),
        node("BatchNormalization", ["f", "c", "b", "n", "s"], ["y"]),
    ]
    shapes = [(8, 3, 3, 3), (8,), (8,), (8,), (8,), (12, 12), (8, 8, 1, 1), (8,), (8,), (8,)]
    values = [weight(name, *shape) for name, shape in zip(names, shapes, strict=True)]
    positive = [numpy_helper.from_array(numpy.abs(numpy_helper.to_array(value)) + 1, value.name) for value in values if value.name in "vs"]
    weights = [*(value for value in values if value.name not in "vs"), *positive]
    model = model_of(nodes, weights, ["n", 3, 12, 12], ["n", 8, 12, 12], domains=["com.microsoft"])
    model.graph.value_info.append(helper.make_tensor_value_info("e", TensorProto.FLOAT, ["n", 8, 12, 12]))
    return model


def test_what_stands_around_an_operator_that_nothing_here_computes_is_optimised_and_checked():
    result = optimised(around_a_runtimes_own_operator(), sizes={"n": 2}, allow_slower=True)
    assert [step.rule for step in result.steps].count("FoldBatchNormIntoConvolution") == 2
    assert result.max_error["float64"] < 1e-12
    assert result.max_error["onnxruntime"] < 1e-5
    assert "FusedMatMul" in {node.op_type for node in result.model.graph.node}


def test_a_wrong_rule_beside_an_operator_that_nothing_here_computes_hands_nothing_out():
    from rewrites.rule import Rule

    fold = next(rule for rule in library() if rule.__name__ == "FoldBatchNormIntoConvolution")

    def replacement(x, weight, bias, gamma, beta, mean, var, stride, padding, dilation, groups, eps, training):
        scale = gamma / torch.sqrt(var + eps)
        return torch.nn.functional.conv2d(x, weight * scale[:, None, None, None], bias * scale + beta, stride, padding, dilation, groups)

    body = {"__doc__": "A wrong law.", "source": "none", "settles": True, "pattern": fold.pattern, "replacement": replacement}
    wrong = type("ForgetsTheMean", (Rule,), body)
    with pytest.raises(NumericCheckError):
        optimised(around_a_runtimes_own_operator(), sizes={"n": 2}, rules=[wrong], allow_slower=True)


def test_quantised_weights_stay_quantised():
    """What is many operators here and one to the runtime is not taken to pieces, nor computed beforehand."""
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["a"]),
        node("DequantizeLinear", ["a", "s", "z"], ["b"]),
        node("DequantizeLinear", ["w", "s"], ["c"]),
        node("Conv", ["b", "c"], ["d"]),
        node("Mul", ["d", "g"], ["e"]),
        node("Conv", ["e", "u"], ["f"]),
        node("Mul", ["f", "g"], ["y"]),
    ]
    integers = numpy_helper.from_array(GENERATOR.integers(-99, 99, (8, 8, 3, 3)).astype("int8"), "w")
    zero = numpy_helper.from_array(numpy.array(128, "uint8"), "z")
    values = [number("s", 0.05), zero, integers, weight("g", 8, 1, 1), weight("u", 8, 8, 1, 1)]
    model = model_of(nodes, values, [1, 8, 12, 12], [1, 8, 10, 10])
    result = optimised(model, sizes=None, allow_slower=True)
    kinds = [node.op_type for node in result.model.graph.node]
    assert kinds.count("QuantizeLinear") == 1 and kinds.count("DequantizeLinear") == 2
    assert kinds.count("Mul") < 2
    assert result.max_error["onnxruntime"] < 1e-5


@pytest.mark.parametrize("kind", [TensorProto.STRING, TensorProto.FLOAT])
def test_inputs_that_cannot_be_drawn_are_one_sentence(kind):
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], [], [3], [3])
    model.graph.input.append(helper.make_tensor_value_info("other", kind, [2] if kind == TensorProto.STRING else None))
    model.graph.node.append(helper.make_node("Identity", ["other"], ["again"]))
    model.graph.output.append(helper.make_tensor_value_info("again", kind, [2] if kind == TensorProto.STRING else None))
    with pytest.raises(SizesError, match="input other: must be a tensor of numbers of a known rank"):
        optimised(model, sizes=None)


def test_sizes_at_which_the_model_does_not_run_are_refused():
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    shape = numpy_helper.from_array(numpy.array([6], "int64"), "shape")
    model = model_of(nodes, [shape], ["n"], [6])
    assert optimised(model, sizes={"n": 6}, budget=1.0).sizes == {"n": 6}
    with pytest.raises(SizesError, match="n=5"):
        optimised(model, sizes={"n": 5}, budget=1.0)


def test_a_fragment_that_the_runtime_refuses_is_said():
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], [], [2], [2])
    with pytest.raises(MeasuringError, match="must run"):
        OnnxRuntime(1).call(model, [torch.zeros(3)])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--runtime", "tvm"], "must be onnxruntime"),
        (["--sizes", "batch"], "NAME=N"),
        (["--threads", "none"], "positive numbers"),
    ],
)
def test_bad_options_are_one_sentence(tmp_path, capfd, arguments, said):
    path = tmp_path / "model.onnx"
    onnx.save(blocks(1), path)
    assert run(["optimize", str(path), *arguments]) == 2
    assert said in capfd.readouterr().err


def test_the_command_writes_a_model(tmp_path, monkeypatch):
    import rewright.onnx_optimization

    monkeypatch.setattr(rewright.onnx_optimization, "_verdict", believed)
    source, target = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(blocks(4), source)
    arguments = ["optimize", str(source), "-o", str(target), "--budget", "4", "--sizes", "batch=1,size=24", "--threads", "1"]
    assert run(arguments) == 0
    onnx.checker.check_model(onnx.load(target), full_check=True)


def test_what_stands_before_a_branch_that_data_decides_is_optimised_and_checked_in_float64():
    """The branches hold float32 numbers of their own, and the onnx package's reference multiplies no float64 by them."""

    def times(name, factor):
        info = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node("Mul", ["s", f"{name}_by"], [name])], name, [], [info], [number(f"{name}_by", factor)])

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Mul", ["c", "scale"], ["s"]),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "nought"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], then_branch=times("twice", 2.0), else_branch=times("thrice", 3.0)),
    ]
    held = [weight("w", 8, 4, 1, 1), weight("scale", 1, 8, 1, 1), number("nought", 0.0)]
    result = optimised(model_of(nodes, held, [1, 4, 6, 6], [1, 8, 6, 6]), sizes=None, allow_slower=True)
    assert "FoldOutputScaleIntoConvolution" in {step.rule for step in result.steps}
    assert 0 <= result.max_error["float64"] < 1e-12


def test_a_branch_that_is_decided_by_what_runs_is_said():
    result = optimised(squeezing(*RECURRENCE), sizes={"batch": 2, "n": 1}, allow_slower=True)
    assert "If" not in {node.op_type for node in result.model.graph.node}
    (sentence,) = result.assumed
    assert sentence == "node 3 (If): the then branch is taken, as the model cannot run after the other"
    assert result.as_dict()["assumed"] == [sentence]


def test_a_graph_that_onnx_has_no_words_for_is_no_candidate():
    from rewrites.rule import Rule

    def pattern(x: Float[Tensor, "n m"], y: Float[Tensor, "m"]):
        return ((x - y) * (x - y)).mean((0, 1))

    def replacement(x, y):
        return torch.nn.functional.mse_loss(x, y.expand(x.shape))

    body = {"__doc__": "A loss that ONNX does not have.", "source": "none", "settles": True}
    rule = type("SquaredErrorAsLoss", (Rule,), body | {"pattern": pattern, "replacement": replacement})
    node = helper.make_node
    nodes = [node("Sub", ["x", "w"], ["d"]), node("Mul", ["d", "d"], ["s"]), node("ReduceMean", ["s"], ["y"], axes=[0, 1], keepdims=0)]
    result = optimised(model_of(nodes, [weight("w", 4)], [3, 4], []), sizes=None, rules=[rule])
    assert not result.steps
    assert [sentence for sentence in result.refused if "ONNX has no word for this operator" in sentence]


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (torch.zeros(2, 3), torch.zeros(5), r"is torch.float32\[2, 3\] before"),
        (torch.zeros(2, dtype=torch.int32), torch.zeros(2, dtype=torch.int64), "is torch.int32"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "other whole numbers, 1 of 2"),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, float("nan")]), "NaN or infinities"),
    ],
)
def test_differences_in_the_runtime_that_are_no_rounding_are_refused(before, after, sentence):
    from rewright.onnx_checking import errors_in_runtime

    class Two:
        def outputs(self, model, inputs):
            return [model]

    with pytest.raises(NumericCheckError, match=sentence):
        errors_in_runtime(read(blocks(1)), before, after, Two(), [])


def test_a_few_moved_whole_numbers_are_rounding():
    from rewright.onnx_checking import _no_rounding

    scores = torch.arange(10_000)
    moved = scores.clone().index_fill_(0, torch.tensor([5]), 6)
    assert _no_rounding(scores, moved, rounds=True) == ""
    assert _no_rounding(scores, moved, rounds=False) == "has other whole numbers, 1 of 10000"


def test_sizes_at_which_torch_cannot_run_the_model_are_said():
    from rewright.onnx_checking import errors_between

    nodes = [helper.make_node("InstanceNormalization", ["x", "s", "b"], ["y"])]
    graph = read(model_of(nodes, [weight("s", 3), weight("b", 3)], [2, 3, "n"], [2, 3, "n"]))
    with pytest.raises(NumericCheckError, match="cannot be run here"):
        errors_between(graph, graph, graph, graph, [torch.ones(2, 3, 1)], 0, {"n": 1})
