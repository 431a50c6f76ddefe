"""What other optimisers make of a small ONNX model is proved equal to it for all sizes, and a fold that is wrong by little is not."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphs.onnx import read, with_both_branches
from verifier.equivalence.comparing import CannotRunError, compare_graphs
from verifier.equivalence.joining import joined
from verifier.verdict import Status


def weight(name: str, *shape: int, positive: bool = False, seed: int = 0) -> onnx.TensorProto:
    drawn = numpy.random.default_rng(seed + len(name) + sum(map(ord, name))).normal(size=shape)
    return numpy_helper.from_array((numpy.abs(drawn) + 0.5 if positive else drawn).astype(numpy.float32), name)


def network() -> onnx.ModelProto:
    """Two convolutions, one with a batch norm and one with an affine chain, a pool and a product, over any batch, height and width."""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1], name="first"),
        helper.make_node("BatchNormalization", ["a", "gamma", "beta", "mean", "var"], ["b"], name="norm"),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Conv", ["c", "w2", "b2"], ["d"], strides=[2, 2], name="second"),
        helper.make_node("Sub", ["d", "shift"], ["e"]),
        helper.make_node("Mul", ["e", "scale"], ["f"]),
        helper.make_node("Identity", ["f"], ["g"]),
        helper.make_node("GlobalAveragePool", ["g"], ["h"]),
        helper.make_node("Flatten", ["h"], ["i"]),
        helper.make_node("MatMul", ["i", "w3"], ["j"]),
        helper.make_node("Add", ["j", "b3"], ["y"]),
    ]
    weights = [
        weight("w1", 8, 3, 3, 3), weight("gamma", 8), weight("beta", 8), weight("mean", 8), weight("var", 8, positive=True),
        weight("w2", 6, 8, 3, 3), weight("b2", 6), weight("shift", 1, 6, 1, 1), weight("scale", 1, 6, 1, 1), weight("w3", 6, 5),
        weight("b3", 5),
    ]  # fmt: skip
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])]
    graph = helper.make_graph(nodes, "network", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _onnxsim(model: onnx.ModelProto) -> onnx.ModelProto:
    return importlib.import_module("onnxsim").simplify(model)[0]  # type: ignore[no-any-return]


def _onnxslim(model: onnx.ModelProto) -> onnx.ModelProto:
    return importlib.import_module("onnxslim").slim(model)  # type: ignore[no-any-return]


def _onnxoptimizer(model: onnx.ModelProto) -> onnx.ModelProto:
    return importlib.import_module("onnxoptimizer").optimize(model)  # type: ignore[no-any-return]


def _onnxscript(model: onnx.ModelProto) -> onnx.ModelProto:
    return importlib.import_module("onnxscript.optimizer").optimize(model)  # type: ignore[no-any-return]


@pytest.mark.parametrize("peer", [_onnxsim, _onnxslim, _onnxoptimizer, _onnxscript])
def test_what_other_optimisers_make_of_it_is_proved_equal(peer: Callable[[onnx.ModelProto], onnx.ModelProto]) -> None:
    pytest.importorskip(peer.__name__.strip("_"), reason=f"{peer.__name__.strip('_')} is not installed")
    found = compare_graphs(read(network()), read(peer(network())), examples=6)
    assert found.status is Status.PROVED and found.scope.startswith("all sizes h, n, w"), found


def folded(change: float) -> onnx.ModelProto:
    """The network with its batch norm folded by hand; one element of the folded weight is off by a relative change."""
    model = network()
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    scale = tensors["gamma"] / numpy.sqrt(tensors["var"] + numpy.float32(1e-5))
    kernel = (tensors["w1"] * scale[:, None, None, None]).astype(numpy.float32)
    kernel[3, 1, 2, 0] *= numpy.float32(1 + change)
    del model.graph.node[1]
    model.graph.node[0].input.append("b1")
    model.graph.node[0].output[0] = "b"
    model.graph.initializer.append(numpy_helper.from_array((tensors["beta"] - tensors["mean"] * scale).astype(numpy.float32), "b1"))
    for tensor in model.graph.initializer:
        if tensor.name == "w1":
            tensor.CopyFrom(numpy_helper.from_array(kernel, "w1"))
    return model


def test_a_fold_is_proved_and_one_that_is_wrong_by_little_is_not() -> None:
    right = compare_graphs(read(network()), read(folded(0.0)), examples=4)
    assert right.status is Status.PROVED and "up to the rounding of folded constants" in right.scope, right
    for change in (1e-2, 3e-6):
        assert compare_graphs(read(network()), read(folded(change)), examples=4, timeout=8.0).status is not Status.PROVED


@pytest.mark.parametrize("attribute, value", [("pads", [0, 0, 0, 0]), ("strides", [1, 1]), ("dilations", [2, 2])])
def test_a_changed_attribute_is_found(attribute: str, value: list[int]) -> None:
    model = network()
    node = model.graph.node[3 if attribute == "strides" else 0]
    kept = [given for given in node.attribute if given.name != attribute]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(attribute, value)])
    found = compare_graphs(read(network()), read(model), examples=4)
    assert found.status is Status.REFUTED and found.difference is not None, found


def test_what_cannot_be_run_is_proved_by_structure_or_refused() -> None:
    def strange(bias: float) -> onnx.ModelProto:
        nodes = [helper.make_node("Strange", ["x"], ["a"], domain="mine"), helper.make_node("Add", ["a", "b"], ["y"])]
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xay"]
        weights = [helper.make_tensor("b", TensorProto.FLOAT, [], [bias])]
        graph = helper.make_graph(nodes, "g", [values[0]], [values[2]], weights, value_info=[values[1]])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)], ir_version=9)

    found = compare_graphs(read(strange(1.0)), read(strange(1.0)))
    assert found.status is Status.PROVED and any("not run" in note for note in found.notes)
    with pytest.raises(CannotRunError, match="BEFORE runs on none of the inputs tried"):
        compare_graphs(read(strange(1.0)), read(strange(2.0)))


def selected(factors: list[float], through: str = "Identity") -> onnx.ModelProto:
    """The elements of a vector that are not zero, as many as there are, times the sum of the factors."""
    nodes = [
        helper.make_node(through, ["x"], ["p"]),
        helper.make_node("NonZero", ["p"], ["q"]),
        helper.make_node("Squeeze", ["q", "axis"], ["r"]),
        helper.make_node("Gather", ["x", "r"], ["z"]),
        *(helper.make_node("Mul", ["z", f"f{i}"], [f"t{i}"]) for i in range(len(factors))),
        helper.make_node("Sum", [f"t{i}" for i in range(len(factors))], ["y"]),
    ]
    held = [numpy_helper.from_array(numpy.array([0], numpy.int64), "axis")]
    held += [numpy_helper.from_array(numpy.array(factor, numpy.float32), f"f{i}") for i, factor in enumerate(factors)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["found"])]
    graph = helper.make_graph(nodes, "selected", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_sizes_that_depend_on_data_are_the_same_where_they_come_from_the_same() -> None:
    result = compare_graphs(read(selected([2.0, 3.0])), read(selected([5.0])), timeout=30)
    assert result.status == Status.PROVED, result.reason


def test_sizes_that_depend_on_other_data_are_not_taken_for_the_same() -> None:
    result = compare_graphs(read(selected([2.0, 3.0])), read(selected([5.0], through="Relu")), timeout=30)
    assert result.status == Status.REFUTED, result.scope


def hard_swish(alpha: float | None) -> onnx.ModelProto:
    """A hard-swish in pieces, or as a HardSigmoid of this slope times its input."""
    if alpha is None:
        pieces = [("Add", ["x", "three"]), ("Clip", ["a", "zero", "six"]), ("Mul", ["x", "b"]), ("Div", ["c", "six"])]
        nodes = [helper.make_node(kind, read_names, [name]) for (kind, read_names), name in zip(pieces, "abcy", strict=True)]
    else:
        nodes = [helper.make_node("HardSigmoid", ["x"], ["a"], alpha=alpha), helper.make_node("Mul", ["x", "a"], ["y"])]
    held = [numpy_helper.from_array(numpy.array(n, numpy.float32), name) for n, name in ((0, "zero"), (3, "three"), (6, "six"))]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "c"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "c"])]
    graph = helper.make_graph(nodes, "swish", inputs, outputs, held if alpha is None else [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_a_slope_that_a_file_rounds_counts_as_the_fraction_and_the_scope_says_so() -> None:
    result = compare_graphs(read(hard_swish(None)), read(hard_swish(1 / 6)), timeout=30)
    assert result.status == Status.PROVED, result.reason
    assert "up to the rounding of folded constants" in result.scope


@pytest.mark.parametrize("alpha", [1 / 6 + 1e-6, 0.1666, 0.1667])
def test_a_slope_that_is_wrong_by_little_is_not_taken_for_the_fraction(alpha: float) -> None:
    result = compare_graphs(read(hard_swish(None)), read(hard_swish(alpha)), timeout=20)
    assert result.status != Status.PROVED


def labelled(middle: list[onnx.NodeProto], kind: int = TensorProto.STRING, shape: list[int] | None = None) -> onnx.ModelProto:
    """A model that hands a label on beside what it computes."""
    nodes = [helper.make_node("Identity", ["label"], ["same"]), *middle]
    inputs = [helper.make_tensor_value_info("label", kind, shape), helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])]
    outputs = [helper.make_tensor_value_info("same", kind, shape), helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])]
    graph = helper.make_graph(nodes, "labelled", inputs, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize(("kind", "shape"), [(TensorProto.STRING, [1]), (TensorProto.FLOAT, None)])
def test_inputs_that_cannot_be_drawn_leave_the_proof(kind: int, shape: list[int] | None) -> None:
    relu, absolute = ([helper.make_node(name, ["x"], ["y"])] for name in ("Relu", "Abs"))
    twice = [helper.make_node("Relu", ["x"], ["z"]), helper.make_node("Relu", ["z"], ["y"])]
    assert compare_graphs(read(labelled(relu, kind, shape)), read(labelled(twice, kind, shape))).status == Status.PROVED
    with pytest.raises(CannotRunError, match="which is not drawn"):
        compare_graphs(read(labelled(relu, kind, shape)), read(labelled(absolute, kind, shape)))


def test_a_type_that_is_not_known_is_no_difference() -> None:
    secret = [helper.make_node("Secret", ["x"], ["z"], domain="com.example"), helper.make_node("Relu", ["z"], ["y"])]
    with pytest.raises(CannotRunError, match="Secret"):
        compare_graphs(
            read(labelled(secret, TensorProto.FLOAT, [1])), read(labelled([helper.make_node("Relu", ["x"], ["y"])], TensorProto.FLOAT, [1]))
        )


def at_two_rates(factor: float) -> onnx.ModelProto:
    """Twice x at a rate of 16000, a factor of x at every other."""

    def times(name: str, number: float) -> onnx.GraphProto:
        nodes = [helper.make_node("Mul", ["x", f"{name} factor"], [name])]
        held = [numpy_helper.from_array(numpy.float32(number), f"{name} factor")]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)], held)

    nodes = [
        helper.make_node("Equal", ["rate", "wide"], ["is wide"]),
        helper.make_node("If", ["is wide"], ["y"], then_branch=times("wide band", factor), else_branch=times("narrow band", 3.0)),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]), helper.make_tensor_value_info("rate", TensorProto.INT64, [])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])]
    graph = helper.make_graph(nodes, "rates", inputs, outputs, [numpy_helper.from_array(numpy.array(16000), "wide")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_a_branch_that_only_one_number_takes_is_tested() -> None:
    found = compare_graphs(read(at_two_rates(2.0)), read(at_two_rates(2.5)))
    assert found.status == Status.REFUTED and found.difference is not None and found.difference.inputs["rate"] == 16000


def renamed(model: onnx.ModelProto, number: float | None = None) -> onnx.ModelProto:
    """The model with an identity more in each branch, as optimisers move them about, and perhaps another factor in the first."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    (choice,) = [node for node in result.graph.node if node.op_type == "If"]
    for attribute in choice.attribute:
        (last,) = attribute.g.node
        name, last.output[0] = last.output[0], "hidden"
        attribute.g.node.append(helper.make_node("Identity", ["hidden"], [name]))
    if number is not None:
        held = choice.attribute[0].g.initializer[0]
        held.CopyFrom(numpy_helper.from_array(numpy.float32(number), held.name))
    return result


def test_branches_that_data_decides_are_proved_one_by_one() -> None:
    model = at_two_rates(2.0)
    assert compare_graphs(read(model), read(renamed(model))).status == Status.PROVED
    assert compare_graphs(read(model), read(renamed(model, 2.5))).status == Status.REFUTED


def test_branches_in_the_other_order_are_refuted() -> None:
    model, swapped = at_two_rates(2.0), at_two_rates(2.0)
    (choice,) = [node for node in swapped.graph.node if node.op_type == "If"]
    for attribute in choice.attribute:
        attribute.name = "else_branch" if attribute.name == "then_branch" else "then_branch"
    assert compare_graphs(read(model), read(swapped)).status == Status.REFUTED


def test_what_a_branch_requires_is_not_taken_to_hold() -> None:
    """The branch multiplies x: [n] by three numbers, so that n is 3 where it is taken; elsewhere n may be anything."""
    model = at_two_rates(2.0)
    (choice,) = [node for node in model.graph.node if node.op_type == "If"]
    branch = next(attribute.g for attribute in choice.attribute if attribute.name == "then_branch")
    branch.initializer[0].CopyFrom(numpy_helper.from_array(numpy.ones((3, 1), numpy.float32), branch.initializer[0].name))
    branch.node[0].op_type = "MatMul"
    graph = with_both_branches(read(model))
    assert graph is not None and any(type(graph.operator(node)).__name__ == "MatMul" for node in graph)
    assert joined(graph, graph).facts == []


def test_a_graph_that_was_changed_since_it_was_read_is_not_read_again() -> None:
    graph = read(at_two_rates(2.0))
    assert with_both_branches(graph) is not None
    graph.outputs = [graph.outputs[0], graph.outputs[0]]
    assert with_both_branches(graph) is None


def recurrence(inputs: list[str], outputs: list[str], state: float = 0.0, batch: bool = True, **attributes: object) -> onnx.ModelProto:
    """The hidden states of an LSTM over x: [steps, batch, 3]; its state is one number, as large as the batch or of size 1."""
    names = ["w", "r", "bias"]
    shapes = [(1, 8, 3), (1, 8, 2), (1, 16)]
    held = [weight(name, *shape) for name, shape in zip(names, shapes, strict=True)]
    held.append(numpy_helper.from_array(numpy.zeros((1, 16), numpy.float32), "no bias"))
    number = numpy_helper.from_array(numpy.array([state], numpy.float32))
    sizes = ["one", "batch", "two"] if batch else ["one", "one", "two"]
    held += [numpy_helper.from_array(numpy.array([size]), name) for name, size in (("one", 1), ("two", 2))]
    nodes = [
        helper.make_node("Shape", ["x"], ["batch"], start=1, end=2),
        helper.make_node("Concat", sizes, ["size"], axis=0),
        helper.make_node("ConstantOfShape", ["size"], ["state"], value=number),
        helper.make_node("LSTM", ["x", "w", "r", *inputs], outputs, hidden_size=2, **attributes),
    ]
    info = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["steps", "batch", 3])]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["steps", 1, "batch", 2])]
    return helper.make_model(helper.make_graph(nodes, "g", info, results, held), opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


FULL = (["no bias", "", "state", "state"], ["y", "last", "cell"])


@pytest.mark.parametrize(
    ("inputs", "outputs", "attributes"),
    [([], ["y"], {}), (["no bias"], ["y", "last"], {"direction": "forward"}), (["", "", "state"], ["y", "", "cell"], {"layout": 0})],
)
def test_a_recurrence_with_less_or_more_spelled_out_is_the_same(
    inputs: list[str], outputs: list[str], attributes: dict[str, object]
) -> None:
    one, other = recurrence(*FULL), recurrence(inputs, outputs, **attributes)
    for before, after in ((one, other), (other, one)):
        assert compare_graphs(read(before), read(after)).status == Status.PROVED


@pytest.mark.parametrize(
    ("other", "status"),
    [
        (recurrence(["", "", "state"], ["y"], state=0.5), Status.REFUTED),
        (recurrence(["bias"], ["y"]), Status.REFUTED),
        (recurrence([], ["y"], direction="reverse"), Status.REFUTED),
        (recurrence(["", "", "state", "state"], ["y"], batch=False), Status.TESTED),  # the package's reference stretches the state
    ],
    ids=["a state that is not zero", "a bias that is not zero", "backwards", "a state that fits one batch alone"],
)
def test_a_recurrence_that_differs_is_not_proved(other: onnx.ModelProto, status: Status) -> None:
    assert compare_graphs(read(recurrence(*FULL)), read(other)).status == status
