"""A rule is matched at the ranks of which its proof speaks, and at no others."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from graphs.capture import capture
from rewrites import Axis, Rule
from rewrites.cases import Case, trace_side
from rewrites.match import explain, find_matches
from rewrites.ranks import every_rank, unproved


class Law(Rule):
    """The base of the rules below."""

    source = "for this test"

    def pattern(x: Float[Tensor, "..."]):
        return torch.relu(torch.relu(x))

    def replacement(x):
        return torch.relu(x)


class FactorsMatMul(Law):
    """x a + x b = x (a + b), over any batch."""

    def pattern(x: Float[Tensor, "*batch m k"], a: Float[Tensor, "k n"], b: Float[Tensor, "k n"]):
        return x @ a + x @ b

    def replacement(x, a, b):
        return x @ (a + b)


class AddsOverAnyShapes(Law):
    """x + y - y = x + 0 y."""

    def pattern(x: Float[Tensor, "..."], y: Float[Tensor, "..."]):
        return (x + y) - y

    def replacement(x, y):
        return x + y * 0


class SwitchesOnRank(Law):
    """Tensors of five axes and more are computed otherwise."""

    def pattern(x: Float[Tensor, "*s n"]):
        return torch.softmax(torch.relu(torch.relu(x)), -1)

    def replacement(x):
        return torch.softmax(torch.relu(x), -1 if x.ndim < 5 else -2)


class SumsOverTheBatch(Law):
    """A sum over all axes is not the same function of every index."""

    def pattern(x: Float[Tensor, "*s n"]):
        return torch.relu(torch.relu(x)).sum()

    def replacement(x):
        return torch.relu(x).sum()


class FirstAxisIsAnother(Law):
    """The axis counted from the front is another at every rank."""

    def pattern(x: Float[Tensor, "*s n"]):
        return torch.softmax(torch.relu(torch.relu(x)), 0)

    def replacement(x):
        return torch.softmax(torch.relu(x), 0)


class AlongAnyAxis(Law):
    """relu and an axis."""

    def pattern(x: Float[Tensor, "*s"], axis: Axis):
        return torch.relu(torch.relu(x)).flip(axis)

    def replacement(x, axis):
        return torch.relu(x).flip(axis)


def graph_of(rule, *shapes):
    arguments = tuple(torch.zeros(shape) for shape in shapes)

    class Model(torch.nn.Module):
        def forward(self, *inputs):
            return rule.pattern(*inputs) + 0

    return capture(Model(), arguments)


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 5])
def test_a_batchwise_rule_is_matched_at_every_rank(rank):
    batch = (2, 3, 4, 5, 6)[:rank]
    assert list(find_matches(FactorsMatMul, graph_of(FactorsMatMul, (*batch, 2, 3), (3, 4), (3, 4))))


@pytest.mark.parametrize("shapes", [((2, 3, 4, 5), (5,)), ((4, 5), (2, 3, 4, 5)), ((2, 1, 4, 1), (3, 1, 5)), ((2, 3, 4, 5), ())])
def test_a_pointwise_rule_is_matched_however_its_operands_broadcast(shapes):
    assert list(find_matches(AddsOverAnyShapes, graph_of(AddsOverAnyShapes, *shapes)))


@pytest.mark.parametrize("rank, matched", [(1, True), (2, True), (3, True), (5, False), (6, False)])
def test_a_rule_that_switches_on_rank_is_matched_where_it_is_alike(rank, matched):
    graph = graph_of(SwitchesOnRank, (2, 3, 4, 5, 6, 7)[:rank])
    assert bool(list(find_matches(SwitchesOnRank, graph))) is matched
    if not matched:
        assert "not among the ranks that are proved" in str(explain(SwitchesOnRank, graph)[0])


@pytest.mark.parametrize("rule", [SumsOverTheBatch, FirstAxisIsAnother])
@pytest.mark.parametrize("rank, matched", [(3, True), (4, False)])
def test_a_rule_that_mixes_indices_of_the_batch_is_matched_at_the_proved_ranks(rule, rank, matched):
    assert bool(list(find_matches(rule, graph_of(rule, (2, 3, 4, 5)[:rank])))) is matched


@pytest.mark.parametrize("rank, matched", [(4, True), (5, False)])
def test_a_rule_with_an_axis_is_matched_at_the_proved_ranks(rank, matched):
    class Model(torch.nn.Module):
        def forward(self, x):
            return AlongAnyAxis.pattern(x, -1) + 0

    graph = capture(Model(), (torch.zeros((2, 3, 4, 5, 6)[:rank]),))
    assert bool(list(find_matches(AlongAnyAxis, graph))) is matched


@pytest.mark.parametrize(
    "rule, most",
    [
        (Law, None), (FactorsMatMul, None), (AddsOverAnyShapes, None), (SwitchesOnRank, 3), (SumsOverTheBatch, 2), (FirstAxisIsAnother, 2),
        (AlongAnyAxis, 4),
    ],
)  # fmt: skip
def test_the_scope_says_for_which_ranks_the_proof_speaks(rule, most):
    assert set(every_rank(rule).values()) == {most}


def test_sizes_of_the_batch_may_not_be_required_to_be_anything():
    from operators.expressions import symbol
    from operators.formulas import at_least_zero

    dims = tuple(symbol(f"batch_{i}") for i in range(4))
    case = Case((("batch", dims),))
    (pattern, facts), (replacement, owed) = (
        trace_side(FactorsMatMul, side, case) for side in (FactorsMatMul.pattern, FactorsMatMul.replacement)
    )
    assert unproved(FactorsMatMul, case, pattern, replacement, facts, owed) is None
    assert unproved(FactorsMatMul, case, pattern, replacement, [*facts, at_least_zero(dims[0] - 2)], owed) is not None
