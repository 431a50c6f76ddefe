"""Solving for a pattern's sizes and attributes: its polynomials are set equal to the numbers (or symbols) of a real graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from operators.expressions import Atom, Dim, Expression, Monomial, Symbol, divide_exactly, substitute


@dataclass(frozen=True, eq=True)
class Unknown(Symbol):
    """A size or attribute of a pattern, kept apart from the symbols of the graph in which the pattern is sought."""

    def __str__(self) -> str:
        return f"?{self.name}"


def with_unknowns(value: Any) -> Any:
    """The value with the symbols of its expressions as `Unknown`s, inside tuples as well."""
    if isinstance(value, Expression):
        return substitute(value, {atom: Expression.of(Unknown(atom.name)) for atom in value.symbols})
    if isinstance(value, tuple):
        return tuple(with_unknowns(part) for part in value)
    return value


def readable(value: Any) -> str:
    """The value as people write it, without the marks of unknowns."""
    return str(value).replace("?", "")


@dataclass
class Unification:
    """What is known of the unknowns, and the equations that wait for more."""

    values: dict[Atom, Dim] = field(default_factory=dict)
    pending: list[tuple[Dim, Dim]] = field(default_factory=list)

    def copy(self) -> Unification:
        return Unification(dict(self.values), list(self.pending))

    def equate(self, pattern: Dim, host: Dim) -> bool:
        """Let `pattern` be `host`; False when that is impossible."""
        if isinstance(pattern, int):
            return pattern == host
        if len(pattern.terms) == 1:
            ((monomial, coefficient),) = pattern.terms.items()
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Unknown):
                known = self.values.get(monomial[0])
                if known is None:
                    self.values[monomial[0]] = host
                    return True
                return known == host
        outcome = self._solve(pattern, host)
        if outcome is None:
            self.pending.append((pattern, host))
        return outcome is not False

    def settle(self) -> str | None:
        """Solve what waits as far as it goes; None when nothing is left, otherwise the equation that fails or stays open."""
        while self.pending:
            waiting, self.pending = self.pending, []
            for pattern, host in waiting:
                outcome = self._solve(pattern, host)
                if outcome is False:
                    return f"{readable(pattern)} must be {host}, got {self._value(pattern)}"
                if outcome is None:
                    self.pending.append((pattern, host))
            if len(self.pending) == len(waiting):
                pattern, host = waiting[0]
                unknown = sorted(atom.name for atom in self._open(self._value(pattern)))
                return f"{readable(pattern)} = {host} does not determine {', '.join(unknown)}"
        return None

    def _value(self, pattern: Dim) -> Dim:
        return substitute(pattern, self.values)

    @staticmethod
    def _open(value: Dim) -> set[Symbol]:
        return {atom for atom in value.symbols if isinstance(atom, Unknown)} if isinstance(value, Expression) else set()

    def _solve(self, pattern: Dim, host: Dim) -> bool | None:
        """Whether the equation holds or fixes its one unknown; None when it must wait."""
        value = self._value(pattern)
        unknowns = self._open(value)
        if not unknowns:
            return bool(Expression.of(value).terms == Expression.of(host).terms)
        if len(unknowns) > 1:
            return None
        (unknown,) = unknowns
        parts = linear(Expression.of(value), unknown)
        if parts is None:
            return None
        slope, rest = parts
        if isinstance(slope, int) and slope == 0:
            return None
        solution = divide_exactly(host - rest, slope)
        if solution is None:
            return False
        self.values[unknown] = solution
        return True


def linear(value: Expression, unknown: Symbol) -> tuple[Dim, Dim] | None:
    """(a, b) of value = a * unknown + b; None when the unknown occurs otherwise."""
    slope: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in value.terms.items():
        others = tuple(atom for atom in monomial if atom != unknown)
        if any(unknown in part.symbols for atom in others for part in atom.inner()):
            return None
        if len(monomial) - len(others) > 1:
            return None
        if len(others) == len(monomial):
            rest[monomial] = coefficient
        else:
            slope[others] = coefficient
    return Expression(slope).collapse(), Expression(rest).collapse()


def equate_all(unification: Unification, pattern: Iterable[Dim], host: Iterable[Dim]) -> bool:
    """Equate pairwise; the two must be equally long."""
    return all(unification.equate(left, right) for left, right in zip(pattern, host, strict=True))
