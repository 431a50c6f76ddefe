"""Progress where nothing can be drawn."""

from __future__ import annotations

import time

import pytest

from rewright.cli.console import EveryMinute, messages, progress, status


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which every look is 25 seconds after the last."""
    looks = iter(range(0, 10**6, 25))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(looks)))


def test_a_line_a_minute(minutes: None, capsys: pytest.CaptureFixture[str]) -> None:
    say = EveryMinute(messages())
    for number in range(1, 8):
        say(f"step {number}")
    assert capsys.readouterr().err.splitlines() == ["0:01:15 step 3", "0:02:30 step 6"]


def test_a_bar_off_a_terminal_is_a_line_a_minute(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EveryMinute, "__init__", lambda self, console: vars(self).update(console=console, seconds=0.0, begun=0.0, last=0.0))
    monkeypatch.setattr(time, "monotonic", lambda: 61.0)
    with progress() as bar:
        task = bar.add_task("verified", total=3)
        bar.update(task, advance=1, description="verified [bold]Law[/bold]")
    assert capsys.readouterr().err.splitlines() == ["0:01:01 verified [bold]Law[/bold] (1 of 3)"]


def test_short_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with status("searching") as say:
        say("searching: 1 of 2 s")
    with progress() as bar:
        bar.update(bar.add_task("verified", total=1), advance=1)
    assert capsys.readouterr().err == ""
