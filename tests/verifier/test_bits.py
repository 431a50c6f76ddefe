"""Bit-precise proofs: what is equal bit for bit is proved, what is not is not."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from jaxtyping import Float, Float16, Int, Int8, Int16, Int32, Int64, UInt8
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule
from rewrites.cases import cases, trace_case
from verifier.bit_proof import prove_bits, side_words
from verifier.bits import BitAlgebra, NotCovered
from verifier.proving import prove_all

SIGNED = Equality.BITWISE.allowing(Change.SIGNED_ZERO)
SPECIAL = SIGNED.allowing(Change.NAN_INF)


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
        (lambda x, y: x - x + y, lambda x, y: y, SPECIAL),
        (lambda x, y: x * 1.0, lambda x, y: x - x + x, SPECIAL),
        (lambda x, y: x * 2.0 * 0.5, lambda x, y: x, SPECIAL),
        (lambda x, y: x * 1.0, lambda x, y: x * 2.0 * 0.5, SPECIAL.allowing(Change.OVERFLOW)),
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
        # What is declared licenses that NaN and infinities are lost, not that numbers are.
        (lambda x, y: x * 1.0, lambda x, y: x * 2.0 * 0.5, SPECIAL),
        (lambda x, y: x * 1.0, lambda x, y: (1.0 / (x - 17.5)) * 0.0 + x, SPECIAL),
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


MIXED = [
    lambda x, y, z: x.to(torch.uint8).to(torch.int32),
    lambda x, y, z: y.to(torch.int8).to(torch.int64) + x.to(torch.uint8),
    lambda x, y, z: x + y * z,
    lambda x, y, z: (x.to(torch.int32) * y.to(torch.int32)).to(torch.uint8),
    lambda x, y, z: torch.where(x < y, z, x),
    lambda x, y, z: (x - z).to(torch.bool) == (y > 7),
    lambda x, y, z: torch.clamp(z.to(torch.int64), -3, 300) // 7,
    lambda x, y, z: torch.div(x, 3, rounding_mode="trunc") + torch.fmod(z, 5) - torch.remainder(y, 6),
    lambda x, y, z: torch.maximum(x, y.to(torch.int8)) ^ z,
    lambda x, y, z: torch.abs(x) | ~y,
    lambda x, y, z: torch.relu(x.to(torch.int16) + z) & 300,
    lambda x, y, z: (x >= z) | (y == x),
    lambda x, y, z: -(y.to(torch.int16)) * 1000,
]
"""Of numbers of int8, uint8 and int16."""


@pytest.mark.parametrize("function", MIXED)
def test_whole_numbers_of_several_dtypes_are_those_of_torch(function: Callable[..., Any]) -> None:
    import z3

    def pattern(x: Int8[Tensor, "n"], y: UInt8[Tensor, "n"], z: Int16[Tensor, "n"]):
        return function(x, y, z)

    def replacement(x, y, z):
        return function(x, y, z)

    body = {"__doc__": "A law.", "source": "a test", "pattern": pattern, "replacement": replacement}
    traced = trace_case(type("Law", (Rule,), body), next(iter(cases(type("Law", (Rule,), body)))))
    (word,) = side_words(traced.pattern, BitAlgebra("int8"))
    chance = random.Random(0)
    numbers = {"x": (-128, -127, -7, -1, 0, 1, 5, 127), "y": (0, 1, 6, 7, 128, 255), "z": (-32768, -300, -1, 0, 4, 255, 256, 32767)}
    for _ in range(60):
        drawn = {name: chance.choice(choices) for name, choices in numbers.items()}
        dtypes = {"x": torch.int8, "y": torch.uint8, "z": torch.int16}
        expected = function(*(torch.tensor([drawn[name]], dtype=dtypes[name]) for name in "xyz"))
        values = [(z3.BitVec(name, 8 if name != "z" else 16), z3.BitVecVal(drawn[name], 8 if name != "z" else 16)) for name in "xyz"]
        found = z3.simplify(z3.substitute(word.term, *values))
        if expected.dtype == torch.bool:
            assert z3.is_true(found) == bool(expected), drawn
        else:
            assert found.size() == 8 * expected.itemsize
            assert (found.as_long() if expected.dtype == torch.uint8 else found.as_signed_long()) == int(expected), drawn


class Divided(Rule):
    """A quotient of a product by its factor, of 64 bits, in which a product of a 32-bit number fits."""

    source = "for this test"
    requires = [Requires("the factor is small", lambda c: (c > 0) & (c < 1000))]

    def pattern(x: Int32[Tensor, "n"], c: int):
        return (x.to(torch.int64) * c) // c

    def replacement(x, c):
        return x.to(torch.int64)


class DividedInside(Divided):
    """The same in 32 bits, where the product wraps."""

    def pattern(x: Int32[Tensor, "n"], c: int):
        return (x * c) // c

    def replacement(x, c):
        return x * 1


class LargeFactor(Divided):
    """The same with any factor: 64 bits do not hold the product."""

    requires = [Requires("the factor is positive", lambda c: c > 0)]

    def pattern(x: Int32[Tensor, "n"], c: int):
        return (x.to(torch.int64) * c) // c

    def replacement(x, c):
        return x.to(torch.int64)


@pytest.mark.parametrize("rule, holds", [(Divided, True), (DividedInside, False), (LargeFactor, False)])
def test_attributes_are_numbers_within_their_limits(rule: type[Rule], holds: bool) -> None:
    assert prove_all(rule, {}, time.monotonic() + 60).proved is holds
