"""Numbers with a bound on their rounding error: two evaluations differ only where the bounds cannot explain it.

Elements are drawn so that plain arithmetic on them is exact; what a function rounds carries its error along (a running error analysis,
Higham, Accuracy and Stability of Numerical Algorithms, section 3.3). A floor whose argument may lie on either side of a whole number is
known up to 1, a truth that hangs on the last bits is not known at all, and the difference of two large numbers only as well as they are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from operators.meaning import FUNCTIONS, Exact

LIBRARY_ULPS = 4
"""Units in the last place by which a function of the C library may be wrong."""
LARGEST_POWER = 64
"""The largest exponent of which the power is worked out exactly."""
_OF_TRUTHS = frozenset({"and", "or", "xor", "not", "isnan", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"})
_WITHOUT_ROUNDING = frozenset({"abs", "sign", "floor", "ceil", "round", "trunc", "maximum", "minimum"})
_EXACT_AT_ONE = frozenset({"log", "acos", "acosh"})


class Uncertain(ValueError):
    """A truth or a position that hangs on rounding errors; ask at another point."""


class Rounded(float):
    """A number and the most that it may be wrong by; arithmetic carries the bound along."""

    __slots__ = ("error",)
    error: float

    def __new__(cls, value: float, error: float) -> Rounded:
        """The number with its bound in the same unit."""
        made = super().__new__(cls, value)
        made.error = error
        return made

    def __neg__(self) -> Rounded:
        return Rounded(-float(self), self.error)

    def __abs__(self) -> Rounded:
        return Rounded(abs(float(self)), self.error)

    def __add__(self, other: Any) -> Any:
        total = float(self) + float(other)
        return known_to(total, self.error + error_of(other) + math.ulp(total))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        ours, theirs = float(self), float(other)
        if theirs == 0 and not error_of(other) and math.isfinite(ours):
            return 0.0
        product, error = ours * theirs, error_of(other)
        return known_to(product, abs(ours) * error + abs(theirs) * self.error + self.error * error + math.ulp(product))

    __rmul__ = __mul__


def error_of(number: Any) -> float:
    """The most that the number may be wrong by; 0 where it is exact."""
    return number.error if isinstance(number, Rounded) else 0.0


def known_to(number: float, error: float) -> float:
    """The number with this bound; infinities and NaN are what they are."""
    return Rounded(number, error) if error and math.isfinite(number) else number


def differ(left: Any, right: Any) -> bool:
    """Two finite numbers are further apart than a millionth of them and than their rounding errors explain."""
    return not math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-6) and abs(float(left) - float(right)) > error_of(left) + error_of(right)


class WithErrors(Exact):
    """The reference algebra on numbers that carry their rounding errors."""

    def extreme(self, name: str, extent: Any, body: Callable[[Any], Any]) -> Any:
        pick, result = ("maximum", -math.inf) if name == "max" else ("minimum", math.inf)
        for i in range(extent):
            result = self.apply(pick, result, body(i))
        return result

    def position(self, name: str, extent: Any, body: Callable[[Any], Any]) -> Any:
        values = [body(i) for i in range(extent)]
        best = values.index((max if name == "max" else min)(values))
        for value in values[:best] + values[best + 1 :]:
            self.compare("!=", value, values[best])
        return best

    def apply(self, name: str, *arguments: Any) -> Any:
        function = FUNCTIONS[name]
        result = function(*map(_plain, arguments))
        if name in _OF_TRUTHS or not isinstance(result, (int, float)):
            return result
        error = _spread(function, arguments, result) if any(map(error_of, arguments)) else 0.0
        if isinstance(result, float) and not (name in _WITHOUT_ROUNDING or (not error and _is_exact(name, arguments, result))):
            error += LIBRARY_ULPS * math.ulp(result)
        return known_to(result, error)

    def compare(self, relation: str, left: Any, right: Any) -> Any:
        error = error_of(left) + error_of(right)
        if error and abs(float(left) - float(right)) <= error:
            raise Uncertain(f"{relation} must not hang on rounding, got {left} and {right}")
        return super().compare(relation, left, right)

    def convert(self, value: Any, source: str, target: str) -> Any:
        if target == "bool":
            return self.compare("!=", value, 0)
        return self.apply("trunc", value) if "int" in target else super().convert(value, source, target)

    def as_index(self, value: Any) -> Any:
        if error_of(value) >= 0.5:
            raise Uncertain(f"an index must not hang on rounding, got {value}")
        return round(float(value))


def _plain(number: Any) -> Any:
    """The number without its bound."""
    return float(number) if isinstance(number, Rounded) else number


def _spread(function: Callable[..., Any], arguments: Sequence[Any], result: float) -> float:
    """The most that the result changes while the arguments move within their errors, by the corners of these."""
    if not math.isfinite(result):
        return 0.0
    corners = itertools.product(*({_plain(a) - error_of(a), _plain(a) + error_of(a)} for a in arguments))
    changes = [abs(function(*corner) - result) for corner in corners]
    return math.inf if any(change != change for change in changes) else max(changes)


def _is_exact(name: str, arguments: Sequence[Any], result: float) -> bool:
    """The function of exact numbers is known to be this number and no other."""
    if not all(map(math.isfinite, (*arguments, result))):
        return True
    first = Fraction(arguments[0])
    if name == "divide":
        return Fraction(result) * Fraction(arguments[1]) == first
    if name == "sqrt" or (name == "power" and arguments[1] == 0.5):
        return Fraction(result) ** 2 == first
    if name == "power":
        exponent = Fraction(arguments[1])
        return exponent.denominator == 1 and abs(exponent) <= LARGEST_POWER and Fraction(result) == first**exponent
    return first == 0 or (first == 1 and name in _EXACT_AT_ONE)


__all__ = ["Rounded", "Uncertain", "WithErrors", "differ", "error_of"]
