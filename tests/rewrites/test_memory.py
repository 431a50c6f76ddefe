"""Answers from memory are those that would be found anew; what must not be remembered is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from graphs.evaluate import evaluate
from graphs.graph import Graph, Value
from operators.arithmetic import Add, Multiply
from operators.operator import OPERATORS, TensorType
from operators.sources import Scalar
from rewrites import Requires, Rule, Weight, apply, find_matches
from rewrites.host import Host
from rewrites.index import Index
from rewrites.library import library
from rewrites.library.concatenation import ConcatenationFlattens
from rewrites.match import Match, _matches_at, matches_from
from rewrites.memory import Marks, Memory
from rewrites.patterns import sketches
from rewrites.reverse import reverse
from rewrites.template import question
from tests.rewrites.instances import samples

NAMES = {"ReluOfRelu", "FactorMatMulLeft", "FactorMatMulRight", "MatMulAssociates", "MergeParallelMatMuls", "AdditionAssociates"}


def some_rules() -> list[type[Rule]]:
    found = [rule for rule in library() if rule.__name__ in NAMES]
    return [*found, *(reverse(rule) for rule in found if rule.bidirectional), ConcatenationFlattens]


def layers(count: int, width: int = 8) -> Graph:
    """relu(relu(x · a + x · b)) again and again: every layer looks like the one before."""
    graph = Graph()
    x = graph.input("x", TensorType((4, width)))
    for layer in range(count):
        products = []
        for side in "ab":
            weight = graph.constant(f"{side}{layer}", torch.randn(width, width))
            products.append(graph.add(OPERATORS["MatMul"](), x, weight))
        x = graph.add(OPERATORS["Relu"](), graph.add(OPERATORS["Relu"](), graph.add(Add(), *products)))
    graph.outputs = [x]
    return graph


def found_anew(rule: type[Rule], graph: Graph) -> set[Any]:
    host = Host(graph)
    return {
        match.key
        for sketch in sketches(rule)
        if not sketch.forbidden
        for node in graph.network
        if type(graph.operator(node)) is sketch.nodes[sketch.roots[0].node].kind
        for match in _matches_at(rule, sketch, host, 0, node, [])
    }


@pytest.mark.parametrize("rule", some_rules(), ids=lambda rule: rule.__name__)
def test_matches_from_memory_are_those_found_anew(rule: type[Rule]) -> None:
    graph = layers(3)
    for _ in range(2):
        assert {match.key for match in find_matches(rule, graph)} == found_anew(rule, graph)


def test_an_index_gives_what_the_rules_give_one_by_one() -> None:
    graph = layers(3)
    rules = some_rules()
    around = sorted(graph.network)[4:9]
    host = Host(graph)
    together = list(Index(rules).find(host, around, host.kinds()))
    one_by_one = [(number, match) for number, rule in enumerate(rules) for match in find_matches(rule, graph, around)]
    assert together
    assert [number for number, _ in together] == [number for number, _ in one_by_one]
    assert {match.key for _, match in together} == {match.key for _, match in one_by_one}


SEVERAL_ROOTS = [rule for rule in library() if any(len(sketch.roots) > 1 for sketch in sketches(rule))]


@pytest.mark.parametrize("rule", SEVERAL_ROOTS, ids=lambda rule: rule.__name__)
def test_the_quick_look_leaves_out_nothing_that_matches(rule: type[Rule]) -> None:
    graph = next(samples(rule, 1)).graph()
    found = 0
    for sketch in sketches(rule):
        host = Host(graph)
        for anchor, root in enumerate(sketch.roots):
            for node in host.of_class(sketch.nodes[root.node].kind):
                all_of_them = [match.key for match in _matches_at(rule, sketch, host, anchor, node, [])]
                assert [match.key for match in matches_from(rule, sketch, Host(graph), anchor, node)] == all_of_them
                found += len(all_of_them)
    assert found


def test_a_second_product_is_looked_for_only_beside_a_reader_of_the_same_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = next(rule for rule in library() if rule.__name__ == "MergeParallelMatMuls")
    tried: list[int] = []

    def noted(rule: type[Rule], sketch: Any, host: Host, anchor: int, node: int, near: list[Any]) -> Any:
        tried.append(node)
        return _matches_at(rule, sketch, host, anchor, node, near)

    monkeypatch.setattr("rewrites.match._matches_at", noted)
    graph = Graph()
    x = graph.input("x", TensorType((4, 8)))
    weights = [graph.constant(name, torch.randn(8, 8)) for name in "abc"]
    left, right = (graph.add(OPERATORS["MatMul"](), x, weight) for weight in weights[:2])
    after = graph.add(OPERATORS["MatMul"](), left, weights[2])
    graph.outputs = [right, after]
    assert list(find_matches(rule, graph, around=[after.node, right.node]))
    assert right.node in tried
    assert after.node not in tried


class DiagonalBlocks(Rule):
    """A product with a matrix is one with its rows scaled by ones."""

    source = "arithmetic"

    @staticmethod
    def pattern(x: Float[Tensor, "m k"], weight: Float[Tensor, "k n"]) -> Any:
        return x @ weight

    @staticmethod
    def replacement(x: Any, weight: Any) -> Any:
        return x @ (torch.eye(weight.shape[0], dtype=torch.float32) @ weight)


def test_tensors_that_a_replacement_makes_enter_each_graph_as_constants_of_their_own() -> None:
    graph = layers(1)
    values = [torch.randn(4, 8)]
    before = evaluate(graph, values)[0]
    made: list[int] = []
    for node in [node for node in graph if isinstance(graph.operator(node), OPERATORS["MatMul"])]:
        match = next(match for match in find_matches(DiagonalBlocks, graph) if match.nodes == (node,))
        applied = apply(match, graph)
        made.append(len(applied.added))
        graph = applied.graph
        graph.validate()
    assert made == [3, 3]  # a constant and two products, whether traced or from memory
    assert len(graph.constants) == 4
    assert torch.allclose(evaluate(graph, values)[0], before, rtol=1e-5, atol=1e-5)


class TimesOnes(Rule):
    """A product with ones is the other factor."""

    source = "arithmetic"
    requires = (Requires("the weight is one everywhere", lambda weight: weight == 1),)

    @staticmethod
    def pattern(x: Float[Tensor, "n"], weight: Weight[Float[Tensor, "n"]]) -> Any:
        return x * weight

    @staticmethod
    def replacement(x: Any, weight: Any) -> Any:
        return x


def test_what_depends_on_the_contents_of_a_constant_is_looked_at_each_time() -> None:
    graph = Graph()
    x = graph.input("x", TensorType((3,)))
    twos, ones = graph.constant("twos", torch.full((3,), 2.0)), graph.constant("ones", torch.ones(3))
    graph.outputs = [graph.add(Multiply(), x, twos), graph.add(Multiply(), x, ones)]
    assert [match.outputs for match in find_matches(TimesOnes, graph)] == [(graph.outputs[1],)]
    graph.outputs.reverse()
    assert [match.outputs for match in find_matches(TimesOnes, graph)] == [(graph.outputs[0],)]


class Distribute(Rule):
    """A product distributes over a sum."""

    source = "arithmetic"

    @staticmethod
    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"], z: Float[Tensor, "n"]) -> Any:
        return x * (y + z)

    @staticmethod
    def replacement(x: Any, y: Any, z: Any) -> Any:
        return x * y + x * z


@pytest.mark.parametrize("first", ["the same", "different"])
def test_a_replacement_is_not_taken_from_a_match_whose_operands_are_one(first: str) -> None:
    def graph(same: bool) -> Graph:
        result = Graph()
        x, y, z = (result.input(name, TensorType((3,))) for name in "xyz")
        result.outputs = [result.add(Multiply(), x, result.add(Add(), y, y if same else z))]
        return result

    values = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 0.5, 4.0]), torch.tensor([8.0, 16.0, 1.0])]
    for same in (first == "the same", first != "the same"):
        before = graph(same)
        match = next(find_matches(Distribute, before))
        assert question(match, before) != question(next(find_matches(Distribute, graph(not same))), graph(not same))
        after = apply(match, before).graph
        assert torch.equal(evaluate(after, values)[0], evaluate(before, values)[0])


def test_a_moved_match_stands_at_other_nodes() -> None:
    graph = layers(1)
    match = next(match for rule in some_rules() for match in find_matches(rule, graph))
    moved = match.moved({node: node + 100 for node in graph.network})
    assert moved.nodes == tuple(node + 100 for node in match.nodes)
    assert all(value.node >= 100 for value in moved.bindings.values() if isinstance(value, Value))
    assert isinstance(moved, Match)


def test_marks_tell_numbers_of_different_kinds_apart() -> None:
    marks = Marks()
    found = [marks.of(Scalar(value), Scalar(value).outputs()) for value in (1, 1.0, True, 0.0, -0.0)]
    assert len(set(found)) == 5


def test_a_full_memory_starts_afresh() -> None:
    memory: Memory[int] = Memory(most=2)
    for number in range(3):
        memory.keep(number, number)
    assert [memory.find(number) for number in range(3)] == [None, None, 2]
