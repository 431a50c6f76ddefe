"""Machine integers as whole numbers that wrap: every operator agrees with Z3's bit vectors, on all pairs of four bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import z3

from verifier.questions import unsatisfiable
from verifier.wrapped_integers import NotTranslated, on_whole_numbers

WIDTH = 4
X, Y = z3.BitVecs("x y", WIDTH)
NUMBERS: dict[str, Callable[[], Any]] = {
    "sum": lambda: X + Y, "sum of three": lambda: X + Y + X, "difference": lambda: X - Y, "negative": lambda: -X,
    "truncated remainder": lambda: z3.SRem(X, Y), "floored remainder": lambda: X % Y, "truncated quotient": lambda: X / Y,
    "choice": lambda: z3.If(X < Y, X, Y + 1),
}  # fmt: skip
STATEMENTS: dict[str, Callable[[], Any]] = {"<=": lambda: X <= Y, "<": lambda: X < Y, ">=": lambda: X >= Y, ">": lambda: X > Y,
                                            "either": lambda: z3.Or(X == Y, z3.Not(z3.And(X > 0, Y > 0)))}  # fmt: skip


def value_of(statement: Any, x: int, y: int) -> bool:
    whole = z3.And(*on_whole_numbers([statement]))
    numbers = [(z3.Int("x as a whole number"), z3.IntVal(x)), (z3.Int("y as a whole number"), z3.IntVal(y))]
    return z3.is_true(z3.simplify(z3.substitute(whole, *numbers)))


def signed_pairs() -> list[tuple[int, int]]:
    half = 2 ** (WIDTH - 1)
    return [(x, y) for x in range(-half, half) for y in range(-half, half)]


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_agree(name: str) -> None:
    term = NUMBERS[name]()
    for x, y in signed_pairs():
        exact = z3.simplify(z3.substitute(term, (X, z3.BitVecVal(x, WIDTH)), (Y, z3.BitVecVal(y, WIDTH))))
        assert value_of(term == exact, x, y), (x, y, exact)
        assert not value_of(term == exact + 1, x, y), (x, y, exact)


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_agree(name: str) -> None:
    statement = STATEMENTS[name]()
    for x, y in signed_pairs():
        exact = z3.simplify(z3.substitute(statement, (X, z3.BitVecVal(x, WIDTH)), (Y, z3.BitVecVal(y, WIDTH))))
        assert value_of(statement, x, y) == z3.is_true(exact), (x, y)


def test_what_is_for_bit_vectors_alone_is_refused() -> None:
    with pytest.raises(NotTranslated):
        on_whole_numbers([X & Y == X])


def test_a_sum_that_wraps_is_no_larger() -> None:
    x, y = z3.BitVecs("x y", 64)
    assert not unsatisfiable([y > 0, z3.Not(x + y > x)], False, 200)
    assert unsatisfiable([y > 0, x < 0, z3.Not(x + y > x)], False, 200)
