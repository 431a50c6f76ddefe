"""What holds wherever a value is defined: divisors are not zero, roots are of numbers ≥ 0, logarithms of numbers > 0.

A law that may change what happens where its pattern is undefined is proved under what the pattern's own domains say, never under
those of its replacement: x·x/x = x holds so, and x = x·x/x does not.
"""

from __future__ import annotations

from verifier.proof.knowledge import current
from verifier.proof.reductions import INFINITY, is_inhabited
from verifier.proof.signs import direction, polynomial_of
from verifier.proof.terms import Factor, Function, Value


def learn_domains(value: Value) -> bool:
    """Teach what must hold for the value to be a number; whether anything of it was new.

    Terms that count only under a condition, and sums that may be empty, teach nothing. At the top of a term an infinity is as good as NaN;
    inside a function it may come out as a number again (e^(−1/0²) = 0), and only NaN is sure to come through.
    """
    if INFINITY in value.key:
        return False
    before = len(current().nonzero) + len(current().nonnegative)
    _learn_each(value, top=True)
    return len(current().nonzero) + len(current().nonnegative) > before


def _learn_each(value: Value, top: bool) -> None:
    for product in value.terms:
        counts = is_inhabited(product.bound, product.guards) if product.bound else not product.guards
        if counts and not any(factor.idempotent for factor, _ in product.factors):
            for factor, _ in product.factors:
                if not factor.free & set(product.bound):
                    _learn(factor, top)


def _learn(factor: Factor, top: bool) -> None:
    if not isinstance(factor, Function) or factor.name not in _STRICT:
        return
    (argument,) = factor.arguments
    if polynomial_of(argument) is not None:
        return
    if factor.name in ("sqrt", "log"):
        current().nonnegative.add(direction(argument))
        if argument.factor is not None:
            current().nonnegative.add(argument.factor.key)
    if top and factor.name in ("inverse", "log"):
        _learn_nonzero(argument)
    _learn_each(argument, top=False)


def _learn_nonzero(argument: Value) -> None:
    """A product is not zero, and neither is any of its factors; nor is what a root is of."""
    current().nonzero.update((direction(argument), direction(-argument)))
    if argument.single is not None:
        product, _ = argument.single
        if not product.bound and not product.guards:
            for factor, _ in product.factors:
                current().nonzero.add(factor.key)
                if isinstance(factor, Function) and factor.name == "sqrt":
                    _learn_nonzero(factor.arguments[0])


_STRICT = frozenset({"inverse", "sqrt", "log", "exp", "sigmoid", "sin", "cos", "atan", "erf"})
"""Functions of one number that give NaN of NaN."""

__all__ = ["learn_domains"]
