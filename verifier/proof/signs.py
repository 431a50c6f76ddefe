"""Signs of values over the reals, as far as they can be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from operators.expressions import Dim, Expression, larger
from operators.formulas import Formula, at_least_zero, equal, negate
from verifier.proof.knowledge import current
from verifier.proof.reductions import Largest, is_inhabited
from verifier.proof.terms import Data, Factor, Function, Product, Read, Size, Value

POSITIVE_FUNCTIONS = frozenset({"exp", "sigmoid"})
NONNEGATIVE_FUNCTIONS = frozenset({"sqrt", "above", "zero"})


def factor_is_nonnegative(factor: Factor, guards: Iterable[Formula] = ()) -> bool:
    """The factor is ≥ 0 wherever it is defined."""
    if factor.key in current().nonnegative:
        return True
    if isinstance(factor, Read):
        return factor.idempotent or current().values.get(factor.tensor) in ("nonnegative", "positive")
    if isinstance(factor, Size):
        return current().proves(at_least_zero(Expression.of(factor.atom)), guards, linear=True)
    if isinstance(factor, Function):
        if factor.name in POSITIVE_FUNCTIONS or factor.name in NONNEGATIVE_FUNCTIONS:
            return True
        return factor.name == "inverse" and is_nonnegative(factor.arguments[0], guards)
    if isinstance(factor, Largest):
        return any(not a.bound and not a.guards and is_nonnegative(a.value, guards) for a in factor.alternatives) or _is_absolute(factor)
    return False


def _is_absolute(factor: Largest) -> bool:
    plain = [a.value for a in factor.alternatives if not a.bound and not a.guards]
    return any(not (one + other).terms for one in plain for other in plain if one is not other)


def factor_is_positive(factor: Factor, guards: Iterable[Formula] = ()) -> bool:
    """The factor is > 0 wherever it is defined."""
    if factor.key in current().nonzero and factor_is_nonnegative(factor, guards):
        return True
    if isinstance(factor, Read):
        return current().values.get(factor.tensor) == "positive"
    if isinstance(factor, Size):
        return current().proves(at_least_zero(Expression.of(factor.atom) - 1), guards, linear=True)
    if isinstance(factor, Function):
        if factor.name in POSITIVE_FUNCTIONS:
            return True
        return factor.name in ("inverse", "sqrt") and is_positive(factor.arguments[0], guards)
    if isinstance(factor, Largest):
        return any(not a.bound and not a.guards and is_positive(a.value, guards) for a in factor.alternatives)
    return False


def factor_is_nonzero(factor: Factor, guards: Iterable[Formula] = ()) -> bool:
    """The factor is not 0 wherever it is defined."""
    if factor.key in current().nonzero or (isinstance(factor, Read) and current().values.get(factor.tensor) == "nonzero"):
        return True
    if isinstance(factor, Size):
        return current().proves(negate(equal(Expression.of(factor.atom), 0)), guards, linear=True)
    if isinstance(factor, Function) and factor.name == "inverse":
        return is_nonzero(factor.arguments[0], guards)
    if isinstance(factor, Function) and factor.name == "sqrt":
        return is_positive(factor.arguments[0], guards)
    return factor_is_positive(factor, guards)


def _product_is_nonnegative(product: Product, guards: Iterable[Formula]) -> bool:
    inside = [*guards, *product.guards]
    return all(power % 2 == 0 or factor_is_nonnegative(factor, inside) for factor, power in product.factors)


def _product_is_positive(product: Product, guards: Iterable[Formula]) -> bool:
    """Σ of the product is > 0: the factors are, and the sum is not empty."""
    inside = [*guards, *product.guards]
    if not all(factor_is_positive(f, inside) or (power % 2 == 0 and factor_is_nonzero(f, inside)) for f, power in product.factors):
        return False
    if not product.guards:
        return True
    return is_inhabited(product.bound, product.guards, guards)


def _follows_from_a_bound(value: Value, strict: bool) -> bool:
    """The value is a positive multiple of what a condition says is ≥ 0 (or > 0), plus something not negative."""
    for bound in current().bounds:
        if bound.relation not in (">=", ">") or (strict and bound.relation != ">"):
            continue
        wanted = dict(bound.coefficients)
        found: dict[str, Fraction] = {}
        places = set()
        for product, coefficient in value.terms.items():
            factor = Value.of(product).factor
            if product.is_number:
                found[""] = coefficient
            elif isinstance(factor, Read) and factor.tensor in wanted and factor.tensor not in found:
                found[factor.tensor] = coefficient
                places.update([factor.index] if factor.index else [])
            else:
                found["?"] = coefficient
        constant = found.pop("", Fraction(0))
        if found.keys() != wanted.keys() or len(places) > 1:
            continue
        scales = {found[name] / wanted[name] for name in wanted}
        if len(scales) == 1 and min(scales) > 0 and constant >= min(scales) * bound.constant:
            return True
    return False


def direction(value: Value) -> str:
    """The value's key but for a positive number as a factor."""
    if not value.terms:
        return value.key
    _, lead = min(value.terms.items(), key=lambda item: item[0].masked)
    return value.scaled(1 / abs(lead)).canonical().key


def is_nonnegative(value: Value, guards: Iterable[Formula] = ()) -> bool:
    """The value is ≥ 0 wherever it is defined."""
    given = tuple(guards)
    if current().bounds and _follows_from_a_bound(value, strict=False):
        return True
    if current().nonnegative and direction(value) in current().nonnegative:
        return True
    return all(coefficient > 0 and _product_is_nonnegative(product, given) for product, coefficient in value.terms.items())


def is_positive(value: Value, guards: Iterable[Formula] = ()) -> bool:
    """The value is > 0 wherever it is defined."""
    given = tuple(guards)
    if current().bounds and _follows_from_a_bound(value, strict=True):
        return True
    if current().nonzero and direction(value) in current().nonzero and is_nonnegative(value, given):
        return True
    return is_nonnegative(value, given) and any(_product_is_positive(product, given) for product in value.terms)


def is_nonzero(value: Value, guards: Iterable[Formula] = ()) -> bool:
    """The value is not 0 wherever it is defined."""
    given = tuple(guards)
    number = value.number
    if number is not None:
        return number != 0
    if current().nonzero and direction(value) in current().nonzero:
        return True
    if value.single is not None:
        product, _ = value.single
        if not product.bound and not product.guards and all(factor_is_nonzero(f, given) for f, _ in product.factors):
            return True
    size = polynomial_of(value)
    if isinstance(size, Expression):
        return current().proves(negate(equal(size, 0)), given)
    return is_positive(value, given) or is_positive(-value, given)


def polynomial_of(value: Value) -> Expression | int | None:
    """The value as an integer expression, where it is a polynomial of sizes with integer coefficients."""
    return _expression(value, lambda factor: Expression.of(factor.atom) if isinstance(factor, Size) else None)


def whole_expression(value: Value) -> Expression | int | None:
    """The value as an integer expression, where it is a polynomial of sizes and of whole numbers computed from elements."""

    def atom(factor: Factor) -> Expression | None:
        if isinstance(factor, Size):
            return Expression.of(factor.atom)
        if isinstance(factor, Largest):
            extreme = _largest_expression(factor)
            if extreme is not None:
                return Expression.of(extreme)
        return Expression.of(Data(Value.of(factor))) if is_whole_factor(factor) else None

    return _expression(value, atom)


def _largest_expression(factor: Largest) -> Dim | None:
    """The maximum as an integer expression, where it is of a few whole numbers that are always there."""
    if any(a.bound or a.guards for a in factor.alternatives):
        return None
    found: Dim | None = None
    for expression in sorted((whole_expression(a.value) for a in factor.alternatives), key=str):
        if expression is None:
            return None
        found = expression if found is None else larger(found, expression)
    return found


def _expression(value: Value, atom: Callable[[Factor], Expression | None]) -> Expression | int | None:
    result: Expression | int = 0
    for product, coefficient in value.terms.items():
        if product.bound or product.guards or coefficient.denominator != 1:
            return None
        term: Expression | int = int(coefficient)
        for factor, power in product.factors:
            found = atom(factor)
            if found is None:
                return None
            for _ in range(power):
                term = term * found
        result = result + term
    return result


def is_whole(value: Value) -> bool:
    """The value is an integer wherever it is defined."""
    return all(c.denominator == 1 and all(is_whole_factor(f) for f, _ in product.factors) for product, c in value.terms.items())


def is_whole_factor(factor: Factor) -> bool:
    """The factor is an integer wherever it is defined."""
    if isinstance(factor, Read):
        return factor.kind in ("int", "bool")
    if isinstance(factor, Largest):
        return all(is_whole(a.value) for a in factor.alternatives)
    return isinstance(factor, Size) or (isinstance(factor, Function) and factor.name in ("floor", "trunc", "round", "above", "zero"))
