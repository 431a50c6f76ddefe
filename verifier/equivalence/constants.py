"""Values of the prover that consist of constants, evaluated over whole grids of index points at once, with what rounding may do.

A folded constant was computed in its own dtype by k operations; each is off by at most u of its result, so the fold is off by at
most k·u·Σ|terms| to first order (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). `Number` carries Σ|terms|
and k beside the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch

from operators.expressions import Atom, Dim, Expression, Extreme, Quotient, Symbol
from operators.formulas import Comparison, Formula, Junction, Negation, Truth
from verifier.proof.compare import is_numeric
from verifier.proof.guards import bounds_of
from verifier.proof.terms import Data, Factor, Function, Product, Read, Size, Value

MOST_POINTS = 40_000_000


class NotNumbers(NotImplementedError):
    """A value that is no number over a grid of known extent: it reads a tensor that is no constant, or a size is unknown."""


@dataclass(frozen=True)
class Number:
    """Numbers over a grid: the values, Σ|terms| of which they are sums, and the roundings in which they are computed."""

    value: torch.Tensor
    size: torch.Tensor
    roundings: int

    def plus(self, other: Number) -> Number:
        """The sum."""
        return Number(self.value + other.value, self.size + other.size, max(self.roundings, other.roundings) + 1)

    def times(self, other: Number) -> Number:
        """The product."""
        return Number(self.value * other.value, self.size * other.size, self.roundings + other.roundings + 1)


def _exactly(number: float) -> Number:
    tensor = torch.tensor(number, dtype=torch.float64)
    return Number(tensor, tensor.abs(), 0)


class Grid:
    """Index variables as axes of tensors: each ranges over the whole numbers between its bounds."""

    def __init__(self, constants: Mapping[str, torch.Tensor]) -> None:
        self.constants = constants
        self.axes: dict[Symbol, torch.Tensor] = {}
        self.points = 1

    def add(self, indices: Iterable[Symbol], guards: Iterable[Formula]) -> None:
        """Let indices that are new range as the guards say.

        Raises: NotNumbers where the guards give no numbers, or the grid would be too large.
        """
        bounds = bounds_of(g for g in guards if isinstance(g, Comparison))
        new = [index for index in dict.fromkeys(indices) if index not in self.axes]
        for index in new:
            low, high = bounds.get(index, (None, None))
            if not isinstance(low, int) or not isinstance(high, int):
                raise NotNumbers(f"the index {index} has no range in numbers")
            self.points *= max(high - low + 1, 0)
            if self.points > MOST_POINTS:
                raise NotNumbers("there are too many index points")
            for other, axis in self.axes.items():
                self.axes[other] = axis.unsqueeze(-1)
            self.axes[index] = torch.arange(low, high + 1).view(*[1] * len(self.axes), -1)

    def within(self, bound: Sequence[Symbol], guards: Iterable[Formula]) -> Grid:
        """This grid with further axes, last, for bound indices."""
        inner = Grid(self.constants)
        inner.axes, inner.points = dict(self.axes), self.points
        inner.add(bound, guards)
        return inner

    def dim(self, dim: Dim) -> torch.Tensor:
        """An integer expression at every point."""
        if isinstance(dim, int):
            return torch.tensor(dim)
        total = torch.tensor(0)
        for monomial, coefficient in dim.terms.items():
            part = torch.tensor(coefficient)
            for atom in monomial:
                part = part * self._atom(atom)
            total = total + part
        return total

    def _atom(self, atom: Atom) -> torch.Tensor:
        if isinstance(atom, Symbol):
            if atom not in self.axes:
                raise NotNumbers(f"{atom} is not known in numbers")
            return self.axes[atom]
        if isinstance(atom, Quotient):
            bottom = self.dim(atom.denominator)
            if not bool((bottom != 0).all()):
                raise NotNumbers(f"{atom} divides by zero")
            return torch.div(self.dim(atom.numerator), bottom, rounding_mode="floor")
        if isinstance(atom, Extreme):
            pick = torch.maximum if atom.name == "max" else torch.minimum
            return pick(self.dim(atom.left), self.dim(atom.right))
        raise NotNumbers("an index is computed from data")

    def holds(self, formula: Truth) -> torch.Tensor:
        """Whether a statement holds, at every point."""
        if isinstance(formula, bool):
            return torch.tensor(formula)
        if isinstance(formula, Comparison):
            value = self.dim(formula.expression)
            return value == 0 if formula.relation == "==" else value >= 0
        if isinstance(formula, Negation):
            return ~self.holds(formula.formula)
        assert isinstance(formula, Junction)
        result = torch.tensor(formula.connective == "and")
        for part in formula.formulas:
            result = result & self.holds(part) if formula.connective == "and" else result | self.holds(part)
        return result

    def all_hold(self, guards: Iterable[Formula]) -> torch.Tensor:
        """Whether all statements hold, at every point."""
        result = torch.tensor(True)
        for guard in guards:
            result = result & self.holds(guard)
        return result

    def value(self, value: Value) -> Number:
        """A value at every point."""
        total = _exactly(0.0)
        terms = sorted(value.terms.items(), key=lambda item: item[0].key)
        for position, (product, coefficient) in enumerate(terms):
            part = self.product(product, coefficient)
            total = total.plus(part) if position else part
        return total

    def product(self, product: Product, coefficient: Fraction = Fraction(1)) -> Number:
        """A product at every point: summed over its bound indices, 0 where its guards fail."""
        inner = self.within(product.bound, product.guards)
        mask = inner.all_hold(product.guards)
        result = _exactly(float(coefficient))
        for factor, power in product.factors:
            part = inner.factor(factor, mask)
            for _ in range(power):
                result = result.times(part)
        axes = tuple(range(-len(product.bound), 0))
        shape = torch.broadcast_shapes(result.value.shape, mask.shape, *(a.shape for a in inner.axes.values()))  # type: ignore[no-untyped-call]
        value, size = (torch.where(mask, t, 0.0).expand(shape) for t in (result.value, result.size))
        if not axes:
            return Number(value, size, result.roundings)
        count = math.prod(shape[axis] for axis in axes)
        return Number(value.sum(axes), size.sum(axes), result.roundings + count)

    def factor(self, factor: Factor, mask: torch.Tensor) -> Number:
        """A factor at every point; where the mask fails it may be any number.

        Raises: NotNumbers.
        """
        if isinstance(factor, Read):
            tensor = self.constants.get(factor.tensor)
            if tensor is None:
                raise NotNumbers(f"{factor.tensor} is no constant")
            value = _element(tensor, [self.dim(dim) for dim in factor.index], mask)
            return Number(value, value.abs(), 0)
        if isinstance(factor, Size):
            value = self.dim(Expression.of(factor.atom)).double()
            return Number(value, value.abs(), 0)
        if isinstance(factor, Function):
            return self._function(factor)
        raise NotNumbers(f"{type(factor).__name__} over constants is not evaluated")

    def _function(self, factor: Function) -> Number:
        arguments = [self.value(argument) for argument in factor.arguments]
        values = [argument.value for argument in arguments]
        if factor.name in _SLOPES:
            (argument,) = arguments
            function, slope = _SLOPES[factor.name]
            value = function(argument.value)
            by_argument = slope(argument.value).abs() * argument.size if argument.roundings else torch.tensor(0.0)
            return Number(value, value.abs() + by_argument, argument.roundings + 2)
        if factor.name not in _FUNCTIONS:
            raise NotNumbers(f"{factor.name} over constants is not evaluated")
        value = _FUNCTIONS[factor.name](*values)
        # To first order, a relative error e of the argument is one of condition · e of the function.
        amplified = value.abs()
        for argument in arguments:
            cancelled = argument.size / argument.value.abs().clamp_min(torch.finfo(torch.float64).tiny)
            amplified = amplified * cancelled.clamp(1.0, 1e12)
        return Number(value, amplified, sum(argument.roundings for argument in arguments) + 2)


_FUNCTIONS = {
    "inverse": lambda x: torch.where(x == 0, torch.inf, 1 / x),
    "sqrt": torch.sqrt,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "atan": torch.atan,
    "abs": torch.abs,
}
"""Functions whose relative condition number is at most 1 (Higham, section 1.6)."""

_SLOPES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]] = {
    "exp": (torch.exp, torch.exp),
    "log": (torch.log, torch.reciprocal),
    "sin": (torch.sin, torch.cos),
    "cos": (torch.cos, torch.sin),
    "sigmoid": (torch.sigmoid, lambda x: torch.sigmoid(x) * torch.sigmoid(-x)),
}
"""Other functions, with the magnitude of their derivatives: by so much, to first order, an error of the argument is one of the value."""


def _element(tensor: torch.Tensor, index: Sequence[torch.Tensor], mask: torch.Tensor) -> torch.Tensor:
    """Elements at the indices; any element where the mask fails, for there an index may lie outside."""
    if not tensor.numel():
        return torch.tensor(0.0, dtype=torch.float64)
    clamped = []
    for position, size in zip(index, tensor.shape, strict=True):
        if bool((((position < 0) | (position >= size)) & mask).any()):
            raise NotNumbers("a constant is read outside its axes")
        clamped.append(position.clamp(0, size - 1))
    found: torch.Tensor = tensor[tuple(clamped)] if clamped else tensor
    return found.double()


def consists_of(factor: Factor, constants: Mapping[str, torch.Tensor]) -> bool:
    """The factor reads constants and nothing else, or is a number such as √2."""
    if not isinstance(factor, (Read, Function)) or is_numeric(factor):
        return False
    return all(isinstance(read, Read) and read.tensor in constants for read in _reads(factor))


def _reads(factor: Factor) -> Iterable[Factor | None]:
    if isinstance(factor, Read):
        yield None if any(isinstance(a, Data) for dim in factor.index if isinstance(dim, Expression) for a in dim.atoms) else factor
    elif isinstance(factor, Function):
        for part in factor.parts():
            for product in part.terms:
                for inner, _ in product.factors:
                    yield from _reads(inner)
    elif not isinstance(factor, Size):
        yield None


__all__ = ["Grid", "NotNumbers", "Number", "consists_of"]
