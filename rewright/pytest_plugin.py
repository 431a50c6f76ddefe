"""A pytest plugin: every rewrite rule in a file is a test that passes when the verifier finds it right.

Opt in by `rewright_rules = rules/*.py` in pytest's configuration (paths or patterns relative to it), or run
`pytest -p rewright.pytest_plugin rules.py`. Rule files are Python code and run when they are collected.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rewright.installation import check_siblings

if TYPE_CHECKING:
    from rewright.verification import Target

NAME = "rewright.pytest_plugin"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rewright", "verify rewrite rules")
    group.addoption("--rewright-require-proof", action="store_true", help="a rule must be proved for all sizes; tests alone do not do")
    group.addoption("--rewright-examples", type=int, metavar="N", help="how many random examples each rule is tested on")
    group.addoption("--rewright-timeout", type=float, metavar="S", help="how many seconds each rule may take")
    parser.addini("rewright_rules", "files with rewrite rules: paths or patterns, relative to this file", type="args", default=[])


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> RuleFile | None:
    if file_path.suffix == ".py" and _holds_rules(file_path, parent):
        return RuleFile.from_parent(parent, path=file_path)
    return None


def _holds_rules(path: Path, parent: pytest.Collector) -> bool:
    config = parent.config
    home = config.inipath.parent if config.inipath else config.rootpath
    if path.is_relative_to(home) and any(path == home / p or path.relative_to(home).match(p) for p in config.getini("rewright_rules")):
        return True
    if NAME not in (config.getoption("plugins", []) or []):
        return False
    return bool(parent.session.isinitpath(path))


class RuleFile(pytest.File):
    """A Python file whose rules are test items."""

    def collect(self) -> Iterable[RuleItem]:
        try:
            check_siblings()
        except ImportError as error:
            raise self.CollectError(str(error)) from error
        from rewright.verification import targets_of
        from rewrites.load import RuleFileError

        try:
            targets = targets_of([str(self.path)])
        except RuleFileError as error:
            raise self.CollectError(str(error)) from error
        for target in targets:
            yield RuleItem.from_parent(self, name=target.spec.rpartition("::")[2], target=target)


class RuleItem(pytest.Item):
    """One rule; it passes when its verdict does."""

    def __init__(self, *, target: Target, **options: Any) -> None:
        super().__init__(**options)
        self.target = target
        self.add_marker("rewright")

    def runtest(self) -> None:
        from rewright.verification import Request, entry_of, entry_of_misdefined, verdict_of, with_suggestion
        from rewrites.load import Misdefined

        config = self.config
        request = Request().changed(
            examples=config.getoption("rewright_examples"),
            timeout=config.getoption("rewright_timeout"),
        )
        rule = self.target.rule
        entry = entry_of_misdefined(rule) if isinstance(rule, Misdefined) else entry_of(rule, verdict_of(rule, request))
        entry = with_suggestion(entry, self.target, request)
        if problem := entry.problem(config.getoption("rewright_require_proof")):
            raise RuleDoesNotHold(problem, entry.text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, RuleDoesNotHold):
            return "\n\n".join(excinfo.value.args)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        from rewright.verification import place_of
        from rewrites.load import Misdefined

        rule = self.target.rule
        line = rule.line if isinstance(rule, Misdefined) else place_of(rule)[1]
        return self.path, line - 1, f"rule {self.name}"


class RuleDoesNotHold(Exception):
    """A verdict that fails a test: the problem in one line, and the verdict in full."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "rewright: a rewrite rule, verified")
