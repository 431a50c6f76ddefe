"""The verdict of a rule of onnxscript's rewriter: the rule applied by onnxscript to drawn models, and each result compared.

The check and the rewrite of such a rule are Python over one model, so that no proof covers every model at once. What is proved is
every model that was drawn, for all sizes that it leaves open.
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

import onnx

from graphs.onnx import OnnxError, read
from rewrites.onnx_rules import OnnxRule, parts_of
from verifier.counterexample import Counterexample, Step
from verifier.equivalence.comparing import CannotRunError, compare_graphs
from verifier.equivalence.joining import AlignmentError
from verifier.equivalence.result import Comparison, Intermediate
from verifier.isolation import TimeLimit, time_limit
from verifier.onnx_rules.instances import Unsupported, instances, with_symbols
from verifier.onnx_rules.operands import NUMBERS, Draw
from verifier.verdict import Part, Status, Verdict
from verifier.versions import versions

MOST_DRAWS = 3000
_SECONDS_EACH = 12.0
_TESTS_EACH = 8
_SECONDS_APPLYING = 4.0


@dataclass
class _Report:
    drawn: int = 0
    applied: int = 0
    proved: int = 0
    symbolic: int = 0
    """Proved with sizes that are symbols."""
    largest: int = 0
    reason: str = ""
    operators: set[str] = field(default_factory=set)
    dtypes: set[str] = field(default_factory=set)
    skipped: dict[str, int] = field(default_factory=dict)

    def scope(self) -> str:
        """What was shown, in words."""
        words = [f"{self.applied} models of {self.drawn} drawn", f"{self.proved} proved, {self.symbolic} of them for all sizes"]
        return "; ".join([*words, f"ranks up to {self.largest}", ", ".join(sorted(self.dtypes))])


def verify_onnx_rule(rule: type[OnnxRule], examples: int = 100, timeout: float = 60.0, seed: int = 0) -> Verdict:
    """Whether every model that the rule rewrites computes the same afterwards; on at most `examples` such models, within the seconds."""
    started = time.monotonic()
    report = _Report()
    try:
        found = _refutation(rule, report, examples, started + 0.9 * timeout, seed)
    except Unsupported as error:
        return _verdict(rule, Status.UNDECIDED, started, seed, report, f"no model can be drawn for it: {error}")
    if found is not None:
        return _verdict(rule, Status.REFUTED, started, seed, report, f"{found.kind}: {found.sentence}", found)
    if not report.applied:
        why = f" ({max(report.skipped, key=lambda k: report.skipped[k])})" if report.skipped else ""
        return _verdict(rule, Status.UNDECIDED, started, seed, report, f"no model was found that it rewrites, among {report.drawn}{why}")
    left = report.applied - report.proved
    reason = f"a rule with a Python check is proved model by model; {left} without proof" + (f": {report.reason}" if left else "")
    return _verdict(rule, Status.TESTED, started, seed, report, reason)


def _verdict(
    rule: type[OnnxRule], status: Status, started: float, seed: int, report: _Report, reason: str, found: Counterexample | None = None
) -> Verdict:
    seconds = time.monotonic() - started
    return Verdict(
        rule.__name__, status, reason, report.scope() if report.applied else "", "real", "none", "not checked", examples=report.applied,
        parts=(Part("models", report.scope(), seconds),), counterexample=found, seconds=seconds, seed=seed, content=rule.content(),
        versions=versions(),
    )  # fmt: skip


def _refutation(rule: type[OnnxRule], report: _Report, examples: int, deadline: float, seed: int) -> Counterexample | None:
    for model in _models(rule, report, seed):
        if report.applied >= examples or time.monotonic() > deadline:
            return None
        rewritten = _rewritten(rule, model, report)
        if isinstance(rewritten, str):
            report.applied += 1
            return _counterexample(rule, model, None, "error", rewritten, None, report, seed)
        if rewritten is None:
            continue
        report.applied += 1
        _note(model, report)
        problem = _invalid(rewritten)
        if problem:
            return _counterexample(rule, model, rewritten, "invalid model", problem, None, report, seed)
        try:
            result = compare_graphs(read(model), read(rewritten), timeout=_SECONDS_EACH, seed=seed, examples=_TESTS_EACH)
        except (OnnxError, CannotRunError) as error:
            report.applied -= 1
            key = " ".join(str(error).split())[:80]
            report.skipped[key] = report.skipped.get(key, 0) + 1
            continue
        except AlignmentError as error:
            return _counterexample(rule, model, rewritten, "inputs", str(error), None, report, seed)
        if result.status is Status.REFUTED:
            return _counterexample(rule, model, rewritten, "", "", result, report, seed)
        if result.status is Status.PROVED:
            report.proved += 1
            report.symbolic += result.scope.startswith("all sizes")
        else:
            report.reason = report.reason or result.reason[:200]
    return None


def _models(rule: type[OnnxRule], report: _Report, seed: int) -> Iterator[onnx.ModelProto]:
    """Models that the patterns of the rule (of every rule of a set) match, with sizes as symbols every other time."""
    chance = random.Random(seed)
    draws = [(one, Draw(chance, [*NUMBERS, *_numbers(one)])) for one in parts_of(rule)]
    streams = [(instances(one._target_pattern, draw, MOST_DRAWS // len(draws)), draw) for one, draw in draws]
    while streams:
        for stream in list(streams):
            model = next(stream[0], None)
            if model is None:
                streams.remove(stream)
                continue
            report.drawn += 1
            loose = with_symbols(model, stream[1]) if report.drawn % 2 else None
            if loose is not None:
                yield loose
            yield onnx.shape_inference.infer_shapes(model, data_prop=True)


def _numbers(rule: Any) -> list[float]:
    """The numbers that the rule's check and rewrite speak of."""
    found: list[float] = []

    def look(code: CodeType, depth: int) -> None:
        for constant in code.co_consts:
            if isinstance(constant, CodeType) and depth < 4:
                look(constant, depth + 1)
            elif isinstance(constant, (int, float)) and not isinstance(constant, bool) and (constant == 0 or 1e-2 < abs(constant) < 100):
                found.append(float(constant))

    for function in (rule._condition_function, rule._replacement_pattern._function):
        plain = getattr(function, "__func__", function)
        if isinstance(plain, FunctionType):
            look(plain.__code__, 0)
    return list(dict.fromkeys(found)) * 2


def _rewritten(rule: type[OnnxRule], model: onnx.ModelProto, report: _Report) -> onnx.ModelProto | str | None:
    """The model after the rule; None where it does not apply; a sentence where it raises."""
    from onnxscript import ir

    given = ir.serde.deserialize_model(copy.deepcopy(model))
    try:
        with time_limit(_SECONDS_APPLYING):
            count = rule.apply_to(given)
    except TimeLimit:
        return "the rule does not end: what it writes, it matches again"
    except Exception as error:  # the rule is somebody's code: what it raises is what is wrong with it
        return f"the rule raises {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return ir.serde.serialize_model(given) if count else None


def _invalid(model: onnx.ModelProto) -> str:
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # the checker's own kinds and RuntimeError
        return f"what the rule writes is no valid model: {' '.join(str(error).split())[:300]}"
    return ""


def _note(model: onnx.ModelProto, report: _Report) -> None:
    for value in model.graph.input:
        kind = value.type.tensor_type
        report.largest = max(report.largest, len(kind.shape.dim))
        report.dtypes.add(onnx.TensorProto.DataType.Name(kind.elem_type).lower())


def _counterexample(
    rule: type[OnnxRule], before: onnx.ModelProto, after: onnx.ModelProto | None, kind: str, sentence: str, result: Comparison | None,
    report: _Report, seed: int,
) -> Counterexample:  # fmt: skip
    difference = result.difference if result is not None else None
    first = difference.first if difference is not None else (None, None)
    inputs = {value.name: _type_text(value) for value in before.graph.input}
    return Counterexample(
        rule=rule.__name__,
        statement=rule.statement(),
        pattern=onnx.printer.to_text(before.graph),
        replacement=onnx.printer.to_text(after.graph) if after is not None else "",
        kind=difference.kind if difference is not None else kind,
        sentence=difference.sentence if difference is not None else sentence,
        inputs=difference.inputs if difference is not None else {},
        types=inputs,
        mode=f"opset {before.opset_import[0].version}",
        dtype=", ".join(sorted(report.dtypes)),
        left=_steps(first[0]),
        right=_steps(first[1]),
        index=difference.index if difference is not None else (),
        left_value=difference.before if difference is not None else "",
        right_value=difference.after if difference is not None else "",
        seed=seed,
        examples=report.applied,
    )


def _steps(found: Intermediate | None) -> tuple[Step, ...]:
    return () if found is None else (Step(found.label, f"{found.type} {found.value}"),)


def _type_text(value: Any) -> str:
    kind = value.type.tensor_type
    dims = ", ".join(dim.dim_param or str(dim.dim_value) for dim in kind.shape.dim)
    return f"{onnx.TensorProto.DataType.Name(kind.elem_type).lower()}[{dims}]"


__all__ = ["verify_onnx_rule"]
