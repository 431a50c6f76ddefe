"""A runtime with a clock of its own, so that what is measured in a test is the same on a busy machine as on an idle one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from costs.fragments import Fragment
from costs.kernels import POLICIES
from costs.runtimes import MeasuringError


class Simulated:
    """A kernel takes as long as `seconds_of` says, or is refused with its sentence; `prepared` names what was asked for."""

    name = "simulated"
    policy = POLICIES["none"]
    dispatches_views = False

    def __init__(self, seconds_of: Callable[[Fragment], float | str]) -> None:
        self.seconds_of = seconds_of
        self.prepared: list[str] = []
        self.now = 0.0

    def versions(self) -> Mapping[str, str]:
        return {"simulated": "1"}

    def prepare(self, fragment: Fragment, copies: int = 1) -> Callable[[], object]:
        self.prepared.append(str(fragment.steps[0].operator))
        seconds = self.seconds_of(fragment)
        if isinstance(seconds, str):
            raise MeasuringError(seconds)
        return lambda: self.pass_by(seconds)

    def pass_by(self, seconds: float) -> None:
        self.now += seconds

    def clock(self) -> Callable[[], float]:
        return lambda: self.now

    def idle(self) -> Callable[[], object]:
        return tuple
