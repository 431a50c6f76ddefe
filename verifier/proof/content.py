"""What all terms of values have in common: an addend, a number, factors, an exponent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd, lcm

from operators.expressions import Symbol
from verifier.proof.terms import Factor, Function, Product, Value, sorted_factors


def common_addend(values: Sequence[Value], bound: Iterable[Symbol]) -> Value:
    """The terms that every value has with the same coefficient and that mention no bound index."""
    first, *others = values
    names = set(bound)
    kept = {p: c for p, c in first.terms.items() if not p.free & names and all(other.terms.get(p) == c for other in others)}
    return Value(kept)


@dataclass(frozen=True)
class Content:
    """number · Π factor^power · e^exponent."""

    number: Fraction = Fraction(1)
    powers: dict[Factor, int] = field(default_factory=dict)
    exponent: Value = field(default_factory=lambda: Value({}))

    @property
    def is_one(self) -> bool:
        return self.number == 1 and not self.powers and not self.exponent.terms

    def value(self) -> Value:
        """The content as a value."""
        from verifier.proof.laws import exponential

        result = Value({Product((), frozenset(), sorted_factors(self.powers)): self.number})
        return result * exponential(self.exponent) if self.exponent.terms else result

    def taken_out_of(self, value: Value) -> Value:
        """The value divided by the content."""
        result = Value({})
        for product, coefficient in value.terms.items():
            powers = {f: n - self.powers.get(f, 0) for f, n in product.factors if n != self.powers.get(f, 0)}
            if self.exponent.terms:
                powers = _with_smaller_exponent(powers, self.exponent)
            result = result + Value({Product(product.bound, product.guards, sorted_factors(powers)): coefficient / self.number})
        return result


def exponent_of(product: Product) -> Value:
    """The argument of the product's exponential; 0 without one."""
    for factor, _ in product.factors:
        if isinstance(factor, Function) and factor.name == "exp":
            return factor.arguments[0]
    return Value({})


def _with_smaller_exponent(powers: dict[Factor, int], exponent: Value) -> dict[Factor, int]:
    from verifier.proof.laws import exponential

    result: dict[Factor, int] = {}
    for factor, power in powers.items():
        if isinstance(factor, Function) and factor.name == "exp":
            rest = factor.arguments[0] - exponent
            if rest.terms:
                result[Function("exp", (rest,), exponential)] = power
        else:
            result[factor] = power
    return result


def common_content(values: Sequence[Value], bound: Iterable[Symbol], usable: Callable[[Factor], bool]) -> Content:
    """The greatest common content of all terms of the values; its number is positive, its factors are usable."""
    names = set(bound)
    products = [(p, c) for value in values for p, c in value.terms.items()]
    if not products:
        return Content()
    powers: dict[Factor, int] | None = None
    for product, _ in products:
        inner = names | set(product.bound)
        here = {f: n for f, n in product.factors if not f.free & inner and not (isinstance(f, Function) and f.name == "exp")}
        powers = here if powers is None else {f: min(n, here[f]) for f, n in powers.items() if f in here}
    exponents = [exponent_of(p) for p, _ in products]
    exponent = Value({})
    if all(e.terms for e in exponents):
        exponent = common_addend(exponents, names | {b for p, _ in products for b in p.bound})
    top, bottom = 0, 1
    for _, coefficient in products:
        top, bottom = gcd(top, coefficient.numerator), lcm(bottom, coefficient.denominator)
    return Content(Fraction(top, bottom), {f: n for f, n in (powers or {}).items() if usable(f)}, exponent)


def leads_negative(value: Value) -> bool:
    """The coefficient of the first term in a fixed order is negative."""
    return bool(value.terms) and min(value.terms.items(), key=lambda item: (item[0].masked, item[0].key))[1] < 0
