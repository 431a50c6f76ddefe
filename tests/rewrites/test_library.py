"""Every rule of the library, tested by what it says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch

from graphs.evaluate import evaluate
from graphs.graph import Graph, Value
from graphs.trace import TraceError
from operators.operator import ShapeError
from operators.sources import Constant, Input, Scalar
from rewrites.apply import apply
from rewrites.cases import cases, trace_case
from rewrites.library import FAMILIES, family, library
from rewrites.match import Match, explain, find_matches
from rewrites.reverse import reverse
from rewrites.rule import Requires, Rule
from rewrites.signature import AxisVariable
from tests.rewrites.instances import Sample, breaking, samples, without_condition

torch.set_num_threads(1)

RULES = library()
CONDITIONS = [pytest.param(rule, c, id=f"{rule.__name__}-{k}") for rule in RULES for k, c in enumerate(rule.requires)]
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)


def agree(left: list[Any], right: list[Any]) -> bool:
    """Equal shapes and dtypes, and values equal up to a few hundred roundings."""
    if len(left) != len(right):
        return False
    for a, b in zip(left, right, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        tolerance = {torch.float64: 1e-9, torch.float32: 1e-4}.get(a.dtype, 1e-2)
        if not torch.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance, equal_nan=True):
            return False
    return True


def test_the_library_is_large_and_its_names_are_its_own() -> None:
    names = [rule.__name__ for rule in RULES]
    assert len(names) == len(set(names)) >= 180
    assert {family(rule) for rule in RULES} == set(FAMILIES)


@every_rule
def test_definition(rule: type[Rule]) -> None:
    assert rule.statement().endswith(".")
    for condition in rule.requires:
        assert condition.sentence and not condition.sentence.endswith(".")
    for case in cases(rule):
        trace_case(rule, case)


@every_rule
def test_both_sides_agree_in_pytorch(rule: type[Rule]) -> None:
    drawn = list(samples(rule, 12))
    assert drawn
    for instance in drawn:
        assert agree(instance.run("pattern"), instance.run("replacement")), instance


@every_rule
def test_it_fires_on_its_motivating_graph(rule: type[Rule]) -> None:
    for instance in samples(rule, 3):
        rewrite(rule, instance, instance.graph())


def rewrite(rule: type[Rule], instance: Sample, graph: Graph) -> Graph:
    """The graph after each of the rule's matches (the first is returned), compared with eager evaluation before."""
    inputs = instance.inputs(graph)
    before = evaluate(graph, inputs)
    found = list(find_matches(rule, graph))
    assert found, [str(miss) for miss in explain(rule, graph)]
    results = [apply(match, graph).graph for match in found[:3]]
    for result in results:
        result.validate()
        assert agree(before, evaluate(result, inputs)), f"{graph}\n{result}"
    return results[0]


def operators(graph: Graph) -> list[int]:
    return [node for node in graph if not isinstance(graph.operator(node), (Input, Constant, Scalar))]


@every_rule
def test_an_extra_consumer_keeps_what_it_reads(rule: type[Rule]) -> None:
    instance = next(samples(rule, 1))
    graph = instance.graph()
    inner = [Value(node, k) for node in operators(graph) for k in range(len(graph.types(node)))]
    graph.outputs += [value for value in inner if value not in graph.outputs]
    rewrite(rule, instance, graph)


@every_rule
def test_commuted_operands_are_found(rule: type[Rule]) -> None:
    instance = next(samples(rule, 1))
    graph = instance.graph()
    for node in operators(graph):
        if graph.operator(node).commutative:
            edges = {position: (producer, output) for producer, _, (output, position) in graph.network.in_edges(node, keys=True)}
            for position in (0, 1):
                producer, output = edges[position]
                graph.network.remove_edge(producer, node, key=(output, position))
            for position in (0, 1):
                producer, output = edges[1 - position]
                graph.network.add_edge(producer, node, key=(output, position))
    rewrite(rule, instance, graph)


@every_rule
def test_one_tensor_may_stand_for_two_variables(rule: type[Rule]) -> None:
    instance = next(samples(rule, 1))
    first: dict[Any, torch.Tensor] = {}
    shared = {
        name: first.setdefault((value.shape, value.dtype), value) if isinstance(value, torch.Tensor) else value
        for name, value in instance.arguments.items()
    }
    twin = Sample(rule, instance.case, shared)
    assert agree(twin.run("pattern"), twin.run("replacement"))
    graph = twin.graph()
    by_tensor: dict[int, Value] = {}
    for node in list(graph.inputs):
        kept = by_tensor.setdefault(id(twin.arguments[name_of(graph, node)]), Value(node))
        if kept.node != node:
            graph.replace_uses(Value(node), kept)
    before = evaluate(graph, twin.inputs(graph))
    for match in list(find_matches(rule, graph))[:3]:
        assert agree(before, evaluate(apply(match, graph).graph, twin.inputs(graph)))


def name_of(graph: Graph, node: int) -> str:
    return graph.operator(node).name  # type: ignore[attr-defined,no-any-return]


BIDIRECTIONAL = [rule for rule in RULES if rule.bidirectional]
WEIGHTED = [rule for rule in RULES if any(variable.weight for variable in rule.signature().tensors)]


@pytest.mark.parametrize("rule", BIDIRECTIONAL, ids=lambda rule: rule.__name__)
def test_it_fires_from_right_to_left(rule: type[Rule]) -> None:
    instance = next(samples(rule, 1))
    rewrite(reverse(rule), instance, instance.graph("replacement"))


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if any(v.weight for v in rule.signature().tensors)], ids=lambda rule: rule.__name__
)
def test_near_miss_by_a_weight_that_is_no_constant(rule: type[Rule]) -> None:
    instance = next(samples(rule, 1))
    graph = instance.graph()
    for node in list(graph):
        operator = graph.operator(node)
        if isinstance(operator, Constant):
            graph.replace_uses(Value(node), graph.input(operator.name, operator.type))
    assert not list(find_matches(rule, graph))
    assert any("must be a constant" in str(miss) for miss in explain(rule, graph))


REFUSALS = (RuntimeError, IndexError, ValueError, ZeroDivisionError)
"""What torch raises for arguments that it does not take."""


@pytest.mark.parametrize(("rule", "condition"), CONDITIONS)
def test_a_broken_condition_keeps_it_from_firing(rule: type[Rule], condition: Requires) -> None:
    """With only this condition broken the rule does not fire, says why, and for some such instance the sides really differ."""
    if set(condition.names) <= {v.name for v in rule.signature().variables if isinstance(v, AxisVariable)}:
        pytest.skip("this condition takes one of several ways to name the same axes; the law holds for all of them")
    refused = tried = False
    for instance in broken_instances(rule, condition):
        try:
            left = instance.run("pattern")
            graph = instance.graph()
        except (*REFUSALS, ShapeError, TraceError):  # there is nothing to rewrite
            refused = True
            continue
        tried = True
        assert not [match for match in find_matches(rule, graph) if same_attributes(match, instance)]
        misses = [str(miss) for miss in explain(rule, graph)]
        said = (condition.sentence, "do not admit", "must be absent")
        assert not misses or any(words in miss for miss in misses for words in said), misses
        if differs(instance, left):
            return
    assert refused or tried, "no instance breaks only this condition"
    assert not tried, "both sides agree wherever only this condition is broken: it is stronger than it need be"


def broken_instances(rule: type[Rule], condition: Requires) -> Iterator[Sample]:
    found = list(cases(without_condition(rule, condition)))
    for seed in range(3):
        for case in found[:: max(1, len(found) // 6)]:
            yield from islice(breaking(rule, condition, case, seed), 8)


def same_attributes(match: Match, instance: Sample) -> bool:
    """The match is of this very instance: an attribute of −1 is captured as the size it stands for."""
    whole = {name: value for name, value in instance.arguments.items() if type(value) is int}
    return all(match.bindings[name] == value for name, value in whole.items())


def differs(instance: Sample, left: list[Any]) -> bool:
    try:
        right = instance.run("replacement")
    except REFUSALS:
        return True
    return not agree(left, right)
