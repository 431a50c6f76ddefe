"""Sums over the same index points that are zero because their summands are, piecewise functions case by case."""

from __future__ import annotations

import itertools
from fractions import Fraction

from operators.expressions import Expression, Symbol
from operators.formulas import Comparison, Formula, formula_symbols
from verifier.proof import pointwise
from verifier.proof.guards import bounds_of
from verifier.proof.terms import Factor, Product, Size, Value, sorted_factors

Guards = frozenset[Formula]


def without_zero_sums(value: Value, guards: Guards) -> Value:
    """What is left of the value when sums whose summands are zero together are taken away."""
    if not pointwise.is_piecewise(value):
        return value
    left = dict(value.canonical().terms)
    for first in sorted((product for product in left if product.bound), key=lambda product: len(product.bound)):
        if first not in left:
            continue
        lead = first.renamed()
        same = {product: _over_indices_of(lead, product) for product in left if product.bound}
        counted = {product: _each_of(lead, product) for product in left if not product.bound}
        for summands in (same | counted, same):
            found = {product: each for product, each in summands.items() if each is not None}
            body = Value({})
            for product, (each, share) in found.items():
                body = body + Value({each: left[product] * share})
            if pointwise.is_zero(body, guards | lead.guards):
                left = {product: coefficient for product, coefficient in left.items() if product not in found}
                break
    return Value(left)


def _over_indices_of(lead: Product, other: Product) -> tuple[Product, Fraction] | None:
    """The other's summand at the lead's indices, where it sums over the same points, and perhaps over further indices at each of them."""
    apart = other.renamed()
    for chosen in itertools.islice(itertools.permutations(apart.bound, len(lead.bound)), 24):
        moved = apart.renamed_to(dict(zip(chosen, lead.bound, strict=True)))
        further = tuple(index for index in moved.bound if index not in lead.bound)
        inner = frozenset(guard for guard in moved.guards if formula_symbols(guard) & set(further))
        if moved.guards - inner == lead.guards:
            return Product(further, inner, moved.factors), Fraction(1)
    return None


def _each_of(lead: Product, other: Product) -> tuple[Product, Fraction] | None:
    """The other as a sum over the lead's points: n·c is the sum of c over n of them."""
    powers: dict[Factor, int] = dict(other.factors)
    share = Fraction(1)
    limits = bounds_of(guard for guard in lead.guards if isinstance(guard, Comparison))
    for index in lead.bound:
        low, high = limits.get(index, (None, None))
        if low != 0 or high is None:
            return None
        extent = high + 1
        if isinstance(extent, int):
            if extent < 1:
                return None
            share = share / extent
            continue
        factor = next((Size(atom) for atom in extent.atoms if isinstance(atom, Symbol) and Expression.of(atom) == extent), None)
        if factor is None or factor.free & set(lead.bound) or powers.get(factor, 0) < 1:
            return None
        powers[factor] -= 1
    if other.guards or len(lead.guards) != 2 * len(lead.bound):  # each index has its range and nothing else
        return None
    return Product((), frozenset(), sorted_factors({factor: power for factor, power in powers.items() if power})), share


__all__ = ["without_zero_sums"]
