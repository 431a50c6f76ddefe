"""MODEL arguments: every form loads, and every mistake is one sentence that says where it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from graphs.capture import capture
from graphs.emit import to_exported_program, to_module
from graphs.load import LoadError, load_model
from tests.graphs.roundtrip import assert_same

torch.set_num_threads(1)

SOURCE = """
import torch
from beside_it import SIZE

class Model(torch.nn.Module):
    example_inputs = (torch.ones(SIZE),)
    def forward(self, x):
        return x * 2

def pair():
    return Model(), (torch.zeros(SIZE),)

def named():
    return Model(), {"x": torch.zeros(SIZE)}

def alone():
    return torch.nn.ReLU()

def raises():
    raise RuntimeError("boom\\nand more")

def number():
    return 3

def odd_inputs():
    return Model(), 3

def needs(argument):
    return Model()

ready = Model()
CONSTANT = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "beside_it.py").write_text("SIZE = 3\n")
    (tmp_path / "models.py").write_text(SOURCE)
    (tmp_path / "syntax.py").write_text("def f(:\n")
    (tmp_path / "import_fails.py").write_text("x = 1\nimport nothing_of_this_name\n")
    (tmp_path / "empty.py").write_text("")
    return str(tmp_path / "models.py")


@pytest.mark.parametrize("factory", ["pair", "named", "Model", "ready"])
def test_a_file_with_a_factory_loads(file: str, factory: str) -> None:
    loaded = load_model(f"{file}:{factory}")
    emitted = to_module(loaded.capture())
    assert torch.equal(emitted(torch.ones(3)), torch.full((3,), 2.0))


def test_a_module_of_a_package_loads() -> None:
    loaded = load_model("examples.models.blocks:nasrnn")
    assert isinstance(loaded.module, nn.Module) and len(loaded.example_inputs) == 2


def test_an_exported_program_loads(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval()
    sizes = ({0: torch.export.Dim("rows", min=2)},)
    torch.export.save(to_exported_program(capture(module, (torch.randn(5, 3),), sizes)), tmp_path / "model.pt2")
    loaded = load_model(str(tmp_path / "model.pt2"))
    emitted = to_module(loaded.capture())
    x = torch.randn(7, 3)
    assert_same(module(x), emitted(x))
    assert_same(module(x), loaded.module(x))
    assert set(emitted.state_dict()) >= {"0.weight", "0.bias", "1.running_mean"}


MISTAKES = {
    "models": "MODEL must be file.py:factory, package.module:factory, a .pt2 or an .onnx file, got 'models'",
    "{folder}/absent.py:f": r"absent\.py: no such file",
    "{folder}/syntax.py:f": r"syntax\.py:1: invalid syntax",
    "{folder}/import_fails.py:f": r"import_fails\.py: importing it raises ModuleNotFoundError.*\(at .*import_fails\.py:2: import nothing",
    "{folder}/empty.py:f": r"empty\.py: has no f; it has no callable at all",
    "{folder}/models.py:absent": r"models\.py: has no absent; it has Model, pair, named, alone, raises",
    "{folder}/models.py:raises": r"models\.py:raises: the factory raises RuntimeError: boom \(at .*models\.py:20: raise",
    "{folder}/models.py:needs": r"models\.py:needs: the factory raises TypeError: needs\(\) missing",
    "{folder}/models.py:number": "must return an nn.Module, or a pair of it and its example inputs, got int",
    "{folder}/models.py:CONSTANT": "must be a callable that returns an nn.Module, got int",
    "{folder}/models.py:alone": "gives no example inputs; return a pair of the module and a tuple of them",
    "{folder}/models.py:odd_inputs": "example inputs must be a tuple of tensors or a dict of named ones, got int",
    "no.such.package:f": "no.such.package: no module of that name",
    "{folder}/absent.pt2": r"absent\.pt2: no such file",
    "{folder}/cut.pt2": r"cut\.pt2: no exported program: the file is not a zip archive, or is cut short",
    "{folder}/other.pt2": r"other\.pt2: no exported program that this torch can read: ",
}


@pytest.mark.parametrize("argument", MISTAKES)
def test_every_mistake_is_one_sentence(argument: str, file: str) -> None:
    folder = Path(file).parent
    torch.save({"a": torch.ones(2)}, folder / "other.pt2")
    (folder / "cut.pt2").write_bytes((folder / "other.pt2").read_bytes()[:200])
    with pytest.raises(LoadError, match=MISTAKES[argument]) as refusal:
        load_model(argument.format(folder=folder))
    assert "\n" not in str(refusal.value)


def test_random_weights_are_the_same_whenever_a_model_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "drawn.py").write_text("import torch\ndef pair():\n    return torch.nn.Linear(3, 2), (torch.zeros(1, 3),)\n")
    state = torch.random.get_rng_state()
    one, other = (load_model(f"{tmp_path / 'drawn.py'}:pair").module.state_dict() for _ in range(2))
    assert one and all(torch.equal(one[name], other[name]) for name in one)
    assert torch.equal(torch.random.get_rng_state(), state), "the caller's random numbers are left alone"
