"""A graph of floating-point numbers as a graph over the reals that says, for each number, where it stands in the order, whether it is
NaN, and what its bits are.

Operators that round nothing act on these three by themselves: they move elements, choose between them, compare or negate them. Every
other operator is an unknown function of its operands' bits.

Assumes: a kernel computes equal elements alike wherever they lie. The finite numbers and the infinities of every dtype, −0 and +0
taken as one, lie in the order of the reals so that negation is negation; bits are numbers of which negation flips the sign; all NaNs
are one. Widening changes nothing. torch's maximum, minimum, clamp, relu, reductions and max pools return NaN when an operand is NaN,
else one of their operands; which of −0 and +0 they return is not known. Positions of extremes are the first, and NaN counts as the most
extreme. Multiplying and dividing by 1 or −1, adding −0 and the power 1 are exact. Other sums and products are the real ones, rounded by
a function that increases and is odd (in half precision by way of float32, which comes to the same; beside Python numbers it is another
function), where infinities are real numbers so large that arithmetic with finite ones leaves them to be infinities.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from graphs.graph import Graph, Value
from operators.arithmetic import Maximum, Negative
from operators.casts import Cast
from operators.comparison import Greater, LogicalAnd, LogicalNot, LogicalOr, NotEqual, Where
from operators.meaning import apply
from operators.operator import Operator, TensorType, broadcast_index, kind_of, operator
from operators.sources import Constant, Full
from verifier.bits import FLOAT_FORMATS, INTEGER_FORMATS, NotCovered

WIDER = {
    "float16": frozenset({"float16", "float32", "float64"}),
    "bfloat16": frozenset({"bfloat16", "float32", "float64"}),
    "float32": frozenset({"float32", "float64"}),
    "float64": frozenset({"float64"}),
}
"""The dtypes that hold every number of a dtype."""
EVERY = frozenset(FLOAT_FORMATS)


@operator()
class Unknown(Operator):
    """A pointwise operator of which nothing is assumed but that equal operands give equal results."""

    name: str
    types: tuple[TensorType, ...]

    def outputs(self, *operands: Any) -> tuple[TensorType, ...]:
        return self.types

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        return apply(self.name, *(o[broadcast_index(at, o.shape)] for o in operands if o is not None))


@dataclass(frozen=True)
class Lane:
    """A floating-point value: its place in the order, its bits, where it is NaN (None: nowhere), and the dtypes that hold it.

    `number` is the number when it is known, `weak` marks a Python number, `finite` one that is known to be neither infinite nor NaN,
    `signs` the truths where the number is 1 and where it is −1, when elsewhere it is 0.
    """

    order: Value
    bits: Value
    nan: Value | None
    fits: frozenset[str]
    number: float | None = None
    weak: bool = False
    finite: bool = False
    signs: tuple[Value, Value | None] | None = None


@dataclass(frozen=True)
class Style:
    """How values are written: `pools` where NaN is followed through maxima, `ordered` where something depends on more than maxima,
    `rounding` to take sums and products as rounded real ones, `without_nan` where inputs that are not finite do not matter."""

    pools: bool = False
    ordered: bool = True
    rounding: bool = False
    without_nan: bool = False


def wider(dtype: str) -> frozenset[str]:
    """The dtypes that hold every number of a dtype.

    Raises: NotCovered for floating dtypes of which nothing is known here.
    """
    if dtype not in WIDER:
        raise NotCovered(f"{dtype} as floating-point numbers")
    return WIDER[dtype]


def holds(number: float, dtype: str) -> bool:
    """The dtype has exactly this number."""
    import torch

    double = torch.tensor(number, dtype=torch.float64)
    return math.isnan(number) or bool(double.to(getattr(torch, dtype)).double() == double)


def _is_as_written(number: float) -> bool:
    """The number is exactly what its decimals say, as the proof over the reals takes it."""
    return not math.isfinite(number) or Fraction(str(number)) == Fraction(number)


def holds_whole(source: str, target: str) -> bool:
    """Every number of the whole (or boolean) dtype is one of the floating dtype."""
    if source == "bool":
        return True
    bits, signed = INTEGER_FORMATS[source]
    return bits - signed <= FLOAT_FORMATS[target][1]


def is_within(source: str, target: str) -> bool:
    """Every number of one whole (or boolean) dtype is one of the other."""
    if source == "bool" or source == target:
        return True
    if source not in INTEGER_FORMATS or target not in INTEGER_FORMATS:
        return False
    (bits, signed), (more, also_signed) = INTEGER_FORMATS[source], INTEGER_FORMATS[target]
    return more - also_signed >= bits - signed and also_signed >= signed


def type_name(kept: Operator) -> str:
    """The operator's name."""
    return type(kept).__name__


class Making:
    """Makes the graph over the reals of one graph: nodes, NaN flags, lanes."""

    def __init__(self, graph: Graph, style: Style) -> None:
        self.graph, self.style, self.made = graph, style, Graph()
        self.unknowns: dict[str, Value] = {}
        self.numbers: dict[Value, int] = {}
        self.rounded: set[str] = set()
        self.widened: dict[Value, tuple[Value, str]] = {}

    def add(self, kept: Operator, *operands: Value | None, shape: tuple[Any, ...], dtype: str = "float32") -> Value:
        """A node over the reals."""
        return self.made.add(kept, *operands, types=[TensorType(shape, dtype)])

    def unknown(self, name: str, shape: tuple[Any, ...] = (), dtype: str = "float32") -> Value:
        """An input of this name."""
        if name not in self.unknowns:
            self.unknowns[name] = self.made.input(name, TensorType(shape, dtype, weak=not shape and dtype == "float32"))
        return self.unknowns[name]

    def scalar(self, number: Any) -> Value:
        """A number."""
        return self.made.scalar(number)

    def shape(self, value: Value) -> tuple[Any, ...]:
        """The shape of a node."""
        return self.made.type(value).shape

    @property
    def flag(self) -> str:
        """The dtype in which NaN is followed."""
        return "float32" if self.style.pools else "bool"

    def truth(self, nan: Value) -> Value:
        """The truth of a NaN flag."""
        return self.add(Greater(), nan, self.scalar(0), shape=self.shape(nan), dtype="bool") if self.style.pools else nan

    def never(self) -> Value:
        """The flag of a number that is not NaN."""
        return self.scalar(0.0 if self.style.pools else False)

    def either(self, flags: list[Value | None], shape: tuple[Any, ...]) -> Value | None:
        """The flag of what is NaN where any of its operands is."""
        there = list(dict.fromkeys(flag for flag in flags if flag is not None))
        if not there:
            return None
        result = there[0]
        for flag in there[1:]:
            result = self.add(Maximum() if self.style.pools else LogicalOr(), result, flag, shape=shape, dtype=self.flag)
        return result

    def absent(self, flags: list[Value | None], truth: Value, shape: tuple[Any, ...]) -> Value:
        """The truth, where none of the flags stands."""
        for flag in dict.fromkeys(flag for flag in flags if flag is not None):
            there = self.truth(flag)
            opposite = self.add(LogicalNot(), there, shape=self.shape(there), dtype="bool")
            truth = self.add(LogicalAnd(), truth, opposite, shape=shape, dtype="bool")
        return truth

    def function(self, name: str, *operands: Value, shape: tuple[Any, ...], dtype: str = "float32") -> Value:
        """An unknown function."""
        return self.made.add(Unknown(name, (TensorType(shape, dtype),)), *operands)

    # -- lanes

    def constant(self, number: float, weak: bool = True) -> Lane:
        """A number that is known."""
        fits = frozenset(dtype for dtype in FLOAT_FORMATS if holds(number, dtype) and _is_as_written(number))
        if math.isnan(number):
            return Lane(self.scalar(0.0), self.unknown("bits of NaN"), self.scalar(1.0 if self.style.pools else True), EVERY, number, weak)
        order = self.scalar(number)
        if math.isinf(number) and self.style.ordered:
            order = self.signed(self.unknown("infinity"), number)
        return Lane(order, self.signed(self.unknown(f"bits of {abs(number)}"), number), None, fits, number, weak, math.isfinite(number))

    def signed(self, value: Value, number: float) -> Value:
        return self.add(Negative(), value, shape=self.shape(value)) if math.copysign(1.0, number) < 0 else value

    def computed(self, bits: Value, fits: frozenset[str], weak: bool = False, may_be_nan: bool = True) -> Lane:
        """A number of which only the bits are given."""
        shape = self.shape(bits)
        nan = self.function("bits are NaN", bits, shape=shape, dtype=self.flag) if may_be_nan else None
        name = "number of bits, once rounded" if weak else "number of bits"
        return Lane(self.function(name, bits, shape=shape), bits, nan, fits, weak=weak)

    def lane(self, item: Lane | Value, type: TensorType) -> Lane:
        """An operand as a floating-point number.

        Raises: NotCovered for whole numbers that the dtypes round.
        """
        if isinstance(item, Lane):
            return item
        if item in self.numbers:
            return self.constant(float(self.numbers[item]))
        if kind_of(type.dtype) == "complex" or (type.dtype not in INTEGER_FORMATS and type.dtype != "bool"):
            raise NotCovered(f"{type.dtype} as a floating-point number")
        fits = frozenset(dtype for dtype in FLOAT_FORMATS if holds_whole(type.dtype, dtype))
        whole = frozenset(dtype for dtype in INTEGER_FORMATS if is_within(type.dtype, dtype))
        shape = self.shape(item)
        order = self.add(Cast("float32"), item, shape=shape)
        signs = None
        if type.dtype == "bool":
            signs = (item, None)
            one, zero = (self.constant(number).bits for number in (1.0, 0.0))
            bits = self.add(Where(), item, one, zero, shape=shape)
        else:
            bits = self.function("bits of whole number", item, shape=shape)
        return Lane(order, bits, None, fits | whole, finite=True, signs=signs)

    def rounded_to(self, lane: Lane, dtype: str) -> Lane:
        """The lane as a number of the dtype.

        Raises: NotCovered where that rounds a tensor's elements.
        """
        if dtype in lane.fits and not (lane.weak and lane.number is None):
            return replace(lane, weak=False)
        if not lane.weak:
            raise NotCovered(f"elements are rounded to {dtype}")
        if lane.number is not None:
            name, order = f"{abs(lane.number)} in {dtype}", lane.order
            if self.style.ordered:
                order = self.signed(self.unknown(name), lane.number)
            return Lane(order, self.signed(self.unknown(f"bits of {name}"), lane.number), None, wider(dtype))
        self.rounded.add(dtype)
        if len(self.rounded) > 1:
            raise NotCovered("a real attribute in two dtypes")
        return replace(lane, bits=self.function(f"bits in {dtype}", lane.bits, shape=()), fits=wider(dtype), weak=False)

    def constant_name(self, kept: Constant) -> str:
        tensor = self.graph.constants[kept.name]
        content = hashlib.sha256(tensor.detach().cpu().contiguous().numpy().tobytes()).hexdigest()[:16]
        return f"constant {kept.type} {content}"

    def flag_of(self, lane: Lane) -> Value:
        if lane.nan is not None:
            return lane.nan
        shape = self.shape(lane.order)
        return self.add(Full(shape, self.flag), self.never(), shape=shape, dtype=self.flag) if shape else self.never()

    def as_truth(self, item: Lane | Value, source: TensorType) -> Value:
        if not isinstance(item, Lane):
            return item if source.dtype == "bool" else self.add(Cast("bool"), item, shape=self.shape(item), dtype="bool")
        shape = self.shape(item.order)
        truth = self.add(NotEqual(), item.order, self.scalar(0.0), shape=shape, dtype="bool")
        return truth if item.nan is None else self.add(LogicalOr(), truth, self.truth(item.nan), shape=shape, dtype="bool")

    def full(self, kept: Full, lane: Lane, shape: tuple[Any, ...]) -> Lane:
        def fill(value: Value, dtype: str) -> Value:
            return self.add(Full(kept.size, dtype), value, shape=shape, dtype=dtype)

        nan = None if lane.nan is None else fill(lane.nan, self.flag)
        return replace(lane, order=fill(lane.order, "float32"), bits=fill(lane.bits, "float32"), nan=nan, weak=False, signs=None)


__all__ = ["EVERY", "Lane", "Making", "Style", "Unknown", "holds", "holds_whole", "is_within", "type_name", "wider"]
