"""Inputs to run both sides on: numbers for the symbolic sizes, and tensors of several kinds from a seed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import torch

from graphs.graph import Graph
from operators.expressions import Expression, Symbol, substitute
from operators.formulas import Truth
from operators.operator import TensorType, kind_of, torch_dtype
from operators.predicates import substitute_formula
from verifier.equivalence.joining import Joined

KINDS = ("normal", "small integers", "uniform", "zeros", "large")
SPECIAL = {"NaN": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
"""Kinds in which one element of each floating input is no finite number."""

_SIZES = ((2, 64, 96), (1, 32, 64), (3, 48, 32), (2, 5, 7), (1, 8, 16), (4, 3, 2), (2, 224, 224), (1, 1, 1), (2, 16, 16), (1, 320, 320))
"""Numbers for symbolic sizes: one for the first axis, two that the others take in turn."""


_MOST_ELEMENTS = 1_000_000
"""Choices that make the inputs larger than this come last."""


def size_choices(joined: Joined) -> Iterator[dict[Symbol, int]]:
    """Numbers for the symbolic sizes that BEFORE's conditions allow: those the model was captured with, then others."""
    symbols = joined.symbols
    if not symbols:
        yield {}
        return
    leading = {s for node in joined.graph.inputs for s in _symbols(joined.graph.types(node)[0].shape[:1])}
    seen: list[dict[Symbol, int]] = []
    hints = [{s: joined.hints[s] for s in symbols}] if all(s in joined.hints for s in symbols) else []
    drawn = []
    for first, *rest in _SIZES:
        others = itertools.cycle(rest)
        drawn.append({s: first if s in leading else next(others) for s in symbols})
    large: list[dict[Symbol, int]] = []
    for sizes in [*hints, *drawn]:
        if sizes not in seen and all(_holds(fact, sizes) for fact in joined.facts):
            seen.append(sizes)
            if _elements(joined.graph, sizes) > _MOST_ELEMENTS:
                large.append(sizes)
            else:
                yield sizes
    yield from large


def _elements(graph: Graph, sizes: Mapping[Symbol, int]) -> int:
    """How many elements the inputs have."""
    total = 0
    for node in graph.inputs:
        count = 1
        for dim in graph.types(node)[0].shape:
            size = substitute(dim, dict(sizes.items()))
            count *= size if isinstance(size, int) else 1
        total += count
    return total


def _symbols(shape: Sequence[object]) -> set[Symbol]:
    return {s for dim in shape if isinstance(dim, Expression) for s in dim.symbols}


def _holds(fact: Truth, sizes: Mapping[Symbol, int]) -> bool:
    try:
        return substitute_formula(fact, dict(sizes.items())) is not False
    except ZeroDivisionError:
        return False


def draw(graph: Graph, kind: str, sizes: Mapping[Symbol, int], seed: int) -> list[torch.Tensor] | None:
    """One tensor per input; None where a size is negative or not known from the symbols, or an input is no tensor of numbers."""
    if undrawable(graph):
        return None
    generator = torch.Generator().manual_seed(seed)
    tensors = []
    for position, node in enumerate(graph.inputs):
        type = graph.types(node)[0]
        shape = [substitute(dim, dict(sizes.items())) for dim in type.shape]
        if not all(isinstance(size, int) and size >= 0 for size in shape):
            return None
        tensors.append(_tensor(type, [int(str(size)) for size in shape], kind, generator, seed + position))
    return tensors


def undrawable(graph: Graph) -> list[str]:
    """The inputs that are no tensors of numbers of a known rank, in words."""
    kinds = {str(graph.operator(node).attributes["name"]): graph.types(node)[0].dtype for node in graph.inputs}
    return [f"input {name} is {dtype}, which is not drawn" for name, dtype in kinds.items() if not hasattr(torch, dtype)]


def _tensor(type: TensorType, shape: list[int], kind: str, generator: torch.Generator, seed: int) -> torch.Tensor:
    dtype = torch_dtype(type.dtype)
    if kind_of(type.dtype) in ("bool", "int"):
        # Whole numbers may be positions or tokens: small ones are in range where any are.
        largest = 2 if kind_of(type.dtype) == "bool" or kind in ("normal", "zeros") else 5
        return torch.randint(0, largest, shape, generator=generator).to(dtype)
    if kind_of(type.dtype) == "complex":
        return torch.randn(shape, generator=generator, dtype=torch.complex64).to(dtype)
    if kind == "small integers":
        return torch.randint(-4, 5, shape, generator=generator).to(dtype)
    if kind == "uniform":
        return torch.rand(shape, generator=generator).to(dtype)
    if kind == "zeros":
        return torch.zeros(shape, dtype=dtype)
    drawn = torch.randn(shape, generator=generator)
    if kind == "large":
        return (drawn * 32).to(dtype)
    if kind in SPECIAL and drawn.numel():
        drawn.view(-1)[seed % drawn.numel()] = SPECIAL[kind]
    return drawn.to(dtype)


__all__ = ["KINDS", "SPECIAL", "draw", "size_choices", "undrawable"]
