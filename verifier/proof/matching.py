"""Index maps: bound indices of one product as expressions in those of another, solved from where both read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from operators.expressions import Atom, Dim, Expression, Symbol, divide_exactly, substitute
from operators.formulas import Comparison
from verifier.proof.binders import Binder
from verifier.proof.guards import bounds_of, divided
from verifier.proof.knowledge import Index
from verifier.proof.reductions import Largest
from verifier.proof.terms import Data, Factor, Function, Product, Read, Size, Value

Map: TypeAlias = dict[Atom, Dim]
Equation: TypeAlias = tuple[Dim, Dim]


def equations_between(mine: Factor, theirs: Factor) -> list[Equation]:
    """Index expressions that should be equal if the factors are; for functions, guessed from the elements they read."""
    if isinstance(mine, Read) and isinstance(theirs, Read):
        equations = list(zip(mine.index, theirs.index, strict=True))
        computed = [(a, b) for a, b in equations if _data(a) and _data(b)]
        return equations + [e for a, b in computed for x, y in zip(_data(a), _data(b)) for e in _between_values(x.value, y.value)]
    if isinstance(mine, Size) and isinstance(theirs, Size):
        return [(Expression.of(mine.atom), Expression.of(theirs.atom))]
    return _zipped(leaves(mine), leaves(theirs))


def _data(dim: Dim) -> list[Data]:
    return [atom for atom in Expression.of(dim).atoms if isinstance(atom, Data)]


def _between_values(mine: Value, theirs: Value) -> list[Equation]:
    return _zipped(_leaves_of_value(mine), _leaves_of_value(theirs))


def _zipped(mine: list[tuple[str, tuple[Dim, ...]]], theirs: list[tuple[str, tuple[Dim, ...]]]) -> list[Equation]:
    equations: list[Equation] = []
    for name in dict.fromkeys(name for name, _ in mine):
        ours = [index for other, index in mine if other == name]
        others = [index for other, index in theirs if other == name]
        if len(ours) == len(others):
            for a, b in zip(ours, others, strict=True):
                equations.extend(zip(a, b))
    return equations


def leaves(factor: Factor) -> list[tuple[str, tuple[Dim, ...]]]:
    """The elements that the factor reads at indices it does not bind itself."""
    if isinstance(factor, Read):
        return [(factor.tensor, factor.index)]
    if isinstance(factor, Size):
        return [("a size", (Expression.of(factor.atom),))]
    if isinstance(factor, Largest):
        return [leaf for a in factor.alternatives for leaf in _leaves_of_value(a.value, set(a.bound))]
    if isinstance(factor, Binder):
        return _leaves_of_value(factor.value, {factor.index})
    if isinstance(factor, Function):
        return [leaf for argument in factor.arguments for leaf in _leaves_of_value(argument)]
    return []


def _leaves_of_value(value: Value, bound: set[Index] | None = None) -> list[tuple[str, tuple[Dim, ...]]]:
    found = []
    for product in sorted(value.terms, key=lambda p: (p.masked, p.key)):
        names: set[Symbol] = set(product.bound) | set(bound or ())
        for factor, _ in product.factors:
            for tensor, index in leaves(factor):
                if not any(isinstance(dim, Expression) and dim.symbols & names for dim in index):
                    found.append((tensor, index))
    return found


def solutions(equations: Sequence[Equation], lead: Product, other: Product, bijective: bool = True) -> Iterator[Map]:
    """Maps of other's bound indices to expressions in lead's that solve the equations, as far as these determine them."""
    unknowns = set(other.bound)
    residuals = [theirs - mine for mine, theirs in equations]
    found = _solve([r for r in residuals if isinstance(r, Expression)], unknowns)
    open_indices = [index for index in other.bound if index not in found]
    if not open_indices:
        yield from _checked(found, lead, other, bijective)
        return
    used = {s for dim in found.values() if isinstance(dim, Expression) for s in dim.symbols}
    candidates: list[Dim] = [Expression.of(index) for index in lead.bound if index not in used or not bijective]
    if not bijective:
        candidates += _lowest(open_indices, other)
    choices = dict.fromkeys(itertools.islice(itertools.permutations(candidates, len(open_indices)), 24))
    for choice in choices:
        step: Map = dict(zip(open_indices, choice, strict=True))
        full: Map = {index: substitute(dim, step) for index, dim in found.items()} | step
        yield from _checked(full, lead, other, bijective)


def limit_solutions(equations: Sequence[Equation], other: Product) -> Iterator[Map]:
    """Maps of other's bound indices that solve the equations with some indices at the limits of their ranges."""
    residuals = [theirs - mine for mine, theirs in equations]
    for found in itertools.islice(_at_limits([r for r in residuals if isinstance(r, Expression)], other), 100):
        if not any(isinstance(dim, Expression) and dim.symbols & set(other.bound) for dim in found.values()):
            yield found


def _at_limits(residuals: list[Expression], other: Product) -> Iterator[Map]:
    """Solutions in which some indices are at a limit of their range and the others follow from the equations."""
    unknowns = set(other.bound)
    found = _solve(residuals, unknowns)
    open_indices = [index for index in other.bound if index not in found]
    if not open_indices:
        yield found
        return
    together = [index for index in open_indices if any(len(r.symbols & unknowns) > 1 and index in r.symbols for r in residuals)]
    first = [r for r in residuals if together and together[0] in r.symbols]
    for index in [i for i in together if any(i in r.symbols for r in first)] or open_indices[:1]:
        for limit in _limits(index, other, unknowns):
            yield from _at_limits([*residuals, Expression.of(index) - limit], other)


def _limits(index: Index, product: Product, unknowns: set[Index]) -> list[Dim]:
    """What the guards say of the index alone: its least and greatest values."""
    found: list[Dim] = []
    for guard in sorted(product.guards, key=str):
        linear = _linear_in(guard.expression, index) if isinstance(guard, Comparison) else None
        if linear is not None and isinstance(linear[0], int) and abs(linear[0]) == 1:
            rest = linear[1]
            if not isinstance(rest, Expression) or not rest.symbols & unknowns:
                found.append(-rest if linear[0] == 1 else rest)
    return list(dict.fromkeys(found))


def _lowest(indices: list[Index], other: Product) -> list[Dim]:
    bounds = bounds_of(g for g in other.guards if isinstance(g, Comparison))
    return [low for index in indices for low in [bounds.get(index, (None, None))[0]] if low is not None]


def _checked(found: Map, lead: Product, other: Product, bijective: bool) -> Iterator[Map]:
    if any(isinstance(dim, Expression) and dim.symbols & set(other.bound) for dim in found.values()):
        return
    if not bijective or is_bijection(found, lead.bound, other.bound):
        yield found


def _solve(residuals: list[Expression], unknowns: set[Index]) -> Map:
    """Unknowns from residuals = 0, one at a time; those that stay open are left out."""
    found: Map = {}
    pending: list[Dim] = list(residuals)
    while True:
        step = _next_step(pending, unknowns - found.keys())
        if step is None:
            return found
        index, value = step
        found = {old: substitute(dim, {index: value}) for old, dim in found.items()} | {index: value}
        pending = [substitute(r, {index: value}) for r in pending]


def _next_step(pending: list[Dim], unknowns: set[Index]) -> tuple[Index, Dim] | None:
    guesses: list[tuple[Index, Dim]] = []
    for residual in pending:
        if isinstance(residual, int):
            continue
        here = sorted(unknowns & residual.symbols, key=str)
        for index in here:
            linear = _linear_in(residual, index)
            if linear is None:
                continue
            coefficient, rest = linear
            if len(here) == 1:
                value = divide_exactly(-rest, coefficient)
                if value is not None:
                    return index, value
            elif isinstance(coefficient, Expression) or abs(coefficient) > 1:
                parts = divided(rest, coefficient)
                if parts is not None and not isinstance(parts[0], int) and not parts[0].symbols & unknowns:
                    guesses.append((index, -parts[0]))
    return guesses[0] if guesses else None


def _linear_in(residual: Expression, index: Index) -> tuple[Dim, Dim] | None:
    coefficient: Dim = 0
    rest: Dim = 0
    for monomial, number in residual.terms.items():
        term = Expression({monomial: number}).collapse()
        if index in monomial:
            others = list(monomial)
            others.remove(index)
            if index in others:
                return None
            coefficient = coefficient + Expression({tuple(others): number}).collapse()
        elif isinstance(term, Expression) and index in term.symbols:
            return None
        else:
            rest = rest + term
    return coefficient, rest


def is_bijection(found: Map, mine: Sequence[Index], theirs: Sequence[Index]) -> bool:
    """The map from theirs to expressions in mine has an inverse over all integers, shown by composing the two."""
    if len(mine) != len(theirs) or set(found) != set(theirs):
        return False
    backward: Map = {}
    pending: list[Dim] = [found[index] - Expression.of(index) for index in theirs]
    while len(backward) < len(mine):
        step = _unit_step(pending, set(mine) - backward.keys())
        if step is None:
            return False
        index, value = step
        backward = {old: substitute(dim, {index: value}) for old, dim in backward.items()} | {index: value}
        pending = [substitute(r, {index: value}) for r in pending]
    there = all(_is_same(substitute(found[index], backward), index) for index in theirs)
    back = all(_is_same(substitute(backward[index], found), index) for index in mine)
    return there and back


def _unit_step(pending: list[Dim], unknowns: set[Index]) -> tuple[Index, Dim] | None:
    for residual in pending:
        if isinstance(residual, int):
            continue
        for index in sorted(unknowns & residual.symbols, key=str):
            linear = _linear_in(residual, index)
            if linear is not None and isinstance(linear[0], int) and abs(linear[0]) == 1:
                return index, -linear[1] if linear[0] == 1 else linear[1]
    return None


def _is_same(dim: Dim, index: Index) -> bool:
    difference = dim - Expression.of(index)
    return isinstance(difference, int) and difference == 0
