"""Folding, merging, removing: each keeps what the graph computes, and leaves alone what it must."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphs.capture import capture
from graphs.emit import to_module
from graphs.evaluate import run_module
from graphs.graph import Graph
from graphs.passes import fold_constants, merge_common_subexpressions, remove_dead_code, remove_identities, simplify
from operators.sources import Constant, Input, Scalar
from tests.graphs.roundtrip import assert_same

torch.set_num_threads(1)


class Weighted(nn.Module):
    """A function of the input and of some weights."""

    def __init__(self, function: Callable[..., Any], *weights: Tensor, training: bool = False) -> None:
        super().__init__()
        self.function = function
        self.weights = nn.ParameterList([nn.Parameter(weight) for weight in weights])
        self.train(training)

    def forward(self, x: Tensor) -> Any:
        return self.function(x, *self.weights)


def graph_of(function: Callable[..., Any], *weights: Tensor, x: Tensor | None = None, training: bool = False) -> Graph:
    return capture(Weighted(function, *weights, training=training), (torch.randn(2, 3) if x is None else x,))


def operators(graph: Graph) -> list[str]:
    hidden = (Input, Constant, Scalar)
    return [type(graph.operator(node)).__name__ for node in graph if not isinstance(graph.operator(node), hidden)]


def test_constant_expressions_become_new_parameters() -> None:
    w, b = torch.randn(3, 3), torch.randn(3)
    graph = graph_of(lambda x, w, b: F.linear(x, w * b[:, None] + 1, b.exp()), w, b)
    assert fold_constants(graph) == 2
    assert operators(graph) == ["Linear"]
    emitted = to_module(graph)
    assert sorted(name for name, _ in emitted.named_parameters()) == ["weights.0_folded", "weights.1_folded"]
    x = torch.randn(2, 3)
    expected = F.linear(x.double(), w.double() * b.double()[:, None] + 1, b.double().exp())
    assert (emitted(x).double() - expected).abs().max() < 4 * 3 * 8 * torch.finfo(torch.float32).eps


def test_halves_are_folded_wide_and_rounded_once() -> None:
    torch.manual_seed(0)
    a, b, c = (torch.randn(64, dtype=torch.bfloat16) for _ in range(3))
    graph = graph_of(lambda x, a, b, c: x + (a * b - c), a, b, c, x=torch.zeros(64, dtype=torch.bfloat16))
    fold_constants(graph)
    (folded,) = graph.constants.values()
    once = (a.double() * b.double() - c.double()).to(torch.bfloat16)
    assert folded.dtype == torch.bfloat16 and torch.equal(folded, once)
    assert not torch.equal(a * b - c, once)


def test_an_explicit_cast_still_rounds() -> None:
    w = torch.randn(16)
    graph = graph_of(lambda x, w: x + w.to(torch.bfloat16).to(torch.float32), w, x=torch.zeros(16))
    fold_constants(graph)
    (folded,) = graph.constants.values()
    assert torch.equal(folded, w.to(torch.bfloat16).float())


def test_a_weight_that_is_also_read_as_it_is_stays() -> None:
    module = Weighted(lambda x, w: (x @ w, x @ (w * 2)), torch.randn(3, 3))
    graph = capture(module, (torch.randn(2, 3),))
    fold_constants(graph)
    emitted = to_module(graph)
    assert emitted.get_parameter("weights.0") is module.weights[0]
    assert set(dict(emitted.named_parameters())) == {"weights.0", "weights.0_folded"}


def test_nothing_random_large_or_trained_is_folded() -> None:
    w = torch.ones(300)
    assert fold_constants(graph_of(lambda x, w: x * F.dropout(w, 0.5, True), torch.ones(3))) == 0
    assert fold_constants(graph_of(lambda x, w: x[0, 0] + w[:, None] * w[None, :] * torch.ones(4, 1, 1), w)) == 1
    assert fold_constants(graph_of(lambda x, w: x * (w + 1), torch.ones(3), training=True)) == 0


def test_buffers_that_are_updated_are_no_constants() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            self.count.add_(1)
            return x + self.count * 2

    graph = capture(Counter().eval(), (torch.ones(1),))
    assert fold_constants(graph) == 0
    emitted = to_module(graph)
    assert [emitted(torch.ones(1)).item() for _ in range(3)] == [3.0, 5.0, 7.0]


def test_common_subexpressions_are_computed_once() -> None:
    graph = graph_of(lambda x: torch.relu(x + 1) * torch.relu(1 + x) - torch.relu(x + 1.5))
    assert merge_common_subexpressions(graph) >= 2
    assert operators(graph).count("Relu") == 2
    x = torch.randn(2, 3)
    assert_same(torch.relu(x + 1) * torch.relu(1 + x) - torch.relu(x + 1.5), run_module(graph, x))


def test_common_subexpressions_of_several_outputs_merge() -> None:
    graph = graph_of(lambda x: torch.split(x, 1, 1)[2] + torch.split(x, 1, 1)[0])
    merge_common_subexpressions(graph)
    assert operators(graph).count("Split") == 1
    x = torch.randn(2, 3)
    assert_same(x[:, 2:] + x[:, :1], run_module(graph, x))


def test_random_draws_are_never_merged() -> None:
    graph = graph_of(lambda x: F.dropout(x, 0.5, True) - F.dropout(x, 0.5, True), x=torch.ones(64))
    merge_common_subexpressions(graph)
    assert operators(graph).count("Dropout") == 2
    assert run_module(graph, torch.ones(64)).abs().max() > 0


def test_equal_parameters_keep_their_names() -> None:
    graph = graph_of(lambda x, a, b: x * a + x * b, torch.ones(3), torch.ones(3))
    merge_common_subexpressions(graph)
    assert set(graph.constants) == {"weights.0", "weights.1"} and operators(graph).count("Multiply") == 2


def test_identities_go() -> None:
    graph = graph_of(lambda x: (F.dropout(x.clone(), 0.5, False).to(torch.float32).reshape(2, 3).permute(0, 1).contiguous() + 0) * 1)
    assert remove_identities(graph) >= 3
    assert operators(graph) == ["Add", "Multiply"]


def test_a_transpose_of_equal_sizes_is_no_identity() -> None:
    graph = graph_of(lambda x: x.t() + 1, x=torch.randn(3, 3))
    assert remove_identities(graph) == 0 and "Permute" in operators(graph)


def test_a_copy_that_the_caller_may_write_to_stays() -> None:
    for function in (lambda x: x.clone(), lambda x: x.clone().view(6), lambda x: x.clone().t()[0]):
        graph = graph_of(function)
        simplify(graph)
        x = torch.zeros(2, 3)
        to_module(graph)(x).add_(1)
        assert x.abs().max() == 0
    inner = graph_of(lambda x: x.clone() + 1)
    simplify(inner)
    assert operators(inner) == ["Add"]


def test_dead_code_goes_and_inputs_stay() -> None:
    graph = graph_of(lambda x: x * 2)
    graph.add(graph.operator(graph.outputs[0].node), *graph.operands(graph.outputs[0].node))
    assert remove_dead_code(graph) == 1
    assert len(graph.inputs) == 1 and operators(graph) == ["Multiply"]


def test_simplify_reaches_a_fixed_point_and_says_what_it_did() -> None:
    graph = graph_of(lambda x, w: (x.clone() @ (w.t().t() * 2)) + (x @ (w * 2)), torch.randn(3, 3))
    done = simplify(graph)
    assert done["folded constants"] >= 1 and done["identities"] >= 1
    assert not any(simplify(graph).values())
    graph.validate()


def test_a_constant_that_is_returned_is_made_anew_at_every_call() -> None:
    graph = graph_of(lambda x: (x + 1, torch.arange(3) * 2))
    simplify(graph)
    emitted = to_module(graph)
    emitted(torch.ones(2, 3))[1].add_(5)
    assert emitted(torch.ones(2, 3))[1].tolist() == [0, 2, 4]


def test_opaque_operators_that_may_draw_are_never_merged() -> None:
    def forward(x: Tensor) -> Tensor:
        first = F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
        return first - F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)

    graph = graph_of(forward, x=torch.randn(1, 16, 8))
    simplify(graph)
    assert run_module(graph, torch.randn(1, 16, 8)).abs().max() > 0


def test_a_folded_constant_is_named_after_the_largest_that_it_comes_from() -> None:
    graph = graph_of(lambda x, small, large: x @ (large * small), torch.ones(3), torch.randn(3, 3))
    fold_constants(graph)
    assert set(graph.constants) == {"weights.1_folded"}
