"""Certificates: found again for exactly the same rule and versions; safe under other processes, kills and damage."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from jaxtyping import Float
from torch import Tensor

from rewrites import Rule
from verifier.store import Store, StoreError, default_path
from verifier.verdict import OUT_OF_TIME, Status, Verdict
from verifier.verify import verify
from verifier.versions import versions

_ROOT = Path(__file__).resolve().parents[2]


class Doubled(Rule):
    """x + x = 2x."""

    source = "arithmetic"

    def pattern(x: Float[Tensor, "n"]):
        return x + x

    def replacement(x):
        return 2 * x


class DoubledWrongly(Rule):
    """x + x = 3x."""

    source = "a mistake"

    def pattern(x: Float[Tensor, "n"]):
        return x + x

    def replacement(x):
        return 3 * x


def verdict_for(rule: type[Rule], status: Status = Status.PROVED) -> Verdict:
    return Verdict(rule.__name__, status, content=rule.content(), versions=versions(), examples=100)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "certificates.sqlite")


def test_a_verdict_is_kept_and_answers_the_second_time(store: Store) -> None:
    first = verify(Doubled, examples=20, store=store)
    started = time.monotonic()
    second = verify(Doubled, examples=20, store=store)
    assert time.monotonic() - started < 0.5
    assert second.dumps() == first.dumps()


def test_more_examples_or_another_seed_are_not_answered_by_fewer(store: Store) -> None:
    store.keep(Doubled, verdict_for(Doubled), {"examples": 50, "seed": 1})
    assert store.find(Doubled, {"examples": 40, "seed": 1}) is not None
    assert store.find(Doubled, {"examples": 60, "seed": 1}) is None
    assert store.find(Doubled, {"examples": 40, "seed": 2}) is None


def test_only_for_exactly_this_content(store: Store) -> None:
    store.keep(Doubled, verdict_for(Doubled), {"examples": 50, "seed": 0})
    assert store.certificate(Doubled) is not None
    assert store.certificate(DoubledWrongly) is None


def test_other_versions_invalidate(store: Store) -> None:
    for name in versions():
        old = replace(verdict_for(Doubled), versions=versions() | {name: "another"})
        store.keep(Doubled, old, {"examples": 50, "seed": 0})
        assert store.certificate(Doubled) is None, name
    old = replace(verdict_for(Doubled), versions=versions() | {"operators.linear": "another"})
    store.keep(Doubled, old, {"examples": 50, "seed": 0})
    assert store.certificate(Doubled) is None


def test_a_verdict_notes_the_operators_it_stands_on() -> None:
    assert "operators.arithmetic" in verify(Doubled, examples=10).versions


@pytest.mark.parametrize("status", [Status.REFUTED, Status.UNDECIDED, Status.TRIVIAL, Status.VACUOUS])
def test_what_does_not_hold_is_no_certificate(store: Store, status: Status) -> None:
    store.keep(Doubled, verdict_for(Doubled, status), {"examples": 50, "seed": 0})
    assert store.certificate(Doubled) is None


def test_an_error_is_not_kept(store: Store) -> None:
    class Raises(Rule):
        """x = x, but it raises."""

        source = "a mistake"

        def pattern(x: Float[Tensor, "n"]):
            raise ValueError("no")

        def replacement(x):
            return None

    assert verify(Raises, examples=5, store=store).status is Status.ERROR
    assert len(store) == 0


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "certificates.sqlite"
    path.write_bytes(b"this is no database, and it is long enough to be read as one" * 20)
    with pytest.raises(StoreError, match=r"is damaged .*remove it"):
        Store(path).certificate(Doubled)


def test_a_folder_in_its_place_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be used"):
        Store(tmp_path).certificate(Doubled)


def test_a_locked_file_is_one_sentence(store: Store) -> None:
    store.keep(Doubled, verdict_for(Doubled), {"examples": 50, "seed": 0})
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        impatient = Store(store.path, wait_seconds=0.2)
        with pytest.raises(StoreError, match="locked by another process"):
            impatient.keep(Doubled, verdict_for(Doubled), {"examples": 50, "seed": 0})
    finally:
        other.execute("ROLLBACK")
        other.close()


_WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from types import SimpleNamespace
from verifier.store import Store
from verifier.verdict import Status, Verdict
store = Store(sys.argv[2])
print("ready", flush=True)
for number in range(int(sys.argv[4])):
    content = f"{sys.argv[3]}-{number}"
    rule = SimpleNamespace(content=lambda content=content: content, __name__="Some")
    store.keep(rule, Verdict("Some", Status.PROVED, content=content, reason="x" * 2000), {"examples": 1, "seed": 0})
"""


def _writer(store: Store, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(_ROOT), str(store.path), name, str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_several_processes_write_at_once(store: Store) -> None:
    writers = [_writer(store, f"writer{number}", 30) for number in range(3)]
    assert all(writer.wait(timeout=200) == 0 for writer in writers)
    assert len(store) == 90


def test_a_killed_writer_loses_nothing_that_was_written(store: Store) -> None:
    writer = _writer(store, "killed", 100_000)
    assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    seen = 0
    while seen < 20:
        time.sleep(0.05)
        seen = len(store)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert len(store) >= seen
    store.keep(Doubled, verdict_for(Doubled), {"examples": 50, "seed": 0})
    assert store.certificate(Doubled) is not None
    with sqlite3.connect(store.path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_where_the_store_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REWRIGHT_CACHE", str(tmp_path))
    assert default_path() == tmp_path / "certificates.sqlite"
    monkeypatch.delenv("REWRIGHT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_path() == tmp_path / "cache" / "rewright" / "certificates.sqlite"


def test_a_verdict_that_more_time_might_better_is_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "certificates.sqlite")
    verdict = Verdict("Doubled", Status.TESTED, reason=f"Z3 {OUT_OF_TIME} on the shapes", content=Doubled.content())
    store.keep(Doubled, verdict, {"examples": 20, "seed": 0})
    assert verdict.cut_short and len(store) == 0
    store.keep(Doubled, replace(verdict, reason="no proof"), {"examples": 20, "seed": 0})
    assert len(store) == 1
