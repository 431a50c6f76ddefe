"""Preparing facts: what operators take for granted, and equalities solved for symbols."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from graphs.graph import Graph
from operators.expressions import Atom, Dim, Expression, Quotient, Symbol, substitute
from operators.formulas import Comparison, Formula, Junction, Truth, at_least_zero
from operators.operator import Operator, TensorType
from operators.predicates import substitute_formula

_AT_LEAST_ONE = frozenset({"stride", "dilation", "groups", "kernel", "kernel_size"})
_NOT_NEGATIVE = frozenset({"padding", "output_padding"})


def attribute_facts(graph: Graph) -> Iterator[Truth]:
    """What torch demands of attributes: strides, dilations, groups and kernels ≥ 1, paddings of windows ≥ 0."""
    for node in graph:
        operator = graph.operator(node)
        if type(operator).__name__ == "Pad":
            continue
        for name, value in operator.attributes.items():
            least = 1 if name in _AT_LEAST_ONE else 0 if name in _NOT_NEGATIVE else None
            if least is None:
                continue
            for dim in value if isinstance(value, tuple) else (value,):
                if isinstance(dim, Expression):
                    yield at_least_zero(dim - least)


def size_facts(graph: Graph) -> Iterator[Truth]:
    """Dims of tensors are ≥ 0."""
    for node in graph:
        for type in graph.types(node):
            for dim in type.shape:
                if isinstance(dim, Expression):
                    yield at_least_zero(dim)


def size_factors(graph: Graph) -> set[Symbol]:
    """Symbols that are factors of an input's dim, as r in r·f."""
    types = [type for node in graph.inputs for type in graph.types(node)]
    dims = [dim for type in types for dim in type.shape if isinstance(dim, Expression)]
    return {atom for dim in dims for m in dim.terms if len(m) > 1 for atom in m if isinstance(atom, Symbol)}


def flattened(facts: Iterable[Truth]) -> Iterator[Truth]:
    """The conjuncts of all facts."""
    for fact in facts:
        if isinstance(fact, Junction) and fact.connective == "and":
            yield from flattened(fact.formulas)
        else:
            yield fact


class Contradiction(ValueError):
    """The facts cannot hold together: the rule speaks of nothing."""


def solved(facts: Iterable[Truth]) -> tuple[dict[Atom, Dim], list[Formula]]:
    """Equalities among the facts solved for symbols, and the facts that remain, with the solutions put in.

    `n − g·⌊n/g⌋ = 0` gives n = g·q for a new integer q (which is ⌊n/g⌋).
    Raises: Contradiction when a fact is plainly false.
    """
    remaining = list(flattened(facts))
    solutions: dict[Atom, Dim] = {}
    progress = True
    while progress:
        progress = False
        for fact in remaining:
            if not isinstance(fact, Comparison) or fact.relation != "==":
                continue
            found = _solve(fact.expression, remaining)
            if found is None:
                continue
            name, value, learned = found
            step: dict[Atom, Dim] = {name: value}
            solutions = {old: substitute(dim, step) for old, dim in solutions.items()} | step
            remaining = [new for old in remaining if old is not fact for new in flattened([substitute_formula(old, step)])]
            remaining += learned
            progress = True
            break
        if any(fact is False for fact in remaining):
            raise Contradiction("the facts contradict one another")
    return solutions, [fact for fact in remaining if isinstance(fact, Formula)]


def _solve(expression: Expression, facts: Sequence[Truth]) -> tuple[Symbol, Dim, list[Truth]] | None:
    candidates = [m[0] for m, c in expression.terms.items() if len(m) == 1 and abs(c) == 1 and isinstance(m[0], Symbol)]
    for name in sorted(candidates, key=str):
        coefficient = expression.terms[(name,)]
        rest = expression - coefficient * Expression.of(name)
        value: Dim = -rest if coefficient == 1 else rest
        learned: list[Truth] = []
        for atom in list(value.atoms) if isinstance(value, Expression) else ():
            if isinstance(atom, Quotient) and atom.numerator == Expression.of(name) and name not in atom.denominator.symbols:
                whole = Expression.of(Symbol(f"({atom.numerator}/{atom.denominator})"))
                value = substitute(value, {atom: whole})
                known = [at_least_zero(Expression.of(name)), at_least_zero(atom.denominator - 1)]
                if all(fact is True or fact in facts for fact in known):
                    learned.append(at_least_zero(whole))
        if not isinstance(value, Expression) or name not in value.symbols:
            return name, value, learned
    return None


def with_sizes(item: Any, values: dict[Atom, Dim]) -> Any:
    """A type, operator field or tuple with symbols replaced."""
    if not values:
        return item
    if isinstance(item, Expression):
        return substitute(item, values) if any(s in values for s in item.symbols) else item
    if isinstance(item, tuple):
        return tuple(with_sizes(part, values) for part in item)
    if isinstance(item, TensorType):
        return TensorType(with_sizes(item.shape, values), item.dtype, item.weak)
    if isinstance(item, Operator):
        fields = {name: with_sizes(value, values) for name, value in item.attributes.items()}
        return dataclasses.replace(item, **fields) if fields else item  # type: ignore[type-var]
    return item


def symbols_of(facts: Sequence[Formula]) -> set[Symbol]:
    """Every symbol in the facts."""
    from operators.formulas import formula_symbols

    return {s for fact in facts for s in formula_symbols(fact)}
