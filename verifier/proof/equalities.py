"""Equalities between real attributes and elements, from a rule's conditions: each is solved for one name, which is then no unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from graphs.graph import Graph
from operators.operator import kind_of
from operators.sources import Input
from verifier.proof.knowledge import Bound


@dataclass(frozen=True)
class Linear:
    """Σ coefficient · name + constant."""

    coefficients: Mapping[str, Fraction]
    constant: Fraction = Fraction(0)


def single_numbers(*graphs: Graph) -> dict[str, bool]:
    """The inputs of floating-point numbers by name: whether each is one number, or a tensor."""
    inputs = [operator for graph in graphs for operator in map(graph.operator, graph) if isinstance(operator, Input)]
    return {kept.name: kept.type.weak and not kept.type.shape for kept in inputs if kind_of(kept.type.dtype) == "float"}


def solved_equalities(bounds: Sequence[Bound], single: Mapping[str, bool]) -> tuple[dict[str, Linear], list[Bound]]:
    """What some names are by the equalities among the bounds, and the bounds without these names.

    `single` says of each name whether it is one number (a real attribute) or a tensor. A tensor is solved for only where the rest of the
    equality are numbers, so that all its elements are known. Equalities that say nothing of unknowns are left out: their truth is for
    the conditions to settle.
    """
    found: dict[str, Linear] = {}
    left = list(bounds)
    while True:
        for bound in left:
            name = _to_solve(bound, single) if bound.relation == "==" else None
            if name is not None:
                break
        else:
            return found, left
        terms = dict(bound.coefficients)
        factor = -1 / terms.pop(name)
        solution = Linear({other: c * factor for other, c in terms.items()}, bound.constant * factor)
        found = {other: _substituted(value, name, solution) for other, value in found.items()} | {name: solution}
        left = [replaced for other in left if other is not bound for replaced in [_without(other, name, solution)] if replaced.coefficients]


def _to_solve(bound: Bound, single: Mapping[str, bool]) -> str | None:
    names = [name for name, _ in bound.coefficients]
    if not all(name in single for name in names):
        return None
    tensors = [name for name in names if not single[name]]
    if len(tensors) > 1:
        return None
    return tensors[0] if tensors else max(names, default=None)


def _substituted(value: Linear, name: str, solution: Linear) -> Linear:
    factor = value.coefficients.get(name)
    if factor is None:
        return value
    terms = {other: c for other, c in value.coefficients.items() if other != name}
    for other, c in solution.coefficients.items():
        terms[other] = terms.get(other, Fraction(0)) + factor * c
    return Linear({other: c for other, c in terms.items() if c}, value.constant + factor * solution.constant)


def _without(bound: Bound, name: str, solution: Linear) -> Bound:
    value = _substituted(Linear(dict(bound.coefficients), bound.constant), name, solution)
    return replace(bound, coefficients=tuple(sorted(value.coefficients.items())), constant=value.constant)


__all__ = ["Linear", "single_numbers", "solved_equalities"]
