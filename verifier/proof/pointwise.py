"""Equality over the reals of what is left at one index point: piecewise functions and quotients by Z3, case by case.

Elements, exponentials and sums that stay as they are become unknown reals; maxima, truths, floors, reciprocals and roots get their
definitions. A reciprocal is defined only where its base is known not to be zero, a root only where its base is known not to be negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from operators.expressions import Dim
from operators.formulas import Formula
from verifier.proof.knowledge import current
from verifier.proof.reductions import INFINITY, Largest
from verifier.proof.signs import is_nonnegative, is_nonzero, is_positive
from verifier.proof.solver import Translation
from verifier.proof.terms import Data, Factor, Function, Product, Read, Size, Value, sorted_factors

Guards = frozenset[Formula]
_DEFINED = frozenset({"inverse", "sqrt", "above", "zero", "floor", "trunc", "sigmoid"})
_AT_ZERO = {"exp": Fraction(1), "sigmoid": Fraction(1, 2)}
"""Functions that increase everywhere, with their value at 0."""
_MOST_COMPARED = 4
"""So many values of one such function are compared with one another."""


class Reals:
    """Values as Z3 reals on top of a translation of integers."""

    def __init__(self, translation: Translation) -> None:
        self.integers, self.z3 = translation, translation.z3
        self._known: dict[str, Any] = {}
        self._read: dict[str, dict[tuple[Dim, ...], Any]] = {}
        self._increasing: dict[str, list[tuple[Any, Any]]] = {}

    def value(self, value: Value) -> Any:
        """A sum."""
        parts = [self._product(product) * self.number(coefficient) for product, coefficient in value.terms.items()]
        return self.z3.Sum(parts) if len(parts) > 1 else parts[0] if parts else self.z3.RealVal(0)

    def number(self, number: Fraction) -> Any:
        """A rational number."""
        return self.z3.Q(number.numerator, number.denominator)

    def _product(self, product: Product) -> Any:
        bound = set(product.bound)
        result = self.z3.RealVal(1)
        inner: dict[Factor, int] = {}
        for factor, power in product.factors:
            if bound and factor.free & bound:
                inner[factor] = power
                continue
            real = self.factor(factor)
            for _ in range(power):
                result = result * real
        if bound:
            summed = Value.of(Product(product.bound, product.guards, sorted_factors(inner))).canonical()
            unknown = self._unknown(summed.key)
            if is_positive(summed):
                self.integers.constraints.append(unknown > 0)
            elif is_nonnegative(summed):
                self.integers.constraints.append(unknown >= 0)
            return result * unknown
        if product.guards:
            return self.z3.If(self.z3.And([self.integers.formula(g) for g in product.guards]), result, self.z3.RealVal(0))
        return result

    def _unknown(self, key: str) -> Any:
        return self.z3.Real(f"real {key}")

    def factor(self, factor: Factor) -> Any:
        """One factor."""
        found = self._known.get(factor.key)
        if found is None:
            found = self._known[factor.key] = self._define(factor)
        return found

    def _define(self, factor: Factor) -> Any:
        z3, learn = self.z3, self.integers.constraints.append
        if isinstance(factor, Size):
            return z3.ToReal(self.integers.atom(factor.atom))
        unknown = self._unknown(factor.key)
        if isinstance(factor, Read):
            self._read.setdefault(factor.tensor, {})[factor.index] = unknown
            known = current().values.get(factor.tensor)
            if factor.kind == "bool":
                learn(z3.Or(unknown == 0, unknown == 1))
            elif factor.kind == "int":
                return z3.ToReal(self.integers.atom(Data(Value.of(factor))))
            if known is not None:
                learn(unknown > 0 if known == "positive" else unknown >= 0 if known == "nonnegative" else unknown != 0)
            if factor.key in current().nonnegative:
                learn(unknown >= 0)
            if factor.key in current().nonzero:
                learn(unknown != 0)
        elif isinstance(factor, Largest):
            self._define_largest(factor, unknown)
        elif isinstance(factor, Function):
            return self._define_function(factor, unknown)
        return unknown

    def learn_bounds(self) -> None:
        """What is known of the elements that were read, wherever all tensors of a bound are read at one index."""
        for bound in current().bounds:
            names = [name for name, _ in bound.coefficients]
            places = dict.fromkeys(index for name in names for index in self._read.get(name, {}) if index)
            for place in places or {(): None}:
                total = self.number(bound.constant)
                for name, coefficient in bound.coefficients:
                    read = self._read.get(name, {})
                    element = read.get(place, read.get(()))
                    if element is None:
                        break
                    total = total + self.number(coefficient) * element
                else:
                    relations = {">=": total >= 0, ">": total > 0, "==": total == 0, "!=": total != 0}
                    self.integers.constraints.append(relations[bound.relation])

    def _define_largest(self, factor: Largest, unknown: Any) -> None:
        if any(a.bound or a.guards for a in factor.alternatives):
            return
        parts = [self.value(a.value) for a in factor.alternatives]
        self.integers.constraints.extend(unknown >= part for part in parts)
        self.integers.constraints.append(self.z3.Or([unknown == part for part in parts]))

    def _define_function(self, factor: Function, unknown: Any) -> Any:
        z3, learn = self.z3, self.integers.constraints.append
        if factor.name == "exp":
            learn(unknown > 0)
        elif factor.name == "sigmoid":
            learn(z3.And(unknown > 0, unknown < 1))
        if factor.name in _AT_ZERO and _is_affine(factor.arguments[0]):
            self._learn_increase(factor.name, self.value(factor.arguments[0]), unknown)
        if factor.name == "log" and _is_affine(factor.arguments[0]):
            self._learn_logarithm(self.value(factor.arguments[0]), unknown)
        if factor.name == "number":
            return self.value(factor.arguments[0])
        if factor.name not in _DEFINED or factor.name == "sigmoid":
            return unknown
        inner = self.value(factor.arguments[0])
        one, zero = z3.RealVal(1), z3.RealVal(0)
        if factor.name == "above":
            return z3.If(inner > 0, one, zero)
        if factor.name == "zero":
            return z3.If(inner == 0, one, zero)
        if factor.name == "inverse":
            if is_nonzero(factor.arguments[0]):
                learn(unknown * inner == 1)
            if is_positive(factor.arguments[0]):
                learn(inner > 0)
        elif factor.name == "sqrt":
            if is_nonnegative(factor.arguments[0]):
                learn(z3.And(unknown >= 0, unknown * unknown == inner))
        else:
            whole = self.integers.atom(Data(Value.of(factor)))
            below = z3.And(z3.ToReal(whole) <= inner, inner < z3.ToReal(whole) + 1)
            if factor.name == "trunc":
                above = z3.And(z3.ToReal(whole) >= inner, inner > z3.ToReal(whole) - 1)
                learn(z3.If(inner >= 0, below, above))
            else:
                learn(below)
            return z3.ToReal(whole)
        return unknown

    def _learn_increase(self, name: str, inner: Any, unknown: Any) -> None:
        """A function that increases everywhere: where its value lies beside that at 0, and beside its values elsewhere."""
        learn, at_zero = self.integers.constraints.append, self.number(_AT_ZERO[name])
        others = self._increasing.setdefault(name, [])
        for place, value in [(self.z3.RealVal(0), at_zero), *others]:
            learn((inner > place) == (unknown > value))
            learn((inner == place) == (unknown == value))
        if len(others) < _MOST_COMPARED:
            others.append((inner, unknown))

    def _learn_logarithm(self, inner: Any, unknown: Any) -> None:
        """Where a logarithm lies beside 0, and what it is of an exponential."""
        z3, learn = self.z3, self.integers.constraints.append
        learn(z3.Implies(inner > 0, z3.And((inner > 1) == (unknown > 0), (inner == 1) == (unknown == 0))))
        for exponent, power in self._increasing.get("exp", ()):
            learn((inner == power) == z3.And(inner > 0, unknown == exponent))


def _is_affine(value: Value) -> bool:
    """A sum of numbers times single factors (or sums over other indices), which costs Z3 little."""
    return all(sum(power for _, power in product.factors) <= 1 or product.bound for product in value.terms)


def is_piecewise(value: Value) -> bool:
    """Something in the value has a definition that could make it zero."""
    for product in value.terms:
        if product.guards and not product.bound:
            return True
        for factor, _ in product.factors:
            if isinstance(factor, Largest) or factor.idempotent or (isinstance(factor, Function) and factor.name in _DEFINED):
                return True
    return False


def is_zero(value: Value, guards: Guards, comparison: Any = None) -> bool:
    """The value is zero for all reals that stand for its unknown parts, wherever the guards hold."""
    if not value.terms:
        return True
    if not is_piecewise(value) or INFINITY in value.key:
        return False

    def statements(t: Translation) -> list[Any]:
        reals = Reals(t)
        difference = reals.value(value)
        reals.learn_bounds()
        return [t.formula(g) for g in guards] + [difference != 0]

    return current().solver.unsatisfiable(statements)


def group_is_zero(terms: Mapping[tuple[Guards, tuple[tuple[Factor, int], ...]], Fraction], guards: Guards) -> bool:
    """Σ coefficient · numbers · [guards] is zero for all integers at which the given guards hold."""

    def statements(t: Translation) -> list[Any]:
        reals = Reals(t)
        parts = []
        for (own, numbers), coefficient in terms.items():
            part = reals.number(coefficient)
            for factor, power in numbers:
                for _ in range(power):
                    part = part * reals.factor(factor)
            parts.append(t.z3.If(t.z3.And([t.formula(g) for g in own]), part, t.z3.RealVal(0)) if own else part)
        return [t.formula(g) for g in guards] + [t.z3.Sum(parts) != 0]

    return current().solver.unsatisfiable(statements)
