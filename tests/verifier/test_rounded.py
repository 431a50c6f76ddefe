"""Plain evaluation with rounding errors: what is exact stays exact, and what hangs on the last bits tells nothing."""

from __future__ import annotations

import math

import pytest

from graphs.graph import Graph
from operators.casts import Cast
from operators.expressions import symbol
from operators.operator import TensorType
from operators.softmax import Softmax
from verifier.proof.consistency import difference_of_forms
from verifier.proof.prove import prove
from verifier.proof.rounded import Uncertain, WithErrors, differ, error_of

numbers = WithErrors()


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("exp", (0.0,), 1.0),
        ("log", (1.0,), 0.0),
        ("sqrt", (2.25,), 1.5),
        ("divide", (3.0, 4.0), 0.75),
        ("power", (3.0, -1), None),
        ("power", (2.0, -2), 0.25),
        ("divide", (1.0, 3.0), None),
        ("exp", (1.0,), None),
        ("floor", (2.5,), 2),
        ("maximum", (2.5, -1.0), 2.5),
    ],
)
def test_only_what_is_rounded_has_an_error(name: str, arguments: tuple[float, ...], result: float | None) -> None:
    found = numbers.apply(name, *arguments)
    assert (error_of(found) == 0) == (result is not None)
    assert result is None or found == result


def test_arithmetic_carries_the_error() -> None:
    third = numbers.apply("divide", 1.0, 3.0)
    for made in (third + 1, 1 + third, third - 1, 1 - third, third * 2.0, 2.0 * third, -third, abs(third), sum([0.5, third, 1])):
        assert error_of(made) >= error_of(third)
    assert error_of(math.prod([2.0, third])) > 0
    assert error_of(0.0 * third) == 0


def test_a_step_at_a_rounded_number_is_known_up_to_its_height() -> None:
    one = 3.0 * numbers.apply("divide", 1.0, 3.0)
    for step in ("floor", "ceil", "trunc"):
        found = numbers.apply(step, one)
        assert not differ(found, 1)
        assert differ(found, 3)
    assert numbers.apply("floor", one + 0.5) == 1
    assert error_of(numbers.apply("floor", one + 0.5)) == 0


def test_a_truth_or_a_place_at_a_rounded_number_is_not_known() -> None:
    one = 3.0 * numbers.apply("divide", 1.0, 3.0)
    for relation in ("==", "<", ">="):
        with pytest.raises(Uncertain, match=f"{relation} must not hang on rounding"):
            numbers.compare(relation, one, 1.0)
    assert numbers.compare(">", one, 0.5)
    assert numbers.compare("==", 1.0, 1.0)
    with pytest.raises(Uncertain, match="must not hang on rounding"):
        numbers.position("max", 2, [one, 1.0].__getitem__)
    assert numbers.position("max", 3, [one, 2.0, 2.0].__getitem__) == 1


def test_what_cancels_is_known_as_well_as_its_terms() -> None:
    huge = numbers.apply("exp", 54.0)
    assert not differ((huge + 1.0) - huge, 1.0)
    assert differ((huge + 1e12) - huge, 1.0)


def test_what_is_masked_out_is_exactly_nothing() -> None:
    masked = numbers.apply("exp", numbers.apply("divide", 1.0, 3.0) + -math.inf)
    assert masked == 0
    assert error_of(masked) < 1e-300


def test_a_softmax_of_one_entry_cut_to_a_whole_number_is_no_difference() -> None:
    """One is exp(x) / exp(x), in doubles perhaps a little less."""
    left, right = Graph(), Graph()
    for graph in (left, right):
        one = graph.add(Softmax(-2), graph.input("x", TensorType((symbol("m"), symbol("n")), "float64")))
        graph.outputs = [one if graph is left else graph.add(Cast("float64"), graph.add(Cast("int64"), one))]
    proof = prove(left, right, (), (), (), 1.0)
    assert not proof.proved
    found = difference_of_forms(left, right, (), (), proof, 1801, finite=True)
    assert found.compared
    assert not found.difference
