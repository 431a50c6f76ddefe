"""Rules of onnxscript's rewriter: right ones hold on every model drawn, wrong ones are refuted with a model and an input."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewright.cli.main import run
from rewrites.load import load_rules
from rewrites.onnx_rules import OnnxRule, is_onnx_rule, onnx_rule
from verifier.verdict import Status, Verdict
from verifier.verify import verify

pytest.importorskip("onnxscript", reason="onnxscript is not installed: its rewriter's rules cannot be made")

from onnxscript import ir
from onnxscript.rewriter import RewriteRule, RewriteRuleSet
from onnxscript.rewriter.rules import common


def verdict_of(rule: object, examples: int = 8, name: str = "rule") -> Verdict:
    return verify(onnx_rule(name, rule), examples=examples, timeout=20.0)


def refused(verdict: Verdict, *kinds: str) -> None:
    assert verdict.status is Status.REFUTED, verdict
    assert verdict.counterexample is not None and verdict.counterexample.kind in kinds, verdict
    assert "=>" in verdict.counterexample.pattern or "(" in verdict.counterexample.pattern


@pytest.mark.parametrize("name", ["no_op_transpose_rule", "transpose_transpose_rule", "no_op_expand_rule", "unsqueeze_unsqueeze_rule"])
def test_rules_that_ship_hold_on_every_model_drawn(name: str) -> None:
    found = verdict_of(getattr(common, name))
    assert found.status is Status.TESTED and found.examples == 8, found
    assert "8 proved" in found.scope


def test_a_number_that_a_pattern_takes_for_another_is_refuted() -> None:
    refused(verdict_of(common.add_0_rule, examples=40), "value", "NaN/inf", "precision")


def test_a_dropped_operator_is_refuted() -> None:
    refused(verdict_of(RewriteRule(lambda op, x: op.Neg(op.Relu(x)), lambda op, x, **_: op.Neg(x))), "value", "NaN/inf")


def test_swapped_operands_are_refuted() -> None:
    refused(verdict_of(RewriteRule(lambda op, x, y: op.Neg(op.Sub(x, y)), lambda op, x, y, **_: op.Sub(x, y))), "value", "NaN/inf")


def test_a_rule_that_matches_what_it_writes_is_refuted() -> None:
    refused(verdict_of(RewriteRule(lambda op, x: op.Relu(x), lambda op, x, **_: op.Relu(x))), "error")


def test_a_rule_without_its_condition_is_refuted() -> None:
    def pattern(op, x, perm1, perm2):  # type: ignore[no-untyped-def]
        return op.Transpose(op.Transpose(x, perm=perm1), perm=perm2)

    found = verdict_of(RewriteRule(pattern, lambda op, x, **_: op.Identity(x)))
    assert found.status is Status.REFUTED, found


def test_a_wrong_composition_of_permutations_is_refuted() -> None:
    def pattern(op, x, perm1, perm2):  # type: ignore[no-untyped-def]
        return op.Transpose(op.Transpose(x, perm=perm1), perm=perm2)

    def rewrite(op, x, perm1, perm2):  # type: ignore[no-untyped-def]
        first, second = perm1.as_ints(), perm2.as_ints()
        return op.Transpose(x, perm=[second[axis] for axis in first])

    assert verdict_of(RewriteRule(pattern, rewrite), examples=20).status is Status.REFUTED


def test_a_constant_that_broadcasts_to_a_higher_rank_is_refuted() -> None:
    def one_element(context, x, zero):  # type: ignore[no-untyped-def]
        return zero.const_value is not None and zero.const_value.size == 1 and (zero.const_value.numpy() == 0).all()

    rule = RewriteRule(lambda op, x, zero: op.Add(x, zero), lambda op, x, **_: op.Identity(x), one_element)
    found = verdict_of(rule, examples=60)
    assert found.status is Status.REFUTED and found.counterexample is not None, found
    assert found.counterexample.kind in ("shape", "invalid model")


def test_a_rule_that_raises_is_refuted_with_what_it_says() -> None:
    def rewrite(op, x, **_):  # type: ignore[no-untyped-def]
        raise KeyError("lost")

    found = verdict_of(RewriteRule(lambda op, x: op.Relu(op.Relu(x)), rewrite))
    refused(found, "error")
    assert "the rule raises KeyError" in found.reason


def test_a_rule_that_writes_an_invalid_model_is_refuted() -> None:
    found = verdict_of(RewriteRule(lambda op, x: op.Relu(op.Relu(x)), lambda op, x, **_: op.Relu(x, slope=2.0)))
    refused(found, "invalid model")


def test_a_set_is_refuted_for_one_of_its_rules() -> None:
    wrong = RewriteRule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x, **_: op.Neg(x))
    assert verdict_of(RewriteRuleSet([common.no_op_transpose_rule, wrong]), examples=20).status is Status.REFUTED


def test_a_rule_that_never_applies_is_undecided_with_a_sentence() -> None:
    def never(context, **_):  # type: ignore[no-untyped-def]
        return False

    found = verify(onnx_rule("never", RewriteRule(lambda op, x: op.Relu(op.Relu(x)), lambda op, x, **_: op.Relu(x), never)), timeout=3.0)
    assert found.status is Status.UNDECIDED and "no model was found that it rewrites" in found.reason


def test_an_operator_of_another_domain_is_refused_in_a_sentence() -> None:
    rule = RewriteRule(lambda op, x: op.Strange(x, _domain="mine"), lambda op, x, **_: op.Identity(x))
    found = verdict_of(rule)
    assert found.status is Status.UNDECIDED and "Strange is no operator of ONNX's own" in found.reason


def test_the_same_seed_gives_the_same_verdict() -> None:
    wrong = RewriteRule(lambda op, x, y: op.Neg(op.Sub(x, y)), lambda op, x, y, **_: op.Sub(x, y))
    one, other = (verdict_of(wrong).to_json() for _ in range(2))
    assert one["counterexample"] == other["counterexample"]


FILE = """
from onnxscript.rewriter import RewriteRule
from onnxscript.rewriter.rules.common import no_op_transpose_rule
"""


def test_rules_of_a_file_go_by_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILE + "wrong = RewriteRule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x, **_: op.Neg(x))\n")
    assert [rule.__name__ for rule in load_rules(str(path))] == ["no_op_transpose_rule", "wrong"]
    (rule,) = load_rules(f"{path}::wrong")
    assert issubclass(rule, OnnxRule) and is_onnx_rule(rule.given)
    assert rule.content() == load_rules(f"{path}::wrong")[0].content() != load_rules(f"{path}::no_op_transpose_rule")[0].content()
    assert run(["verify", f"{path}::no_op_transpose_rule", "--examples", "5", "--fresh"]) == 0
    assert run(["verify", f"{path}::wrong", "--examples", "5", "--fresh"]) == 1
    shown = capsys.readouterr().out
    assert "REFUTED" in shown and "Neg" in shown


def test_the_model_handed_to_the_rule_is_onnxscripts_own() -> None:
    seen: list[object] = []

    def check(context, x):  # type: ignore[no-untyped-def]
        seen.append(x)
        return True

    verdict_of(RewriteRule(lambda op, x: op.Relu(op.Relu(x)), lambda op, x, **_: op.Relu(x), check), examples=2)
    assert seen and all(isinstance(value, ir.Value) for value in seen)
