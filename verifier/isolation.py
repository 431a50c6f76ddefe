"""Verifying rules that may misbehave: each in a process of its own, with limits on time and memory.

A rule that never ends, eats memory, kills its process or raises gets an `ERROR` verdict of one sentence within its time limit,
and the other rules get theirs.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from verifier.verdict import Status, Verdict

GIBIBYTE = 1 << 30
_GRACE_SECONDS = 5.0
_PRELOADED = ["torch", "z3", "hypothesis", "networkx", "jaxtyping", "verifier.verify", "rewrites.load"]


class TimeLimit(BaseException):
    """The hard time limit struck; not an `Exception`, so that a rule's own `except` does not swallow it."""


class IsolationError(RuntimeError):
    """What an isolated call came to when it gave no result: one sentence."""


@contextmanager
def time_limit(seconds: float) -> Iterator[list[float]]:
    """Raise TimeLimit in the block after so many seconds; only in the main thread, and only where the platform has timers.

    Gives a list of the times at which it struck: what the block raises afterwards, or computed, may be the strike's doing.
    """
    strikes: list[float] = []
    usable = (
        threading.current_thread() is threading.main_thread()
        and hasattr(signal, "setitimer")
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    )
    if not usable:
        yield strikes
        return

    def strike(number: int, frame: Any) -> None:
        strikes.append(time.monotonic())
        raise TimeLimit

    modes = _modes()
    before = signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.25)  # again and again: Python drops what is raised inside a finaliser or a callback
    try:
        yield strikes
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if strikes:
            _put_back(modes)


def _modes() -> tuple[int, int, bool]:
    """How many function modes and dispatch modes of PyTorch are in force, and whether gradients are recorded."""
    torch = sys.modules.get("torch")
    if torch is None:
        return 0, 0, True
    return torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack(), torch.is_grad_enabled()


def _put_back(modes: tuple[int, int, bool]) -> None:
    """Leave the modes that were entered since: a strike between a mode's entry and its block would leave it in force for good."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "is_grad_enabled"):
        return
    while torch._C._len_torch_function_stack() > modes[0]:
        torch._C._pop_torch_function_stack()
    while torch._C._len_torch_dispatch_stack() > modes[1]:
        torch._C._pop_torch_dispatch_stack(None)
    torch.set_grad_enabled(modes[2])


def isolated(function: Callable[..., Any], *arguments: Any, seconds: float, memory_bytes: int = 4 * GIBIBYTE) -> Any:
    """The function's result (plain data), computed in a process of its own.

    The function and its arguments must pickle by name. Raises: IsolationError when it takes longer, dies, or raises.
    """
    context = _context()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(sender, function, arguments, memory_bytes), daemon=True)
    with _may_have_children():
        process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise IsolationError(f"did not end within {seconds:g} s")
        try:
            kind, value = receiver.recv()
        except EOFError:
            process.join(_GRACE_SECONDS)
            raise IsolationError(_death(process.exitcode)) from None
    finally:
        receiver.close()
        if process.is_alive():
            process.kill()
        process.join(_GRACE_SECONDS)
    if kind == "error":
        raise IsolationError(value)
    return value


@contextmanager
def _may_have_children() -> Iterator[None]:
    """Let a daemonic process, such as a Dask worker, start one: what it starts is ended within its time limit."""
    configuration: dict[str, Any] = getattr(multiprocessing.current_process(), "_config", {})
    daemonic = configuration.pop("daemon", None)
    try:
        yield
    finally:
        if daemonic is not None:
            configuration["daemon"] = daemonic


def _context() -> Any:
    methods = multiprocessing.get_all_start_methods()
    if "forkserver" not in methods:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return f"its process was ended by {name}" + (" (out of memory, most likely)" if name == "SIGKILL" else "")
    return f"its process ended with status {code}"


def _serve(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...], memory_bytes: int) -> None:
    lift = _limit_memory(memory_bytes)
    try:
        answer = ("result", function(*arguments))
    except MemoryError:
        answer = ("error", "uses more memory than it may")
    except Exception as error:  # sent to the caller, who says it
        answer = ("error", f"{type(error).__name__}: {' '.join(str(error).split())}")
    lift()  # the answer itself needs some memory where the function has used up what there was
    sender.send(answer)
    sender.close()


def _limit_memory(memory_bytes: int) -> Callable[[], None]:
    """Limit the memory of this process; what lifts the limit again."""
    try:
        import resource
    except ImportError:  # not on this platform; the time limit still holds
        return lambda: None
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def rule_names(file: str, seconds: float = 60.0) -> list[str]:
    """The names of a file's rules, in its order; the file is run in a process of its own.

    Raises: IsolationError with one sentence.
    """
    return list(isolated(_names, file, seconds=seconds))


def _names(file: str) -> list[str]:
    from rewrites.load import load_rules

    return [rule.__name__ for rule in load_rules(file)]


def verify_file_rule(spec: str, options: dict[str, Any]) -> Verdict:
    """The verdict of one rule `FILE::RULE`, reached in a process of its own; `ERROR` when that process gives none.

    `options` are those of `verifier.verify.verify`, with `memory_bytes` and `store` (a path) besides.
    """
    given = dict(options)
    memory = given.pop("memory_bytes", 4 * GIBIBYTE)
    seconds = float(given.get("timeout", 60.0))
    name = spec.rpartition("::")[2]
    try:
        return Verdict.from_json(json.loads(isolated(_verdict, spec, given, seconds=seconds + _GRACE_SECONDS, memory_bytes=memory)))
    except IsolationError as error:
        return Verdict(name, Status.ERROR, str(error), seconds=seconds)


def _verdict(spec: str, options: dict[str, Any]) -> str:
    from rewrites.load import load_rules
    from verifier.store import Store
    from verifier.verify import verify

    (rule,) = load_rules(spec)
    path = options.pop("store", None)
    return verify(rule, store=Store(path) if path is not None else None, **options).dumps()


def verify_file_rules(specs: Sequence[str], options: dict[str, Any], jobs: int = 1, executor: Executor | None = None) -> Iterator[Verdict]:
    """The verdicts of many `FILE::RULE`s in the order given, each rule in a process of its own.

    `executor` may be any of `concurrent.futures` (or a cluster's); by default `jobs` rules are verified at a time.
    """
    if executor is not None:
        futures = [executor.submit(verify_file_rule, spec, options) for spec in specs]
        for spec, future in zip(specs, futures, strict=True):
            try:
                yield future.result()
            except Exception as error:  # the executor lost the task, for good: an error of this rule, and no other's
                sentence = f"where it was verified, {type(error).__name__}: {' '.join(str(error).split())}"
                yield Verdict(spec.rpartition("::")[2], Status.ERROR, sentence)
        return
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        yield from pool.map(verify_file_rule, specs, [options] * len(specs))


__all__ = ["GIBIBYTE", "IsolationError", "TimeLimit", "isolated", "rule_names", "time_limit", "verify_file_rule", "verify_file_rules"]
