"""Names of a model's values, and inputs to try it on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from graphs.graph import Graph, Value
from graphs.interface import interface_of
from graphs.onnx.origin import NODE_KEY, origin_of
from graphs.sizes import number
from operators.expressions import Symbol


def named_values(graph: Graph) -> dict[str, Value]:
    """The values of a graph that stand for names of the ONNX model it was read from, as far as they are still there."""
    result = {str(graph.operator(node).attributes["name"]): Value(node) for node in graph.inputs}
    origin = origin_of(graph)
    if origin is None:
        return result
    for node, data in graph.network.nodes(data=True):
        if NODE_KEY in data:
            group, slot = data[NODE_KEY]
            for name, inside in origin.groups[group].outputs:
                if inside.slot == slot:
                    result[name] = Value(node, inside.output)
    return result


def example_inputs(graph: Graph, sizes: Mapping[str, int] | None = None, seed: int = 0) -> list[Any]:
    """Drawn tensors for the graph's inputs, symbolic sizes at `sizes` or else at the usual ones: floats from a normal
    distribution, integers from 0 to 9, truth values evenly."""
    generator = torch.Generator().manual_seed(seed)
    hints = interface_of(graph).hints
    known: dict[Symbol, int] = {symbol: (sizes or {}).get(symbol.name, size) for symbol, size in hints.items()}
    result = []
    for node in graph.inputs:
        kind = graph.types(node)[0]
        shape = [dim if isinstance(dim, int) else number(dim, known) for dim in kind.shape]
        dtype = getattr(torch, kind.dtype)
        if dtype.is_floating_point or dtype.is_complex:
            result.append(torch.randn(shape, generator=generator).to(dtype))
        else:
            result.append(torch.randint(0, 2 if dtype == torch.bool else 10, shape, generator=generator).to(dtype))
    return result
