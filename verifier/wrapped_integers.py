"""Statements about machine integers as statements about whole numbers that wrap: what bit by bit is out of reach, Z3's integers may decide.

A bit vector of w bits is the whole number in [−2^(w−1), 2^(w−1)) that it stands for as a signed one; each sum, difference and quotient is
taken in the whole numbers and then wrapped into that range, as SMT-LIB's FixedSizeBitVectors theory defines them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any


class NotTranslated(NotImplementedError):
    """A term that has no translation: it is for bit vectors alone."""


def on_whole_numbers(statements: Sequence[Any]) -> list[Any]:
    """The statements about bit vectors as statements about integers, with the ranges of what is unknown.

    Raises: NotTranslated.
    """
    translation = _Translation()
    said = [translation.of(statement) for statement in statements]
    return [*translation.ranges, *said]


class _Translation:
    def __init__(self) -> None:
        import z3

        self.z3 = z3
        self.ranges: list[Any] = []
        self.known: dict[int, tuple[Any, Any]] = {}
        self.operators: dict[int, Callable[..., Any]] = {
            z3.Z3_OP_AND: z3.And, z3.Z3_OP_OR: z3.Or, z3.Z3_OP_NOT: z3.Not, z3.Z3_OP_ITE: z3.If, z3.Z3_OP_IMPLIES: z3.Implies,
            z3.Z3_OP_EQ: lambda a, b: a == b, z3.Z3_OP_DISTINCT: z3.Distinct,
            z3.Z3_OP_SLEQ: lambda a, b: a <= b, z3.Z3_OP_SLT: lambda a, b: a < b,
            z3.Z3_OP_SGEQ: lambda a, b: a >= b, z3.Z3_OP_SGT: lambda a, b: a > b,
        }  # fmt: skip
        self.arithmetic: dict[int, Callable[[Any, Any], Any]] = {
            z3.Z3_OP_BADD: lambda a, b: a + b, z3.Z3_OP_BSUB: lambda a, b: a - b,
            z3.Z3_OP_BSREM: self._truncated_remainder, z3.Z3_OP_BSREM_I: self._truncated_remainder,
            z3.Z3_OP_BSMOD: self._floored_remainder, z3.Z3_OP_BSMOD_I: self._floored_remainder,
            z3.Z3_OP_BSDIV: self._truncated_quotient, z3.Z3_OP_BSDIV_I: self._truncated_quotient,
        }  # fmt: skip

    def of(self, term: Any) -> Any:
        """The translation of a term, made once."""
        if term.get_id() not in self.known:
            self.known[term.get_id()] = (term, self._of(term))
        return self.known[term.get_id()][1]

    def _of(self, term: Any) -> Any:
        z3 = self.z3
        kind = term.decl().kind()
        if kind in (z3.Z3_OP_TRUE, z3.Z3_OP_FALSE):
            return term
        if kind == z3.Z3_OP_BNUM:
            return z3.IntVal(term.as_signed_long())
        if kind == z3.Z3_OP_UNINTERPRETED and term.num_args() == 0:
            return self._unknown(term)
        operands = [self.of(child) for child in term.children()]
        if kind in self.operators:
            return self.operators[kind](*operands)
        if kind == z3.Z3_OP_BNEG:
            return self._wrapped(-operands[0], term.size())
        if kind == z3.Z3_OP_SIGN_EXT:
            return operands[0]
        if kind == z3.Z3_OP_ZERO_EXT:
            return z3.If(operands[0] < 0, operands[0] + 2 ** term.children()[0].size(), operands[0])
        if kind == z3.Z3_OP_EXTRACT and term.params()[1] == 0:
            return self._cut(operands[0], term.size())
        if kind == z3.Z3_OP_BMUL:
            return reduce(lambda a, b: self._cut(a * b, term.size()), operands)
        if kind in self.arithmetic:
            return reduce(lambda a, b: self._wrapped(self.arithmetic[kind](a, b), term.size()), operands)
        raise NotTranslated(str(term.decl()))

    def _unknown(self, term: Any) -> Any:
        z3 = self.z3
        if z3.is_bool(term):
            return term
        if not z3.is_bv(term):
            raise NotTranslated(str(term.sort()))
        number = z3.Int(f"{term} as a whole number")
        half = 2 ** (term.size() - 1)
        self.ranges += [number >= -half, number < half]
        return number

    def _wrapped(self, number: Any, width: int) -> Any:
        """A number off by less than 2^width from its range, taken into it."""
        half = 2 ** (width - 1)
        return self.z3.If(number >= half, number - 2 * half, self.z3.If(number < -half, number + 2 * half, number))

    def _cut(self, number: Any, width: int) -> Any:
        """Any number taken into the range of a width."""
        half = 2 ** (width - 1)
        return (number + half) % (2 * half) - half

    def _magnitude(self, number: Any) -> Any:
        return self.z3.If(number >= 0, number, -number)

    def _truncated_remainder(self, a: Any, b: Any) -> Any:
        """The remainder with the sign of a; by zero it is a."""
        rest = self._magnitude(a) % self._magnitude(b)
        return self.z3.If(b == 0, a, self.z3.If(a >= 0, rest, -rest))

    def _floored_remainder(self, a: Any, b: Any) -> Any:
        """The remainder with the sign of b; by zero it is a."""
        rest = a % self._magnitude(b)
        return self.z3.If(b == 0, a, self.z3.If(self.z3.And(rest != 0, b < 0), rest + b, rest))

    def _truncated_quotient(self, a: Any, b: Any) -> Any:
        """The quotient rounded towards zero; by zero it is 1 for negative a and −1 otherwise."""
        z3 = self.z3
        size = self._magnitude(a) / self._magnitude(b)
        return z3.If(b == 0, z3.If(a >= 0, -1, 1), z3.If((a >= 0) == (b > 0), size, -size))


__all__ = ["NotTranslated", "on_whole_numbers"]
