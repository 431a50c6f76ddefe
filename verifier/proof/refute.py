"""Small counterexamples by plain evaluation: sizes and elements are drawn, both sides' elements computed by their meaning on numbers."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from graphs.graph import Graph
from graphs.graph import Value as Edge
from operators.expressions import Atom, Dim, Expression, Symbol
from operators.formulas import Formula, Truth, formula_symbols
from operators.meaning import interpreted_by
from operators.operator import TensorType, collecting_obligations, kind_of
from operators.sources import Constant, Input
from verifier.proof.equalities import single_numbers, solved_equalities
from verifier.proof.facts import attribute_facts, size_facts, with_sizes
from verifier.proof.knowledge import Bound
from verifier.proof.rounded import WithErrors, differ
from verifier.sizes import evaluator

SIZES = (2, 1, 3, 2, 1, 4, 0, 5)
ELEMENTS = (-2.0, -1.0, 0.5, 1.0, 2.0, 3.0, -0.25, 4.0)


@dataclass(frozen=True)
class Model:
    """Sizes, the elements that were read, and the index at which the sides differ with both values there."""

    sizes: dict[str, int]
    elements: dict[str, Any]
    output: int
    index: tuple[int, ...]
    left: Any
    right: Any

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in sorted(self.sizes.items()))
        return f"at {sizes}, output {self.output}{list(self.index)}: {self.left} and {self.right}"


class NumberTensor:
    """A tensor of numbers, computed element by element; reading outside it is an error, and so is infinity where it must be finite."""

    def __init__(self, type: TensorType, element: Callable[[tuple[int, ...]], Any], finite: bool = False) -> None:
        self.shape, self.dtype, self.weak, self._element, self._finite = type.shape, type.dtype, type.weak, element, finite
        self._known: dict[tuple[int, ...], Any] = {}

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, at: Any) -> Any:
        index = tuple(int(i) for i in (at if isinstance(at, tuple) else (at,)))
        if len(index) != len(self.shape) or not all(isinstance(d, int) and 0 <= i < d for i, d in zip(index, self.shape, strict=True)):
            raise IndexError(f"index {index} of {self.shape}")
        if index not in self._known:
            self._known[index] = self._element(index)
        if self._finite and isinstance(self._known[index], float) and not math.isfinite(self._known[index]):
            raise ValueError(f"element {index} must be finite, got {self._known[index]}")
        return self._known[index]


def _numbers(
    graph: Graph, sizes: dict[Atom, Dim], element: Callable[[str, tuple[int, ...]], Any], finite: bool = False
) -> Callable[[Edge], NumberTensor]:
    done: dict[Edge, NumberTensor] = {}

    def build(edge: Edge) -> NumberTensor:
        if edge not in done:
            operator, type = with_sizes(graph.operator(edge.node), sizes), with_sizes(graph.type(edge), sizes)
            if isinstance(operator, Input):
                done[edge] = NumberTensor(type, lambda at: element(operator.name, at))
            elif isinstance(operator, Constant):
                done[edge] = NumberTensor(type, lambda at: graph.constants[operator.name][at].item())
            else:
                operands = [None if operand is None else build(operand) for operand in graph.operands(edge.node)]
                done[edge] = NumberTensor(type, lambda at: operator.element(at, *operands, output=edge.output), finite)
        return done[edge]

    return build


@dataclass
class Refuter:
    """Draws models of two graphs over the same inputs.

    finite: where a number on the way is infinite, nothing is said: what holds over the reals need not hold at a pole
    """

    left: Graph
    right: Graph
    facts: Sequence[Truth] = ()
    bounds: Sequence[Bound] = ()
    seed: int = 0
    finite: bool = False

    def __post_init__(self) -> None:
        given = [*self.facts, *size_facts(self.left), *attribute_facts(self.left)]
        names: set[Symbol] = set()
        for fact in given:
            names |= formula_symbols(fact)
        for graph in (self.left, self.right):
            for node in graph:
                dims = [d for t in graph.types(node) for d in t.shape]
                dims += [d for v in graph.operator(node).attributes.values() for d in (v if isinstance(v, tuple) else (v,))]
                names |= {s for d in dims if isinstance(d, Expression) for s in d.symbols}
        self._names = sorted(s.name for s in names)
        self._holds = [evaluator(fact) for fact in given if isinstance(fact, Formula)]
        self._kinds = {
            operator.name: kind_of(operator.type.dtype)
            for graph in (self.left, self.right)
            for operator in map(graph.operator, graph)
            if isinstance(operator, Input)
        }
        self._known, self._bounds = solved_equalities(self.bounds, single_numbers(self.left, self.right))
        self._random = random.Random(self.seed)

    def assignments(self, most: int) -> Iterator[dict[str, int]]:
        """Sizes under which the facts hold."""
        for attempt in range(most):
            pool = SIZES if attempt % 3 else SIZES[:5]
            sizes = {name: self._random.choice(pool) for name in self._names}
            if all(holds(sizes) for holds in self._holds):
                yield sizes

    def model(self, draws: int = 12, tries: int = 400) -> Model | None:
        """A model in which the sides differ, if one is drawn."""
        for sizes in itertools.islice(self.assignments(tries), draws):
            found = self._differs(sizes)
            if found is not None:
                return found
        return None

    def _differs(self, sizes: dict[str, int]) -> Model | None:
        elements: dict[tuple[str, tuple[int, ...]], Any] = {}

        def element(name: str, at: tuple[int, ...]) -> Any:
            if (name, at) not in elements and name in self._known:
                known = self._known[name]
                parts = [float(coefficient) * element(other, ()) for other, coefficient in known.coefficients.items()]
                elements[name, at] = sum(parts, float(known.constant))
            elif (name, at) not in elements:
                elements[name, at] = self._draw(name, at, elements)
            return elements[name, at]

        values: dict[Atom, Dim] = {Symbol(name): size for name, size in sizes.items()}
        with interpreted_by(WithErrors()), collecting_obligations():
            left, right = _numbers(self.left, values, element, self.finite), _numbers(self.right, values, element, self.finite)
            for output, (a, b) in enumerate(zip(self.left.outputs, self.right.outputs, strict=True)):
                ours, theirs = left(a), right(b)
                if ours.shape != theirs.shape:
                    return Model(sizes, {}, output, (), ours.shape, theirs.shape)
                if not all(isinstance(d, int) for d in ours.shape):
                    return None
                points = list(itertools.product(*(range(int(str(d))) for d in ours.shape)))
                self._random.shuffle(points)
                for at in points[:4]:
                    found = _values_at(ours, theirs, at)
                    if found is not None:
                        shown = {f"{name}{list(index)}": value for (name, index), value in itertools.islice(elements.items(), 24)}
                        return Model(sizes, shown, output, at, *found)
        return None

    def _draw(self, name: str, at: tuple[int, ...], elements: dict[tuple[str, tuple[int, ...]], Any]) -> Any:
        kind = self._kinds.get(name, "float")
        for _ in range(40):
            pool: Sequence[float] = (False, True) if kind == "bool" else (0, 1, 1, 0, 2) if kind == "int" else ELEMENTS
            value = self._random.choice(pool)
            if all(_bound_holds(bound, name, value, at, elements) for bound in self._bounds):
                break
        return value


def _bound_holds(bound: Bound, name: str, value: Any, at: tuple[int, ...], elements: dict[tuple[str, tuple[int, ...]], Any]) -> bool:
    """The bound at this index, as far as the other elements in it are drawn already."""
    total = float(bound.constant)
    if name not in dict(bound.coefficients):
        return True
    for other, coefficient in bound.coefficients:
        number = value if other == name else elements.get((other, at), elements.get((other, ())))
        if number is None:
            return True
        total += float(coefficient) * number
    return {">=": total >= 0, ">": total > 0, "==": total == 0, "!=": total != 0}[bound.relation]


def _values_at(ours: NumberTensor, theirs: NumberTensor, at: tuple[int, ...]) -> tuple[Any, Any] | None:
    """Both sides' values there when they differ; nothing where the left side is not defined."""
    left = defined(lambda: ours[at])
    right = None if left is None else defined(lambda: theirs[at])
    return None if left is None or right is None or not differ(left, right) else (float(left), float(right))


def defined(compute: Callable[[], Any]) -> Any:
    """The finite number computed; None where there is none, or where it hangs on rounding."""
    try:
        value = compute()
        return value if math.isfinite(value) else None
    except (ZeroDivisionError, OverflowError, ValueError, IndexError, TypeError, KeyError):
        return None


def models(pairs: Iterable[Refuter]) -> Model | None:
    """The first model that any of the refuters draws."""
    return next((found for refuter in pairs for found in [refuter.model()] if found is not None), None)
