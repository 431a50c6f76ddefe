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
from operators.sources import Scalar
from rewrites.cases import TracedCase, trace_case
from rewrites.rule import Change, Equality, Rule
from rewrites.signature import RealVariable
from verifier.bits import FLOAT_FORMATS, NotCovered, live
from verifier.instances import allowed_dtypes
from verifier.lane_operators import Lanes, has_pools, is_ordered
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


def prove_selection(rule: type[Rule], traced: TracedCase, deadline: float) -> Bits:
    """What is proved of the case's bits in every floating dtype that the rule's tensors may have."""
    answer = Bits(BIT_FOR_BIT)
    seen: set[str] = set()
    for retraced in per_dtype(rule, traced):
        look = _look(retraced)
        if look not in seen:
            seen.add(look)
            answer = answer & prove_traced(retraced, rule.equality, deadline)
        if answer.left_open == OPEN:
            break
    return answer


def per_dtype(rule: type[Rule], traced: TracedCase) -> Iterator[TracedCase]:
    """The case traced anew for every floating dtype of the rule's tensors."""
    tensors = [v for v in rule.signature().tensors if any(kind_of(d) == "float" for d in allowed_dtypes(v))]
    for dtype in FLOAT_FORMATS:
        dtypes = {v.name: dtype for v in tensors if dtype in allowed_dtypes(v) and len(allowed_dtypes(v)) > 1}
        if dtypes:
            yield trace_case(rule, traced.case, dtypes)
    if all(len(allowed_dtypes(v)) == 1 for v in tensors):
        yield traced


def _look(traced: TracedCase) -> str:
    """All that may differ between the traces in two dtypes, as text."""
    parts = []
    casts = False
    dtypes = {t.dtype for graph in (traced.pattern, traced.replacement) for node in graph for t in graph.types(node) if not t.weak}
    floats = sorted(dtypes & set(FLOAT_FORMATS))
    for graph in (traced.pattern, traced.replacement):
        for node in graph.topological_order():
            kept = graph.operator(node)
            casts |= type(kept).__name__ == "Cast"
            parts.append(f"{node} {kept} {graph.operands(node)}")
            if isinstance(kept, Scalar) and isinstance(kept.value, (int, float)):
                parts.append(str([holds(float(kept.value), dtype) for dtype in floats]))
    text = "\n".join(parts)
    return text if casts or len(floats) != 1 else text.replace(floats[0], "the dtype")


def prove_traced(traced: TracedCase, equality: Equality, deadline: float, seconds: float = 2.0) -> Bits:
    """What is proved of the bits of one traced case; each attempt takes some seconds at most."""
    try:
        with collecting_obligations(), taken_as_one(traced.case.units):
            return _prove(traced, equality, deadline, seconds)
    except NotCovered:
        return Bits(OPEN)


def _prove(traced: TracedCase, equality: Equality, deadline: float, seconds: float) -> Bits:
    graphs = (traced.pattern, traced.replacement)
    style = Style(any(map(has_pools, graphs)), any(map(is_ordered, graphs)), False, Change.NAN_INF in equality.changes)

    def equal(style: Style, part: str) -> frozenset[str] | None:
        left = deadline - time.monotonic()
        return _equal(traced, style, part, min(seconds, left)) if left > 0 else None

    bits = equal(style, "bits")
    if bits is None and _computes(traced):
        style = replace(style, signs=True)
        bits = equal(style, "bits")
    if bits is not None:
        return Bits(BIT_FOR_BIT, bits)
    order = equal(style, "order")
    if order is None:
        order = equal(style, "order of numbers")
    if order is None:
        return Bits(OPEN)
    nan = equal(style, "nan")
    if nan is None:
        return Bits(VALUES, order)
    return Bits(BIT_FOR_BIT if Change.SIGNED_ZERO in equality.changes else ZEROS, order | nan)


def _computes(traced: TracedCase) -> bool:
    """Sums, products or quotients are computed."""
    names = {type(graph.operator(node)).__name__ for graph in (traced.pattern, traced.replacement) for node in live(graph)}
    return bool(names & {"Add", "Subtract", "Multiply", "Divide"})


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
    bounds = [*_bounds(traced), *(Bound(">=", ((name, Fraction(1)),)) for name in _flags(sides) if style.pools)]
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


def _bounds(traced: TracedCase) -> list[Bound]:
    """What the conditions say of elements; of real attributes only what rounding to a dtype keeps."""
    reals = {v.name for v in traced.rule.signature().variables if isinstance(v, RealVariable)}
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


__all__ = ["BIT_FOR_BIT", "OPEN", "VALUES", "ZEROS", "Bits", "per_dtype", "prove_selection", "prove_traced"]
