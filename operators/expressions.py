"""Integer expressions over named sizes: polynomials whose atoms are symbols, floor quotients and remainders.

Dims, indices and integer attributes are either plain `int`s or `Expression`s. Arithmetic collapses to `int` whenever the
result is a number, so code written for numbers runs on symbols unchanged. Equality of expressions is equality of
polynomials (structural, usable in sets and dicts); a statement about sizes is a `Formula`, built by `equal`, `<=`, ….
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any, TypeAlias

from operators.formulas import UndecidedError, at_least_zero, equal, negate


class Atom:
    """What a polynomial treats as one unknown; ordered by its text, hashable."""

    @cached_property
    def key(self) -> str:
        return str(self)

    def substitute(self, values: Mapping[Atom, Dim]) -> Dim:
        """The atom with atoms replaced inside it; itself when nothing applies."""
        return values.get(self, Expression.of(self))

    def inner(self) -> tuple[Expression, ...]:
        """The expressions of which the atom is a function."""
        return ()


@dataclass(frozen=True, eq=True)
class Symbol(Atom):
    """A named integer: a size, an attribute or an index."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=True)
class Quotient(Atom):
    """Floor of numerator / denominator (Python's `//`)."""

    numerator: Expression
    denominator: Expression

    def __str__(self) -> str:
        return f"⌊({self.numerator})/({self.denominator})⌋"

    def substitute(self, values: Mapping[Atom, Dim]) -> Dim:
        if self in values:
            return values[self]
        return floor_divide(substitute(self.numerator, values), substitute(self.denominator, values))

    def inner(self) -> tuple[Expression, ...]:
        return (self.numerator, self.denominator)


@dataclass(frozen=True, eq=True)
class Extreme(Atom):
    """The larger (`maximum`) or smaller (`minimum`) of two integers."""

    name: str
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{self.name}({self.left}, {self.right})"

    def substitute(self, values: Mapping[Atom, Dim]) -> Dim:
        if self in values:
            return values[self]
        pick = larger if self.name == "max" else smaller
        return pick(substitute(self.left, values), substitute(self.right, values))

    def inner(self) -> tuple[Expression, ...]:
        return (self.left, self.right)


Monomial: TypeAlias = tuple[Atom, ...]


class Expression:
    """A polynomial with integer coefficients over atoms; immutable, hashable, never a plain number."""

    __slots__ = ("_hash", "terms")
    terms: dict[Monomial, int]

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.terms = terms
        self._hash: int | None = None

    @staticmethod
    def of(value: Dim | Atom) -> Expression:
        """Any dim or atom as a polynomial (numbers included)."""
        if isinstance(value, Expression):
            return value if type(value) is Expression else Expression(value.terms)
        if isinstance(value, Atom):
            return Expression({(value,): 1})
        return Expression({(): int(value)} if value else {})

    @property
    def atoms(self) -> set[Atom]:
        return {atom for monomial in self.terms for atom in monomial}

    @property
    def symbols(self) -> set[Symbol]:
        """Every symbol that occurs, also inside quotients."""
        found: set[Symbol] = set()
        for atom in self.atoms:
            if isinstance(atom, Symbol):
                found.add(atom)
            for part in atom.inner():
                found |= part.symbols
        return found

    def collapse(self) -> Dim:
        """The plain `int` when no atom is left."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and () in self.terms:
            return self.terms[()]
        return self

    def plain(self) -> Expression:
        """The expression without the mark of a `Variable`."""
        return self

    def lowest(self) -> Expression:
        """Divided by the greatest number that divides every coefficient: zero where this is zero."""
        common = gcd(*self.terms.values())
        return self if common <= 1 else Expression({monomial: value // common for monomial, value in self.terms.items()})

    def sides(self) -> tuple[Expression, Expression]:
        """Two expressions without minus signs whose difference this is."""
        positive = {monomial: value for monomial, value in self.terms.items() if value > 0}
        negative = {monomial: -value for monomial, value in self.terms.items() if value < 0}
        return Expression(positive), Expression(negative)

    def _combine(self, other: Any, sign: int) -> Any:
        if not isinstance(other, (int, Expression)):
            return NotImplemented
        terms = dict(self.terms)
        for monomial, coefficient in Expression.of(other).terms.items():
            value = terms.get(monomial, 0) + sign * coefficient
            if value:
                terms[monomial] = value
            else:
                terms.pop(monomial, None)
        return self._wrap(terms, other)

    def _wrap(self, terms: dict[Monomial, int], other: Any = 0) -> Any:
        kind = Variable if isinstance(self, Variable) or isinstance(other, Variable) else Expression
        result = kind(terms)
        return result.collapse()

    def __add__(self, other: Any) -> Any:
        return self._combine(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._combine(other, -1)

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __neg__(self) -> Any:
        return self._wrap({monomial: -coefficient for monomial, coefficient in self.terms.items()})

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, (int, Expression)):
            return NotImplemented
        terms: dict[Monomial, int] = {}
        for left, a in self.terms.items():
            for right, b in Expression.of(other).terms.items():
                monomial = tuple(sorted(left + right, key=_atom_key)) if left and right else left or right
                value = terms.get(monomial, 0) + a * b
                if value:
                    terms[monomial] = value
                else:
                    terms.pop(monomial, None)
        return self._wrap(terms, other)

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Any:
        result: Any = 1
        for _ in range(power):
            result = self * result
        return result

    def __floordiv__(self, other: Any) -> Any:
        return self._alike(floor_divide(self, other), other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._alike(floor_divide(other, self), other)

    def __mod__(self, other: Any) -> Any:
        return self._alike(remainder(self, other), other)

    def __rmod__(self, other: Any) -> Any:
        return self._alike(remainder(other, self), other)

    def _alike(self, result: Dim, other: Any) -> Any:
        return self._wrap(result.terms, other) if isinstance(result, Expression) else result

    def __le__(self, other: Any) -> Any:
        return at_least_zero(other - self)

    def __lt__(self, other: Any) -> Any:
        return at_least_zero(other - self - 1)

    def __ge__(self, other: Any) -> Any:
        return at_least_zero(self - other)

    def __gt__(self, other: Any) -> Any:
        return at_least_zero(self - other - 1)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, Expression):
            return self.terms == other.terms
        if isinstance(other, int):
            return self.terms == Expression.of(other).terms
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __bool__(self) -> bool:
        raise UndecidedError(f"whether {self} is zero is not known; a rule may not branch on it, state a condition instead")

    def __index__(self) -> int:
        raise UndecidedError(f"{self} is a symbolic size and has no number")

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        pieces = []
        for monomial in sorted(self.terms, key=lambda m: (-len(m), tuple(a.key for a in m))):
            coefficient = self.terms[monomial]
            factors = [atom.key for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            pieces.append(("- " if coefficient < 0 else "+ ") + "*".join(factors))
        text = " ".join(pieces)
        return text[2:] if text.startswith("+ ") else "-" + text[2:]

    __repr__ = __str__


class Variable(Expression):
    """An expression handed to users' functions: comparing it makes a `Formula`, branching on it is an error."""

    __slots__ = ()

    def plain(self) -> Expression:
        return Expression(self.terms)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, (int, Expression)):
            return equal(self, other)
        return NotImplemented

    def __ne__(self, other: object) -> Any:
        if isinstance(other, (int, Expression)):
            return negate(equal(self, other))
        return NotImplemented

    __hash__ = Expression.__hash__

    def __add__(self, other: Any) -> Any:
        return _as_real(operator.add, self, other) if isinstance(other, float) else super().__add__(other)

    def __radd__(self, other: Any) -> Any:
        return _as_real(operator.add, other, self) if isinstance(other, float) else super().__radd__(other)

    def __sub__(self, other: Any) -> Any:
        return _as_real(operator.sub, self, other) if isinstance(other, float) else super().__sub__(other)

    def __rsub__(self, other: Any) -> Any:
        return _as_real(operator.sub, other, self) if isinstance(other, float) else super().__rsub__(other)

    def __mul__(self, other: Any) -> Any:
        return _as_real(operator.mul, self, other) if isinstance(other, float) else super().__mul__(other)

    def __rmul__(self, other: Any) -> Any:
        return _as_real(operator.mul, other, self) if isinstance(other, float) else super().__rmul__(other)

    def __truediv__(self, other: Any) -> Any:
        return _as_real(operator.truediv, self, other) if isinstance(other, (int, float, Expression)) else NotImplemented

    def __rtruediv__(self, other: Any) -> Any:
        return _as_real(operator.truediv, other, self) if isinstance(other, (int, float)) else NotImplemented

    @classmethod
    def __torch_function__(cls, *call: Any) -> Any:
        """Makes torch's argument parser take a variable for an integer; the traced tensor among the arguments answers."""
        return NotImplemented


REALS: ContextVar[Callable[[Variable], Any] | None] = ContextVar("reals", default=None)
"""While a function is traced: a variable as a real number, with which Python's numbers can be combined."""


def _as_real(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    known = REALS.get()
    if known is None:
        return NotImplemented
    return operation(*(known(one) if isinstance(one, Variable) else one for one in (left, right)))


Dim: TypeAlias = int | Expression


def _atom_key(atom: Atom) -> str:
    return atom.key


def symbol(name: str) -> Expression:
    """The polynomial of one named unknown."""
    return Expression.of(Symbol(name))


def plain(value: Any) -> Any:
    """The value with `Variable`s turned into ordinary expressions, inside tuples and lists as well."""
    if isinstance(value, Variable):
        return value.plain()
    if isinstance(value, (tuple, list)):
        return type(value)(plain(item) for item in value)
    return value


def divide_exactly(numerator: Dim, denominator: Dim) -> Dim | None:
    """The polynomial quotient when the division leaves no remainder for every value of the atoms, else None."""
    if isinstance(numerator, int) and isinstance(denominator, int):
        return numerator // denominator if denominator and numerator % denominator == 0 else None
    top, bottom = Expression.of(numerator), Expression.of(denominator)
    if len(bottom.terms) != 1:
        return _divide_by_polynomial(top, bottom)
    ((divisor, factor),) = bottom.terms.items()
    result: dict[Monomial, int] = {}
    for monomial, coefficient in top.terms.items():
        rest = list(monomial)
        for atom in divisor:
            if atom not in rest:
                return None
            rest.remove(atom)
        if coefficient % factor:
            return None
        result[tuple(rest)] = coefficient // factor
    quotient: Dim = top._wrap(result)
    return quotient


def _divide_by_polynomial(top: Expression, bottom: Expression) -> Dim | None:
    def order(monomial: Monomial) -> tuple[int, tuple[str, ...]]:
        return len(monomial), tuple(atom.key for atom in monomial)

    lead = max(bottom.terms, key=order)
    quotient: Dim = 0
    left: Dim = top
    for _ in range(len(top.terms) * 4):
        if isinstance(left, int):
            return quotient if left == 0 else None
        head = max(left.terms, key=order)
        step = divide_exactly(Expression({head: left.terms[head]}), Expression({lead: bottom.terms[lead]}))
        if step is None:
            return None
        quotient = quotient + step
        left = left - step * bottom
    return quotient if isinstance(left, int) and left == 0 else None


def floor_divide(numerator: Dim, denominator: Dim) -> Dim:
    """Floor division; whole multiples of the denominator are taken out of the quotient (valid as the denominator is not zero)."""
    if isinstance(numerator, int) and isinstance(denominator, int):
        return numerator // denominator
    if isinstance(denominator, int) and denominator == 0:
        raise ZeroDivisionError(f"{numerator} divided by zero")
    exact = divide_exactly(numerator, denominator)
    if exact is not None:
        return exact
    whole: Dim = 0
    rest: Dim = 0
    for monomial, coefficient in Expression.of(numerator).terms.items():
        term = Expression({monomial: coefficient}).collapse()
        quotient = divide_exactly(term, denominator)
        if quotient is None and isinstance(denominator, int) and isinstance(term, Expression) and denominator > 0:
            quotient = Expression({monomial: coefficient // denominator}).collapse() if coefficient // denominator else None
        if quotient is None:
            rest = rest + term
        else:
            whole = whole + quotient
            rest = rest + (term - quotient * denominator)
    if isinstance(rest, int) and isinstance(denominator, int):
        return whole + rest // denominator
    if isinstance(rest, int) and rest == 0:
        return whole
    result: Dim = whole + Expression.of(Quotient(Expression.of(rest), Expression.of(denominator)))
    return result


def remainder(numerator: Dim, denominator: Dim) -> Dim:
    """Python's `%`: numerator − denominator · ⌊numerator / denominator⌋."""
    return numerator - denominator * floor_divide(numerator, denominator)


def larger(left: Dim, right: Dim) -> Dim:
    """The maximum of two dims."""
    return _extreme("max", left, right)


def smaller(left: Dim, right: Dim) -> Dim:
    """The minimum of two dims."""
    return _extreme("min", left, right)


def _extreme(name: str, left: Dim, right: Dim) -> Dim:
    difference = left - right
    if isinstance(difference, int):
        return left if (difference >= 0) == (name == "max") else right
    return Expression.of(Extreme(name, Expression.of(left), Expression.of(right)))


def product(dims: Any) -> Dim:
    """The product of dims; 1 for none."""
    result: Dim = 1
    for dim in dims:
        result = result * dim
    return result


def substitute(value: Dim, values: Mapping[Atom, Dim]) -> Dim:
    """The value with atoms replaced, inside quotients as well."""
    if isinstance(value, int) or not values:
        return value
    result: Dim = 0
    for monomial, coefficient in value.terms.items():
        term: Dim = coefficient
        for atom in monomial:
            term = term * atom.substitute(values)
        result = result + term
    return result
