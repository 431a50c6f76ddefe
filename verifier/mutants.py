"""Mutants of a rule's right side: one small change each, most of them wrong; the prover is held to proving none that is."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphs.graph import Graph, GraphError, Value
from operators.expressions import Expression, Truth
from operators.operator import OPERATORS, Operator, ShapeError, collecting_obligations
from operators.sources import Constant, Input, Scalar

EXCHANGED = {
    "Add": ("Subtract", "Multiply"), "Subtract": ("Add",), "Multiply": ("Add",), "Maximum": ("Minimum", "Add"), "Minimum": ("Maximum",),
    "Exp": ("Relu", "Negative"), "Relu": ("Absolute", "Negative", "Exp"), "Negative": ("Relu", "Absolute"), "Sqrt": ("Exp",),
    "Greater": ("GreaterEqual", "Less"), "GreaterEqual": ("Greater",), "Less": ("LessEqual",), "LessEqual": ("Less",),
    "Amax": ("Amin",), "Amin": ("Amax",), "Sigmoid": ("Tanh", "Relu"), "Tanh": ("Sigmoid",), "Sum": ("Mean",), "Mean": ("Sum",),
}  # fmt: skip
"""Operators that take each other's place in a mutant."""


@dataclass(frozen=True)
class Mutant:
    """A changed graph, what its operators require of sizes, and the change in words."""

    graph: Graph
    required: tuple[Truth, ...]
    change: str


def mutants(graph: Graph, count: int, seed: int = 0) -> Iterator[Mutant]:
    """At most `count` different mutants: an operator exchanged or dropped, a field, number or operand changed, operands swapped."""
    chance = random.Random(seed)
    seen = {str(graph)}
    for _ in range(count * 8):
        if len(seen) > count:
            return
        mutant = _mutant(graph, chance)
        if mutant is not None and str(mutant.graph) not in seen:
            seen.add(str(mutant.graph))
            yield mutant


def _mutant(graph: Graph, chance: random.Random) -> Mutant | None:
    nodes = [node for node in graph.topological_order() if not isinstance(graph.operator(node), (Input, Constant))]
    if not nodes:
        return None
    target = chance.choice(nodes)
    change = chance.choice((_exchange, _change_field, _swap, _reroute, _change_number, _drop))
    made = Graph()
    moved: dict[Value, Value] = {}
    with collecting_obligations() as required:
        try:
            for node in graph.topological_order():
                operator: Operator | None = graph.operator(node)
                operands = [None if o is None else moved[o] for o in graph.operands(node)]
                if node == target:
                    step = change(made, graph.operator(node), operands, chance)
                    if step is None:
                        return None
                    operator, operands = step
                if operator is None:
                    kept = operands[0]
                    assert kept is not None
                    moved[Value(node, 0)] = kept
                    continue
                if isinstance(operator, Constant):
                    made.constants[operator.name] = graph.constants[operator.name]
                new = made.add(operator, *operands).node
                moved.update({Value(node, output): Value(new, output) for output in range(len(made.types(new)))})
            made.outputs = [moved[value] for value in graph.outputs]
        except (ShapeError, GraphError, NotImplementedError, KeyError, TypeError, ValueError, IndexError, AttributeError):
            return None  # the change does not make a graph
    return Mutant(made, tuple(required), f"{change.__name__.strip('_').replace('_', ' ')} at {graph.operator(target)}")


Step = tuple[Operator | None, list[Value | None]] | None


def _exchange(made: Graph, operator: Operator, operands: list[Value | None], chance: random.Random) -> Step:
    names = [name for name in EXCHANGED.get(type(operator).__name__, ()) if name in OPERATORS]
    return (OPERATORS[chance.choice(names)](**operator.attributes), operands) if names else None


def _change_field(made: Graph, operator: Operator, operands: list[Value | None], chance: random.Random) -> Step:
    if not operator.attributes or isinstance(operator, Scalar):
        return None
    name = chance.choice(sorted(operator.attributes))
    value = _changed(operator.attributes[name], chance)
    return None if value is None else (dataclasses.replace(operator, **{name: value}), operands)  # type: ignore[type-var]


def _changed(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, Expression)):
        return value + chance.choice((-1, 1))
    if isinstance(value, tuple) and value:
        items = list(value)
        place, other = chance.randrange(len(items)), chance.randrange(len(items))
        if chance.random() < 0.4 and place != other:
            items[place], items[other] = items[other], items[place]
        else:
            items[place] = _changed(items[place], chance)
        return None if None in items else tuple(items)
    return None


def _swap(made: Graph, operator: Operator, operands: list[Value | None], chance: random.Random) -> Step:
    if len(operands) < 2 or None in operands:
        return None
    one, other = chance.sample(range(len(operands)), 2)
    swapped = list(operands)
    swapped[one], swapped[other] = operands[other], operands[one]
    return operator, swapped


def _reroute(made: Graph, operator: Operator, operands: list[Value | None], chance: random.Random) -> Step:
    if not operands:
        return None
    place = chance.randrange(len(operands))
    old = operands[place]
    if old is None:
        return None
    rank = len(made.type(old).shape)
    values = [Value(node, output) for node in made.network for output in range(len(made.types(node)))]
    others = [value for value in values if value != old and len(made.type(value).shape) == rank]
    return (operator, [*operands[:place], chance.choice(others), *operands[place + 1 :]]) if others else None


def _change_number(made: Graph, operator: Operator, operands: list[Value | None], chance: random.Random) -> Step:
    if not isinstance(operator, Scalar) or not isinstance(operator.value, (int, float)) or isinstance(operator.value, bool):
        return None
    return Scalar(-operator.value if operator.value and chance.random() < 0.5 else operator.value + 1), operands


def _drop(made: Graph, operator: Operator, operands: list[Value | None], chance: random.Random) -> Step:
    return (None, operands) if len(operands) == 1 and operands[0] is not None and operands[0].output == 0 else None
