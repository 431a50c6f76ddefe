"""Whole numbers that wrap: what holds over the integers is proved for tensors only where wrapping cannot be seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from rewrites import Equality, Rule
from verifier.proving import prove_all

Side = Callable[..., Any]


def proved(pattern: Side, right: Side, equality: Equality = Equality.REAL) -> bool:
    def replacement(x, y, m, k):
        return right(x, y, m, k)

    body = {"__doc__": "A law.", "source": "a test", "equality": equality, "pattern": pattern, "replacement": replacement}
    return prove_all(type("Law", (Rule,), body), {}, time.monotonic() + 30).proved


def of_integers(left: Side) -> Side:
    def pattern(x: Int[Tensor, "n"], y: Int[Tensor, "n"], m: int, k: int):
        return left(x, y, m, k)

    return pattern


def of_numbers(left: Side) -> Side:
    def pattern(x: Num[Tensor, "n"], y: Num[Tensor, "n"], m: int, k: int):
        return left(x, y, m, k)

    return pattern


def of_floats(left: Side) -> Side:
    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"], m: int, k: int):
        return left(x, y, m, k)

    return pattern


@pytest.mark.parametrize("equality", [Equality.REAL, Equality.BITWISE])
def test_polynomials_wrap_alike(equality: Equality) -> None:
    assert proved(of_integers(lambda x, y, m, k: x * (y + x)), lambda x, y, m, k: x * x + y * x, equality)
    assert proved(of_integers(lambda x, y, m, k: -(x - y) * m), lambda x, y, m, k: (y - x) * m, equality)
    assert proved(of_integers(lambda x, y, m, k: torch.maximum(x, y)), lambda x, y, m, k: torch.maximum(y, x), equality)


def test_comparisons_see_the_wrapping() -> None:
    assert not proved(of_integers(lambda x, y, m, k: x + y > y), lambda x, y, m, k: x > 0)
    assert not proved(of_numbers(lambda x, y, m, k: x + y > y), lambda x, y, m, k: x > 0)


def test_numbers_of_every_kind_are_proved_where_they_may_be() -> None:
    assert proved(of_numbers(lambda x, y, m, k: torch.maximum(x, y)), lambda x, y, m, k: torch.maximum(y, x))


def test_attributes_may_exceed_a_narrow_dtype() -> None:
    twice = of_integers(lambda x, y, m, k: torch.remainder(torch.remainder(x, m), m * k))
    assert not proved(twice, lambda x, y, m, k: torch.remainder(x, m) + 0 * k)


def test_whole_numbers_in_between_are_narrowed() -> None:
    def narrowed(x: Any, y: Any, m: Any, k: Any) -> Any:
        return (x + y).long().to(torch.int8).long()

    def whole(x: Any, y: Any, m: Any, k: Any) -> Any:
        return (x + y).long()

    assert not proved(of_floats(narrowed), whole)
    assert not proved(of_floats(narrowed), whole, Equality.BITWISE)
