"""Graphs as canonical JSON, their tensors in a safetensors file beside it. Nothing in either file is ever run as code."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from graphs.graph import Graph, GraphError, Value
from graphs.interface import Interface, Position, interface_of
from operators.expressions import Atom, Expression, Extreme, Quotient, Symbol
from operators.opaque import Slot, Word
from operators.operator import OPERATORS, ShapeError, TensorType

FORMAT = "rewright graph"
VERSION = 1


class GraphFileError(ValueError):
    """A graph that cannot be written, or a file that is no sound graph; the message names the file and the reason."""


def save(graph: Graph, path: str | Path) -> None:
    """Write the graph to `path` (JSON) and its tensors beside it (`.safetensors`); both appear whole or not at all.

    Raises: GraphFileError when the module's outputs are of a class that has no name to find it by.
    """
    from safetensors.torch import save as encode_tensors

    path = Path(path)
    interface = interface_of(graph)
    tensors = {**interface.unused, **interface.tensors, **graph.constants}
    content = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    parameters = {name: tensor.requires_grad for name, tensor in tensors.items() if isinstance(tensor, torch.nn.Parameter)}
    try:
        text = to_json(graph, {"parameters": parameters})
        _replace(tensors_path(path), encode_tensors(content))
    except (NotImplementedError, KeyError, TypeError) as error:
        raise GraphFileError(f"{path}: the graph cannot be written: {error}") from error
    _replace(path, text.encode())


def load(path: str | Path) -> Graph:
    """The graph that `save` wrote.

    Raises: GraphFileError naming the file and what is wrong with it.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load as decode_tensors

    path = Path(path)
    try:
        record = json.loads(path.read_text())
        tensors = decode_tensors(tensors_path(path).read_bytes())
    except OSError as error:
        raise GraphFileError(f"{error.filename}: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise GraphFileError(f"{path}: no JSON: {error}") from error
    except SafetensorError as error:
        raise GraphFileError(f"{tensors_path(path)}: no safetensors file: {error}") from error
    try:
        return _Reader(record, tensors).graph()
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, ShapeError, GraphError) as error:
        raise GraphFileError(f"{path}: no sound graph: {type(error).__name__}: {error}") from error


def tensors_path(path: Path) -> Path:
    """Where the tensors of the graph in `path` lie."""
    return path.with_suffix(".safetensors")


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def to_json(graph: Graph, extra: Mapping[str, Any] | None = None) -> str:
    """The graph as JSON, without its tensors: the same bytes for the same graph, nodes numbered in topological order."""
    order = graph.topological_order()
    number = {node: position for position, node in enumerate(order)}

    def reference(value: Value | None) -> list[int] | None:
        return None if value is None else [number[value.node], value.output]

    nodes = [
        {
            "operator": type(graph.operator(node)).__name__,
            "attributes": {name: encoded(value) for name, value in graph.operator(node).attributes.items()},
            "operands": [reference(operand) for operand in graph.operands(node)],
            "types": [encoded(kind) for kind in graph.types(node)],
        }
        for node in order
    ]
    record: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "nodes": nodes,
        "inputs": [number[node] for node in graph.inputs],
        "outputs": [reference(value) for value in graph.outputs],
        **(extra or {}),
    }
    if "interface" in graph.metadata:
        record["interface"] = _encoded_interface(interface_of(graph))
    return json.dumps(record, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _encoded_interface(interface: Interface) -> dict[str, Any]:
    return {
        "argument_names": list(interface.argument_names),
        "arguments": [encoded(entry) for entry in interface.arguments],
        "argument_structure": pytree.treespec_dumps(interface.argument_structure),
        "results": [encoded(entry) for entry in interface.results],
        "result_structure": pytree.treespec_dumps(interface.result_structure),
        "state": [[position, name] for position, name in sorted(interface.state.items())],
        "tensors": sorted(interface.tensors),
        "unused": sorted(interface.unused),
        "read": sorted(interface.read),
        "updates": [[position, target] for position, target in sorted(interface.updates.items())],
        "names": {name: list(names) for name, names in sorted(interface.names.items())},
        "persistent": list(interface.persistent),
        "hints": {symbol.name: hint for symbol, hint in interface.hints.items()},
        "ranges": {symbol.name: list(bounds) for symbol, bounds in interface.ranges.items()},
        "training": interface.training,
    }


def encoded(value: Any) -> Any:
    """An attribute as JSON: tuples as lists, everything that JSON has no word for as an object of one key."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, tuple):
        return [encoded(part) for part in value]
    if isinstance(value, Expression):
        return {"size": [[coefficient, [_encoded_atom(atom) for atom in monomial]] for monomial, coefficient in _sorted_terms(value)]}
    if isinstance(value, TensorType):
        return {"type": [[encoded(dim) for dim in value.shape], value.dtype, value.weak]}
    if isinstance(value, Slot):
        return {"slot": value.position}
    if isinstance(value, Word):
        return {"word": [value.kind, value.name]}
    if isinstance(value, Position):
        return {"position": value.index}
    raise TypeError(f"an attribute of type {type(value).__name__} has no form in JSON")


def _sorted_terms(value: Expression) -> list[tuple[tuple[Atom, ...], int]]:
    return sorted(value.terms.items(), key=lambda term: (len(term[0]), tuple(atom.key for atom in term[0])))


def _encoded_atom(atom: Atom) -> Any:
    if isinstance(atom, Symbol):
        return atom.name
    if isinstance(atom, Quotient):
        return {"quotient": [encoded(atom.numerator), encoded(atom.denominator)]}
    if isinstance(atom, Extreme):
        return {"extreme": [atom.name, encoded(atom.left), encoded(atom.right)]}
    raise TypeError(f"an unknown of type {type(atom).__name__} has no form in JSON")


def decoded(value: Any) -> Any:
    """The attribute that `encoded` gave."""
    if isinstance(value, list):
        return tuple(decoded(part) for part in value)
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise ValueError(f"an attribute must have one key, got {sorted(value)}")
    ((word, content),) = value.items()
    if word not in _DECODERS:
        raise ValueError(f"unknown attribute {word}")
    return _DECODERS[word](content)


def _decoded_size(terms: Any) -> Expression:
    result: dict[tuple[Atom, ...], int] = {}
    for coefficient, atoms in terms:
        result[tuple(sorted(map(_decoded_atom, atoms), key=lambda atom: atom.key))] = int(coefficient)
    return Expression(result)


def _decoded_atom(atom: Any) -> Atom:
    if isinstance(atom, str):
        return Symbol(atom)
    if "quotient" in atom:
        top, bottom = map(decoded, atom["quotient"])
        return Quotient(Expression.of(top), Expression.of(bottom))
    name, left, right = atom["extreme"]
    return Extreme(str(name), Expression.of(decoded(left)), Expression.of(decoded(right)))


def _decoded_type(content: Any) -> TensorType:
    shape, dtype, weak = content
    return TensorType(tuple(decoded(dim) for dim in shape), str(dtype), bool(weak))


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "complex": lambda parts: complex(*parts),
    "size": _decoded_size,
    "type": _decoded_type,
    "slot": lambda position: Slot(int(position)),
    "word": lambda parts: Word(str(parts[0]), str(parts[1])),
    "position": lambda index: Position(int(index)),
}


class _Reader:
    """One parsed file on its way to a graph."""

    def __init__(self, record: Any, tensors: dict[str, torch.Tensor]) -> None:
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise ValueError(f"the format must be {FORMAT!r}")
        if record.get("version") != VERSION:
            raise ValueError(f"the version must be {VERSION}, got {record.get('version')}")
        self.record = record
        self.tensors: dict[str, torch.Tensor] = dict(tensors)
        for name, needs_gradient in record.get("parameters", {}).items():
            self.tensors[name] = torch.nn.Parameter(tensors[name], requires_grad=bool(needs_gradient))

    def graph(self) -> Graph:
        graph = Graph()
        for position, node in enumerate(self.record["nodes"]):
            operator_class = OPERATORS[node["operator"]]
            known = {field.name for field in dataclasses.fields(operator_class)}  # type: ignore[arg-type]
            attributes = {name: decoded(value) for name, value in node["attributes"].items()}
            if set(attributes) != known:
                raise ValueError(f"node {position}: {node['operator']} has attributes {sorted(known)}, got {sorted(attributes)}")
            operands = [None if operand is None else Value(*map(int, operand)) for operand in node["operands"]]
            types = [decoded(kind) for kind in node["types"]]
            graph.add(operator_class(**attributes), *operands, types=types)
            if node["operator"] == "Constant":
                name = attributes["name"]
                graph.constants[name] = self.tensors[name]
                found = TensorType(tuple(self.tensors[name].shape), str(self.tensors[name].dtype).removeprefix("torch."))
                if found != attributes["type"]:
                    raise ValueError(f"node {position}: constant {name} must be {attributes['type']}, got {found}")
        graph.inputs = [int(node) for node in self.record["inputs"]]
        graph.outputs = [Value(*map(int, value)) for value in self.record["outputs"]]
        if "interface" in self.record:
            graph.metadata["interface"] = self.interface(self.record["interface"])
        graph.validate()
        return graph

    def interface(self, record: Any) -> Interface:
        return Interface(
            tuple(map(str, record["argument_names"])),
            tuple(map(decoded, record["arguments"])),
            self.structure(record["argument_structure"]),
            tuple(map(decoded, record["results"])),
            self.structure(record["result_structure"]),
            state={int(position): str(name) for position, name in record["state"]},
            tensors={name: self.tensors[name] for name in record["tensors"]},
            updates={int(position): target if isinstance(target, int) else str(target) for position, target in record["updates"]},
            names={name: tuple(names) for name, names in record["names"].items()},
            persistent=tuple(map(str, record["persistent"])),
            hints={Symbol(name): int(hint) for name, hint in record["hints"].items()},
            ranges={Symbol(name): (low, high) for name, (low, high) in record["ranges"].items()},
            training=bool(record["training"]),
            unused={name: self.tensors[name] for name in record["unused"]},
            read=frozenset(record["read"]),
        )

    @staticmethod
    def structure(text: str) -> pytree.TreeSpec:
        try:
            return pytree.treespec_loads(text)
        except NotImplementedError as error:
            raise ValueError(f"the outputs' class is unknown; import the library that defines it first ({error})") from error


__all__ = ["GraphFileError", "decoded", "encoded", "load", "save", "to_json"]
