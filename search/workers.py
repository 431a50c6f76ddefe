"""Windows searched in several processes at once; what comes out does not depend on how many there are.

Processes of our own are forked where that is possible: they inherit rules, prices and weights, and only the window's structure is sent.
Another executor (spawned processes, a cluster) is sent everything, so that its rules must be importable there.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

from rewrites.reverse import reverse
from rewrites.rule import Rule
from search.recipes import Recipe
from search.solving import Problem, Setting, solve

POLL = 0.1
"""Seconds between two looks at whether the search shall end."""


@dataclass
class _Heritage:
    """What forked processes take over from their parent."""

    setting: Setting
    constants: Mapping[str, Any]
    stop: Any
    parent: int


_inherited: dict[int, _Heritage] = {}
_tokens = itertools.count()


class Workers:
    """`with Workers(setting, constants, jobs) as workers:` then `workers.solve_all(problems, asked)`.

    constants: the tensors of the whole graph by name   jobs: processes; 1 is this one   executor: instead of processes of our own
    """

    def __init__(self, setting: Setting, constants: Mapping[str, Any], jobs: int = 1, executor: Executor | None = None) -> None:
        self.setting = setting
        self.constants = dict(constants)
        self.jobs = jobs
        self.executor = executor
        self._stack = ExitStack()
        self._token: int | None = None
        self._broken = False

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._token is not None:
            _inherited[self._token].stop.set()
        self._stack.close()
        if self._token is not None:
            del _inherited[self._token]

    @property
    def several(self) -> bool:
        """There are processes to share the work."""
        return not self._broken and (self.executor is not None or self.jobs > 1)

    @property
    def count(self) -> int:
        """How many windows are searched at a time."""
        return getattr(self.executor, "_max_workers", None) or self.jobs

    def solve_all(self, problems: Sequence[Problem], asked: Callable[[], bool]) -> Iterator[Recipe | None]:
        """The recipes in the order of the problems; None for those that were not begun when `asked` ended the search.

        What a process leaves undone that dies is done here, and so is all that comes later.
        """
        executor = self.executor or self._own()
        futures = [executor.submit(*self._task(problem)) for problem in problems]
        for problem, future in zip(problems, futures, strict=True):
            while not wait([future], POLL).done:
                if asked():
                    self._end(futures)
            try:
                yield None if future.cancelled() else future.result()
            except BrokenExecutor:
                self._broken = True
                yield None if asked() else solve(self.setting, problem, asked)

    def _end(self, futures: Sequence[Future[Recipe]]) -> None:
        for future in futures:
            future.cancel()
        if self._token is not None:
            _inherited[self._token].stop.set()

    def _task(self, problem: Problem) -> tuple[Any, ...]:
        if self._token is None:
            return (_solve_sent, [_name_of(rule) for rule in self.setting.rules], replace(self.setting, rules=()), problem)
        graph = problem.graph.copy()
        known = self.constants
        graph.constants = {name: None if known.get(name) is tensor else tensor for name, tensor in graph.constants.items()}
        return (_solve_inherited, self._token, replace(problem, graph=graph))

    def _own(self) -> Executor:
        """Our own processes: forked with what they need, or spawned where there is no fork."""
        if "fork" not in multiprocessing.get_all_start_methods():
            context = multiprocessing.get_context("spawn")
        else:
            context = multiprocessing.get_context("fork")  # type: ignore[assignment]
            self._token = next(_tokens)
            _inherited[self._token] = _Heritage(self.setting, self.constants, context.Event(), os.getpid())
        pool = ProcessPoolExecutor(self.jobs, mp_context=context, initializer=_begin, initargs=(os.getpid(),))
        self._stack.callback(end, pool)
        self.executor = pool
        return pool


def end(pool: ProcessPoolExecutor) -> None:
    """Shut a pool down although one of its processes may have been killed.

    A process that waits for work holds a lock; when it is killed at the very end, the others wait for that lock for ever, and the pool for
    them.
    """
    processes = list((pool._processes or {}).values())
    ending = threading.Thread(target=partial(pool.shutdown, cancel_futures=True), daemon=True)
    ending.start()
    while ending.is_alive():
        ending.join(POLL)
        if any(process.exitcode for process in processes):
            for process in processes:
                process.kill()


def _begin(parent: int) -> None:
    """A worker leaves Ctrl-C to its parent, uses one thread, and ends when the parent does."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    follow(parent)


def follow(parent: int) -> None:
    """End this process when the parent does, however that comes about: a pool's processes wait for work for ever."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _solve_inherited(token: int, problem: Problem) -> Recipe:
    heritage = _inherited[token]
    constants = problem.graph.constants
    problem.graph.constants = {name: heritage.constants[name] if tensor is None else tensor for name, tensor in constants.items()}
    return solve(heritage.setting, problem, heritage.stop.is_set)


def _solve_sent(names: Sequence[tuple[str, str, bool]], setting: Setting, problem: Problem) -> Recipe:
    return solve(replace(setting, rules=[_rule_named(*name) for name in names]), problem)


def _name_of(rule: type[Rule]) -> tuple[str, str, bool]:
    """Module, name, and whether the rule is read from right to left.

    Raises: ValueError for a rule that cannot be imported by these.
    """
    for name in ((rule.__module__, rule.__qualname__, False), (rule.__module__, rule.__name__.removesuffix("Reversed"), True)):
        try:
            if _rule_named(*name) is rule:
                return name
        except (ImportError, AttributeError):
            continue
    raise ValueError(f"search: a rule for another process must be importable, got {rule.__module__}.{rule.__qualname__}")


def _rule_named(module: str, name: str, reversed_: bool) -> type[Rule]:
    rule: type[Rule] = getattr(import_module(module), name)
    return reverse(rule) if reversed_ else rule


__all__ = ["Workers", "end", "follow"]
