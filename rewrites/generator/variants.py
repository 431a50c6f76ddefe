"""One law, several equations: a rule whose attributes are open speaks of every convolution of the vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

from rewrites.generator.enumeration import Equation
from rewrites.generator.evaluation import equal_values
from rewrites.generator.generalisation import Candidate, Discovered
from rewrites.generator.terms import Term, TermBank
from rewrites.generator.vocabulary import OPERATIONS
from rewrites.signature import TensorVariable

_FAMILIES = ({"conv_3": "w", "conv_1": "v", "conv_3_grouped": "g"}, {"biased_3": "w", "biased_1": "v"})
"""Convolutions that differ in attributes only, with the sort of their kernels."""
_MADE_OF_KERNELS = ("centre", "mean", "enlarge")


def variants(candidate: Candidate, found: Discovered, bank: TermBank) -> Iterator[Equation]:
    """The candidate's equations for the other convolutions that the rule covers.

    Assumes: the rule holds. Each equation is evaluated as well; what does not hold in every world is left out.
    """
    for family in _FAMILIES:
        used = {part.operation for term in (*candidate.left, *candidate.right) for part in term if not part.is_input}
        own = used & set(family)
        if len(own) != 1 or used & set(_MADE_OF_KERNELS):
            continue
        (name,) = own
        for other, sort in family.items():
            if other != name and _covers(found, name, other, family[name]):
                for left, right in candidate.equations:
                    equation = tuple(_renamed(bank, term, name, other, family[name], sort) for term in (left, right))
                    if equal_values(*equation):
                        yield equation[0], equation[1]


def _covers(found: Discovered, name: str, other: str, sort: str) -> bool:
    """Whether the rule leaves open in what the two convolutions differ."""
    theirs = dict(OPERATIONS[other].attributes)
    differing = {attribute for attribute, value in OPERATIONS[name].attributes if theirs[attribute] != value}
    fixed = {condition.split(" ")[0] for condition in found.conditions}
    signature = found.rule.signature()
    if not differing - {"kernel"} <= set(signature.names) - fixed:
        return False
    kernels = [v for v in signature.variables if isinstance(v, TensorVariable) and v.name[0] == sort]
    return "kernel" not in differing or not any(isinstance(dim, int) for kernel in kernels for dim in kernel.dims[-2:])


def _renamed(bank: TermBank, term: Term, name: str, other: str, sort: str, other_sort: str) -> Term:
    made: dict[int, Term] = {}
    for part in term:
        if part.is_input:
            letter, number = part.operation[0], part.operation[1:]
            made[part.number] = bank.input(other_sort + number if letter == sort else part.operation)
        else:
            operation = other if part.operation == name else part.operation
            made[part.number] = bank.apply(operation, *(made[child.number] for child in part.children))
    return made[term.number]
