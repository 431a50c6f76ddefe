"""Random graphs under random rewrites: outputs stay, what is matched around a change is what is new, and everything can be taken back."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor

from graphs.graph import Graph, Value
from rewrites import Match, RewriteError, Rule, apply_in_place, find_all, reverse
from tests.rewrites.building import build, draw, run
from tests.rewrites.test_apply import MergeProducts, MultiplyByOne, ReluTwice, snapshot


class AddAssociates(Rule):
    """(x + y) + z is x + (y + z)."""

    source = "associativity"

    def pattern(x: Float[Tensor, "..."], y: Float[Tensor, "..."], z: Float[Tensor, "..."]):
        return (x + y) + z

    def replacement(x, y, z):
        return x + (y + z)


class ProductsAssociate(Rule):
    """(a b) c is a (b c)."""

    source = "associativity"
    bidirectional = True

    def pattern(a: Float[Tensor, "*batch m k"], b: Float[Tensor, "*batch k n"], c: Float[Tensor, "*batch n p"]):
        return (a @ b) @ c

    def replacement(a, b, c):
        return a @ (b @ c)


class FactorProduct(Rule):
    """a c + b c is (a + b) c."""

    source = "distributivity"
    bidirectional = True

    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "m k"], c: Float[Tensor, "k n"]):
        return a @ c + b @ c

    def replacement(a, b, c):
        return (a + b) @ c


class ReluOfConcatenation(Rule):
    """Relu of a concatenation is the concatenation of relus."""

    source = "relu is pointwise"
    bidirectional = True

    def pattern(a: Float[Tensor, "m n"], b: Float[Tensor, "m p"]):
        return torch.relu(torch.cat([a, b], -1))

    def replacement(a, b):
        return torch.cat([torch.relu(a), torch.relu(b)], -1)


RULES: list[type[Rule]] = [ReluTwice, MultiplyByOne, MergeProducts, AddAssociates, ProductsAssociate, FactorProduct, ReluOfConcatenation]
RULES += [reverse(rule) for rule in (MergeProducts, ProductsAssociate, FactorProduct, ReluOfConcatenation)]

UNARY = (torch.relu, lambda x: x * 1.0, lambda x: x * 0.5, lambda x: x.mT)
BINARY = (torch.add, torch.matmul, torch.mul, lambda x, y: torch.relu(torch.cat([x, y], -1))[:, 2:6])


@st.composite
def programs(draw_from):
    """Steps on 4 x 4 matrices, by operation and earlier values, and which values are returned."""
    steps = []
    for size in range(2, 2 + draw_from(st.integers(3, 9))):
        if draw_from(st.booleans()):
            steps.append((draw_from(st.sampled_from(range(len(UNARY)))), draw_from(st.integers(0, size - 1)), None))
        else:
            pair = draw_from(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)))
            steps.append((draw_from(st.sampled_from(range(len(BINARY)))), *pair))
    returned = draw_from(st.lists(st.integers(2, len(steps) + 1), min_size=1, max_size=3, unique=True))
    return steps, returned


def graph_of(program) -> tuple[Graph, dict[str, Tensor]]:
    steps, returned = program

    def function(x, w):
        values = [x, w]
        for operation, first, second in steps:
            values.append(UNARY[operation](values[first]) if second is None else BINARY[operation](values[first], values[second]))
        return tuple(values[position] for position in returned)

    inputs = {"x": draw(4, 4)}
    return build(function, inputs, {"w": draw(4, 4, seed=1)}), inputs


def stands(match: Match, graph: Graph, touched: set[int]) -> bool:
    bound = [value.node for value in match.bindings.values() if isinstance(value, Value)]
    return all(node in graph.network and node not in touched for node in match.nodes) and all(node in graph.network for node in bound)


def assert_close(before: list[Tensor], after: list[Tensor]) -> None:
    """Equal within the rounding of sums and products of at most some hundred numbers of the outputs' own size."""
    for left, right in zip(before, after, strict=True):
        scale = max(left.abs().max().item(), 1.0)
        torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-10 * scale)


@given(programs(), st.data())
@settings(max_examples=40)
def test_random_rewrites_keep_the_outputs_and_can_be_taken_back(program, data):
    graph, inputs = graph_of(program)
    expected = run(graph, inputs)
    known = {match.key: match for match in find_all(RULES, graph)}
    history = []
    for _ in range(6):
        if not known:
            break
        match = known[data.draw(st.sampled_from(list(known)))]
        before = snapshot(graph)
        try:
            applied = apply_in_place(match, graph)
        except RewriteError:
            assert snapshot(graph) == before
            assert len(match.outputs) > 1, f"{match} was found and cannot be applied"
            del known[match.key]
            continue
        graph.validate()
        assert_close(expected, run(graph, inputs))
        history.append((before, applied))
        found = {other.key: other for other in find_all(RULES, graph, applied.touched)}
        survivors = {key: other for key, other in known.items() if stands(other, graph, set(applied.touched))}
        everything = {other.key for other in find_all(RULES, graph)}
        assert everything <= found.keys() | survivors.keys()
        assert all(len(survivors[key].outputs) > 1 for key in survivors.keys() - everything)
        known = {key: other for key, other in (survivors | found).items() if key in everything}
    for before, applied in reversed(history):
        applied.undo()
        assert snapshot(graph) == before
