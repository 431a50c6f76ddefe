"""The packages import one another in one direction only, and `import rewright` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "operators": set(),
    "graphs": {"operators"},
    "rewrites": {"operators", "graphs"},
    "verifier": {"operators", "graphs", "rewrites"},
    "costs": {"operators", "graphs"},
    "search": {"operators", "graphs", "rewrites", "verifier", "costs"},
    "rewright": {"operators", "graphs", "rewrites", "verifier", "costs", "search"},
}
HEAVY = ("torch", "z3", "hypothesis", "numpy", "networkx", "jaxtyping", "onnx")


def imported(source: str) -> Iterator[tuple[int, str]]:
    """The line and top-level package of every import, inside functions as well."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.split(".")[0]


def wrong_imports(package: str, source: str) -> list[tuple[int, str]]:
    forbidden = set(MAY_IMPORT) - MAY_IMPORT[package] - {package}
    return [(line, name) for line, name in imported(source) if name in forbidden]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_run_one_way(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files, f"{package} has no files"
    wrong = [f"{file.relative_to(ROOT)}:{line} imports {name}" for file in files for line, name in wrong_imports(package, file.read_text())]
    assert wrong == []


def test_the_check_itself_finds_a_wrong_import() -> None:
    assert wrong_imports("operators", "def f():\n    from graphs.graph import Graph\n") == [(2, "graphs")]
    assert wrong_imports("costs", "import os\nimport rewrites.match\n") == [(2, "rewrites")]
    assert wrong_imports("rewright", "import search.engine, operators\nfrom . import cli\n") == []


def test_tests_and_examples_are_not_imported_by_the_packages() -> None:
    for package in MAY_IMPORT:
        for file in sorted((ROOT / package).rglob("*.py")):
            names = {name for _, name in imported(file.read_text())}
            assert not names & {"tests", "examples", "benchmarks"}, file


@pytest.mark.parametrize("statement", ["import rewright", "import rewright.__main__", "import rewright.pytest_plugin"])
def test_importing_the_face_loads_nothing_heavy(statement: str) -> None:
    code = f"import sys; {statement}; print([name for name in {HEAVY!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.strip() == "[]"
