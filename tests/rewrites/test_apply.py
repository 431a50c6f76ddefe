"""Applying rules: outputs and types stay, dead nodes go, effects are kept, and every rewrite can be taken back."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from graphs.graph import Graph, Value
from rewrites import RewriteError, Rule, Weight, apply, apply_in_place, find_all, find_matches, reverse
from tests.rewrites.building import assert_equal, build, draw, matches, operators_of, rewrite_once, run


class ReluTwice(Rule):
    """Relu of relu is relu."""

    source = "idempotence"

    def pattern(x: Float[Tensor, "..."]):
        return torch.relu(torch.relu(x))

    def replacement(x):
        return torch.relu(x)


class MultiplyByOne(Rule):
    """x·1 is x."""

    source = "neutral element"

    def pattern(x: Float[Tensor, "..."]):
        return x * 1.0

    def replacement(x):
        return x


class MergeProducts(Rule):
    """Two products of one matrix are the parts of one product."""

    source = "block matrices"

    def pattern(x: Float[Tensor, "*batch m k"], a: Float[Tensor, "k p"], b: Float[Tensor, "k q"]):
        return x @ a, x @ b

    def replacement(x, a, b):
        return torch.split(x @ torch.cat([a, b], -1), [a.shape[-1], b.shape[-1]], -1)


class ScaleIntoLinear(Rule):
    """A scale after a linear map goes into its weight and bias."""

    source = "linearity"

    def pattern(x: Float[Tensor, "*b k"], weight: Weight[Float[Tensor, "n k"]], bias: Weight[Float[Tensor, "n"]], scale: float):
        return F.linear(x, weight, bias) * scale

    def replacement(x, weight, bias, scale):
        return F.linear(x, weight * scale, bias * scale)


def snapshot(graph: Graph) -> tuple:
    network = graph.network
    edges = sorted((a, b, key) for a, b, key in network.edges(keys=True))
    nodes = {node: (graph.operator(node), graph.types(node), data["arity"]) for node, data in network.nodes(data=True)}
    return nodes, edges, list(graph.inputs), list(graph.outputs), {name: id(t) for name, t in graph.constants.items()}, graph._next


def chain(x):
    return torch.relu(torch.relu(torch.relu(x) * 1.0)) * 1.0


def test_applying_to_a_copy_leaves_the_graph_as_it_is():
    inputs = {"x": draw(5)}
    graph = build(chain, inputs)
    before = snapshot(graph)
    applied = apply(matches(ReluTwice, graph)[0], graph)
    assert snapshot(graph) == before
    assert applied.graph is not graph
    assert_equal(run(graph, inputs), run(applied.graph, inputs))


def test_what_was_added_removed_and_rewired_is_told():
    inputs = {"x": draw(5)}
    graph = build(lambda x: torch.relu(torch.relu(x)) + x, inputs)
    (match,) = matches(ReluTwice, graph)
    applied = apply(match, graph)
    assert set(applied.removed) == set(match.nodes)
    assert [type(applied.graph.operator(node)).__name__ for node in applied.added] == ["Relu"]
    assert [type(applied.graph.operator(node)).__name__ for node in applied.rewired] == ["Add"]
    assert applied.touched == applied.added + applied.rewired


@pytest.mark.parametrize("rule", [ReluTwice, MultiplyByOne])
def test_a_rewrite_in_place_can_be_taken_back(rule):
    inputs = {"x": draw(5)}
    graph = build(chain, inputs)
    before = snapshot(graph)
    for match in matches(rule, graph):
        applied = apply_in_place(match, graph)
        graph.validate()
        assert snapshot(graph) != before
        applied.undo()
        assert snapshot(graph) == before


def test_rewrites_are_taken_back_in_reverse_order():
    inputs = {"x": draw(3, 4)}

    def function(x, a, b):
        return torch.relu(torch.relu(x @ a)) * 1.0, x @ b, F.linear(x, a.mT, None) * 3.0

    graph = build(function, inputs, {"a": draw(4, 2), "b": draw(4, 3)})
    expected = run(graph, inputs)
    states, undo = [], []
    while match := next(find_all([ReluTwice, MultiplyByOne, MergeProducts, ScaleIntoLinear], graph), None):
        states.append(snapshot(graph))
        undo.append(apply_in_place(match, graph))
        graph.validate()
        assert_equal(expected, run(graph, inputs))
    assert len(states) >= 4
    for state, applied in zip(reversed(states), reversed(undo), strict=True):
        applied.undo()
        assert snapshot(graph) == state


def test_a_rewrite_is_taken_back_once():
    graph = build(chain, {"x": draw(5)})
    applied = apply_in_place(matches(ReluTwice, graph)[0], graph)
    applied.undo()
    with pytest.raises(RewriteError, match="was taken back already"):
        applied.undo()


def test_an_output_that_becomes_a_bound_value_is_rewired():
    inputs = {"x": draw(5)}
    graph = build(lambda x: (torch.relu(x) * 1.0, (torch.relu(x) * 1.0) + 2.0), inputs)
    for _ in range(2):
        graph = rewrite_once(MultiplyByOne, graph, inputs)
    assert "Multiply" not in operators_of(graph)
    assert not matches(MultiplyByOne, graph)


def test_an_output_that_becomes_an_input_of_the_graph_keeps_the_input():
    inputs = {"x": draw(5)}
    graph = rewrite_once(MultiplyByOne, build(lambda x: x * 1.0, inputs), inputs)
    assert graph.outputs == [Value(graph.inputs[0])]
    assert len(graph) == 1


def test_an_intermediate_used_elsewhere_stays():
    inputs = {"x": draw(5)}

    def function(x):
        inner = torch.relu(x)
        return torch.relu(inner), inner - 1.0

    after = rewrite_once(ReluTwice, build(function, inputs), inputs)
    assert operators_of(after).count("Relu") == 2


def test_several_outputs_are_replaced_at_once():
    inputs = {"x": draw(2, 3, 5)}
    graph = build(lambda x, a, b: (torch.relu(x @ a), x @ b), inputs, {"a": draw(5, 2), "b": draw(5, 3)})
    after = rewrite_once(MergeProducts, graph, inputs)
    assert sorted(operators_of(after)) == ["Cat", "MatMul", "Relu", "Split"]
    (found, *_) = matches(reverse(MergeProducts), after)
    back = apply(found, after).graph
    back.validate()
    assert_equal(run(graph, inputs), run(back, inputs))


def test_an_absent_bias_becomes_a_constant_expression():
    inputs = {"x": draw(3, 5)}
    graph = build(lambda x, w: F.linear(x, w) * 0.5, inputs, {"w": draw(4, 5)})
    after = rewrite_once(ScaleIntoLinear, graph, inputs)
    assert operators_of(after)[-1] == "Linear"
    assert operators_of(after).count("Full") == 1


def test_constants_that_nobody_needs_are_forgotten_and_come_back():
    class TimesZeroWeight(Rule):
        """x·w − x·w is 0·x."""

        source = "cancellation"

        def pattern(x: Float[Tensor, "n"], w: Weight[Float[Tensor, "n"]]):
            return x * w - x * w

        def replacement(x, w):
            return 0.0 * x

    inputs = {"x": draw(4)}
    graph = build(lambda x, w: (lambda y: y - y)(x * w), inputs, {"w": draw(4)})
    (match,) = matches(TimesZeroWeight, graph)
    applied = apply_in_place(match, graph)
    assert graph.constants == {}
    applied.undo()
    assert list(graph.constants) == ["w"]
    graph.validate()


# --- refusals, after each of which the graph is as it was -------------------------------------------------------------------


def refused(match, graph) -> str:
    before = snapshot(graph)
    with pytest.raises(RewriteError) as caught:
        apply_in_place(match, graph)
    assert snapshot(graph) == before
    return str(caught.value)


def test_another_dtype_is_refused():
    class ThroughDouble(Rule):
        """Relu is relu in float64, wrongly left there."""

        source = "wrong"

        def pattern(x: Float[Tensor, "n"]):
            return torch.relu(x)

        def replacement(x):
            return torch.relu(x.to(torch.float64))

    graph = build(lambda x: torch.relu(x), {"x": draw(4).float()})
    assert "output 0 must stay float32[4], the replacement gives float64[4]" in refused(matches(ThroughDouble, graph)[0], graph)


def test_another_shape_is_refused():
    class KeepsTheAxis(Rule):
        """A sum is a sum, wrongly with its axis kept."""

        source = "wrong"

        def pattern(x: Float[Tensor, "m n"]):
            return x.sum(-1)

        def replacement(x):
            return x.sum(-1, keepdim=True)

    graph = build(lambda x: x.sum(-1), {"x": draw(3, 4)})
    assert "must stay float64[3], the replacement gives float64[3, 1]" in refused(matches(KeepsTheAxis, graph)[0], graph)


def test_a_replacement_whose_operands_do_not_fit_is_refused():
    class WrongOrder(Rule):
        """A product is the product in the other order."""

        source = "wrong"

        def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"]):
            return a @ b

        def replacement(a, b):
            return b @ a

    graph = build(lambda a, b: a @ b, {"a": draw(3, 4), "b": draw(4, 5)})
    (match,) = matches(WrongOrder, graph)
    assert "the replacement cannot stand here: MatMul" in refused(match, graph)


def test_another_number_of_outputs_is_refused():
    class TwoForOne(Rule):
        """One output, wrongly two."""

        source = "wrong"

        def pattern(x: Float[Tensor, "n"]):
            return torch.relu(x)

        def replacement(x):
            return torch.relu(x), x

    graph = build(lambda x: torch.relu(x), {"x": draw(4)})
    assert "the replacement gives 2 outputs, the pattern 1" in refused(matches(TwoForOne, graph)[0], graph)


def test_a_random_operand_may_not_be_dropped():
    class TimesZero(Rule):
        """x + 0·y is x."""

        source = "absorption"

        def pattern(x: Float[Tensor, "*s"], y: Float[Tensor, "*s"]):
            return x + 0.0 * y

        def replacement(x, y):
            return x

    inputs = {"x": draw(4)}
    graph = build(lambda x: x + 0.0 * torch.relu(F.dropout(x, 0.5, True)), inputs)
    (match,) = matches(TimesZero, graph)
    assert "would drop node" in refused(match, graph)

    def used_elsewhere(x):
        y = torch.relu(F.dropout(x, 0.5, True))
        return x + 0.0 * y, y

    graph = build(used_elsewhere, inputs)
    (match,) = matches(TimesZero, graph)
    after = apply(match, graph).graph
    assert "Dropout" in operators_of(after)


def test_a_match_that_is_no_longer_there_is_refused():
    inputs = {"x": draw(5)}
    graph = build(lambda x: torch.relu(torch.relu(torch.relu(x))), inputs)
    first, second = matches(ReluTwice, graph)
    apply_in_place(first, graph)
    assert "is no longer in the graph" in refused(second, graph)


def test_a_match_that_has_become_a_cycle_is_refused():
    inputs = {"x": draw(4, 4), "y": draw(4, 4, seed=1)}
    weights = {name: draw(4, 4, seed=seed) for seed, name in enumerate("abcd")}

    def crossed(x, y, a, b, c, d):
        first, third = x @ a, y @ c
        return x @ torch.relu(third), y @ torch.relu(first)

    graph = build(crossed, inputs, weights)
    found = {frozenset(value.node for value in match.outputs): match for match in find_matches(MergeProducts, graph)}
    assert len(found) == 2
    one, other = found.values()
    apply_in_place(one, graph)
    graph.validate()
    assert "cycle" in refused(other, graph)


def test_integers_and_floats_are_kept_apart():
    class GatherRows(Rule):
        """Rows gathered twice by one index are gathered once."""

        source = "composition"

        def pattern(x: Float[Tensor, "m n"], index: Int[Tensor, "k"]):
            return torch.relu(torch.index_select(x, 0, index))

        def replacement(x, index):
            return torch.index_select(torch.relu(x), 0, index)

    inputs = {"x": draw(4, 3), "i": torch.tensor([2, 0, 2])}
    rewrite_once(GatherRows, build(lambda x, i: torch.relu(torch.index_select(x, 0, i)), inputs), inputs)


def test_a_replacement_that_raises_is_refused():
    table = {"key": 0}

    class Raising(Rule):
        """Relu is relu, with a mistake."""

        source = "wrong"

        def pattern(x: Float[Tensor, "n"]):
            return torch.relu(x)

        def replacement(x):
            return torch.relu(x) + 0.0 * table["key"]

    graph = build(lambda x: torch.relu(x), {"x": draw(4)})
    (match,) = matches(Raising, graph)
    table.clear()
    assert "the replacement raises KeyError: 'key'" in refused(match, graph)


def test_a_tensor_in_the_replacement_gets_a_name_of_its_own():
    class AddTable(Rule):
        """Relu is relu plus zeros."""

        source = "neutral element"

        def pattern(x: Float[Tensor, "4"]):
            return torch.relu(x)

        def replacement(x):
            return torch.relu(x) + torch.zeros(4, dtype=torch.float64)

    inputs = {"x": draw(4)}
    taken = {"constant_1": draw(4), "constant_2": draw(4, seed=3)}
    graph = build(lambda x, constant_1, constant_2: torch.relu(x) * constant_2, inputs, taken)
    del graph.constants["constant_1"]
    graph.network.remove_node(graph.inputs[0] + 1)
    after = rewrite_once(AddTable, graph, inputs)
    assert len(after.constants) == 2
