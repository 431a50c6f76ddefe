"""Running both sides node by node, and what is kept of every value: enough to tell which may be equal, and nothing large."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy
import torch

from graphs.evaluate import apply_operator, bind_data_sizes, default_dtype, widened, widened_operator
from graphs.graph import Graph, Value
from operators.expressions import Symbol
from operators.foreign import Foreign
from operators.sources import Constant, Input, Scalar


class RunError(RuntimeError):
    """An operator that raises on these inputs; `node` says which."""

    def __init__(self, node: int, reason: str) -> None:
        super().__init__(reason)
        self.node = node


@dataclass(frozen=True)
class Trace:
    """What to run: on which inputs, at which sizes, in float64 or in the model's own dtypes.

    `replaced` gives constants and numbers, by node, another value. With `tolerant`, an operator that raises is left out, with all that
    depends on it.
    """

    inputs: Sequence[torch.Tensor]
    sizes: Mapping[Symbol, int]
    float64: bool = True
    replaced: Mapping[int, Any] = field(default_factory=dict)
    tolerant: bool = False


def run(graph: Graph, trace: Trace, see: Callable[[Value, torch.Tensor], None], order: Sequence[int] | None = None) -> None:
    """Run the graph; `see` is shown every tensor as it comes, and none is kept longer than it is read.

    Raises: RunError.
    """
    order = graph.topological_order() if order is None else order
    last: dict[Value, int] = {operand: node for node in order for operand in graph.operands(node) if operand is not None}
    done: dict[int, list[Value]] = {}
    for value, node in last.items():
        done.setdefault(node, []).append(value)
    known: dict[Value, torch.Tensor] = {}
    given = dict(zip(graph.inputs, trace.inputs, strict=True))
    trace = replace(trace, sizes=(sizes := dict(trace.sizes)))
    with torch.no_grad(), default_dtype(torch.float64 if trace.float64 else None), numpy.errstate(all="ignore"):
        for node in order:
            if trace.tolerant and any(v is not None and v not in known for v in graph.operands(node)):
                continue
            try:
                produced = _outputs(graph, node, trace, known, given)
            except RunError:
                if not trace.tolerant:
                    raise
                continue
            if isinstance(graph.operator(node), Foreign):
                bind_data_sizes(graph, produced, sizes)
            for value, tensor in produced.items():
                if isinstance(tensor, torch.Tensor):
                    see(value, tensor)
            known.update(produced)
            for value in done.get(node, ()):
                known.pop(value, None)


def _outputs(
    graph: Graph, node: int, trace: Trace, known: Mapping[Value, torch.Tensor], given: Mapping[int, torch.Tensor]
) -> dict[Value, torch.Tensor]:
    operator = graph.operator(node)
    if isinstance(operator, Input):
        tensor = given[node]
    elif node in trace.replaced:
        return {Value(node): trace.replaced[node]}
    elif isinstance(operator, Constant):
        tensor = graph.constants[operator.name].detach()
    else:
        operands = [None if operand is None else known[operand] for operand in graph.operands(node)]
        try:
            return apply_operator(node, widened_operator(operator) if trace.float64 else operator, operands, trace.sizes)
        except Exception as error:  # whatever a kernel raises on these inputs is an observation
            raise RunError(node, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error
    return {Value(node): widened(tensor) if trace.float64 else tensor}


@dataclass(frozen=True)
class Summary:
    """What is kept of a tensor: its shape and kind, what no layout changes, and one number that every layout changes."""

    shape: tuple[int, ...]
    kind: str
    invariant: tuple[float, ...]
    projection: float
    scale: float

    def may_be(self, other: Summary, tolerance: float) -> bool:
        """The tensors may hold the same elements in the same order."""
        if not self.same_elements(other, tolerance):
            return False
        allowed = tolerance * max(self.scale, other.scale) * math.sqrt(math.prod(self.shape) + 1.0)
        return abs(self.projection - other.projection) <= allowed

    def same_elements(self, other: Summary, tolerance: float) -> bool:
        """The tensors may hold the same elements, in whatever order."""
        if self.kind != other.kind or math.prod(self.shape) != math.prod(other.shape):
            return False
        allowed = tolerance * max(self.scale, other.scale)
        return all(abs(a - b) <= allowed for a, b in zip(self.invariant, other.invariant, strict=True))


def summary(tensor: torch.Tensor) -> Summary:
    """The summary of a tensor; of a tensor with elements that are not finite it speaks of the finite ones, and of how many there are."""
    kind = "float" if tensor.is_floating_point() else "complex" if tensor.is_complex() else "bool" if tensor.dtype == torch.bool else "int"
    wide = (torch.view_as_real(tensor).flatten() if tensor.is_complex() else tensor.detach().flatten()).double()
    if not wide.numel():
        return Summary(tuple(tensor.shape), kind, (), 0.0, 0.0)
    finite = wide.isfinite()
    lost = float((~finite).sum())
    if lost:
        wide = torch.where(finite, wide, 0.0)
    size = wide.abs()
    scale = float(wide.square().mean().sqrt()) or float(size.max())
    invariant = (float(wide.mean()), float(size.mean()), float(wide.square().mean().sqrt()), lost)
    return Summary(tuple(tensor.shape), kind, invariant, float(wide @ _direction(wide.numel())), scale)


@lru_cache(maxsize=8)
def _direction(count: int) -> torch.Tensor:
    """Numbers between −1/2 and 1/2 without a pattern that layouts share: multiples of the plastic number, modulo 1."""
    return (torch.arange(1, count + 1, dtype=torch.float64) * 0.7548776662466927) % 1.0 - 0.5


def is_source(graph: Graph, value: Value) -> bool:
    """An input, a constant or a number."""
    return isinstance(graph.operator(value.node), (Input, Constant, Scalar))


__all__ = ["RunError", "Summary", "Trace", "is_source", "run", "summary"]
