"""Concrete instances of a rule's case: numbers for its sizes and attributes that satisfy its facts, and tensors of those sizes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from graphs.graph import Graph
from graphs.trace import Proxy, apply_torch, trace
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
    negate,
    substitute,
    substitute_formula,
)
from operators.operator import TensorType
from rewrites.cases import Case, TracedCase, cases, dtype_of, size_condition, speaks_of_sizes, trace_case
from rewrites.rule import Requires, Rule
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


class _Factories(TorchFunctionMode):
    """Records torch.full, torch.eye and the like as nodes of the graph even where their sizes are numbers, as torch.export does."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "") in ("full", "ones", "zeros", "eye", "arange"):
            return apply_torch(function, args, kwargs or {}, self.graph)
        return function(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Sample:
    """A rule's arguments by name at one instance of a case."""

    rule: type[Rule]
    case: Case
    arguments: dict[str, Any]

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: value for name, value in self.arguments.items() if isinstance(value, torch.Tensor)}

    def run(self, side: str) -> list[torch.Tensor]:
        """The outputs of `pattern` or `replacement` by eager PyTorch."""
        made = getattr(self.rule, side)(*self.arguments.values())
        return list(made) if isinstance(made, (tuple, list)) else [made]

    def graph(self, side: str = "pattern") -> Graph:
        """The motivating graph: one side over inputs of these sizes; what must be constant, or has a condition, is constant."""
        graph = Graph()
        spoken = {name for condition in self.rule.requires if not speaks_of_sizes(self.rule, condition) for name in condition.names}
        fixed = {v.name for v in self.rule.signature().tensors if v.weight} | spoken
        traced: list[Any] = []
        for name, value in self.arguments.items():
            if not isinstance(value, torch.Tensor):
                traced.append(value)
            elif name in fixed:
                traced.append(Proxy(graph, graph.constant(name, value)))
            else:
                traced.append(Proxy(graph, graph.input(name, TensorType(tuple(value.shape), str(value.dtype).removeprefix("torch.")))))
        with _Factories(graph):
            graph.outputs = trace(getattr(self.rule, side), traced, graph)
        graph.remove_dead()
        return graph

    def inputs(self, graph: Graph) -> list[torch.Tensor]:
        """What the graph's inputs take."""
        return [self.arguments[graph.operator(node).name] for node in graph.inputs]  # type: ignore[attr-defined]


def samples(rule: type[Rule], most: int, seed: int = 0) -> Iterator[Sample]:
    """One instance for each of at most `most` cases of the rule, spread over all of them."""
    every = list(cases(rule))
    chosen = every if len(every) <= most else [every[(2 * position + 1) * len(every) // (2 * most)] for position in range(most)]
    for case in chosen:
        found = sample(rule, case, seed)
        if found is not None:
            yield found


def sample(rule: type[Rule], case: Case, seed: int = 0, without: Requires | None = None) -> Sample | None:
    """An instance of the case; with `without`, one that satisfies all conditions but that one, which it breaks."""
    traced = trace_case(without_condition(rule, without), case)
    broken = without is not None and speaks_of_sizes(rule, without)
    facts = list(traced.facts)
    if broken:
        opposite = negate(size_condition(rule, without, case))  # type: ignore[arg-type]
        if opposite is False:
            return None
        facts += [opposite] if opposite is not True else []
    for attempt in range(8):
        numbers = numbers_for(replace(traced, facts=tuple(facts)), seed + 101 * attempt)
        if numbers is None:
            return None
        generator = torch.Generator().manual_seed(seed + attempt)
        arguments = values_for(traced, numbers, generator, without)
        if arguments is None:
            continue
        found = Sample(rule, case, arguments)
        if without is not None or _runs(found):
            return found
    return None


def _runs(found: Sample) -> bool:
    """torch takes the pattern at these arguments (positions may lie beyond a table)."""
    try:
        found.run("pattern")
    except (IndexError, RuntimeError):
        return False
    return True


def without_condition(rule: type[Rule], condition: Requires | None) -> type[Rule]:
    """The rule less one of its conditions on sizes."""
    if condition is None or not speaks_of_sizes(rule, condition):
        return rule
    left = [other for other in rule.requires if other is not condition]
    body = {"__doc__": rule.__doc__, "__module__": rule.__module__, "source": rule.source, "requires": left}
    return type(rule.__name__, (Rule,), body | {side: staticmethod(getattr(rule, side)) for side in ("pattern", "replacement")})


def values_for(
    traced: TracedCase, numbers: Mapping[Atom, Dim], generator: torch.Generator, without: Requires | None = None
) -> dict[str, Any] | None:
    """Arguments of these sizes whose elements satisfy the conditions on values (and break `without`, if it is one of them)."""
    signature = traced.rule.signature()
    choices = dict(traced.case.choices)
    wide = torch.float32 if "target" in choices else torch.float64  # a cast to float64 needs something narrower
    stars = {name: tuple(substitute(d, numbers) for d in dims) for name, dims in traced.case.stars}
    arguments: dict[str, Any] = {}
    for variable in signature.variables:
        if isinstance(variable, TensorVariable):
            shape = [substitute(dim, numbers) for dim in variable.shape(stars)]
            arguments[variable.name] = tensor(shape, dtype_of(variable), generator, wide)
        elif isinstance(variable, IntegerVariable):
            values = tuple(substitute(Expression.of(s), numbers) for s in variable.symbols)
            arguments[variable.name] = values if variable.length else values[0]
        elif isinstance(variable, RealVariable):
            arguments[variable.name] = _real(generator) if not variable.name.startswith("eps") else 0.125
        elif isinstance(variable, ChoiceVariable):
            arguments[variable.name] = choices[variable.name]
    reals = [v.name for v in signature.variables if isinstance(v, RealVariable)]
    known = {atom.key: number for atom, number in numbers.items()}
    for _ in range(400):
        held = [(c, _holds(c, known | arguments)) for c in traced.rule.requires if not speaks_of_sizes(traced.rule, c)]
        wrong = [condition for condition, holds in held if holds == (condition is without)]
        if not wrong:
            return arguments
        for name in wrong[0].names:
            if name in reals:
                arguments[name] = _real(generator)
            elif name in arguments and isinstance(arguments[name], torch.Tensor):
                old = arguments[name]
                arguments[name] = _mended(old, wrong[0] is without, generator)
    return None


def _holds(condition: Requires, known: Mapping[str, Any]) -> bool:
    result = condition.predicate(*(known[name] for name in condition.names))
    return bool(result.all()) if isinstance(result, torch.Tensor) else bool(result)


def _real(generator: torch.Generator) -> float:
    """One of a few ordinary numbers of either sign, 0 among them."""
    return (-1.5, -0.75, 0.0, 0.25, 0.5, 1.25, 2.0)[int(torch.randint(7, (), generator=generator))]


def _mended(old: torch.Tensor, negative: bool, generator: torch.Generator) -> torch.Tensor:
    if not old.is_floating_point():
        return torch.randint(-1, 3, old.shape, generator=generator, dtype=old.dtype)
    drawn = torch.rand(old.shape, generator=generator, dtype=torch.float64) + 0.25
    drawn = drawn * torch.randint(-1, 2, old.shape, generator=generator) if negative else drawn
    return drawn.to(old.dtype)


def tensor(shape: list[Any], name: str, generator: torch.Generator, wide: torch.dtype) -> torch.Tensor:
    """A tensor of positive numbers of ordinary size, of truths, or of the integers 0 and 1."""
    if name == "bool":
        return torch.rand(shape, generator=generator) > 0.5
    if "int" in name:
        return torch.randint(0, 2, shape, generator=generator, dtype=getattr(torch, name))
    wanted = wide if name == "float32" else getattr(torch, name)
    return (torch.rand(shape, generator=generator, dtype=torch.float64) + 0.25).to(wanted)
