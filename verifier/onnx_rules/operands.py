"""What operands and attributes an ONNX operator may have, given those that are known: drawn from a seed, valid more often than not.

Whether a draw is valid is for ONNX's own checker and shape inference to say; here is only what makes it likely.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy
from onnx import TensorProto

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
CASTS = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.DOUBLE,
    TensorProto.INT64,
    TensorProto.INT32,
    TensorProto.BOOL,
    TensorProto.UINT8,
)
NUMBERS = (0.0, 1.0, 0.0, 1.0, 0.5, -1.0, 2.0, 3.0, 6.0)


@dataclass(frozen=True)
class Operand:
    """An operand that is known or wished for: element type and shape; `content` for one that must be constant."""

    dtype: int
    shape: tuple[int, ...]
    content: Any = None
    constant: bool = False
    """It had better be an initialiser, with whatever numbers."""


Known = Sequence[Operand | None]


@dataclass
class Draw:
    """The chance, and the numbers that the rule's own code speaks of."""

    chance: random.Random
    numbers: Sequence[float] = field(default=NUMBERS)

    def size(self) -> int:
        """A size of an axis, seldom 1, never 0."""
        return self.chance.choice((2, 3, 4, 5, 6, 7, 1))

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        """A shape of a rank between the two."""
        return tuple(self.size() for _ in range(self.chance.randint(least, most)))

    def float(self) -> int:
        """A floating element type."""
        return self.chance.choice(FLOATS)

    def scalar(self, dtype: int) -> Operand:
        """A constant of one number."""
        value = self.chance.choice([*self.numbers, self.chance.uniform(-2.0, 2.0)])
        shape = self.chance.choice(((), (), (1,), (1, 1)))
        return Operand(dtype, shape, numpy.full(shape, value), True)

    def whole(self, numbers: Sequence[int]) -> Operand:
        """A constant vector of whole numbers."""
        return Operand(TensorProto.INT64, (len(numbers),), numpy.array(numbers, dtype=numpy.int64), True)


Proposal = tuple[list[Operand | None], dict[str, Any]]
"""All operands in order (the known ones as they are), and attributes for those that are free."""


def propose(name: str, known: Known, attributes: Mapping[str, Any], draw: Draw) -> Proposal:
    """Operands and attributes for an operator some of whose operands are known."""
    return _PROPOSALS.get(name, _like_the_first)(list(known), dict(attributes), draw)


def _first(known: list[Operand | None], draw: Draw, least: int = 0, most: int = 4, dtype: int | None = None) -> Operand:
    found = known[0] if known else None
    return found or Operand(dtype or draw.float(), draw.shape(least, most))


def _fill(known: list[Operand | None], wanted: Sequence[Operand | None]) -> list[Operand | None]:
    """The known operands, and the wanted ones where none is known."""
    length = max(len(known), 1)
    full = [known[i] if i < len(known) and known[i] is not None else wanted[i] for i in range(len(wanted))]
    return full[: max(length, len(wanted))]


def _like_the_first(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    first = next((operand for operand in known if operand is not None), None) or Operand(draw.float(), draw.shape())
    return [operand or Operand(first.dtype, first.shape) for operand in known], {}


def _binary(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    """Operands that broadcast: a number, the same shape, some of its last axes, ones in places."""
    literal = next((operand for operand in known if operand is not None), None)
    given = next((operand for operand in known if operand is not None and operand.content is None), None)
    given = given or Operand(literal.dtype if literal else draw.float(), draw.shape())

    def other() -> Operand:
        way = draw.chance.randrange(6)
        if way <= 2:
            return draw.scalar(given.dtype)
        shape = given.shape[draw.chance.randint(0, len(given.shape)) :] if way == 3 else given.shape
        if way == 4:
            shape = tuple(size if draw.chance.random() < 0.5 else 1 for size in shape)
        return Operand(given.dtype, shape, constant=draw.chance.random() < 0.5)

    found: list[Operand | None] = []
    for operand in known:
        first = not any(o is not None and o.content is None for o in (*known, *found))
        found.append(operand or (given if first else other()))
    return found, {}


def _several(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    """Min and Max: further operands, mostly constants."""
    first = _first(known, draw)
    more: list[Operand | None] = []
    for operand in known[1:] or [None] * draw.chance.randint(1, 2):
        if operand is None and draw.chance.random() < 0.7:
            operand = draw.scalar(first.dtype)
        more.append(operand or Operand(first.dtype, first.shape, constant=True))
    return [first, *more], {}


def _clip(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    first = _first(known, draw)
    limits = [Operand(first.dtype, (), numpy.array(draw.chance.choice([*draw.numbers, -3.0, 4.0])), True) for _ in range(2)]
    if len(known) < 3:
        limits = limits[: draw.chance.randint(0, 2)]
    return _fill(known, [first, *limits]), {}


def _cast(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    first = _first(known, draw, dtype=draw.chance.choice(CASTS))
    return [first], {"to": first.dtype if draw.chance.random() < 0.3 else draw.chance.choice(CASTS)}


def _transpose(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    first = _first(known, draw, 2, 4)
    axes = list(range(len(first.shape)))
    if draw.chance.random() < 0.7:
        draw.chance.shuffle(axes)
    return [first], {"perm": axes}


def factored(total: int, draw: Draw) -> list[int]:
    """Sizes whose product is the total."""
    sizes: list[int] = []
    rest = total
    for _ in range(draw.chance.randint(0, 3)):
        step = draw.chance.choice([n for n in range(1, rest + 1) if rest % n == 0] or [1])
        sizes.append(step)
        rest //= step
    sizes.append(rest)
    draw.chance.shuffle(sizes)
    return sizes


def _reshape(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    first = _first(known, draw, 1, 4)
    sizes = list(first.shape) if draw.chance.random() < 0.2 else factored(prod(first.shape), draw)
    for axis in range(len(sizes)):
        if axis < len(first.shape) and sizes[axis] == first.shape[axis] and draw.chance.random() < 0.3:
            sizes[axis] = 0
    if sizes and draw.chance.random() < 0.5:
        sizes[draw.chance.randrange(len(sizes))] = -1
    return _fill(known, [first, draw.whole(sizes)]), {}


def _expand(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    first = _first(known, draw)
    shape = list(first.shape)
    if draw.chance.random() < 0.6:
        shape = [*draw.shape(0, 2), *(size if size != 1 else draw.size() for size in shape)]
    return _fill(known, [first, draw.whole(shape)]), {}


def _slice(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    first = _first(known, draw, 1, 4)
    axis = draw.chance.randrange(-len(first.shape), len(first.shape))
    size = first.shape[axis]
    half = draw.chance.random() < 0.4
    start = draw.chance.choice((0, 0, size // 2, draw.chance.randint(-size, size)))
    end = size // 2 if half and start == 0 else draw.chance.choice((size, size + 3, (1 << 63) - 1, draw.chance.randint(-size, size)))
    wanted: list[Operand | None] = [first, draw.whole([start]), draw.whole([end]), draw.whole([axis])]
    if len(known) > 4 or (len(known) < 4 and draw.chance.random() < 0.5):
        wanted.append(draw.whole([draw.chance.choice((1, 1, 1, 2, -1))]))
    return _fill(known, wanted), {}


def _unsqueeze(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    first = _first(known, draw, 0, 3)
    return _fill(known, [first, draw.whole([draw.chance.randint(-1, len(first.shape))])]), {}


def _squeeze(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    shape = draw.chance.choice(((draw.size(),), (1, draw.size()), (draw.size(), 1), (1,)))
    first = known[0] or Operand(draw.float(), shape)
    return _fill(known, [first]), {}


def _flatten(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    first = _first(known, draw, 0, 4)
    return [first], {"axis": draw.chance.randint(-len(first.shape), len(first.shape))}


def _matmul(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    a, b = (*known, None, None)[:2]
    if a is None:
        a = Operand(
            b.dtype if b else draw.float(), (*draw.shape(0, 2), draw.size(), b.shape[-2] if b and len(b.shape) > 1 else draw.size())
        )
    if b is None:
        inner = a.shape[-1] if a.shape else 1
        batch = draw.chance.choice(((), (), a.shape[:-2]))
        b = Operand(a.dtype, (*batch, inner, draw.size()), constant=draw.chance.random() < 0.5)
    return [a, b], {}


def _gemm(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    a, b, c = (*known, None, None, None)[:3]
    flags = {name: int(attributes.get(name, draw.chance.random() < 0.4)) for name in ("transA", "transB")}
    a = a or Operand(draw.float(), (draw.size(), draw.size()))
    inner, rows = (a.shape[0], a.shape[-1]) if flags["transA"] else (a.shape[-1], a.shape[0])
    columns = draw.size()
    b = b or Operand(a.dtype, (columns, inner) if flags["transB"] else (inner, columns), constant=draw.chance.random() < 0.8)
    wanted: list[Operand | None] = [a, b]
    if len(known) > 2 or draw.chance.random() < 0.7:
        columns = b.shape[0] if flags["transB"] else b.shape[-1]
        shape = draw.chance.choice(((columns,), (columns,), (rows, columns), (1, columns), (rows, 1), ()))
        wanted.append(c or _bias(a.dtype, shape, draw))
    scales = {name: draw.chance.choice((1.0, 0.5, 2.0)) for name in ("alpha", "beta")}
    return _fill(known, wanted), {**flags, **scales}


def _bias(dtype: int, shape: tuple[int, ...], draw: Draw) -> Operand:
    zero = draw.chance.random() < 0.3
    return Operand(dtype, shape, numpy.zeros(shape) if zero else None, True)


def _windows(rank: int, draw: Draw, padded: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if draw.chance.random() < 0.5:
        found["strides"] = [draw.chance.randint(1, 2) for _ in range(rank)]
    if draw.chance.random() < 0.4:
        found["dilations"] = [draw.chance.randint(1, 2) for _ in range(rank)]
    way = draw.chance.random()
    if padded and way < 0.5:
        found["pads"] = [draw.chance.randint(0, 2) for _ in range(2 * rank)]
    elif padded and way < 0.65:
        found["auto_pad"] = draw.chance.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    return found


def _conv(known: list[Operand | None], attributes: dict[str, Any], draw: Draw, integer: bool = False) -> Proposal:
    rank = draw.chance.choice((2, 2, 1))
    x, w, b = (*known, None, None, None)[:3]
    if x is None and w is None and "pads" in attributes:
        rank = len(attributes["pads"]) // 2
    x = x or Operand(
        TensorProto.UINT8 if integer else draw.float(), (draw.chance.choice((1, 2)), 4, *(draw.chance.randint(5, 8) for _ in range(rank)))
    )
    rank = len(x.shape) - 2
    if rank < 1:
        return [x], {}
    channels = x.shape[1]
    group = draw.chance.choice([g for g in (1, 1, 2, channels) if channels % g == 0])
    outputs = group * draw.chance.randint(1, 3)
    kernel = tuple(draw.chance.choice((1, 2, 3)) for _ in range(rank))
    w = w or Operand(x.dtype, (outputs, channels // group, *kernel), constant=True)
    wanted: list[Operand | None] = [x, w]
    if not integer and (len(known) > 2 or draw.chance.random() < 0.6):
        wanted.append(b or _bias(x.dtype, (w.shape[0],), draw))
    return _fill(known, wanted), {"group": group, **_windows(rank, draw, padded="pads" not in attributes)}


def _conv_integer(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    found, chosen = _conv(known[:2], attributes, draw, integer=True)
    if (len(known) > 2 or draw.chance.random() < 0.6) and len(found) == 2:
        found.append(Operand(TensorProto.UINT8, (), numpy.array(draw.chance.choice((0, 3))), True))
    return found, chosen


def _conv_transpose(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    rank = draw.chance.choice((2, 1))
    x, w, b = (*known, None, None, None)[:3]
    x = x or Operand(draw.float(), (2, 4, *(draw.chance.randint(3, 5) for _ in range(rank))))
    rank = len(x.shape) - 2
    if rank < 1:
        return [x], {}
    group = draw.chance.choice([g for g in (1, 1, 2) if x.shape[1] % g == 0])
    w = w or Operand(x.dtype, (x.shape[1], draw.chance.randint(1, 3), *(draw.chance.choice((1, 2, 3)) for _ in range(rank))), constant=True)
    wanted: list[Operand | None] = [x, w]
    if len(known) > 2 or draw.chance.random() < 0.6:
        wanted.append(b or _bias(x.dtype, (w.shape[1] * group,), draw))
    chosen = _windows(rank, draw, padded=False)
    if draw.chance.random() < 0.3:
        chosen["pads"] = [draw.chance.randint(0, 1) for _ in range(2 * rank)]
    return _fill(known, wanted), {"group": group, **chosen}


def _batch_norm(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    x = _first(known, draw, 2, 4)
    channels = (x.shape[1],) if len(x.shape) > 1 else (1,)
    positive = numpy.array([draw.chance.uniform(0.3, 2.0) for _ in range(channels[0])])
    plain = [Operand(x.dtype, channels, constant=True) for _ in range(3)]
    wanted: list[Operand | None] = [x, *plain, Operand(x.dtype, channels, positive, True)]
    return _fill(known, wanted), {"epsilon": draw.chance.choice((1e-5, 1e-3, 0.1)), "momentum": 0.9}


def _pad(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    x = known[0] or Operand(draw.chance.choice((*FLOATS, TensorProto.UINT8)), (draw.chance.choice((1, 2)), 4, *draw.shape(1, 2)))
    rank = len(x.shape)
    everywhere = draw.chance.random() < 0.25
    pads = [draw.chance.randint(0, 2) if axis >= 2 or everywhere else 0 for axis in range(rank)] * 2
    pads[rank:] = [draw.chance.randint(0, 2) if pads[axis] or axis >= 2 else 0 for axis in range(rank)]
    wanted: list[Operand | None] = [x, draw.whole(pads)]
    if len(known) > 2 or draw.chance.random() < 0.4:
        wanted.append(Operand(x.dtype, (), numpy.array(draw.chance.choice((0.0, 0.0, 1.0))), True))
    return _fill(known, wanted), {"mode": draw.chance.choice(("constant", "constant", "constant", "reflect", "edge"))}


def _constant_of_shape(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    dtype = draw.chance.choice(CASTS)
    value = numpy.array([draw.chance.choice((0, 1, 2, 300, 0.5, -1))])
    return _fill(known, [draw.whole(list(draw.shape(0, 3)))]), {"value": Operand(dtype, (1,), value, True)}


def _dropout(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    return [_first(known, draw)], {"ratio": 0.5}


def _scatter_nd(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    data = _first(known, draw, 1, 3)
    rows = data.shape[0]
    indices = numpy.arange(rows).reshape(rows, 1)
    if draw.chance.random() < 0.3:
        indices = indices[::-1].copy()
    wanted: list[Operand | None] = [data, Operand(TensorProto.INT64, (rows, 1), indices, True), Operand(data.dtype, data.shape)]
    return _fill(known, wanted), {"reduction": draw.chance.choice(("none", "none", "add", "mul"))}


def _hard_sigmoid(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    near = draw.chance.random() < 0.6
    return [_first(known, draw)], {"alpha": 1 / 6 if near else 0.2, "beta": 0.5}


def _gather(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    data = _first(known, draw, 1, 3)
    return _fill(known, [data, Operand(TensorProto.INT64, (), numpy.array(draw.chance.randrange(max(data.shape[0], 1))), True)]), {
        "axis": 0
    }


def _q_linear_conv(known: list[Operand | None], attributes: dict[str, Any], draw: Draw) -> Proposal:
    (x, w, *_), chosen = _conv([None, None], attributes, draw, integer=True)
    assert x is not None and w is not None
    scale = Operand(TensorProto.FLOAT, (), numpy.array(0.1), True)
    zero = Operand(TensorProto.UINT8, (), numpy.array(3), True)
    bias = Operand(TensorProto.INT32, (w.shape[0],), numpy.zeros(w.shape[0]), True)
    return _fill(known, [x, scale, zero, w, scale, zero, scale, zero, bias]), chosen


_PROPOSALS: dict[str, Callable[[list[Operand | None], dict[str, Any], Draw], Proposal]] = {
    "Add": _binary, "Sub": _binary, "Mul": _binary, "Div": _binary, "Pow": _binary, "And": _binary, "Or": _binary,
    "Equal": _binary, "Less": _binary, "Greater": _binary, "Mod": _binary, "PRelu": _binary,
    "Min": _several, "Max": _several, "Sum": _several, "Clip": _clip, "Cast": _cast, "Transpose": _transpose, "Reshape": _reshape,
    "Expand": _expand, "Slice": _slice, "Unsqueeze": _unsqueeze, "Squeeze": _squeeze, "Flatten": _flatten, "MatMul": _matmul,
    "Gemm": _gemm, "Conv": _conv, "ConvInteger": _conv_integer, "ConvTranspose": _conv_transpose, "BatchNormalization": _batch_norm,
    "Pad": _pad, "ConstantOfShape": _constant_of_shape, "Dropout": _dropout, "ScatterND": _scatter_nd, "HardSigmoid": _hard_sigmoid,
    "Gather": _gather, "QLinearConv": _q_linear_conv,
}  # fmt: skip

__all__ = ["Draw", "Operand", "propose"]
