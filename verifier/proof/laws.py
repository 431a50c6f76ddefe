"""Facts about exponentials, logarithms, roots and reciprocals over the reals, each with its source; built in normal form here.

Domains: an identity is used where both sides are defined. A quotient x · (1/x) becomes 1 only where x ≠ 0 is known,
√x · √x becomes x only where x ≥ 0 is known. Sources: DLMF, the NIST Digital Library of Mathematical Functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import isqrt

from operators.formulas import Formula
from verifier.proof.content import Content, common_content, exponent_of, leads_negative
from verifier.proof.knowledge import current
from verifier.proof.normalise import by_cases
from verifier.proof.piecewise import absolute
from verifier.proof.reductions import Largest, is_minus_infinity
from verifier.proof.signs import factor_is_nonnegative, factor_is_positive, is_nonnegative, is_nonzero, is_positive
from verifier.proof.terms import Factor, Function, Size, Value

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
    if base is not None and base in powers and cancels(Value.of(base), guards):
        common = min(powers[base], powers[inverted])
        for factor in (base, inverted):
            powers[factor] -= common
            if not powers[factor]:
                del powers[factor]


def cancels(value: Value, guards: Iterable[Formula]) -> bool:
    """x · (1/x) = 1; noted as partial where x ≠ 0 is known only because the range of a sum around it is not empty."""
    if is_nonzero(value):
        return True
    if not is_nonzero(value, guards):
        return False
    current().partial = True
    return True


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
    """eˣ: e⁰ = 1, e⁻∞ = 0, e^(n·log x) = xⁿ for x > 0 (DLMF 4.2.2, 4.8.15), and for x = 0 where n > 0: log 0 is −∞."""
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
        if not isinstance(factor, Function) or factor.name != "log" or power != 1:
            continue
        if is_positive(factor.arguments[0]) or (coefficient > 0 and is_nonnegative(factor.arguments[0])):
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
    """log(x·y) = log x + log y for x > 0; log eˣ = x; log(1/x) = −log x; log √x = ½·log x (DLMF 4.8.1, 4.8.10).

    log sigmoid(x) = −log(1 + e⁻ˣ), by definition; log(eˣ + eʸ) = x + log(1 + eʸ⁻ˣ).
    """
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
    least = _least_exponent(value)
    if least.terms:
        return least + _logarithm(value * exponential(-least))
    if value.single is not None and value.number is None:
        product, coefficient = value.single
        loose = [f for f, _ in product.factors if not factor_is_positive(f)]
        plain = not product.bound and not product.guards and coefficient > 0
        if plain and sum(dict(product.factors)[f] for f in loose) <= 1:
            result = Value({}) if coefficient == 1 else _log_number(coefficient)
            for factor, power in product.factors:
                result = result + _log_factor(factor).scaled(Fraction(power))
            return result
    content = common_content([value], (), factor_is_positive)
    if value.number is None and not content.is_one:
        return _logarithm(content.value()) + _logarithm(content.taken_out_of(value))
    return Value.of(Function("log", (value,), logarithm))


def _least_exponent(value: Value) -> Value:
    """What can be taken out of the exponents of a sum so that no term in them is negative, nor in all of them positive."""
    exponents = [
        Value({term: c for term, c in exponent_of(product).terms.items() if not term.free & set(product.bound)}) for product in value.terms
    ]
    terms = dict.fromkeys(term for exponent in exponents for term in exponent.terms)
    least = {term: min(exponent.terms.get(term, Fraction(0)) for exponent in exponents) for term in terms}
    return Value({term: c for term, c in least.items() if c})


def _log_number(number: Fraction) -> Value:
    result = Value({})
    for part, sign in ((number.numerator, 1), (number.denominator, -1)):
        if part != 1:
            result = result + Value.of(Function("log", (Value.of(part),), logarithm)).scaled(Fraction(sign))
    return result


def square_root(value: Value) -> Value:
    """√(x·y) = √x·√y for x ≥ 0; √(x·x) = |x| (DLMF 4.2.26)."""
    return by_cases([value], _square_root)


def _without_denominators(value: Value) -> tuple[Value, Value]:
    """(V·d², d) with no quotient by a positive number left in V·d²: √(a + b/s²) is written √(a·s² + b)/s."""
    powers: dict[Factor, int] = {}
    for product in value.terms if value.single is None else ():
        for factor, power in product.factors:
            if not isinstance(factor, Function) or factor.name != "inverse" or isinstance(factor.arguments[0].factor, Size):
                continue
            if factor_is_positive(factor):
                powers[factor] = max(powers.get(factor, 0), power + power % 2)
    whole, root = value, ONE
    for factor, power in powers.items():
        assert isinstance(factor, Function)
        for _ in range(power // 2):
            root = root * factor.arguments[0]
    whole = whole * root * root
    left = {factor for product in whole.terms for factor, _ in product.factors}
    return (value, ONE) if left & powers.keys() else (whole, root)


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
    whole, root = _without_denominators(value)
    if root.number != 1:
        return inverse(root) * _square_root(whole)
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
        part = Content(content.number, taken, content.exponent)
        rest = part.taken_out_of(value)
        outside = outside * _square_root(Value.of(content.number)) * exponential(content.exponent.scaled(Fraction(1, 2)))
        return outside * (_square_root(rest) if rest.number is None else inside * _square_root(rest))
    return Value.of(Function("sqrt", (value,), square_root))
