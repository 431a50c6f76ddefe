"""Scopes, explanations, unmatched terms, bounded proofs, suggestions, and TASO's collection."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int32
from torch import Tensor

from rewrites.cases import cases, trace_case
from rewrites.rule import Requires, Rule
from verifier.proof.bounded import prove_bounded
from verifier.proof.explain import explain
from verifier.proof.prove import PROVED, VACUOUS
from verifier.proof.refute import Refuter
from verifier.proof.rules import prove_case, prove_rule
from verifier.suggest import suggest

TASO = Path(__file__).resolve().parents[3] / "shared" / "data" / "taso_rules.json"


class Associate(Rule):
    """Matrix products are associative."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "k n"], c: Float[Tensor, "n l"]):
        return (a @ b) @ c

    @staticmethod
    def replacement(a, b, c):
        return a @ (b @ c)


class JoinProducts(Rule):
    """A sum of products is the product of the joined matrices."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "m k"], b: Float[Tensor, "m p"], c: Float[Tensor, "k n"], d: Float[Tensor, "p n"]):
        return a @ c + b @ d

    @staticmethod
    def replacement(a, b, c, d):
        return torch.cat([a, b], 1) @ torch.cat([c, d], 0)


class ScaleOutOfRelu(Rule):
    """A factor moves out of a relu; only true of factors that are not negative."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "n"], factor: float):
        return F.relu(x * factor)

    @staticmethod
    def replacement(x, factor):
        return factor * F.relu(x)


class AverageOfShards(Rule):
    """The mean is the mean of two shards' means; only true of equal shards."""

    source = "the tests"

    @staticmethod
    def pattern(a: Float[Tensor, "n p"], b: Float[Tensor, "m p"]):
        return torch.cat([a, b], 0).mean(0)

    @staticmethod
    def replacement(a, b):
        return (a.mean(0) + b.mean(0)) / 2


class Impossible(Rule):
    """A rule about nothing."""

    source = "the tests"
    requires = [Requires("n is 3 and 4", lambda n: n == 3 and n == 4)]

    @staticmethod
    def pattern(a: Float[Tensor, "n"]):
        return a + a

    @staticmethod
    def replacement(a):
        return a * 5


class MeanIsSum(Rule):
    """The mean over an axis of one is the sum; the mean of nothing is no number."""

    source = "the tests"

    @staticmethod
    def pattern(x: Float[Tensor, "m n"]):
        return x.mean(1) * x.shape[1]

    @staticmethod
    def replacement(x):
        return x.sum(1)


def first(rule):
    return trace_case(rule, next(iter(cases(rule))))


def test_a_proof_says_its_scope():
    proof = prove_case(first(Associate))
    assert proof.status == PROVED
    assert proof.scope == ("all sizes ≥ 0",)


def test_sizes_of_zero_are_excluded_in_words_where_they_must_be():
    assert prove_case(first(MeanIsSum)).scope == ("all sizes ≥ 1",)


def test_contradictory_conditions_are_vacuous():
    done = prove_rule(Impossible)
    assert not done.proved
    assert all(case.proof.status == VACUOUS for case in done.cases)


def test_explanations_show_both_sides_and_the_map():
    text = explain(prove_case(first(Associate)))
    assert "pattern     = Σ[" in text and "replacement = Σ[" in text
    assert "↦" in explain(prove_case(first(JoinProducts)))
    assert explain(prove_case(first(Associate)), markdown=True).startswith("**proved**")


def test_what_is_undecided_comes_with_unmatched_terms():
    proof = prove_case(first(AverageOfShards))
    assert not proof.proved
    assert proof.unmatched and "1/(n)" in " ".join(proof.unmatched)
    assert "nothing cancels" in explain(proof)


def test_bounded_proofs_cover_every_small_assignment():
    traced = first(Associate)
    proof = prove_bounded(traced.pattern, traced.replacement, traced.facts, greatest=2)
    assert proof.status == PROVED and "81 assignments" in proof.scope[0]
    wrong = first(AverageOfShards)
    assert prove_bounded(wrong.pattern, wrong.replacement, wrong.facts, greatest=2).status != PROVED


def test_wrong_rules_have_small_models():
    traced = first(AverageOfShards)
    model = Refuter(traced.pattern, traced.replacement, traced.facts).model()
    assert model is not None and model.sizes["n"] != model.sizes["m"]
    right = first(Associate)
    assert Refuter(right.pattern, right.replacement, right.facts).model() is None


class RemainderOfNegation(Rule):
    """(−x) mod 7 is (7 − x mod 7) mod 7: wrong for the least number alone, whose negation wraps."""

    source = "a test"

    def pattern(x: Int32[Tensor, "n"]):
        return (x * -1) % 7

    def replacement(x):
        return (7 - x % 7) % 7


def test_no_condition_is_suggested_where_the_reals_need_none():
    assert suggest(RemainderOfNegation) is None


def test_the_missing_condition_is_suggested():
    assert str(suggest(ScaleOutOfRelu)) == "holds if factor >= 0"
    assert str(suggest(AverageOfShards)) == "holds if n == m"


@pytest.mark.skipif(not TASO.is_file(), reason="TASO's rule collection is not at hand")
def test_taso_rules_are_proved_but_for_those_that_are_wrong():
    from rewrites.taso import load_taso

    rules = load_taso(TASO)
    wrong = [rule for rule in rules if not prove_rule(rule, timeout=3).proved]
    assert [rule.__name__ for rule in wrong] == [f"Taso{n}" for n in (98, 99, 100, 105, 125, 126, 127, 128, 129, 130, 131)]
    for rule in wrong:
        traced = first(rule)
        assert Refuter(traced.pattern, traced.replacement, traced.facts).model(draws=40, tries=4000) is not None, rule.__name__
    assert str(suggest(rules[98])) == "holds if groups == 1"
    assert str(suggest(rules[99])) == "holds if o == p"
