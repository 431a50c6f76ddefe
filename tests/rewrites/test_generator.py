"""Discovery finds laws, loses none to altered semantics, drops what others derive, and writes rules that load."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rewrites.generator.derivation import derivable
from rewrites.generator.discovery import Discovery, Judgement
from rewrites.generator.enumeration import ClassIndex, Enumeration
from rewrites.generator.generalisation import Candidate, generalisations, rule_from_text, rule_of
from rewrites.generator.terms import TermBank
from rewrites.generator.vocabulary import chosen, sources
from rewrites.generator.world import PRIME, WORLDS
from verifier.verdict import Status
from verifier.verify import verify


def judge(name: str, text: str) -> Judgement:
    verdict = verify(rule_from_text(name, text), examples=20, timeout=30)
    return Judgement(verdict.status is Status.PROVED, str(verdict.status.value), verdict.reason)


def test_equal_terms_are_one_object() -> None:
    bank = TermBank()
    x, y = bank.input("x0"), bank.input("x1")
    assert bank.apply("add", x, y) is bank.apply("add", x, y)
    assert bank.apply("relu", bank.apply("relu", x)).size == 2
    shared = bank.apply("relu", x)
    assert bank.apply("add", shared, shared).size == 2
    assert str(bank.rename(bank.apply("add", x, y), {"x0": "x1", "x1": "x0"})) == "add(x1, x0)"


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_relu_is_the_larger_of_an_order_and_nothing_else(world: object) -> None:
    x = WORLDS[0].draw((200,))
    relu = WORLDS[0].relu
    assert torch.equal(relu(relu(x)), relu(x))
    assert 20 < int((relu(x) == 0).sum()) < 180
    doubled = torch.remainder(2 * x, PRIME)
    assert not torch.equal(relu(doubled), torch.remainder(2 * relu(x), PRIME)), "relu may not be linear in any world"


def test_functions_are_consistent_and_differ() -> None:
    world, x = WORLDS[0], WORLDS[0].draw((50,))
    assert torch.equal(world.function("tanh", x), world.function("tanh", x))
    assert not torch.equal(world.function("tanh", x), world.function("sigmoid", x))
    assert bool((world.function("tanh", x) == world.function("tanh", x).round()).all())


def test_association_is_found_and_commutation_of_matrices_is_not() -> None:
    enumeration = Enumeration(chosen(["matmul"]), sources(3, 0))
    enumeration.level()
    enumeration.level()
    found = {str(right): str(left) for left, right in enumeration.equations.values()}
    assert found["matmul(matmul(m0, m1), m2)"] == "matmul(m0, matmul(m1, m2))"
    assert not enumeration.equations.keys() & {("matmul(m0, m1)", "matmul(m1, m0)")}
    assert [growth.operations for growth in enumeration.growth] == [1, 2]


def test_classes_beyond_the_limit_go_to_disk_and_are_found_again() -> None:
    index = ClassIndex(limit=2)
    keys = [bytes([i]) * 16 for i in range(5)]
    assert [index.setdefault(key, number) for number, key in enumerate(keys)] == list(range(5))
    assert [index.setdefault(key, 99) for key in keys] == list(range(5))
    assert len(index) == 5


def test_special_cases_are_derived_from_the_law() -> None:
    bank = TermBank()
    a, b, c = (bank.input(f"m{i}") for i in range(3))
    law = (bank.apply("matmul", bank.apply("matmul", a, b), c), bank.apply("matmul", a, bank.apply("matmul", b, c)))
    special = (bank.apply("matmul", bank.apply("matmul", a, a), b), bank.apply("matmul", a, bank.apply("matmul", a, b)))
    other = (bank.apply("matmul", a, b), bank.apply("matmul", b, a))
    assert derivable(special, [law])
    assert not derivable(other, [law])
    assert not derivable(special, [])


def test_a_law_for_parts_of_one_size_says_nothing_of_others() -> None:
    bank = TermBank()
    x, y, z = (bank.input(f"x{i}") for i in range(3))
    law = (bank.apply("split_1_4_first", bank.apply("concat_1_4", x, y)), x)
    halves = (bank.apply("split_1_4_first", bank.apply("concat_1_4", z, x)), z)
    unequal = (bank.apply("split_1_4_first", bank.apply("concat_1_4", x, bank.apply("concat_1_4", y, z))), x)
    assert derivable(halves, [law])
    assert not derivable(unequal, [law])


def test_a_convolution_law_gets_its_condition_on_groups() -> None:
    bank = TermBank()
    x, v, w = bank.input("x0"), bank.input("v0"), bank.input("v1")
    left = bank.apply("conv_1", x, bank.apply("concat_0_4", v, w))
    right = bank.apply("concat_1_4", bank.apply("conv_1", x, v), bank.apply("conv_1", x, w))
    candidate = Candidate((right,), (left,))
    by_name = {source.name: source for source in sources()}
    verdicts = {}
    for attributes, fixed in generalisations(candidate):
        found = rule_of(candidate, by_name, "ConcatOfConvolutions", attributes, fixed)
        verdicts[found.conditions] = judge(found.name, found.text).status
    assert verdicts[()] == "REFUTED"
    assert verdicts[("groups is 1",)] == "PROVED"
    assert verdicts[("stride is 1",)] == "REFUTED"


def test_a_run_keeps_the_laws_counts_the_rest_and_resumes(tmp_path: Path) -> None:
    calls: list[str] = []

    def counted(name: str, text: str) -> Judgement:
        calls.append(name)
        return judge(name, text)

    state = tmp_path / "state.json"
    first = Discovery(chosen(["matmul", "add", "transpose"]), sources(3, 0), counted, 2, state=state).run()
    laws = {kept.rule.statement() for kept, _ in first.kept}
    assert "transpose(transpose(m0)) = m0." in laws
    assert "matmul(matmul(m0, m1), m2) = matmul(m0, matmul(m1, m2))." in laws
    assert first.derived > 0
    assert first.raw == first.derived + len(first.kept) + first.superseded + sum(first.wrong.values()) + first.pending
    asked = len(calls)
    second = Discovery(chosen(["matmul", "add", "transpose"]), sources(3, 0), counted, 2, state=state).run()
    assert len(calls) == asked, "judgements are kept"
    assert second.source() == first.source()
    compile(first.source(), "found.py", "exec")


def test_an_unknown_operator_is_named() -> None:
    with pytest.raises(ValueError, match=r"operators: must be among .*, got convolve"):
        chosen(["convolve"])
