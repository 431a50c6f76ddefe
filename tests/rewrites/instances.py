"""Concrete instances of a rule's case: numbers for its sizes and attributes that satisfy its facts, and tensors of those sizes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import torch

from operators.expressions import (
    Atom,
    Comparison,
    Dim,
    Expression,
    Formula,
    Junction,
    Symbol,
    divide_exactly,
    formula_symbols,
    substitute,
    substitute_formula,
)
from rewrites.cases import TracedCase, dtype_of
from rewrites.rule import Rule
from rewrites.signature import ChoiceVariable, IntegerVariable, RealVariable, TensorVariable

_DIMS = (2, 3, 4, 5, 1, 6)
_ATTRIBUTES = {"stride": (1, 2), "dilation": (1, 2), "padding": (0, 1, 2), "groups": (1, 2, 3)}


def numbers_for(traced: TracedCase, seed: int, tries: int = 4000) -> dict[Atom, Dim] | None:
    """Numbers for every symbol of the case under which all its facts hold; None when none was found."""
    draw = random.Random(seed)
    signature = traced.rule.signature()
    symbols = set(signature.symbols.values())
    for _, dims in traced.case.stars:
        symbols |= {s for dim in dims if isinstance(dim, Expression) for s in dim.symbols}
    attributes = {s for v in signature.variables if isinstance(v, IntegerVariable) for s in v.symbols}
    for _ in range(tries):
        try:
            chosen = _attempt(traced.facts, symbols, attributes, draw)
        except ZeroDivisionError:  # a stride or kernel of 0, which no operator takes
            continue
        if chosen is not None:
            return chosen
    return None


def _attempt(facts: tuple[Formula, ...], symbols: set[Symbol], attributes: set[Symbol], draw: random.Random) -> dict[Atom, Dim] | None:
    values: dict[Atom, Dim] = {}
    pending: list[Any] = list(facts)
    left = sorted(symbols, key=lambda s: s.name)
    draw.shuffle(left)
    while True:
        pending = [substitute_formula(fact, values) for fact in pending]
        if any(fact is False for fact in pending):
            return None
        pending = _flatten([fact for fact in pending if fact is not True], draw)
        solved = next((found for fact in pending if (found := _solve(fact))), None)
        if solved is not None:
            symbol, number = solved
        else:
            left = [s for s in left if s not in values]
            if not left:
                return values if not pending else None
            symbol = left.pop()
            number = draw.choice(_options(symbol, symbol in attributes))
        values = {key: substitute(value, {symbol: number}) for key, value in values.items()} | {symbol: number}
        if symbol not in attributes and isinstance(number, int) and number < 0:
            return None


def _flatten(facts: list[Any], draw: random.Random) -> list[Any]:
    result: list[Any] = []
    for fact in facts:
        if isinstance(fact, Junction):
            result += _flatten(list(fact.formulas) if fact.connective == "and" else [draw.choice(fact.formulas)], draw)
        else:
            result.append(fact)
    return result


def _options(symbol: Symbol, attribute: bool) -> tuple[int, ...]:
    if not attribute:
        return (1, 2, 3) if symbol.name == "groups" else _DIMS
    return _ATTRIBUTES.get(symbol.name.split("[")[0], (0, 1, 2, 3))


def _solve(fact: Any) -> tuple[Symbol, Dim] | None:
    """A symbol that an equality gives in terms of the others."""
    if not isinstance(fact, Comparison) or fact.relation != "==":
        return None
    for symbol in sorted(formula_symbols(fact), key=lambda s: s.name):
        expression = fact.expression
        if any(symbol in part.symbols for atom in expression.atoms for part in atom.inner()):
            continue
        rest = substitute(expression, {symbol: 0})
        factor = substitute(expression, {symbol: 1}) - rest
        if (isinstance(factor, Expression) and symbol in factor.symbols) or factor == 0:
            continue
        if substitute(expression, {symbol: 2}) - rest - 2 * factor != 0:
            continue
        number = divide_exactly(-rest, factor)
        if number is not None:
            return symbol, number
    return None


def arguments_for(
    traced: TracedCase, numbers: Mapping[Atom, Dim], generator: torch.Generator, dtype: torch.dtype = torch.float64
) -> list[Any]:
    """Arguments for the rule's functions: tensors of small numbers (positive where a condition speaks of elements), attributes."""
    rule: type[Rule] = traced.rule
    choices = dict(traced.case.choices)
    stars = {name: tuple(substitute(d, numbers) for d in dims) for name, dims in traced.case.stars}
    arguments: list[Any] = []
    for variable in rule.signature().variables:
        if isinstance(variable, TensorVariable):
            shape = [substitute(dim, numbers) for dim in variable.shape(stars)]
            arguments.append(tensor(shape, dtype_of(variable), generator, dtype))
        elif isinstance(variable, IntegerVariable):
            values = tuple(substitute(Expression.of(s), numbers) for s in variable.symbols)
            arguments.append(values if variable.length else values[0])
        elif isinstance(variable, RealVariable):
            arguments.append(float(torch.rand((), generator=generator, dtype=torch.float64)) + 0.25)
        elif isinstance(variable, ChoiceVariable):
            arguments.append(choices[variable.name])
    return arguments


def tensor(shape: list[Any], name: str, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    if name == "bool":
        return torch.rand(shape, generator=generator) > 0.5
    if "int" in name:
        return torch.randint(0, 2, shape, generator=generator, dtype=getattr(torch, name))
    wanted = dtype if name == "float32" else getattr(torch, name)
    return (torch.rand(shape, generator=generator, dtype=torch.float64) + 0.25).to(wanted)
