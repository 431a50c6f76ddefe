"""Facts about maxima, comparisons, roundings and computed indices over the reals; built in normal form here."""

from __future__ import annotations

from fractions import Fraction

from operators.expressions import Atom, Dim, Expression, substitute
from operators.formulas import Truth, at_least_zero, equal
from verifier.proof.content import common_content, leads_negative
from verifier.proof.normalise import by_cases, where
from verifier.proof.reductions import Alternative, largest
from verifier.proof.signs import factor_is_positive, is_nonnegative, is_positive, is_whole, whole_expression
from verifier.proof.terms import Data, Function, Product, Read, Value

ONE = Value.of(1)


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


def compare(relation: str, left: Value, right: Value) -> Value:
    """1 where the relation holds between the values, else 0."""
    if relation in ("==", "!="):
        same = is_zero(left - right)
        return same if relation == "==" else ONE - same
    if relation in (">", "<"):
        return above_zero(left - right if relation == ">" else right - left)
    return ONE - above_zero(right - left if relation == ">=" else left - right)


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
