"""Concrete instances of a rule's case: numbers for its sizes and attributes that satisfy its facts, and tensors of those sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphs.graph import Graph
from graphs.trace import Proxy, RecordingFactories, trace
from operators.expressions import Atom, Dim, Expression, Symbol, substitute
from operators.formulas import Truth, negate
from operators.operator import TensorType
from rewrites.cases import Case, TracedCase, cases, dtype_of, size_condition, speaks_of_sizes, trace_case
from rewrites.rule import Requires, Rule
from rewrites.signature import ChoiceVariable, IntegerVariable, RealVariable, TensorVariable
from verifier.sizes import Assignment, SizeModel, flattened


def assignments(traced: TracedCase, facts: Sequence[Truth], seed: int) -> list[Assignment]:
    """Numbers for every symbol of the case under which the facts hold, those without empty or single sizes first."""
    signature = traced.rule.signature()
    attributes = [s.name for v in signature.variables if isinstance(v, IntegerVariable) for s in v.symbols]
    stars = [s.name for _, dims in traced.case.stars for dim in dims if isinstance(dim, Expression) for s in dim.symbols]
    found = SizeModel([*signature.symbols, *stars], attributes, facts).pool(seed)
    admitted = [values for values in found if _shapes(traced, values) is not None]
    return sorted(admitted, key=lambda values: sum({0: 10, 1: 1}.get(value, 0) for name, value in values.items() if name not in attributes))


def _shapes(traced: TracedCase, values: Assignment) -> dict[str, list[int]] | None:
    """The shape of each tensor variable; None where a dim would be negative."""
    numbers: dict[Atom, Dim] = {Symbol(name): value for name, value in values.items()}
    stars = {name: tuple(substitute(d, numbers) for d in dims) for name, dims in traced.case.stars}
    shapes = {}
    for variable in traced.rule.signature().tensors:
        shape = [substitute(dim, numbers) for dim in variable.shape(stars)]
        if not all(isinstance(size, int) and 0 <= size <= 4096 for size in shape):
            return None
        shapes[variable.name] = [int(str(size)) for size in shape]
    return shapes


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
        with RecordingFactories(graph):
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


def sample(rule: type[Rule], case: Case, seed: int = 0) -> Sample | None:
    """An instance of the case at which torch takes the pattern."""
    traced = trace_case(rule, case)
    return next(instances(rule, traced, seed=seed), None)


def breaking(rule: type[Rule], condition: Requires, case: Case, seed: int) -> Iterator[Sample]:
    """Instances of the case that satisfy all conditions of the rule but this one, which they break."""
    traced = trace_case(without_condition(rule, condition), case)
    narrowed = set(flattened(traced.narrowed))  # torch takes more than the proof speaks of, and so may break the condition
    facts: list[Truth] = [fact for fact in flattened(traced.facts) if fact not in narrowed]
    if speaks_of_sizes(rule, condition):
        facts.append(negate(size_condition(rule, condition, case)))
    if not any(fact is False for fact in facts):
        yield from instances(rule, traced, facts, seed, condition)


def instances(
    rule: type[Rule], traced: TracedCase, facts: Sequence[Truth] = (), seed: int = 0, without: Requires | None = None
) -> Iterator[Sample]:
    """Instances of the case under its facts (or these), those at which torch takes the pattern; with `without`, all that break it."""
    for position, numbers in enumerate(assignments(traced, facts or traced.facts, seed)):
        generator = torch.Generator().manual_seed(seed + position)
        arguments = values_for(rule, traced, numbers, generator, without)
        if arguments is not None:
            found = Sample(rule, traced.case, arguments)
            if without is not None or _runs(found):
                yield found


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
    rule: type[Rule], traced: TracedCase, numbers: Assignment, generator: torch.Generator, without: Requires | None = None
) -> dict[str, Any] | None:
    """Arguments of these sizes whose elements satisfy the conditions on values (and break `without`, if it is one of them)."""
    signature = rule.signature()
    choices = dict(traced.case.choices)
    shapes = _shapes(traced, numbers)
    assert shapes is not None
    wide = torch.float32 if "target" in choices else torch.float64  # a cast to float64 needs something narrower
    arguments: dict[str, Any] = {}
    for variable in signature.variables:
        if isinstance(variable, TensorVariable):
            arguments[variable.name] = tensor(variable.name, shapes[variable.name], dtype_of(variable), generator, wide)
        elif isinstance(variable, IntegerVariable):
            values = tuple(numbers[s.name] for s in variable.symbols)
            arguments[variable.name] = values if variable.length else values[0]
        elif isinstance(variable, RealVariable):
            arguments[variable.name] = _real(generator) if not variable.name.startswith("eps") else 0.125
        elif isinstance(variable, ChoiceVariable):
            arguments[variable.name] = choices[variable.name]
    reals = [v.name for v in signature.variables if isinstance(v, RealVariable)]
    for _ in range(400):
        held = [(c, _holds(c, numbers | arguments)) for c in rule.requires if not speaks_of_sizes(rule, c)]
        wrong = [condition for condition, holds in held if holds == (condition is without)]
        if not wrong:
            return arguments
        for name in wrong[0].names:
            if name in reals:
                arguments[name] = _real(generator)
            elif isinstance(arguments.get(name), torch.Tensor):
                arguments[name] = _mended(arguments[name], wrong[0] is without, generator)
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


def tensor(name: str, shape: list[int], dtype: str, generator: torch.Generator, wide: torch.dtype) -> torch.Tensor:
    """A tensor of numbers of ordinary size and either sign (a variance is positive), of truths, or of the integers 0 and 1."""
    if dtype == "bool":
        return torch.rand(shape, generator=generator) > 0.5
    if "int" in dtype:
        return torch.randint(0, 2, shape, generator=generator, dtype=getattr(torch, dtype))
    signs = 1 if name.startswith("var") else 2 * torch.randint(0, 2, shape, generator=generator) - 1
    numbers = (torch.rand(shape, generator=generator, dtype=torch.float64) + 0.25) * signs
    return numbers.to(wide if dtype == "float32" else getattr(torch, dtype))
