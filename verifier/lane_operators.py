"""Every operator on lanes: what moves, chooses, compares and casts by itself, and who else is asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from graphs.graph import Graph, Value
from operators.arithmetic import Negative
from operators.casts import Cast
from operators.comparison import Greater, LogicalOr, Where
from operators.operator import Operator, TensorType, kind_of, promote
from operators.reductions import Amax, Reduction
from operators.sources import Constant, Full, Input, Scalar
from verifier.bits import FLOAT_FORMATS, INTEGER_FORMATS, NotCovered
from verifier.lane_arithmetic import Arithmetic
from verifier.lanes import EVERY, Lane, Style, is_within, type_name, wider
from verifier.proof.reductions import ROUNDING

MOVES = frozenset({
    "Cat", "Stack", "Split", "Unbind", "Pad", "Reshape", "Permute", "Expand", "Slice", "Select", "Flip", "Roll", "Repeat",
    "RepeatInterleave", "Shard", "Replicate", "AllGather", "Embedding", "Gather", "Index", "IndexSelect",
})  # fmt: skip
_SAME = frozenset({"Identity", "Copy", "Contiguous", "Detach"})
_CHOICES = frozenset({"Maximum", "Minimum", "Clamp", "Relu", "Relu6"})
_EXTREMES = frozenset({"Amax", "Amin", "MaxAlong", "MinAlong"})
_POOLS = frozenset({f"{adaptive}MaxPool{n}d" for adaptive in ("", "Adaptive") for n in (1, 2, 3)})
_COMPARISONS = frozenset({"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"})
_LOGIC = frozenset({"LogicalAnd", "LogicalOr", "LogicalXor", "LogicalNot"})
_POSITIONS = frozenset({"ArgMax", "ArgMin", "MaxAlong", "MinAlong"})
_ORDERED = _COMPARISONS | _LOGIC | _POSITIONS | {"Sign"}
_SPECIAL = frozenset({
    "Negative", "Absolute", "Sign", "IsNaN", "Where", "Multiply", "Divide", "Power", "Add", "Subtract", "Sum", "Mean", "Product",
})  # fmt: skip
_LOOKUPS = frozenset({"Gather", "Index", "IndexSelect"})


def _is_extreme(kept: Operator) -> bool:
    """The operator chooses the largest or smallest of elements at different places."""
    return type_name(kept) in _EXTREMES | _POOLS or (type_name(kept) == "AllReduce" and kept.attributes["by"] == "max")


def _is_single_average(kept: Operator) -> bool:
    """An average of one element, which may begin at +0."""
    if not type_name(kept).startswith("AvgPool"):
        return False
    fields = kept.attributes
    plain = all(isinstance(k, int) and k == 1 for k in fields["kernel"]) and all(isinstance(p, int) and p == 0 for p in fields["padding"])
    return plain and fields["divisor"] is None


def only_chooses(graph: Graph) -> bool:
    """Every operator moves elements, chooses the larger or the smaller, or negates: equal over the reals is equal in any order."""
    for node in graph.live():
        kept = graph.operator(node)
        plain = type_name(kept) in MOVES | _SAME | _CHOICES | {"Negative", "Absolute", "Full"} or isinstance(kept, (Input, Scalar))
        positions = type_name(kept) in _POSITIONS
        if not (plain or _is_extreme(kept)) or positions or any(kind_of(t.dtype) != "float" for t in graph.types(node) if not t.weak):
            return False
    return True


def is_ordered(graph: Graph) -> bool:
    """Something in the graph depends on the order of numbers otherwise than by choosing the larger or the smaller."""
    for node in graph.live():
        kept = graph.operator(node)
        floating = any(kind_of(graph.type(v).dtype) == "float" for v in graph.operands(node) if v is not None)
        if floating and (type(kept).__name__ in _ORDERED or (isinstance(kept, Cast) and kept.to == "bool")):
            return True
    return False


def has_pools(graph: Graph) -> bool:
    """Something in the graph chooses among elements at different places."""
    return any(_is_extreme(graph.operator(node)) for node in graph.live())


def chooses(graph: Graph) -> bool:
    """Something in the graph chooses the larger or the smaller of numbers."""
    kept = [graph.operator(node) for node in graph.live()]
    return any(type_name(operator) in _CHOICES or _is_extreme(operator) for operator in kept)


def _is_transparent(kept: Operator) -> bool:
    """The operator returns its operand."""
    return type(kept).__name__ in _SAME or (type(kept).__name__ == "Dropout" and not kept.attributes["training"])


class Lanes(Arithmetic):
    """The graph over the reals of one graph; `values` are its outputs, lanes or (whole numbers and truths) values."""

    def __init__(self, graph: Graph, style: Style) -> None:
        super().__init__(graph, style)
        self.known: dict[Value, Lane | Value] = {}
        self.forms: dict[Value, str] = {}
        needed = graph.live()
        for node in graph.topological_order():
            if node in needed:
                self._enter(node)

    @property
    def values(self) -> list[Lane | Value]:
        return [self.known[value] for value in self.graph.outputs]

    def _enter(self, node: int) -> None:
        kept, types = self.graph.operator(node), self.graph.types(node)
        operands = self.graph.operands(node)
        inside = ", ".join("-" if v is None else self.forms[v] for v in operands)
        text = f"{kept}({inside})"
        if isinstance(kept, (Input, Constant)):
            text = f"%{kept.name}" if isinstance(kept, Input) else self.constant_name(kept)
        results = self._results(node, kept, [None if v is None else self.known[v] for v in operands], text)
        for output, result in enumerate(results):
            value = Value(node, output)
            self.known[value] = result
            same = _is_transparent(kept) and operands[0] is not None
            self.forms[value] = self.forms[operands[0]] if same else f"{text}.{output}:{types[output].dtype}"  # type: ignore[index]

    def _results(self, node: int, kept: Operator, items: list[Lane | Value | None], text: str) -> list[Lane | Value]:
        name, types = type(kept).__name__, self.graph.types(node)
        kinds = [kind_of(t.dtype) for t in types]
        sources = [None if v is None else self.graph.type(v) for v in self.graph.operands(node)]
        if "complex" in kinds:
            raise NotCovered("complex numbers")
        if isinstance(kept, Input):
            return [self._input(kept)]
        if isinstance(kept, Scalar):
            return [self._scalar(kept)]
        if isinstance(kept, Constant):
            return [self._constant(kept)]
        given = [item for item in items if item is not None]
        if _is_transparent(kept):
            return [given[0]]
        if not any(isinstance(item, Lane) for item in given) and "float" not in kinds:
            if isinstance(kept, Cast) and isinstance(given[0], Value) and sources[0] is not None:
                return [self._whole_cast(kept, given[0], sources[0].dtype, types[0].shape)]
            made = self.made.add(kept, *items, types=types)  # type: ignore[arg-type]
            return [Value(made.node, output) for output in range(len(types))]
        if name in MOVES:
            return self._moved(kept, items, sources, types)
        if isinstance(kept, Full):
            return [self.full(kept, self.rounded_to(self.lane(given[0], sources[0]), kept.type), types[0].shape)]  # type: ignore[arg-type]
        if name == "Cast":
            return [self._cast(kept, given[0], sources[0], types[0], text)]  # type: ignore[arg-type]
        if _is_single_average(kept):
            (moved,) = self._moved(kept, items, sources, types)
            assert isinstance(moved, Lane)
            return [replace(moved, bits=self.function("bits plus zero", moved.bits, shape=types[0].shape), fits=moved.fits & EVERY)]
        if (_is_extreme(kept) or name in _POSITIONS) and isinstance(given[0], Lane):
            return self._extreme(kept, given[0], types, text)
        plain = [None if item is None else (item, source) for item, source in zip(items, sources, strict=True)]
        special = getattr(self, f"_{name.lower()}", None) if name in _SPECIAL else None
        if special is not None:
            found = special(kept, plain, types[0])
            if found is not None:
                return [found]
        if name in _CHOICES:
            return [self._choice(kept, plain, types[0])]
        if name in _COMPARISONS:
            return [self._comparison(kept, plain, types[0])]
        if name in _LOGIC:
            truths = [self.as_truth(p[0], p[1]) for p in plain if p is not None and p[1] is not None]
            return [self.add(kept, *truths, shape=types[0].shape, dtype="bool")]
        return self.computation(kept, plain, types, text)

    def _input(self, kept: Input) -> Lane | Value:
        type = kept.type
        if kind_of(type.dtype) != "float":
            if kind_of(type.dtype) == "complex":
                raise NotCovered("complex numbers")
            return self.made.input(kept.name, type)
        order = self.made.input(kept.name, TensorType(type.shape, "float32", type.weak))
        bits = self.unknown(f"bits of {kept.name}", type.shape)
        if type.weak:
            return Lane(order, bits, None, frozenset(), weak=True, finite=self.style.without_nan)
        nan = None if self.style.without_nan else self.unknown(f"NaN in {kept.name}", type.shape, self.flag)
        return Lane(order, bits, nan, wider(type.dtype), finite=self.style.without_nan)

    def _scalar(self, kept: Scalar) -> Lane | Value:
        if isinstance(kept.value, float):
            return self.constant(kept.value)
        value = self.scalar(kept.value)
        if isinstance(kept.value, int) and not isinstance(kept.value, bool) and abs(kept.value) < 2**53:
            self.numbers[value] = kept.value
        return value

    def _constant(self, kept: Constant) -> Lane | Value:
        tensor, type = self.graph.constants[kept.name], kept.type
        if kind_of(type.dtype) != "float":
            self.made.constants[kept.name] = tensor
            return self.made.add(kept)
        if tensor.numel() == 1:
            return self.full(Full(type.shape, type.dtype), replace(self.constant(float(tensor.item())), weak=False), type.shape)
        name = self.constant_name(kept)
        order, bits = self.unknown(name, type.shape), self.unknown(f"bits of {name}", type.shape)
        return Lane(order, bits, self.unknown(f"NaN in {name}", type.shape, self.flag), wider(type.dtype))

    def _moved(
        self, kept: Operator, items: list[Any], sources: list[TensorType | None], types: tuple[TensorType, ...]
    ) -> list[Lane | Value]:
        if kind_of(types[0].dtype) != "float":
            raise NotCovered(f"{kept} mixes kinds")
        if type(kept).__name__ == "Pad" and kept.attributes["mode"] == "constant" and (len(items) < 2 or items[1] is None):
            items, sources = [items[0], self.constant(0.0)], [sources[0], None]
        whole = {1} if type(kept).__name__ == "Embedding" else set(range(1, len(items))) if type(kept).__name__ in _LOOKUPS else set()
        lanes: list[Any] = [
            item if item is None or position in whole else self.rounded_to(self.lane(item, source), types[0].dtype)  # type: ignore[arg-type]
            for position, (item, source) in enumerate(zip(items, sources, strict=True))
        ]
        moving = [lane for lane in lanes if isinstance(lane, Lane)]

        def move(part: Callable[[Lane], Value], dtype: str) -> list[Value]:
            operands = [part(lane) if isinstance(lane, Lane) else lane for lane in lanes]
            made = self.made.add(kept, *operands, types=[TensorType(t.shape, dtype) for t in types])
            return [Value(made.node, output) for output in range(len(types))]

        order, bits = move(lambda lane: lane.order, "float32"), move(lambda lane: lane.bits, "float32")
        nan: list[Value | None] = [None] * len(types)
        if any(lane.nan is not None for lane in moving):
            nan = list(move(self._flag_of_moved, self.flag))
        fits = frozenset.intersection(*(lane.fits for lane in moving))
        finite = all(lane.finite for lane in moving)
        return [Lane(o, b, n, fits, finite=finite) for o, b, n in zip(order, bits, nan, strict=True)]

    def _whole_cast(self, kept: Cast, item: Value, source: str, shape: tuple[Any, ...]) -> Value:
        """Whole numbers or truths in another such dtype; what a narrower dtype makes of them is not known, unless they came from it."""
        if kept.to == "bool" or is_within(source, kept.to):
            result = self.add(kept, item, shape=shape, dtype=kept.to)
            self.widened[result] = (item, source)
            return result
        origin, dtype = self.widened.get(item, (item, source))
        return origin if dtype == kept.to else self.function(f"{kept} of {source}", item, shape=shape, dtype=kept.to)

    def _flag_of_moved(self, lane: Lane) -> Value:
        """The flag of a number; below every other where the number is, as padding is in a max pool."""
        return self.scalar(-math.inf) if self.style.pools and lane.number == -math.inf and lane.nan is None else self.flag_of(lane)

    def _cast(self, kept: Operator, item: Lane | Value, source: TensorType, type: TensorType, text: str) -> Lane | Value:
        target = type.dtype
        if not isinstance(item, Lane):
            if item in self.numbers or source.dtype in INTEGER_FORMATS or source.dtype == "bool":
                lane = self.lane(item, source)
                if target in lane.fits:
                    return self.rounded_to(lane, target)
            bits = self.function(f"{kept} of {source.dtype}", item, shape=type.shape)
            return self.computed(bits, wider(target), may_be_nan=False)
        if target == "bool":
            return self.as_truth(item, source)
        if target in FLOAT_FORMATS:
            if item.weak or target in item.fits:
                return self.rounded_to(item, target)
            lane = self.computed(self.function(f"{kept}", item.bits, shape=type.shape), wider(target))
            if not self.style.rounding:
                return lane
            return replace(lane, order=self.function(f"{ROUNDING}{target} of {source.dtype}", item.order, shape=type.shape), nan=item.nan)
        if target in item.fits:
            origin = self.made.operands(item.order.node) if isinstance(self.made.operator(item.order.node), Cast) else ()
            return origin[0] if origin and origin[0] is not None else self.add(kept, item.order, shape=type.shape, dtype=target)
        return self.function(f"{kept}", item.bits, shape=type.shape, dtype=target)

    def _extreme(self, kept: Operator, lane: Lane, types: tuple[TensorType, ...], text: str) -> list[Lane | Value]:
        name = type_name(kept)
        results: list[Lane | Value] = []
        if name not in ("ArgMax", "ArgMin"):
            made = self.made.add(kept, lane.order, types=[replace(t, dtype="float32" if i == 0 else "int64") for i, t in enumerate(types)])
            nan = None
            if lane.nan is not None:
                by = kept
                if name in _EXTREMES:
                    fields = kept.attributes
                    by = Amax(fields["axes"] if "axes" in fields else (fields["axis"],), fields["keep"])
                nan = self.add(by, lane.nan, shape=types[0].shape, dtype=self.flag)
            if isinstance(kept, Reduction) and kept.keep:
                bits = self.kept(kept, text, types[0]).bits  # type: ignore[union-attr]
            else:
                bits = self.unknown(f"bits of {text}.0", types[0].shape)
            results.append(Lane(made, bits, nan, lane.fits, finite=lane.finite))
        if name in _POSITIONS:
            keyed = lane.order
            if lane.nan is not None:
                beyond = self.unknown("beyond every number")
                if name.endswith("Min") or name.startswith("Min"):
                    beyond = self.add(Negative(), beyond, shape=())
                keyed = self.add(Where(), self.truth(lane.nan), beyond, lane.order, shape=self.shape(lane.order))
            position = self.made.add(
                kept, keyed, types=[replace(t, dtype=t.dtype if kind_of(t.dtype) == "int" else "float32") for t in types]
            )
            results.append(Value(position.node, len(types) - 1))
        return results

    def _choice(self, kept: Operator, plain: list[Any], type: TensorType) -> Lane:
        if type.weak:
            raise NotCovered(f"{kept} of Python numbers")
        lanes = [None if p is None else self.rounded_to(self.lane(*p), type.dtype) for p in plain]
        there = [lane for lane in lanes if lane is not None]
        order = self.add(kept, *(None if lane is None else lane.order for lane in lanes), shape=type.shape)
        nan = self.either([lane.nan for lane in there], type.shape)
        if len(there) == 2 and there[0].bits == there[1].bits:
            bits = there[0].bits
        else:
            absent = "".join("-" if lane is None else "x" for lane in lanes)
            bits = self.function(f"bits of {kept} {absent}", *(lane.bits for lane in there), shape=type.shape)
        fits = frozenset.intersection(*(lane.fits for lane in there))
        fits = fits if type_name(kept) not in ("Relu", "Relu6") else fits & EVERY
        return Lane(order, bits, nan, fits, finite=all(lane.finite for lane in there))

    def _comparison(self, kept: Operator, plain: list[Any], type: TensorType) -> Value:
        sources = [source for _, source in plain]
        common = promote(*sources)
        lanes = [self.lane(item, source) for item, source in plain]
        orders = [self._compared(lane, item, common, sources) for lane, (item, _) in zip(lanes, plain, strict=True)]
        truth = self.add(kept, *orders, shape=type.shape, dtype="bool")
        flags = [lane.nan for lane in lanes]
        if type_name(kept) != "NotEqual":
            return self.absent(flags, truth, type.shape)
        for flag in dict.fromkeys(flag for flag in flags if flag is not None):
            truth = self.add(LogicalOr(), truth, self.truth(flag), shape=type.shape, dtype="bool")
        return truth

    def _compared(self, lane: Lane, item: Any, common: str, sources: list[TensorType]) -> Value:
        """The place in the order of an operand of a comparison; a Python number that a dtype rounds may be compared before or after."""
        if not lane.weak:
            if common not in lane.fits:
                raise NotCovered("a comparison rounds an operand")
            return lane.order
        if lane.number is not None and common in lane.fits:
            return lane.order
        if lane.number is not None:
            return self.signed(self.unknown(f"{abs(lane.number)} as compared"), lane.number)
        return self.function("as compared", lane.bits, shape=())

    def _sign(self, kept: Operator, plain: list[Any], type: TensorType) -> Lane | Value | None:
        """torch's sign of NaN is 0."""
        lane = self.lane(*plain[0])
        shape, zero = type.shape, self.scalar(0.0)
        above, below = (
            self.absent([lane.nan], self.add(Greater(), *pair, shape=shape, dtype="bool"), shape)
            for pair in ((lane.order, zero), (zero, lane.order))
        )
        parts = []
        for part in ("order", "bits"):
            one, none, minus = (getattr(self.constant(number), part) for number in (1.0, 0.0, -1.0))
            parts.append(self.add(Where(), above, one, self.add(Where(), below, minus, none, shape=shape), shape=shape))
        return Lane(parts[0], parts[1], None, EVERY, finite=True, signs=(above, below))

    def _isnan(self, kept: Operator, plain: list[Any], type: TensorType) -> Lane | Value | None:
        lane = self.lane(*plain[0])
        if lane.nan is not None:
            return self.truth(lane.nan)
        return self.add(Full(type.shape, "bool"), self.scalar(False), shape=type.shape, dtype="bool")

    def _where(self, kept: Operator, plain: list[Any], type: TensorType) -> Lane | Value | None:
        condition = plain[0][0]
        a, b = (self.rounded_to(self.lane(*p), type.dtype) for p in plain[1:])
        parts = [self.add(Where(), condition, *pair, shape=type.shape) for pair in ((a.order, b.order), (a.bits, b.bits))]
        nan = None
        if a.nan is not None or b.nan is not None:
            flags = [self.never() if lane.nan is None else lane.nan for lane in (a, b)]
            nan = self.add(Where(), condition, *flags, shape=type.shape, dtype=self.flag)
        return Lane(parts[0], parts[1], nan, a.fits & b.fits, finite=a.finite and b.finite)


__all__ = ["Lanes", "chooses", "has_pools", "is_ordered", "only_chooses"]
