"""Solving for sizes and attributes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.expressions import Expression, floor_divide, substitute, symbol
from rewrites.unification import Unification, Unknown, readable, with_unknowns

n, c, groups, h = (with_unknowns(symbol(name)) for name in ("n", "c", "groups", "h"))


def test_a_product_is_solved_once_a_factor_is_known():
    unification = Unification()
    assert unification.equate(groups * c, 12)
    assert unification.equate(groups, 3)
    assert unification.settle() is None
    assert unification.values[Unknown("c")] == 4


def test_a_product_that_does_not_divide_fails():
    unification = Unification()
    assert unification.equate(groups, 5)
    assert not unification.equate(groups * c, 12)


def test_an_equation_that_fails_after_waiting_names_both_sides():
    unification = Unification()
    assert unification.equate(n + c, 5)
    assert unification.equate(n, 2)
    assert unification.equate(c, 4)
    assert unification.settle() == "c + n must be 5, got 6"


def test_what_is_not_determined_is_named():
    unification = Unification()
    assert unification.equate(groups * c, 12)
    assert unification.settle() == "c*groups = 12 does not determine c, groups"


def test_zero_times_an_unknown_determines_nothing():
    unification = Unification()
    assert unification.equate(groups, 0)
    assert unification.equate(groups * c, 0)
    assert unification.settle() is None
    assert Unknown("c") not in unification.values


def test_quotients_are_compared_once_their_parts_are_known():
    half = with_unknowns(floor_divide(symbol("n"), 2))
    for size, expected in ((7, True), (8, False)):
        unification = Unification()
        assert unification.equate(half, 3)
        assert unification.equate(n, size)
        assert (unification.settle() is None) == expected


def test_symbols_of_the_graph_are_not_unknowns():
    unification = Unification()
    assert unification.equate(n, symbol("c"))
    assert unification.equate(c, symbol("n"))
    assert unification.equate(n * c, symbol("n") * symbol("c"))
    assert unification.settle() is None
    assert not unification.equate(n, symbol("n"))


def test_unknowns_are_written_without_their_mark():
    assert readable(groups * c + 1) == "c*groups + 1"


@given(st.lists(st.integers(1, 9), min_size=4, max_size=4), st.permutations(range(5)))
def test_solutions_satisfy_every_equation_in_any_order(numbers, order):
    truth = {Unknown(name): number for name, number in zip(("n", "c", "groups", "h"), numbers, strict=True)}
    patterns = [groups, groups * c, 2 * n + groups, n * h + c, c * c + h - h]
    unification = Unification()
    for position in order:
        assert unification.equate(patterns[position], substitute(patterns[position], truth))
    assert unification.settle() is None
    assert unification.values == truth


@pytest.mark.parametrize("value", [3, (1, (symbol("n"), 2)), "same", None])
def test_only_expressions_get_unknowns(value):
    marked = with_unknowns(value)
    assert readable(marked) == str(value)
    assert isinstance(marked, Expression) == isinstance(value, Expression)
