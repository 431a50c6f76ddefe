"""Verifying, discovering and fuzzing on a Dask cluster: a worker that dies takes no verdict with it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rewright.cli.main import run as rewright
from rewright.executors import ClusterError, executor
from rewright.fuzzing import campaign
from rewright.fuzzing.finding import Subject
from rewright.verification import Request, targets_of, verify_all

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")

RULE = '''
class Rule{number}(Rule):
    """The relu of a relu is the relu, shifted by {number}."""
    source = "idempotence"
    def pattern(a: Float[Tensor, "n"]):
        return torch.relu(torch.relu(a)) + {number}
    def replacement(a):
        return torch.relu(a) + {value}
'''
WRONG = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 5}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as made,
    ):
        yield made


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWRIGHT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    head = "import torch\nfrom jaxtyping import Float\nfrom torch import Tensor\nfrom rewrites import Rule\n"
    body = "".join(RULE.format(number=number, value=number + (number == WRONG)) for number in range(1, 7))
    (tmp_path / "rules.py").write_text(head + body)
    return tmp_path / "rules.py"


def kill_a_worker(cluster: Any) -> None:
    os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)


def test_a_killed_worker_loses_no_verdict(cluster: Any, rules: Path) -> None:
    targets = targets_of([str(rules)])
    statuses = []
    with executor(cluster=cluster.scheduler_address) as where:
        for entry in verify_all(targets, Request(examples=5), executor=where):
            if not statuses:
                kill_a_worker(cluster)
            statuses.append((entry.name, entry.status))
    assert statuses == [(f"Rule{number}", "REFUTED" if number == WRONG else "PROVED") for number in range(1, 7)]
    started = time.monotonic()
    again = [entry.status for entry in verify_all(targets, Request(examples=5))]
    assert again.count("PROVED") == 5 and time.monotonic() - started < 5, "the verdicts were stored here"


def test_fuzzing_on_a_cluster_does_what_it_does_here(cluster: Any, tmp_path: Path) -> None:
    subjects = [Subject("operator", name) for name in ("Relu", "Add", "MatMul")]
    here = campaign.run(subjects, 60, 3, database=str(tmp_path / "a"), most_tasks=6)
    with executor(cluster=cluster.scheduler_address) as where:
        there = campaign.run(subjects, 60, 3, database=str(tmp_path / "b"), most_tasks=6, executor=where, jobs=2)
    assert (there.tasks, there.examples, there.findings) == (here.tasks, here.examples, here.findings) == (6, here.examples, [])


def test_the_command_line_takes_an_address(cluster: Any, rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rewright(["verify", f"{rules}::Rule1", "--examples", "5", "--cluster", cluster.scheduler_address]) == 0
    assert "PROVED" in capsys.readouterr().out
    found = ["discover", "--operators", "relu", "--max-ops", "2", "--cluster", cluster.scheduler_address]
    assert rewright(found) == 0


def test_an_address_where_nobody_answers_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ClusterError, match="no Dask scheduler answers there"), executor(cluster="tcp://127.0.0.1:9"):
        pass
