"""Gradients as graphs: the vector-Jacobian products of both sides of a rule are proved equal for all sizes."""

from __future__ import annotations

import time

from graphs.gradients import NoGradient, gradient_graph
from operators.operator import collecting_obligations
from rewrites.cases import Case, TracedCase, cases
from rewrites.rule import Rule
from verifier.instances import Ground
from verifier.proof.conditions import bounds_from
from verifier.proof.prove import VACUOUS, prove

_SECONDS_PER_CASE = 5.0


def gradients_proved(rule: type[Rule], grounds: dict[Case, Ground], deadline: float) -> bool:
    """Both sides' gradients are equal for all sizes in every case of the rule, over the reals.

    Assumes: operators' gradients are right (they are held against torch's autograd) where the functions are differentiable.
    """
    proved = False
    for case in cases(rule):
        traced = (grounds.get(case) or Ground(rule, case, 0)).trace
        left = min(_SECONDS_PER_CASE, deadline - time.monotonic())
        if not isinstance(traced, TracedCase) or left <= 0:
            return False
        try:
            with collecting_obligations() as owed:
                sides = gradient_graph(traced.pattern), gradient_graph(traced.replacement)
        except NoGradient:
            return False
        bounds = [bound for condition in traced.value_conditions for bound in bounds_from(condition)]
        outcome = prove(*sides, traced.facts, bounds, [*owed, *traced.replacement_requires], left)
        if outcome.status == VACUOUS:
            continue
        if not outcome.proved:
            return False
        proved = True
    return proved


__all__ = ["gradients_proved"]
