"""Equality of elements where constants count as numbers: W·γ/√(v + ε) is the constant that holds it, up to the rounding of a fold.

Terms are split into what reads unknown tensors and a coefficient of constants. Terms whose unknown parts are equal under a map
of bound indices form a group, as in `verifier.proof.compare`; the group is zero when Σ coefficient · [guards] · constants is zero at
every index point, which is evaluated in float64 over the whole grid and held against the rounding bound of `constants`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

import torch

from operators.expressions import Atom, Dim, Expression, Symbol
from operators.formulas import Comparison, Formula, at_least_zero, formula_symbols
from operators.predicates import substitute_formula
from verifier.equivalence.constants import Grid, NotNumbers, Number, consists_of
from verifier.equivalence.spreading import spreads
from verifier.proof.compare import Comparison_, Guards, core, head, numeric_part
from verifier.proof.guards import bounds_of, simplified
from verifier.proof.knowledge import current
from verifier.proof.terms import Factor, Product, Read, Value, sorted_factors

_DOUBLE = 2.0**-53


@dataclass(frozen=True)
class _Term:
    """A product as unknown · coefficient; the coefficient sums over its own bound indices."""

    unknown: Product
    coefficient: Product
    number: Fraction
    whole: Product


_Member: TypeAlias = tuple[Guards, Product, Fraction]


@dataclass
class UpToFolding(Comparison_):
    """A comparison that knows the numbers in `constants`.

    `unit` is the unit roundoff of the dtype they were folded in, `smallest` the magnitude below which its numbers lose digits or are
    flushed to zero. `rounded` is set once an equality held only up to rounding.
    """

    constants: Mapping[str, torch.Tensor] = field(default_factory=dict)
    unit: float = 2.0**-24
    smallest: float = 2.0**-126
    rounded: bool = False

    def _cancel(self, difference: Value, guards: Guards) -> Value:
        rest = super()._cancel(difference, guards)
        return self._folded(rest, guards) if rest.terms and self.constants else rest

    def _folded(self, rest: Value, guards: Guards) -> Value:
        """What is left when groups of terms whose constants cancel are taken away: as they are, then spread over more indices."""
        terms = self._left_of([self._split(product.renamed(), number) for product, number in rest.terms.items()], guards)
        spread = [self._spread(term, terms, guards) for term in terms]
        if any(one is not other for one, other in zip(spread, terms, strict=True)):
            terms = self._left_of(spread, guards)
        left: dict[Product, Fraction] = {}
        for term in terms:
            left[term.whole] = left.get(term.whole, Fraction(0)) + term.number
        return Value(left)

    def _left_of(self, terms: list[_Term], guards: Guards) -> list[_Term]:
        buckets: dict[tuple[object, ...], list[_Term]] = {}
        for term in terms:
            buckets.setdefault((len(term.unknown.bound), tuple(sorted(map(head, core(term.unknown))))), []).append(term)
        groups = sorted(buckets.items(), key=lambda item: repr(item[0]))
        return [term for _, group in groups for term in self._folded_bucket(group, guards)]

    def _spread(self, term: _Term, terms: list[_Term], guards: Guards) -> _Term:
        """The term over the indices of the one that reads the same over most; the term itself where there is none."""
        heads = sorted(map(head, core(term.unknown)))
        for wide in sorted(terms, key=lambda other: -len(other.unknown.bound)):
            if len(wide.unknown.bound) > len(term.unknown.bound) and sorted(map(head, core(wide.unknown))) == heads:
                for unknown, names in spreads(term.unknown, wide.unknown, guards, self):
                    coefficient = _moved(term.coefficient, names)
                    if coefficient is not None:
                        return _Term(unknown, coefficient, term.number, term.whole)
        return term

    def _split(self, product: Product, number: Fraction) -> _Term:
        fixed = {f: n for f, n in product.factors if consists_of(f, self.constants)}
        unknown = {f: n for f, n in product.factors if f not in fixed}
        outer = {s for f in unknown for s in f.free}
        inner = tuple(index for index in product.bound if index not in outer)
        own = frozenset(g for g in product.guards if formula_symbols(g) & set(inner))
        bound = tuple(index for index in product.bound if index in outer)
        return _Term(
            Product(bound, product.guards - own, sorted_factors(unknown)), Product(inner, own, sorted_factors(fixed)), number, product
        )

    def _folded_bucket(self, terms: list[_Term], guards: Guards) -> list[_Term]:
        left: list[_Term] = []
        pending = list(terms)
        while pending:
            lead, *others = pending
            group: list[tuple[Guards, Product | None, Fraction]] = [(lead.unknown.guards, lead.coefficient, lead.number)]
            members, pending = [lead], []
            for term in others:
                found = self._map_onto(lead.unknown, term.unknown, guards)
                if found is None or not _same_numbers(lead.unknown, term.unknown):
                    pending.append(term)
                    continue
                members.append(term)
                moved = simplified(substitute_formula(guard, found) for guard in term.unknown.guards)
                if moved is not None:
                    group.append((moved, _moved(term.coefficient, found), term.number))
            if not self._vanishes(group, guards):
                left.extend(members)
        return left

    def _vanishes(self, members: list[tuple[Guards, Product | None, Fraction]], guards: Guards) -> bool:
        """Σ number · [guards] · coefficient is zero at every index point, up to rounding."""
        group = [(own, coefficient, number) for own, coefficient, number in members if coefficient is not None]
        if len(group) < len(members):
            return False
        common = frozenset.intersection(*(own for own, _, _ in group))
        try:
            group, common = _by_position(group, common, guards, self.constants)
            grid = self._grid(group, common, guards)
            total: Number | None = None
            for own, coefficient, number in group:
                where = coefficient.guards | (own - common)
                part = grid.product(Product(coefficient.bound, where, coefficient.factors), number)
                total = part if total is None else total.plus(part)
        except NotNumbers:
            return False
        assert total is not None
        distance, roundings = total.value.abs(), total.roundings + len(group)
        if not bool((distance <= roundings * ((self.unit + _DOUBLE) * total.size + self.smallest)).all()):
            return False
        self.rounded = self.rounded or bool((distance > roundings * _DOUBLE * total.size).any())
        return True

    def _grid(self, group: list[_Member], common: Guards, guards: Guards) -> Grid:
        """The index points at which some term of the group may be other than zero."""
        grid = Grid(self.constants)
        indices: dict[Symbol, None] = {}
        for own, coefficient, _ in group:
            found = {s for f, _ in coefficient.factors for s in f.free} | _symbols(coefficient.guards) | _symbols(own - common)
            indices |= dict.fromkeys(sorted(found - set(coefficient.bound), key=str))
        limits: list[Formula] = []
        for index in indices:
            lows, highs = zip(*(_range(index, own | guards) for own, _, _ in group), strict=True)
            limits += [
                f
                for f in (at_least_zero(Expression.of(index) - min(lows)), at_least_zero(max(highs) - Expression.of(index)))
                if isinstance(f, Formula)
            ]
        grid.add(indices, limits)
        return grid


def _by_position(
    group: list[_Member], common: Guards, guards: Guards, constants: Mapping[str, torch.Tensor]
) -> tuple[list[_Member], Guards]:
    """The group with one index for each position in a constant whose own indices have no range in numbers.

    A position such as i − 2k in a transposed convolution's kernel, i and k over symbolic sizes, is all that the constants see of them;
    it lies within the constant's axis wherever it is read.
    """
    open_indices = {
        s for own, coefficient, _ in group for s in _read_symbols(coefficient) if not _has_range(s, own | guards | coefficient.guards)
    }
    if not open_indices:
        return group, common
    positions: dict[Expression, tuple[Expression, int, int]] = {}
    for _, coefficient, _ in group:
        for read in _reads_of(coefficient):
            for dim, size in zip(read.index, constants[read.tensor].shape, strict=True):
                if isinstance(dim, Expression) and dim.symbols & open_indices:
                    offset = dim.terms.get((), 0)
                    moving = Expression.of(dim - offset)
                    low, high = -offset, size - 1 - offset
                    fresh, lowest, highest = positions.get(moving, (Expression.of(current().fresh("k")), low, high))
                    positions[moving] = (fresh, min(low, lowest), max(high, highest))
    limits = [
        fact
        for fresh, low, high in positions.values()
        for fact in (at_least_zero(fresh - low), at_least_zero(high - fresh))
        if isinstance(fact, Formula)
    ]
    moved = [(own | frozenset(limits), _at_positions(coefficient, positions), number) for own, coefficient, number in group]
    left = {s for own, coefficient, _ in moved for s in _read_symbols(coefficient)}
    if left & open_indices:
        raise NotNumbers("an index without a range is read at more than positions")
    return moved, common | frozenset(limits)


def _at_positions(coefficient: Product, positions: Mapping[Expression, tuple[Expression, int, int]]) -> Product:
    factors: dict[Factor, int] = {}
    for factor, power in coefficient.factors:
        if isinstance(factor, Read):
            index = []
            for dim in factor.index:
                offset = dim.terms.get((), 0) if isinstance(dim, Expression) else 0
                found = positions.get(Expression.of(dim - offset)) if isinstance(dim, Expression) else None
                index.append(dim if found is None else found[0] + offset)
            factor = Read(factor.tensor, tuple(index), factor.kind)
        factors[factor] = factors.get(factor, 0) + power
    return Product(coefficient.bound, coefficient.guards, sorted_factors(factors))


def _reads_of(coefficient: Product) -> list[Read]:
    return [factor for factor, _ in coefficient.factors if isinstance(factor, Read)]


def _read_symbols(coefficient: Product) -> set[Symbol]:
    return {s for factor, _ in coefficient.factors for s in factor.free} - set(coefficient.bound)


def _has_range(index: Symbol, guards: Guards) -> bool:
    try:
        _range(index, guards)
    except NotNumbers:
        return False
    return True


def _symbols(guards: Iterable[Formula]) -> set[Symbol]:
    return {s for guard in guards for s in formula_symbols(guard)}


def _range(index: Symbol, guards: Guards, alone: bool = False) -> tuple[int, int]:
    """Least and greatest value of an index variable, from guards and from what is known; `alone`, not by way of other variables.

    Raises: NotNumbers.
    """
    knowledge = current()
    known = [*guards, *knowledge.facts]
    if index in knowledge.lower:
        least = at_least_zero(Expression.of(index) - knowledge.lower[index])
        known += [least] if isinstance(least, Formula) else []
    comparisons = [guard for guard in known if isinstance(guard, Comparison)]
    low, high = bounds_of(comparisons).get(index, (None, None))
    if isinstance(low, int) and isinstance(high, int):
        return low, high
    lows, highs = ([], []) if alone else _limits(index, comparisons, guards)
    if not lows or not highs:
        raise NotNumbers(f"the index {index} has no range in numbers")
    return max(lows), min(highs)


def _limits(index: Symbol, comparisons: Iterable[Comparison], guards: Guards) -> tuple[list[int], list[int]]:
    """What inequalities say of the variable's least and greatest value, the other variables in them anywhere in their ranges."""
    lows: list[int] = []
    highs: list[int] = []
    for guard in comparisons:
        coefficient = guard.expression.terms.get((index,), 0)
        rest = guard.expression - coefficient * Expression.of(index)
        if guard.relation == ">=" and abs(coefficient) == 1 and not (isinstance(rest, Expression) and index in rest.symbols):
            with suppress(NotNumbers):
                most = _most(rest, guards)
                (lows if coefficient == 1 else highs).append(-most if coefficient == 1 else most)
    return lows, highs


def _most(dim: Dim, guards: Guards) -> int:
    """The greatest value of a sum of multiples of index variables that have ranges in numbers.

    Raises: NotNumbers.
    """
    total = 0
    for monomial, coefficient in Expression.of(dim).terms.items():
        if len(monomial) > 1 or not all(isinstance(atom, Symbol) for atom in monomial):
            raise NotNumbers(f"{dim} has no range in numbers")
        ranges = [_range(atom, guards, alone=True) for atom in monomial if isinstance(atom, Symbol)]
        total += coefficient * (ranges[0][coefficient > 0] if ranges else 1)
    return total


def _same_numbers(one: Product, other: Product) -> bool:
    """Both have the same sizes as factors, free of bound indices."""
    return numeric_part(one) == numeric_part(other) and not any(f.free & set(one.bound) for f, _ in numeric_part(one))


def _moved(coefficient: Product, found: Mapping[Atom, Dim]) -> Product | None:
    """The coefficient under a map of indices; None where it is then no single product, or zero."""
    factors: dict[Factor, int] = {}
    for factor, power in coefficient.factors:
        moved = (factor.replaced(found) if factor.free & found.keys() else Value.of(factor)).factor
        if moved is None:
            return None
        factors[moved] = factors.get(moved, 0) + power
    guards = [substitute_formula(guard, found) for guard in coefficient.guards]
    if any(guard is False for guard in guards):
        return None
    return Product(coefficient.bound, frozenset(g for g in guards if isinstance(g, Formula)), sorted_factors(factors))


__all__ = ["UpToFolding"]
