"""What of the vocabulary occurs in a model: its families, and which operation reads which.

A pattern that is to fire in a model has only operations that the model has, one reading another as there. This is necessary, not
sufficient: sizes and attributes may still differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from graphs.graph import Graph
from operators.sources import Scalar
from rewrites.generator.terms import Term
from rewrites.generator.vocabulary import OPERATIONS, SORTS

_FAMILIES = {
    "MatMul": "matmul", "Add": "add", "Multiply": "mul", "Relu": "relu", "Permute": "transpose", "Transpose": "transpose", "Cat": "concat",
    "Split": "split", "Chunk": "split", "Slice": "split", "AvgPool2d": "average", "MaxPool2d": "max", "BatchNorm": "batchnorm",
    "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp",
}  # fmt: skip
_HELPERS = {
    "conv": ("concat", "split", "add", "scale", "enlarge", "centre", "mean"),
    "biased": ("concat", "split", "add", "scale", "enlarge"),
    "matmul": ("concat", "split", "add", "scale", "transpose", "identity"),
    "batchnorm": ("biased", "conv", "scalerows"),
}
"""What a replacement may need besides."""


@dataclass(frozen=True)
class Neighbourhood:
    """The families of a model's operations, and the pairs of which the first reads the second."""

    families: frozenset[str]
    reads: frozenset[tuple[str, str]]
    helpers: frozenset[str] = field(default=frozenset())

    def has(self, term: Term) -> bool:
        """Whether the term may occur in the model."""
        for part in term:
            if part.is_input:
                continue
            family = OPERATIONS[part.operation].family
            if family not in self.families or all(SORTS[name[0]].weight for name in part.inputs):
                return False
            reads = {(family, OPERATIONS[child.operation].family) for child in part.children if not child.is_input}
            if not reads <= self.reads:
                return False
        return not term.is_input


def neighbourhood(graph: Graph) -> Neighbourhood:
    """The families that occur in the graph, and what reads what."""
    families = {node: family for node in graph if (family := _family(graph, node)) is not None}
    reads = set()
    for node, family in families.items():
        for operand in graph.operands(node):
            if operand is not None and operand.node in families:
                reads.add((family, families[operand.node]))
    present = frozenset(families.values())
    helpers = frozenset(helper for family in present for helper in _HELPERS.get(family, ()))
    return Neighbourhood(present, frozenset(reads), helpers)


def _family(graph: Graph, node: int) -> str | None:
    """The family of a node's operator; None where the vocabulary has none."""
    name = type(graph.operator(node)).__name__
    operands = [operand for operand in graph.operands(node) if operand is not None]
    if name == "Conv2d":
        return "biased" if len(operands) > 2 else "conv"
    if name == "Multiply" and any(isinstance(graph.operator(operand.node), Scalar) for operand in operands):
        return "scale"
    return _FAMILIES.get(name)
