"""Symbolic sizes as nodes that compute them from the shapes of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy
from onnx import helper, numpy_helper

from graphs.graph import Graph, Value
from graphs.interface import linear_in
from graphs.onnx.errors import OnnxError
from operators.expressions import Atom, Dim, Expression, Extreme, Quotient, Symbol, plain
from operators.foreign import Foreign

if TYPE_CHECKING:
    from graphs.onnx.writer import Writer


def write_size(writer: Writer, dim: Dim) -> str:
    """The name of a tensor [1] of int64 that holds a size."""
    if isinstance(dim, int):
        return integers(writer, (dim,))
    expression = plain(dim)
    assert isinstance(expression, Expression)
    return _expression(writer, expression)


def _expression(writer: Writer, dim: Expression) -> str:
    if dim in writer.sizes_known:
        return writer.sizes_known[dim]
    place = _place_of(writer, dim) if _is_long(dim) else None
    if place is not None:
        shape = _node(writer, "Shape", [writer.names[place[0]]])
        writer.sizes_known[dim] = _node(writer, "Gather", [shape, integers(writer, (place[1],))], axis=0)
        return writer.sizes_known[dim]
    total = ""
    for monomial, coefficient in dim.terms.items():
        parts = [write_size(writer, coefficient)] if coefficient != 1 or not monomial else []
        parts += [_atom(writer, atom) for atom in monomial]
        term = parts[0]
        for part in parts[1:]:
            term = _node(writer, "Mul", [term, part])
        total = _node(writer, "Add", [total, term]) if total else term
    writer.sizes_known[dim] = total
    return total


def integers(writer: Writer, values: tuple[int, ...]) -> str:
    """The name of a constant tensor of int64 with one axis."""
    array = numpy.array(values, dtype=numpy.int64).reshape(len(values))
    return writer.initialiser("sizes_" + "_".join(map(str, values)), numpy_helper.from_array(array))


def _node(writer: Writer, name: str, inputs: list[str], **attributes: Any) -> str:
    result = writer.fresh("size")
    writer.nodes.append(helper.make_node(name, inputs, [result], **attributes))
    return result


def _atom(writer: Writer, atom: Atom) -> str:
    if isinstance(atom, Symbol):
        return _symbol(writer, atom)
    if isinstance(atom, Quotient):
        # Sizes are not negative, where ONNX's division towards zero is the floor; a numerator that may be is shifted by whole divisors.
        top, bottom = write_size(writer, atom.numerator.collapse()), write_size(writer, atom.denominator.collapse())
        remainder = _node(writer, "Mod", [top, bottom])
        return _node(writer, "Div", [_node(writer, "Sub", [top, remainder]), bottom])
    assert isinstance(atom, Extreme)
    left, right = write_size(writer, atom.left.collapse()), write_size(writer, atom.right.collapse())
    if writer.opset >= 12:
        return _node(writer, "Max" if atom.name == "max" else "Min", [left, right])
    smaller = _node(writer, "Less", [left, right])
    return _node(writer, "Where", [smaller, *((right, left) if atom.name == "max" else (left, right))])


def _symbol(writer: Writer, atom: Symbol) -> str:
    key = Expression.of(atom)
    if key in writer.sizes_known:
        return writer.sizes_known[key]
    for value, axis, factor, offset in _places(writer, atom):
        shape = _node(writer, "Shape", [writer.names[value]])
        size = _node(writer, "Gather", [shape, integers(writer, (axis,))], axis=0)
        if offset:
            size = _node(writer, "Sub", [size, integers(writer, (offset,))])
        if factor != 1:
            size = _node(writer, "Div", [size, integers(writer, (factor,))])
        writer.sizes_known[key] = size
        return size
    raise OnnxError(f"the size {atom} is not the size of any tensor that is computed")


def _is_long(dim: Expression) -> bool:
    """It takes more nodes to compute the size than to read it off a tensor."""
    return len(dim.terms) > 1 or any(len(monomial) != 1 or not isinstance(monomial[0], Symbol) for monomial in dim.terms)


def _place_of(writer: Writer, dim: Expression) -> tuple[Value, int] | None:
    """A tensor that is written already and an axis of this size."""
    for node in sorted(writer.written & set(writer.graph.network)):
        for output, kind in enumerate(writer.graph.types(node)):
            for axis, size in enumerate(kind.shape):
                if isinstance(size, Expression) and size.terms == dim.terms and Value(node, output) in writer.names:
                    return Value(node, output), axis
    return None


def _places(writer: Writer, atom: Symbol) -> Iterator[tuple[Value, int, int, int]]:
    """Tensors whose sizes decide the symbol: inputs first, then what is written already, then the foreign node that gives it its size."""
    graph = writer.graph
    for node in [*graph.inputs, *sorted(writer.written)]:
        if node in graph.network:
            yield from (place for place in _decided_by(graph, node, atom) if place[0] in writer.names)
    for node in graph.topological_order():
        if isinstance(graph.operator(node), Foreign) and node not in writer.written:
            for place in _decided_by(graph, node, atom):
                writer.name(place[0])
                yield place


def _decided_by(graph: Graph, node: int, atom: Symbol) -> Iterator[tuple[Value, int, int, int]]:
    """Outputs of the node of which a size is factor · symbol + offset, with the axis, the factor and the offset."""
    for output, kind in enumerate(graph.types(node)):
        for axis, dim in enumerate(kind.shape):
            solved = linear_in(dim)
            if solved is not None and solved[0] == atom:
                yield Value(node, output), axis, solved[1], solved[2]
