"""How far an optimised ONNX model is from the one that came in.

An operator that nothing here computes, a runtime's own for one, is the same node in both graphs: no rule looks into it. So where one
stands, what it gives is drawn, and what it is given is compared, as if the graph began and ended there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from costs.onnxruntime import OnnxRuntime
from graphs.evaluate import evaluate
from graphs.graph import Graph, Value
from graphs.onnx.origin import NODE_KEY
from operators.foreign import UNTYPED, Foreign, NotRunnable
from search.check import NumericCheckError, compare, draw_inputs, relative_error


def errors_between(
    original: Graph, prepared: Graph, folded: Graph, unfolded: Graph, inputs: Sequence[torch.Tensor], seed: int, sizes: Mapping[str, int]
) -> dict[str, float]:
    """The largest differences of graphs, see docs/json.md; `prepared` is the original in the rules' form.

    Raises: NumericCheckError when they are not those of rounding, or cannot be had.
    """
    try:
        wanted = evaluate(original, inputs)
    except NotRunnable:
        before, after, real = _between_foreign(prepared, folded, unfolded)
        drawn = draw_inputs(before, seed, sizes)
        return compare(before, after, real, [*inputs, *drawn[len(inputs) :]], seed, sizes)
    except (RuntimeError, ValueError) as error:  # a kernel of torch's that takes less than ONNX's operator does
        raise NumericCheckError(f"at these sizes the model cannot be run here, and so not checked: {error}") from error
    pairs = zip(wanted, evaluate(prepared, inputs), strict=True)
    if any(not torch.equal(a, b) and relative_error(a, b) > 0 for a, b in pairs):
        raise NumericCheckError("the graph in the rules' form must compute the same bits as the model, and does not")
    return compare(prepared, folded, unfolded, inputs, seed, sizes)


def errors_in_runtime(original: Graph, before: Any, after: Any, runtime: OnnxRuntime, inputs: Sequence[torch.Tensor]) -> dict[str, float]:
    """The largest differences of two models in ONNX Runtime, from each other and, where it can be had, from the original in float64.

    Raises: NumericCheckError when they are none of rounding: other shapes, dtypes or whole numbers, NaN or infinities elsewhere.
    """
    old, new = runtime.outputs(before, inputs), runtime.outputs(after, inputs)
    rounds = any("float" in kind.dtype for node in original for kind in original.types(node))
    for position, (one, other) in enumerate(zip(old, new, strict=True)):
        difference = _no_rounding(one, other, rounds)
        if difference:
            raise NumericCheckError(f"output {position} of the model in ONNX Runtime {difference}")
    errors = {"onnxruntime": max(map(relative_error, old, new), default=0.0)}
    try:
        exact = evaluate(original, inputs, float64=True)
    except NotRunnable:
        return errors
    errors["onnxruntime against float64"] = max(map(relative_error, exact, new), default=0.0)
    errors["original against float64"] = max(map(relative_error, exact, old), default=0.0)
    return errors


MOST_MOVED = 1e-3
"""The part of an output's whole numbers that rounding may move, as where the largest of two nearly equal scores is asked for."""


def _no_rounding(before: torch.Tensor, after: torch.Tensor, rounds: bool) -> str:
    """How two outputs differ by more than rounding; nothing where they do not. A model of whole numbers alone rounds nothing."""
    if before.shape != after.shape or before.dtype != after.dtype:
        return f"is {before.dtype}{list(before.shape)} before and {after.dtype}{list(after.shape)} after"
    if not before.is_floating_point():
        moved = int((before != after).sum())
        return f"has other whole numbers, {moved} of {before.numel()}" if moved > MOST_MOVED * before.numel() * rounds else ""
    return "has NaN or infinities elsewhere" if relative_error(before, after) == float("inf") else ""


def _between_foreign(*graphs: Graph) -> list[Graph]:
    """The graphs without the foreign nodes that all of them have."""
    common = set.intersection(*({graph.network.nodes[node].get(NODE_KEY) for node in _foreign(graph)} for graph in graphs))
    return [_cut(graph, common) for graph in graphs]


def _foreign(graph: Graph) -> list[int]:
    return [node for node in graph.topological_order() if isinstance(graph.operator(node), Foreign)]


def _cut(graph: Graph, places: Collection[Any]) -> Graph:
    """The graph with what the foreign nodes of these places give as further inputs, and what they are given as further outputs.

    What is no tensor of a known rank goes from foreign nodes to foreign nodes only, and is left out.
    """
    result = graph.copy()
    at = {result.network.nodes[node].get(NODE_KEY): node for node in _foreign(result)}
    chosen = [at[place] for place in sorted(places)]
    for node in chosen:
        for position, kind in enumerate(result.types(node)):
            if kind.dtype != UNTYPED:
                result.replace_uses(Value(node, position), result.input(f"foreign {node} {position}", kind))
    given = [operand for node in chosen for operand in result.operands(node) if operand is not None]
    result.outputs = [value for value in (*result.outputs, *given) if result.type(value).dtype != UNTYPED]
    result.remove_dead()
    return result


__all__ = ["errors_between", "errors_in_runtime"]
