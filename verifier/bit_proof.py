"""Pointwise rules bit by bit: each side as a Z3 term over floating-point numbers or bit vectors, and the proof that they are equal."""

from __future__ import annotations

import time
from typing import Any

from graphs.graph import Graph, Value
from operators.expressions import Expression, Symbol
from operators.formulas import Comparison
from operators.operator import Operator, kind_of, promote
from operators.sources import Constant, Input, Scalar
from rewrites.cases import TracedCase
from rewrites.rule import Change, Equality
from verifier.bits import INTEGER_FORMATS, BitAlgebra, NotCovered, Word
from verifier.proof.facts import flattened
from verifier.questions import unsatisfiable

_ARITHMETIC = {
    "Add", "Subtract", "Multiply", "Divide", "Reciprocal", "Negative", "Absolute", "Square", "Sqrt", "Floor", "Ceil", "Trunc", "Round",
    "Maximum", "Minimum", "Relu", "FloorDivide", "TruncDivide", "Remainder", "TruncRemainder", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
    "BitwiseNot",
}  # fmt: skip
_COMPARISONS = {"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"}
_FLOAT_ONLY_UNINTERPRETED = {"FloorDivide", "TruncDivide", "Remainder", "TruncRemainder"}
_CONNECTIVES = {
    "LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor", "LogicalNot": "Not",
    "BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor", "BitwiseNot": "Not",
}  # fmt: skip
"""Connectives of truths, as Z3 calls them."""
_SAME = {"Identity", "Copy", "Contiguous", "Detach", "Expand", "Full"}


def side_words(graph: Graph, algebra: BitAlgebra) -> list[Word]:
    """One element of each output of a pointwise graph.

    Raises: NotCovered for a graph that is not pointwise.
    """
    known: dict[Value, Word] = {}
    needed = graph.live()
    for node in graph.topological_order():
        if node in needed:
            operands = [known[value] for value in graph.operands(node) if value is not None]
            absent = [value is None for value in graph.operands(node)]
            known[Value(node)] = algebra.settled(_word(graph.operator(node), operands, absent, graph, node, algebra))
    return [known[value] for value in graph.outputs]


def _word(operator: Operator, words: list[Word], absent: list[bool], graph: Graph, node: int, algebra: BitAlgebra) -> Word:
    name = type(operator).__name__
    type_ = graph.types(node)[0]
    if isinstance(operator, Input):
        return algebra.unknown(operator.name, type_.dtype, type_.weak)
    if isinstance(operator, Constant):
        raise NotCovered("a constant tensor")
    if isinstance(operator, Scalar):
        return algebra.polynomial(operator.value) if isinstance(operator.value, Expression) else algebra.number(operator.value)
    if name == "Cast" and not algebra.floating and type_.dtype in (*INTEGER_FORMATS, "bool") and not algebra.is_foreign(words[0]):
        return _filled(words[0], type_.dtype, algebra)
    if name in _SAME:
        return _filled(words[0], type_.dtype, algebra) if name == "Full" else words[0]
    if not operator.pointwise:
        raise NotCovered(f"{name} is not pointwise")
    known = (algebra.dtype, "bool") if algebra.floating else (*INTEGER_FORMATS, "bool")
    if (type_.dtype not in known and not type_.weak) or any(map(algebra.is_foreign, words)):
        return algebra.uninterpreted(f"{operator} of {_dtypes(graph, node)}", words, type_.dtype)
    if name in _COMPARISONS:
        return algebra.comparison(name, words, promote(*(graph.type(v) for v in graph.operands(node) if v is not None)))
    bools = all(word.kind == "bool" for word in words)
    if name in _CONNECTIVES and (bools or (name.startswith("Logical") and not algebra.floating)):
        return Word(getattr(algebra.z3, _CONNECTIVES[name])(*(algebra.truth(word).term for word in words)), "bool")
    if name == "Where":
        return _chosen(words, type_.dtype, algebra)
    if name == "Clamp":
        return _clamped(words, absent, type_.dtype, algebra)
    if name in _ARITHMETIC and not bools and not (algebra.floating and name in _FLOAT_ONLY_UNINTERPRETED):
        return algebra.arithmetic(name, words, type_.dtype)
    return algebra.uninterpreted(f"{operator} of {_dtypes(graph, node)}", words, type_.dtype)


def _dtypes(graph: Graph, node: int) -> str:
    return ", ".join("-" if v is None else graph.type(v).dtype for v in graph.operands(node))


def _filled(word: Word, dtype: str, algebra: BitAlgebra) -> Word:
    if kind_of(dtype) == "bool":
        return algebra.truth(word)
    if not algebra.floating:
        return algebra.of_whole(algebra.lifted(word, algebra.whole(dtype)), dtype)
    if dtype != algebra.dtype:
        raise NotCovered(f"a tensor of {dtype} in a rule on {algebra.dtype}")
    return Word(algebra.lifted(word, algebra.sort), kind_of(dtype))


def _chosen(words: list[Word], dtype: str, algebra: BitAlgebra) -> Word:
    condition, a, b = words
    if a.kind == "bool" and b.kind == "bool":
        return Word(algebra.z3.If(condition.term, a.term, b.term), "bool")
    sort = algebra.sort if algebra.floating else algebra.whole(dtype)
    chosen = algebra.z3.If(condition.term, algebra.lifted(a, sort), algebra.lifted(b, sort))
    return Word(chosen, "float") if algebra.floating else algebra.of_whole(chosen, dtype)


def _clamped(words: list[Word], absent: list[bool], dtype: str, algebra: BitAlgebra) -> Word:
    bounds = iter(words[1:])
    result = words[0]
    for position, name in ((1, "Maximum"), (2, "Minimum")):
        if position < len(absent) and not absent[position]:
            bound = next(bounds)
            if result.weak:
                raise NotCovered("clamp of a number")
            if algebra.floating:
                result = Word(algebra._float(name, [result.term, algebra.lifted(bound, algebra.sort)]), result.kind)
            else:
                terms = [algebra.lifted(word, algebra.whole(dtype)) for word in (result, bound)]
                result = algebra.of_whole(algebra._integer(name, terms, INTEGER_FORMATS[dtype][1]), dtype)
    return result


def prove_bits(traced: TracedCase, equality: Equality, dtype: str, milliseconds: int = 4000) -> bool:
    """Both sides of a pointwise case give the same bits (but for the declared changes) in the dtype, whatever the elements.

    Raises: NotCovered for a rule that this does not speak about.
    """
    import z3

    limits = _limits(traced)
    algebra = BitAlgebra(dtype, deadline=time.monotonic() + milliseconds / 100, limits=limits)
    left, right = side_words(traced.pattern, algebra), side_words(traced.replacement, algebra)
    required = len(algebra.partial)
    side_words(traced.pattern, probe := BitAlgebra(dtype, deadline=0.0, limits=limits))
    from_pattern = algebra.partial[: len(probe.partial)]
    dtypes = [traced.pattern.type(value).dtype for value in traced.pattern.outputs]
    if dtypes != [traced.replacement.type(value).dtype for value in traced.replacement.outputs]:
        raise NotCovered("outputs of different dtypes")
    for a, b, own in zip(left, right, dtypes, strict=True):
        if a.kind != b.kind:
            raise NotCovered("outputs of different kinds")
        sort = algebra.whole(own) if a.kind == "int" and not algebra.floating and own in INTEGER_FORMATS else algebra.sort
        foreign = algebra.is_foreign(a) or algebra.is_foreign(b)
        one, other = (a.term, b.term) if a.kind == "bool" or foreign else (algebra.lifted(a, sort), algebra.lifted(b, sort))
        if foreign and (not (algebra.is_foreign(a) and algebra.is_foreign(b)) or one.sort() != other.sort()):
            raise NotCovered("outputs of different dtypes")
        goal = one == other if foreign else _same(one, other, a.kind, equality, _special_inputs(traced, algebra), z3)
        if z3.is_true(z3.simplify(goal)):
            continue
        asked = [
            *from_pattern,
            *algebra.ranges,
            *_conditions(traced, algebra),
            z3.Not(z3.And(goal, *algebra.partial[len(from_pattern) : required])),
        ]
        if not unsatisfiable(asked, bool(algebra.functions), milliseconds):
            return False
    return True


def _limits(traced: TracedCase) -> dict[str, tuple[int, int]]:
    """The least and the largest number of each size and attribute that the facts bound on both sides by a number."""
    low: dict[str, int] = {}
    high: dict[str, int] = {}
    for fact in flattened(traced.facts):
        if not isinstance(fact, Comparison) or fact.relation not in (">=", "=="):
            continue
        terms = dict(fact.expression.terms)
        number = terms.pop((), 0)
        if len(terms) != 1:
            continue
        ((monomial, coefficient),) = terms.items()
        if len(monomial) != 1 or not isinstance(monomial[0], Symbol):
            continue
        name = monomial[0].name
        if coefficient > 0 or fact.relation == "==":
            low[name] = max(low.get(name, -(2**63)), -(number // coefficient))
        if coefficient < 0 or fact.relation == "==":
            high[name] = min(high.get(name, 2**63 - 1), -(number // coefficient) if coefficient > 0 else number // -coefficient)
    return {name: (low[name], high[name]) for name in low if name in high}


def _conditions(traced: TracedCase, algebra: BitAlgebra) -> list[Any]:
    """The rule's conditions on elements, those that can be said on single elements; leaving one out only weakens what is assumed."""
    from verifier.conditions import statement_on

    terms = {}
    for graph in (traced.pattern, traced.replacement):
        for node in graph.inputs:
            operator = graph.operator(node)
            if isinstance(operator, Input):
                word = algebra.unknown(operator.name, graph.types(node)[0].dtype, graph.types(node)[0].weak)
                if not word.unsigned:  # Z3's comparisons of bit vectors are those of signed numbers
                    terms[operator.name] = word.term
    return [term for condition in traced.value_conditions if (term := statement_on(condition, terms)) is not None]


def _special_inputs(traced: TracedCase, algebra: BitAlgebra) -> list[Any]:
    """That an input is NaN or infinite, input by input."""
    operators = [traced.pattern.operator(node) for node in traced.pattern.inputs]
    types = [traced.pattern.types(node)[0] for node in traced.pattern.inputs]
    words = [
        algebra.unknown(operator.name, type_.dtype, type_.weak)
        for operator, type_ in zip(operators, types, strict=True)
        if isinstance(operator, Input) and algebra.floating and kind_of(type_.dtype) == "float"
    ]
    return [term for word in words for term in (algebra.z3.fpIsNaN(word.term), algebra.z3.fpIsInf(word.term))]


def _same(a: Any, b: Any, kind: str, equality: Equality, special: list[Any], z3: Any) -> Any:
    """The results are the same, but for what is allowed: NaN and infinities are lost, or come from `special` inputs or overflow."""
    if kind != "float":
        return a == b
    ways = [a == b]
    if Change.SIGNED_ZERO in equality.changes:
        ways.append(z3.fpEQ(a, b))
    if Change.NAN_INF in equality.changes:
        ways += [z3.fpIsNaN(a), z3.fpIsInf(a), *special]
        if Change.OVERFLOW in equality.changes:
            ways += [z3.fpIsNaN(b), z3.fpIsInf(b)]
    return z3.Or(ways)


__all__ = ["prove_bits", "side_words"]
