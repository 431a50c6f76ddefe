"""Pointwise rules bit by bit: each side as a Z3 term over floating-point numbers or bit vectors, and the proof that they are equal.

Each torch operator is one correctly rounded operation, as PyTorch's kernels have it (half-precision tensors combine with Python
numbers in float32 and round once). Operators without a bit-precise meaning here are uninterpreted: equal operands, equal results.
Where PyTorch leaves the choice between −0 and +0 to the kernel (maximum, minimum, clamp, relu), so does the model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from graphs.graph import Graph, Value
from operators.operator import Operator, kind_of
from operators.sources import Constant, Input, Scalar
from rewrites.cases import TracedCase
from rewrites.rule import Change, Equality
from verifier.questions import unsatisfiable

FLOAT_FORMATS = {"float16": (5, 11), "bfloat16": (8, 8), "float32": (8, 24), "float64": (11, 53)}
INTEGER_FORMATS = {"int8": (8, True), "int16": (16, True), "int32": (32, True), "int64": (64, True), "uint8": (8, False)}


class NotCovered(NotImplementedError):
    """The rule is not pointwise on tensors of one dtype."""


@dataclass(frozen=True)
class Word:
    """One element: a Z3 term, or a Python number; `weak` for Python numbers and real attributes."""

    term: Any
    kind: str
    weak: bool = False


@dataclass
class BitAlgebra:
    """The meaning of pointwise operators on elements of one dtype."""

    dtype: str
    functions: dict[str, Any] = field(default_factory=dict)
    axioms: list[Any] = field(default_factory=list)
    partial: list[Any] = field(default_factory=list)
    """What must hold for torch to compute at all (a divisor that is not zero)."""
    deadline: float = math.inf
    """When to stop looking for words that are the same."""
    seen: list[Word] = field(default_factory=list)
    """Words computed so far, each different from the others."""
    until: float = math.inf
    """When to stop asking which words are the same (seconds, monotonic)."""

    def __post_init__(self) -> None:
        import z3

        self.z3 = z3
        self.floating = self.dtype in FLOAT_FORMATS
        if self.floating:
            self.sort = z3.FPSort(*FLOAT_FORMATS[self.dtype])
            self.working = z3.FPSort(8, 24) if self.dtype in ("float16", "bfloat16") else self.sort
        else:
            width, self.signed = INTEGER_FORMATS[self.dtype]
            self.sort = z3.BitVecSort(width)

    def unknown(self, name: str, dtype: str, weak: bool) -> Word:
        """An element of an input."""
        kind = kind_of(dtype)
        if kind == "bool":
            return Word(self.z3.Bool(name), "bool")
        if weak and kind == "float":
            return Word(self.z3.FP(name, self.z3.FPSort(11, 53)), "float", weak=True)
        if dtype != self.dtype:
            raise NotCovered(f"{name} is {dtype} in a rule on {self.dtype}")
        return Word(self.z3.Const(name, self.sort), kind)

    def number(self, value: Any) -> Word:
        """A Python number."""
        if isinstance(value, bool):
            return Word(self.z3.BoolVal(value), "bool", weak=True)
        if isinstance(value, int):
            return Word(value, "int", weak=True)
        if isinstance(value, float):
            return Word(self.z3.FPVal(value, self.z3.FPSort(11, 53)) if math.isfinite(value) else self._special(value), "float", weak=True)
        raise NotCovered(f"a number that is not known: {value}")

    def _special(self, value: float) -> Any:
        sort = self.z3.FPSort(11, 53)
        return self.z3.fpNaN(sort) if math.isnan(value) else self.z3.fpInfinity(sort, value < 0)

    def is_foreign(self, word: Word) -> bool:
        """The word is of another dtype: nothing is known of it but that equal operands gave it."""
        return bool(self.z3.is_expr(word.term) and word.term.sort().kind() == self.z3.Z3_UNINTERPRETED_SORT)

    def lifted(self, word: Word, sort: Any) -> Any:
        """A word as a term of the sort.

        Raises: NotCovered for a word of another dtype.
        """
        z3 = self.z3
        if self.is_foreign(word):
            raise NotCovered(f"{word.term} is of another dtype than {self.dtype}")
        if word.kind == "bool":
            one, zero = (z3.FPVal(1.0, sort), z3.FPVal(0.0, sort)) if self.floating else (z3.BitVecVal(1, sort), z3.BitVecVal(0, sort))
            return z3.If(word.term, one, zero)
        if isinstance(word.term, int):
            return z3.FPVal(float(word.term), sort) if self.floating else z3.BitVecVal(word.term, sort)
        if not self.floating:
            return word.term
        return word.term if word.term.sort() == sort else z3.simplify(z3.fpToFP(z3.RNE(), word.term, sort))

    def settled(self, word: Word, milliseconds: int = 400) -> Word:
        """An earlier word that is the same bit for bit, or the word itself: what both sides share need not be compared again."""
        if word.weak or isinstance(word.term, (int, float)):
            return word
        for known in self.seen if time.monotonic() < self.deadline else ():
            if known.kind == word.kind and known.term.sort() == word.term.sort():
                if known.term.eq(word.term):
                    return known
                in_time = time.monotonic() < self.until
                if (
                    in_time
                    and self._agree_on_samples(known.term, word.term)
                    and unsatisfiable([known.term != word.term], bool(self.functions), milliseconds)
                ):
                    return known
        self.seen.append(word)
        return word

    def _agree_on_samples(self, one: Any, other: Any) -> bool:
        z3 = self.z3
        unknowns = sorted({str(v): v for term in (one, other) for v in _unknowns(term)}.items())
        for sample in _SAMPLES:
            values = [(v, self._sample(v.sort(), sample + 1.25 * position)) for position, (_, v) in enumerate(unknowns)]
            a, b = (z3.simplify(z3.substitute(term, *values)) for term in (one, other))
            if not a.eq(b) and not (_applies_functions(a) or _applies_functions(b)):
                return False
        return True

    def _sample(self, sort: Any, number: float) -> Any:
        z3 = self.z3
        if sort == z3.BoolSort():
            return z3.BoolVal(number > 0)
        return z3.BitVecVal(int(number * 3), sort) if isinstance(sort, z3.BitVecSortRef) else z3.FPVal(number, sort)

    def arithmetic(self, name: str, words: Sequence[Word]) -> Word:
        """An arithmetic operator, rounded once to the dtype."""
        if all(word.weak for word in words):
            return self._on_numbers(name, words)
        if not self.floating:
            if any(word.kind == "float" for word in words):
                raise NotCovered("integers meet floats")
            return Word(self._integer(name, [self.lifted(word, self.sort) for word in words]), "int")
        mixed = any(word.weak for word in words) or name == "Reciprocal"
        sort = self.working if mixed else self.sort
        if name in ("Add", "Multiply"):
            words = sorted(words, key=lambda word: str(word.term) if not isinstance(word.term, int) else f"#{word.term}")
        result = self._float(name, [self.lifted(word, sort) for word in words])
        return Word(result if sort == self.sort else self.z3.fpToFP(self.z3.RNE(), result, self.sort), "float")

    def _on_numbers(self, name: str, words: Sequence[Word]) -> Word:
        if all(isinstance(word.term, int) for word in words) and name in ("Add", "Subtract", "Multiply", "Negative"):
            a, *rest = (word.term for word in words)
            value = {"Add": lambda: a + rest[0], "Subtract": lambda: a - rest[0], "Multiply": lambda: a * rest[0], "Negative": lambda: -a}[
                name
            ]()
            return Word(value, "int", weak=True)
        if not self.floating:
            raise NotCovered("arithmetic on Python floats in a rule on integers")
        double = self.z3.FPSort(11, 53)
        return Word(self._float(name, [self.lifted(word, double) for word in words]), "float", weak=True)

    def _float(self, name: str, terms: list[Any]) -> Any:
        z3, nearest = self.z3, self.z3.RNE()
        a, b = terms[0], terms[-1]
        if name == "Add":
            return z3.fpAdd(nearest, a, b)
        if name == "Subtract":
            return z3.fpSub(nearest, a, b)
        if name in ("Multiply", "Square"):
            return z3.fpMul(nearest, a, b)
        if name == "Divide":
            if a.eq(b):  # the quotient of a number by itself is exactly 1, where there is one
                undefined = z3.Or(z3.fpIsNaN(a), z3.fpIsInf(a), z3.fpIsZero(a))
                return z3.If(undefined, z3.fpNaN(a.sort()), z3.FPVal(1.0, a.sort()))
            return z3.fpDiv(nearest, a, b)
        if name == "Reciprocal":
            return z3.fpDiv(nearest, z3.FPVal(1.0, a.sort()), a)
        if name == "Negative":
            return z3.fpNeg(a)
        if name == "Absolute":
            return z3.fpAbs(a)
        if name == "Sqrt":
            return z3.fpSqrt(nearest, a)
        if name in ("Floor", "Ceil", "Trunc", "Round"):
            mode = {"Floor": z3.RTN, "Ceil": z3.RTP, "Trunc": z3.RTZ, "Round": z3.RNE}[name]()
            return z3.fpRoundToIntegral(mode, a)
        if name in ("Maximum", "Minimum"):
            return self._extreme(name, a, b)
        if name == "Relu":
            return self._extreme("Maximum", a, z3.FPVal(0.0, a.sort()))
        raise NotCovered(name)

    def _extreme(self, name: str, a: Any, b: Any) -> Any:
        z3 = self.z3
        wins = z3.fpGT(a, b) if name == "Maximum" else z3.fpLT(a, b)
        choice = self.functions.setdefault(
            f"{name} of zeros {a.sort()}", z3.Function(f"{name} of zeros {a.sort()}", a.sort(), a.sort(), z3.BoolSort())
        )
        on_ties = z3.If(a == b, a, z3.If(choice(a, b), a, b))
        return z3.If(z3.fpIsNaN(a), a, z3.If(z3.fpIsNaN(b), b, z3.If(z3.fpEQ(a, b), on_ties, z3.If(wins, a, b))))

    def _integer(self, name: str, terms: list[Any]) -> Any:
        z3 = self.z3
        a, b = terms[0], terms[-1]
        less = (lambda x, y: x < y) if self.signed else z3.ULT
        zero = z3.BitVecVal(0, self.sort)
        if name in ("Add", "Subtract", "Multiply", "Square"):
            return a + b if name == "Add" else a - b if name == "Subtract" else a * b
        if name == "Negative":
            return -a
        if name == "Absolute":
            return z3.If(less(a, zero), -a, a)
        if name in ("Maximum", "Minimum", "Relu"):
            b = zero if name == "Relu" else b
            return z3.If(less(a, b), a, b) if name == "Minimum" else z3.If(less(a, b), b, a)
        if name in ("FloorDivide", "TruncDivide", "Remainder", "TruncRemainder"):
            self.partial.append(b != zero)
            if not self.signed:
                return z3.UDiv(a, b) if "Divide" in name else z3.URem(a, b)
            quotient, rest = a / b, z3.SRem(a, b)
            inexact = z3.And(rest != zero, (rest < zero) != (b < zero))
            return {
                "TruncDivide": quotient, "TruncRemainder": rest,
                "FloorDivide": z3.If(inexact, quotient - 1, quotient), "Remainder": z3.If(inexact, rest + b, rest),
            }[name]  # fmt: skip
        if name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"):
            return {"BitwiseAnd": lambda: a & b, "BitwiseOr": lambda: a | b, "BitwiseXor": lambda: a ^ b, "BitwiseNot": lambda: ~a}[name]()
        raise NotCovered(name)

    def comparison(self, name: str, words: Sequence[Word]) -> Word:
        """A comparison; bools are compared as numbers."""
        z3 = self.z3
        if self.floating:
            sort = self.working if any(word.weak for word in words) else self.sort
            a, b = (self.lifted(word, sort) for word in words)
            table = {
                "Equal": z3.fpEQ,
                "NotEqual": z3.fpNEQ,
                "Less": z3.fpLT,
                "LessEqual": z3.fpLEQ,
                "Greater": z3.fpGT,
                "GreaterEqual": z3.fpGEQ,
            }
            return Word(table[name](a, b), "bool")
        if any(word.kind == "float" for word in words):
            raise NotCovered("integers meet floats")
        a, b = (self.lifted(word, self.sort) for word in words)
        less = (lambda x, y: x < y) if self.signed else z3.ULT
        table = {
            "Equal": lambda: a == b, "NotEqual": lambda: a != b, "Less": lambda: less(a, b), "LessEqual": lambda: z3.Not(less(b, a)),
            "Greater": lambda: less(b, a), "GreaterEqual": lambda: z3.Not(less(a, b)),
        }  # fmt: skip
        return Word(table[name](), "bool")

    def uninterpreted(self, name: str, words: Sequence[Word], dtype: str) -> Word:
        """An unknown function of the operands, whose result is of the dtype: of a sort of its own where that is another one."""
        z3, kind = self.z3, kind_of(dtype)
        apart = dtype not in (self.dtype, "bool") or any(map(self.is_foreign, words))
        terms = []
        for word in words:
            if isinstance(word.term, int) and apart:  # the other dtype may hold numbers that this one does not
                name = f"{name} of {word.term}"
            elif word.kind == "bool" or apart:
                terms.append(word.term)
            else:
                terms.append(self.lifted(word, self.working if word.weak and self.floating else self.sort))
        result = z3.BoolSort() if kind == "bool" else self.sort if dtype == self.dtype else z3.DeclareSort(dtype)
        signature = f"{name}({', '.join(str(term.sort()) for term in terms)})"
        if not terms:
            raise NotCovered(f"{name} of numbers alone")
        function = self.functions.setdefault(signature, z3.Function(signature, *(term.sort() for term in terms), result))
        return Word(function(*terms), kind)


_ARITHMETIC = {
    "Add", "Subtract", "Multiply", "Divide", "Reciprocal", "Negative", "Absolute", "Square", "Sqrt", "Floor", "Ceil", "Trunc", "Round",
    "Maximum", "Minimum", "Relu", "FloorDivide", "TruncDivide", "Remainder", "TruncRemainder", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
    "BitwiseNot",
}  # fmt: skip
_COMPARISONS = {"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"}
_FLOAT_ONLY_UNINTERPRETED = {"FloorDivide", "TruncDivide", "Remainder", "TruncRemainder"}
_SAME = {"Identity", "Copy", "Contiguous", "Detach", "Expand", "Full"}


def side_words(graph: Graph, algebra: BitAlgebra) -> list[Word]:
    """One element of each output of a pointwise graph.

    Raises: NotCovered for a graph that is not pointwise.
    """
    known: dict[Value, Word] = {}
    needed = live(graph)
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
        return algebra.number(operator.value)
    if name in _SAME:
        return _filled(words[0], type_.dtype, algebra) if name == "Full" else words[0]
    if not operator.pointwise:
        raise NotCovered(f"{name} is not pointwise")
    if type_.dtype not in (algebra.dtype, "bool") and not type_.weak:
        return algebra.uninterpreted(f"{operator} of {_dtypes(graph, node)}", words, type_.dtype)
    if name in _COMPARISONS:
        return algebra.comparison(name, words)
    if name.startswith("Logical") and all(word.kind == "bool" for word in words):
        z3 = algebra.z3
        table = {"LogicalAnd": z3.And, "LogicalOr": z3.Or, "LogicalXor": z3.Xor, "LogicalNot": z3.Not}
        return Word(table[name](*(word.term for word in words)), "bool")
    if name == "Where":
        return _chosen(words, algebra)
    if name == "Clamp":
        return _clamped(words, absent, algebra)
    if (
        name in _ARITHMETIC
        and not all(word.kind == "bool" for word in words)
        and not (algebra.floating and name in _FLOAT_ONLY_UNINTERPRETED)
    ):
        return algebra.arithmetic(name, words)
    return algebra.uninterpreted(f"{operator} of {_dtypes(graph, node)}", words, type_.dtype)


def _dtypes(graph: Graph, node: int) -> str:
    return ", ".join("-" if v is None else graph.type(v).dtype for v in graph.operands(node))


def _filled(word: Word, dtype: str, algebra: BitAlgebra) -> Word:
    if kind_of(dtype) == "bool":
        return Word(word.term, "bool")
    if dtype != algebra.dtype:
        raise NotCovered(f"a tensor of {dtype} in a rule on {algebra.dtype}")
    return Word(algebra.lifted(word, algebra.sort), kind_of(dtype))


def _chosen(words: list[Word], algebra: BitAlgebra) -> Word:
    condition, a, b = words
    if a.kind == "bool" and b.kind == "bool":
        return Word(algebra.z3.If(condition.term, a.term, b.term), "bool")
    return Word(
        algebra.z3.If(condition.term, algebra.lifted(a, algebra.sort), algebra.lifted(b, algebra.sort)),
        "float" if algebra.floating else "int",
    )


def _clamped(words: list[Word], absent: list[bool], algebra: BitAlgebra) -> Word:
    bounds = iter(words[1:])
    result = words[0]
    for position, name in ((1, "Maximum"), (2, "Minimum")):
        if position < len(absent) and not absent[position]:
            bound = next(bounds)
            if result.weak:
                raise NotCovered("clamp of a number")
            result = Word(
                algebra._float(name, [result.term, algebra.lifted(bound, algebra.sort)])
                if algebra.floating
                else algebra._integer(name, [result.term, algebra.lifted(bound, algebra.sort)]),
                result.kind,
            )
    return result


def live(graph: Graph) -> set[int]:
    """The nodes that the outputs need."""
    seen: set[int] = set()
    pending = [value.node for value in graph.outputs]
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            pending.extend(graph.network.predecessors(node))
    return seen


def prove_bits(traced: TracedCase, equality: Equality, dtype: str, milliseconds: int = 4000) -> bool:
    """Both sides of a pointwise case give the same bits (but for the declared changes) in the dtype, whatever the elements.

    Raises: NotCovered for a rule that this does not speak about.
    """
    import z3

    algebra = BitAlgebra(dtype, deadline=time.monotonic() + milliseconds / 100)
    left, right = side_words(traced.pattern, algebra), side_words(traced.replacement, algebra)
    required = len(algebra.partial)
    side_words(traced.pattern, probe := BitAlgebra(dtype, deadline=0.0))
    from_pattern = algebra.partial[: len(probe.partial)]
    for a, b in zip(left, right, strict=True):
        if a.kind != b.kind:
            raise NotCovered("outputs of different kinds")
        sort = algebra.sort
        foreign = algebra.is_foreign(a) or algebra.is_foreign(b)
        one, other = (a.term, b.term) if a.kind == "bool" or foreign else (algebra.lifted(a, sort), algebra.lifted(b, sort))
        if foreign and (not (algebra.is_foreign(a) and algebra.is_foreign(b)) or one.sort() != other.sort()):
            raise NotCovered("outputs of different dtypes")
        goal = one == other if foreign else _same(one, other, a.kind, equality, z3)
        if z3.is_true(z3.simplify(goal)):
            continue
        asked = [*from_pattern, *_conditions(traced, algebra), z3.Not(z3.And(goal, *algebra.partial[len(from_pattern) : required]))]
        if not unsatisfiable(asked, bool(algebra.functions), milliseconds):
            return False
    return True


_SAMPLES = (0.0, -0.0, 1.5, -2.75, 1000.0, -1e-3)


def _unknowns(term: Any) -> list[Any]:
    import z3

    if z3.is_const(term):
        return [term] if term.decl().kind() == z3.Z3_OP_UNINTERPRETED else []
    return [v for child in term.children() for v in _unknowns(child)]


def _applies_functions(term: Any) -> bool:
    import z3

    own = z3.is_app(term) and term.num_args() > 0 and term.decl().kind() == z3.Z3_OP_UNINTERPRETED
    return own or any(map(_applies_functions, term.children()))


def _conditions(traced: TracedCase, algebra: BitAlgebra) -> list[Any]:
    """The rule's conditions on elements, those that can be said on single elements; leaving one out only weakens what is assumed."""
    from verifier.conditions import statement_on

    if not algebra.floating and not algebra.signed:
        return []
    terms = {}
    for graph in (traced.pattern, traced.replacement):
        for node in graph.inputs:
            operator = graph.operator(node)
            if isinstance(operator, Input):
                terms[operator.name] = algebra.unknown(operator.name, graph.types(node)[0].dtype, graph.types(node)[0].weak).term
    return [term for condition in traced.value_conditions if (term := statement_on(condition, terms)) is not None]


def _same(a: Any, b: Any, kind: str, equality: Equality, z3: Any) -> Any:
    if kind != "float":
        return a == b
    ways = [a == b]
    if Change.SIGNED_ZERO in equality.changes:
        ways.append(z3.fpEQ(a, b))
    if Change.NAN_INF in equality.changes:
        ways += [z3.fpIsNaN(a), z3.fpIsNaN(b), z3.fpIsInf(a), z3.fpIsInf(b)]
    return z3.Or(ways)


__all__ = ["FLOAT_FORMATS", "INTEGER_FORMATS", "BitAlgebra", "NotCovered", "live", "prove_bits", "side_words"]
