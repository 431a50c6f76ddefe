"""Proofs that both sides of a rule give the same bits, for all sizes: by what they choose, move, compare and negate.

Both sides become graphs over the reals (see `verifier.lanes`), and these are proved equal for all sizes like any others. Equal bits are
everything; where the rule lets the sign of a zero change, equal places in the order and NaN at the same places suffice; where it lets NaN
and infinities change, NaN is not followed from the inputs (infinities are covered all the same).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from graphs.graph import Graph, Value
from operators.comparison import Where
from operators.operator import collecting_obligations, kind_of, taken_as_one
from operators.sources import Constant, Input, Scalar
from rewrites.cases import TracedCase, trace_case
from rewrites.rule import Change, Equality, Rule
from rewrites.signature import RealVariable
from verifier.bits import FLOAT_FORMATS, NotCovered
from verifier.instances import allowed_dtypes
from verifier.lane_operators import Lanes, chooses, has_pools, is_ordered, only_chooses
from verifier.lanes import Lane, Style, holds
from verifier.proof.conditions import bounds_from
from verifier.proof.knowledge import Bound
from verifier.proof.prove import prove

BIT_FOR_BIT = ""
ZEROS = "equal for all sizes and all numbers, NaN and infinities, but for the signs of zeros, which are only tested"
VALUES = "equal over the reals for all sizes; where NaN arises is only tested"
OPEN = "equal over the reals for all sizes; bit for bit only tested"
_ORDER = (BIT_FOR_BIT, ZEROS, VALUES, OPEN)


@dataclass(frozen=True)
class Bits:
    """What is proved of the bits of a case: `left_open` says what is not (nothing when all is), `scope` for which sizes."""

    left_open: str
    scope: frozenset[str] = frozenset()

    def __and__(self, other: Bits) -> Bits:
        return Bits(max(self.left_open, other.left_open, key=_ORDER.index), self.scope | other.scope)


Known = dict[tuple[str, bool], Bits]
"""Answers for pointwise cases by their operators: what holds element by element holds for every shape."""


def prove_selection(
    rule: type[Rule],
    traced: TracedCase,
    deadline: float,
    rounding: bool = False,
    known: Known | None = None,
    equal_over_reals: bool = False,
) -> Bits:
    """What is proved of the case's bits in every floating dtype that the rule's tensors may have.

    With `rounding`, sums and products are rounded real ones; else they are unknown functions (which is quicker). `known` keeps answers
    from one case of the rule to the next, and `equal_over_reals` says that the sides of this case are proved equal over the reals.
    """
    look = (_look(traced), rounding)
    if known is not None and look in known and _is_pointwise(traced):
        return known[look]
    answer = Bits(BIT_FOR_BIT)
    seen: set[str] = set()
    for retraced in per_dtype(rule, traced):
        text = _look(retraced)
        if text not in seen:
            seen.add(text)
            answer = answer & prove_traced(retraced, rule.equality, deadline, rounding, equal_over_reals)
        if answer.left_open == OPEN:
            break
    if known is not None:
        known[look] = answer
    return answer


def _is_pointwise(traced: TracedCase) -> bool:
    graphs = (traced.pattern, traced.replacement)
    operators = [graph.operator(node) for graph in graphs for node in graph]
    return all(o.pointwise or isinstance(o, (Input, Scalar)) for o in operators)


def per_dtype(rule: type[Rule], traced: TracedCase) -> Iterator[TracedCase]:
    """The case traced in every floating dtype of the rule's tensors; once where all the traces are alike.

    A trace that has no casts and is alike in float32 and float16 is alike in the others: a change to them would be a cast.
    """
    tensors = [v for v in rule.signature().tensors if any(kind_of(d) == "float" for d in allowed_dtypes(v))]
    free = [v for v in tensors if len(allowed_dtypes(v)) > 1]
    if not free:
        yield traced
        return

    def traced_in(dtype: str) -> TracedCase:
        return trace_case(rule, traced.case, {v.name: dtype for v in free if dtype in allowed_dtypes(v)})

    if all(set(FLOAT_FORMATS) <= set(allowed_dtypes(v)) for v in free):
        narrow = traced_in("float16")
        if not _depends_on_dtype(narrow) and not _depends_on_dtype(traced) and _look(narrow) == _look(traced):
            yield traced
            return
    for dtype in FLOAT_FORMATS:
        if any(dtype in allowed_dtypes(v) for v in free):
            yield traced_in(dtype)


def _depends_on_dtype(traced: TracedCase) -> bool:
    """There are casts, tensors of constants, or numbers that some dtypes hold exactly and others do not."""
    for graph in (traced.pattern, traced.replacement):
        for node in graph:
            kept = graph.operator(node)
            if type(kept).__name__ in ("Cast", "Full") or isinstance(kept, Constant):
                return True
            number = kept.value if isinstance(kept, Scalar) and isinstance(kept.value, (int, float)) else 0
            if len({holds(float(number), dtype) for dtype in FLOAT_FORMATS}) > 1:
                return True
    return False


def _look(traced: TracedCase) -> str:
    """All but the shapes that may differ between the traces in two dtypes, as text."""
    parts = []
    casts = False
    dtypes = {t.dtype for graph in (traced.pattern, traced.replacement) for node in graph for t in graph.types(node) if not t.weak}
    floats = sorted(dtypes & set(FLOAT_FORMATS))
    for graph in (traced.pattern, traced.replacement):
        for node in graph.topological_order():
            kept = graph.operator(node)
            casts |= type(kept).__name__ == "Cast"
            name = f"%{kept.name}" if isinstance(kept, Input) else str(kept)
            parts.append(f"{node} {name} {graph.operands(node)} {[(t.dtype, t.weak) for t in graph.types(node)]}")
            if isinstance(kept, Scalar) and isinstance(kept.value, (int, float)):
                parts.append(str([holds(float(kept.value), dtype) for dtype in floats]))
    text = "\n".join([*parts, *(str(f.sentence) for f in traced.value_conditions)])
    return text if casts or len(floats) != 1 else text.replace(floats[0], "the dtype")


def prove_traced(traced: TracedCase, equality: Equality, deadline: float, rounding: bool = False, equal_over_reals: bool = False) -> Bits:
    """What is proved of the bits of one traced case; each attempt takes some seconds at most."""
    try:
        with collecting_obligations(), taken_as_one(traced.case.units):
            return _prove(traced, equality, deadline, rounding, equal_over_reals)
    except NotCovered:
        return Bits(OPEN)


def _prove(traced: TracedCase, equality: Equality, deadline: float, rounding: bool, equal_over_reals: bool) -> Bits:
    graphs = (traced.pattern, traced.replacement)
    style = Style(any(map(has_pools, graphs)), rounding or any(map(is_ordered, graphs)), rounding, Change.NAN_INF in equality.changes)

    seconds = 3.0 if style.pools else 1.0

    def equal(part: str) -> frozenset[str] | None:
        left = deadline - time.monotonic()
        return _equal(traced, style, part, min(seconds, left)) if left > 0 else None

    zeros_count = Change.SIGNED_ZERO not in equality.changes
    bits = equal("bits") if not rounding and (zeros_count or not any(map(chooses, graphs))) else None
    if bits is not None:
        return Bits(BIT_FOR_BIT, bits)
    settled = equal_over_reals and not rounding and all(map(only_chooses, graphs)) and not _reals(traced)
    order = frozenset() if settled else equal("order")
    if order is None:
        order = equal("order of numbers")
    if order is None:
        bits = None if rounding or zeros_count else equal("bits")
        return Bits(OPEN) if bits is None else Bits(BIT_FOR_BIT, bits)
    nan = equal("nan")
    if nan is None:
        return Bits(VALUES, order)
    return Bits(ZEROS if zeros_count else BIT_FOR_BIT, order | nan)


def computes(traced: TracedCase) -> bool:
    """Something is computed that rounds."""
    return any(
        type(graph.operator(node)).__name__ in ("Add", "Subtract", "Multiply", "Square", "Cast")
        for graph in (traced.pattern, traced.replacement)
        for node in graph.live()
    )


def _equal(traced: TracedCase, style: Style, part: str, seconds: float) -> frozenset[str] | None:
    """The scope in which one part of the outputs of both sides is proved equal; None where it is not."""
    sides = [Lanes(graph, style) for graph in (traced.pattern, traced.replacement)]
    outputs: list[list[Value]] = [[], []]
    for pair in zip(*(side.values for side in sides), strict=True):
        lanes = [isinstance(item, Lane) for item in pair]
        if lanes[0] is not lanes[1]:
            raise NotCovered("outputs of different kinds")
        if part == "nan" and (not lanes[0] or all(isinstance(item, Lane) and item.nan is None for item in pair)):
            continue
        for side, item, found in zip(sides, pair, outputs, strict=True):
            found.append(_part(side, item, part) if isinstance(item, Lane) else item)
    if not outputs[0]:
        return frozenset()
    graphs: list[Graph] = []
    for side, found in zip(sides, outputs, strict=True):
        side.made.outputs = found
        graphs.append(side.made)
    bounds = [
        *_bounds(traced),
        *(Bound(">=", ((name, Fraction(1)),)) for name in _flags(sides) if style.pools),
        Bound(">", (("infinity", Fraction(1)),)),
    ]
    proof = prove(graphs[0], graphs[1], traced.facts, bounds, (), seconds)
    return frozenset(proof.scope) if proof.proved else None


def _part(side: Lanes, lane: Lane, part: str) -> Value:
    if part == "bits":
        return lane.bits
    if part == "nan":
        return side.flag_of(lane)
    if part == "order" or lane.nan is None:
        return lane.order
    shape = side.shape(lane.order)
    return side.add(Where(), side.truth(lane.nan), side.scalar(0.0), lane.order, shape=shape)


def _flags(sides: list[Lanes]) -> set[str]:
    return {name for side in sides for name in side.unknowns if name.startswith("NaN in ")}


def _reals(traced: TracedCase) -> set[str]:
    """The real attributes of which the conditions speak."""
    reals = {v.name for v in traced.rule.signature().variables if isinstance(v, RealVariable)}
    return reals & {name for condition in traced.value_conditions for name in condition.names}


def _bounds(traced: TracedCase) -> list[Bound]:
    """What the conditions say of elements; of real attributes only what rounding to a dtype keeps."""
    reals = _reals(traced)
    found = []
    for bound in (b for condition in traced.value_conditions for b in bounds_from(condition)):
        if not reals & {name for name, _ in bound.coefficients}:
            found.append(bound)
        elif bound.relation in (">", ">=") and _is_kept_by_rounding(bound):
            found.append(replace(bound, relation=">="))
    return found


def _is_kept_by_rounding(bound: Bound) -> bool:
    """The bound compares two numbers, or one with a number that every dtype has."""
    sizes = [abs(c) for _, c in bound.coefficients]
    if len(sizes) == 2:
        return not bound.constant and sizes[0] == sizes[1] and bound.coefficients[0][1] == -bound.coefficients[1][1]
    return len(sizes) == 1 and all(holds(float(bound.constant / sizes[0]), dtype) for dtype in ("float16", "bfloat16"))


__all__ = ["BIT_FOR_BIT", "OPEN", "VALUES", "ZEROS", "Bits", "computes", "per_dtype", "prove_selection", "prove_traced"]
