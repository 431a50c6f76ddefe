"""Whole numbers that wrap: what holds over the integers is proved for tensors only where wrapping cannot be seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from jaxtyping import Float, Int, Int16, Int32, Int64, Num
from torch import Tensor

from rewrites import Equality, Requires, Rule
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


def of_longs(left: Side) -> Side:
    def pattern(x: Int64[Tensor, "n"], y: Int64[Tensor, "n"], m: int, k: int):
        return left(x, y, m, k)

    return pattern


POSITIVE = [Requires("m is positive", lambda m: m >= 1), Requires("k is positive", lambda k: k >= 1)]
SMALL = Requires("the product is a number of 64 bits", lambda m, k: m * k < 2**63)


def proved_if(pattern: Side, right: Side, *requires: Requires) -> bool:
    def replacement(x, y, m, k):
        return right(x, y, m, k)

    body = {"__doc__": "A law.", "source": "a test", "equality": Equality.BITWISE, "pattern": pattern, "replacement": replacement}
    return prove_all(type("Law", (Rule,), body | {"requires": requires}), {}, time.monotonic() + 30).proved


def test_quotients_by_positive_numbers_do_not_wrap() -> None:
    twice = of_longs(lambda x, y, m, k: x // m // k)
    assert proved_if(twice, lambda x, y, m, k: x // (m * k), *POSITIVE, SMALL)
    assert not proved_if(twice, lambda x, y, m, k: x // (m * k), *POSITIVE)
    assert not proved_if(twice, lambda x, y, m, k: x // (m * k), Requires("neither is zero", lambda m, k: m != 0 and k >= 1), SMALL)


def test_a_quotient_that_wraps_may_be_multiplied_back() -> None:
    nonzero = Requires("m is not zero", lambda m: m != 0)
    assert proved_if(of_longs(lambda x, y, m, k: (x // m) * m + x % m), lambda x, y, m, k: x, nonzero)
    assert not proved_if(of_longs(lambda x, y, m, k: torch.abs(x // m)), lambda x, y, m, k: torch.abs(x) // m + 0 * k, nonzero)


def test_numbers_of_a_range_are_followed() -> None:
    def pattern(x: Int64[Tensor, "n"], s: Int64[Tensor, ""]) -> Any:
        place = torch.arange(x.shape[0]) - torch.clamp(s, 0, x.shape[0])
        return place >= -x.shape[0]

    def replacement(x: Any, s: Any) -> Any:
        return torch.arange(x.shape[0]) >= 0

    body = {"__doc__": "A law.", "source": "a test", "equality": Equality.BITWISE, "pattern": pattern, "replacement": replacement}
    assert prove_all(type("Law", (Rule,), body), {}, time.monotonic() + 30).proved

    def unbounded(x: Int64[Tensor, "n"], s: Int64[Tensor, ""]) -> Any:
        return torch.arange(x.shape[0]) + s >= s

    assert not prove_all(type("Law", (Rule,), body | {"pattern": unbounded}), {}, time.monotonic() + 30).proved


WHOLE = {"int16": Int16, "int32": Int32, "int64": Int64}


@pytest.mark.parametrize("kind, dtype, kept", [
    ("int16", "float32", True), ("int32", "float64", True), ("int16", "float16", False), ("int32", "float32", False),
    ("int64", "float64", False),
])  # fmt: skip
@pytest.mark.parametrize("equality", [Equality.REAL, Equality.BITWISE])
def test_whole_numbers_that_a_float_rounds_are_not_kept(kind: str, dtype: str, kept: bool, equality: Equality) -> None:
    def there_and_back(x: Any) -> Any:
        return x.to(getattr(torch, dtype)).to(getattr(torch, kind))

    def compared(x: Any) -> Any:
        return x.to(getattr(torch, dtype)) < 7

    for pattern, replacement in ((there_and_back, lambda x: x + 0), (compared, lambda x: x < 7)):
        pattern.__annotations__ = {"x": WHOLE[kind][Tensor, "n"]}
        body = {"__doc__": "A law.", "source": "a test", "equality": equality, "pattern": pattern, "replacement": replacement}
        found = prove_all(type("Law", (Rule,), body), {}, time.monotonic() + 30)
        assert found.proved is kept, found.reason


def test_the_dtypes_of_outputs_agree_for_every_dtype() -> None:
    assert not proved(of_numbers(lambda x, y, m, k: torch.floor(x / 2)), lambda x, y, m, k: x // 2)
    assert not proved(of_floats(lambda x, y, m, k: x.to(torch.float32) + 0), lambda x, y, m, k: x + 0)


def test_bits_are_proved_in_float64_as_well() -> None:
    assert not proved(of_floats(lambda x, y, m, k: x > 0.1), lambda x, y, m, k: x * 1.0 > 0.100000000001, Equality.BITWISE)


@pytest.mark.parametrize(
    ("low", "high", "dtype", "holds"),
    [
        (-100, 100, torch.int64, True),
        (-100.0, 100.0, torch.int8, True),
        (0, 255, torch.uint8, True),
        (-129, 100, torch.int8, False),
        (-1, 100, torch.uint8, False),
        (-32767, 32767, torch.int16, False),  # in bfloat16, 32767 is 32768
        (0.5, 200.5, torch.int64, False),  # limits that are no whole numbers are not followed
        (0, None, torch.int64, False),
    ],
)
def test_a_clamped_number_is_held_by_a_wide_enough_dtype(low: float, high: float | None, dtype: torch.dtype, holds: bool) -> None:
    there_and_back = of_floats(lambda x, y, m, k: x.clamp(low, high).to(dtype).to(x.dtype))
    assert proved(there_and_back, lambda x, y, m, k: x.clamp(low, high).trunc()) is holds
    if low < 0:
        assert not proved(there_and_back, lambda x, y, m, k: x.clamp(low, high).floor())


def test_a_float_does_not_hold_every_long() -> None:
    there_and_back = of_longs(lambda x, y, m, k: x.clamp(0, 1 << 40).to(torch.float32).to(torch.int64))
    assert not proved(there_and_back, lambda x, y, m, k: x.clamp(0, 1 << 40))


def test_truths_that_are_counted_do_not_wrap() -> None:
    def counted(left: Side) -> Side:
        def pattern(x: Float[Tensor, "n m"], y: Float[Tensor, "n m"], m: int, k: int):
            return left(x, y, m, k)

        return pattern

    assert proved(counted(lambda x, y, m, k: (x > y).sum(-1) > 0), lambda x, y, m, k: (x > y).any(-1))
    assert proved(counted(lambda x, y, m, k: (x > 0).sum(-1) + (x <= 0).sum(-1)), lambda x, y, m, k: torch.full((x.shape[0],), x.shape[1]))
    assert not proved(counted(lambda x, y, m, k: (x > y).sum(-1) > 1), lambda x, y, m, k: (x > y).any(-1))
