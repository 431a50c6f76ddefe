"""Reading at positions."""

from __future__ import annotations

from graphs.onnx.errors import OnnxError
from graphs.onnx.writing.registry import Spelling, spells


@spells("Embedding")
def embedding(spelling: Spelling) -> str:
    return str(spelling.emit("Gather", spelling[0], spelling[1], axis=0))


@spells("IndexSelect")
def index_select(spelling: Spelling) -> str:
    return str(spelling.emit("Gather", spelling[0], spelling[1], axis=spelling.operator.axis + spelling.type(0).ndim))


@spells("Index")
def index(spelling: Spelling) -> str:
    """One tensor of positions is a Gather; several are tuples of positions."""
    operator, count = spelling.operator, len(spelling.operands) - 1
    if count == 1:
        return str(spelling.emit("Gather", spelling[0], spelling[1], axis=operator.first))
    if operator.first:
        raise OnnxError(f"{operator}: positions of several axes after others are not written")
    spelling.need(11, "GatherND")
    rank = max(spelling.type(1 + position).ndim for position in range(count))
    shape = spelling.out.shape[:rank]
    parts = []
    for position in range(count):
        spread = spelling.emit("Expand", spelling.at(1 + position, "int64"), spelling.sizes(shape))
        parts.append(spelling.emit("Unsqueeze", spread, *spelling.axes([rank]), **spelling.axes_attribute([rank])))
    return str(spelling.emit("GatherND", spelling[0], spelling.emit("Concat", *parts, axis=rank)))


@spells("Gather")
def gather(spelling: Spelling) -> str:
    spelling.need(11, "GatherElements")
    return str(spelling.emit("GatherElements", spelling[0], spelling[1], axis=spelling.operator.axis + spelling.type(0).ndim))


@spells("OneHot")
def one_hot(spelling: Spelling) -> str:
    import torch

    spelling.need(9, "OneHot")
    values = spelling.held("off_on", torch.tensor([0, 1], dtype=torch.int64))
    return str(spelling.emit("OneHot", spelling[0], spelling.sizes([spelling.operator.classes]), values, axis=-1))


@spells("TopK")
def top_k(spelling: Spelling) -> list[str]:
    operator = spelling.operator
    axis = operator.axis + spelling.type(0).ndim
    if spelling.opset >= 10:
        return list(spelling.emit("TopK", spelling[0], spelling.sizes([operator.k]), outputs=2, axis=axis))
    return list(spelling.emit("TopK", spelling[0], outputs=2, axis=axis, k=int(operator.k)))
