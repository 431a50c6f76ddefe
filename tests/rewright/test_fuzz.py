"""`rewright fuzz` finds faults, tells them apart, makes them small, is the same for a seed, and leaves the clean tree alone."""

from __future__ import annotations

import json
import runpy
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import rewright as rewright_
from benchmarks import planted
from graphs.graph import Graph, Value
from graphs.trace import Proxy, trace
from operators.activations import Relu
from operators.arithmetic import Add
from operators.functions import Exp
from operators.operator import TensorType
from rewright.cli.main import run as rewright
from rewright.fuzzing import campaign, laws, matching, models, reporting
from rewright.fuzzing.comparing import Different, Reference, must_agree
from rewright.fuzzing.eager import gradients_of
from rewright.fuzzing.finding import Finding, Outcome, Problem, Subject
from rewright.fuzzing.judging import failure, judged
from rewright.fuzzing.models import Setting
from rewright.fuzzing.programs import Given, Program, Statement, without_dead
from rewright.fuzzing.rules import check_firing, rule_named
from rewright.fuzzing.shrinking import candidates
from rewrites.match import find_matches
from verifier.isolation import isolated
from verifier.proof.prove import PROVED, Proof

torch.set_num_threads(1)
PATCHES = planted.patches()
PROGRAM = Program(
    inputs=(Given((2, 3)), Given((3, 2))),
    parts={"part0": "nn.Linear(3, 3, dtype=torch.float64)", "part1": "nn.Linear(2, 2, dtype=torch.float64)"},
    statements=(
        Statement("linear", "{out} = self.part0({0})", (0,)),
        Statement("relu", "{out} = torch.relu({0})", (2,)),
        Statement("unused", "{out} = self.part1({0})", (1,)),
        Statement("add", "{out} = {0} + {1}", (3, 0)),
    ),
    returned=(5, 3),
)


def run_here(subjects: list[Subject], folder: Path, tasks: int = 4, seed: int = 1, **options: Any) -> campaign.Campaign:
    return campaign.run(subjects, 120, seed, database=str(folder), most_tasks=tasks, **options)


@pytest.fixture
def broken_relu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Relu, "gradient", lambda self, out_grad, *operands: (torch.where(operands[0] > 1, out_grad, 0.0),))


@pytest.mark.usefixtures("broken_relu")
def test_a_finding_is_small_kept_and_tried_first_the_next_time(tmp_path: Path) -> None:
    subjects = [Subject("operator", "Relu"), Subject("operator", "Add")]
    (found,) = run_here(subjects, tmp_path, tasks=12).findings
    assert (found.cause, found.replayed) == ("Relu: gradient", False)
    script = tmp_path / "again.py"
    script.write_text(found.problem.script)
    assert "torch.tensor(" in found.problem.script and len(found.problem.script) < 1500
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script))
    assert ended.value.code == 1
    again = run_here(subjects, tmp_path, tasks=1, seed=9)
    assert [finding.replayed for finding in again.findings] == [True]


def test_an_example_that_passes_again_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subjects = [Subject("operator", "Relu")]
    with monkeypatch.context() as patched:
        patched.setattr(Relu, "gradient", lambda self, out_grad, *operands: (out_grad,))
        assert run_here(subjects, tmp_path).findings
    assert len(campaign.replays(subjects, str(tmp_path))) == 1
    assert not run_here(subjects, tmp_path, tasks=1).findings
    assert campaign.replays(subjects, str(tmp_path)) == []


def test_the_order_is_the_seeds() -> None:
    subjects = campaign.library_subjects()
    first, second, other = ([next(tasks) for _ in range(120)] for tasks in (campaign.order(subjects, s) for s in (0, 0, 1)))
    assert first == second != other
    assert {task.subject.kind for task in first} == {"operator", "rule", "proof", "law", "firing", "walk", "model"}


def test_one_seed_gives_one_run(tmp_path: Path) -> None:
    subjects = [Subject(kind, "ReluIsIdempotent") for kind in ("firing", "rule", "proof")]
    runs = [run_here(subjects, tmp_path / str(k), tasks=6) for k in range(2)]
    assert runs[0].fired == runs[1].fired and runs[0].fired["ReluIsIdempotent"] > 0
    assert runs[0].examples == runs[1].examples and not runs[0].findings + runs[1].findings


def test_a_prover_that_says_yes_to_all_is_found_by_a_random_law(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(laws.check_law(form, seed) for form in laws.FORMS for seed in range(2))
    monkeypatch.setattr(laws, "prove", lambda *arguments: Proof(PROVED, 0.0))
    for form in laws.FORMS:
        problem = next(problem for seed in range(20) if (problem := laws.check_law(form, seed)) is not None)
        assert problem.cause == "proved and wrong" and form in problem.script


def test_right_sides_leave_out_move_and_exchange() -> None:
    graph = Graph()
    a, b = (graph.input(name, TensorType((2, 3), "float64")) for name in "ab")
    graph.outputs = [graph.add(Exp(), graph.add(Add(), a, b))]
    assert [right.change for right in laws.right_sides(graph)] == [
        "Add left out", "Add left out", "Exp left out", "Exp past Add",
        f"{graph.operator(b.node)} for {graph.operator(a.node)}", f"{graph.operator(a.node)} for {graph.operator(b.node)}",
    ]  # fmt: skip


def matches_of(pattern: Callable[..., Any], *operands: Tensor, weights: tuple[int, ...] = ()) -> tuple[Graph, list[Tensor]]:
    graph, inputs, arguments = Graph(), [], []
    for position, operand in enumerate(operands):
        if position in weights:
            arguments.append(Proxy(graph, graph.constant(f"c{position}", operand)))
        else:
            arguments.append(Proxy(graph, graph.input(f"x{position}", TensorType(tuple(operand.shape), "float64"))))
            inputs.append(operand)
    graph.outputs = trace(pattern, arguments, graph)
    return graph, inputs


def test_a_match_is_held_against_the_pattern() -> None:
    class Doubled(rewright_.Rule):
        """x + x = 2 x."""

        source = "nobody"

        def pattern(x: Float[Tensor, "*s"]) -> Tensor:
            return x + x

        def replacement(x: Tensor) -> Tensor:
            return 2 * x

    graph, inputs = matches_of(Doubled.pattern, torch.ones(2, dtype=torch.float64))
    (match,) = find_matches(Doubled, graph)
    matching.check_match(match, graph, matching.values_of(graph, inputs, 0))
    other = graph.copy()
    twin = other.input("y", graph.type(Value(0)))
    graph_input, added = Value(other.inputs[0]), other.outputs[0].node
    other.network.remove_edge(graph_input.node, added, key=(0, 1))
    other.network.add_edge(twin.node, added, key=(0, 1))
    with pytest.raises(Different, match="the pattern gives"):
        matching.check_match(match, other, matching.values_of(other, [*inputs, torch.zeros(2, dtype=torch.float64)], 0))


@pytest.mark.parametrize(("name", "seed"), [("StackAsConcatenation", 3628801), ("FactorMatMulRight", 26535)])
def test_a_rule_need_not_fire_on_more_dims_than_are_proved(name: str, seed: int) -> None:
    """From this seed all graphs have five dims, or more in the factor than in the terms, of which the proof does not speak."""
    assert check_firing(rule_named(name), seed, Counter()) is None


def test_what_is_constant_to_the_costs_depends_on_no_input(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = matches_of(lambda x, w: x * w, torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64), weights=(1,))
    matching.check_constants(graph)
    monkeypatch.setattr(matching, "computed_from_constants", lambda graph: set(graph.network))
    with pytest.raises(Different, match="depends on an input"):
        matching.check_constants(graph)


def test_findings_of_one_cause_are_one() -> None:
    run = campaign.Campaign(0)
    subject = Subject("operator", "Add")
    for task, cause in enumerate(["a", "b", "a"]):
        run.take(Outcome(task, subject, 1, findings=[Finding(subject, Problem(cause, cause), 0, task)]), time.time())
    assert [finding.cause for finding in run.findings] == ["a", "b"] and run.again == {"a": 2, "b": 1}


def _with_a_budget(folder: str) -> tuple[int, float]:
    subjects = [Subject("model", "free"), Subject("operator", "Conv2d")]
    started = time.monotonic()
    run = campaign.run(subjects, 1.0, 0, database=folder)
    return run.tasks + run.lost, time.monotonic() - started


def test_the_budget_is_kept(tmp_path: Path) -> None:
    # In a process of its own: where the budget strikes while a module loads, it stays half loaded.
    tasks, seconds = isolated(_with_a_budget, str(tmp_path), seconds=120)
    assert tasks > 0 and seconds < 1.0 + 5.0


def test_a_random_model_passes() -> None:
    assert failure(PROGRAM, False, Setting(), ()) is None
    assert failure(PROGRAM, True, Setting(), ()) is None


def test_a_wrong_rewrite_is_blamed_on_its_rule_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(
        (Given((2, 3)),), {}, (
            Statement("tanh", "{out} = torch.tanh({0})", (0,)),
            Statement("relu", "{out} = torch.relu({0})", (1,)),
            Statement("relu", "{out} = torch.relu({0})", (2,)),
            Statement("scaled", "{out} = {0} * 0.5 + 1", (3,)),
        ), {"y": 4, "z": [1]},
    )  # fmt: skip

    class ReluOfReluIsSigmoid(rewright_.Rule):
        """A wrong law: the relu of a relu is the sigmoid."""

        source = "nobody"

        def pattern(x: Float[Tensor, "*s"]) -> Tensor:
            return torch.relu(torch.relu(x))

        def replacement(x: Tensor) -> Tensor:
            return torch.sigmoid(x)

    monkeypatch.setattr(models, "rules", lambda file="": (ReluOfReluIsSigmoid,))
    monkeypatch.setattr(Setting, "of", staticmethod(lambda seed, file="": Setting("kernels", "none")))
    problem = judged(Subject("model", "free"), program, Outcome(0, Subject("model", "free")))
    assert problem is not None and "ReluOfReluIsSigmoid" in problem.cause
    assert problem.text.count("torch.relu(v") == 2 and "tanh(v" not in problem.text and "* 0.5" not in problem.text.partition("def draw")[0]
    assert "Program(" in problem.script


def test_a_wrong_kernel_is_a_difference_of_the_captured_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Add, "run", lambda self, a, b: torch.sub(a, b))
    found = failure(PROGRAM, False, Setting(), ())
    assert isinstance(found, Different) and found.stage == "capture"


def test_dead_statements_and_parts_are_left_out() -> None:
    smaller = without_dead(PROGRAM)
    assert [statement.name for statement in smaller.statements] == ["linear", "relu", "add"]
    assert list(smaller.parts) == ["part0"] and len(smaller.inputs) == 1
    assert all(len(candidate.statements) <= 3 for candidate in candidates(smaller))


def test_rounding_is_told_from_a_wrong_value() -> None:
    from graphs.graph import Graph
    from operators.arithmetic import Floor
    from operators.operator import TensorType
    from operators.sources import Scalar

    graph = Graph()
    x = graph.input("x", TensorType((2,), "float64"))
    third = graph.add(Add(), x, graph.add(Scalar(0.5)))
    graph.outputs = [third, graph.add(Floor(), third)]
    inputs = [torch.tensor([0.5, 2.25], dtype=torch.float64)]
    reference = Reference(graph, inputs)
    expected = reference.values()
    must_agree("rounded", reference, expected, [expected[0] * (1 + 2.0**-50), torch.tensor([0.0, 2.0], dtype=torch.float64)])
    with pytest.raises(Different, match="value"):
        must_agree("wrong", reference, expected, [expected[0], torch.tensor([1.0, 3.0], dtype=torch.float64)])


def test_what_cancels_in_the_rewritten_graph_alone_is_rounding() -> None:
    inputs = [torch.randn(3, 4)]

    def of(function: Callable[[Any], Any]) -> Reference:
        graph = Graph()
        graph.outputs = trace(function, [Proxy(graph, graph.input("x", TensorType((3, 4))))], graph)
        return Reference(graph, inputs)

    shifted = of(lambda x: torch.clamp(x + 0.1, 2.0, 1e-05))
    moved = of(lambda x: torch.clamp(x, 2.0 - 0.1, 1e-05 - 0.1) + 0.1)
    wrong = of(lambda x: torch.clamp(x, 2.0 - 0.1, 2e-05 - 0.1) + 0.1)
    with pytest.raises(Different):
        must_agree("alone", shifted, shifted.values(), moved.values())
    must_agree("both", shifted, shifted.values(), moved.values(), moved)
    with pytest.raises(Different):
        must_agree("wrong", shifted, shifted.values(), wrong.values(), wrong)


def test_what_cancels_in_the_rewritten_gradient_alone_is_rounding() -> None:
    line = "from rewright.fuzzing.rules import rule_named\nLayerNormOfCentred = rule_named('LayerNormOfCentred', '')"
    statement = Statement("LayerNormOfCentred", "{out} = LayerNormOfCentred.pattern({0}, {1}, {2}, 3.0)", (0, 1, 2))
    # Rows of one element: the gradient of the scale is the centred row, exactly 0 where it is centred before, else what rounding leaves.
    program = Program((Given((3, 1)), Given((1,)), Given((1,))), {}, (statement,), 3, imports=(line,), seed=256)
    assert failure(program, True, Setting.of(0), ("LayerNormOfCentred",)) is None


def test_attention_that_takes_another_kernel_where_gradients_are_recorded_is_no_difference() -> None:
    name = "AttentionFromMaskedScoresReversed"
    line = f"from rewright.fuzzing.rules import rule_named\n{name} = rule_named({name!r}, '')"
    statement = Statement(name, f"{{out}} = {name}.pattern({{0}}, {{1}}, {{2}}, {{3}}, 1e-05)", (0, 1, 2, 3))
    program = Program((Given((2, 2, 2, 2)),) * 4, {}, (statement,), 4, imports=(line,), seed=1420)
    assert failure(program, True, Setting.of(0), (name,)) is None


TASK = campaign.Task(0, Subject("operator", "Relu"), 8)


@pytest.fixture
def broken_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def explore(*arguments: Any) -> Outcome:
        raise AssertionError("not caught by any check")

    monkeypatch.setattr("rewright.fuzzing.exploring.explore", explore)


@pytest.mark.usefixtures("broken_task")
def test_what_no_check_catches_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(campaign, "_struck", False)
    outcome = campaign.attempt(TASK, 1, str(tmp_path), time.time() + 60)
    assert outcome is not None
    (finding,) = outcome.findings
    assert finding.cause.startswith("AssertionError at ") and "operator Relu raises" in finding.problem.text


@pytest.mark.usefixtures("broken_task")
def test_after_a_strike_a_finding_counts_as_far_as_a_fresh_process_finds_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(campaign, "_struck", True)
    outcome = campaign.attempt(TASK, 1, str(tmp_path), time.time() + 120)
    assert outcome is not None and not outcome.findings and outcome.examples


def test_rules_of_a_file_are_fuzzed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("REWRIGHT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine.py").write_text(MINE)
    places = {name: str(tmp_path / name) for name in ("f.json", "f.xml", "f.md")}
    arguments = ["fuzz", str(tmp_path / "mine.py"), "--tasks", "10", "--json", places["f.json"], "--junit", places["f.xml"], "--github"]
    assert rewright([*arguments, "--report", places["f.md"], "--repro", str(tmp_path / "repro")]) == 1
    answer = json.loads(Path(places["f.json"]).read_text())
    causes = [finding["cause"] for finding in answer["findings"]]
    assert any("MeanOfConcat" in cause for cause in causes) and not any("Twice" in cause for cause in causes)
    assert "::error" in capsys.readouterr().out
    assert "<failure" in Path(places["f.xml"]).read_text() and "MeanOfConcat" in Path(places["f.md"]).read_text()
    assert list((tmp_path / "repro").glob("*.py"))


MINE = '''
import torch
from jaxtyping import Float
from torch import Tensor
from rewrites import Rule

class Twice(Rule):
    """The relu of a relu is the relu."""
    source = "idempotence"
    def pattern(a: Float[Tensor, "n"]):
        return torch.relu(torch.relu(a))
    def replacement(a):
        return torch.relu(a)

class MeanOfConcat(Rule):
    """The mean of a concatenation is the mean of the means."""
    source = "wrong unless the parts are of one size"
    def pattern(a: Float[Tensor, "n k"], b: Float[Tensor, "n m"]):
        return torch.cat([a, b], 1).mean(1)
    def replacement(a, b):
        return (a.mean(1) + b.mean(1)) / 2
'''


def test_a_given_model_is_fuzzed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("REWRIGHT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "own_model.py").write_text(
        "import torch\n\ndef make():\n    torch.manual_seed(0)\n"
        "    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))\n"
        "    return model.double().eval(), (torch.randn(2, 3, dtype=torch.float64),)\n"
    )
    assert rewright(["fuzz", f"{tmp_path / 'own_model.py'}:make", "--tasks", "2"]) == 0
    assert "nothing found in 2 examples" in capsys.readouterr().out
    assert rewright(["fuzz", f"{tmp_path / 'own_model.py'}:missing"]) == 2


def test_a_file_without_rules_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    assert rewright(["fuzz", str(tmp_path / "empty.py")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_reports_name_rules_that_never_fired() -> None:
    run = campaign.Campaign(0)
    run.fired.update({"A": 2})
    assert reporting.as_dict(run, ["A", "B"])["never_fired"] == ["B"]
    assert "Never applied: 1" in reporting.markdown_of(run, ["A", "B"])


def test_there_are_planted_faults_of_many_kinds() -> None:
    assert len(PATCHES) >= 40
    assert {path.stem.partition("_")[0] for path in PATCHES} >= {"operator", "matcher", "applier", "prover", "search", "emit", "capture"}


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_every_planted_fault_still_fits(patch: Path) -> None:
    assert planted.about(patch)
    assert planted.apply(patch, planted.ROOT, dry=True), f"{patch.name} no longer applies: make it anew"


def test_a_planted_fault_is_found(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("forkserver is not on Windows")
    with planted.tree_copy() as tree:
        outcome = planted.tried(next(path for path in PATCHES if path.stem == "capture_interface"), tree, 300, 0)
    assert outcome.found, outcome  # it ends at the first finding; how soon that is, benchmarks/planted.py measures


def test_a_result_that_needs_no_gradient_leaves_the_others_weights_alone() -> None:
    x = torch.ones(3, requires_grad=True)
    (one,) = gradients_of((x * 0, x), [x], seed=0)
    (other,) = gradients_of((torch.zeros(3), x), [x], seed=0)
    assert one is not None and other is not None and torch.equal(one, other)
