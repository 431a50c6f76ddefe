"""What a wrong proof would come from: normal forms against plain evaluation, mutants, maps that are no bijections, digits, facts."""

import random

import pytest
import z3

from operators.expressions import Expression, symbol
from operators.formulas import Formula, at_least_zero, equal, formula_symbols
from rewrites.cases import cases, trace_case
from rewrites.library import library
from verifier.mutants import mutants
from verifier.proof.conditions import bounds_from
from verifier.proof.consistency import compare_normal_forms
from verifier.proof.guards import simplified
from verifier.proof.knowledge import Index, Knowledge, knowing, range_of
from verifier.proof.laws import exponential
from verifier.proof.matching import is_bijection
from verifier.proof.normalise import summed_over, where
from verifier.proof.prove import prove
from verifier.proof.reductions import infinity, is_minus_infinity
from verifier.proof.refute import Refuter
from verifier.proof.rules import prove_case
from verifier.proof.signs import is_positive
from verifier.proof.solver import Solver, clock
from verifier.proof.terms import Function, Read, Value
from verifier.steps import limit

SAMPLE = random.Random(7).sample(library(), 30)


def bounds_of_rule(traced):
    return [bound for condition in traced.value_conditions for bound in bounds_from(condition)]


@pytest.mark.parametrize("rule", SAMPLE, ids=lambda rule: rule.__name__)
def test_normal_forms_mean_what_the_elements_mean(rule):
    traced = trace_case(rule, next(iter(cases(rule))))
    found = compare_normal_forms(traced, prove_case(traced), seed=3)
    assert not found.difference
    if not found.compared:
        pytest.skip("no small instance of this rule was drawn on which both sides are numbers")


@pytest.mark.parametrize("rule", SAMPLE[:10], ids=lambda rule: rule.__name__)
def test_no_wrong_mutant_is_proved(rule):
    traced = trace_case(rule, next(iter(cases(rule))))
    bounds = bounds_of_rule(traced)
    for mutant in mutants(traced.replacement, 5, seed=11):
        proof = prove(traced.pattern, mutant.graph, traced.facts, bounds, mutant.required, timeout=2.0)
        if proof.proved:
            model = Refuter(traced.pattern, mutant.graph, traced.facts, bounds).model()
            assert model is None or ("all sizes ≥ 1" in proof.scope and 0 in model.sizes.values()), (mutant.change, str(model))


a, b = Index("j₁"), Index("j₂")
A, B = Expression.of(a), Expression.of(b)
n, p = symbol("n"), symbol("p")


@pytest.mark.parametrize(
    "found, holds",
    [
        ({a: B}, True),
        ({a: B + n}, True),
        ({a: n - B - 1}, True),
        ({a: 2 * B}, False),
        ({a: n * B}, False),
        ({a: 3}, False),
        ({a: B * B}, False),
    ],
)
def test_only_invertible_maps_are_bijections(found, holds):
    assert is_bijection(found, [b], [a]) is holds


def test_two_indices_may_not_go_to_one():
    c, d = Index("j₃"), Index("j₄")
    assert not is_bijection({a: Expression.of(c), b: Expression.of(c)}, [c, d], [a, b])
    assert is_bijection({a: Expression.of(d), b: Expression.of(c) + Expression.of(d)}, [c, d], [a, b])


def sizes_known(*facts):
    return knowing(Knowledge([at_least_zero(n), at_least_zero(p), *facts]))


def test_digits_are_split_only_within_their_range():
    in_range = [at_least_zero(A), at_least_zero(p - A - 1), at_least_zero(B), at_least_zero(p - B - 1)]
    with sizes_known():
        equality = equal(p * Expression.of(Index("i₁")) + A, p * Expression.of(Index("i₂")) + B)
        split = simplified([*in_range, equality])
        assert equal(A, B) in split or equal(B, A) in split
        assert equality in simplified([equality])


def test_an_equality_of_opposite_inequalities_is_kept():
    with sizes_known():
        assert simplified([at_least_zero(A - n), at_least_zero(n - A)]) == frozenset([equal(n, A)]) or simplified(
            [at_least_zero(A - n), at_least_zero(n - A)]
        ) == frozenset([equal(A, n)])
        assert simplified([at_least_zero(A - n), at_least_zero(n - A - 1)]) is None


def test_splits_need_extents_that_are_not_negative():
    knowledge = Knowledge([at_least_zero(n)])
    assert not knowledge.may_split(n * p, p)
    assert not knowledge.may_split(n, -n)
    assert Knowledge([at_least_zero(n), at_least_zero(p)]).may_split(n * p, p)


def test_a_sum_under_a_guard_is_not_positive():
    element = Value.of(Function("exp", (Value.of(Read("x", (A,), "float")),), exponential))
    with sizes_known():
        whole = summed_over(a, range_of(a, n + 1), element)
        assert is_positive(whole)
        assert not is_positive(summed_over(a, range_of(a, n), element))
        assert not is_positive(where(at_least_zero(n - p), whole))
        assert not is_positive(where(at_least_zero(n - p), element))


def test_a_sum_is_not_counted_out_under_a_factor_that_joins_later():
    x = Value.of(Function("exp", (Value.of(Read("x", (A,), "float")),), exponential))
    y = Value.of(Function("exp", (Value.of(Read("y", (A,), "float")),), exponential))
    with sizes_known():
        joined = summed_over(a, range_of(a, n), x * y)
        assert all(product.bound for product in joined.terms)
        assert joined.canonical().key != (summed_over(a, range_of(a, n), x) * y).canonical().key


def test_minus_infinity_under_a_guard_is_not_minus_infinity():
    with sizes_known():
        guarded = where(at_least_zero(n - 1), -infinity())
        assert is_minus_infinity(-infinity() + Value.of(Read("x", (), "float")))
        assert not is_minus_infinity(where(at_least_zero(n - p), -infinity()))
        assert not is_minus_infinity(guarded + infinity())


def test_the_solver_says_no_when_it_does_not_know():
    solver = Solver([at_least_zero(n)], {}, deadline=clock() + 60)
    assert solver.proves(at_least_zero(n + 1))
    assert not solver.proves(at_least_zero(n - 1))
    assert not solver.contradictory([at_least_zero(n)])
    assert solver.contradictory([at_least_zero(-n - 1)])


def test_a_limit_counts_steps_and_not_the_clock():
    def steps(milliseconds):
        context = z3.Context()
        numbers = z3.Ints([f"x{position}" for position in range(12)], context)
        solver = z3.Solver(ctx=context)
        solver.add(z3.Distinct(*numbers), *(z3.And(number >= 0, number < 11, context) for number in numbers))
        limit(solver, milliseconds)
        solver.set("timeout", 60_000)
        assert solver.check() == z3.unknown
        return solver.statistics().get_key_value("rlimit count")

    assert steps(1) == steps(1) < steps(5)


def test_formulas_of_the_library_name_their_symbols():
    traced = trace_case(SAMPLE[0], next(iter(cases(SAMPLE[0]))))
    assert all(isinstance(fact, Formula) and formula_symbols(fact) for fact in traced.facts)
