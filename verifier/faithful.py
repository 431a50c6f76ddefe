"""Whether a rule's traces are what its functions do: a proof speaks of traces, and PyTorch runs the functions.

A function that counts its calls, looks at the kind of its arguments, or switches on dtype or rank can do one thing while it is traced and
another when it runs. So both sides run on real tensors and, node by node, as their traces; both must give the same bits. Conditions are
asked with numbers, and must say what they said when they were asked with symbols. What is traced twice must be the same twice.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import torch

from graphs.evaluate import apply_operator
from graphs.graph import Graph, Value
from graphs.trace import TraceError
from operators.expressions import Symbol
from operators.formulas import formula_symbols
from operators.operator import ShapeError
from operators.sources import Constant, Input
from rewrites.cases import Case, TracedCase, size_condition, speaks_of_sizes, trace_case
from rewrites.code import changing
from rewrites.rule import Requires, Rule
from rewrites.signature import IntegerVariable
from verifier.conditions import statement
from verifier.forms import text
from verifier.instances import Ground, Instance, Space
from verifier.proof.conditions import bounds_from
from verifier.proof.knowledge import Bound
from verifier.running import run
from verifier.sizes import Assignment, evaluator
from verifier.values import ORDINARY

_MOST_CASES = 12
_PLACES = 2


def unfaithful(rule: type[Rule], space: Space, deadline: float) -> str:
    """Why a proof about the rule's traces would not speak of its functions; nothing where no reason is found."""
    return changing_state(rule) or _conditions_differ(rule, space) or _traces_differ(rule, space, deadline)


def changing_state(rule: type[Rule]) -> str:
    """What the rule's functions keep from call to call, in a sentence."""
    found = changing(rule)
    return f"{found}: what it does may change from call to call" if found else ""


def _traces_differ(rule: type[Rule], space: Space, deadline: float) -> str:
    grounds = space.usable if len(space.usable) <= _MOST_CASES else random.Random(space.seed).sample(space.usable, _MOST_CASES)
    for position, ground in enumerate(grounds):
        if isinstance(ground.trace, Exception):
            continue
        families = space.families if not position else space.families[position % len(space.families) :][:1]
        for family in families:
            if time.monotonic() > deadline:
                return ""
            reason = _differs(rule, space, ground, family)
            if reason:
                return f"{reason}{f' (case {ground.case})' if str(ground.case) else ''}"
    return ""


def _differs(rule: type[Rule], space: Space, ground: Ground, family: str) -> str:
    """Why the traces of a case in one dtype are not what the functions do."""
    dtypes = space.dtypes(family)
    try:
        traced, again = (trace_case(rule, ground.case, dtypes) for _ in range(2))
    except (ShapeError, TraceError):
        return ""
    for side, one, other in (("pattern", traced.pattern, again.pattern), ("replacement", traced.replacement, again.replacement)):
        if text(one) != text(other):
            return f"the {side} is not the same when it is traced twice"
    for sizes in _places(ground, traced):
        instance = space.build(ground, sizes, ORDINARY, family, space.seed)
        if instance is None:
            continue
        for name, function, graph in (("pattern", rule.pattern, traced.pattern), ("replacement", rule.replacement, traced.replacement)):
            outcome = run(function, instance.arguments(), instance.seed)
            if outcome.error is None and not _same(_evaluated(graph, instance), outcome.outputs):
                return f"the {name} computes something else than when it is traced (at {_said(sizes)}, {instance.dtype})"
    return ""


def _places(ground: Ground, traced: TracedCase) -> list[Assignment]:
    """The smallest sizes of which the proof speaks, and some without 0 and 1."""
    holds = [evaluator(fact) for fact in traced.facts]
    inside = [sizes for sizes in ground.pool if all(hold(sizes) for hold in holds) and ground.shapes(sizes) is not None]
    larger = [sizes for sizes in inside if all(size >= 2 for size in sizes.values())]
    return [*larger[:1], *inside[: _PLACES - bool(larger)]]


def _evaluated(graph: Graph, instance: Instance) -> list[Any]:
    sizes = {Symbol(name): size for name, size in instance.sizes.items()}
    arguments = dict(zip(instance.rule.signature().names, instance.arguments(), strict=True))
    known: dict[Value, Any] = {}
    torch.default_generator.manual_seed(instance.seed)
    for node in graph.topological_order():
        operator = graph.operator(node)
        if isinstance(operator, Input):
            known[Value(node)] = arguments[operator.name]
        elif isinstance(operator, Constant):
            known[Value(node)] = graph.constants[operator.name]
        else:
            operands = [None if operand is None else known[operand] for operand in graph.operands(node)]
            known.update(apply_operator(node, operator, operands, sizes))
    return [known[value] for value in graph.outputs]


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(_is_same(a, b) for a, b in zip(one, other, strict=True))


def _is_same(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) and a == b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a.numel() == 0 or bool(((a == b) | ((a != a) & (b != b))).all())


def _said(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in sizes.items()) or "any sizes"


# -- conditions


def _conditions_differ(rule: type[Rule], space: Space) -> str:
    for condition in rule.requires:
        if speaks_of_sizes(rule, condition):
            cases = dict.fromkeys(ground.case for ground in space.grounds)
            fine = all(_says_the_same(rule, condition, case) for case in list(cases)[:_MOST_CASES])
        else:
            fine = _says_no_less(condition)
        if not fine:
            return f'the condition "{condition.sentence}" says something else of numbers than of symbols'
    return ""


def _says_the_same(rule: type[Rule], condition: Requires, case: Case) -> bool:
    """The condition holds for the same numbers as the statement that it makes of symbols."""
    truth = size_condition(rule, condition, case)
    holds = None if isinstance(truth, bool) else evaluator(truth)
    names = [] if isinstance(truth, bool) else sorted(s.name for s in formula_symbols(truth))
    signature = rule.signature()
    pairs = {v.name: v for v in signature.variables if isinstance(v, IntegerVariable) and v.length}
    every = sorted(
        {*names, *(name for name in condition.names if name in signature.symbols), *(s.name for v in pairs.values() for s in v.symbols)}
    )
    chance = random.Random(0)
    for _ in range(200):
        most = chance.choice((2, 4, 9, 40))
        sizes = {name: chance.randint(0 if most < 40 else -3, most) for name in every}
        sizes |= {str(symbol): one for symbol, one in case.ones.items() if isinstance(one, int)}
        known: dict[str, Any] = {**sizes, **dict(case.choices), **{n: tuple(sizes[s.name] for s in v.symbols) for n, v in pairs.items()}}
        try:
            answer = bool(condition.predicate(*(known[name] for name in condition.names)))
            expected = truth if holds is None else holds(sizes)
        except ZeroDivisionError:
            continue
        if answer is not bool(expected):
            return False
    return True


def _says_no_less(condition: Requires) -> bool:
    """Where the condition holds for numbers, what the proof reads from it holds as well."""
    import z3

    bounds, term = bounds_from(condition), statement(condition)
    if not bounds and term is None:
        return True
    chance = random.Random(0)
    for count in range(120):
        numbers = {name: chance.choice((0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 1e-3, 100.0, chance.uniform(-4, 4))) for name in condition.names}
        if count % 3 == 0:
            numbers = dict.fromkeys(numbers, next(iter(numbers.values())))
        for given in (numbers, {name: torch.tensor(number, dtype=torch.float64) for name, number in numbers.items()}):
            if not _answers(condition, given):
                continue
            if not all(_holds(bound, numbers) for bound in bounds):
                return False
            if term is not None and not count % 6:
                exact = [(z3.Real(name), z3.RealVal(str(Fraction(number)))) for name, number in numbers.items()]
                if z3.is_false(z3.simplify(z3.substitute(term, *exact))):
                    return False
    return True


def _answers(condition: Requires, given: Mapping[str, Any]) -> bool:
    """The condition holds for the numbers; not where it cannot be asked of single ones."""
    try:
        return bool(condition.predicate(*given.values()))
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError):
        return False


def _holds(bound: Bound, numbers: Mapping[str, float]) -> bool:
    value = bound.constant + sum((coefficient * Fraction(numbers[name]) for name, coefficient in bound.coefficients), Fraction(0))
    slack = Fraction(1, 10**9)  # numbers in conditions are taken as their decimals say
    if bound.relation == "==":
        return abs(value) <= slack
    return value != 0 if bound.relation == "!=" else value >= -slack if bound.relation == ">=" else value > -slack


__all__ = ["changing_state", "unfaithful"]
