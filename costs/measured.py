"""Measured costs: each distinct kernel of a graph runs on this machine, and its median time is kept for the next graph that has it.

    seconds of a graph = Σ over its kernels of the kernel's median, and in a runtime that dispatches views, of theirs

Arithmetic, bytes and peak memory are counted as for the roofline. Times are kept in `measurements.sqlite` in the cache folder, under the
machine's fingerprint (processor, threads, versions); a kernel is the same kernel when operators, attributes, types and layouts are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from costs.devices import Device
from costs.fragments import Fragment, Fragments
from costs.kernels import Grouping, Policy
from costs.roofline import Cost, Roofline
from costs.runtimes import MeasuringError, Runtime, fingerprint, runtime
from costs.timing import Call, Timing, interleaved
from graphs.database import Database, cache_folder
from graphs.graph import Graph
from operators.operator import TensorType

SECONDS_FOR_A_KERNEL = 0.03
"""About how long one kernel is measured (at least three runs, however long they take)."""
DISTURBED = 1.25
"""How many times its shortest sample a median may be without another try."""
CACHE_BYTES = 64e6
"""Weights are taken from copies of this size in turn, so that they come from memory as they do in a model larger than the caches."""
MOST_PENDING = 50
"""Kernels measured between two writes to the store."""
MOST_COPIES = 64
MOST_AT_ONCE, BATCH_BYTES = 24, 1e9
"""How many kernels are measured in turn, and about how large their tensors may be together."""
SMALL_BYTES = 16e3
"""Weights below this are found in some cache whatever happens."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS measurements (
    machine TEXT NOT NULL, fragment TEXT NOT NULL, cold INTEGER NOT NULL, seconds REAL NOT NULL, samples INTEGER NOT NULL,
    description TEXT NOT NULL, written TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (machine, fragment, cold)
)
"""
_INSERT = "INSERT OR REPLACE INTO measurements (machine, fragment, cold, seconds, samples, description) VALUES (?, ?, ?, ?, ?, ?)"


class Measurements:
    """Measured seconds by machine and fragment, in an SQLite file.

    Raises (from every method): StoreError when the file is no store, is damaged, or stays locked.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self.path = Path(path) if path is not None else cache_folder() / "measurements.sqlite"
        self._database = Database(self.path, _SCHEMA, "kernels are measured anew")

    def of_machine(self, machine: str, cold: bool) -> dict[str, float]:
        """Seconds by the fragment's name."""
        with self._database.connection() as connection:
            rows = connection.execute("SELECT fragment, seconds FROM measurements WHERE machine = ? AND cold = ?", (machine, cold))
            return dict(rows.fetchall())

    def keep(self, machine: str, cold: bool, found: Iterable[tuple[Fragment, float, int]]) -> None:
        """Keep seconds and the number of samples behind them, in place of older ones."""
        rows = [(machine, fragment.name, cold, seconds, samples, str(fragment)[:500]) for fragment, seconds, samples in found]
        with self._database.connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_INSERT, rows)
            connection.execute("COMMIT")

    def __len__(self) -> int:
        with self._database.connection() as connection:
            return int(connection.execute("SELECT COUNT(*) FROM measurements").fetchone()[0])


class Measured(Roofline):
    """Prices graphs by kernels measured on this machine, in one runtime.

    runtime: `eager` or `inductor`, or one of one's own   cold: weights come from memory, as in a model larger than the caches
    A kernel that the runtime cannot run by itself counts as the roofline of the device has it; `unmeasured` are those.
    """

    def __init__(
        self,
        runtime_: str | Runtime = "eager",
        device: str | Device = "cpu",
        sizes: Mapping[str, int] | None = None,
        cold: bool = True,
        kernels: str | Policy | None = None,
        store: Measurements | None = None,
        seconds_for_a_kernel: float = SECONDS_FOR_A_KERNEL,
    ) -> None:
        self.runtime = runtime(runtime_)
        super().__init__(device, kernels if kernels is not None else self.runtime.policy, sizes)
        self.cold = cold
        self.machine = fingerprint(self.runtime)
        self.store = store if store is not None else Measurements()
        self.seconds_for_a_kernel = seconds_for_a_kernel
        self.dispatches_views = self.runtime.dispatches_views
        self.unmeasured: dict[str, str] = {}
        self.fragments = Fragments(self._sizes)
        self._known: dict[Fragment, float | None] = {}
        self._kept: dict[str, float] | None = None
        self._pending: list[tuple[Fragment, float, int]] = []

    def kernel_seconds(
        self, graph: Graph, nodes: Sequence[int], free: Collection[int], returned: Collection[int], arithmetic: float, moved: float
    ) -> float:
        fragment = self.fragments.fragment(graph, nodes, free, returned)
        found = self.seconds(fragment)
        return found if found is not None else super().kernel_seconds(graph, nodes, free, returned, arithmetic, moved)

    def view_seconds(self, graph: Graph, node: int, free: Collection[int]) -> float:
        if not self.dispatches_views:
            return 0.0
        return self.seconds(self.fragments.fragment(graph, (node,), free)) or 0.0

    def kernels_of(self, graph: Graph) -> list[Fragment]:
        """The distinct kernels of a graph, views that take time included."""
        grouping = Grouping(graph, self.policy)
        found = []
        for kernel in grouping.kernels:
            returned = {node for node in kernel.nodes if self.is_read_outside(grouping, node, set(kernel.nodes))} or {kernel.nodes[-1]}
            found.append(self.fragments.fragment(graph, kernel.nodes, grouping.free, returned))
        if self.dispatches_views:
            views = (node for node in grouping.order if node in grouping.views and node not in grouping.free)
            found += [self.fragments.fragment(graph, (node,), grouping.free) for node in views]
        return list(dict.fromkeys(found))

    def measure(self, graph: Graph) -> None:
        """Measure what is not known yet of a graph's kernels, interleaved with one another."""
        missing = [fragment for fragment in self.kernels_of(graph) if self._look_up(fragment) is _UNKNOWN]
        for group in _batches(missing, self.bytes_of):
            self._measure(group)

    def cost(self, graph: Graph, memory: bool = True) -> Cost:
        self.measure(graph)
        found = super().cost(graph, memory)
        self.keep()
        return found

    def seconds(self, fragment: Fragment) -> float | None:
        """The fragment's median; None where the runtime cannot run it by itself."""
        found = self._look_up(fragment)
        if found is _UNKNOWN:
            self._measure([fragment])
            found = self._known[fragment]
        assert found is None or isinstance(found, float)
        return found

    def _look_up(self, fragment: Fragment) -> Any:
        if fragment in self._known:
            return self._known[fragment]
        if self._kept is None:
            self._kept = self.store.of_machine(self.machine, self.cold)
        if fragment.name not in self._kept:
            return _UNKNOWN
        seconds = self._known[fragment] = self._kept[fragment.name]
        return seconds

    def _measure(self, fragments: Sequence[Fragment]) -> None:
        prepared: list[tuple[Fragment, Call]] = []
        with torch.no_grad():
            for fragment in fragments:
                try:
                    prepared.append((fragment, self._prepared(fragment)))
                except MeasuringError as error:
                    self._known[fragment] = None
                    self.unmeasured[str(fragment)] = str(error)
            timings = self._undisturbed([self.runtime.idle(), *(call for _, call in prepared)])
        idle, *others = timings
        found = [
            (fragment, max(timing.median - idle.median, 0.0), len(timing.samples))
            for (fragment, _), timing in zip(prepared, others, strict=True)
        ]
        self._known.update((fragment, seconds) for fragment, seconds, _ in found)
        self._pending += found
        if len(self._pending) >= MOST_PENDING:
            self.keep()

    def keep(self) -> None:
        """Write what was measured since the last time to the store; a graph's whole cost does so by itself."""
        if self._pending:
            self.store.keep(self.machine, self.cold, self._pending)
            self._pending = []

    def _undisturbed(self, calls: Sequence[Call]) -> list[Timing]:
        """The calls' timings; one whose median is far above its shortest sample was disturbed, and is taken again, twice at most."""
        timings = interleaved(calls, self.seconds_for_a_kernel * len(calls), clock=self.runtime.clock())
        for _ in range(2):
            disturbed = [place for place, timing in enumerate(timings) if timing.median > DISTURBED * min(timing.samples)]
            if not disturbed:
                break
            limit = self.seconds_for_a_kernel * len(disturbed)
            again = interleaved([calls[place] for place in disturbed], limit, clock=self.runtime.clock())
            for place, timing in zip(disturbed, again, strict=True):
                timings[place] = min(timings[place], timing, key=lambda found: found.median)
        return timings

    def _prepared(self, fragment: Fragment) -> Call:
        """A call of the fragment; of cold weights, of one copy after the other."""
        weights = sum(self.bytes_of(operand.type) for operand in fragment.operands if operand.known and operand.value is None)
        cold = self.cold and weights > SMALL_BYTES
        return self.runtime.prepare(fragment, max(2, min(MOST_COPIES, round(CACHE_BYTES / weights))) if cold else 1)

    def __getstate__(self) -> dict[str, Any]:
        # What one process has looked up, another looks up for itself.
        self.keep()
        return {**self.__dict__, "_kept": None}


_UNKNOWN = object()


def _batches(items: Sequence[Fragment], bytes_of: Callable[[TensorType], float]) -> Iterator[Sequence[Fragment]]:
    """The fragments in groups whose tensors, copies of weights included, are in memory at once."""
    group: list[Fragment] = []
    room = BATCH_BYTES
    for item in items:
        weights = sum(bytes_of(operand.type) for operand in item.operands if operand.known)
        room -= max(min(CACHE_BYTES, MOST_COPIES * weights), 2 * weights) + sum(bytes_of(operand.type) for operand in item.operands)
        if group and (room < 0 or len(group) == MOST_AT_ONCE):
            yield group
            group, room = [], BATCH_BYTES
        group.append(item)
    if group:
        yield group


def is_cold(graph: Graph, sizes: Mapping[str, int] | None = None) -> bool:
    """More passes through memory in one run of the graph than the caches hold, so that each kernel fetches its weights from memory."""
    return Roofline("cpu", "none", sizes).cost(graph, memory=False).bytes > _last_level_cache()


def _last_level_cache() -> float:
    """The largest cache's bytes; 32 MB where the machine does not say."""
    found = [32e6]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size") if os.name == "posix" else ():
        text = path.read_text().strip()
        if text[:-1].isdigit() and text[-1:] in "KM":
            found.append(int(text[:-1]) * (1024 if text[-1] == "K" else 1024**2))
    return max(found)
