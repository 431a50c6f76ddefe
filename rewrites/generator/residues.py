"""The declared meaning of an operator, computed on residues modulo the prime: one element at a time, for all terms of a stack at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from operators.meaning import indices, interpreted_by
from operators.operator import Operator, TensorType
from rewrites.generator.world import PRIME, World, inverse, reduced

Operand = int | float | None
"""What stands at a place of an operator's operands that is no term: a Python number, or nothing."""
_LARGEST_POWER = 8


class Residue:
    """A residue for each term of a stack; `number` is its value where it is one known number."""

    def __init__(self, values: Tensor, number: Fraction | None = None) -> None:
        self.values, self.number = values, number

    @classmethod
    def of(cls, value: Any) -> Residue:
        """The residue of a number; a residue as it is.

        Raises: ValueError for numbers that have none (infinities, NaN).
        """
        if isinstance(value, Residue):
            return value
        if isinstance(value, Tensor):
            return cls(value.to(torch.float64))
        try:
            number = Fraction(str(value) if isinstance(value, float) else int(value))
        except (ValueError, OverflowError, TypeError):
            raise ValueError(f"discovery: a number must have a residue, got {value}") from None
        residue = number.numerator % PRIME * inverse(number.denominator) % PRIME
        return cls(torch.tensor(float(residue), dtype=torch.float64), number)

    def __add__(self, other: Any) -> Residue:
        return Residue(reduced(self.values + Residue.of(other).values))

    def __sub__(self, other: Any) -> Residue:
        return Residue(reduced(self.values - Residue.of(other).values))

    def __rsub__(self, other: Any) -> Residue:
        return Residue.of(other) - self

    def __mul__(self, other: Any) -> Residue:
        return Residue(reduced(self.values * Residue.of(other).values))

    def __neg__(self) -> Residue:
        return Residue(reduced(-self.values), None if self.number is None else -self.number)

    __radd__, __rmul__ = __add__, __mul__


def _power(base: Tensor, exponent: int) -> Tensor:
    """The base to a whole power at least 0, by squaring."""
    result = torch.ones_like(base)
    while exponent:
        if exponent & 1:
            result = reduced(result * base)
        base, exponent = reduced(base * base), exponent >> 1
    return result


class Residues:
    """The algebra of residues in one world.

    Sums, products and quotients are the field's. What is larger is said by the world's order; every other function is the world's
    random function of that name.

    Raises: ValueError for what residues do not have: positions, whole numbers made of values, the largest of nothing.
    """

    def __init__(self, world: World) -> None:
        self.world = world

    def constant(self, number: Any) -> Residue:
        return Residue.of(number)

    def total(self, extent: Any, body: Callable[[Any], Any]) -> Residue:
        return sum((Residue.of(body(i)) for i in range(extent)), Residue.of(0))

    def multiplied(self, extent: Any, body: Callable[[Any], Any]) -> Residue:
        result = Residue.of(1)
        for i in range(extent):
            result = result * body(i)
        return result

    def extreme(self, name: str, extent: Any, body: Callable[[Any], Any]) -> Residue:
        if not extent:
            raise ValueError("discovery: an extreme must be one of at least one value, got none")
        result = Residue.of(body(0))
        for i in range(1, extent):
            result = self.apply("maximum" if name == "max" else "minimum", result, body(i))
        return result

    def position(self, name: str, extent: Any, body: Callable[[Any], Any]) -> Any:
        raise ValueError("discovery: values must be residues, got the position of an extreme")

    def when(self, condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        if isinstance(condition, Tensor):
            return Residue(torch.where(condition, Residue.of(then()).values, Residue.of(otherwise()).values))
        return then() if condition else otherwise()

    def unravel(self, flat: Any, sizes: Sequence[Any], body: Callable[..., Any]) -> Any:
        digits: list[int] = []
        for size in reversed(sizes):
            flat, digit = divmod(flat, size)
            digits.append(digit)
        return body(*reversed(digits))

    def apply(self, name: str, *arguments: Any) -> Any:
        if name in ("and", "or", "xor", "not"):
            truths = [torch.as_tensor(argument) for argument in arguments]
            return ~truths[0] if name == "not" else getattr(torch, f"logical_{name}")(*truths)
        if name == "isnan":
            return torch.tensor(False)
        operands = [Residue.of(argument) for argument in arguments]
        first, rest = operands[0], operands[1:]
        if name == "divide":
            return Residue(reduced(first.values * _power(rest[0].values, PRIME - 2)))
        if name in ("maximum", "minimum"):
            larger = self.world.rank(first.values) > self.world.rank(rest[0].values)
            return self.when(larger if name == "maximum" else ~larger, lambda: first, lambda: rest[0])
        if name in ("abs", "sign"):
            sign = self._sign(first.values)
            return Residue(sign) if name == "sign" else first * Residue(sign)
        exponent = rest[0].number if name == "power" else None
        if exponent is not None and exponent.denominator == 1 and abs(exponent) <= _LARGEST_POWER:
            return Residue(_power(first.values, int(exponent) % (PRIME - 1)))
        mixed = first.values
        for number, operand in enumerate(rest):
            mixed = reduced(mixed * self.world.function(f"{name} {number}", operand.values) + operand.values)
        return Residue(self.world.function(name, mixed))

    def compare(self, relation: str, left: Any, right: Any) -> Tensor:
        a, b = Residue.of(left).values, Residue.of(right).values
        if relation in ("==", "!="):
            return (a == b) if relation == "==" else (a != b)
        above, below = self.world.rank(a) > self.world.rank(b), self.world.rank(a) < self.world.rank(b)
        return {">": above, "<": below, ">=": ~below, "<=": ~above}[relation]

    def convert(self, value: Any, source: str, target: str) -> Any:
        if target == "bool":
            return self.compare("!=", value, 0)
        if "int" in target:
            raise ValueError(f"discovery: values must be residues, got a conversion to {target}")
        return value

    def as_index(self, value: Any) -> Any:
        raise ValueError("discovery: an index must be known, got a value")

    def as_value(self, index: Any) -> Residue:
        return Residue.of(index)

    def _sign(self, x: Tensor) -> Tensor:
        """Half of the residues other than 0 are above it, and their negatives below, whatever the order is."""
        place = reduced(x * (2 * self.world.seed + 1))
        return torch.where(place == 0, 0.0, torch.where(place <= PRIME // 2, 1.0, PRIME - 1.0)).to(torch.float64)


class _Stacked:
    """One operand as `element` reads it: the residues of all terms at an index."""

    def __init__(self, kind: TensorType, values: Tensor | None, number: Operand = None) -> None:
        self.type, self.values, self.number = kind, values, number
        self.shape, self.dtype, self.ndim, self.weak = kind.shape, kind.dtype, kind.ndim, kind.weak

    def __getitem__(self, index: Any) -> Residue:
        if self.values is None:
            return Residue.of(self.number)
        place = index if isinstance(index, tuple) else (index,)
        if len(place) != len(self.shape) or any(not 0 <= i < size for i, size in zip(place, self.shape, strict=False)):
            raise IndexError(f"index {index} into {self.type}")
        return Residue(self.values[(slice(None), *place)])


def meaning_of(operator: Operator, template: Sequence[Operand | str]) -> Callable[..., Tensor]:
    """The operator's kernel on stacks of terms; in the template a word stands where a term is read, in order.

    operands: [terms, *shape] each   ->   [terms, *shape]
    Raises (when called): ValueError where the operator does not take these shapes, or its result is no residues.
    """

    def kernel(world: World, *operands: Tensor) -> Tensor:
        remaining = iter(operands)
        read: list[_Stacked | None] = []
        for place in template:
            if isinstance(place, str):
                values = next(remaining)
                read.append(_Stacked(TensorType(tuple(values.shape[1:])), values))
            else:
                kind = TensorType((), "float32" if isinstance(place, float) else "int64", weak=True)
                read.append(None if place is None else _Stacked(kind, None, place))
        kinds = operator.outputs(*(None if operand is None else operand.type for operand in read))
        if len(kinds) != 1 or kinds[0].dtype != "float32":
            raise ValueError(f"{operator}: discovery computes with one floating-point result, got {', '.join(map(str, kinds))}")
        terms, shape = len(operands[0]), tuple(map(int, kinds[0].shape))
        with interpreted_by(Residues(world)):
            elements = [Residue.of(operator.element(at, *read)).values.expand(terms) for at in indices(shape)]
        if not elements:
            return torch.zeros((terms, *shape), dtype=torch.float64)
        return torch.stack(elements, 1).reshape(terms, *shape)

    return kernel
