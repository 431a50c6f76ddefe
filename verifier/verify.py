"""`verify(rule)`: is a rewrite rule right for every shape, and if not, what is the smallest input that shows why?"""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass, field, replace
from typing import Any

from rewrites.cases import TracedCase
from rewrites.code import snapshot
from rewrites.onnx_rules import OnnxRule
from rewrites.ranks import every_rank
from rewrites.reverse import reverse
from rewrites.rule import Rule
from rewrites.signature import RuleDefinitionError
from verifier import forms
from verifier.backward import gradients_proved
from verifier.comparing import CHANGES, Standard
from verifier.conditions import impossible
from verifier.faithful import unfaithful
from verifier.gradients import TAIL as GRADIENT_TAIL
from verifier.gradients import compare_gradients
from verifier.instances import FLOATS, Instance, Space
from verifier.isolation import TimeLimit, time_limit
from verifier.judging import Kind
from verifier.proving import prove_all
from verifier.refuting import counterexample
from verifier.rounding import worst_errors
from verifier.running import one_thread
from verifier.testing import Failure, Report, run_tests, summary
from verifier.verdict import Part, Status, Verdict
from verifier.versions import operators_digest, versions

BACKWARDS = "from right to left"
"""The part of a verdict that speaks of the reverse of a bidirectional rule."""


@dataclass
class Verification:
    """One verification in progress."""

    rule: type[Rule]
    examples: int
    seed: int
    deadline: float
    started: float
    parts: list[Part] = field(default_factory=list)
    report: Report = field(default_factory=Report)
    scope: str = ""
    effects: str = ""
    gradients: str = ""
    changes: tuple[str, ...] = ()
    errors: dict[str, float] = field(default_factory=dict)
    proof: str = ""
    reached: str = ""
    """What the rule's functions reach and could change, as it was before they ran."""
    tested: bool = False
    """Every test ran and found no difference."""
    used: dict[str, str] = field(default_factory=dict)
    """Digests of the modules of the operators that the rule uses."""

    def part(self, name: str, result: str, since: float) -> None:
        """Note what a part found and how long it took."""
        self.parts.append(Part(name, result, time.monotonic() - since))

    def verdict(self, status: Status, reason: str = "", failure: Failure | None = None, tail: str | None = None) -> Verdict:
        """The verdict with everything noted so far."""
        found = None
        if failure is not None:
            found = counterexample(failure.instance, failure.difference, failure.examples, self.seed, tail)
        return Verdict(
            name=self.rule.__name__, status=status, reason=reason, scope=self.scope, equality=str(self.rule.equality), effects=self.effects,
            gradients=self.gradients, changes=self.changes, errors=self.errors, parts=tuple(self.parts), counterexample=found,
            examples=self.report.examples, seconds=time.monotonic() - self.started, seed=self.seed, content=self.rule.content(),
            versions=versions() | self.used, proof=self.proof,
        )  # fmt: skip


def verify(
    rule: type[Rule], *, examples: int = 100, timeout: float = 60.0, seed: int = 0, require_proof: bool = False, store: Any = None
) -> Verdict:
    """Prove or refute a rule.

    `examples` is how many instances are tested, `timeout` the seconds after which nothing further is tried, `seed` decides every
    draw. With `require_proof` a rule that is tested but not proved is `UNDECIDED`. With a `store` (see `verifier.store`) a verdict
    that was reached before for exactly this content is returned, and a new one is kept. The verdict is on the rule from left to right;
    of a bidirectional rule it also says whether it holds from right to left, where it is a rule of its own.
    """
    options = {"examples": examples, "seed": seed}
    if store is not None:
        kept = store.find(rule, options)
        if kept is not None and (kept.status is not Status.UNDECIDED):
            return strict(kept) if require_proof else kept
    verdict = _fresh(rule, examples, timeout, seed)
    if rule.bidirectional and verdict.holds:
        verdict = _and_backwards(rule, verdict, examples, timeout, store)
    if store is not None and verdict.status is not Status.ERROR:
        store.keep(rule, verdict, options)
    return strict(verdict) if require_proof else verdict


def _and_backwards(rule: type[Rule], verdict: Verdict, examples: int, timeout: float, store: Any) -> Verdict:
    """The verdict with a part that says what became of the rule's reverse; where that does not hold, the scope says so."""
    since = time.monotonic()
    holds, result = _backwards(rule, examples, timeout - verdict.seconds, verdict.seed, store)
    part = Part(BACKWARDS, result, time.monotonic() - since)
    scope = verdict.scope if holds else f"{verdict.scope}; not from right to left: {result}"
    return replace(verdict, parts=(*verdict.parts, part), scope=scope, seconds=verdict.seconds + part.seconds)


def _backwards(rule: type[Rule], examples: int, seconds: float, seed: int, store: Any) -> tuple[bool, str]:
    """Whether the reverse holds, and what is to be said of it."""
    if seconds <= 0:
        return False, "the time was up before it was tried"
    try:
        other = verify(reverse(rule), examples=examples, timeout=seconds, seed=seed, store=store)
    except RuleDefinitionError as error:
        return False, str(error)
    return other.holds, f"{other.status}: {other.reason}" if other.reason else str(other.status)


def _fresh(rule: type[Rule], examples: int, timeout: float, seed: int) -> Verdict:
    if issubclass(rule, OnnxRule):
        from verifier.onnx_rules.verifying import verify_onnx_rule

        return verify_onnx_rule(rule, examples, timeout, seed)
    started = time.monotonic()
    return _guarded(Verification(rule, examples, seed, started + 0.9 * timeout, started, reached=snapshot(rule)), timeout)


def _guarded(work: Verification, timeout: float) -> Verdict:
    """The verdict; `ERROR` with one sentence when the rule raises where it should not, or does not end."""
    try:
        with one_thread(), time_limit(timeout) as strikes:
            verdict = _verify(work)
        return _out_of_time(work, timeout) if strikes else verdict
    except TimeLimit:
        return _out_of_time(work, timeout)
    except MemoryError:
        return work.verdict(Status.ERROR, "uses more memory than it may")
    except Exception as error:  # a rule is a user's code: what it raises is the verdict's reason, with its place
        if time.monotonic() - work.started >= timeout:  # the strike came while Z3 held the stack, and came out as something else
            return _out_of_time(work, timeout)
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())
        return work.verdict(Status.ERROR, f"{type(error).__name__}: {text} ({place.filename}, line {place.lineno})")


def _out_of_time(work: Verification, timeout: float) -> Verdict:
    """`ERROR` when the rule itself did not end; tested when only the proof did not."""
    if work.tested:
        return work.verdict(Status.TESTED, f"the proof did not end within {timeout:g} s")
    return work.verdict(Status.ERROR, f"did not end within {timeout:g} s")


def strict(verdict: Verdict) -> Verdict:
    """The verdict where only a proof counts: tested is undecided."""
    if verdict.status is not Status.TESTED:
        return verdict
    reason = f"a proof is required, and there is none: {verdict.reason}"
    return replace(verdict, status=Status.UNDECIDED, reason=reason)


def _verify(work: Verification) -> Verdict:
    since = time.monotonic()
    space = Space(work.rule, work.seed)
    if not space.grounds:
        work.part("well-formed", "no case meets the conditions", since)
        return work.verdict(Status.VACUOUS, "no choice of attributes meets the conditions: the rule never applies")
    refuted = _well_formed(work, space, since)
    if refuted is not None:
        return refuted
    tested = _tested(work, space)
    if tested is not None:
        return tested
    untrainable = _gradients_agree(work, space)
    if untrainable is not None:
        return untrainable
    work.tested = not work.report.timed_out
    return _proved(work, space)


def _well_formed(work: Verification, space: Space, since: float) -> Verdict | None:
    usable = space.usable
    if not usable:
        impossible = all(ground.model.impossible() for ground in space.grounds)
        work.part("well-formed", "no sizes meet the conditions" if impossible else "no sizes found", since)
        if impossible:
            return work.verdict(Status.VACUOUS, "no sizes meet the conditions: the rule never applies")
        return work.verdict(Status.UNDECIDED, "no sizes that meet the conditions were found, and Z3 does not show that there are none")
    traced = [ground.trace for ground in space.grounds if isinstance(ground.trace, TracedCase)]
    modules = {type(g.operator(node)).__module__ for t in traced for g in (t.pattern, t.replacement) for node in g.network}
    work.used = {module: operators_digest(module) for module in sorted(modules)}
    if traced and len(traced) == len(space.grounds):
        trivial = all(map(forms.is_trivial, traced))
    else:
        trivial = forms.same_code(work.rule)
    if trivial:
        work.part("well-formed", "both sides are the same", since)
        return work.verdict(Status.TRIVIAL, "both sides are the same: the rule changes nothing")
    cases = "1 case has" if len(usable) == 1 else f"{len(usable)} cases have"
    work.part("well-formed", f"{cases} instances, and the two sides are not the same code", since)
    return None


def standard_of(rule: type[Rule], space: Space) -> Standard:
    """What counts as a difference for the rule."""
    traced = [ground.trace for ground in space.grounds]
    known = [trace for trace in traced if isinstance(trace, TracedCase)]
    return Standard(rule.equality, all(map(forms.both_round, known)), any(map(forms.copies, known)))


def _tested(work: Verification, space: Space) -> Verdict | None:
    since = time.monotonic()
    standard = standard_of(work.rule, space)
    work.report = report = run_tests(work.rule, space, standard, work.examples, work.seed, work.deadline)
    if report.failure is not None:
        failure = report.failure
        work.part("tests", f"refuted after {failure.examples} examples", since)
        return work.verdict(Status.REFUTED, _why(failure, report, standard), failure)
    if not report.examples:
        work.part("tests", "no example ran", since)
        if report.error:
            return work.verdict(Status.ERROR, f"the pattern raises on every example: {report.error}")
        return _no_numbers(work, space)
    if space.value_conditions and not report.filled:
        return _no_numbers(work, space)
    work.part("tests", summary(report), since)
    work.changes = tuple(kind.value for kind in Kind if kind in report.seen)
    _measure(work, space)
    work.scope = "; ".join([f"sizes up to {report.largest}", ", ".join(sorted(report.dtypes)), *sorted(report.limits)])
    work.effects = "; ".join([*effect_words(space), *sorted(report.written), *sorted(report.aliasing)]) or "none"
    return None


def _why(failure: Failure, report: Report, standard: Standard) -> str:
    """The refutation in one sentence; for a change that could be declared, everything seen that is not."""
    sentence = f"{failure.difference.kind}: {failure.difference.sentence}"
    if failure.difference.kind not in CHANGES:
        return sentence
    undeclared = [kind.value for kind in CHANGES if kind in report.seen | {failure.difference.kind} and not standard.allows(kind)]
    names = ", ".join(f"Change.{CHANGES[kind].name}" for kind in CHANGES if kind.value in undeclared)
    base = f"Equality.{'BITWISE' if standard.equality.bitwise else 'REAL'}"
    declared = "".join(f", Change.{change.name}" for change in sorted(standard.equality.changes, key=lambda change: change.name))
    meant = f"if it may, say equality = {base}.allowing({names}{declared})"
    return f"{sentence}; the rule changes {' and '.join(undeclared)} and declares {standard.equality}: {meant}"


def _measure(work: Verification, space: Space) -> None:
    """The worst relative error per dtype, where the sides are not equal bit for bit."""
    if work.rule.equality.bitwise or not any(family in FLOATS for family in space.families):
        return
    since = time.monotonic()
    work.errors = worst_errors(space, max(8, work.examples // 4), work.seed, work.deadline)
    words = ", ".join(f"{error:.1e} in {dtype}" for dtype, error in work.errors.items())
    work.part("rounding", f"worst relative error {words}" if words else "not measured", since)


def _no_numbers(work: Verification, space: Space) -> Verdict:
    if impossible(space.value_conditions):
        return work.verdict(Status.VACUOUS, "no numbers meet the conditions: the rule never applies")
    return work.verdict(Status.UNDECIDED, "no numbers that meet the conditions were found, and Z3 does not show that there are none")


def effect_words(space: Space) -> list[str]:
    """The effects that the operators of both sides have, in words."""
    words: dict[str, None] = {}
    for ground in space.grounds:
        if isinstance(ground.trace, TracedCase):
            left, right = forms.effects_of(ground.trace)
            words |= {f"both sides: {effect}": None for effect in left & right}
            words |= {f"the pattern only: {effect}": None for effect in left & ~right}
            words |= {f"the replacement only: {effect}": None for effect in right & ~left}
    return list(words)


def _gradients_agree(work: Verification, space: Space) -> Verdict | None:
    if not work.rule.trainable:
        work.gradients = "not checked (not marked trainable)"
        return None
    since = time.monotonic()
    report = compare_gradients(work.rule, space, work.examples, work.seed, work.deadline)
    if report.failure is not None:
        work.part("gradients", report.failure.difference.sentence, since)
        work.gradients = "differ"
        failure = report.failure
        return work.verdict(Status.REFUTED, f"{failure.difference.kind}: {failure.difference.sentence}", failure, GRADIENT_TAIL)
    work.gradients = (
        f"equal on {report.examples} examples in float64" if report.examples else "not checked: no example could be differentiated"
    )
    work.part("gradients", work.gradients, since)
    return None


def _proved(work: Verification, space: Space) -> Verdict:
    refuted = _tested_by_models(work, space)
    if refuted is not None:
        return refuted
    if work.report.timed_out:
        return work.verdict(Status.UNDECIDED, "the time was up before the tests were done")
    since = time.monotonic()
    reason = unfaithful(work.rule, space, work.deadline)
    if reason:
        work.part("proof for all sizes", reason, since)
        return work.verdict(Status.TESTED, f"no proof: {reason}")
    proofs = prove_all(work.rule, {ground.case: ground for ground in space.grounds}, work.deadline)
    work.proof = proofs.text
    if snapshot(work.rule) != work.reached:
        work.part("proof for all sizes", "the rule's functions change what they reach", since)
        return work.verdict(Status.TESTED, "no proof: the rule's functions change what they reach, so that no two calls need be alike")
    if proofs.proved:
        work.part("proof for all sizes", "proved", since)
        _prove_gradients(work, space)
        if work.gradients.startswith("not checked:"):
            return work.verdict(Status.TESTED, f"the rule is marked trainable; its gradients are {work.gradients}")
        work.scope = "; ".join([*proofs.scope, *_ranks(work.rule), *sorted(work.report.limits)])
        return work.verdict(Status.PROVED)
    work.part("proof for all sizes", proofs.reason, since)
    if proofs.bounded:
        work.part("bounded proof", proofs.bounded, since)
        work.scope = f"{proofs.bounded}; over the reals"
        return work.verdict(Status.PROVED_BOUNDED, proofs.reason)
    if proofs.real and work.rule.equality.bitwise:
        work.scope = f"equal over the reals for all sizes; bit for bit at {work.scope}"
    return work.verdict(Status.TESTED, proofs.reason)


def _prove_gradients(work: Verification, space: Space) -> None:
    if not work.gradients.startswith("equal on"):
        return
    since = time.monotonic()
    if gradients_proved(work.rule, {ground.case: ground for ground in space.grounds}, work.deadline):
        work.gradients = f"proved equal for all sizes, over the reals, and {work.gradients}"
        work.part("proof of the gradients", "proved", since)
    else:
        work.part("proof of the gradients", "not found", since)


def _ranks(rule: type[Rule]) -> list[str]:
    words = []
    for name, most in every_rank(rule).items():
        star = rule.signature().stars[name]
        said = "..." if star.broadcastable else f"*{name}"
        words.append(
            f"{said} of {'every number of' if most is None else f'0 to {most}'} dims{', however they broadcast' * star.broadcastable}"
        )
    complex_ = ["no complex numbers"] if any(v.kind in ("number", "any") for v in rule.signature().tensors) else []
    return [*dict.fromkeys(words), *complex_]


def _tested_by_models(work: Verification, space: Space) -> Verdict | None:
    """Instances at sizes where Z3 says that the shapes may differ."""
    since = time.monotonic()
    hints: list[Instance] = []
    for ground in space.grounds:
        if isinstance(ground.trace, TracedCase):
            for sizes in forms.agreement(ground, work.deadline).models:
                instance = space.build(ground, sizes, "small integers", space.families[0], work.seed)
                hints += [instance] if instance is not None else []
    if hints:
        more = run_tests(work.rule, space, standard_of(work.rule, space), 0, work.seed, work.deadline, hints=hints, wanted=())
        if more.failure is not None:
            work.part("shapes", "refuted by Z3's model", since)
            return work.verdict(Status.REFUTED, f"{more.failure.difference.kind}: {more.failure.difference.sentence}", more.failure)
    return None


__all__ = ["strict", "verify"]
