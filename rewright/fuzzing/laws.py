"""Random laws over symbolic sizes: what is proved of a small graph and a changed one must hold in plain evaluation.

Most of the laws are wrong as people's are: one operation said to move past another, or a term, an axis, a number changed. A law is made
of few operators, drawn for it, so that the same ones meet often.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from graphs.graph import Graph, GraphError, Value
from operators.expressions import Dim, Expression, Symbol
from operators.formulas import Comparison, Truth, at_least_zero
from operators.operator import OPERATORS, ShapeError, TensorType, collecting_obligations
from operators.sources import Input, Scalar
from rewright.fuzzing.finding import Problem
from verifier.mutants import Mutant, mutants
from verifier.proof.consistency import difference_of_forms
from verifier.proof.prove import prove
from verifier.proof.refute import Refuter
from verifier.sizes import flattened

PROOF_SECONDS = 1.0
MUTANTS = 3
"""Right sides of one change drawn, besides those that are always made."""
STEPS = (1, 2, 2, 3)
"""Operations of a left side."""
_M, _N = (Expression.of(Symbol(name)) for name in ("m", "n"))
_SHAPES: tuple[tuple[Dim, Dim], ...] = ((_M, _N), (_N, _N), (_M, 2 * _N), (1, _N))
_CURVES = ("Relu", "Exp", "Negative", "Square", "Absolute", "Sigmoid", "Tanh", "Sqrt", "Reciprocal", "Floor", "Log")
_PAIRS = ("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum")
_REDUCTIONS = ("Sum", "Mean", "Amax", "Amin", "Softmax", "Cumsum")
_LAYOUTS = ("Permute", "Flip", "Eye", "Tril", "Stack")
_PARTS = ("Slice", "Slice", "Cat", "Pad")


class Words:
    """The few operators and shapes of one law, and the draws that it is made by."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.curves, self.pairs = self.chance.sample(_CURVES, 3), self.chance.sample(_PAIRS, 2)
        self.reductions, self.layouts = self.chance.sample(_REDUCTIONS, 2), self.chance.sample(_LAYOUTS, 2)
        self.shapes = self.chance.sample(_SHAPES, self.chance.choice((1, 1, 2)))

    def recent(self, values: Sequence[Value]) -> Value:
        """A value, the last one more often than not."""
        return values[-1] if self.chance.random() < 0.7 else self.chance.choice(values)

    def axis(self) -> int:
        """An axis of a matrix."""
        return self.chance.choice((-1, -2))


def check_law(form: str, seed: int) -> Problem | None:
    """A random left side of this form, and right sides made of it; what is proved is evaluated, and every normal form has its value."""
    words = Words(seed)
    chance, made = words.chance, left_side(form, words)
    if made is None:
        return None
    left, facts = made
    if chance.random() < 0.75:  # what is proved for all sizes is proved for those of at least 1, in one attempt
        facts += (at_least_zero(_M - 1), at_least_zero(_N - 1))
    rights = {str(right.graph): right for right in [*right_sides(left), *mutants(left, MUTANTS, chance.randrange(10**6))]}
    lines = [f'"""A random law over {form}: the proof against plain evaluation."""', "", "import sys", ""]
    lines += ["from rewright.fuzzing.laws import check_law", "", f"problem = check_law({form!r}, {seed})"]
    script = "\n".join([*lines, "print(problem.text if problem else 'no difference')", "sys.exit(problem is not None)", ""])
    for mutant in rights.values():
        right = mutant.graph
        proof = prove(left, right, facts, (), mutant.required, PROOF_SECONDS)
        text = f"{mutant.change}\n{left}\n\n{right}"
        difference = difference_of_forms(left, right, facts, (), proof, seed, finite=True).difference
        if difference:
            return Problem("a normal form has another value than its elements", f"{difference}\n{text}", script)
        if proof.proved:
            model = Refuter(left, right, facts, seed=seed, finite=True).model(draws=12)
            if model is not None and not ("all sizes ≥ 1" in proof.scope and 0 in model.sizes.values()):
                return Problem("proved and wrong", f"PROVED, and plain evaluation differs {model}\n{text}", script)
    return None


def left_side(form: str, words: Words) -> tuple[Graph, tuple[Truth, ...]] | None:
    """A graph of a few operations over matrices of symbolic sizes, and what these require; None where none fits."""
    graph, chance = Graph(), words.chance
    values = [graph.input(name, TensorType(chance.choice(words.shapes), "float64")) for name in "abc"[: chance.randint(1, 3)]]
    facts: list[Truth] = []
    for _ in range(chance.choice(STEPS)):
        for _ in range(6):
            mark = graph.mark()
            with collecting_obligations() as required:
                try:
                    value = chance.choice(FORMS[form])(graph, values, words)
                except (ShapeError, GraphError):
                    graph.undo_to(mark)
                    continue
            if any(not isinstance(fact, Comparison) or fact.relation != ">=" for fact in flattened(required)):
                graph.undo_to(mark)  # sizes that must be equal for it: a law about few sizes
                continue
            facts += flattened(required)
            values.append(value)
            break
    graph.outputs = [values[-1]]
    return None if isinstance(graph.operator(values[-1].node), Input) else (graph, tuple(facts))


def _add(graph: Graph, name: str, attributes: Sequence[Any], *operands: Value) -> Value:
    return graph.add(OPERATORS[name](*attributes), *operands)


def curve(graph: Graph, values: list[Value], words: Words) -> Value:
    """A function of each element."""
    return _add(graph, words.chance.choice(words.curves), (), words.recent(values))


def number(graph: Graph, values: list[Value], words: Words) -> Value:
    """A function of each element and a number."""
    operands = [words.recent(values), graph.scalar(words.chance.choice((-1.0, 0.5, 1.0, 2.0, 3.0)))]
    return _add(graph, words.chance.choice(words.pairs), (), *(operands if words.chance.random() < 0.7 else operands[::-1]))


def pair(graph: Graph, values: list[Value], words: Words) -> Value:
    """A function of two values' elements."""
    operands = [words.recent(values), words.chance.choice(values)]
    return _add(graph, words.chance.choice(words.pairs), (), *(operands if words.chance.random() < 0.5 else operands[::-1]))


def squared(graph: Graph, values: list[Value], words: Words) -> Value:
    """A function of each element, times itself or to itself."""
    value = curve(graph, values, words)
    return _add(graph, words.chance.choice(("Multiply", "Multiply", "Add")), (), value, value)


def shifted(graph: Graph, values: list[Value], words: Words) -> Value:
    """The larger or smaller of a value and the value moved by a number."""
    value = words.recent(values)
    moved = _add(graph, "Add", (), value, graph.scalar(words.chance.choice((-1.0, 0.5, 2.0))))
    return _add(graph, words.chance.choice(("Maximum", "Minimum")), (), value, moved)


def reduction(graph: Graph, values: list[Value], words: Words) -> Value:
    """A reduction that keeps its axis, a running sum or a softmax."""
    name, axis = words.chance.choice(words.reductions), words.axis()
    if name in ("Softmax", "Cumsum"):
        return _add(graph, name, (axis,), words.recent(values))
    return _add(graph, name, ((axis,) if words.chance.random() < 0.8 else (-2, -1), True), words.recent(values))


def layout(graph: Graph, values: list[Value], words: Words) -> Value:
    """Elements in another order, or some of them and zeros."""
    name, value, axis, chance = words.chance.choice(words.layouts), words.recent(values), words.axis(), words.chance
    rows, columns = graph.type(value).shape
    if name == "Permute":
        return _add(graph, name, ((-1, -2),), value)
    if name == "Flip":
        return _add(graph, name, ((axis,),), value)
    if name == "Tril":
        return _add(graph, chance.choice(("Tril", "Triu")), (chance.choice((0, 0, 1, -1)),), value)
    if name == "Eye":
        return _add(graph, "Multiply", (), value, _add(graph, name, (rows, columns, "float64")))
    return _add(graph, "Select", (-3, chance.randint(0, 1)), _add(graph, name, (-3,), value, chance.choice(values)))


def part(graph: Graph, values: list[Value], words: Words) -> Value:
    """Some of the elements, or more than those."""
    name, value, axis, chance = words.chance.choice(_PARTS), words.recent(values), words.axis(), words.chance
    size = graph.type(value).shape[axis]
    if name == "Pad":
        return _add(graph, name, ((chance.randint(0, 2), chance.randint(0, 2)),), value, graph.scalar(0.0))
    if name == "Cat":
        return _add(graph, name, (axis,), value, chance.choice(values))
    start, stop, step = chance.choice(((0, size, 2), (0, size, 2), (1, size, 2), (1, size, 1), (0, size - 1, 1), (0, _N, 1)))
    return _add(graph, "Slice", (axis, start, stop, step), value)


def product(graph: Graph, values: list[Value], words: Words) -> Value:
    """A product of matrices, one of them turned where that fits."""
    one, other = words.recent(values), words.chance.choice(values)
    if graph.type(one).shape[-1] != graph.type(other).shape[-2]:
        other = _add(graph, "Permute", ((-1, -2),), other)
    return _add(graph, "MatMul", (), one, other)


def right_sides(graph: Graph) -> Iterator[Mutant]:
    """The graph with each operator left out, with each moved past the one that it reads, and with an input for each other one."""
    nodes = [node for node in graph.topological_order() if not isinstance(graph.operator(node), (Input, Scalar)) and graph.operands(node)]
    for node in nodes:
        for position, operand in enumerate(graph.operands(node)):
            if operand is None or graph.type(operand).weak:
                continue
            yield from _rebuilt(graph, f"{graph.operator(node)} left out", {node: partial(_operand, position=position)})
            if not isinstance(graph.operator(operand.node), Input):
                what = f"{graph.operator(node)} past {graph.operator(operand.node)}"
                yield from _rebuilt(graph, what, {node: partial(_moved, position=position, inner=operand.node)})
    for one, other in itertools.permutations(graph.inputs, 2):
        if graph.users(one) and graph.type(Value(one)) == graph.type(Value(other)):
            yield from _rebuilt(graph, f"{graph.operator(other)} for {graph.operator(one)}", {one: partial(_other, other=other)})


Change = Callable[[Graph, Graph, int, dict[Value, Value]], Value]


def _rebuilt(graph: Graph, what: str, changes: Mapping[int, Change]) -> Iterator[Mutant]:
    """The graph with other values in the place of some nodes; nothing where that makes no graph."""
    made, moved = Graph(), dict[Value, Value]()
    with collecting_obligations() as owed:
        try:
            for node in graph.inputs:
                moved[Value(node)] = made.add(graph.operator(node))
            for node in graph.topological_order():
                if node in changes:
                    moved[Value(node)] = changes[node](made, graph, node, moved)
                elif node not in graph.inputs:
                    moved[Value(node)] = made.add(graph.operator(node), *(None if o is None else moved[o] for o in graph.operands(node)))
            made.outputs = [moved[value] for value in graph.outputs]
        except (ShapeError, GraphError, TypeError, ValueError, IndexError):
            return
    made.remove_dead()
    yield Mutant(made, tuple(owed), what)


def _operand(made: Graph, graph: Graph, node: int, moved: dict[Value, Value], position: int) -> Value:
    """One of the node's operands."""
    operand = graph.operands(node)[position]
    assert operand is not None
    return moved[operand]


def _other(made: Graph, graph: Graph, node: int, moved: dict[Value, Value], other: int) -> Value:
    """Another input."""
    return Value(graph.inputs.index(other))


def _moved(made: Graph, graph: Graph, node: int, moved: dict[Value, Value], position: int, inner: int) -> Value:
    """g(f(a, c), f(b, c)) for f(g(a, b), c); numbers and what is absent stay."""
    outer = [None if operand is None else moved[operand] for operand in graph.operands(node)]
    below: list[Value | None] = []
    for operand in graph.operands(inner):
        value = None if operand is None else moved[operand]
        if value is not None and not made.type(value).weak:
            value = made.add(graph.operator(node), *outer[:position], value, *outer[position + 1 :])
        below.append(value)
    return made.add(graph.operator(inner), *below)


FORMS: Mapping[str, Sequence[Callable[[Graph, list[Value], Words], Value]]] = {
    "pointwise": (curve, curve, pair, number, shifted, squared),
    "reductions": (reduction, reduction, pair, curve, shifted),
    "parts": (part, reduction),
    "layout": (layout, layout, part, pair, reduction),
    "products": (product, pair, layout, reduction),
}
"""The operations that left sides are made of."""

__all__ = ["FORMS", "Words", "check_law", "left_side", "right_sides"]
