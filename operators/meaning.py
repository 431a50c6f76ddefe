"""The words in which an operator's `element` says what one output element is.

The same `element` runs under two algebras: `Exact`, on Python numbers (a slow reference), and the prover's, on symbolic
terms. Arithmetic (`+ - *` and unary `-`) on values and on indices is Python's own; everything else goes through the
functions here, which ask the current algebra. Branches are thunks: the branch not taken would index out of range.

Values are numbers; elements of boolean tensors are truths (Python bools, or what the algebra's `compare` returns).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from operators.expressions import Dim
from operators.formulas import Truth, all_of, at_least_zero

Value = Any  # a Python number or a prover's term; opaque to operators


class Algebra(Protocol):
    """What an interpretation of `element` provides."""

    def constant(self, number: Any) -> Value: ...
    def total(self, extent: Dim, body: Callable[[Any], Value]) -> Value: ...
    def multiplied(self, extent: Dim, body: Callable[[Any], Value]) -> Value: ...
    def extreme(self, name: str, extent: Dim, body: Callable[[Any], Value]) -> Value: ...
    def position(self, name: str, extent: Dim, body: Callable[[Any], Value]) -> Value: ...
    def when(self, condition: Any, then: Callable[[], Value], otherwise: Callable[[], Value]) -> Value: ...
    def unravel(self, flat: Any, sizes: Sequence[Dim], body: Callable[..., Value]) -> Value: ...
    def apply(self, name: str, *arguments: Value) -> Value: ...
    def compare(self, relation: str, left: Value, right: Value) -> Value: ...
    def convert(self, value: Value, source: str, target: str) -> Value: ...
    def as_index(self, value: Value) -> Any: ...
    def as_value(self, index: Any) -> Value: ...


def current() -> Algebra:
    """The algebra in force."""
    return _algebra.get()


@contextmanager
def interpreted_by(algebra: Algebra) -> Iterator[None]:
    """Run `element` under the given algebra inside the block."""
    token = _algebra.set(algebra)
    try:
        yield
    finally:
        _algebra.reset(token)


def constant(number: Any) -> Value:
    """A number (or a scalar attribute variable) as a value."""
    return current().constant(number)


def total(extent: Dim, body: Callable[[Any], Value]) -> Value:
    """Σ of body(i) for 0 ≤ i < extent; 0 when empty."""
    return current().total(extent, body)


def multiplied(extent: Dim, body: Callable[[Any], Value]) -> Value:
    """Π of body(i) for 0 ≤ i < extent; 1 when empty."""
    return current().multiplied(extent, body)


def largest(extent: Dim, body: Callable[[Any], Value]) -> Value:
    """The maximum of body(i) for 0 ≤ i < extent; −inf when empty."""
    return current().extreme("max", extent, body)


def smallest(extent: Dim, body: Callable[[Any], Value]) -> Value:
    """The minimum of body(i) for 0 ≤ i < extent; +inf when empty."""
    return current().extreme("min", extent, body)


def position_of_largest(extent: Dim, body: Callable[[Any], Value]) -> Value:
    """The first i at which body(i) is largest, as a value."""
    return current().position("max", extent, body)


def position_of_smallest(extent: Dim, body: Callable[[Any], Value]) -> Value:
    """The first i at which body(i) is smallest, as a value."""
    return current().position("min", extent, body)


def when(condition: Any, then: Callable[[], Value], otherwise: Callable[[], Value]) -> Value:
    """`then()` where the condition (a statement about indices, or a truth value) holds, else `otherwise()`."""
    return current().when(condition, then, otherwise)


def inside(index: Any, size: Dim, then: Callable[[], Value], otherwise: Callable[[], Value]) -> Value:
    """`then()` where 0 ≤ index < size, else `otherwise()`."""
    return when(within(index, size), then, otherwise)


def within(index: Any, size: Dim) -> Truth:
    """The statement 0 ≤ index < size."""
    return all_of(at_least_zero(index), at_least_zero(size - index - 1))


def unravel(flat: Any, sizes: Sequence[Dim], body: Callable[..., Value]) -> Value:
    """`body(*digits)`, where the digits write `flat` in the mixed radix `sizes` (row-major, the last fastest)."""
    return current().unravel(flat, sizes, body)


def ravel(digits: Sequence[Any], sizes: Sequence[Dim]) -> Any:
    """The flat index of the digits in the mixed radix `sizes` (row-major)."""
    flat: Any = 0
    for digit, size in zip(digits, sizes, strict=True):
        flat = flat * size + digit
    return flat


def apply(name: str, *arguments: Value) -> Value:
    """A named function of values; `FUNCTIONS` lists the names with their meaning on numbers."""
    return current().apply(name, *arguments)


def compare(relation: str, left: Value, right: Value) -> Value:
    """The truth of `left relation right` for values, with relation one of == != < <= > >=."""
    return current().compare(relation, left, right)


def convert(value: Value, source: str, target: str) -> Value:
    """A value cast between dtypes named as in PyTorch (`float32`, `int64`, `bool`, …)."""
    return current().convert(value, source, target)


def as_index(value: Value) -> Any:
    """An integer value used as an index (data-dependent access, as in gather)."""
    return current().as_index(value)


def as_value(index: Any) -> Value:
    """An index or dim used as a number (as in a mean's divisor, or arange)."""
    return current().as_value(index)


def divide(left: Value, right: Value) -> Value:
    """left / right, over the reals."""
    return current().apply("divide", left, right)


def _divide(a: Any, b: Any) -> Any:
    if b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _guarded(function: Callable[..., Any], overflow: float = math.inf) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except OverflowError:
            return overflow
        except ValueError:
            return math.nan

    return call


def _maximum(a: Any, b: Any) -> Any:
    return a if a != a else b if b != b else max(a, b)


def _minimum(a: Any, b: Any) -> Any:
    return a if a != a else b if b != b else min(a, b)


def _log(x: Any) -> Any:
    return -math.inf if x == 0 else math.log(x)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "divide": _divide,
    "exp": _guarded(math.exp),
    "log": _guarded(_log),
    "log1p": _guarded(lambda x: -math.inf if x == -1 else math.log1p(x)),
    "expm1": _guarded(math.expm1),
    "sqrt": _guarded(math.sqrt),
    "tanh": math.tanh,
    "sigmoid": _sigmoid,
    "erf": math.erf,
    "sin": _guarded(math.sin),
    "cos": _guarded(math.cos),
    "atan": math.atan,
    "asin": _guarded(math.asin),
    "acos": _guarded(math.acos),
    "asinh": math.asinh,
    "acosh": _guarded(math.acosh),
    "atanh": _guarded(lambda x: math.copysign(math.inf, x) if abs(x) == 1 else math.atanh(x)),
    "abs": abs,
    "sign": lambda x: x if x != x else (x > 0) - (x < 0),
    "floor": lambda x: x if isinstance(x, int) or not math.isfinite(x) else math.floor(x),
    "ceil": lambda x: x if isinstance(x, int) or not math.isfinite(x) else math.ceil(x),
    "round": lambda x: x if isinstance(x, int) or not math.isfinite(x) else round(x),
    "trunc": lambda x: x if isinstance(x, int) or not math.isfinite(x) else math.trunc(x),
    "maximum": _maximum,
    "minimum": _minimum,
    "power": _guarded(lambda a, b: a**b),
    "floor_divide": lambda a, b: a // b if b else _divide(a, b),
    "trunc_divide": lambda a, b: (
        math.trunc(a / b) if isinstance(a, float) or isinstance(b, float) else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    ),
    "remainder": lambda a, b: a - b * (a // b) if b else math.nan,
    "trunc_remainder": lambda a, b: (
        math.fmod(a, b) if isinstance(a, float) or isinstance(b, float) else abs(a) % abs(b) * (-1 if a < 0 else 1)
    ),
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "bitwise_not": lambda a: ~a,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
    "not": lambda a: not a,
    "isnan": lambda x: x != x,
}

_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class Exact:
    """The reference algebra: Python's ints, fractions, floats and bools."""

    def constant(self, number: Any) -> Any:
        return number

    def total(self, extent: Any, body: Callable[[Any], Any]) -> Any:
        return sum((body(i) for i in range(extent)), 0)

    def multiplied(self, extent: Any, body: Callable[[Any], Any]) -> Any:
        return math.prod(body(i) for i in range(extent))

    def extreme(self, name: str, extent: Any, body: Callable[[Any], Any]) -> Any:
        pick, result = (_maximum, -math.inf) if name == "max" else (_minimum, math.inf)
        for i in range(extent):
            result = pick(result, body(i))
        return result

    def position(self, name: str, extent: Any, body: Callable[[Any], Any]) -> Any:
        values = [body(i) for i in range(extent)]
        return values.index((max if name == "max" else min)(values))

    def when(self, condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        return then() if condition else otherwise()

    def unravel(self, flat: Any, sizes: Sequence[Any], body: Callable[..., Any]) -> Any:
        digits: list[int] = []
        for size in reversed(sizes):
            flat, digit = divmod(flat, size) if size else (0, 0)
            digits.append(digit)
        return body(*reversed(digits))

    def apply(self, name: str, *arguments: Any) -> Any:
        return FUNCTIONS[name](*arguments)

    def compare(self, relation: str, left: Any, right: Any) -> Any:
        return _RELATIONS[relation](left, right)

    def convert(self, value: Any, source: str, target: str) -> Any:
        if target == "bool":
            return value != 0
        if "int" in target:
            return math.trunc(value)
        return float(value) if isinstance(value, bool) else value

    def as_index(self, value: Any) -> Any:
        return int(value)

    def as_value(self, index: Any) -> Any:
        return index


_algebra: ContextVar[Algebra] = ContextVar("algebra", default=Exact())  # noqa: B039 (it has no state)


def indices(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every index of a tensor of this shape, in row-major order."""
    return itertools.product(*map(range, shape))
