"""What a matcher remembers between places that look alike: the matches of a rule at a place of a certain form.

A pattern with one root lies over a node and what is below it, as deep as the pattern is high. Places that agree there, down to the
types of the values read, have corresponding matches; so each form is matched once, and a further place of that form, in the same graph
or another one, is answered from memory. An answer for which the contents of constants were read is not kept.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar, cast

from graphs.graph import Graph
from operators.expressions import Expression
from operators.operator import Effect, Operator, TensorType
from operators.sources import Constant, Input, Scalar

Answer = TypeVar("Answer")


class Memory(Generic[Answer]):
    """Answers by question, at most `most` of them; when it is full it starts afresh."""

    def __init__(self, most: int = 100_000) -> None:
        self.most = most
        self._answers: dict[Hashable, Answer] = {}

    def find(self, question: Hashable) -> Answer | None:
        return self._answers.get(question)

    def keep(self, question: Hashable, answer: Answer) -> None:
        if len(self._answers) >= self.most:
            self._answers.clear()
        self._answers[question] = answer


class Marks:
    """Numbers for nodes: equal where operator and types are; a leaf's (its operator is not looked at) where its types are.

    What sets numbers such as 1, 1.0 and True or 0.0 and -0.0 apart counts; names of inputs and constants do not.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def of(self, operator: Operator, types: tuple[TensorType, ...]) -> tuple[int, int]:
        """The node's number as an inner node and as a leaf."""
        kind = type(operator)
        leaf = self._number(("leaf", types))
        if isinstance(operator, Scalar):
            number = self._number((kind, type(operator.value), repr(operator.value)))
            return number, number
        if isinstance(operator, (Input, Constant)):
            return self._number((kind, types)), leaf
        return self._number((kind, operator, _kinds(tuple(operator.attributes.values())), types)), leaf

    def _number(self, description: Hashable) -> int:
        return self._numbers.setdefault(description, len(self._numbers))


def _kinds(value: object) -> Hashable:
    return tuple(map(_kinds, value)) if isinstance(value, tuple) else cast(Hashable, type(value))


MARKS = Marks()
"""One numbering for all graphs of the process."""


class Mark(NamedTuple):
    """What is known of a node by itself: its numbers (see `Marks.of`), and whether its value differs from run to run of the graph."""

    inner: int
    leaf: int
    varies: bool


def mark_of(graph: Graph, node: int) -> Mark:
    """What is known of a node of a graph by itself."""
    operator = graph.operator(node)
    return Mark(*MARKS.of(operator, graph.types(node)), isinstance(operator, Input) or is_impure(operator) or _is_symbolic(operator))


IMPURE = Effect.RANDOM | Effect.UPDATES_BUFFER | Effect.UNKNOWN
"""What a rewrite may not duplicate, drop or merge."""


def is_impure(operator: Operator) -> bool:
    """The operator has one of these effects."""
    return type(operator).effects is not Operator.effects and bool(operator.effects & IMPURE)


def _is_symbolic(operator: Operator) -> bool:
    """The operator's attributes hold sizes that are not numbers."""

    def symbolic(value: object) -> bool:
        if isinstance(value, tuple):
            return any(map(symbolic, value))
        return isinstance(value, Expression)

    return any(map(symbolic, vars(operator).values()))
