"""Forms of an ONNX model that are timed beside one another, and which are worth it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from costs.timing import Comparison
from graphs.graph import Graph
from graphs.onnx import read
from graphs.onnx.origin import NODE_KEY, origin_of
from graphs.passes import SMALL
from operators.sources import Scalar
from rewrites.patterns import sketches
from rewrites.rule import Rule
from search.certified import Admitted
from search.result import Step

if TYPE_CHECKING:
    import onnx

WHOLE = ("Attention", "DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear", "RotaryEmbedding")
"""Operators that ONNX Runtime has kernels for, alone or together with what stands around them, and that are many operators here."""


SUREST = 0.01
"""Ratios surer than this count alike."""


@dataclass
class Candidate:
    """A form of the model, and how it came about; `unfolded` is the graph before its constants were computed.

    times: how many times as fast as the model that came in, by the number of threads; empty until it ran
    """

    name: str
    graph: Graph
    unfolded: Graph
    steps: list[Step]
    model: onnx.ModelProto
    times: dict[int, float] = field(default_factory=dict)


def as_timed(graph: Graph) -> Graph:
    """The graph with the operators of `WHOLE` in one piece, and with the branches that the model takes wherever it runs."""
    origin = origin_of(graph)
    if origin is None or not any(node.op_type in (*WHOLE, "If") for node in origin.model.graph.node):
        return graph
    return read(origin.model, origin.bound, whole=WHOLE, running=True)


def made_possible(rules: Sequence[Admitted], before: Candidate, after: Candidate) -> Iterator[type[Rule]]:
    """The rules to be tried whose patterns hold only operators of which there are more than before."""
    had, has = (Counter(type(one.unfolded.operator(node)) for node in one.unfolded.network) for one in (before, after))
    new = set(has - had)
    for rule in (entry.rule for entry in rules if entry.rule.tried):
        patterns = ({node.kind for node in sketch.nodes.values()} - {Scalar} for sketch in sketches(rule))
        if any(kinds and kinds <= new for kinds in patterns):
            yield rule


def is_new_view(graph: Graph, node: int) -> bool:
    """The node came with a rule, and is small or reads what nothing else reads: as a constant it does not make the file larger by much."""
    if NODE_KEY in graph.network.nodes[node]:
        return False
    elements = sum(math.prod(kind.shape) for kind in graph.types(node))
    return elements <= SMALL or all(graph.use_count(operand) == 1 for operand in graph.operands(node) if operand is not None)


def overall(ratios: Mapping[int, Comparison]) -> float:
    """The mean ratio over the numbers of threads; the surer one is, the more it counts."""
    weights = {count: 1 / max(math.log(found.high / found.low), SUREST) ** 2 for count, found in ratios.items()}
    return math.exp(sum(weights[count] * math.log(found.ratio) for count, found in ratios.items()) / sum(weights.values()))


__all__ = ["WHOLE", "Candidate", "as_timed", "is_new_view", "made_possible", "overall"]
