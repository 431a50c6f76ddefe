"""Ctrl-C as a question that the search asks itself between two graphs, so that it never stops halfway through a change."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interruption:
    """`with Interruption() as interruption:` turns the first Ctrl-C into `interruption.asked`; a second one interrupts as usual.

    Outside the main thread, where Python delivers no signals, it is never asked.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None
        self._installed = False

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._ask)
            self._installed = True
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self._restore()

    def _restore(self) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._before)
            self._installed = False

    def __exit__(self, *exception: object) -> None:
        self._restore()
