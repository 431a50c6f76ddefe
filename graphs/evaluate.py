"""Running a graph on tensors, node by node, each operator by torch's own kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from graphs.graph import Graph, Value
from graphs.interface import bind_sizes, interface_of, linear_in
from graphs.sizes import number
from operators.expressions import Expression, Symbol, plain
from operators.foreign import Foreign
from operators.opaque import Word
from operators.operator import Operator
from operators.sources import Constant, Input


def evaluate(
    graph: Graph, inputs: Sequence[torch.Tensor], float64: bool = False, reading: Callable[[Any], Any] = lambda value: value
) -> list[Any]:
    """The values of the graph's outputs for these inputs (buffers that the module updates may be left out).

    With `float64`, every floating tensor, weights included, and every cast to a floating dtype is in float64.
    reading: what an operator gets of each operand that it reads (its value disturbed, for one)
    Raises: ValueError when an input has not the shape the graph was captured for.
    """
    known: dict[Value, Any] = {}
    given = _with_state(graph, inputs)
    sizes = bind_sizes(graph, [tuple(getattr(tensor, "shape", ())) for tensor in given])
    for node, tensor in zip(graph.inputs, given, strict=True):
        known[Value(node)] = widened(tensor) if float64 else tensor
    with default_dtype(torch.float64 if float64 else None):
        for node, last in _with_last_uses(graph):
            operator = graph.operator(node)
            if isinstance(operator, Constant):
                tensor = graph.constants[operator.name]
                known[Value(node)] = widened(tensor) if float64 else tensor
            elif not isinstance(operator, Input):
                operands = [None if operand is None else reading(known[operand]) for operand in graph.operands(node)]
                found = apply_operator(node, widened_operator(operator) if float64 else operator, operands, sizes)
                if isinstance(operator, Foreign):
                    bind_data_sizes(graph, found, sizes)
                known.update(found)
            for value in last:
                known.pop(value, None)
    return [known[value] for value in graph.outputs]


def bind_data_sizes(graph: Graph, found: Mapping[Value, Any], sizes: dict[Symbol, int]) -> None:
    """Enter the sizes that depend on data, as soon as a tensor has them."""
    for value, result in found.items():
        for dim, size in zip(graph.type(value).shape, getattr(result, "shape", ()), strict=False):
            solved = linear_in(dim)
            if solved is not None and solved[0] not in sizes:
                symbol, factor, offset = solved
                sizes[symbol] = (int(size) - offset) // factor


def apply_operator(node: int, operator: Operator, operands: Sequence[Any], sizes: Mapping[Symbol, int]) -> dict[Value, Any]:
    """The outputs of one node."""
    result = concrete(operator, sizes).run(*operands)
    if isinstance(operator, Foreign) and not operator.multiple:  # what it gives may be a sequence
        return {Value(node): result}
    if isinstance(result, (tuple, list)):
        return {Value(node, k): part for k, part in enumerate(result)}
    return {Value(node): result}


def run_module(graph: Graph, *arguments: Any, **named: Any) -> Any:
    """Call the graph as the captured module is called; what the module returns. Buffers are not written back."""
    interface = interface_of(graph)
    inputs = interface.leaves(arguments, named)
    sizes = bind_sizes(graph, [tuple(tensor.shape) for tensor in inputs])
    return interface.result(evaluate(graph, inputs), sizes)


def _with_state(graph: Graph, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    interface = interface_of(graph)
    if len(inputs) == len(graph.inputs):
        return list(inputs)
    if len(inputs) + len(interface.state) != len(graph.inputs):
        raise ValueError(f"evaluate: the graph takes {len(graph.inputs)} inputs, got {len(inputs)}")
    return [*inputs, *(interface.tensors[interface.state[position]] for position in range(len(inputs), len(graph.inputs)))]


def _with_last_uses(graph: Graph) -> Iterator[tuple[int, list[Value]]]:
    """Every node in order, with the values that nothing reads after it."""
    order = graph.topological_order()
    last: dict[Value, int] = {}
    for node in order:
        for operand in graph.operands(node):
            if operand is not None:
                last[operand] = node
    kept = set(graph.outputs)
    done: dict[int, list[Value]] = {}
    for value, node in last.items():
        if value not in kept:
            done.setdefault(node, []).append(value)
    for node in order:
        yield node, done.get(node, [])


@contextmanager
def default_dtype(dtype: torch.dtype | None) -> Iterator[None]:
    """Inside the block, torch's default floating dtype is this one."""
    before = torch.get_default_dtype()
    if dtype is not None:
        torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """A floating tensor in float64; others, and what is no tensor, as they are."""
    return tensor.double() if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() else tensor


_NARROW = frozenset({"float32", "bfloat16", "float16"})


def widened_operator(operator: Operator) -> Operator:
    """The operator with every floating dtype among its attributes made float64."""
    return map_attributes(operator, _widen)


def _widen(value: Any) -> Any:
    if isinstance(value, str) and value in _NARROW:
        return "float64"
    if isinstance(value, Word) and value.kind == "dtype" and value.name in _NARROW:
        return Word("dtype", "float64")
    return value


def concrete(operator: Operator, sizes: Mapping[Symbol, int]) -> Operator:
    """The operator with symbolic sizes among its attributes replaced by numbers."""
    if not sizes:
        return operator
    return map_attributes(operator, lambda value: number(plain(value), sizes) if isinstance(value, Expression) else value)


def map_attributes(operator: Operator, change: Any) -> Operator:
    """The operator with `change` applied to each attribute, inside tuples as well; the same object when nothing changes."""

    def mapped(value: Any) -> Any:
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            parts = tuple(mapped(part) for part in value)
            return value if all(new is old for new, old in zip(parts, value, strict=True)) else parts
        return change(value)

    fields = operator.attributes
    changed = {name: new for name, value in fields.items() if (new := mapped(value)) is not value}
    return dataclasses.replace(operator, **changed) if changed else operator  # type: ignore[type-var]
