"""The meaning of the normal form on numbers: what a value is for given sizes, indices and tensors, by plain enumeration.

Independent of the arithmetic that makes normal forms, and slow; tests hold the two against each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from operators.expressions import Atom, Dim, Expression, Extreme, Quotient, Symbol
from operators.formulas import Comparison, Formula, Junction, Negation, Truth, formula_symbols
from verifier.proof.binders import Binder
from verifier.proof.reductions import INFINITY, Largest
from verifier.proof.rounded import WithErrors
from verifier.proof.terms import Data, Factor, Function, Product, Read, Size, Value

Numbers = Mapping[Symbol, int]
Element = Callable[[str, tuple[int, ...]], Any]
WINDOW = 24
"""A bound index that no guard limits is tried from −WINDOW to WINDOW."""


class Evaluation:
    """Values as numbers; `element` gives tensors' elements by name and index (any number outside the tensor)."""

    def __init__(self, element: Element) -> None:
        self.element, self.algebra = element, WithErrors()

    def value(self, value: Value, numbers: Numbers) -> Any:
        """The number that the value is."""
        terms = sorted(value.terms.items(), key=lambda term: term[0].key)
        return sum((self._fraction(coefficient) * self._product(product, numbers) for product, coefficient in terms), 0.0)

    def _fraction(self, number: Fraction) -> Any:
        return float(number.numerator) if number.denominator == 1 else self.algebra.apply("divide", number.numerator, number.denominator)

    def _product(self, product: Product, numbers: Numbers) -> Any:
        result: Any = 0.0
        for point in self.points(product.bound, product.guards, numbers):
            part: Any = 1.0
            for factor, power in product.factors:
                base = self.factor(factor, point)
                part *= base if power == 1 else self.algebra.apply("power", base, power)
            result += part
        return result

    def points(self, bound: Iterable[Symbol], guards: Iterable[Formula], numbers: Numbers) -> Iterable[Numbers]:
        """Every assignment of the bound indices under which the guards hold."""
        open_indices = list(bound)
        given = list(guards)
        if not open_indices:
            if all(self.holds(guard, numbers) for guard in given):
                yield numbers
            return
        ranges = [(self._range(index, given, numbers, set(open_indices)), index) for index in open_indices]
        (low, high), index = min(ranges, key=lambda item: (item[0][1] - item[0][0], str(item[1])))
        others = [i for i in open_indices if i != index]
        for number in range(low, high + 1):
            step = {**numbers, index: number}
            decided = [g for g in given if not formula_symbols(g) & set(others)]
            if all(self.holds(guard, step) for guard in decided):
                yield from self.points(others, [g for g in given if g not in decided], step)

    def _range(self, index: Symbol, guards: list[Formula], numbers: Numbers, unknown: set[Symbol]) -> tuple[int, int]:
        low, high = -WINDOW, WINDOW
        for guard in guards:
            if not isinstance(guard, Comparison) or formula_symbols(guard) & (unknown - {index}):
                continue
            at = [self.dim(guard.expression, {**numbers, index: n}) for n in (0, 1, 2)]
            slope = at[1] - at[0]
            if at[2] - at[1] != slope or slope == 0:
                continue
            edge = -at[0] / slope
            if guard.relation == "==":
                low, high = max(low, math.ceil(edge)), min(high, math.floor(edge))
            elif slope > 0:
                low = max(low, math.ceil(edge))
            else:
                high = min(high, math.floor(edge))
        return low, high

    def holds(self, formula: Truth, numbers: Numbers) -> bool:
        """The statement is true."""
        if isinstance(formula, bool):
            return formula
        if isinstance(formula, Comparison):
            value = self.dim(formula.expression, numbers)
            return value == 0 if formula.relation == "==" else value >= 0
        if isinstance(formula, Negation):
            return not self.holds(formula.formula, numbers)
        assert isinstance(formula, Junction)
        join = all if formula.connective == "and" else any
        return join(self.holds(part, numbers) for part in formula.formulas)

    def dim(self, dim: Dim, numbers: Numbers) -> int:
        """The integer that the expression is."""
        if isinstance(dim, int):
            return dim
        return int(sum(c * math.prod(self.atom(a, numbers) for a in m) for m, c in dim.terms.items()))

    def atom(self, atom: Atom, numbers: Numbers) -> int:
        """The integer that the unknown is."""
        if isinstance(atom, Symbol):
            return numbers[atom]
        if isinstance(atom, Quotient):
            return int(self.dim(atom.numerator, numbers) // self.dim(atom.denominator, numbers))
        if isinstance(atom, Extreme):
            pick = max if atom.name == "max" else min
            return int(pick(self.dim(atom.left, numbers), self.dim(atom.right, numbers)))
        assert isinstance(atom, Data)
        return int(self.algebra.as_index(self.value(atom.value, numbers)))

    def factor(self, factor: Factor, numbers: Numbers) -> Any:
        """The number that the factor is."""
        if isinstance(factor, Read):
            return float(self.element(factor.tensor, tuple(self.dim(i, numbers) for i in factor.index)))
        if isinstance(factor, Size):
            return float(self.dim(Expression.of(factor.atom), numbers))
        if isinstance(factor, Largest):
            found = [self.value(a.value, p) for a in factor.alternatives for p in self.points(a.bound, a.guards, numbers)]
            return self.algebra.extreme("max", len(found), found.__getitem__)
        if isinstance(factor, Binder):
            values = [self.value(factor.value, {**numbers, factor.index: i}) for i in range(self.dim(factor.extent, numbers))]
            return math.prod(values) if factor.name == "product" else self.algebra.position("max", len(values), values.__getitem__)
        assert isinstance(factor, Function)
        return self._function(factor.name, [self.value(argument, numbers) for argument in factor.arguments])

    def _function(self, name: str, arguments: list[Any]) -> Any:
        if name == INFINITY:
            return math.inf
        if name in ("above", "zero"):
            return float(self.algebra.compare(">" if name == "above" else "==", arguments[0], 0))
        if name == "inverse":
            return self.algebra.apply("divide", 1.0, arguments[0]) if arguments[0] else math.inf
        return self.algebra.apply(name, *arguments)
