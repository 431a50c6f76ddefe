"""A term as a sum over more indices, all but one point of it guarded away: x[o] = Σ over c of [c = o] · x[c].

So an identity beside a convolution stands among the convolution's own terms, where its kernel is the unit matrix at the middle tap,
and an average pool where its kernels are the diagonal.
"""

from __future__ import annotations

from collections.abc import Iterator

from operators.expressions import Atom, Dim, Expression, substitute
from operators.formulas import Formula, equal
from operators.predicates import substitute_formula
from verifier.proof.compare import Comparison_, Guards, core, numeric_part, pairings
from verifier.proof.knowledge import current
from verifier.proof.matching import Equation, Map, equations_between, solutions
from verifier.proof.terms import Product, sorted_factors

Names = dict[Atom, Dim]


def spreads(narrow: Product, wide: Product, guards: Guards, comparison: Comparison_) -> Iterator[tuple[Product, Names]]:
    """The narrow product over the wide one's indices and factors, and what its own bound indices are called there.

    Assumes: the guards hold, and both products have bound indices of their own.
    """
    wide = wide.renamed()
    factors = core(wide)
    given = narrow.guards | guards
    for pairs in pairings(core(narrow), factors):
        equations = [e for one, other in pairs for mine, theirs in equations_between(one, other) for e in _by_digits(mine, theirs, wide)]
        for found in solutions(equations, narrow, wide, bijective=False):
            names = _names(narrow, wide, found)
            if names is None or not all(comparison.factors_equal(one, other, found, given) for one, other in pairs):
                continue
            points = [equal(Expression.of(index), substitute(found[index], names)) for index in wide.bound]
            own = [substitute_formula(guard, names) for guard in narrow.guards]
            held = [guard for guard in wide.guards if current().proves(substitute_formula(guard, found), given)]
            if False not in points and False not in own:
                kept = [(factor, power) for factor, power in wide.factors if factor in factors] + list(numeric_part(narrow))
                guarded = frozenset(guard for guard in (*points, *own, *held) if isinstance(guard, Formula))
                yield Product(wide.bound, guarded, sorted_factors(dict(kept))), names


def _by_digits(mine: Dim, theirs: Dim, wide: Product) -> Iterator[Equation]:
    """Equations that make the indices equal: where the wide one is written in several digits, one for each of them."""
    digits = {}
    if isinstance(theirs, Expression) and isinstance(mine, Expression):
        digits = {index: c for index in wide.bound if isinstance(c := theirs.terms.get((index,)), int) and c > 0}
    if len(digits) < 2:
        yield mine, theirs
        return
    index, radix = max(digits.items(), key=lambda item: item[1])
    whole: Dim = 0
    for monomial, coefficient in Expression.of(mine).terms.items():
        if monomial and coefficient % radix == 0:
            whole = whole + Expression({monomial: coefficient // radix})
    yield whole, Expression.of(index)
    yield from _by_digits(mine - radix * whole, theirs - radix * Expression.of(index), wide)


def _names(narrow: Product, wide: Product, found: Map) -> Names | None:
    """What each bound index of the narrow product is in those of the wide one: one of these up to a shift; None where it is not."""
    names: Names = {}
    bound = set(narrow.bound)
    for own in narrow.bound:
        shifts = ((index, found[index] - Expression.of(own)) for index in wide.bound)
        whole = [(index, shift) for index, shift in shifts if isinstance(shift, int) or not shift.symbols & bound]
        if not whole:
            return None
        index, shift = whole[0]
        names[own] = Expression.of(index) - shift
    return names


__all__ = ["Names", "spreads"]
