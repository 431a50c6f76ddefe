"""What is known of symbolic sizes because sizes are at least 0."""

from __future__ import annotations

import math

from operators.expressions import Atom, Dim, Extreme, Quotient, Symbol, larger, smaller


def least(dim: Dim) -> int | None:
    """A number that the dim is never below, sizes being at least 0; None when none is known."""
    if isinstance(dim, int):
        return dim
    total = 0
    for monomial, coefficient in dim.terms.items():
        bounds = [_least_of_atom(atom) for atom in monomial]
        if coefficient < 0 and monomial:
            return None
        if len(bounds) == 1 and bounds[0] is not None:
            total += coefficient * bounds[0]
        elif any(bound is None or bound < 0 for bound in bounds):
            return None
        else:
            total += coefficient * math.prod(bound for bound in bounds if bound is not None)
    return total


def _least_of_atom(atom: Atom) -> int | None:
    if isinstance(atom, Symbol):
        return 0
    if isinstance(atom, Quotient):
        below, divisor = least(atom.numerator), atom.denominator.collapse()
        return below // divisor if below is not None and isinstance(divisor, int) and divisor > 0 else None
    assert isinstance(atom, Extreme)
    bounds = [bound for bound in (least(atom.left), least(atom.right)) if bound is not None]
    return max(bounds, default=None) if atom.name == "max" else min(bounds) if len(bounds) == 2 else None


def is_positive(dim: Dim) -> bool:
    """The dim is known to be at least 0, sizes being so."""
    below = least(dim)
    return below is not None and below >= 0


def at_most(left: Dim, right: Dim) -> Dim:
    """The smaller of two dims; one of them, where it is known which."""
    return left if is_positive(right - left) else right if is_positive(left - right) else smaller(left, right)


def at_least(left: Dim, right: Dim) -> Dim:
    """The larger of two dims; one of them, where it is known which."""
    return left if is_positive(left - right) else right if is_positive(right - left) else larger(left, right)
