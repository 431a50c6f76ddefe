"""Sizes that satisfy conditions: drawn, repaired, found by Z3, made smaller."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from operators.expressions import Symbol, floor_divide, larger, symbol
from operators.formulas import Truth, all_of, any_of, equal, negate
from operators.predicates import substitute_formula
from verifier.sizes import SizeModel, evaluator

M, N, K = symbol("m"), symbol("n"), symbol("k")

FACTS: list[Truth] = [
    M * N <= K + 3,
    equal(floor_divide(M + 2 * N, 3), K),
    negate(equal(M, N)),
    any_of(M >= 4, all_of(N <= 1, K >= 2)),
    equal(larger(M, N), K),
    equal(M % 2, 1),
]


@given(st.sampled_from(FACTS), st.fixed_dictionaries({"m": st.integers(-9, 9), "n": st.integers(-9, 9), "k": st.integers(-9, 9)}))
def test_compiled_statements_mean_what_statements_mean(fact: Truth, values: dict[str, int]) -> None:
    assert evaluator(fact)(values) == substitute_formula(fact, {Symbol(name): value for name, value in values.items()})


@given(st.integers(0, 1000))
def test_everything_drawn_is_admitted(seed: int) -> None:
    model = SizeModel(["m", "n", "k"], ["k"], [equal(K, M + N), M >= 1])
    pool = model.pool(seed, count=8)
    assert pool and all(model.admits(values) for values in pool)
    assert pool == sorted(pool, key=model.weight)


def test_rare_sizes_come_from_z3() -> None:
    model = SizeModel(["m", "n"], [], [equal(M * N, 1892), equal(N, M + 1)])
    assert model.pool(0) == [{"m": 43, "n": 44}]


def test_contradictions_are_impossible_and_mere_rarities_are_not() -> None:
    assert SizeModel(["m"], [], [M >= 4, M <= 3]).impossible()
    assert not SizeModel(["m", "n"], [], [equal(M * N, 1892), M >= 40]).impossible()


def test_z3_finds_sizes_that_break_a_goal() -> None:
    model = SizeModel(["m", "n"], [], [M >= 1, N >= 1])
    found = model.solved(random.Random(0), 3, also=[negate(equal(M * N, M + N))])
    assert found and all(v["m"] * v["n"] != v["m"] + v["n"] for v in found)


def test_smaller_steps_stay_admitted_and_descend() -> None:
    model = SizeModel(["m", "n", "k"], ["k"], [equal(K, M + N), M >= 1])
    values = {"m": 5, "n": 3, "k": 8}
    steps = list(model.smaller(values))
    assert steps and all(model.admits(step) and model.weight(step) < model.weight(values) for step in steps)
