"""The named functions of `operators.meaning` in normal form, and constants as the real numbers they were written for."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import gcd
from typing import Any

from operators.expressions import Dim, floor_divide
from verifier.proof.binders import Binder
from verifier.proof.content import leads_negative
from verifier.proof.knowledge import Index
from verifier.proof.laws import ONE, exponential, inverse, logarithm, sigmoid, square_root, tanh
from verifier.proof.normalise import by_cases
from verifier.proof.piecewise import above_zero, absolute, floor, maximum, minimum, rounding, truncation
from verifier.proof.reductions import ROUNDING
from verifier.proof.signs import polynomial_of
from verifier.proof.terms import Function, Value, as_value


@cache
def _rounded() -> dict[float, tuple[int, int, bool]]:
    """Floats that are the nearest to a quotient of small whole numbers or to its root: (numerator, denominator, is root)."""
    table: dict[float, tuple[int, int, bool]] = {}
    for bottom in range(1, 65):
        for top in range(1, 65):
            if gcd(top, bottom) == 1:
                table.setdefault(top / bottom, (top, bottom, False))
                table.setdefault(math.sqrt(top / bottom), (top, bottom, True))
                table.setdefault(1 / math.sqrt(top / bottom), (bottom, top, True))
    return table


def real(number: float) -> Value:
    """A float as the real number it was written for: 0.1 is 1/10, 0.7071067811865476 is √(1/2)."""
    found = _rounded().get(abs(number))
    if found is None:
        return Value.of(number)
    top, bottom, root = found
    value = square_root(Value.of(Fraction(top, bottom))) if root else Value.of(Fraction(top, bottom))
    return value if number > 0 else -value


def product_over(index: Index, extent: Dim, value: Value) -> Value:
    """Π of a product of factors is the product of their Π."""
    single = value.single
    if single is None or single[0].bound or single[0].guards or single[1] != 1 or not single[0].factors:
        return Value.of(Binder("product", index, extent, value))
    result = ONE
    for factor, power in single[0].factors:
        part = Value.of(Binder("product", index, extent, Value.of(factor)))
        for _ in range(power):
            result = result * part
    return result


def odd(name: str) -> Callable[[Value], Value]:
    """A function with f(−x) = −f(x) and f(0) = 0 (sin: DLMF 4.21.12; erf: DLMF 7.4.1; atan: DLMF 4.24.8)."""

    def build(value: Value) -> Value:
        def make(x: Value) -> Value:
            if not x.terms:
                return Value({})
            if leads_negative(x):
                return -Value.of(Function(name, (-x,), build))
            return Value.of(Function(name, (x,), build))

        return by_cases([value], make)

    return build


def cosine(value: Value) -> Value:
    """cos(−x) = cos(x), cos(0) = 1 (DLMF 4.21.13)."""

    def make(x: Value) -> Value:
        if not x.terms:
            return ONE
        return Value.of(Function("cos", (-x if leads_negative(x) else x,), cosine))

    return by_cases([value], make)


def power(base: Value, exponent: Value) -> Value:
    """xⁿ by multiplication for whole n, x^(n/2) = √xⁿ; else uninterpreted."""
    number = exponent.number
    if number is not None and number.denominator in (1, 2) and abs(number) <= 12:
        step = base if number.denominator == 1 else square_root(base)
        result = ONE
        for _ in range(abs(number.numerator)):
            result = result * step
        return result if number >= 0 else inverse(result)
    return by_cases([base, exponent], lambda b, e: Value.of(Function("power", (b, e), power)))


def floor_quotient(left: Value, right: Value) -> Value:
    """⌊x / y⌋; of sizes, the integer quotient."""
    sizes = polynomial_of(left), polynomial_of(right)
    if sizes[0] is not None and sizes[1] is not None and not (isinstance(sizes[1], int) and sizes[1] == 0):
        return as_value(floor_divide(sizes[0], sizes[1]))
    return floor(left * inverse(right))


def uninterpreted(name: str) -> Callable[..., Value]:
    """A function of which nothing is known."""

    def build(*arguments: Value) -> Value:
        return by_cases(arguments, lambda *xs: Value.of(Function(name, xs, build)))

    return build


def rounding_to(name: str) -> Callable[..., Value]:
    """A function of which is known that it increases (not strictly), and f(−x) = −f(x): rounding to the nearest number of a set."""

    def build(value: Value) -> Value:
        def make(x: Value) -> Value:
            if not x.terms:
                return x
            return -Value.of(Function(name, (-x,), build)) if leads_negative(x) else Value.of(Function(name, (x,), build))

        return by_cases([value], make)

    return build


NAMED: dict[str, Callable[..., Any]] = {
    "divide": lambda a, b: a * inverse(b),
    "exp": exponential,
    "log": logarithm,
    "log1p": lambda x: logarithm(ONE + x),
    "expm1": lambda x: exponential(x) - ONE,
    "sqrt": square_root,
    "rsqrt": lambda x: inverse(square_root(x)),
    "tanh": tanh,
    "sigmoid": sigmoid,
    "erf": odd("erf"),
    "sin": odd("sin"),
    "cos": cosine,
    "atan": odd("atan"),
    "abs": absolute,
    "sign": lambda x: above_zero(x) - above_zero(-x),
    "floor": floor,
    "ceil": lambda x: -floor(-x),
    "round": rounding,
    "trunc": truncation,
    "maximum": maximum,
    "minimum": minimum,
    "power": power,
    "floor_divide": floor_quotient,
    "remainder": lambda a, b: a - b * floor_quotient(a, b),
    "trunc_remainder": lambda a, b: a - b * truncation(a * inverse(b)),
    "trunc_divide": lambda a, b: truncation(a * inverse(b)),
    "bitwise_not": lambda x: -x - ONE,
    "and": lambda a, b: a * b,
    "or": lambda a, b: a + b - a * b,
    "xor": lambda a, b: a + b - (a * b).scaled(Fraction(2)),
    "not": lambda a: ONE - a,
    "isnan": lambda x: Value({}),
}


def named(name: str) -> Callable[..., Value]:
    """The function of this name, in normal form."""
    return NAMED.get(name) or (rounding_to(name) if name.startswith(ROUNDING) else uninterpreted(name))
