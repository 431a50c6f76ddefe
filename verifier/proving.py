"""The proof of a rule: every case for all sizes; bit for bit where the rule says so; wrapping where integers are concerned."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from graphs.graph import Graph
from graphs.trace import TraceError
from operators.operator import Effect, Operator, ShapeError, kind_of
from operators.sources import Input
from rewrites.cases import Case, TracedCase, attribute_facts, cases, size_facts, trace_case
from rewrites.rule import Change, Equality, Rule
from verifier import forms
from verifier.bit_proof import prove_bits
from verifier.bits import FLOAT_FORMATS, INTEGER_FORMATS, NotCovered
from verifier.instances import Ground, allowed_dtypes
from verifier.lanes import holds_whole
from verifier.proof.bounded import prove_bounded
from verifier.proof.conditions import bounds_from
from verifier.proof.explain import explain
from verifier.proof.prove import UNDECIDED, VACUOUS, Proof
from verifier.proof.rules import prove_case
from verifier.selection import OPEN, VALUES, Bits, Known, computes, prove_selection, prove_traced
from verifier.sizes import flattened
from verifier.wrapping import BY_POSITION, MOVES, may_wrap, wraps

_SECONDS_PER_CASE = 10.0
_SECONDS_OF_BITS = 1.0
_FLOATS = re.compile("|".join(sorted(FLOAT_FORMATS, key=len, reverse=True)))
_WRAPPING = "equal for all sizes over whole numbers that do not wrap; with wrapping only tested"


@dataclass
class Proofs:
    """What the proofs came to: `proved`, or the first thing that is open."""

    proved: bool = False
    reason: str = ""
    scope: list[str] = field(default_factory=list)
    real: bool = False
    """Equal over the reals for all sizes, whatever else is open."""
    text: str = ""
    bounded: str = ""
    """The scope of a proof at all small sizes, where there is no other."""


def prove_all(rule: type[Rule], grounds: dict[Case, Ground], deadline: float) -> Proofs:
    """The proof of every case, up to the first that is open; cases that no sizes satisfy are left out."""
    result = Proofs(real=True)
    covered: set[str] = set()
    known: Known = {}
    for case in cases(rule):
        ground = grounds.get(case) or Ground(rule, case, 0)
        traced = ground.trace if not isinstance(ground.trace, Exception) else None
        if traced is None:
            return Proofs(reason=f"the rule cannot be traced: {' '.join(str(ground.trace).split())}")
        where = f" (case {case})" if str(case) else ""
        reason = _impure(traced) or _open_shapes(ground, deadline)
        if reason:
            return Proofs(reason=reason + where)
        proof = prove_case(traced, timeout=max(0.1, min(_SECONDS_PER_CASE, deadline - time.monotonic())))
        if proof.status == VACUOUS:
            continue
        if proof.proved:
            proof = _in_other_dtypes(rule, traced, proof, deadline)
        beyond = _beyond_reals(traced, rule, deadline, known) if proof.proved else Bits(_why(proof))
        if proof.proved and beyond.left_open in (OPEN, VALUES) and Change.SIGNED_ZERO in rule.equality.changes and computes(traced):
            beyond = prove_selection(rule, traced, deadline, rounding=True, known=known, equal_over_reals=True)
        if beyond.left_open:
            bits = _bits(traced, rule, deadline)
            if bits is not None:
                covered.add(bits)
                continue
            if proof.proved:
                return Proofs(reason=beyond.left_open + where, real=True, text=result.text + _text(proof))
            return Proofs(reason=beyond.left_open + where, text=_text(proof), bounded=_bounded(rule, grounds, deadline))
        result.text += _text(proof)
        covered.update(proof.scope)
        covered.update(beyond.scope)
        covered.update(_narrowings(traced))
        covered.add("bit for bit" if rule.equality.bitwise else "over the reals")
    if not covered:
        return Proofs(reason="no case has sizes")
    if "all sizes ≥ 1" in covered:
        covered.discard("all sizes ≥ 0")
    result.proved = True
    result.scope = sorted(covered)
    return result


def _in_other_dtypes(rule: type[Rule], traced: TracedCase, proof: Proof, deadline: float) -> Proof:
    """The proof, or the first that fails among those of the case in floating dtypes in which other operators are traced."""
    proved = {_operators_but_dtypes(traced)}
    try:
        for other in _in_floating_dtypes(rule, traced):
            if _output_dtypes(other.pattern) != _output_dtypes(other.replacement):
                return replace(proof, status=UNDECIDED, reason=_unlike(other))
            look = _operators_but_dtypes(other)
            if look not in proved:
                proved.add(look)
                own = prove_case(other, timeout=max(0.1, min(_SECONDS_PER_CASE, deadline - time.monotonic())))
                if not own.proved:
                    dtypes = sorted({t.dtype for node in other.pattern.inputs for t in other.pattern.types(node)})
                    return replace(own, status=UNDECIDED, reason=f"{own.reason} (on {', '.join(dtypes)})")
                proof = replace(proof, scope=tuple(dict.fromkeys([*proof.scope, *own.scope])))
    except (ShapeError, TraceError) as error:
        return replace(proof, status=UNDECIDED, reason=f"the rule cannot be traced on every dtype: {error}")
    return proof


def _is_alike_in_all_dtypes(rule: type[Rule], traced: TracedCase) -> bool:
    try:
        return {_operators_but_dtypes(other) for other in _in_floating_dtypes(rule, traced)} <= {_operators_but_dtypes(traced)}
    except (ShapeError, TraceError):
        return False


def _output_dtypes(graph: Graph) -> list[str]:
    return [graph.type(value).dtype for value in graph.outputs]


def _unlike(traced: TracedCase) -> str:
    dtypes = sorted({t.dtype for node in traced.pattern.inputs for t in traced.pattern.types(node) if not t.weak})
    outputs = " and ".join(", ".join(_output_dtypes(graph)) for graph in (traced.pattern, traced.replacement))
    return f"on {', '.join(dtypes)} the sides give {outputs}"


def _in_floating_dtypes(rule: type[Rule], traced: TracedCase) -> Iterator[TracedCase]:
    """The case traced in each floating dtype that the rule's tensors may have."""
    for dtype in FLOAT_FORMATS:
        named = {v.name: dtype for v in rule.signature().tensors if dtype in allowed_dtypes(v)}
        if named:
            yield trace_case(rule, traced.case, named)


def _operators_but_dtypes(traced: TracedCase) -> str:
    """Both sides as text in which floating dtypes have one name, as they have over the reals."""
    return _FLOATS.sub("float", "\n".join(forms.text(graph) for graph in (traced.pattern, traced.replacement)))


def _bounded(rule: type[Rule], grounds: dict[Case, Ground], deadline: float) -> str:
    """The scope of a proof at all small sizes of every case, over the reals; nothing where there is none."""
    scopes: dict[str, None] = {}
    if rule.equality.bitwise:
        return ""
    for case in cases(rule):
        ground = grounds.get(case) or Ground(rule, case, 0)
        traced = ground.trace
        if isinstance(traced, Exception) or _impure(traced) or wraps(traced):
            return ""
        if [traced.pattern.type(v).dtype for v in traced.pattern.outputs] != [
            traced.replacement.type(v).dtype for v in traced.replacement.outputs
        ]:
            return ""
        if not _is_alike_in_all_dtypes(rule, traced):
            return ""
        bounds = [bound for condition in traced.value_conditions for bound in bounds_from(condition)]
        seconds = max(0.1, min(_SECONDS_PER_CASE, deadline - time.monotonic()))
        proof = prove_bounded(
            traced.pattern, traced.replacement, traced.facts, bounds, traced.replacement_requires, timeout=seconds,
            where_defined=Change.NAN_INF in rule.equality.changes,
        )  # fmt: skip
        if not proof.proved:
            return ""
        scopes.update(dict.fromkeys(proof.scope))
    return "; ".join(scopes)


def _why(proof: Any) -> str:
    unmatched = f": {' and '.join(proof.unmatched)}" if proof.unmatched else ""
    return f"no proof for all sizes: {proof.reason}{unmatched}"


def _text(proof: Proof) -> str:
    return explain(proof) + "\n\n"


def _narrowings(traced: TracedCase) -> list[str]:
    """Where the proof speaks only of a part of what torch accepts: statements that do not stand in the rule's conditions."""
    known = set(flattened([*attribute_facts(traced.rule), *size_facts(traced.rule, traced.case)]))
    return [f"where {part}" for part in flattened(traced.narrowed) if part not in known]


def _impure(traced: TracedCase) -> str:
    left, right = forms.effects_of(traced)
    for side, effect in (("pattern", left), ("replacement", right)):
        if effect & (Effect.RANDOM | Effect.UPDATES_BUFFER | Effect.UNKNOWN):
            return f"the {side} {effect}, which a proof over elements does not cover"
    return ""


def _open_shapes(ground: Ground, deadline: float) -> str:
    shapes = forms.agreement(ground, deadline)
    return "" if shapes.agreed else f"shapes and dtypes do not agree for all sizes: {shapes.problem}"


def _bits(traced: TracedCase, rule: type[Rule], deadline: float) -> str | None:
    """The scope of a bit-precise proof for all dtypes of the rule; None where there is none (or none is asked for)."""
    tensors = rule.signature().tensors
    kinds = {kind_of(dtype) for variable in tensors for dtype in allowed_dtypes(variable)} - {"bool"}
    if kinds == {"float"} and not rule.equality.bitwise:
        return None
    dtypes = [dtype for dtype in (*INTEGER_FORMATS, *FLOAT_FORMATS) if any(dtype in allowed_dtypes(v) for v in tensors)]
    if not dtypes or "complex" in kinds:
        return None
    for dtype in dtypes:
        if dtype in FLOAT_FORMATS and not rule.equality.bitwise:
            return None
        try:  # casts differ from dtype to dtype
            own = trace_case(rule, traced.case, {v.name: dtype for v in tensors if dtype in allowed_dtypes(v)})
        except (ShapeError, TraceError):
            return None
        if not _proved_bits(own, rule, dtype, deadline):
            return None
    return f"bit for bit in {', '.join(dtypes)}"


def _beyond_reals(traced: TracedCase, rule: type[Rule], deadline: float, known: Known) -> Bits:
    """What a proof over the reals leaves open for the rule, and the scope of what is proved besides."""
    operators = [graph.operator(node) for graph in (traced.pattern, traced.replacement) for node in graph.live()]
    kinds = {kind_of(dtype) for v in rule.signature().tensors for dtype in allowed_dtypes(v)}
    reason = _open_for_integers(traced, rule, deadline)
    if reason:
        return Bits(reason)
    if not rule.equality.bitwise or not rule.signature().tensors or not kinds & {"float", "complex"} or all(map(_moves, operators)):
        return Bits("")
    return prove_selection(rule, traced, deadline, known=known, equal_over_reals=True)


def _open_for_integers(traced: TracedCase, rule: type[Rule], deadline: float) -> str:
    """What is open where the tensors hold whole numbers; nothing when they wrap alike on both sides, or hold none.

    Without casts all whole dtypes are alike where polynomials are concerned.
    """
    tensors = rule.signature().tensors
    whole_inputs = any(set(INTEGER_FORMATS) & set(allowed_dtypes(v)) for v in tensors)
    if not whole_inputs and (wraps(traced)):
        return _WRAPPING
    for dtype in INTEGER_FORMATS:
        named = {v.name: dtype for v in tensors if dtype in allowed_dtypes(v)}
        if not named:
            continue
        try:
            whole = trace_case(rule, traced.case, named)
        except ShapeError:
            continue
        except TraceError as error:
            return f"the rule cannot be traced on {dtype}: {error}"
        if _output_dtypes(whole.pattern) != _output_dtypes(whole.replacement):
            return _unlike(whole)
        if _rounds_whole_numbers(whole, rule.equality):
            return "equal for all sizes over whole numbers that are not rounded; with rounding only tested"
        if _operators(whole) != _operators(traced):
            proof = prove_case(whole, timeout=max(0.1, min(_SECONDS_PER_CASE, deadline - time.monotonic())))
            if not proof.proved:
                return f"{_why(proof)} (on {dtype})"
        if not wraps(whole):
            if any(name.startswith("Cast") for name in _operators(whole)):
                continue
            break
        if _proved_bits(whole, rule, dtype, deadline):
            continue
        if not _only_casts(whole) or prove_traced(whole, Equality.BITWISE, deadline).left_open:
            return _WRAPPING
    return ""


def _rounds_whole_numbers(traced: TracedCase, equality: Equality) -> bool:
    """Whole numbers are rounded to floating-point ones where that is no mere rounding: bits count, or the outcome is whole or a truth."""
    outcomes = {kind_of(dtype) for dtype in _output_dtypes(traced.pattern)}
    if not equality.bitwise and outcomes == {"float"}:
        return False
    for graph in (traced.pattern, traced.replacement):
        for node in graph.live():
            if type(graph.operator(node)).__name__ in BY_POSITION:
                continue
            to = [t.dtype for t in graph.types(node) if t.dtype in FLOAT_FORMATS]
            operands = [graph.type(value) for value in graph.operands(node) if value is not None]
            whole = [t.dtype for t in operands if not t.weak and t.dtype in INTEGER_FORMATS]
            if any(not holds_whole(source, target) for source in whole for target in to):
                return True
    return False


def _only_casts(traced: TracedCase) -> bool:
    """Whole numbers are moved and cast, and nothing else."""
    operators = [graph.operator(node) for graph in (traced.pattern, traced.replacement) for node in graph.live()]
    return all(_moves(o) or type(o).__name__ == "Cast" for o in operators)


def _operators(traced: TracedCase) -> list[str]:
    return [str(g.operator(n)) for g in (traced.pattern, traced.replacement) for n in g.network if not isinstance(g.operator(n), Input)]


def _proved_bits(traced: TracedCase, rule: type[Rule], dtype: str, deadline: float) -> bool:
    seconds = min(_SECONDS_OF_BITS, deadline - time.monotonic())
    try:
        return seconds > 0 and prove_bits(traced, rule.equality, dtype, milliseconds=int(1000 * seconds) + 1)
    except NotCovered:
        return False


def _moves(operator: Operator) -> bool:
    """Every element of the output is an element of an operand, or a number."""
    return type(operator).__name__ in MOVES


__all__ = ["Proofs", "may_wrap", "prove_all"]
