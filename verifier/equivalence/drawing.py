"""Inputs to run both sides on: numbers for the symbolic sizes, and tensors of several kinds from a seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from graphs.graph import Graph
from operators.expressions import Expression, Symbol, substitute
from operators.foreign import Foreign, node_of
from operators.formulas import Truth
from operators.operator import TensorType, kind_of, torch_dtype
from operators.predicates import substitute_formula
from operators.sources import Constant, Scalar
from verifier.equivalence.joining import Joined

KINDS = ("normal", "small integers", "uniform", "zeros", "large")
SPECIAL = {"NaN": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
"""Kinds in which one element of each floating input is no finite number."""

_SIZES = ((2, 64, 96), (1, 32, 64), (3, 48, 32), (2, 5, 7), (1, 8, 16), (4, 3, 2), (2, 224, 224), (1, 1, 1), (2, 16, 16), (1, 320, 320))
"""Numbers for symbolic sizes: one for the first axis, two that the others take in turn."""


_USUAL = 5
"""Whole numbers below this are drawn anyway."""
_LARGEST = 2**31
"""Numbers from here on stand for infinity, or for the end of an axis."""
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


def written_numbers(graph: Graph) -> list[int | float]:
    """The numbers in the graph that its inputs could be compared with, and that other draws do not reach: the 16000 of `rate == 16000`.

    Whole numbers are for inputs of whole numbers, floats for others; the two kinds in turn.
    """
    found: dict[str, dict[int | float, None]] = {"int": {}, "float": {}}
    for node in graph:
        operator = graph.operator(node)
        numbers: Iterable[Any] = ()
        if isinstance(operator, Scalar):
            numbers = (operator.value,)
        elif isinstance(operator, Constant) and graph.constants[operator.name].numel() == 1:
            numbers = (graph.constants[operator.name].item(),)
        elif isinstance(operator, Foreign):
            numbers = _held_numbers(node_of(operator.node))
        for number in numbers:
            if isinstance(number, int) and not isinstance(number, bool) and not 0 <= number < _USUAL and abs(number) < _LARGEST:
                found["int"][number] = None
            if isinstance(number, (int, float)) and _USUAL < abs(number) < _LARGEST:
                found["float"][float(number)] = None
    wanted = {kind_of(graph.types(node)[0].dtype) for node in graph.inputs}
    lists = [list(numbers) for kind, numbers in found.items() if kind in wanted]
    return [number for pair in itertools.zip_longest(*lists) for number in pair if number is not None]


def _held_numbers(node: Any) -> Iterator[int | float]:
    """The single numbers in the constants of an ONNX node and of the graphs inside it."""
    from onnx.helper import get_attribute_value
    from onnx.numpy_helper import to_array

    from graphs.onnx.subgraphs import all_nodes, subgraphs

    for inner in all_nodes(node):
        constants = inner.attribute if inner.op_type == "Constant" else ()
        yield from (get_attribute_value(attribute) for attribute in constants if attribute.name in ("value_int", "value_float"))
        held = [attribute.t for attribute in constants if attribute.name == "value"]
        for tensor in [*held, *(tensor for graph in subgraphs(inner) for tensor in graph.initializer)]:
            if math.prod(tensor.dims) == 1:
                yield to_array(tensor).item()


def draw(graph: Graph, kind: str, sizes: Mapping[Symbol, int], seed: int, number: int | float | None = None) -> list[torch.Tensor] | None:
    """One tensor per input; None where a size is negative or not known from the symbols, or an input is no tensor of numbers.

    number: one that the inputs of its kind, whole numbers or floats, take here and there
    """
    if undrawable(graph):
        return None
    generator = torch.Generator().manual_seed(seed)
    tensors = []
    for position, node in enumerate(graph.inputs):
        type = graph.types(node)[0]
        shape = [substitute(dim, dict(sizes.items())) for dim in type.shape]
        if not all(isinstance(size, int) and size >= 0 for size in shape):
            return None
        drawn = _tensor(type, [int(str(size)) for size in shape], kind, generator, seed + position)
        takes = number is not None and kind_of(type.dtype) == ("int" if isinstance(number, int) else "float")
        tensors.append(_with_number(drawn, number, generator) if takes else drawn)
    return tensors


def _with_number(drawn: torch.Tensor, number: Any, generator: torch.Generator) -> torch.Tensor:
    """The first element is the number, as far as the dtype has it; half of the others are, or stand just beside it."""
    limits = torch.finfo(drawn.dtype) if drawn.is_floating_point() else torch.iinfo(drawn.dtype)
    if not drawn.numel() or not limits.min < number < limits.max:
        return drawn
    whole = torch.full(drawn.shape, number, dtype=drawn.dtype)
    aside = torch.randint(-1, 2, drawn.shape, generator=generator).to(drawn.dtype)
    beside = torch.nextafter(whole, whole + aside) if drawn.is_floating_point() else whole + aside
    mixed = torch.where(torch.rand(drawn.shape, generator=generator) < 0.5, beside, drawn)
    mixed.view(-1)[0] = number
    return mixed


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


__all__ = ["KINDS", "SPECIAL", "draw", "size_choices", "undrawable", "written_numbers"]
