"""The table from ONNX operators to the functions that read them, and what such a function is given."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy
import onnx
from onnx import helper

from graphs.onnx.types import ELEMENT_TYPES
from graphs.trace import Proxy, add_application, as_value
from operators.expressions import Expression, plain
from operators.foreign import UNTYPED
from operators.operator import Operator, TensorType, Unsupported

if TYPE_CHECKING:
    from graphs.onnx.reader import Reader

Read = Callable[["Node"], Any]

_READERS: dict[str, Read] = {}

FAMILIES = (
    "pointwise",
    "logic",
    "unsigned",
    "activations",
    "linear",
    "convolution",
    "pooling",
    "normalisation",
    "reductions",
    "layout",
    "indexing",
    "scattering",
    "images",
    "quantisation",
    "signals",
    "control",
)


def reads(*names: str) -> Callable[[Read], Read]:
    """Enter a function that reads ONNX's operators of these names: from a `Node` to traced tensors, one per output.

    It raises Unsupported for a form that our operators do not cover; the node is then read through the operator's own definition as
    a function, or kept as a foreign one.
    """

    def enter(function: Read) -> Read:
        for name in names:
            if name in _READERS:
                raise ValueError(f"reads: {name} is read twice")
            _READERS[name] = function
        return function

    return enter


@cache
def _load() -> dict[str, Read]:
    for family in FAMILIES:
        importlib.import_module(f"graphs.onnx.reading.{family}")
    return _READERS


def reader_of(proto: onnx.NodeProto) -> Read | None:
    """The function that reads nodes of this operator, if there is one."""
    return _load().get(proto.op_type) if proto.domain in ("", "ai.onnx") else None


def read_names() -> frozenset[str]:
    """The ONNX operators that are read by functions of ours."""
    return frozenset(_load())


class Node:
    """One ONNX node as a reading function sees it."""

    def __init__(self, reader: Reader, proto: onnx.NodeProto) -> None:
        self.reader = reader
        self.proto = proto
        self.opset = reader.opsets.get("", 1)
        self.attributes = {attribute.name: attribute for attribute in proto.attribute}

    @property
    def name(self) -> str:
        """The operator's name."""
        return str(self.proto.op_type)

    @property
    def count(self) -> int:
        """The number of inputs, absent ones in between included."""
        return len(self.proto.input)

    @property
    def results(self) -> int:
        """The number of outputs that have names, up to the last of them."""
        return max((position + 1 for position, name in enumerate(self.proto.output) if name), default=0)

    def wants(self, position: int) -> bool:
        """Somebody may read this output."""
        return len(self.proto.output) > position and bool(self.proto.output[position])

    def has(self, position: int) -> bool:
        """The input is there."""
        return position < self.count and bool(self.proto.input[position])

    def attribute(self, name: str, otherwise: Any = None) -> Any:
        """The value of an attribute; texts as strings, lists as lists."""
        if name not in self.attributes:
            return otherwise
        value = helper.get_attribute_value(self.attributes[name])
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value

    def graph(self, name: str) -> onnx.GraphProto:
        """A graph among the attributes."""
        if name not in self.attributes:
            raise Unsupported(f"{self.name}: has no {name}")
        graph: onnx.GraphProto = self.attributes[name].g
        return graph

    def type(self, position: int) -> TensorType:
        """The type of an input."""
        return self.reader.entries[self.proto.input[position]].type

    def __getitem__(self, position: int) -> Any:
        """An input as a traced tensor."""
        if not self.has(position):
            raise Unsupported(f"{self.name}: input {position} is absent")
        if self.type(position).dtype == UNTYPED:
            raise Unsupported(f"{self.name}: input {position} has no known rank")
        if self.type(position).dtype not in ELEMENT_TYPES:
            raise Unsupported(f"{self.name}: torch has no tensors of {self.type(position).dtype}")
        return Proxy(self.reader.graph, self.reader.value(self.proto.input[position]))

    def optional(self, position: int) -> Any:
        """An input as a traced tensor, None where it is absent."""
        return self[position] if self.has(position) else None

    def inputs(self) -> list[Any]:
        """Every input as a traced tensor."""
        return [self[position] for position in range(self.count)]

    def tensor(self, position: int) -> Any:
        """The tensor of an input that the file holds, else None."""
        if not self.has(position):
            return None
        tensor = self.reader.entries[self.proto.input[position]].tensor
        return None if isinstance(tensor, numpy.ndarray) else tensor

    def array(self, position: int) -> Any:
        """The elements of an input that is a function of sizes alone, as a numpy array.

        Raises: Unsupported when it depends on data.
        """
        entry = self.reader.entries[self.proto.input[position]]
        if entry.sizes is None:
            raise Unsupported(f"{self.name}: input {position} depends on data")
        return numpy.asarray(entry.sizes)

    def sizes(self, position: int) -> tuple[Any, ...]:
        """The elements of an input that is a function of sizes alone, in a row.

        Raises: Unsupported when it depends on data.
        """
        elements = self.array(position).reshape(-1).tolist()
        return tuple(plain(element) if isinstance(element, Expression) else int(element) for element in elements)

    def integers(self, position: int) -> tuple[int, ...]:
        """As `sizes`, and every one a number."""
        found = self.sizes(position)
        if not all(isinstance(element, int) for element in found):
            raise Unsupported(f"{self.name}: input {position} depends on sizes")
        return found

    def number(self, position: int) -> Any:
        """The only element of an input that the file holds.

        Raises: Unsupported when it is computed, or has several.
        """
        tensor = self.tensor(position)
        if tensor is None or tensor.numel() != 1:
            raise Unsupported(f"{self.name}: input {position} must be one number that the file holds")
        return tensor.reshape(()).item()

    def operand(self, position: int, rank: int | None = None) -> Any:
        """An input as a Python number where the file holds it, one element that changes no shape beside `rank` axes; else traced.

        Rules write numbers as numbers: x · 0.5, not x · [0.5].
        """
        tensor = self.tensor(position)
        if tensor is not None and tensor.numel() == 1 and (rank is None or tensor.ndim <= rank) and str(tensor.dtype)[6:] in _NUMBERS:
            return tensor.reshape(()).item()
        return self[position]

    def held(self, tensor: Any) -> Any:
        """A tensor made from attributes as a traced constant."""
        value = as_value(self.reader.graph, tensor)
        assert value is not None
        return Proxy(self.reader.graph, value)

    def apply(self, operator: Operator, *operands: Any) -> Any:
        """One of our operators on traced tensors and numbers."""
        return add_application(self.reader.graph, operator, operands)

    def expanded(self) -> Any:
        """The outputs by ONNX's own definition of the operator as a function of simpler ones."""
        from graphs.onnx.reading.expansion import expand

        return expand(self)


_NUMBERS = frozenset(["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"])

__all__ = ["FAMILIES", "Node", "as_value", "read_names", "reader_of", "reads"]
