"""What runs a model on this machine, as far as measuring needs it: a runtime takes a fragment and gives a call that runs it.

A further runtime is a class with the members of `Runtime`, entered in `RUNTIMES` by its name.
"""

from __future__ import annotations

import itertools
import os
import platform
import time
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Protocol

import torch
from torch.fx.graph import CodeGen

from costs.fragments import Fragment
from costs.kernels import POLICIES, Policy
from costs.timing import Call, Clock


class MeasuringError(RuntimeError):
    """A kernel that the runtime cannot run by itself; the message names it and says what the runtime says."""


class Runtime(Protocol):
    """What runs fragments of graphs.

    name: of the runtime, on the command line as well   policy: how it groups operators into kernels
    dispatches_views: a view takes time of its own, although it moves no data
    """

    name: str
    policy: Policy
    dispatches_views: bool

    def versions(self) -> Mapping[str, str]:
        """What measured times depend on besides the machine: versions, settings, threads."""
        ...

    def prepare(self, fragment: Fragment, copies: int = 1) -> Call:
        """A call that runs the fragment once on drawn tensors; gradients are switched off around it.

        copies: of the weights, which the calls take in turn so that caches do not hold them; a runtime may do with one
        Raises: MeasuringError.
        """
        ...

    def clock(self) -> Clock:
        """The clock that calls are timed by."""
        ...

    def idle(self) -> Call:
        """A call that does what every prepared call does besides running its fragment; its time is taken off."""
        ...


class Eager:
    """PyTorch's eager mode, as it runs the modules that `graphs.emit` writes: an operator after the other."""

    name = "eager"
    policy = POLICIES["none"]
    dispatches_views = True

    def versions(self) -> Mapping[str, str]:
        threads = torch.get_num_threads()
        return {"torch": torch.__version__, "threads": f"{threads}, waiting asleep" if threads > 1 and waits_asleep() else str(threads)}

    def prepare(self, fragment: Fragment, copies: int = 1) -> Call:
        module, inputs = _that_runs(fragment)
        if copies == 1:
            return partial(module.forward, *inputs)
        calls = itertools.cycle([partial(type(module).forward, owner, *inputs) for owner in _with_own_weights(module, copies)])
        return lambda: next(calls)()

    def clock(self) -> Clock:
        # One thread's own clock is the wall's on an idle machine, and right on a busy one. So is that of the thread that calls where the
        # others do equal shares beside it and it sleeps while it waits for them.
        return time.thread_time if torch.get_num_threads() == 1 or waits_asleep() else time.perf_counter

    def idle(self) -> Call:
        return tuple


def waits_asleep() -> bool:
    """Threads that wait for others take no time of their own: OpenMP was told so before the process began."""
    return os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE"


class Inductor:
    """torch.compile with TorchInductor, which fuses pointwise operators and reductions; preparing a fragment compiles it (seconds)."""

    name = "inductor"
    policy = POLICIES["inductor-like"]
    dispatches_views = False

    def versions(self) -> Mapping[str, str]:
        return {"torch": torch.__version__, "threads": str(torch.get_num_threads())}

    def prepare(self, fragment: Fragment, copies: int = 1) -> Call:
        module, inputs = _that_runs(fragment)
        call = partial(torch.compile(module, dynamic=False), *inputs)
        try:
            call()
        except Exception as error:  # Inductor and the C++ compiler raise whatever they like, and all of it means the same here.
            raise MeasuringError(f"inductor: {fragment} must compile, got {type(error).__name__}: {_first_line(error)}") from error
        return call

    def clock(self) -> Clock:
        return time.perf_counter

    def idle(self) -> Call:
        # What a compiled module does around its kernels (guards, the call itself), measured on one that has no kernel.
        return partial(torch.compile(_Nothing(), dynamic=False), torch.zeros(1))


class _Nothing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(1, 1)


RUNTIMES: dict[str, Callable[[], Runtime]] = {"eager": Eager, "inductor": Inductor}
"""Every runtime by name."""


class UnknownRuntimeError(ValueError):
    """A runtime without a definition; the message lists the names there are."""


def runtime(name: str | Runtime) -> Runtime:
    """The runtime of this name.

    Raises: UnknownRuntimeError naming the runtimes there are.
    """
    if not isinstance(name, str):
        return name
    if name not in RUNTIMES:
        raise UnknownRuntimeError(f"runtime: must be one of {', '.join(RUNTIMES)}, got {name}")
    return RUNTIMES[name]()


def _that_runs(fragment: Fragment) -> tuple[torch.fx.GraphModule, list[torch.Tensor]]:
    """The fragment as a module with inputs on which it runs: integers 0 and 1, or 0 alone where 1 is no index.

    Raises: MeasuringError.
    """
    raised: Exception | None = None
    for highest in (1, 0):
        module, inputs = emitted(fragment, highest), fragment.inputs(highest=highest)
        try:
            module.forward(*inputs)
        except (RuntimeError, LookupError, ValueError, TypeError) as error:
            raised = error
        else:
            return module, inputs
    raise MeasuringError(f"{fragment}: does not run by itself: {_first_line(raised)}") from raised


def _with_own_weights(module: torch.nn.Module, copies: int) -> list[torch.nn.Module]:
    """Modules without a forward, each with copies of the module's tensors under their names."""
    owners = [torch.nn.Module() for _ in range(copies)]
    for owner in owners:
        for name, tensor in module.named_buffers():
            owner.register_buffer(name, tensor.clone(memory_format=torch.preserve_format))
    return owners


def emitted(fragment: Fragment, highest: int = 1) -> torch.fx.GraphModule:
    """The fragment as emission writes it, without the checks and the packing of arguments that a whole model has once.

    Raises: MeasuringError.
    """
    from graphs.emit import EmitError, check_sizes, to_module

    try:
        module = to_module(fragment.graph(highest=highest))
    except EmitError as error:
        raise MeasuringError(f"{fragment}: cannot be run by itself: {error}") from error
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target is check_sizes:
            module.graph.erase_node(node)
    module.graph.set_codegen(CodeGen())
    module.recompile()
    return module


def _first_line(error: BaseException | None) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


@lru_cache(maxsize=1)
def processor() -> str:
    """The processor's name, family and model, with the number of cores this process may use."""
    fields: dict[str, str] = {}
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().split("\n\n")[0].splitlines():
            name, _, value = line.partition(":")
            fields[name.strip()] = value.strip()
    model = fields.get("model name") or platform.processor() or platform.machine()
    details = ", ".join(f"{name} {fields[name]}" for name in ("cpu family", "model", "stepping") if name in fields)
    return f"{model} ({details or platform.machine()}), {os.cpu_count()} cores"


def fingerprint(runtime: Runtime) -> str:
    """The machine and the runtime in one line: times measured under another one do not count."""
    return "; ".join([processor(), runtime.name, *(f"{name} {value}" for name, value in sorted(runtime.versions().items()))])
