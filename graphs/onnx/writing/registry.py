"""The table from operators to the functions that spell them in ONNX, and what such a function is given."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import onnx
from onnx import helper

from graphs.graph import Value
from graphs.onnx.errors import OnnxError
from graphs.onnx.types import ELEMENT_TYPES, proto_of
from operators.expressions import Dim, Expression
from operators.operator import Operator, TensorType
from operators.sources import Constant, Scalar

if TYPE_CHECKING:
    from graphs.onnx.writer import Writer

Spell = Callable[["Spelling"], Any]

_SPELLINGS: dict[str, Spell] = {}

FAMILIES = ("pointwise", "activations", "linear", "windows", "normalisation", "reductions", "layout", "indexing")


def spells(*names: str) -> Callable[[Spell], Spell]:
    """Enter a function that writes our operators of these names: from a `Spelling` to the name of each output.

    It raises OnnxError for a form that ONNX has no words for.
    """

    def enter(function: Spell) -> Spell:
        for name in names:
            if name in _SPELLINGS:
                raise ValueError(f"spells: {name} is spelled twice")
            _SPELLINGS[name] = function
        return function

    return enter


@cache
def _load() -> dict[str, Spell]:
    for family in FAMILIES:
        importlib.import_module(f"graphs.onnx.writing.{family}")
    return _SPELLINGS


def spelled(operator: Operator) -> Spell:
    """The function that spells an operator.

    Raises: OnnxError when there is none.
    """
    found = _load().get(type(operator).__name__)
    if found is None:
        raise OnnxError(f"{operator}: ONNX has no word for this operator")
    return found


def spelled_names() -> frozenset[str]:
    """The operators that have a spelling."""
    return frozenset(_load())


class Spelling:
    """One node of ours as a spelling function sees it, and the ONNX nodes it is written as."""

    def __init__(self, writer: Writer, node: int) -> None:
        self.writer = writer
        self.node = node
        self.operator: Any = writer.graph.operator(node)
        self.operands = writer.graph.operands(node)
        self.types = writer.graph.types(node)
        self.nodes: list[onnx.NodeProto] = []

    @property
    def opset(self) -> int:
        """The operator set of the model."""
        return int(self.writer.opset)

    @property
    def out(self) -> TensorType:
        """The type of the first output."""
        return self.types[0]

    def need(self, opset: int, what: str) -> None:
        """Raise OnnxError when the model's operator set is older."""
        if self.opset < opset:
            raise OnnxError(f"{what}: needs opset {opset}, the model has {self.opset}")

    def type(self, position: int) -> TensorType:
        """The type of an operand."""
        operand = self.operands[position]
        assert operand is not None
        return self.writer.graph.type(operand)

    def has(self, position: int) -> bool:
        """The operand is there."""
        return position < len(self.operands) and self.operands[position] is not None

    def number(self, position: int) -> Any:
        """The Python number that an operand is, else None."""
        operand = self.operands[position]
        operator = None if operand is None else self.writer.graph.operator(operand.node)
        return operator.value if isinstance(operator, Scalar) and not isinstance(operator.value, Expression) else None

    def tensor(self, position: int) -> Any:
        """The tensor of an operand that the graph holds, else None."""
        operand = self.operands[position]
        operator = None if operand is None else self.writer.graph.operator(operand.node)
        return self.writer.graph.constants.get(operator.name) if isinstance(operator, Constant) else None

    def __getitem__(self, position: int) -> str:
        """The name of an operand in its own dtype."""
        return self.at(position, None)

    def at(self, position: int, dtype: str | None) -> str:
        """The name of an operand, cast to a dtype; a number is a constant of it. Empty for an absent one."""
        if not self.has(position):
            return ""
        operand = self.operands[position]
        assert operand is not None
        operator = self.writer.graph.operator(operand.node)
        kind = self.writer.graph.type(operand)
        wanted = kind.dtype if dtype is None else dtype
        if isinstance(operator, Scalar):
            if isinstance(operator.value, Expression):
                scalar = self.emit("Squeeze", self.size(operator.value), *self.axes([0]), **self.axes_attribute([0]))
                return scalar if wanted == "int64" else self.cast(scalar, wanted)
            return self.writer.number(operator.value, wanted)
        name = self.writer.names[operand]
        return name if kind.dtype == wanted else self.cast(name, wanted)

    def axes(self, axes: Sequence[int], since: int = 13) -> list[str]:
        """Axes as an input, where the operator set has them so."""
        return [self.integers(axes)] if self.opset >= since else []

    def axes_attribute(self, axes: Sequence[int], since: int = 13) -> dict[str, Any]:
        """Axes as an attribute, where the operator set has them so."""
        return {} if self.opset >= since else {"axes": list(axes)}

    def emit(self, name: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Write a node; the name of its output, or a list of names for several."""
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        results = [self.writer.fresh(name) for _ in range(outputs)]
        self.nodes.append(helper.make_node(name, given, results, **attributes))
        return results[0] if outputs == 1 else results

    def cast(self, name: str, dtype: str) -> str:
        """A tensor in another dtype."""
        if dtype not in ELEMENT_TYPES:
            raise OnnxError(f"{self.operator}: ONNX has no {dtype}")
        # torch's casts saturate to this dtype of 8 bits only; what is beyond the others' ends is infinite, or no number.
        ends = {"saturate": 0} if dtype.startswith("float8") and dtype != "float8_e4m3fn" else {}
        return str(self.emit("Cast", name, to=ELEMENT_TYPES[dtype], **ends))

    def constant(self, value: Any, dtype: str) -> str:
        """A number of a dtype, without axes."""
        return self.writer.number(value, dtype)

    def held(self, name: str, tensor: Any) -> str:
        """A constant tensor."""
        return self.writer.initialiser(self.writer.fresh(name), proto_of("", tensor))

    def integers(self, values: Sequence[int]) -> str:
        """Integers as a constant with one axis."""
        from graphs.onnx.writing.sizes import integers

        return integers(self.writer, tuple(values))

    def size(self, dim: Dim) -> str:
        """A size as a tensor [1]; what computes it is written before this node."""
        from graphs.onnx.writing.sizes import write_size

        return write_size(self.writer, dim)

    def sizes(self, dims: Sequence[Dim]) -> str:
        """Sizes as a tensor of one axis."""
        if all(isinstance(dim, int) for dim in dims):
            return self.integers(dims)  # type: ignore[arg-type]
        if len(dims) == 1:
            return self.size(dims[0])
        return str(self.emit("Concat", *(self.size(dim) for dim in dims), axis=0))

    def reshape(self, name: str, dims: Sequence[Dim], known: Sequence[Dim] | None = None) -> str:
        """A tensor in another shape; a size that is not a number is −1, where there is one such."""
        symbolic = [position for position, dim in enumerate(dims) if isinstance(dim, Expression)]
        zeros = any(isinstance(dim, int) and dim == 0 for dim in dims)
        if zeros and self.opset < 14:
            raise OnnxError(f"{self.operator}: a size of 0 needs opset 14, the model has {self.opset}")
        if len(symbolic) == 1 and not zeros:
            wanted = self.integers([-1 if isinstance(dim, Expression) else dim for dim in dims])
        else:
            wanted = self.sizes(dims)
        return str(self.emit("Reshape", name, wanted, **({"allowzero": 1} if zeros else {})))

    def rename(self, old: str, new: str) -> None:
        """Let the result `old` be called `new`; an operand that is handed through is copied."""
        for node in self.nodes:
            if old in node.output:
                for one in self.nodes:
                    one.input[:] = [new if name == old else name for name in one.input]
                    one.output[:] = [new if name == old else name for name in one.output]
                return
        self.nodes.append(helper.make_node("Identity", [old], [new]))


__all__ = ["FAMILIES", "Spelling", "Value", "spelled", "spelled_names", "spells"]
