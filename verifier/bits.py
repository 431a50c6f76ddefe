"""Elements bit by bit: what pointwise operators compute, as Z3 terms over floating-point numbers and bit vectors.

Each torch operator is one correctly rounded operation, as PyTorch's kernels have it (half-precision tensors combine with Python
numbers in float32 and round once). Operators without a bit-precise meaning here are uninterpreted: equal operands, equal results.
Where PyTorch leaves the choice between −0 and +0 to the kernel (maximum, minimum, clamp, relu), so does the model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operators.expressions import Expression, Symbol
from operators.operator import kind_of
from verifier.questions import unsatisfiable

FLOAT_FORMATS = {"float16": (5, 11), "bfloat16": (8, 8), "float32": (8, 24), "float64": (11, 53)}
INTEGER_FORMATS = {"int8": (8, True), "int16": (16, True), "int32": (32, True), "int64": (64, True), "uint8": (8, False)}


class NotCovered(NotImplementedError):
    """The rule is not pointwise on tensors of one dtype."""


@dataclass(frozen=True)
class Word:
    """One element: a Z3 term, or a Python number; `weak` for Python numbers and attributes, `unsigned` for bytes."""

    term: Any
    kind: str
    weak: bool = False
    unsigned: bool = False


@dataclass
class BitAlgebra:
    """The meaning of pointwise operators on elements of one floating dtype, or of whole ones of any."""

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
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The least and the largest number of attributes and sizes by name, where they are known."""
    ranges: list[Any] = field(default_factory=list)
    """That the attributes lie within their limits."""

    def __post_init__(self) -> None:
        import z3

        self.z3 = z3
        self.floating = self.dtype in FLOAT_FORMATS
        if self.floating:
            self.sort = z3.FPSort(*FLOAT_FORMATS[self.dtype])
            self.working = z3.FPSort(8, 24) if self.dtype in ("float16", "bfloat16") else self.sort
        else:
            self.sort = self.whole(self.dtype)

    def whole(self, dtype: str) -> Any:
        """Z3's sort for a dtype of whole numbers.

        Raises: NotCovered for another dtype, and where the rule is on floats.
        """
        if self.floating or dtype not in INTEGER_FORMATS:
            raise NotCovered(f"{dtype} in a rule on {self.dtype}")
        return self.z3.BitVecSort(INTEGER_FORMATS[dtype][0])

    def of_whole(self, term: Any, dtype: str) -> Word:
        """A term as a whole number of the dtype."""
        return Word(term, "int", unsigned=not INTEGER_FORMATS[dtype][1])

    def unknown(self, name: str, dtype: str, weak: bool) -> Word:
        """An element of an input."""
        kind = kind_of(dtype)
        if kind == "bool":
            return Word(self.z3.Bool(name), "bool")
        if weak and kind == "float":
            return Word(self.z3.FP(name, self.z3.FPSort(11, 53)), "float", weak=True)
        if not self.floating:
            return self.of_whole(self.z3.Const(name, self.whole(dtype)), dtype)
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

    def polynomial(self, value: Expression) -> Word:
        """A size, attribute or polynomial of them, which has at most 64 bits.

        Raises: NotCovered where that is not known.
        """
        z3 = self.z3
        if self.floating or not all(isinstance(atom, Symbol) and atom.name in self.limits for atom in value.atoms):
            raise NotCovered(f"a number that is not known: {value}")
        least = most = 0
        term = z3.BitVecVal(0, 64)
        for monomial, coefficient in value.terms.items():
            ends, product = (coefficient, coefficient), z3.BitVecVal(coefficient, 64)
            for atom in monomial:
                low, high = self.limits[str(atom)]
                corners = [a * b for a in ends for b in (low, high)]
                ends = (min(corners), max(corners))
                unknown = z3.BitVec(f"{atom} as a number", 64)
                self.ranges += [unknown >= low, unknown <= high]
                product = unknown if product.eq(z3.BitVecVal(1, 64)) else product * unknown
            least, most = least + ends[0], most + ends[1]
            term = product if term.eq(z3.BitVecVal(0, 64)) else term + product
            if not (-(2**63) <= ends[0] and ends[1] < 2**63 and -(2**63) <= least and most < 2**63):
                raise NotCovered(f"a number that may have more than 64 bits: {value}")
        return Word(term, "int", weak=True)

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
        if isinstance(word.term, self.z3.BitVecRef):
            return self._fitted(word, sort)
        if not self.floating:
            raise NotCovered(f"{word.term} is no whole number")
        return word.term if word.term.sort() == sort else z3.simplify(z3.fpToFP(z3.RNE(), word.term, sort))

    def _fitted(self, word: Word, sort: Any) -> Any:
        """A whole number in another width: cut to its lower bits, or widened by its sign."""
        if self.floating:
            raise NotCovered("whole numbers meet floats")
        own, wanted = word.term.size(), sort.size()
        if own >= wanted:
            return word.term if own == wanted else self.z3.Extract(wanted - 1, 0, word.term)
        return (self.z3.ZeroExt if word.unsigned else self.z3.SignExt)(wanted - own, word.term)

    def settled(self, word: Word, milliseconds: int = 400) -> Word:
        """An earlier word of the same kind and sign, bit for bit the same, or the word itself: what is shared is compared once."""
        if word.weak or isinstance(word.term, (int, float)):
            return word
        for known in self.seen if time.monotonic() < self.deadline else ():
            if (known.kind, known.unsigned) == (word.kind, word.unsigned) and known.term.sort() == word.term.sort():
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

    def truth(self, word: Word) -> Word:
        """Whether a word is not zero."""
        if word.kind == "bool":
            return word
        if isinstance(word.term, int):
            return Word(self.z3.BoolVal(word.term != 0), "bool")
        if word.kind == "float" and not self.is_foreign(word):
            return Word(self.z3.Not(self.z3.fpIsZero(word.term)), "bool")
        if not isinstance(word.term, self.z3.BitVecRef):
            raise NotCovered(f"whether {word.term} is zero")
        return Word(word.term != self.z3.BitVecVal(0, word.term.sort()), "bool")

    def arithmetic(self, name: str, words: Sequence[Word], dtype: str) -> Word:
        """An arithmetic operator, rounded once to the dtype; whole numbers wrap in theirs."""
        if all(word.weak for word in words):
            return self._on_numbers(name, words)
        if not self.floating:
            if any(word.kind == "float" for word in words):
                raise NotCovered("integers meet floats")
            sort = self.whole(dtype)
            return self.of_whole(self._integer(name, [self.lifted(word, sort) for word in words], INTEGER_FORMATS[dtype][1]), dtype)
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

    def _integer(self, name: str, terms: list[Any], signed: bool) -> Any:
        z3 = self.z3
        a, b = terms[0], terms[-1]
        less = (lambda x, y: x < y) if signed else z3.ULT
        zero = z3.BitVecVal(0, a.sort())
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
            if not signed:
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

    def comparison(self, name: str, words: Sequence[Word], dtype: str) -> Word:
        """A comparison in the dtype that the operands are taken to; bools are compared as numbers."""
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
        dtype = "int8" if dtype == "bool" else dtype
        a, b = (self.lifted(word, self.whole(dtype)) for word in words)
        less = (lambda x, y: x < y) if INTEGER_FORMATS[dtype][1] else z3.ULT
        table = {
            "Equal": lambda: a == b, "NotEqual": lambda: a != b, "Less": lambda: less(a, b), "LessEqual": lambda: z3.Not(less(b, a)),
            "Greater": lambda: less(b, a), "GreaterEqual": lambda: z3.Not(less(a, b)),
        }  # fmt: skip
        return Word(table[name](), "bool")

    def uninterpreted(self, name: str, words: Sequence[Word], dtype: str) -> Word:
        """An unknown function of the operands, whose result is of the dtype: of a sort of its own where that is another one."""
        z3, kind = self.z3, kind_of(dtype)
        here = dtype == "bool" or (dtype == self.dtype if self.floating else dtype in INTEGER_FORMATS)
        apart = not here or any(map(self.is_foreign, words))
        terms = []
        for word in words:
            if isinstance(word.term, int) and (apart or not self.floating):  # the other dtype may hold numbers that this one does not
                name = f"{name} of {word.term}"
            elif word.kind == "bool" or apart or not self.floating:
                terms.append(word.term)
            else:
                terms.append(self.lifted(word, self.working if word.weak and self.floating else self.sort))
        result = (
            z3.BoolSort() if kind == "bool" else z3.DeclareSort(dtype) if not here else self.sort if self.floating else self.whole(dtype)
        )
        signature = f"{name}({', '.join(str(term.sort()) for term in terms)})"
        if not terms:
            raise NotCovered(f"{name} of numbers alone")
        function = self.functions.setdefault(signature, z3.Function(signature, *(term.sort() for term in terms), result))
        return self.of_whole(function(*terms), dtype) if here and kind == "int" else Word(function(*terms), kind)


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


__all__ = ["FLOAT_FORMATS", "INTEGER_FORMATS", "BitAlgebra", "NotCovered", "Word"]
