"""The command line: exit statuses, one-line errors, whole output files, escaped names."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from rewright.cli.main import run

RULES = '''
import torch
from jaxtyping import Float
from torch import Tensor
from rewrites import Equality, Requires, Rule


class DoubleNegation(Rule):
    """The negation of the negation of x is x."""

    source = "a group's inverses"
    equality = Equality.BITWISE

    def pattern(x: Float[Tensor, "m n"]):
        return -(-x)

    def replacement(x):
        return x * 1.0


class SubtractionCommutes(Rule):
    """Subtraction commutes."""

    source = "wishful thinking"

    def pattern(x: Float[Tensor, "m n"], y: Float[Tensor, "m n"]):
        return x - y

    def replacement(x, y):
        return y - x
'''

HEAD = RULES[: RULES.index("class DoubleNegation")]
SIDES = """
    def pattern(x: Float[Tensor, "n"]): return x

    def replacement(x): return x
"""


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.py").write_text(RULES)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that the command says on its way out with status 2."""
    assert run(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def test_every_output_of_a_verification(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = ["--json", "out.json", "--junit", "out.xml", "--markdown", "out.md", "--github", "--repro", "scripts"]
    assert run(["verify", "rules.py", "--examples", "20", *outputs]) == 1
    written = json.loads((tmp_path / "out.json").read_text())["rules"]
    assert [(rule["name"], rule["status"]) for rule in written] == [("DoubleNegation", "PROVED"), ("SubtractionCommutes", "REFUTED")]
    assert {"scope", "equality", "effects", "gradients", "seconds", "counterexample", "reason"} <= set(written[0])
    assert written[0]["counterexample"] is None
    assert written[1]["counterexample"]["sizes"] == {"m": 1, "n": 1}
    assert ElementTree.parse(tmp_path / "out.xml").getroot().get("failures") == "1"
    assert "| SubtractionCommutes | REFUTED |" in (tmp_path / "out.md").read_text()
    assert [path.name for path in (tmp_path / "scripts").iterdir()] == ["SubtractionCommutes.py"]
    out = capsys.readouterr().out
    line = 1 + RULES.splitlines().index("class SubtractionCommutes(Rule):")
    assert f"::error file=rules.py,line={line},title=SubtractionCommutes::REFUTED" in out
    assert "the replacement computes:" in out
    assert "\nreproduce: python scripts/SubtractionCommutes.py\n" in out, "the script is in its file, not on the terminal"


def test_scripts_of_rules_of_one_name_are_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "more.py").write_text(RULES)
    assert run(["verify", "rules.py::SubtractionCommutes", "more.py::SubtractionCommutes", "--examples", "20", "--repro", "scripts"]) == 1
    assert sorted(path.name for path in (tmp_path / "scripts").iterdir()) == ["SubtractionCommutes.py", "SubtractionCommutes_2.py"]


def test_json_on_standard_output_is_alone_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "rules.py::DoubleNegation", "--examples", "20", "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert [rule["name"] for rule in json.loads(captured.out)["rules"]] == ["DoubleNegation"]
    assert "DoubleNegation" in captured.err


def test_a_stored_verdict_answers_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["verify", "rules.py::DoubleNegation", "--examples", "20"]) == 0

    def unreachable(*arguments: object, **options: object) -> None:
        raise AssertionError("verified again")

    monkeypatch.setattr("verifier.isolation.isolated", unreachable)
    assert run(["verify", "rules.py::DoubleNegation", "--examples", "20"]) == 0


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("", "holds no class derived from rewrites.Rule"),
        ("def f(:\n", "bad.py:1: does not parse: invalid syntax"),
        ("\n1 / 0\n", "bad.py:2: raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_rule_file_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, expected: str) -> None:
    (tmp_path / "bad.py").write_text(file)
    assert expected in refused(capsys, "verify", "bad.py")


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        ("class Law(Rule):\n    source = 'here'" + SIDES, "a rule needs a docstring that states its law in one sentence"),
        ("class Law(Rule):\n    'x is x.'" + SIDES, "a rule needs a `source`"),
        (
            "class Law(Rule):\n    'x is x.'\n    source = 'here'" + SIDES.replace("replacement(x)", "replacement(y)"),
            "pattern and replacement must have the same parameters, got (x) and (y)",
        ),
        ("Law = (lambda x: x, lambda x, y: x, [torch.ones(2)])\n", "example inputs must be one for each argument"),
    ],
)
def test_what_makes_no_rule_is_an_error_of_its_own(tmp_path: Path, law: str, expected: str) -> None:
    text = RULES + "\n\n" + law
    (tmp_path / "bad.py").write_text(text)
    assert run(["verify", "bad.py", "--examples", "20", "--json", "out.json"]) == 1
    verdicts = {rule["name"]: rule for rule in json.loads((tmp_path / "out.json").read_text())["rules"]}
    assert {name: verdict["status"] for name, verdict in verdicts.items()} == {
        "DoubleNegation": "PROVED",
        "SubtractionCommutes": "REFUTED",
        "Law": "ERROR",
    }
    reason, line = verdicts["Law"]["reason"], 1 + text.splitlines().index(law.splitlines()[0])
    assert reason.startswith(expected) and reason.endswith(f"(bad.py, line {line})")
    assert run(["verify", "bad.py::Law"]) == 2
    assert run(["verify", "bad.py::DoubleNegation", "--examples", "20"]) == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["verify", "missing.py"], "missing.py: no such file"),
        (["verify", "rules.py::Nothing"], "rules.py: has no rule Nothing; it has DoubleNegation, SubtractionCommutes"),
        (["verify", "rules.py", "--examples", "0"], "--examples"),
        (["verify", "rules.py", "--no-such-option"], "--no-such-option"),
        (["nothing"], "nothing"),
        (["optimize"], "MODEL"),
        (["optimize", "model"], "MODEL must be file.py:factory"),
        (["optimize", "missing.py:factory"], "missing.py: no such file"),
        (["optimize", "missing_package.module:factory"], "no module of that name"),
        (["optimize", "model.py:factory", "-o", "model.txt"], "must end in .pt2"),
        (["optimize", "model.py:factory", "--report", "missing/report.html"], "there is no folder missing"),
        (["rules", "Nothing"], "the library has no rule Nothing"),
        (["rules", "--family", "nothing"], "--family nothing: must be one of"),
    ],
)
def test_a_command_that_cannot_be_obeyed(capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str) -> None:
    assert expected in refused(capsys, *arguments)


MODELS = """
import torch
from torch import nn


class Branching(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


def branching():
    return Branching(), (torch.ones(3, 4),)


def small():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU())
    return layers.eval(), (torch.randn(2, 2, 5, 5),)


def without_inputs():
    return nn.ReLU()


def raising():
    raise RuntimeError("no weights here")


def number():
    return 7
"""


@pytest.mark.parametrize(
    ("factory", "options", "expected"),
    [
        ("nothing", [], "models.py: has no nothing"),
        ("raising", [], "the factory raises RuntimeError: no weights here (at "),
        ("number", [], "must return an nn.Module"),
        ("without_inputs", [], "gives no example inputs"),
        ("branching", [], "Branching: torch.export refuses it: "),
        ("small", ["--device", "abacus"], "device: must be one of"),
        ("small", ["--objective", "beauty"], "objective: must be among"),
        ("small", ["--kernels", "magic"], "kernels: must be one of"),
    ],
)
def test_a_model_that_cannot_be_used(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], factory: str, options: list[str], expected: str
) -> None:
    (tmp_path / "models.py").write_text(MODELS)
    assert run(["optimize", f"models.py:{factory}", *options]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert expected in line
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix) == ["models.py", "rules.py"]


def test_a_model_is_shown_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "models.py").write_text(MODELS)
    assert run(["show", "models.py:small", "--svg", "graph.svg", "--json", "graph.json"]) == 0
    written = json.loads((tmp_path / "graph.json").read_text())
    assert written["operators"] == {"Conv2d": 1, "BatchNorm": 1, "Relu": 1}
    assert (written["opaque"], written["parameters"], written["kernels"]) == (0, 2 * 3 * 9 + 4 * 3, 2)
    assert ElementTree.parse(tmp_path / "graph.svg").getroot().tag.endswith("svg")
    assert "3 operators (0 opaque)" in capsys.readouterr().out


def test_an_optimised_model_is_written_and_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "models.py").write_text(MODELS)
    options = ["--kernels", "none", "--budget", "5", "-o", "small.pt2", "--report", "small.html", "--json", "small.json"]
    assert run(["optimize", "models.py:small", *options]) == 0
    written = json.loads((tmp_path / "small.json").read_text())
    assert "FoldBatchNormIntoConvolution" in [step["rule"] for step in written["steps"]]
    assert written["after"]["kernels"] < written["before"]["kernels"]
    assert written["max_error"]["float64"] <= 1e-10
    assert "FoldBatchNormIntoConvolution" in (tmp_path / "small.html").read_text()
    assert "written: small.pt2\n" in capsys.readouterr().out
    assert run(["show", "small.pt2", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"] == written["after"]["kernels"]
    assert run(["optimize", "small.pt2", "--kernels", "none", "--budget", "5", "-o", "again.pt2"]) == 0
    assert "written: again.pt2, the model as it came in\n" in capsys.readouterr().out


def test_a_damaged_store_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "certificates.sqlite").write_text("this is no database, and long enough to be read as one" * 100)
    assert "certificates.sqlite is damaged" in refused(capsys, "verify", "rules.py::DoubleNegation")


def test_an_output_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "rules.py::DoubleNegation", "--examples", "20", "--json", "missing/out.json"]) == 2
    told = capsys.readouterr()
    assert "missing/out.json: cannot be written: there is no folder missing" in told.err
    assert not told.out, "it is said before the work, not after"


def test_a_rule_that_dies_keeps_no_other_from_its_verdict(tmp_path: Path) -> None:
    dying = "\n\nclass Dying(Rule):\n    'x is x.'\n    source = 'here'\n    def pattern(x: Float[Tensor, 'n']): return x + 0\n"
    (tmp_path / "rules.py").write_text(RULES + "import os\n" + dying + "    def replacement(x): os._exit(7)\n")
    assert run(["verify", "rules.py", "--examples", "20", "--json", "out.json"]) == 1
    written = json.loads((tmp_path / "out.json").read_text())["rules"]
    assert [rule["status"] for rule in written] == ["PROVED", "REFUTED", "ERROR"]
    assert "status 7" in written[2]["reason"]


def test_names_are_not_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.py").write_text(RULES.replace("Subtraction commutes.", "[bold red]Subtraction[/] commutes :smile: [/nothing]"))
    assert run(["verify", "rules.py::SubtractionCommutes", "--examples", "20"]) == 1
    assert "[bold red]Subtraction[/] commutes :smile: [/nothing]" in capsys.readouterr().out


def test_the_library_is_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "EnlargeKernels", "--json", "-"]) == 0
    (rule,) = json.loads(capsys.readouterr().out)["rules"]
    assert (rule["name"], rule["family"], rule["status"]) == ("EnlargeKernels", "convolution", None)
    assert run(["rules", "EnlargeKernels"]) == 0
    assert "def replacement(" in capsys.readouterr().out


def test_no_command_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    out = capsys.readouterr().out
    assert all(command in out for command in ("verify", "optimize", "rules"))
    assert run(["--version"]) == 0
