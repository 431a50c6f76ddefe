"""Proofs of rules: every case of a rule, its conditions on elements turned into signs of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from operators.expressions import Truth
from rewrites.cases import Case, TracedCase, cases, trace_case
from rewrites.rule import Requires, Rule
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
    """One traced case of a rule."""
    values: dict[str, str] = {}
    for condition in traced.value_conditions:
        for name, sign in signs_from(condition).items():
            values[name] = stronger(values.get(name), sign)
    return prove(traced.pattern, traced.replacement, [*traced.facts, *extra], values, traced.replacement_requires, timeout)


_ORDER = ("nonzero", "nonnegative", "positive")


def stronger(one: str | None, other: str) -> str:
    """What both signs together say, as far as one word does."""
    if one is None or one == other:
        return other
    return "positive"


class _Sign:
    """What a comparison of elements with zero says; asking whether it is true follows both answers."""

    def __init__(self, paths: _Paths, name: str, sign: str) -> None:
        self.paths, self.name, self.sign = paths, name, sign

    def __bool__(self) -> bool:
        return self.paths.decide(self)

    def all(self) -> _Sign:
        return self

    def __and__(self, other: Any) -> Any:
        return bool(self) and other


class _Paths:
    def __init__(self) -> None:
        self.plan: list[bool] = []
        self.taken: list[tuple[_Sign, bool]] = []

    def decide(self, sign: _Sign) -> bool:
        position = len(self.taken)
        answer = self.plan[position] if position < len(self.plan) else True
        self.taken.append((sign, answer))
        return answer


class _Elements:
    """Stands for a tensor or a real attribute in a condition; only comparisons with zero are understood."""

    def __init__(self, paths: _Paths, name: str) -> None:
        self.paths, self.name = paths, name

    def _sign(self, bound: Any, exact: str, beyond: str) -> Any:
        if not isinstance(bound, (int, float)) or bound < 0:
            raise _Unknown
        return _Sign(self.paths, self.name, exact if bound == 0 else beyond)

    def __gt__(self, bound: Any) -> Any:
        return self._sign(bound, "positive", "positive")

    def __ge__(self, bound: Any) -> Any:
        return self._sign(bound, "nonnegative", "positive")

    def __ne__(self, bound: object) -> Any:
        if isinstance(bound, (int, float)) and bound == 0:
            return _Sign(self.paths, self.name, "nonzero")
        raise _Unknown

    __hash__ = object.__hash__


class _Unknown(Exception):
    """A condition that says more than signs."""


def signs_from(condition: Requires) -> dict[str, str]:
    """The signs of elements that the condition guarantees; nothing for a condition that is not a conjunction of signs."""
    pending: list[list[bool]] = [[]]
    ways: list[dict[str, str]] = []
    while pending:
        paths = _Paths()
        paths.plan = pending.pop()
        answer = _ask(condition.predicate, [_Elements(paths, name) for name in condition.names], paths)
        if answer is None or len(paths.taken) > 6:
            return {}
        for position in range(len(paths.plan), len(paths.taken)):
            pending.append([a for _, a in paths.taken[:position]] + [False])
        if answer:
            signs: dict[str, str] = {}
            for sign, holds in paths.taken:
                if holds:
                    signs[sign.name] = stronger(signs.get(sign.name), sign.sign)
            ways.append(signs)
    return ways[0] if len(ways) == 1 else {}


def _ask(predicate: Callable[..., Any], arguments: list[Any], paths: _Paths) -> bool | None:
    try:
        result = predicate(*arguments)
        if isinstance(result, _Sign):
            if any(sign is result for sign, _ in paths.taken):
                return next(answer for sign, answer in paths.taken if sign is result)
            return bool(result)
        return result if isinstance(result, bool) else None
    except (_Unknown, TypeError, AttributeError):
        return None


__all__ = ["CaseProof", "RuleProof", "prove_case", "prove_rule", "signs_from"]
