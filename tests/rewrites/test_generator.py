"""Discovery finds laws, loses none to altered semantics, drops what others derive, and writes rules that load."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
import torch

from rewrites.generator.classes import ClassIndex
from rewrites.generator.derivation import derivable
from rewrites.generator.discovery import Discovery, Findings
from rewrites.generator.enumeration import Enumeration
from rewrites.generator.evaluation import equal_values
from rewrites.generator.generalisation import Candidate, rule_from_text
from rewrites.generator.judging import Court, Judgement, Judgements
from rewrites.generator.stacks import Inputs, fingerprints, uses_first
from rewrites.generator.terms import Term, TermBank
from rewrites.generator.variants import variants
from rewrites.generator.vocabulary import OPERATIONS, SORTS, chosen, sources
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
    enumeration = Enumeration(chosen(["matmul"]), sources(3, 0, "m"))
    enumeration.level()
    enumeration.level()
    found = {str(right): str(left) for left, right in enumeration.equations.values()}
    assert found["matmul(matmul(m0, m1), m2)"] == "matmul(m0, matmul(m1, m2))"
    assert not enumeration.equations.keys() & {("matmul(m0, m1)", "matmul(m1, m0)")}
    assert [growth.operations for growth in enumeration.growth] == [1, 2]


def terms_of_size(families: list[str], level: int) -> set[str]:
    """Every term of so many operations over the families and two matrices, made one by one."""
    operations = chosen(families)
    bank = TermBank()
    terms = [bank.input(name) for name in ("m0", "m1")]
    known = {str(term): term for term in terms}
    for _ in range(level):
        for operation in operations:
            for children in itertools.product(list(known.values()), repeat=len(operation.ranks)):
                if operation.commutative and children[0].number > children[1].number:
                    continue
                made = bank.apply(operation.name, *children)
                if made.size <= level:
                    known.setdefault(str(made), made)
    return {text for text, term in known.items() if term.size == level}


def test_every_term_is_equal_to_a_representative() -> None:
    families = ["matmul", "add", "transpose"]
    enumeration = Enumeration(chosen(families), sources(2, 0, "m"))
    for _ in range(2):
        enumeration.level()
    represented = [term for stack in enumeration.stacks.values() for term in stack.terms]
    assert len({str(term) for term in represented}) == len(represented)
    for text in terms_of_size(families, 2):
        assert any(equal_values(read(text), term) for term in represented), text


def read(text: str) -> Term:
    """The term that prints so."""
    term = TermBank().read(text)
    assert str(term) == text
    return term


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_a_stack_is_computed_as_each_term_alone(name: str) -> None:
    operation = OPERATIONS[name]
    for world in WORLDS:
        for shapes in itertools.product([sort.shape(world) for sort in SORTS.values()], repeat=len(operation.ranks)):
            if any(rank is not None and rank != len(shape) for rank, shape in zip(operation.ranks, shapes, strict=True)):
                continue
            operands = [torch.stack([world.draw(shape) for _ in range(3)]) for shape in shapes]
            try:
                stacked = operation.kernel(world, *operands)
            except (ValueError, RuntimeError):
                continue
            for i in range(3):
                assert torch.equal(stacked[i : i + 1], operation.kernel(world, *(operand[i : i + 1] for operand in operands)))
            assert bool(((stacked >= 0) & (stacked < PRIME) & (stacked == stacked.round())).all())


def test_fingerprints_tell_values_and_shapes_apart() -> None:
    values = [torch.randint(0, PRIME, (500, 2, 3)).to(torch.float64) for _ in WORLDS]
    shapes = ((2, 3),) * len(WORLDS)
    keys = fingerprints(values, shapes, 0)
    assert len(set(keys.tolist())) == 500
    assert keys.tolist() == fingerprints(values, shapes, 0).tolist()
    flipped = fingerprints([value.reshape(500, 3, 2) for value in values], ((3, 2),) * len(WORLDS), 0)
    assert not set(keys.tolist()) & set(flipped.tolist())
    values[1][7, 1, 2] += 1
    assert (fingerprints(values, shapes, 0) != keys).nonzero()[0].tolist() == [7]


def test_inputs_are_used_in_order() -> None:
    bits = Inputs(["m0", "m1", "m2", "x0", "x1"]).bit
    assert uses_first(bits["m0"] | bits["m1"] | bits["x0"])
    assert not uses_first(bits["m0"] | bits["m2"])
    assert not uses_first(bits["m0"] | bits["x1"])
    with pytest.raises(ValueError, match="at most six of each of at most nine sorts, got m0, m6"):
        Inputs(["m0", "m6"])


def test_classes_beyond_the_limit_go_to_disk_and_are_found_again() -> None:
    index = ClassIndex(limit=2)
    keys = [(-1) ** i * 2**62 + i for i in range(5)]
    numbers = [i << 80 for i in range(5)]
    assert [index.setdefault(key, number) for key, number in zip(keys, numbers, strict=True)] == numbers
    assert [index.setdefault(key, 99) for key in keys] == numbers
    assert (len(index), index.spilled) == (5, 3)


def test_classes_on_disk_change_nothing() -> None:
    runs = [Enumeration(chosen(["matmul", "add"]), sources(2, 0, "m"), index=ClassIndex(limit)) for limit in (3, 10**6)]
    for run in runs:
        run.level()
        run.level(last=True)
    assert runs[0].index.spilled > 0
    assert runs[0].equations.keys() == runs[1].equations.keys()


def test_enumeration_stops_with_a_sentence_where_memory_is_used_up() -> None:
    findings = Discovery(chosen(["matmul", "add"]), sources(2, 0, "m"), judge, 2, most_memory=1).run()
    assert "of memory are used" in findings.stopped
    assert len(findings.growth) == 1


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


def judged(left: str, right: str) -> tuple[Candidate, object, object]:
    """A candidate, what the court says of it at its most general, and with conditions."""
    candidate, court = Candidate((read(left),), (read(right),)), Court(judge, Judgements())
    return candidate, *court.general([candidate], {}), *court.conditional([candidate], {})


def test_a_convolution_law_gets_its_condition_on_groups() -> None:
    whole, parts = "conv_1(x0, concat_0_4(v0, v1))", "concat_1_4(conv_1(x0, v0), conv_1(x0, v1))"
    _, (_, general), (found, conditional) = judged(parts, whole)
    assert general.status == "REFUTED"
    assert conditional.status == "PROVED"
    assert found.conditions == ("groups is 1",)


def test_attributes_that_do_not_matter_are_variables_and_padding_is_told_from_padding() -> None:
    _, _, (found, judgement) = judged("conv_1(x0, v0)", "conv_3(x0, enlarge(v0))")
    assert judgement.holds
    assert found.conditions == ("dilation is 1",)
    assert "stride, padding + 1, dilation, groups" in found.text


def test_an_open_law_speaks_of_every_convolution() -> None:
    candidate, (found, judgement), _ = judged("conv_3(add(x0, x1), w0)", "add(conv_3(x0, w0), conv_3(x1, w0))")
    assert judgement.holds
    assert "groups*c" in found.text
    others = {str(left) for left, _ in variants(candidate, found, TermBank())}
    assert others == {"conv_1(add(x0, x1), v0)", "conv_3_grouped(add(x0, x1), g0)"}


def test_a_law_of_matrices_is_written_for_any_batch() -> None:
    _, (found, judgement), _ = judged("matmul(add(m0, m1), m2)", "add(matmul(m0, m2), matmul(m1, m2))")
    assert judgement.holds
    assert '"*batch m k"' in found.text


def test_relu_after_a_maximum_is_not_lost() -> None:
    left, right = read("max_pool(relu(x0))"), read("relu(max_pool(x0))")
    assert equal_values(left, right)
    assert not equal_values(left, read("max_pool(x0)"))


def test_the_pieces_of_the_residual_fusion_are_equal_in_every_world() -> None:
    fold = "addchannel(conv_3(x0, scalerows(w0, batchnorm_factor(s0, r0))), batchnorm_shift(z0, e0, batchnorm_factor(s0, r0)))"
    assert equal_values(read("batchnorm(conv_3(x0, w0), e0, r0, s0, z0)"), read(fold))
    assert equal_values(read("conv_1(x0, v0)"), read("conv_3(x0, enlarge(v0))"))
    assert equal_values(read("add(conv_3(x0, w0), x0)"), read("conv_3(x0, add(w0, centre(w0)))"))
    assert equal_values(read("conv_3(x0, mean(w0))"), read("average_pool(x0)"))


def test_a_run_keeps_the_laws_counts_the_rest_and_resumes(tmp_path: Path) -> None:
    calls: list[str] = []

    def counted(name: str, text: str) -> Judgement:
        calls.append(name)
        return judge(name, text)

    state = tmp_path / "state.sqlite"
    first = Discovery(chosen(["matmul", "add", "transpose"]), sources(3, 0, "m"), counted, 2, state=state).run()
    laws = {kept.rule.statement() for kept, _ in first.kept}
    assert "transpose(transpose(m0)) = m0." in laws
    assert "matmul(matmul(m0, m1), m2) = matmul(m0, matmul(m1, m2))." in laws
    assert first.derived > 0
    assert first.raw == first.derived + len(first.kept) + first.superseded + sum(first.wrong.values()) + first.pending
    asked = len(calls)
    kept = Judgements(state)
    assert kept.settled("another kind of run") == {}
    kept.close()
    second = Discovery(chosen(["matmul", "add", "transpose"]), sources(3, 0, "m"), counted, 2, state=state).run()
    assert len(calls) == asked, "judgements are kept"
    assert second.source() == first.source()
    compile(first.source(), "found.py", "exec")
    again = Findings.from_json(json.loads(json.dumps(first.to_json())))
    assert again.to_json() == first.to_json()


def test_an_unknown_operator_is_named() -> None:
    with pytest.raises(ValueError, match=r"operators: must be among .*, got convolve"):
        chosen(["convolve"])


def test_operations_side_by_side_are_merged_by_a_law_of_their_own() -> None:
    findings = Discovery(chosen(["relu", "concat", "split"]), sources(2, 0, "m"), judge, 3).run()
    merging = {str(c): found.name for c, (found, _) in zip(findings.candidates, findings.kept, strict=True) if c.merges}
    whole = "relu(concat_0_2(m0, m1))"
    assert f"relu(m0), relu(m1)  =  split_0_2_first({whole}), split_0_2_second({whole})" in merging
    assert len(merging) == 2
    assert findings.raw == findings.derived + len(findings.kept) + findings.superseded + sum(findings.wrong.values())


def test_what_only_the_second_judge_sees_is_declared_or_the_rule_is_not_kept() -> None:
    def lenient(name: str, text: str) -> Judgement:
        return Judgement(True, "PROVED")

    def strict(name: str, text: str) -> Judgement:
        if "transpose(transpose(" in text:
            return Judgement(False, "REFUTED", "value: the outputs differ")
        return Judgement(True, "PROVED") if "Change.NAN_INF" in text else Judgement(False, "REFUTED", "NaN/inf: one side is infinite")

    findings = Discovery(chosen(["relu", "transpose"]), sources(1, 0, "m"), lenient, 2, confirm=strict).run()
    laws = {found.rule.statement(): found.text for found, _ in findings.kept}
    assert set(laws) == {"relu(relu(m0)) = relu(m0).", "transpose(relu(m0)) = relu(transpose(m0))."}
    assert all("Change.NAN_INF" in text for text in laws.values())
    assert findings.wrong == {"REFUTED": 1}
    assert len(findings.equations) == 2


def test_a_pattern_computes_as_little_of_weights_as_it_can() -> None:
    def lenient(name: str, text: str) -> Judgement:
        return Judgement(True, "PROVED")

    findings = Discovery(chosen(["conv", "enlarge"]), sources(1, 1, "xwv"), lenient, 2).run()
    assert ["conv_1(x0, v0)"] in [[str(term) for term in candidate.left] for candidate in findings.candidates]


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    def run(limit: int, state: Path | None) -> tuple[Findings, int]:
        calls = 0

        def lenient(name: str, text: str) -> Judgement:
            nonlocal calls
            calls += 1
            if calls > limit:
                raise KeyboardInterrupt
            return Judgement("add(add(" not in text, "PROVED")

        return Discovery(chosen(["add", "relu", "transpose"]), sources(3, 0, "m"), lenient, 2, state=state).run(), calls

    state = tmp_path / "state.sqlite"
    whole, wanted = run(10**6, None)
    interrupted, _ = run(4, state)
    assert (interrupted.stopped, interrupted.pending > 0) == ("interrupted", True)
    resumed, asked = run(10**6, state)
    assert resumed.source() == whole.source()
    assert (resumed.derived, resumed.wrong) == (whole.derived, whole.wrong)
    assert asked < wanted
