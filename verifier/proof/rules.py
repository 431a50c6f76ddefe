"""Proofs of rules: every case of a rule, its conditions on elements turned into signs of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from operators.formulas import Truth
from rewrites.cases import Case, TracedCase, cases, trace_case
from rewrites.rule import Change, Rule
from verifier.proof.conditions import bounds_from
from verifier.proof.prove import PROVED, Proof, prove


@dataclass(frozen=True)
class CaseProof:
    """The proof of one case of a rule."""

    case: Case
    proof: Proof


@dataclass(frozen=True)
class RuleProof:
    """The proofs of all cases of a rule, in order."""

    rule: str
    cases: tuple[CaseProof, ...]

    @property
    def proved(self) -> bool:
        """Every case is proved, and there is one."""
        return bool(self.cases) and all(c.proof.status == PROVED for c in self.cases)

    @property
    def seconds(self) -> float:
        return sum(c.proof.seconds for c in self.cases)

    @property
    def first_open(self) -> CaseProof | None:
        """The first case that is not proved."""
        return next((c for c in self.cases if c.proof.status != PROVED), None)


def prove_rule(rule: type[Rule], extra: Sequence[Truth] = (), timeout: float = 10.0, all_cases: bool = False) -> RuleProof:
    """The rule's cases proved one after the other, up to the first that is not (all of them with `all_cases`).

    `extra` are further facts about sizes. Raises: TraceError, ShapeError as the rule's functions do.
    """
    done = []
    for case in cases(rule):
        done.append(CaseProof(case, prove_case(trace_case(rule, case), extra, timeout)))
        if done[-1].proof.status != PROVED and not all_cases:
            break
    return RuleProof(rule.__name__, tuple(done))


def prove_case(traced: TracedCase, extra: Sequence[Truth] = (), timeout: float = 10.0) -> Proof:
    """One traced case of a rule; where it may change what is undefined, only where the pattern is defined."""
    bounds = [bound for condition in traced.value_conditions for bound in bounds_from(condition)]
    return prove(
        traced.pattern, traced.replacement, [*traced.facts, *extra], bounds, traced.replacement_requires, timeout,
        where_defined=Change.NAN_INF in traced.rule.equality.changes,
    )  # fmt: skip


__all__ = ["CaseProof", "RuleProof", "prove_case", "prove_rule"]
