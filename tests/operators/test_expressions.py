"""Expressions agree with Python's integers at every point, and predicates turn into the statements they compute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.expressions import Dim, Symbol, Variable, divide_exactly, floor_divide, larger, remainder, smaller, substitute, symbol
from operators.formulas import Formula, Truth, UndecidedError, equal
from operators.predicates import statement_of, substitute_formula

NAMES = ("a", "b", "c")


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> Dim:
    """Small expressions over three symbols, quotients and extremes included."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.one_of(st.integers(-4, 4), st.sampled_from([symbol(name) for name in NAMES])))
    left, right = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    divisor = draw(st.integers(1, 4))
    return draw(
        st.sampled_from(
            [
                left + right,
                left - right,
                left * right,
                floor_divide(left, divisor),
                remainder(left, divisor),
                larger(left, right),
                smaller(left, right),
            ]
        )
    )


points = st.fixed_dictionaries({Symbol(name): st.integers(-6, 6) for name in NAMES})


@given(expressions(), expressions(), points)
def test_arithmetic_commutes_with_substitution(left: Dim, right: Dim, point: dict[Symbol, int]) -> None:
    a, b = substitute(left, point), substitute(right, point)
    assert substitute(left + right, point) == a + b
    assert substitute(left - right, point) == a - b
    assert substitute(left * right, point) == a * b
    assert substitute(larger(left, right), point) == max(a, b)
    assert substitute(smaller(left, right), point) == min(a, b)


@given(expressions(), st.integers(1, 5), points)
def test_floor_division_by_a_number(numerator: Dim, denominator: int, point: dict[Symbol, int]) -> None:
    value = substitute(numerator, point)
    assert substitute(floor_divide(numerator, denominator), point) == value // denominator
    assert substitute(remainder(numerator, denominator), point) == value % denominator


@given(expressions(), expressions(), points)
def test_floor_division_by_an_expression(numerator: Dim, denominator: Dim, point: dict[Symbol, int]) -> None:
    divisor = substitute(denominator, point)
    if divisor != 0 and not (isinstance(denominator, int) and denominator == 0):
        assert substitute(floor_divide(numerator, denominator), point) == substitute(numerator, point) // divisor


@given(expressions(), expressions(), points)
def test_exact_division_leaves_no_remainder(quotient: Dim, divisor: Dim, point: dict[Symbol, int]) -> None:
    found = divide_exactly(quotient * divisor, divisor) if not (isinstance(divisor, int) and divisor == 0) else None
    if found is not None:
        assert substitute(found * divisor, point) == substitute(quotient * divisor, point)


def test_a_product_is_divided_by_its_factors() -> None:
    groups, c = symbol("groups"), symbol("c")
    assert divide_exactly(groups * c, groups) == c
    assert divide_exactly(groups * c + 1, groups) is None
    assert divide_exactly((groups + 1) * (c + 2), groups + 1) == c + 2


def _variables() -> list[Variable]:
    return [Variable({(Symbol(name),): 1}) for name in NAMES]


@given(points)
def test_a_predicate_with_python_logic_becomes_the_same_statement(point: dict[Symbol, int]) -> None:
    a, b, c = _variables()

    def predicate(a: object, b: object, c: object) -> object:
        if a == 1 or b > c:  # type: ignore[operator]
            return b % 2 == 1 and not c == 0  # type: ignore[operator]  # noqa: SIM201
        return a in (2, 3)

    statement: Truth = statement_of(lambda: predicate(a, b, c))
    expected = predicate(*(point[Symbol(name)] for name in NAMES))
    assert substitute_formula(statement, point) is bool(expected)


def test_a_variable_may_not_be_branched_on_outside_a_condition() -> None:
    a, *_ = _variables()
    with pytest.raises(UndecidedError, match="not known for symbolic sizes"):
        bool(a == 1)
    with pytest.raises(UndecidedError, match="state a condition"):
        bool(a)
    assert isinstance(equal(symbol("a"), 1), Formula)


def test_a_chain_of_ands_is_one_conjunction() -> None:
    a, b, c = _variables()
    assert str(statement_of(lambda: a >= 1 and b >= 2 and c == 3)) == "(a ≥ 1 and b ≥ 2 and c = 3)"
    assert isinstance((a + 1) // b, Variable)
