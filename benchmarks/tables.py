"""What the benchmarks of search and costs share: certificates, tables, the machine, and where results are written."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch

from rewright.certification import Certification
from rewright.verification import Request, verdict_of
from rewrites.rule import Rule

RESULTS = Path(__file__).parent / "results"


def certification() -> Certification:
    """Certificates from the store; rules that have none yet are verified when a result first uses them."""
    return Certification(lambda rule: verdict_of(rule, Request()))


def uncertified(rule: type[Rule]) -> str:
    """For trying a search out quickly; results without certificates are not written."""
    return f"none for {rule.__name__}"


def machine() -> str:
    """The machine in one line, with its load now."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, load when written {load}"


def processor_seconds() -> float:
    """Seconds of processor time so far, of this process and its ended children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def write(name: str, title: str, text: str) -> None:
    """Write results beside, then rename."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / name
    beside = path.with_suffix(".part")
    beside.write_text(f"# {title}\n\n{machine()}\n\n{text}\n")
    beside.replace(path)


Certified = Callable[[type[Rule]], str | None]
