"""Moving elements: reshaping, permuting, slicing, joining."""

from __future__ import annotations

from typing import Any

from graphs.onnx.errors import OnnxError
from graphs.onnx.writing.registry import Spelling, spells
from operators.expressions import Dim, Expression


@spells("Reshape")
def reshape(spelling: Spelling) -> str:
    return spelling.reshape(spelling[0], spelling.out.shape)


@spells("Permute")
def permute(spelling: Spelling) -> str:
    if not spelling.out.ndim:
        return spelling[0]
    rank, axes = spelling.out.ndim, spelling.operator.axes
    return str(spelling.emit("Transpose", spelling[0], perm=[*range(rank - len(axes)), *(axis + rank for axis in axes)]))


@spells("Expand")
def expand(spelling: Spelling) -> str:
    spelling.need(8, "Expand")
    return str(spelling.emit("Expand", spelling[0], spelling.sizes(spelling.out.shape)))


def cut(spelling: Spelling, x: str, axis: int, start: Dim, stop: Dim, step: Dim = 1) -> str:
    """Part of an axis counted from the start."""
    if spelling.opset >= 10:
        ends = [spelling.sizes([start]), spelling.sizes([stop]), spelling.integers([axis]), spelling.sizes([step])]
        return str(spelling.emit("Slice", x, *(ends if step != 1 else ends[:3])))
    if isinstance(start, Expression) or isinstance(stop, Expression) or step != 1:
        raise OnnxError(f"{spelling.operator}: needs opset 10, the model has {spelling.opset}")
    return str(spelling.emit("Slice", x, starts=[start], ends=[stop], axes=[axis]))


@spells("Slice")
def slice_(spelling: Spelling) -> str:
    operator = spelling.operator
    return cut(spelling, spelling[0], operator.axis + spelling.out.ndim, operator.start, operator.stop, operator.step)


@spells("Select")
def select(spelling: Spelling) -> str:
    operator, rank = spelling.operator, spelling.type(0).ndim
    axis = operator.axis + rank
    if isinstance(operator.index, int):
        return str(spelling.emit("Gather", spelling[0], spelling.constant(operator.index, "int64"), axis=axis))
    part = cut(spelling, spelling[0], axis, operator.index, operator.index + 1)
    return str(spelling.emit("Squeeze", part, *spelling.axes([axis]), **spelling.axes_attribute([axis])))


@spells("Cat")
def concat(spelling: Spelling) -> str:
    parts = [spelling.at(position, spelling.out.dtype) for position in range(len(spelling.operands))]
    return str(spelling.emit("Concat", *parts, axis=spelling.operator.axis + spelling.out.ndim))


@spells("Stack")
def stack(spelling: Spelling) -> str:
    axis = spelling.operator.axis + spelling.out.ndim
    parts = [_unsqueezed(spelling, spelling.at(position, spelling.out.dtype), axis) for position in range(len(spelling.operands))]
    return str(spelling.emit("Concat", *parts, axis=axis))


def _unsqueezed(spelling: Spelling, x: str, axis: int) -> str:
    return str(spelling.emit("Unsqueeze", x, *spelling.axes([axis]), **spelling.axes_attribute([axis])))


@spells("Split")
def split(spelling: Spelling) -> list[str]:
    operator = spelling.operator
    axis = operator.axis + spelling.type(0).ndim
    if len(operator.sizes) == 1:
        return [spelling[0]]
    if spelling.opset >= 13:
        return list(spelling.emit("Split", spelling[0], spelling.sizes(operator.sizes), outputs=len(operator.sizes), axis=axis))
    if any(isinstance(size, Expression) for size in operator.sizes):
        raise OnnxError(f"{operator}: needs opset 13, the model has {spelling.opset}")
    return list(spelling.emit("Split", spelling[0], outputs=len(operator.sizes), axis=axis, split=list(operator.sizes)))


@spells("Unbind")
def unbind(spelling: Spelling) -> list[str]:
    axis = spelling.operator.axis + spelling.type(0).ndim
    return [str(spelling.emit("Gather", spelling[0], spelling.constant(place, "int64"), axis=axis)) for place in range(len(spelling.types))]


@spells("Flip")
def flip(spelling: Spelling) -> str:
    """A slice backwards: from −1 to beyond the start."""
    x: Any = spelling[0]
    for axis in spelling.operator.axes:
        if spelling.opset < 10:
            raise OnnxError(f"{spelling.operator}: needs opset 10, the model has {spelling.opset}")
        ends = [
            spelling.integers([-1]),
            spelling.integers([-(2**31)]),
            spelling.integers([axis + spelling.out.ndim]),
            spelling.integers([-1]),
        ]
        x = spelling.emit("Slice", x, *ends)
    return str(x)


@spells("Roll")
def roll(spelling: Spelling) -> str:
    x, shape, rank = spelling[0], spelling.out.shape, spelling.out.ndim
    for axis, shift in zip(spelling.operator.axes, spelling.operator.shifts, strict=True):
        size = shape[axis]
        first = cut(spelling, x, axis + rank, size - shift, size)
        x = spelling.emit("Concat", first, cut(spelling, x, axis + rank, 0, size - shift), axis=axis + rank)
    return x


@spells("Repeat")
def repeat(spelling: Spelling) -> str:
    repeats = spelling.operator.repeats
    x, rank = spelling[0], spelling.type(0).ndim
    if len(repeats) > rank:
        x = spelling.reshape(x, (*[1] * (len(repeats) - rank), *spelling.type(0).shape))
    return str(spelling.emit("Tile", x, spelling.sizes(repeats)))


@spells("Tril", "Triu")
def triangle(spelling: Spelling) -> str:
    spelling.need(14, "Trilu")
    upper = type(spelling.operator).__name__ == "Triu"
    if not isinstance(spelling.operator.diagonal, int):
        raise OnnxError(f"{spelling.operator}: the diagonal must be a number")
    return str(spelling.emit("Trilu", spelling[0], spelling.constant(spelling.operator.diagonal, "int64"), upper=int(upper)))
