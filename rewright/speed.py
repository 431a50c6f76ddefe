"""Whether an optimised module is faster on this machine: interleaved runs beside the module that came in, and a profile of both.

What costs promise is a model's word; a result is handed out only if the clock does not contradict it. On a machine that is not the one
optimised for, the clock says nothing, and that is said.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from costs.devices import Device
from costs.runtimes import processor
from costs.timing import Call, Clock, Comparison, interleaved

SECONDS = 4.0
"""About how long the two modules are timed; a module that takes longer than a fifth of this runs five times nevertheless."""
FEWEST, MOST = 5, 41
AS_FAST = 0.98
"""A result measured below this is no tie: it is timed again for longer, and slower unless that says otherwise."""
LONGER = 4

_Module = Callable[..., Any]


@dataclass(frozen=True)
class Speed:
    """The two modules' medians in one runtime.

    before, after: seconds   ratio: the median over rounds of before / after, 2.0 is twice as fast   low, high: the range in which the
    true median lies at 95 %   rounds: how often each ran   slower: by one part in a hundred beyond the noise, or by two
    """

    runtime: str
    machine: str
    before: float
    after: float
    ratio: float
    low: float
    high: float
    rounds: int
    slower: bool

    def as_dict(self) -> dict[str, Any]:
        """The figures by name."""
        return dict(self.__dict__)

    def __str__(self) -> str:
        times = f"{self.before * 1e3:.2f} -> {self.after * 1e3:.2f} ms, {self.rounds} rounds"
        return f"{self.ratio:.2f}x measured in {self.runtime} ({times}; {self.low:.2f} to {self.high:.2f} at 95 %)"


def why_not_here(device: Device, measured: bool, runtime: str | None, tensors: Sequence[torch.Tensor]) -> str:
    """Why timing on this machine says nothing of the device optimised for; empty when it does.

    measured: the objective is this machine's own time   runtime: named by the caller to run here afterwards
    """
    kinds = {tensor.device.type for tensor in tensors}
    if "meta" in kinds:
        return "the model has no data"
    if measured or runtime is not None or device.name.partition("-")[0] == "cpu":
        return "" if kinds <= {"cpu"} else f"the example inputs are on {', '.join(sorted(kinds))}"
    if kinds == {"cuda"}:
        here = torch.cuda.get_device_name(tensors[0].device)
        return "" if device.name.lower() in here.lower() else f"optimised for {device.name}, and this machine has {here}"
    return f"optimised for {device.name}, and the example inputs are on this machine's {', '.join(sorted(kinds)) or 'cpu'}"


def runner(module: Callable[..., Any], runtime: str) -> Callable[..., Any]:
    """The module as the runtime calls it; compilation happens at the first call."""
    if runtime == "eager":
        return module
    with torch._dynamo.config.patch(recompile_limit=64):
        return torch.compile(module, dynamic=False)


def compared(
    before: Callable[..., Any],
    after: Callable[..., Any],
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    runtime: str = "eager",
    seconds: float = SECONDS,
    clock: Clock = time.perf_counter,
) -> Speed:
    """Time both modules on the same inputs, in turn, for about so many seconds by this clock; for longer where that settles nothing."""
    calls: list[Call] = [partial(runner(module, runtime), *arguments, **named) for module in (before, after)]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = interleaved(calls, seconds, FEWEST, MOST, clock)
        found = Comparison.of(first, second)
        if found.ratio < AS_FAST and not found.is_slower:
            first, second = interleaved(calls, LONGER * seconds, LONGER * FEWEST, LONGER * MOST, clock)
            found = Comparison.of(first, second)
    machine = f"{processor()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    figures = (found.before, found.after, found.ratio, found.low, found.high)
    return Speed(runtime, machine, *figures, rounds=len(first.samples), slower=found.is_slower or found.ratio < AS_FAST)


class Dispatches(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what PyTorch dispatches in eager mode: operators that are no views, and the bytes of what they read and write."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kernels = 0
        self.bytes = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if not _moves_nothing(function):
            self.kernels += 1
            tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs, result)) if isinstance(leaf, torch.Tensor)]
            self.bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return result


def _moves_nothing(function: Any) -> bool:
    """The operator only takes memory, or returns a view of an operand that it does not write."""
    if function.overloadpacket.__name__.startswith("empty"):
        return True
    aliases = [returned.alias_info for returned in function._schema.returns]
    return function is torch.ops.aten._unsafe_view.default or any(alias is not None and not alias.is_write for alias in aliases)


def profiled(
    before: Callable[..., Any], after: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any], seconds: float = SECONDS
) -> dict[str, Any]:
    """Both modules in eager mode and under torch.compile: seconds, kernels and (in eager mode) the bytes that kernels read and write."""
    result: dict[str, Any] = {}
    for runtime, count in (("eager", _dispatched), ("inductor", _generated)):
        with torch.no_grad():
            counted = [count(module, arguments, named) for module in (before, after)]
        speed = compared(counted[0][0], counted[1][0], arguments, named, "eager", seconds)
        sides = [{"seconds": time, **found} for time, (_, found) in zip((speed.before, speed.after), counted, strict=True)]
        spread = {name: getattr(speed, name) for name in ("ratio", "low", "high", "rounds")}
        result[runtime] = {"before": sides[0], "after": sides[1], **spread}
    return result


def _dispatched(module: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[_Module, dict[str, int]]:
    with Dispatches() as dispatches:
        module(*arguments, **named)
    return module, {"kernels": dispatches.kernels, "bytes": dispatches.bytes}


def _generated(module: _Module, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[_Module, dict[str, int]]:
    """The compiled module; the calls of kernels that TorchInductor generates for it, and of kernels from libraries."""
    from torch._inductor.utils import run_and_get_code

    # A module of its own around it, so that compiling does not find what was compiled before.
    compiled = torch.compile(_Again(module), dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=64), torch._inductor.config.patch(force_disable_caches=True):
        _, sources = run_and_get_code(compiled, *arguments, **named)
    calls = [line.strip() for source in sources for line in source[source.find("def call") :].split("\ndef ")[0].splitlines()]
    fused = sum(bool(re.match(r"(\w+\s*=\s*)?(cpp|triton)_\w*\(|triton_\w+\.run\(", call)) for call in calls)
    library = sum(bool(re.match(r"(\w+\s*=\s*)?(extern_kernels|torch\.ops)\.", call)) for call in calls)
    return compiled, {"kernels": fused + library, "generated": fused, "library": library}


class _Again(torch.nn.Module):
    def __init__(self, inner: Callable[..., Any]) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *arguments: Any, **named: Any) -> Any:
        return self.inner(*arguments, **named)


__all__ = ["SECONDS", "Dispatches", "Speed", "compared", "profiled", "runner", "why_not_here"]
