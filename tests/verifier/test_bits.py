"""Bit-precise proofs: what is equal bit for bit is proved, what is not is not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from jaxtyping import Float, Float16, Int, Int8, Int64
from torch import Tensor

from rewrites import Change, Equality, Rule
from rewrites.cases import cases, trace_case
from verifier.bits import NotCovered, prove_bits
from verifier.proving import prove_all

SIGNED = Equality.BITWISE.allowing(Change.SIGNED_ZERO)


def floats(left: Callable[..., Any], right: Callable[..., Any], equality: Equality = Equality.BITWISE) -> type[Rule]:
    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return left(x, y)

    def replacement(x, y):
        return right(x, y)

    return type(
        "Law", (Rule,), {"__doc__": "A law.", "source": "a test", "equality": equality, "pattern": pattern, "replacement": replacement}
    )


def integers(left: Callable[..., Any], right: Callable[..., Any]) -> type[Rule]:
    def pattern(x: Int[Tensor, "n"], y: Int[Tensor, "n"]):
        return left(x, y)

    def replacement(x, y):
        return right(x, y)

    return type("Law", (Rule,), {"__doc__": "A law.", "source": "a test", "pattern": pattern, "replacement": replacement})


def proved(rule: type[Rule], dtype: str) -> bool:
    dtypes = {variable.name: dtype for variable in rule.signature().tensors}
    return all(prove_bits(trace_case(rule, case, dtypes), rule.equality, dtype) for case in cases(rule))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    ("left", "right", "equality"),
    [
        (lambda x, y: x + y, lambda x, y: y + x, Equality.BITWISE),
        (lambda x, y: x * 1.0 + y, lambda x, y: x + y, Equality.BITWISE),
        (lambda x, y: x + x + y, lambda x, y: x * 2.0 + y, Equality.BITWISE),
        (lambda x, y: torch.neg(torch.neg(x)) + y, lambda x, y: x + y, Equality.BITWISE),
        (lambda x, y: x - y, lambda x, y: x + -y, Equality.BITWISE),
        (lambda x, y: x + 0.0, lambda x, y: x, SIGNED),
        (lambda x, y: x * 3.0, lambda x, y: x + x + x, Equality.BITWISE),  # also after rounding
        (lambda x, y: torch.exp(x) * y, lambda x, y: y * torch.exp(x), Equality.BITWISE),
        (lambda x, y: torch.maximum(x, x) + y, lambda x, y: x + y, Equality.BITWISE),
        (lambda x, y: torch.maximum(x, y), lambda x, y: torch.maximum(y, x), SIGNED),
        (lambda x, y: torch.where(x < y, x, y), lambda x, y: torch.where(y > x, x, y), Equality.BITWISE),
        (lambda x, y: torch.relu(torch.relu(x)) - y, lambda x, y: torch.relu(x) - y, SIGNED),
    ],
)
def test_equal_bit_for_bit(left: Callable[..., Any], right: Callable[..., Any], equality: Equality, dtype: str) -> None:
    assert proved(floats(left, right, equality), dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    ("left", "right", "equality"),
    [
        (lambda x, y: x + 0.0 + y * 0.0, lambda x, y: x, Equality.BITWISE),
        (lambda x, y: x + 0.0, lambda x, y: x, Equality.BITWISE),
        (lambda x, y: torch.maximum(x, y), lambda x, y: torch.maximum(y, x), Equality.BITWISE),
        (lambda x, y: torch.maximum(x, y), lambda x, y: torch.where(x < y, y, x), SIGNED),
        (lambda x, y: x - x + y, lambda x, y: y, SIGNED),
        (lambda x, y: x / 3.0, lambda x, y: x * (1.0 / 3.0), Equality.BITWISE),
        (lambda x, y: torch.exp(x) * y, lambda x, y: torch.exp(y) * x, Equality.BITWISE),
        (lambda x, y: (x + y) - y, lambda x, y: x, Equality.BITWISE),
        (lambda x, y: torch.sqrt(x) * torch.sqrt(x), lambda x, y: x, Equality.BITWISE),
    ],
)
def test_not_equal_bit_for_bit(left: Callable[..., Any], right: Callable[..., Any], equality: Equality, dtype: str) -> None:
    assert not proved(floats(left, right, equality), dtype)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int64"])
@pytest.mark.parametrize(
    ("left", "right", "holds"),
    [
        (lambda x, y: (x + y) - y, lambda x, y: x, True),
        (lambda x, y: x + (y + 1), lambda x, y: (y + x) + 1, True),
        (lambda x, y: torch.maximum(x, y) + torch.minimum(x, y), lambda x, y: x + y, True),
        (lambda x, y: ~x, lambda x, y: -x - 1, True),
        (lambda x, y: (x * 2) // 2, lambda x, y: x, False),
        (lambda x, y: torch.abs(x), lambda x, y: torch.maximum(x, -x), True),
        (lambda x, y: torch.div(x, 2, rounding_mode="floor"), lambda x, y: torch.div(x, 2, rounding_mode="trunc"), False),
        (lambda x, y: torch.remainder(x, 4), lambda x, y: torch.bitwise_and(x, 3), True),
        (lambda x, y: torch.fmod(x, 4), lambda x, y: torch.bitwise_and(x, 3), False),
        (lambda x, y: x + 1 > x, lambda x, y: x == x, False),
    ],
)
def test_integers_wrap(left: Callable[..., Any], right: Callable[..., Any], holds: bool, dtype: str) -> None:
    assert proved(integers(left, right), dtype) is holds


def test_what_is_not_pointwise_is_not_covered() -> None:
    with pytest.raises(NotCovered):
        proved(floats(lambda x, y: x.sum() + y, lambda x, y: y + x.sum()), "float32")


class Mixed(Rule):
    """Numbers of two dtypes: what is computed in the wider one is not what the narrower one would hold."""

    source = "for this test"
    equality = Equality.BITWISE

    def pattern(x: Int8[Tensor, "n"], y: Int64[Tensor, "n"]):
        return (x + x) + y

    def replacement(x, y):
        return x + (x + y)


class MixedProduct(Mixed):
    """x x y wraps in int8 before it is taken to int64, x (x y) does not."""

    def pattern(x: Int8[Tensor, "n"], y: Int64[Tensor, "n"]):
        return x * x * y

    def replacement(x, y):
        return x * (x * y)


class WideFactor(Mixed):
    """256 x is zero in int8, and not in int64."""

    def pattern(x: Int8[Tensor, "n"]):
        return x.to(torch.int64) * 256

    def replacement(x):
        return x.to(torch.int64) * 0


class WideDouble(Mixed):
    """2 x overflows in float16, and not in float32."""

    def pattern(x: Float16[Tensor, "n"]):
        return torch.isinf(x.to(torch.float32) * 2)

    def replacement(x):
        return torch.isinf(x * 2)


@pytest.mark.parametrize("rule", [Mixed, MixedProduct, WideFactor, WideDouble], ids=lambda rule: rule.__name__)
def test_what_is_computed_in_another_dtype_is_not_taken_as_this_one(rule):
    assert not prove_all(rule, {}, time.monotonic() + 30).proved
