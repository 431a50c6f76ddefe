"""Statements about sizes: comparisons of expressions with zero, joined by and, or and not; a plain bool once they are decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from operators.expressions import Dim, Expression, Symbol


class UndecidedError(TypeError):
    """A statement about symbolic sizes was used as if it were known; state it as a condition instead."""


decisions: list[Callable[[Formula], bool]] = []
"""Who answers when Python asks whether a formula is true, the last one first; nobody by default."""


class Formula:
    """A statement about sizes; `&`, `|`, `~` combine statements."""

    def __and__(self, other: Any) -> Any:
        return all_of(self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return any_of(self, other)

    __ror__ = __or__

    def __invert__(self) -> Any:
        return negate(self)

    def __bool__(self) -> bool:
        decide = decisions[-1] if decisions else None
        if decide is None:
            raise UndecidedError(f"whether {self} holds is not known for symbolic sizes")
        return decide(self)


@dataclass(frozen=True)
class Comparison(Formula):
    """`expression relation 0`, with relation one of `==`, `>=`."""

    expression: Expression
    relation: str

    def __str__(self) -> str:
        left, right = self.expression.sides()
        return f"{left} {'=' if self.relation == '==' else '≥'} {right}"


@dataclass(frozen=True)
class Negation(Formula):
    """Not `formula`."""

    formula: Formula

    def __str__(self) -> str:
        return f"not ({self.formula})"


@dataclass(frozen=True)
class Junction(Formula):
    """All (`and`) or any (`or`) of several statements."""

    connective: str
    formulas: tuple[Formula, ...]

    def __str__(self) -> str:
        return "(" + f" {self.connective} ".join(map(str, self.formulas)) + ")"


Truth: TypeAlias = bool | Formula


def at_least_zero(value: Dim) -> Truth:
    """value ≥ 0."""
    return value >= 0 if isinstance(value, int) else Comparison(value.plain(), ">=")


def equal(left: Dim, right: Dim) -> Truth:
    """left = right, as a statement."""
    difference = left - right
    if isinstance(difference, int):
        return difference == 0
    return Comparison(difference.lowest().plain(), "==")


def negate(formula: Truth) -> Truth:
    """The opposite statement."""
    if isinstance(formula, bool):
        return not formula
    if isinstance(formula, Negation):
        return formula.formula
    if isinstance(formula, Comparison) and formula.relation == ">=":
        return at_least_zero(-formula.expression - 1)
    if isinstance(formula, Junction):
        opposite = any_of if formula.connective == "and" else all_of
        return opposite(*map(negate, formula.formulas))
    return Negation(formula)


def all_of(*formulas: Truth) -> Truth:
    """Every one of the statements."""
    return join("and", formulas)


def any_of(*formulas: Truth) -> Truth:
    """At least one of the statements."""
    return join("or", formulas)


def join(connective: str, formulas: tuple[Truth, ...]) -> Truth:
    """All (`and`) or any (`or`) of the statements, decided where they decide it."""
    absorbing = connective == "or"
    kept: dict[Formula, None] = {}
    for formula in formulas:
        if isinstance(formula, Formula):
            parts = formula.formulas if isinstance(formula, Junction) and formula.connective == connective else (formula,)
            kept.update(dict.fromkeys(parts))
        elif bool(formula) == absorbing:
            return absorbing
    if not kept:
        return not absorbing
    return next(iter(kept)) if len(kept) == 1 else Junction(connective, tuple(kept))


def formula_symbols(formula: Truth) -> set[Symbol]:
    """Every symbol in the statement."""
    if isinstance(formula, Comparison):
        return formula.expression.symbols
    if isinstance(formula, Negation):
        return formula_symbols(formula.formula)
    if isinstance(formula, Junction):
        return set().union(*map(formula_symbols, formula.formulas))
    return set()
