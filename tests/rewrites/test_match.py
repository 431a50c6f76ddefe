"""Where a rule applies and why not: every case in which the naive answer would be wrong is compared with eager PyTorch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import BFloat16, Float, Num
from torch import Tensor

from graphs.graph import Graph, Value
from graphs.trace import Proxy, TraceError, trace
from operators.expressions import symbol
from operators.operator import TensorType, collecting_obligations
from rewrites import Absent, Axis, Pair, Requires, Rule, Weight, apply, explain, find_all, find_matches, reverse
from rewrites.conditions import ConditionError
from rewrites.host import Host
from tests.rewrites.building import assert_equal, build, draw, matches, operators_of, rewrite_once, run


class ScaleIntoConvolution(Rule):
    """A convolution scaled per output channel is the convolution with scaled kernels and bias."""

    source = "linearity of convolution"

    def pattern(
        x: Float[Tensor, "n groups*c h w"], weight: Weight[Float[Tensor, "groups*o c kh kw"]], bias: Weight[Float[Tensor, "groups*o"]],
        scale: Weight[Float[Tensor, "groups*o 1 1"]], stride: Pair, padding: Pair, dilation: Pair, groups: int,
    ):  # fmt: skip
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups) * scale

    def replacement(x, weight, bias, scale, stride, padding, dilation, groups):
        return F.conv2d(x, weight * scale[..., None], bias * scale[:, 0, 0], stride, padding, dilation, groups)


class MergeProducts(Rule):
    """Two products of one matrix are the parts of one product."""

    source = "block matrices"

    def pattern(x: Float[Tensor, "*batch m k"], a: Float[Tensor, "k p"], b: Float[Tensor, "k q"]):
        return x @ a, x @ b

    def replacement(x, a, b):
        return torch.split(x @ torch.cat([a, b], -1), [a.shape[-1], b.shape[-1]], -1)


class ReluTwice(Rule):
    """Relu of relu is relu."""

    source = "idempotence"

    def pattern(x: Float[Tensor, "..."]):
        return torch.relu(torch.relu(x))

    def replacement(x):
        return torch.relu(x)


class ProductOfSumWithItself(Rule):
    """(x + y)·x is x·x + y·x."""

    source = "distributivity"

    def pattern(x: Float[Tensor, "*s"], y: Float[Tensor, "*s"]):
        return (x + y) * x

    def replacement(x, y):
        return x * x + y * x


class FactorProduct(Rule):
    """x·a + y·a is (x + y)·a for matrices."""

    source = "distributivity"

    def pattern(x: Float[Tensor, "m k"], y: Float[Tensor, "m k"], a: Float[Tensor, "k n"]):
        return x @ a + y @ a

    def replacement(x, y, a):
        return (x + y) @ a


class SoftmaxShift(Rule):
    """Softmax does not change when one number is added along its axis."""

    source = "definition of softmax"

    def pattern(x: Float[Tensor, "*s"], c: float, axis: Axis):
        return torch.softmax(x + c, axis)

    def replacement(x, c, axis):
        return torch.softmax(x, axis)


class PositiveScaleOutOfRelu(Rule):
    """Relu commutes with a scale that is not negative."""

    source = "positive homogeneity"
    requires = [Requires("the scale is not negative", lambda scale: scale >= 0)]

    def pattern(x: Float[Tensor, "m n"], scale: Float[Tensor, "n"]):
        return torch.relu(x * scale)

    def replacement(x, scale):
        return torch.relu(x) * scale


class DropDropoutTwice(Rule):
    """Relu and dropout commute."""

    source = "dropout scales by numbers that are not negative"

    def pattern(x: Float[Tensor, "*s"], p: float):
        return torch.relu(F.dropout(x, p, True))

    def replacement(x, p):
        return F.dropout(torch.relu(x), p, True)


class AddZeroTimes(Rule):
    """x + 0·y is x."""

    source = "absorption"

    def pattern(x: Float[Tensor, "*s"], y: Float[Tensor, "*s"]):
        return x + 0.0 * y

    def replacement(x, y):
        return x


X = {"x": draw(2, 6, 8, 7)}
CONVOLUTION = {"w": draw(9, 2, 3, 2), "s": draw(9, 1, 1)}


def strided(x, w, s, b=None):
    return F.conv2d(x, w, b, (2, 1), (1, 0), (1, 2), 3) * s


# --- attributes, dims, optional operands ---------------------------------------------------------------------------------


def test_attributes_and_dims_are_bound_from_the_graph():
    (match,) = matches(ScaleIntoConvolution, build(strided, X, CONVOLUTION | {"b": draw(9)}))
    assert match.bindings["stride"] == (2, 1)
    assert match.bindings["padding"] == (1, 0)
    assert match.bindings["dilation"] == (1, 2)
    assert match.bindings["groups"] == 3
    assert {name: match.dims[name] for name in ["n", "c", "o", "h", "w", "kh", "kw"]} == {
        "n": 2,
        "c": 2,
        "o": 3,
        "h": 8,
        "w": 7,
        "kh": 3,
        "kw": 2,
    }
    rewrite_once(ScaleIntoConvolution, build(strided, X, CONVOLUTION | {"b": draw(9)}), X)


def test_an_absent_bias_is_a_tensor_of_zeros():
    graph = build(strided, X, CONVOLUTION)
    (match,) = matches(ScaleIntoConvolution, graph)
    assert match.bindings["bias"] == Absent(0.0, TensorType((9,), "float64"))
    after = rewrite_once(ScaleIntoConvolution, graph, X)
    assert operators_of(after)[-1] == "Conv2d"


def test_commuting_operands_match_both_ways():
    graph = build(lambda x, w, s: s * F.conv2d(x, w, None, (2, 1), (1, 0), (1, 2), 3), X, CONVOLUTION)
    assert "Multiply" in operators_of(graph)
    rewrite_once(ScaleIntoConvolution, graph, X)


def test_operands_that_do_not_commute_match_one_way_only():
    class DifferenceOfRelu(Rule):
        """relu(x) − x is relu(−x)."""

        source = "case split"

        def pattern(x: Float[Tensor, "*s"]):
            return torch.relu(x) - x

        def replacement(x):
            return torch.relu(-x)

    inputs = {"x": draw(5)}
    rewrite_once(DifferenceOfRelu, build(lambda x: torch.relu(x) - x, inputs), inputs)
    assert not matches(DifferenceOfRelu, build(lambda x: x - torch.relu(x), inputs))


def test_a_polynomial_attribute_is_solved_or_compared():
    class PadIntoConvolution(Rule):
        """Padding by 2p + 1 before a convolution is padding within it."""

        source = "definition of convolution"

        def pattern(x: Float[Tensor, "n c h w"], weight: Float[Tensor, "o c kh kw"], p: int):
            return F.conv2d(x, weight, None, 1, (2 * p + 1, p))

        def replacement(x, weight, p):
            return F.conv2d(x, weight, None, 1, (2 * p + 1, p))

    weight = {"w": draw(4, 6, 3, 3)}
    (match,) = matches(PadIntoConvolution, build(lambda x, w: F.conv2d(x, w, None, 1, (5, 2)), X, weight))
    assert match.bindings["p"] == 2
    assert not matches(PadIntoConvolution, build(lambda x, w: F.conv2d(x, w, None, 1, (4, 2)), X, weight))
    assert not matches(PadIntoConvolution, build(lambda x, w: F.conv2d(x, w, None, 1, (5, 1)), X, weight))


def test_a_number_in_the_pattern_must_be_that_number():
    inputs = {"x": draw(4), "y": draw(4, seed=1)}
    assert len(matches(AddZeroTimes, build(lambda x, y: x + 0.0 * y, inputs))) == 1
    assert not matches(AddZeroTimes, build(lambda x, y: x + 1.0 * y, inputs))
    assert not matches(AddZeroTimes, build(lambda x, y: x + -0.0 * y, inputs))


def test_a_real_attribute_matches_a_python_number_and_no_tensor():
    inputs = {"x": draw(3, 4)}
    for rank, axis in ((2, -1), (2, 0)):
        graph = build(lambda x, axis=axis: torch.softmax(x + 1.5, axis), inputs)
        (match,) = matches(SoftmaxShift, graph)
        assert match.bindings["axis"] == axis - rank * (axis >= 0)
        rewrite_once(SoftmaxShift, graph, inputs)
    assert not matches(SoftmaxShift, build(lambda x, t: torch.softmax(x + t, -1), inputs, {"t": draw(3, 4, seed=3)}))


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 1, 3, 4)])
def test_a_variadic_rule_matches_at_every_rank(shape):
    inputs = {"x": draw(*shape)}
    after = rewrite_once(ReluTwice, build(lambda x: torch.relu(torch.relu(x)), inputs), inputs)
    assert operators_of(after) == ["Relu"]


def test_batch_dims_are_found_and_must_agree():
    inputs = {"x": draw(2, 3, 4, 5)}
    weights = {"a": draw(5, 2), "b": draw(5, 3)}
    rewrite_once(MergeProducts, build(lambda x, a, b: (x @ a, x @ b), inputs, weights), inputs)


# --- what must be equal ------------------------------------------------------------------------------------------------


def test_a_variable_used_twice_must_bind_the_same_tensor():
    inputs = {"x": draw(3, 4), "y": draw(3, 4, seed=1)}
    rewrite_once(FactorProduct, build(lambda x, y, a: x @ a + y @ a, inputs, {"a": draw(4, 2)}), inputs)
    different = build(lambda x, y, a, b: x @ a + y @ b, inputs, {"a": draw(4, 2), "b": draw(4, 2, seed=9)})
    assert not matches(FactorProduct, different)


def test_constants_of_equal_content_are_the_same_tensor():
    inputs = {"x": draw(3, 4), "y": draw(3, 4, seed=1)}
    graph = build(lambda x, y, a, b: x @ a + y @ b, inputs, {"a": draw(4, 2), "b": draw(4, 2)})
    rewrite_once(FactorProduct, graph, inputs)


def test_constants_that_differ_in_the_sign_of_zero_are_not_the_same():
    inputs = {"x": draw(3, 4), "y": draw(3, 4, seed=1)}
    zeros = torch.zeros(4, 2, dtype=torch.float64)
    assert not matches(FactorProduct, build(lambda x, y, a, b: x @ a + y @ b, inputs, {"a": zeros, "b": -zeros}))


def test_two_variables_may_bind_one_tensor():
    inputs = {"x": draw(3, 4)}
    graph = build(lambda x, a: x @ a + x @ a * 1.0, inputs, {"a": draw(4, 2)})
    assert not matches(FactorProduct, graph)
    graph = build(lambda x, a: (lambda y: y + y)(x @ a), inputs, {"a": draw(4, 2)})
    after = rewrite_once(FactorProduct, graph, inputs)
    assert operators_of(after) == ["Add", "MatMul"]


def test_commuting_operands_with_a_repeated_variable_try_every_order():
    inputs = {"x": draw(5), "y": draw(5, seed=1)}
    for function in (
        lambda x, y: (x + y) * x,
        lambda x, y: x * (x + y),
        lambda x, y: x * (y + x),
        lambda x, y: (y + x) * x,
    ):
        assert len(matches(ProductOfSumWithItself, build(function, inputs))) == 1
        rewrite_once(ProductOfSumWithItself, build(function, inputs), inputs)
    assert not matches(ProductOfSumWithItself, build(lambda x, y: (x + y) * torch.relu(x), inputs))


def test_tensors_of_one_rule_have_one_dtype():
    graph = build(
        lambda x, y, a: (x @ a.to(torch.float32)).to(torch.float64) + y @ a,
        {"x": draw(3, 4).float(), "y": draw(3, 4)},
        {"a": draw(4, 2)},
    )
    assert not matches(FactorProduct, graph)


def test_explicit_dtypes_are_respected():
    class CastOfSum(Rule):
        """The sum of two bfloat16 tensors commutes."""

        source = "commutativity"

        def pattern(x: BFloat16[Tensor, "n"], y: BFloat16[Tensor, "n"]):
            return torch.relu(x + y)

        def replacement(x, y):
            return torch.relu(y + x)

    inputs = {"x": draw(4), "y": draw(4, seed=1)}
    assert not matches(CastOfSum, build(lambda x, y: torch.relu(x + y), inputs))
    low = {name: tensor.to(torch.bfloat16) for name, tensor in inputs.items()}
    assert len(matches(CastOfSum, build(lambda x, y: torch.relu(x + y), low))) == 2


def test_a_cast_in_the_pattern_must_be_that_cast():
    class SumInDouble(Rule):
        """Relu in float64 is relu, then the cast."""

        source = "relu is exact"

        def pattern(x: Float[Tensor, "n"]):
            return torch.relu(x.to(torch.float64))

        def replacement(x):
            return torch.relu(x).to(torch.float64)

    single = {"x": draw(4).float()}
    rewrite_once(SumInDouble, build(lambda x: torch.relu(x.to(torch.float64)), single), single)
    half = {"x": draw(4).half()}
    assert not matches(SumInDouble, build(lambda x: torch.relu(x.to(torch.float32)), half))


# --- weights and conditions -----------------------------------------------------------------------------------------------


def test_a_weight_may_be_an_expression_of_constants_and_nothing_that_depends_on_an_input():
    graph = build(lambda x, w, s: F.conv2d(x, w * 2.0, None, (2, 1), (1, 0), (1, 2), 3) * torch.exp(s), X, CONVOLUTION)
    rewrite_once(ScaleIntoConvolution, graph, X)
    dynamic = X | {"s": draw(9, 1, 1)}
    graph = build(strided, dynamic, {"w": CONVOLUTION["w"]})
    assert not matches(ScaleIntoConvolution, graph)
    (miss,) = explain(ScaleIntoConvolution, graph)
    assert "scale must be a constant" in miss.reason


def test_a_condition_on_values_is_evaluated_on_constants():
    inputs = {"x": draw(3, 4)}
    scale = draw(4).abs()
    rewrite_once(PositiveScaleOutOfRelu, build(lambda x, s: torch.relu(x * s), inputs, {"s": scale}), inputs)
    rewrite_once(PositiveScaleOutOfRelu, build(lambda x, s: torch.relu(x * torch.exp(s)), inputs, {"s": -scale}), inputs)
    mixed = scale * torch.tensor([1.0, 1.0, -1.0, 1.0], dtype=torch.float64)
    graph = build(lambda x, s: torch.relu(x * s), inputs, {"s": mixed})
    assert not matches(PositiveScaleOutOfRelu, graph)
    (miss,) = explain(PositiveScaleOutOfRelu, graph)
    assert 'the condition "the scale is not negative" fails for the values of scale' in miss.reason


def test_a_condition_on_values_does_not_hold_of_what_is_no_constant():
    inputs = {"x": draw(3, 4), "s": draw(4)}
    graph = build(lambda x, s: torch.relu(x * s), inputs)
    assert not matches(PositiveScaleOutOfRelu, graph)
    assert any("to be a constant" in miss.reason for miss in explain(PositiveScaleOutOfRelu, graph))


class MergeEqualKernels(Rule):
    """Convolutions of one input with kernels of one odd size add up to one convolution."""

    source = "linearity of convolution"
    requires = [Requires("kernels are odd", lambda k: k % 2 == 1), Requires("there is no dilation", lambda dilation: dilation == 1)]

    def pattern(x: Float[Tensor, "n c h w"], a: Float[Tensor, "o c k k"], b: Float[Tensor, "o c k k"], dilation: int):
        return F.conv2d(x, a, None, 1, 0, dilation) + F.conv2d(x, b, None, 1, 0, dilation)

    def replacement(x, a, b, dilation):
        return F.conv2d(x, a + b, None, 1, 0, dilation)


@pytest.mark.parametrize(
    ("kernel", "dilation", "reason"),
    [(3, 1, None), (2, 1, 'the condition "kernels are odd" fails for k = 2'), (3, 2, "there is no dilation")],
)
def test_conditions_on_sizes_are_evaluated(kernel, dilation, reason):
    weights = {"a": draw(4, 6, kernel, kernel), "b": draw(4, 6, kernel, kernel, seed=1)}
    graph = build(lambda x, a, b: F.conv2d(x, a, None, 1, 0, dilation) + F.conv2d(x, b, None, 1, 0, dilation), X, weights)
    if reason is None:
        rewrite_once(MergeEqualKernels, graph, X)
    else:
        assert not matches(MergeEqualKernels, graph)
        (miss,) = explain(MergeEqualKernels, graph)
        assert reason in miss.reason


def test_kernels_of_different_sizes_are_a_near_miss_with_its_reason():
    weights = {"a": draw(4, 6, 3, 3), "b": draw(4, 6, 1, 1)}
    graph = build(lambda x, a, b: F.conv2d(x, a) + F.conv2d(F.pad(x, (-1, -1, -1, -1)), b), X, weights)
    assert not matches(MergeEqualKernels, graph)
    (miss,) = explain(MergeEqualKernels, graph)
    assert miss.node == graph.outputs[0].node
    assert "x must be one tensor" in miss.reason


# --- several outputs ---------------------------------------------------------------------------------------------------


def test_several_outputs_are_found_through_shared_operands():
    inputs = {"x": draw(3, 5), "z": draw(3, 5, seed=4)}
    weights = {"a": draw(5, 2), "b": draw(5, 3), "c": draw(5, 4)}
    graph = build(lambda x, z, a, b, c: (x @ a, z @ b, x @ c), inputs, weights)
    found = matches(MergeProducts, graph)
    assert len(found) == 2
    assert all({value.node for value in match.outputs} == {graph.outputs[0].node, graph.outputs[2].node} for match in found)
    rewrite_once(MergeProducts, graph, inputs)


def test_outputs_that_depend_on_one_another_are_not_merged():
    inputs = {"x": draw(4, 4)}

    def chained(x, a):
        first = x @ a
        return x @ torch.relu(first)

    graph = build(chained, inputs, {"a": draw(4, 4)})
    assert not matches(MergeProducts, graph)
    assert any("cycle" in miss.reason for miss in explain(MergeProducts, graph))


def test_one_tensor_of_the_graph_is_not_two_outputs():
    inputs = {"x": draw(3, 5)}
    graph = build(lambda x, a: x @ a, inputs, {"a": draw(5, 2)})
    assert not matches(MergeProducts, graph)


def test_two_products_with_one_weight_merge():
    inputs = {"x": draw(3, 5)}
    graph = build(lambda x, a: (x @ a, torch.relu(x) @ a, x @ a), inputs, {"a": draw(5, 2)})
    rewrite_once(MergeProducts, graph, inputs)


# --- what else reads the match ------------------------------------------------------------------------------------------


def test_an_intermediate_that_is_used_elsewhere_stays_alive_and_is_reported():
    def function(x, w, s):
        y = F.conv2d(x, w, None, (2, 1), (1, 0), (1, 2), 3)
        return y * s, torch.relu(y)

    graph = build(function, X, CONVOLUTION)
    (match,) = matches(ScaleIntoConvolution, graph)
    convolution = next(node for node in graph if type(graph.operator(node)).__name__ == "Conv2d")
    assert match.kept == (convolution,)
    after = rewrite_once(ScaleIntoConvolution, graph, X)
    assert operators_of(after).count("Conv2d") == 2


def test_an_intermediate_that_is_an_output_stays_alive():
    inputs = {"x": draw(4)}

    def function(x):
        inner = torch.relu(x)
        return inner, torch.relu(inner)

    graph = build(function, inputs)
    (match,) = matches(ReluTwice, graph)
    assert match.kept == (graph.outputs[0].node,)
    after = rewrite_once(ReluTwice, graph, inputs)
    assert len(after.outputs) == 2


def test_the_reads_of_a_replaced_output_do_not_keep_it_alive():
    inputs = {"x": draw(4)}
    graph = build(lambda x: (lambda y: (y, y + 1.0, y))(torch.relu(torch.relu(x))), inputs)
    (match,) = matches(ReluTwice, graph)
    assert match.kept == ()
    rewrite_once(ReluTwice, graph, inputs)


# --- effects -------------------------------------------------------------------------------------------------------------


def test_a_random_operator_moves_but_is_not_repeated():
    inputs = {"x": draw(4)}
    once = build(lambda x: torch.relu(F.dropout(x, 0.5, True)), inputs)
    (match,) = matches(DropDropoutTwice, once)
    assert match.kept == ()

    def shared(x):
        y = F.dropout(x, 0.5, True)
        return torch.relu(y), y

    graph = build(shared, inputs)
    assert not matches(DropDropoutTwice, graph)
    (miss,) = explain(DropDropoutTwice, graph)
    assert "is used elsewhere (2 uses) and may not be repeated" in miss.reason


def test_a_random_operator_is_not_merged_away():
    class DropoutOfEqualInputs(Rule):
        """Two dropouts of one tensor are one."""

        source = "wrong: they draw different numbers"

        def pattern(x: Float[Tensor, "*s"]):
            return F.dropout(x, 0.5, True) + F.dropout(x, 0.5, True)

        def replacement(x):
            return 2.0 * F.dropout(x, 0.5, True)

    graph = build(lambda x: F.dropout(x, 0.5, True) + F.dropout(x, 0.5, True), {"x": draw(4)})
    assert not matches(DropoutOfEqualInputs, graph)
    (miss,) = explain(DropoutOfEqualInputs, graph)
    assert "do not hold the same random" in miss.reason


def test_two_random_operators_of_a_pattern_are_not_one_of_the_graph():
    class DropoutsCommute(Rule):
        """The sum of two dropouts commutes with relu of them."""

        source = "near miss"

        def pattern(x: Float[Tensor, "*s"], y: Float[Tensor, "*s"]):
            return torch.relu(F.dropout(x, 0.5, True)) + torch.relu(F.dropout(y, 0.5, True))

        def replacement(x, y):
            return F.dropout(torch.relu(x), 0.5, True) + F.dropout(torch.relu(y), 0.5, True)

    def shared(x):
        y = torch.relu(F.dropout(x, 0.5, True))
        return y + y

    assert not matches(DropoutsCommute, build(shared, {"x": draw(4)}))


# --- symbolic sizes --------------------------------------------------------------------------------------------------------


def symbolic(function, shapes, constants=None):
    graph = Graph()
    arguments = {name: Proxy(graph, graph.input(name, TensorType(shape, "float64"))) for name, shape in shapes.items()}
    arguments |= {name: Proxy(graph, graph.constant(name, tensor)) for name, tensor in (constants or {}).items()}
    with collecting_obligations():
        graph.outputs = trace(lambda: function(**arguments), [], graph)
    return graph


def test_symbolic_sizes_of_the_graph_bind_dims_of_the_same_names_without_confusion():
    graph = symbolic(lambda x, a, b: (x @ a, x @ b), {"x": (symbol("k"), symbol("m"), 5)}, {"a": draw(5, 2), "b": draw(5, 3)})
    match = matches(MergeProducts, graph)[0]
    assert match.dims["k"] == 5
    assert match.dims["m"] == symbol("m")

    after = apply(match, graph).graph
    after.validate()
    assert [after.type(value) for value in after.outputs] == [graph.type(value) for value in graph.outputs]


def test_a_condition_that_is_not_known_for_symbolic_sizes_does_not_hold():
    class FewRows(Rule):
        """Relu of relu is relu for few rows."""

        source = "idempotence"
        requires = [Requires("rows are few", lambda n: n <= 8)]

        def pattern(x: Float[Tensor, "n"]):
            return torch.relu(torch.relu(x))

        def replacement(x):
            return torch.relu(x)

    assert len(matches(FewRows, build(lambda x: torch.relu(torch.relu(x)), {"x": draw(8)}))) == 1
    graph = symbolic(lambda x: torch.relu(torch.relu(x)), {"x": (symbol("s"),)})
    assert not matches(FewRows, graph)
    (miss,) = [miss for miss in explain(FewRows, graph) if miss.node == graph.outputs[0].node]
    assert "is not known for symbolic sizes for n = s" in miss.reason


# --- explaining, incremental matching, both directions ------------------------------------------------------------------


def test_explain_names_the_first_operand_that_failed():
    graph = build(lambda x, w, s: torch.relu(F.conv2d(x, w, None, (2, 1), (1, 0), (1, 2), 3)) * s, X, CONVOLUTION)
    (miss,) = explain(ScaleIntoConvolution, graph)
    assert miss.node == graph.outputs[0].node
    assert "must be Conv2d, got node" in miss.reason and "(Relu)" in miss.reason
    assert str(miss).startswith("ScaleIntoConvolution at node")


def test_explain_says_when_there_is_no_candidate_and_nothing_of_a_match():
    inputs = {"x": draw(4)}
    (miss,) = explain(ReluTwice, build(lambda x: x + 1.0, inputs))
    assert (miss.node, miss.reason) == (None, "the graph has no Relu")
    graph = build(lambda x: torch.relu(torch.relu(x)), inputs)
    assert [miss.node for miss in explain(ReluTwice, graph)] == [graph.operands(graph.outputs[0].node)[0].node]


def test_explain_names_an_attribute():
    class UnitStride(Rule):
        """A convolution of stride 1."""

        source = "near miss"

        def pattern(x: Float[Tensor, "n c h w"], a: Float[Tensor, "o c k k"]):
            return torch.relu(F.conv2d(x, a, None, 1))

        def replacement(x, a):
            return torch.relu(F.conv2d(x, a, None, 1))

    graph = build(lambda x, a: torch.relu(F.conv2d(x, a, None, 2)), X, {"a": draw(4, 6, 3, 3)})
    (miss,) = explain(UnitStride, graph)
    assert "attribute stride of node" in miss.reason and "must be (1, 1), got (2, 2)" in miss.reason


def test_matches_around_a_change_are_those_that_cover_it():
    inputs = {"x": draw(4)}

    def chain(x):
        for _ in range(6):
            x = torch.relu(x)
        return x

    graph = build(chain, inputs)
    everything = matches(ReluTwice, graph)
    assert len(everything) == 5
    for node in [n for n in graph if type(graph.operator(n)).__name__ == "Relu"]:
        local = {match.key for match in find_matches(ReluTwice, graph, around=[node])}
        assert local == {match.key for match in everything if node in match.nodes}


def test_matches_around_a_change_find_every_output_of_a_rule():
    inputs = {"x": draw(3, 5)}
    graph = build(lambda x, a, b: (x @ a, x @ b), inputs, {"a": draw(5, 2), "b": draw(5, 3)})
    for value in graph.outputs:
        assert len(list(find_matches(MergeProducts, graph, around=[value.node]))) == 2


def test_all_rules_together_find_what_each_finds():
    inputs = {"x": draw(3, 5)}
    graph = build(lambda x, a, b: (torch.relu(torch.relu(x @ a)), x @ b), inputs, {"a": draw(5, 2), "b": draw(5, 3)})
    rules = [ReluTwice, MergeProducts, FactorProduct]
    assert [match.key for match in find_all(rules, graph)] == [match.key for rule in rules for match in matches(rule, graph)]


def test_a_rule_read_from_right_to_left_undoes_itself():
    inputs = {"x": draw(3, 5)}
    graph = build(lambda x, a, b: (x @ a, x @ b), inputs, {"a": draw(5, 2), "b": draw(5, 3)})
    merged = rewrite_once(MergeProducts, graph, inputs)
    assert operators_of(merged).count("MatMul") == 1
    back = rewrite_once(reverse(MergeProducts), merged, inputs)
    assert operators_of(back) == operators_of(graph)


def test_a_rule_whose_left_side_is_a_bare_variable_matches_nowhere():
    class Identity(Rule):
        """x is x plus zero."""

        source = "neutral element"

        def pattern(x: Float[Tensor, "*s"]):
            return x * 1.0

        def replacement(x):
            return x

    graph = build(lambda x: torch.relu(x) * 1.0, {"x": draw(4)})
    assert len(matches(Identity, graph)) == 1
    assert not matches(reverse(Identity), graph)
    (miss,) = explain(reverse(Identity), graph)
    assert "returns x as it is" in miss.reason


def test_a_naive_rewrite_of_a_shared_intermediate_would_be_wrong():
    inputs = {"x": draw(4)}

    def function(x):
        inner = torch.relu(x - 0.5)
        return torch.relu(inner) * 2.0, inner * 3.0

    graph = build(function, inputs)
    after = rewrite_once(ReluTwice, graph, inputs)
    assert_equal(list(function(**inputs)), run(after, inputs))


def test_a_condition_on_a_size_that_is_not_determined_does_not_hold():
    class EvenChannels(Rule):
        """Relu of relu is relu for an even number of channels in each group."""

        source = "idempotence"
        requires = [Requires("channels are even", lambda c: c % 2 == 0)]

        def pattern(x: Float[Tensor, "groups*c"], y: Float[Tensor, "groups"]):
            return torch.relu(torch.relu(x)).sum() + y

        def replacement(x, y):
            return torch.relu(x).sum() + y

    function = lambda x, y: torch.relu(torch.relu(x)).sum() + y  # noqa: E731
    assert len(matches(EvenChannels, build(function, {"x": draw(8), "y": draw(4)}))) == 1
    graph = build(function, {"x": draw(0), "y": draw(0)})
    assert not matches(EvenChannels, graph)
    assert any("needs c, which is not determined" in miss.reason for miss in explain(EvenChannels, graph))


def test_a_rule_whose_function_raises_is_named():
    class Raising(Rule):
        """A rule with a mistake."""

        source = "wrong"

        def pattern(x: Float[Tensor, "n"]):
            return torch.relu(x)[{}["key"]]

        def replacement(x):
            return torch.relu(x)

    with pytest.raises(TraceError, match="Raising: its pattern raises KeyError: 'key'"):
        matches(Raising, build(lambda x: torch.relu(x), {"x": draw(4)}))


def test_a_condition_that_raises_is_named():
    class Raising(Rule):
        """Relu of a product is the product."""

        source = "wrong"
        requires = [Requires("the scale is nice", lambda scale: scale.nice())]

        def pattern(x: Float[Tensor, "n"], scale: Float[Tensor, "n"]):
            return torch.relu(x * scale)

        def replacement(x, scale):
            return x * scale

    graph = build(lambda x, s: torch.relu(x * s), {"x": draw(4)}, {"s": draw(4)})
    with pytest.raises(ConditionError, match='Raising: the condition "the scale is nice" raised AttributeError'):
        matches(Raising, graph)


def test_an_axis_for_which_the_pattern_degenerates_does_not_hide_the_others():
    class SumOfTransposed(Rule):
        """Summing a transposed tensor along its last axis is summing the axis that came there."""

        source = "definition of transposition"

        def pattern(x: Float[Tensor, "*s"], axis: Axis):
            return torch.relu(x).transpose(axis, -1).sum(-1)

        def replacement(x, axis):
            return torch.relu(x).transpose(axis, -1).sum(-1)

    inputs = {"x": draw(2, 3, 4)}
    for axis in (-3, -2):
        graph = build(lambda x, axis=axis: torch.relu(x).transpose(axis, -1).sum(-1), inputs)
        assert [match.bindings["axis"] for match in matches(SumOfTransposed, graph)] == [axis]
        rewrite_once(SumOfTransposed, graph, inputs)


def test_an_expression_of_symbolic_size_is_no_constant():
    graph = symbolic(lambda x: torch.relu(x * torch.ones_like(x)), {"x": (symbol("s"), 4)})
    ones = next(node for node in graph if type(graph.operator(node)).__name__ == "Full")
    assert not Host(graph).is_constant(Value(ones))
    graph = symbolic(lambda x: torch.relu(x * torch.ones(4, dtype=torch.float64)), {"x": (symbol("s"), 4)})
    constant = next(node for node in graph if type(graph.operator(node)).__name__ in ("Full", "Constant"))
    assert Host(graph).is_constant(Value(constant))


def test_an_absent_operand_may_have_a_symbolic_size():
    class NormaliseWithoutScale(Rule):
        """A layer norm's shift may be added afterwards."""

        source = "definition of layer norm"

        def pattern(x: Float[Tensor, "n c"], shift: Float[Tensor, "c"], eps: float):
            return F.layer_norm(x, (x.shape[-1],), None, shift, eps)

        def replacement(x, shift, eps):
            return F.layer_norm(x, (x.shape[-1],), None, None, eps) + shift

    graph = symbolic(lambda x: F.layer_norm(x, (x.shape[-1],), None, None, 1e-5), {"x": (3, symbol("s"))})
    (match,) = matches(NormaliseWithoutScale, graph)
    assert match.bindings["shift"] == Absent(0.0, TensorType((symbol("s"),), "float64"))
    after = apply(match, graph).graph
    assert [after.type(value) for value in after.outputs] == [graph.type(value) for value in graph.outputs]


class SumOfRepeated(Rule):
    """n times a number is the sum of n of it."""

    source = "definition of the product"

    def pattern(x: Float[Tensor, "n+2"], y: Float[Tensor, "1"]):
        return y.sum() * (x.shape[0] - 2) + x.sum()

    def replacement(x, y):
        return y.expand(x.shape[0] - 2).sum() + x.sum()


@pytest.mark.parametrize(("size", "count"), [(1, 0), (2, 1), (5, 1)])
def test_a_size_is_never_negative(size: int, count: int) -> None:
    graph = build(lambda x, y: y.sum() * (size - 2) + x.sum(), {"x": torch.ones(size), "y": torch.ones(1)})
    assert len(list(find_matches(SumOfRepeated, graph))) == count


class SquareOfMagnitude(Rule):
    """The square of a magnitude is the square; not so of complex numbers."""

    source = "definition of the magnitude"

    def pattern(x: Num[Tensor, "n"]):
        return x.abs() * x.abs()

    def replacement(x):
        return x * x


@pytest.mark.parametrize(("dtype", "count"), [("float32", 1), ("int64", 1), ("complex64", 0)])
def test_a_rule_over_numbers_leaves_complex_ones_alone(dtype: str, count: int) -> None:
    graph = Graph()
    x = Proxy(graph, graph.input("x", TensorType((3,), dtype)))
    graph.outputs = trace(lambda x: x.abs() * x.abs(), [x], graph)
    assert len(list(find_matches(SquareOfMagnitude, graph))) == count
