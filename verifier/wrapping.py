"""Whether whole numbers may leave their dtype's range where that matters: what wraps, what reads it, what ranges say."""

from __future__ import annotations

from collections.abc import Sequence

from graphs.graph import Graph, Value
from operators.expressions import Dim, Expression, product
from operators.formulas import Truth, at_least_zero
from operators.operator import Operator, TensorType, kind_of
from operators.sources import Scalar
from rewrites.cases import TracedCase
from verifier.bits import INTEGER_FORMATS
from verifier.proof.facts import size_facts
from verifier.proof.knowledge import Knowledge
from verifier.proof.solver import OutOfTime, clock

_LEAST, _MOST = -(2**63), 2**63 - 1
_SECONDS = 1.0

_EXACT = {"float64": 2**53, "float32": 2**24, "float16": 2**11, "bfloat16": 2**8}
"""Whole numbers up to these are numbers of the floating dtype."""

Range = tuple[Dim, Dim]


def wraps(traced: TracedCase) -> bool:
    """Whole numbers may wrap in one of the sides of a traced case, where something other than a polynomial reads them."""
    numbers = _numbers_beside_longs(traced.pattern)
    sizes = [t for graph in (traced.pattern, traced.replacement) for node in graph for type in graph.types(node) for t in type.shape]
    facts: list[Truth] = [*traced.facts, *size_facts(traced.pattern)]
    facts += [at_least_zero(_MOST - size) for size in dict.fromkeys(sizes) if isinstance(size, Expression)]
    facts += [fact for number in numbers for fact in (at_least_zero(_MOST - number), at_least_zero(number - _LEAST))]
    return any(may_wrap(graph, facts) for graph in (traced.pattern, traced.replacement))


def _numbers_beside_longs(graph: Graph) -> list[Expression]:
    """Sizes and attributes as operands beside int64 tensors: torch refuses those that int64 does not hold."""
    found: dict[Expression, None] = {}
    for node in graph.live():
        values = [value for value in graph.operands(node) if value is not None]
        if any(graph.type(value).dtype == "int64" and not graph.type(value).weak for value in values):
            for value in values:
                kept = graph.operator(value.node)
                if isinstance(kept, Scalar) and isinstance(kept.value, Expression):
                    found[kept.value] = None
    return list(found)


class _Ranges:
    """What is known of the least and the largest of the int64 numbers in a graph."""

    def __init__(self, graph: Graph, facts: Sequence[Truth]) -> None:
        self.graph = graph
        self.knowledge = Knowledge([fact for fact in facts if not isinstance(fact, bool)], seconds=_SECONDS)
        self.known: dict[Value, Range | None] = {}

    def proves(self, goal: Truth) -> bool:
        """The goal follows from what is known of sizes."""
        try:
            return goal is True or (goal is not False and clock() < self.knowledge.deadline and self.knowledge.proves(goal))
        except OutOfTime:
            return False

    def of(self, value: Value) -> Range | None:
        """The least and largest number of a value, where sizes say them."""
        if value not in self.known:
            self.known[value] = self._of(value)
        return self.known[value]

    def _of(self, value: Value) -> Range | None:
        kept, name = self.graph.operator(value.node), type(self.graph.operator(value.node)).__name__
        operands = [operand for operand in self.graph.operands(value.node) if operand is not None]
        if isinstance(kept, Scalar):
            number = int(kept.value) if isinstance(kept.value, float) and kept.value.is_integer() else kept.value
            return (number, number) if isinstance(number, (int, Expression)) and not isinstance(number, bool) else None
        if name == "Arange":
            fields = kept.attributes
            return (fields["start"], fields["stop"] - 1) if isinstance(fields["step"], int) and fields["step"] == 1 else None
        if name in _ONE_OPERAND:
            range_ = self.of(operands[0])
            return range_ if range_ is not None and self._keeps(range_, self.graph.type(operands[0]), self.graph.type(value)) else None
        if name == "Sum" and self.graph.type(operands[0]).dtype == "bool":
            shape = self.graph.type(operands[0]).shape
            return (0, product(shape[axis] for axis in kept.attributes["axes"]))
        ranges = [self.of(operand) for operand in operands]
        if name == "Clamp" and len(operands) == 3 and ranges[1] is not None and ranges[2] is not None:
            low, high = ranges[1][0], ranges[2][1]
            return (low, high) if self.proves(at_least_zero(ranges[2][0] - ranges[1][1])) else None
        whole = all(kind_of(self.graph.type(operand).dtype) == "int" for operand in operands)
        if whole and name in ("Add", "Subtract") and len(ranges) == 2 and ranges[0] is not None and ranges[1] is not None:
            (a, b), (c, d) = ranges[0], ranges[1]
            return (a + c, b + d) if name == "Add" else (a - d, b - c)
        return None

    def _keeps(self, range_: Range, before: TensorType, after: TensorType) -> bool:
        """Every whole number in the range is one of the dtype after, where that is a floating one."""
        most = _EXACT.get(after.dtype) if kind_of(before.dtype) == "int" else None
        return most is None or all(self.proves(at_least_zero(most - edge)) for edge in (range_[1], -range_[0]))

    def is_exact(self, node: int) -> bool:
        """The numbers that the node computes from exact ones do not wrap."""
        kept, (type_, *_) = self.graph.operator(node), self.graph.types(node)
        if type(kept).__name__ == "Cast" and kind_of(type_.dtype) == "int":
            return self._is_exact_cast(self.graph.operands(node)[0], type_.dtype)
        if type_.dtype != "int64":
            return False
        if type(kept).__name__ in ("FloorDivide", "TruncDivide"):
            divisor = self.graph.operands(node)[1]
            range_ = None if divisor is None else self.of(divisor)
            return range_ is not None and self.proves(at_least_zero(range_[0] - 1))
        return self.holds(Value(node))

    def _is_exact_cast(self, operand: Value | None, dtype: str) -> bool:
        """The dtype holds a value taken to whole numbers; the bounds of a floating one are rounded to its own dtype (bfloat16: a 256th)."""
        range_ = None if operand is None else self.of(operand)
        if range_ is None or not all(isinstance(edge, int) for edge in range_) or dtype not in INTEGER_FORMATS:
            return False
        bits, signed = INTEGER_FORMATS[dtype]
        least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        low, high = (edge + sign * (abs(edge) >> 8) for edge, sign in zip(range_, (-1, 1), strict=True) if isinstance(edge, int))
        return least <= low and high <= most

    def holds(self, value: Value) -> bool:
        """int64 holds the number."""
        range_ = self.of(value)
        return range_ is not None and self.proves(at_least_zero(range_[0] - _LEAST)) and self.proves(at_least_zero(_MOST - range_[1]))


_ONE_OPERAND = {
    "Reshape", "Permute", "Expand", "Slice", "Select", "Flip", "Roll", "Repeat", "Identity", "Copy", "Contiguous", "Detach",
    "Floor", "Ceil", "Trunc", "Round", "Cast",
}  # fmt: skip
"""What leaves its operand's whole limits."""


def may_wrap(graph: Graph, facts: Sequence[Truth] = ()) -> bool:
    """Whole numbers are computed that may leave their dtype's range, and something other than a polynomial reads them.

    An identity of polynomials over the whole numbers holds modulo any power of two; one with quotients or comparisons does not,
    nor one in which numbers that may have wrapped are taken to another dtype (by a cast, by promotion, by a sum in int64).
    `facts` are what is known of sizes; with them, numbers of int64 are followed by their ranges.
    """
    ranges = _Ranges(graph, facts) if facts else None
    computed: set[Value] = set()
    needed = graph.live()
    for node in graph.topological_order():
        if node not in needed:
            continue
        operator, name = graph.operator(node), type(graph.operator(node)).__name__
        values = [value for value in graph.operands(node) if value is not None]
        types = [graph.type(value) for value in values]
        if name not in _RING and not _widens(operator, types):
            longs = {type.dtype for type in types if not type.weak} == {"int64"}
            symbolic = [value for value in values if _is_symbolic(graph, value)]
            sizes = name not in _CHECKED and any(not (longs and ranges is not None and ranges.holds(value)) for value in symbolic)
            whole = any(kind_of(type.dtype) == "int" and not type.weak for type in types)
            if computed & set(values) or (sizes and whole):
                return True
        if name not in BY_POSITION and any(_converts(graph, node, value) for value in computed & set(values)):
            return True
        makes = any(kind_of(type.dtype) == "int" and not type.weak for type in graph.types(node))
        arithmetic = makes and name not in MOVES | _KEEPS_RANGE and not _widens(operator, types)
        if arithmetic and not computed & set(values) and ranges is not None and ranges.is_exact(node):
            continue
        if arithmetic or computed & set(values):
            computed |= {Value(node, output) for output, type in enumerate(graph.types(node)) if kind_of(type.dtype) == "int"}
    return False


def _converts(graph: Graph, node: int, value: Value) -> bool:
    """The node takes the value to another dtype."""
    return any(type.dtype != graph.type(value).dtype for type in graph.types(node))


BY_POSITION = {"Embedding", "Gather", "Index", "IndexSelect"}
"""Operators that read whole numbers as positions, which torch checks."""

_CHECKED = {"Clamp", "Where"}
"""Operators that torch refuses to run on a Python number beyond the dtype's range."""


def _is_symbolic(graph: Graph, value: Value) -> bool:
    """A size or attribute as a number, which may lie beyond the range of a narrow dtype."""
    operator = graph.operator(value.node)
    return isinstance(operator, Scalar) and isinstance(operator.value, Expression)


def _widens(operator: Operator, operands: Sequence[TensorType]) -> bool:
    """A cast between whole numbers (or from truths) that keeps every value."""
    if type(operator).__name__ != "Cast":
        return False
    limits = {
        "bool": (0, 1),
        **{
            name: ((-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1))
            for name, (bits, signed) in INTEGER_FORMATS.items()
        },
    }
    source, target = limits.get(operands[0].dtype), limits.get(operator.attributes["to"])
    return source is not None and target is not None and target[0] <= source[0] and source[1] <= target[1]


MOVES = {
    "Input", "Constant", "Scalar", "Full", "Cat", "Stack", "Split", "Unbind", "Pad", "Reshape", "Permute", "Expand", "Slice", "Select",
    "Flip", "Roll", "Repeat", "RepeatInterleave", "Identity", "Copy", "Contiguous", "Detach", "Shard", "Replicate", "AllGather", "Eye",
    "Arange", "Embedding", "Gather", "Index", "IndexSelect",
}  # fmt: skip
_KEEPS_RANGE = {
    "Maximum", "Minimum", "Clamp", "Relu", "Where", "Amax", "Amin", "MaxAlong", "MinAlong", "ArgMax", "ArgMin", "TopK", "OneHot",
    "Gather", "Index", "IndexSelect", "Embedding", "Remainder", "TruncRemainder", "Sign", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
    "BitwiseNot",
}  # fmt: skip
_RING = MOVES | {
    "Add",
    "Subtract",
    "Multiply",
    "Negative",
    "Square",
    "MatMul",
    "Linear",
    "Sum",
    "Einsum",
    "AddMatMul",
    "Conv1d",
    "Conv2d",
    "Conv3d",
}


__all__ = ["BY_POSITION", "MOVES", "may_wrap", "wraps"]
