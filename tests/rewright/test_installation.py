"""A file beside the user's script that shadows a package of the distribution is named, not imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rewright.installation import SIBLINGS, check_siblings

ROOT = Path(__file__).resolve().parent.parent.parent


def run_beside(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    (folder / "user_script.py").write_text(script)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "user_script.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", SIBLINGS)
def test_a_module_of_the_same_name_is_an_import_error_that_names_it(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("print('the wrong module ran')\n")
    answer = run_beside(tmp_path, "import rewright\n")
    assert answer.returncode == 1
    last = answer.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: rewright: its package")
    assert str(tmp_path / f"{name}.py") in last
    assert "the wrong module ran" not in answer.stdout


def test_a_package_of_the_same_name_that_is_loaded_already(tmp_path: Path) -> None:
    (tmp_path / "costs").mkdir()
    (tmp_path / "costs" / "__init__.py").write_text("")
    answer = run_beside(tmp_path, "import costs\nimport rewright\n")
    assert answer.returncode == 1
    assert str(tmp_path / "costs" / "__init__.py") in answer.stderr


def test_a_plain_folder_of_the_same_name_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "notes.txt").write_text("mine")
    answer = run_beside(tmp_path, "import rewright\nprint(rewright.__version__)\n")
    assert (answer.returncode, answer.stderr) == (0, "")


def test_pytest_runs_where_a_project_has_modules_of_these_names(tmp_path: Path) -> None:
    (tmp_path / "graphs.py").write_text("mine = 1\n")
    (tmp_path / "rule_file.py").write_text("")
    (tmp_path / "test_mine.py").write_text("def test_mine():\n    import graphs\n    assert graphs.mine == 1\n")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    options: dict[str, Any] = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "timeout": 60}
    answer = subprocess.run([*command, "test_mine.py"], **options)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    answer = subprocess.run([*command, "-p", "rewright.pytest_plugin", "rule_file.py"], **options)
    assert answer.returncode != 0
    assert "its package `graphs` must come from" in answer.stdout


def test_a_missing_package_says_so() -> None:
    with pytest.raises(ImportError, match=r"its package `no_such_package` must lie in .* but is missing"):
        check_siblings(("no_such_package",))
