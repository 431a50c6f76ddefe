"""The prover against plain evaluation: at small sizes, a normal form has the value that the operators' meanings give."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from graphs.graph import Graph
from operators.expressions import Symbol
from operators.formulas import Truth
from operators.meaning import interpreted_by
from operators.operator import collecting_obligations
from rewrites.cases import TracedCase
from verifier.proof.conditions import bounds_from
from verifier.proof.evaluate import Evaluation
from verifier.proof.knowledge import Bound
from verifier.proof.prove import WHERE_DEFINED, Proof
from verifier.proof.refute import Refuter, _numbers, defined
from verifier.proof.rounded import WithErrors, differ

SIZES = 3
"""Choices of sizes that are tried, and indices of each."""
POINTS = 2


@dataclass(frozen=True)
class Comparison:
    """How many elements were compared, and the first on which both evaluations differ, in words."""

    compared: int
    difference: str = ""


def compare_normal_forms(traced: TracedCase, proof: Proof, seed: int = 0) -> Comparison:
    """Both normal forms of every output at some small sizes and indices against the elements' meanings there."""
    bounds = [bound for condition in traced.value_conditions for bound in bounds_from(condition)]
    return difference_of_forms(traced.pattern, traced.replacement, traced.facts, bounds, proof, seed)


def difference_of_forms(
    pattern: Graph, replacement: Graph, facts: Sequence[Truth], bounds: Sequence[Bound], proof: Proof, seed: int = 0, finite: bool = False
) -> Comparison:
    """The same for two graphs, what is known of their sizes and elements, and a proof about them.

    finite: elements on whose way a number is infinite are not compared
    """
    refuter = Refuter(pattern, replacement, facts, bounds, seed=seed, finite=finite)
    least = 1 if "all sizes ≥ 1" in proof.scope else 0
    if "int" in refuter._kinds.values():
        least = 3  # integers up to 2 are drawn, and may be positions along an axis of any size
    compared = 0
    small = (s for s in refuter.assignments(600) if all(least <= size <= 3 for size in s.values()))
    for sizes in itertools.islice(small, SIZES):
        elements: dict[tuple[str, tuple[int, ...]], Any] = {}

        def element(name: str, at: tuple[int, ...], elements: dict[tuple[str, tuple[int, ...]], Any] = elements) -> Any:
            if (name, at) not in elements:
                elements[name, at] = refuter._draw(name, at, elements)
            return elements[name, at]

        undefined = False
        for side, direct, normal, place in _pairs(refuter, proof, sizes, element):
            a, b = defined(direct), defined(normal)
            if side == "pattern":
                undefined = a is None and WHERE_DEFINED in proof.scope
            if a is not None and b is not None and not undefined:
                compared += 1
                if differ(a, b):
                    return Comparison(
                        compared, f"the {side} at {sizes}, index {list(place)}: its elements mean {a}, its normal form is {b}"
                    )
    return Comparison(compared)


def _pairs(refuter: Refuter, proof: Proof, sizes: dict[str, int], element: Callable[[str, tuple[int, ...]], Any]) -> Any:
    """For both sides at some indices: its name, the direct value, the normal form's value (both as thunks), the index.

    A proof that was given up has forms of its first outputs only.
    """
    numbers: dict[Any, Any] = {Symbol(name): size for name, size in sizes.items()}
    for form, left, right in zip(proof.forms, refuter.left.outputs, refuter.right.outputs, strict=False):
        evaluation = Evaluation(element)
        if (form.left.free | form.right.free) - numbers.keys() - form.digits.keys():
            continue
        points = itertools.product(*(range(evaluation.dim(extent, numbers)) for extent in form.digits.values()))
        for point in itertools.islice(points, POINTS):
            here = {**numbers, **dict(zip(form.digits, point, strict=True))}
            at = tuple(evaluation.dim(dim, here) for dim in form.at)
            for side, graph, edge, value in (
                ("pattern", refuter.left, left, form.left),
                ("replacement", refuter.right, right, form.right),
            ):
                with interpreted_by(WithErrors()), collecting_obligations():
                    tensor = _numbers(graph, numbers, element, refuter.finite)(edge)
                    yield side, lambda tensor=tensor, at=at: tensor[at], lambda v=value, h=here, e=evaluation: e.value(v, h), at


__all__ = ["Comparison", "compare_normal_forms", "difference_of_forms"]
