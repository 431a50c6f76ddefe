"""Mutants of a rule's right side: one small change each, most of them wrong; the prover is held to proving none that is."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphs.graph import Graph, GraphError, Value
from operators.expressions import Expression
from operators.formulas import Truth
from operators.operator import OPERATORS, Operator, ShapeError, collecting_obligations
from operators.sources import Constant, Input, Scalar
from rewrites.rule import Rule

_KINDS_ALIKE = (
    ("Add", "Subtract", "Multiply", "Maximum", "Minimum"),
    ("Divide", "Multiply"),
    ("Relu", "Absolute", "Negative", "Exp", "Square", "Identity"),
    ("Sigmoid", "Tanh", "Relu", "Silu", "Erf"),
    ("Sqrt", "Rsqrt", "Reciprocal", "Exp", "Log"),
    ("Log", "Log1p", "Exp", "Expm1"),
    ("Sin", "Cos", "Tan"),
    ("Floor", "Ceil", "Trunc", "Round"),
    ("FloorDivide", "TruncDivide"),
    ("Remainder", "TruncRemainder"),
    ("Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual"),
    ("LogicalAnd", "LogicalOr", "LogicalXor"),
    ("BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    ("Amax", "Amin", "Sum", "Mean", "Product", "LogSumExp", "EuclideanNorm"),
    ("ArgMax", "ArgMin"),
    ("MaxAlong", "MinAlong"),
    ("Variance", "StandardDeviation"),
    ("Softmax", "LogSoftmax"),
    ("All", "AnyOf"),
    ("Tril", "Triu"),
    ("Cumsum", "Flip"),
)
EXCHANGED = {
    name: tuple(dict.fromkeys(other for group in _KINDS_ALIKE if name in group for other in group if other != name))
    for name in dict.fromkeys(name for group in _KINDS_ALIKE for name in group)
}
"""Operators that take each other's place in a mutant."""
_MODES = (("constant", "reflect", "replicate", "circular"), ("nearest", "bilinear"), ("none", "tanh"), ("floor", "trunc"))
"""Words among attributes that take each other's place."""


@dataclass(frozen=True)
class Mutant:
    """A changed graph, what its operators require of sizes, and the change in words."""

    graph: Graph
    required: tuple[Truth, ...]
    change: str


def mutants(graph: Graph, count: int, seed: int = 0) -> Iterator[Mutant]:
    """At most `count` different mutants, each by one change.

    An operator is exchanged, dropped or added; an attribute, axis, size, split point or number is changed; operands are swapped, replaced
    or left out; two inputs change places; numbers are cut to whole ones on the way.
    """
    chance = random.Random(seed)
    seen = {text(graph)}
    for _ in range(count * 8):
        if len(seen) > count:
            return
        mutant = _mutant(graph, chance)
        look = "" if mutant is None else text(mutant.graph)
        if mutant is not None and look not in seen:
            seen.add(look)
            yield mutant


def text(graph: Graph) -> str:
    """What the outputs need, as text: a change of something else is none."""
    numbers: dict[int, int] = {}
    lines: list[str] = []

    def enter(value: Value) -> str:
        if value.node not in numbers:
            inside = ", ".join("-" if operand is None else enter(operand) for operand in graph.operands(value.node))
            numbers[value.node] = len(numbers)
            lines.append(f"{graph.operator(value.node)}({inside})")
        return f"%{numbers[value.node]}.{value.output}"

    outputs = [enter(value) for value in graph.outputs]
    return "\n".join([*lines, *outputs])


def _mutant(graph: Graph, chance: random.Random) -> Mutant | None:
    nodes = [node for node in graph.topological_order() if not isinstance(graph.operator(node), (Input, Constant))]
    change = chance.choice(_CHANGES) if nodes else _wrap
    target = chance.choice(nodes) if nodes and change is not _wrap else None
    exchanged = _two_inputs(graph, chance) if change is _exchange_inputs else {}
    if change is _exchange_inputs and not exchanged:
        return None
    made = Graph()
    order = [*graph.inputs, *(node for node in graph.topological_order() if node not in graph.inputs)]
    moved: dict[Value, Value] = {}
    with collecting_obligations() as required:
        try:
            for node in order:
                operator: Operator | None = graph.operator(node)
                operands = [None if o is None else moved[exchanged.get(o, o)] for o in graph.operands(node)]
                if node == target and not exchanged:
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
            made.outputs = [moved[exchanged.get(value, value)] for value in graph.outputs]
            if change is _wrap:
                place = chance.randrange(len(made.outputs))
                step = _wrap(made, OPERATORS["Identity"](), [made.outputs[place]], chance)
                if step is None or step[0] is None:
                    return None
                made.outputs[place] = Value(made.add(step[0], *step[1]).node)
        except (ShapeError, GraphError, NotImplementedError, KeyError, TypeError, ValueError, IndexError, AttributeError):
            return None  # the change does not make a graph
    where = " and ".join(str(graph.operator(value.node)) for value in exchanged) or (
        "an output" if target is None else str(graph.operator(target))
    )
    return Mutant(made, tuple(required), f"{change.__name__.strip('_').replace('_', ' ')} at {where}")


Step = tuple[Operator | None, list[Value | None]] | None


def _exchange(made: Graph, operator: Operator, operands: list[Value | None], chance: random.Random) -> Step:
    names = [name for name in EXCHANGED.get(type(operator).__name__, ()) if name in OPERATORS]
    return (OPERATORS[chance.choice(names)](**operator.attributes), operands) if names else None


def _change_field(made: Graph, operator: Operator, operands: list[Value | None], chance: random.Random) -> Step:
    if not operator.attributes or isinstance(operator, Scalar):
        return None
    name = chance.choice(sorted(operator.attributes))
    value = _changed(operator.attributes[name], chance)
    if value is None or not _counts_alike(operator.attributes[name], value):
        return None
    return dataclasses.replace(operator, **{name: value}), operands  # type: ignore[type-var]


def _counts_alike(old: Any, new: Any) -> bool:
    """What counts from the end (axes, positions) still does: −1 + 1 is no axis."""
    if isinstance(old, tuple):
        return all(map(_counts_alike, old, new))
    return not (isinstance(old, int) and isinstance(new, int)) or isinstance(old, bool) or old >= 0 or new < 0


def _changed(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, Expression)):
        return value + chance.choice((-1, 1))
    if isinstance(value, str):
        others = [word for words in _MODES if value in words for word in words if word != value]
        return chance.choice(others) if others else None
    if isinstance(value, tuple) and value:
        return _changed_items(list(value), chance)
    return None


def _changed_items(items: list[Any], chance: random.Random) -> Any:
    """Two entries change places, one is changed, or one gives to another what is taken from it (a split point)."""
    place, other = chance.randrange(len(items)), chance.randrange(len(items))
    way = chance.random()
    if way < 0.35 and place != other:
        items[place], items[other] = items[other], items[place]
    elif way < 0.6 and place != other and all(isinstance(items[i], (int, Expression)) for i in (place, other)):
        items[place], items[other] = items[place] + 1, items[other] - 1
    else:
        items[place] = _changed(items[place], chance)
    return None if None in items else tuple(items)


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
    if not isinstance(operator, Scalar) or isinstance(operator.value, bool) or not isinstance(operator.value, (int, float, Expression)):
        return None
    number: Any = operator.value
    changes = [number + 1, number * 2] if isinstance(number, Expression) else [number + 1, -number, 0 * number, number * 2]
    return Scalar(chance.choice(changes)), operands


def _drop(made: Graph, operator: Operator, operands: list[Value | None], chance: random.Random) -> Step:
    """An operator is left out: one of its operands of the same type stands for it."""
    (output, *others), there = (
        operator.outputs(*(None if o is None else made.type(o) for o in operands)),
        [o for o in operands if o is not None],
    )
    alike = [o for o in there if not others and len(made.type(o).shape) == len(output.shape)]
    return (None, [chance.choice(alike)]) if alike else None


def _add(made: Graph, operator: Operator, operands: list[Value | None], chance: random.Random) -> Step:
    """An operator is added before an operand."""
    places = [place for place, o in enumerate(operands) if o is not None and made.type(o).dtype.startswith("float")]
    if not places:
        return None
    place = chance.choice(places)
    old = operands[place]
    assert old is not None
    name = chance.choice(("Negative", "Relu", "Absolute", "Square", "Floor", "Add", "Multiply"))
    new = made.add(OPERATORS[name](), *([old, old] if name in ("Add", "Multiply") else [old]))
    return operator, [*operands[:place], new, *operands[place + 1 :]]


def _cut(made: Graph, operator: Operator, operands: list[Value | None], chance: random.Random) -> Step:
    """An operand is cut to a whole number and taken back to its dtype."""
    places = [
        place for place, o in enumerate(operands) if o is not None and made.type(o).dtype.startswith("float") and not made.type(o).weak
    ]
    if not places:
        return None
    place = chance.choice(places)
    old = operands[place]
    assert old is not None
    dtype = made.type(old).dtype
    new = made.add(OPERATORS["Cast"](dtype), made.add(OPERATORS["Cast"](chance.choice(("int64", "bool"))), old))  # type: ignore[call-arg]
    return operator, [*operands[:place], new, *operands[place + 1 :]]


def _leave_out(made: Graph, operator: Operator, operands: list[Value | None], chance: random.Random) -> Step:
    """An optional operand (a bias, a mask), or one of many (a part of a concatenation), is left out."""
    optional = [place for place in operator.absent if place < len(operands) and operands[place] is not None]
    if optional:
        place = chance.choice(optional)
        return operator, [*operands[:place], None, *operands[place + 1 :]]
    if type(operator).__name__ in ("Cat", "Stack") and len(operands) > 1:
        place = chance.randrange(len(operands))
        return operator, [*operands[:place], *operands[place + 1 :]]
    return None


def _wrap(made: Graph, operator: Operator, operands: list[Value | None], chance: random.Random) -> Step:
    """An operator is added after an output."""
    (old,) = operands
    assert old is not None
    truth = made.type(old).dtype == "bool"
    name = chance.choice(
        ("LogicalNot", "LogicalXor", "Flip") if truth else ("Negative", "Relu", "Absolute", "Square", "Add", "Multiply", "Flip")
    )
    if name == "Flip":
        axes = range(-len(made.type(old).shape), 0)
        return (OPERATORS["Flip"]((chance.choice(axes),)), [old]) if axes else None  # type: ignore[call-arg]
    return OPERATORS[name](), [old, old] if name in ("Add", "Multiply", "LogicalXor") else [old]


def _exchange_inputs(made: Graph, operator: Operator, operands: list[Value | None], chance: random.Random) -> Step:
    """Two inputs change places everywhere."""
    raise NotImplementedError("the inputs are exchanged while the graph is copied")


def _two_inputs(graph: Graph, chance: random.Random) -> dict[Value, Value]:
    """Two inputs of as many axes and one dtype, each to be read in the place of the other; nothing where there are none."""
    inputs = [Value(node) for node in graph.inputs]
    pairs = [
        (a, b)
        for i, a in enumerate(inputs)
        for b in inputs[:i]
        if len(graph.type(a).shape) == len(graph.type(b).shape) and graph.type(a).dtype == graph.type(b).dtype
    ]
    if not pairs:
        return {}
    one, other = chance.choice(pairs)
    return {one: other, other: one}


_CHANGES = (
    _exchange, _change_field, _change_field, _swap, _reroute, _change_number, _change_number, _drop, _add, _cut, _leave_out, _wrap,
    _exchange_inputs,
)  # fmt: skip


def without_conditions(rule: type[Rule]) -> Iterator[tuple[str, type[Rule]]]:
    """The rule without each of its conditions in turn, with the condition's sentence."""
    for position, condition in enumerate(rule.requires):
        others = [*rule.requires[:position], *rule.requires[position + 1 :]]
        parts = {"__doc__": rule.__doc__, "requires": others, "pattern": rule.pattern, "replacement": rule.replacement}
        yield condition.sentence, type(rule.__name__, (rule,), parts)


__all__ = ["EXCHANGED", "Mutant", "mutants", "text", "without_conditions"]
