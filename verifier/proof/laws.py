"""Facts about nonlinear functions over the reals, each with its source; functions are built in normal form here.

Domains: an identity is used where both sides are defined. A quotient x · (1/x) becomes 1 only where x ≠ 0 is known,
√x · √x becomes x only where x ≥ 0 is known. Sources: DLMF, the NIST Digital Library of Mathematical Functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from math import gcd, isqrt
from typing import Any

from operators.expressions import Atom, Dim, Expression, Formula, Truth, at_least_zero, equal, floor_divide, substitute
from verifier.proof.content import common_content
from verifier.proof.knowledge import Index, current
from verifier.proof.normalise import by_cases, unless, where
from verifier.proof.reductions import Alternative, Binder, Largest, infinity, is_minus_infinity, largest
from verifier.proof.signs import (
    factor_is_nonnegative,
    factor_is_nonzero,
    factor_is_positive,
    is_nonnegative,
    is_positive,
    is_whole,
    polynomial_of,
    whole_expression,
)
from verifier.proof.terms import Data, Factor, Function, Product, Read, Value, as_value

ONE = Value.of(1)


def combine(factors: Iterable[tuple[Factor, int]], guards: Iterable[Formula]) -> tuple[dict[Factor, int] | None, list[Value]]:
    """Factors of one product merged by the laws of powers, and what they turn into besides; None for a product that is 0.

    eˣ·eʸ = eˣ⁺ʸ (DLMF 4.8.15); x·(1/x) = 1 for x ≠ 0; √x·√x = x for x ≥ 0 (DLMF 4.2.26); |x|·|x| = x·x; [c]·[c] = [c].
    """
    powers: dict[Factor, int] = {}
    exponents: list[Value] = []
    for factor, power in factors:
        if isinstance(factor, Function) and factor.name == "exp":
            exponents.append(factor.arguments[0].scaled(Fraction(power)))
        else:
            powers[factor] = 1 if factor.idempotent else powers.get(factor, 0) + power
    others: list[Value] = []
    if len(exponents) == 1:
        powers[Function("exp", (exponents[0],), exponential)] = 1
    elif exponents:
        others.append(exponential(sum(exponents[1:], exponents[0])))
    for factor in list(powers):
        if factor not in powers:
            continue
        if isinstance(factor, Function) and factor.name == "inverse":
            _cancel(factor, powers, guards)
        elif isinstance(factor, Function) and factor.name == "sigmoid":
            absorbed = _sigmoid_times_exponential(factor, powers)
            if absorbed is not None:
                others.append(absorbed)
        if powers.get(factor, 0) >= 2:
            square = _square(factor, guards)
            if square is not None:
                pairs, powers[factor] = divmod(powers[factor], 2)
                others.extend([square] * pairs)
                if not powers[factor]:
                    del powers[factor]
    return powers, others


def _cancel(inverted: Function, powers: dict[Factor, int], guards: Iterable[Formula]) -> None:
    base = inverted.arguments[0].factor
    if base is not None and base in powers and factor_is_nonzero(base, guards):
        common = min(powers[base], powers[inverted])
        for factor in (base, inverted):
            powers[factor] -= common
            if not powers[factor]:
                del powers[factor]


def _sigmoid_times_exponential(factor: Function, powers: dict[Factor, int]) -> Value | None:
    """eˣ·sigmoid(x) = eˣ − sigmoid(x) and e⁻ˣ·sigmoid(x) = 1 − sigmoid(x): the exponent loses x (the definition of sigmoid)."""
    exponential_ = next((f for f in powers if isinstance(f, Function) and f.name == "exp"), None)
    if exponential_ is None:
        return None
    exponent, inner = exponential_.arguments[0], factor.arguments[0]
    ratios = [exponent.terms.get(product, Fraction(0)) / coefficient for product, coefficient in inner.terms.items()]
    sign = 1 if all(r >= 1 for r in ratios) else -1 if all(r <= -1 for r in ratios) else 0
    if not sign:
        return None
    del powers[exponential_]
    powers[factor] -= 1
    if not powers[factor]:
        del powers[factor]
    rest = exponential(exponent - inner.scaled(Fraction(sign)))
    one = exponential(inner) if sign == 1 else ONE
    return rest * (one - Value.of(factor))


def _square(factor: Factor, guards: Iterable[Formula]) -> Value | None:
    if isinstance(factor, Function) and factor.name == "sqrt" and is_nonnegative(factor.arguments[0], guards):
        return factor.arguments[0]
    if isinstance(factor, Function) and factor.name == "inverse":
        inner = factor.arguments[0].factor
        if isinstance(inner, Function) and inner.name == "sqrt" and is_nonnegative(inner.arguments[0], guards):
            return inverse(inner.arguments[0])
    if isinstance(factor, Largest):
        absolute = _absolute_of(factor)
        if absolute is not None:
            return absolute * absolute
    return None


def _absolute_of(factor: Largest) -> Value | None:
    if len(factor.alternatives) != 2:
        return None
    one, other = factor.alternatives
    plain = not (one.bound or one.guards or other.bound or other.guards)
    return one.value if plain and not (one.value + other.value).terms else None


def exponential(value: Value) -> Value:
    """eˣ: e⁰ = 1, e⁻∞ = 0, e^(n·log x) = xⁿ for x > 0 (DLMF 4.2.2, 4.8.15)."""
    return by_cases([value], _exponential)


def _exponential(value: Value) -> Value:
    if not value.terms:
        return ONE
    if is_minus_infinity(value):
        return Value({})
    result = ONE
    rest = value
    for product, coefficient in value.terms.items():
        if product.bound or product.guards or len(product.factors) != 1 or coefficient.denominator != 1:
            continue
        factor, power = product.factors[0]
        if isinstance(factor, Function) and factor.name == "log" and power == 1 and is_positive(factor.arguments[0]):
            base = factor.arguments[0] if coefficient > 0 else inverse(factor.arguments[0])
            for _ in range(abs(int(coefficient))):
                result = result * base
            rest = rest - Value({product: coefficient})
    return result * Value.of(Function("exp", (rest,), exponential)) if rest.terms else result


def inverse(value: Value) -> Value:
    """1/x: 1/(x·y) = 1/x · 1/y, 1/(1/x) = x, 1/eˣ = e⁻ˣ, 1/(1 + eˣ) = sigmoid(−x)."""
    return by_cases([value], _inverse)


def _inverse(value: Value) -> Value:
    number = value.number
    if number is not None and number != 0:
        return Value.of(1 / number)
    if value.single is not None:
        product, coefficient = value.single
        if not product.bound and not product.guards and product.factors:
            result = Value.of(1 / coefficient)
            for factor, power in product.factors:
                inverted = _inverse_of_factor(factor)
                for _ in range(power):
                    result = result * inverted
            return result
    content = common_content([value], (), lambda factor: True)
    lead = min(value.terms.items(), key=lambda item: item[0].masked)[1] if value.terms else Fraction(1)
    if (content.is_one and lead == 1) or not value.terms:
        return _logistic(value) or Value.of(Function("inverse", (value,), inverse))
    if content.powers or content.exponent.terms:
        return _inverse(content.value()) * _inverse(content.taken_out_of(value))
    return _plain_inverse(value.scaled(1 / lead)).scaled(1 / lead)


def _plain_inverse(value: Value) -> Value:
    return _logistic(value) or Value.of(Function("inverse", (value,), inverse))


def _inverse_of_factor(factor: Factor) -> Value:
    if isinstance(factor, Function):
        if factor.name == "inverse":
            return factor.arguments[0]
        if factor.name == "exp":
            return exponential(-factor.arguments[0])
        if factor.name == "sigmoid":
            return ONE + exponential(-factor.arguments[0])
    return Value.of(Function("inverse", (Value.of(factor),), inverse))


def _logistic(value: Value) -> Value | None:
    """1/(1 + eˣ) as sigmoid(−x), 1/(eˣ + eʸ) as e⁻ˣ·sigmoid(x − y)."""
    parts = [Value.of(product).factor for product, coefficient in value.terms.items() if coefficient == 1]
    exponents = [f.arguments[0] for f in parts if isinstance(f, Function) and f.name == "exp"]
    if len(value.terms) != 2 or len(parts) != 2:
        return None
    if len(exponents) == 1 and (value - exponential(exponents[0])).number == 1:
        return sigmoid(-exponents[0])
    if len(exponents) == 2:
        first, second = sorted(exponents, key=lambda e: e.key)
        return exponential(-first) * sigmoid(first - second)
    return None


def leads_negative(value: Value) -> bool:
    """The coefficient of the first term in a fixed order is negative."""
    return bool(value.terms) and min(value.terms.items(), key=lambda item: (item[0].masked, item[0].key))[1] < 0


def sigmoid(value: Value) -> Value:
    """sigmoid(−x) = 1 − sigmoid(x); sigmoid(0) = 1/2."""

    def make(x: Value) -> Value:
        if not x.terms:
            return Value.of(Fraction(1, 2))
        if leads_negative(x):
            return ONE - Value.of(Function("sigmoid", (-x,), sigmoid))
        return Value.of(Function("sigmoid", (x,), sigmoid))

    return by_cases([value], make)


def tanh(value: Value) -> Value:
    """tanh x = 2·sigmoid(2x) − 1 (DLMF 4.28.3)."""
    return sigmoid(value.scaled(Fraction(2))).scaled(Fraction(2)) - ONE


def logarithm(value: Value) -> Value:
    """log(x·y) = log x + log y for x > 0; log eˣ = x; log(1/x) = −log x; log √x = ½·log x; log sigmoid(x) = −log(1 + e⁻ˣ) (DLMF 4.8.1, 4.8.10)."""
    return by_cases([value], _logarithm)


def _log_factor(factor: Factor) -> Value:
    if isinstance(factor, Function):
        if factor.name == "exp":
            return factor.arguments[0]
        if factor.name == "inverse":
            return -_logarithm(factor.arguments[0])
        if factor.name == "sigmoid":
            return -_logarithm(ONE + exponential(-factor.arguments[0]))
        if factor.name == "sqrt":
            return _logarithm(factor.arguments[0]).scaled(Fraction(1, 2))
    return Value.of(Function("log", (Value.of(factor),), logarithm))


def _logarithm(value: Value) -> Value:
    if value.number == 1:
        return Value({})
    complement = (ONE - value).factor
    if isinstance(complement, Function) and complement.name == "sigmoid":
        return -_logarithm(ONE + exponential(complement.arguments[0]))
    if value.single is not None and value.number is None:
        product, coefficient = value.single
        loose = [f for f, _ in product.factors if not factor_is_positive(f)]
        if not product.bound and not product.guards and coefficient > 0 and sum(dict(product.factors)[f] for f in loose) <= 1:
            result = Value({}) if coefficient == 1 else _log_number(coefficient)
            for factor, power in product.factors:
                result = result + _log_factor(factor).scaled(Fraction(power))
            return result
    content = common_content([value], (), factor_is_positive)
    if value.number is None and not content.is_one:
        return _logarithm(content.value()) + _logarithm(content.taken_out_of(value))
    return Value.of(Function("log", (value,), logarithm))


def _log_number(number: Fraction) -> Value:
    result = Value({})
    for part, sign in ((number.numerator, 1), (number.denominator, -1)):
        if part != 1:
            result = result + Value.of(Function("log", (Value.of(part),), logarithm)).scaled(Fraction(sign))
    return result


def square_root(value: Value) -> Value:
    """√(x·y) = √x·√y for x ≥ 0; √(x·x) = |x| (DLMF 4.2.26)."""
    return by_cases([value], _square_root)


def _square_root(value: Value) -> Value:
    number = value.number
    if number is not None:
        if number >= 0 and isqrt(number.numerator) ** 2 == number.numerator and isqrt(number.denominator) ** 2 == number.denominator:
            return Value.of(Fraction(isqrt(number.numerator), isqrt(number.denominator)))
        if number > 0 and number.denominator != 1:
            return _square_root(Value.of(number.numerator)) * inverse(_square_root(Value.of(number.denominator)))
        return Value.of(Function("sqrt", (value,), square_root))
    if value.factor is not None and isinstance(value.factor, Function) and value.factor.name == "inverse":
        return inverse(_square_root(value.factor.arguments[0]))
    content = common_content([value], (), lambda f: True)
    inside, outside = ONE, ONE
    taken: dict[Factor, int] = {}
    for factor, power in content.powers.items():
        known = factor_is_nonnegative(factor)
        use = power if known else power - power % 2
        if not use or (known and value.factor == factor):
            continue
        taken[factor] = use
        for _ in range(use // 2):
            outside = outside * (Value.of(factor) if known else absolute(Value.of(factor)))
        if use % 2:
            outside = outside * _square_root(Value.of(factor))
    if taken or content.number != 1 or content.exponent.terms:
        from verifier.proof.content import Content

        part = Content(content.number, taken, content.exponent)
        rest = part.taken_out_of(value)
        outside = outside * _square_root(Value.of(content.number)) * exponential(content.exponent.scaled(Fraction(1, 2)))
        return outside * (_square_root(rest) if rest.number is None else inside * _square_root(rest))
    return Value.of(Function("sqrt", (value,), square_root))


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


def maximum(left: Value, right: Value) -> Value:
    """The larger of two values."""
    return largest([Alternative((), frozenset(), left), Alternative((), frozenset(), right)])


def minimum(left: Value, right: Value) -> Value:
    """min(x, y) = −max(−x, −y)."""
    return -maximum(-left, -right)


def absolute(value: Value) -> Value:
    """|x| = max(x, −x)."""
    return maximum(value, -value)


def truth(condition: Truth) -> Value:
    """1 where the statement about indices holds, else 0."""
    return where(condition, ONE)


def above_zero(value: Value) -> Value:
    """[x > 0], the same for every positive multiple of x."""

    def make(x: Value) -> Value:
        number = x.number
        if number is not None:
            return ONE if number > 0 else Value({})
        if is_positive(x):
            return ONE
        if is_nonnegative(-x):
            return Value({})
        scaled = _without_positive_content(x)
        size = whole_expression(scaled)
        if size is not None:
            return truth(at_least_zero(size - 1))
        return Value.of(Function("above", (scaled,), above_zero, idempotent=True))

    return by_cases([value], make)


def is_zero(value: Value) -> Value:
    """[x = 0], the same for every multiple of x."""

    def make(x: Value) -> Value:
        number = x.number
        if number is not None:
            return ONE if number == 0 else Value({})
        if is_positive(x) or is_positive(-x):
            return Value({})
        scaled = _without_positive_content(x)
        if leads_negative(scaled):
            scaled = -scaled
        size = whole_expression(scaled)
        if size is not None:
            return truth(equal(size, 0))
        return Value.of(Function("zero", (scaled,), is_zero, idempotent=True))

    return by_cases([value], make)


def _without_positive_content(value: Value) -> Value:
    content = common_content([value], (), factor_is_positive)
    return value if content.is_one else content.taken_out_of(value)


def floor(value: Value) -> Value:
    """⌊x + n⌋ = ⌊x⌋ + n for whole n; ⌊⌊x⌋/n⌋ = ⌊x/n⌋ for whole n > 0 (Graham, Knuth, Patashnik, Concrete Mathematics, 3.11)."""

    def make(x: Value) -> Value:
        whole = Value({p: c for p, c in x.terms.items() if is_whole(Value({p: c}))})
        rest = x - whole
        outside = Value({p.renamed(): c for p, c in whole.terms.items()})
        if rest.number is not None:
            return outside + Value.of(rest.number.__floor__())
        nested = _floor_of_floor(rest)
        if nested is not None:
            return outside + floor(nested)
        return outside + Value.of(Function("floor", (rest,), floor))

    return by_cases([value], make)


def _floor_of_floor(value: Value) -> Value | None:
    if value.single is None or value.single[0].bound or value.single[0].guards:
        return None
    product, coefficient = value.single
    inner = [f for f, power in product.factors if power == 1 and isinstance(f, Function) and f.name == "floor"]
    others = [(f, power) for f, power in product.factors if f not in inner]
    divisors = [f.arguments[0] for f, _ in others if isinstance(f, Function) and f.name == "inverse"]
    whole = len(divisors) == len(others) and all(is_whole(d) and is_positive(d) for d in divisors)
    if len(inner) != 1 or not whole or coefficient.numerator != 1:
        return None
    return inner[0].arguments[0] * Value({Product((), frozenset(), tuple(others)): coefficient})


def truncation(value: Value) -> Value:
    """trunc(n) = n for whole n; trunc(x − trunc(x)) = 0; trunc(−x) = −trunc(x)."""

    def make(x: Value) -> Value:
        if is_whole(x):
            return x
        if x.number is not None:
            return Value.of(int(x.number))
        for product in x.terms:
            factor = Value.of(product).factor
            if isinstance(factor, Function) and factor.name == "trunc":
                rest = x + Value.of(factor) if x.terms[product] == -1 else x - Value.of(factor)
                sign = 1 if x.terms[product] == -1 else -1
                if not (rest.scaled(Fraction(sign)) - factor.arguments[0]).terms:
                    return Value({})
        if leads_negative(x):
            return -Value.of(Function("trunc", (-x,), truncation))
        return Value.of(Function("trunc", (x,), truncation))

    return by_cases([value], make)


def rounding(value: Value) -> Value:
    """round(n) = n for whole n."""

    def make(x: Value) -> Value:
        return x if is_whole(x) else Value.of(Function("round", (x,), rounding))

    return by_cases([value], make)


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


def as_index(value: Value) -> Dim:
    """A whole value as an index."""
    size = whole_expression(value)
    return Expression.of(Data(value)) if size is None else Expression.of(size).collapse()


def read(tensor: str, index: tuple[Dim, ...], kind: str) -> Value:
    """An element of a tensor; a computed index that differs by cases gives different elements by cases."""
    computed = list(dict.fromkeys(atom for dim in index if isinstance(dim, Expression) for atom in dim.atoms if isinstance(atom, Data)))

    def make(*positions: Value) -> Value:
        values: dict[Atom, Dim] = {atom: as_index(position) for atom, position in zip(computed, positions, strict=True)}
        return Value.of(Read(tensor, tuple(substitute(dim, values) for dim in index), kind))

    return by_cases([atom.value for atom in computed], make) if computed else make()


def uninterpreted(name: str) -> Callable[..., Value]:
    """A function of which nothing is known."""

    def build(*arguments: Value) -> Value:
        return by_cases(arguments, lambda *xs: Value.of(Function(name, xs, build)))

    return build


def _compare(relation: str, left: Value, right: Value) -> Value:
    if relation in ("==", "!="):
        same = is_zero(left - right)
        return same if relation == "==" else ONE - same
    if relation in (">", "<"):
        return above_zero(left - right if relation == ">" else right - left)
    return ONE - above_zero(right - left if relation == ">=" else left - right)


compare = _compare

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
    return NAMED.get(name) or uninterpreted(name)


__all__ = ["NAMED", "combine", "compare", "current", "infinity", "named", "unless"]
