"""Windows in several processes and in a store: the same result, nothing lost, nobody left behind."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from costs.roofline import Roofline
from graphs.graph import Graph
from graphs.trace import Proxy, trace
from operators.operator import TensorType
from rewrites import Rule
from rewrites.library.convolution import EnlargeKernels, FoldBatchNormIntoConvolution
from rewrites.library.convolution_merging import AddConvolutionsOfOneInput
from search import SearchResult, search
from search.certified import Admitted, Waited
from search.explorer import Explorer
from search.objective import Objective
from search.recipes import Recipe, written
from search.revision import without_idle_moves
from search.solving import Problem, Setting, solve
from search.states import Move, State
from search.workers import Workers, end

RULES: list[type[Rule]] = [FoldBatchNormIntoConvolution, EnlargeKernels, AddConvolutionsOfOneInput]
WIDTHS = (4, 6, 8, 10)
forked = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="processes cannot be forked here")


def certified(rule: type[Rule]) -> str:
    return f"test:{rule.__name__}"


def tower(blocks: int = 3, widths: tuple[int, ...] = WIDTHS) -> Graph:
    """Two-branch blocks of several widths, one after another: more than one window, and several different ones."""
    graph = Graph()
    generator = torch.Generator().manual_seed(0)

    def weight(*shape: int) -> Any:
        tensor = torch.rand(shape, generator=generator) + 0.5
        return Proxy(graph, graph.constant(f"weight_{len(graph.constants)}", tensor))

    def forward(x: Any) -> Any:
        width = widths[0]
        for wider in widths:
            for _ in range(blocks):
                branches = []
                for kernel in (3, 1):
                    y = F.conv2d(x, weight(wider, width, kernel, kernel), None, 1, kernel // 2)
                    branches.append(F.batch_norm(y, weight(wider), weight(wider), weight(wider), weight(wider), False, 0.1, 1e-5))
                x, width = torch.relu(branches[0] + branches[1]), wider
        return x

    x = Proxy(graph, graph.input("x", TensorType((2, WIDTHS[0], 6, 6))))
    graph.outputs = trace(forward, [x], graph)
    return graph


def found(**options: Any) -> SearchResult:
    return search(tower(), RULES, certified, **{"expansions": 6, "check": False, **options})


def steps(result: SearchResult) -> list[tuple[str, str, float]]:
    return [(step.rule, step.place, step.cost_after.time) for step in result.steps]


@pytest.fixture(scope="module")
def alone() -> SearchResult:
    """The search in this process."""
    return found()


@forked
def test_two_processes_find_what_one_finds(alone: SearchResult) -> None:
    together = found(jobs=2)
    assert len(alone.steps) >= 4 * len(WIDTHS)
    assert steps(together) == steps(alone)
    assert (together.after, together.expanded, together.candidates) == (alone.after, alone.expanded, alone.candidates)
    assert not multiprocessing.active_children()


def test_any_executor_finds_the_same(alone: SearchResult) -> None:
    with ThreadPoolExecutor(2) as executor:
        assert steps(found(executor=executor)) == steps(alone)


def test_what_another_process_is_sent_can_be_pickled() -> None:
    graph = tower()
    roofline = Roofline()
    setting = Setting(RULES, roofline, Objective.of("time"), roofline.cost(graph), 10)
    workers = Workers(setting, graph.constants, 1, ThreadPoolExecutor(1))
    task = pickle.loads(pickle.dumps(workers._task(Problem(graph, sorted(graph.network), 5.0))))
    recipe = task[0](*task[1:])
    assert isinstance(recipe, Recipe)
    assert recipe.moves


def test_rule_that_cannot_be_imported_is_named() -> None:
    class LocalLaw(Rule):
        """A sum does not mind the order of its summands."""

        source = "arithmetic"

        @staticmethod
        def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]) -> Any:
            return x + y

        @staticmethod
        def replacement(x: Any, y: Any) -> Any:
            return y + x

    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match=r"importable, got .*LocalLaw"):
        search(tower(), [*RULES, LocalLaw], certified, executor=executor, check=False)


def test_solved_windows_are_not_searched_again(tmp_path: Path, alone: SearchResult) -> None:
    store = tmp_path / "windows.sqlite"
    first = found(store=store)
    again = found(store=store)
    assert first.expanded == alone.expanded
    assert again.expanded == 0
    assert steps(again) == steps(first) == steps(alone)
    other = found(store=store, device="a100")
    assert other.expanded > 0


def test_kept_recipe_is_used_under_certificates_only(tmp_path: Path) -> None:
    store = tmp_path / "windows.sqlite"
    found(store=store)
    held: Callable[[type[Rule]], str | None] = lambda rule: None if rule is EnlargeKernels else "held"  # noqa: E731
    result = search(tower(), RULES, held, store=store, expansions=6, check=False)
    assert {step.rule for step in result.steps} == {"FoldBatchNormIntoConvolution"}
    assert [refusal.rule for refusal in result.refused] == ["EnlargeKernels"]


def test_recipe_survives_being_written() -> None:
    recipe = found_recipe()
    assert Recipe.from_json(recipe.to_json()) == recipe


def found_recipe() -> Recipe:
    graph = tower(1, (4,))
    roofline = Roofline()
    setting = Setting(RULES, roofline, Objective.of("time"), roofline.cost(graph), 10)
    return solve(setting, Problem(graph, sorted(graph.network), 20.0))


def _killed(store: Path) -> None:
    """A search that is killed when its second window has been found and kept."""

    def count(progress: Any) -> None:
        with sqlite3.connect(store) as connection:
            if connection.execute("SELECT count(*) FROM windows").fetchone()[0] >= 2:
                os.kill(os.getpid(), signal.SIGKILL)

    found(store=store, progress=count)


@forked
def test_killed_search_goes_on_where_it_was(tmp_path: Path, alone: SearchResult) -> None:
    store = tmp_path / "windows.sqlite"
    process = multiprocessing.get_context("fork").Process(target=_killed, args=(store,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    with sqlite3.connect(store) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        kept = connection.execute("SELECT count(*) FROM windows").fetchone()[0]
    assert kept >= 2
    resumed = found(store=store)
    assert 0 < resumed.expanded < alone.expanded
    assert steps(resumed) == steps(alone)


@forked
def test_interruption_ends_the_workers_and_returns_the_best_so_far() -> None:
    heard = []

    def interrupt(progress: Any) -> None:
        heard.append(progress)
        if len(heard) == 30:
            signal.raise_signal(signal.SIGINT)

    result = found(jobs=2, progress=interrupt, expansions=100_000, seconds=600.0)
    assert result.interrupted
    assert not result.complete
    assert result.after.time < result.before.time
    assert not multiprocessing.active_children()


@forked
def test_what_a_killed_worker_leaves_undone_is_done_here(alone: SearchResult) -> None:
    killed: list[int | None] = []

    def kill_one(progress: Any) -> None:
        if not killed:
            worker = multiprocessing.active_children()[0]
            worker.kill()
            killed.append(worker.pid)

    result = found(jobs=2, progress=kill_one)
    assert killed
    assert steps(result) == steps(alone)


@forked
@pytest.mark.parametrize("attempt", range(5))
def test_a_pool_ends_although_an_idle_process_was_killed(attempt: int) -> None:
    """It may be the one that holds the lock of the queue; half of the pools of the standard library then wait for ever."""
    pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork"))
    assert list(pool.map(abs, range(4))) == [0, 1, 2, 3]
    processes = multiprocessing.active_children()
    processes[0].kill()
    ending = threading.Thread(target=end, args=(pool,), daemon=True)
    ending.start()
    ending.join(60)
    assert not ending.is_alive()
    assert not set(processes) & set(multiprocessing.active_children())


def _killed_with_workers(pids: Path) -> None:
    def stop(progress: Any) -> None:
        pids.write_text(" ".join(str(child.pid) for child in multiprocessing.active_children()))
        os.kill(os.getpid(), signal.SIGKILL)

    found(jobs=2, progress=stop)


@forked
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked up in /proc")
def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    process = multiprocessing.get_context("fork").Process(target=_killed_with_workers, args=(pids,))
    process.start()
    process.join(60)
    workers = [int(pid) for pid in pids.read_text().split()]
    assert len(workers) == 2
    deadline = time.monotonic() + 30.0
    while any(_runs(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not any(_runs(pid) for pid in workers)


def _runs(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


class SwapSummands(Rule):
    """A sum does not mind the order of its summands."""

    source = "arithmetic"

    @staticmethod
    def pattern(x: Float[Tensor, "n c h w"], y: Float[Tensor, "n c h w"]) -> Any:
        return x + y

    @staticmethod
    def replacement(x: Any, y: Any) -> Any:
        return y + x


def _path(graph: Graph, names: list[type[Rule]]) -> tuple[Explorer, list[State]]:
    """The states that the first match of each rule in turn leads to."""
    rules = [Admitted(rule, certified, Waited()) for rule in [*RULES, SwapSummands]]
    roofline = Roofline()
    explorer = Explorer(graph, rules, roofline, Objective.of("time").value(roofline.cost(graph)))
    state = explorer.root
    explorer.open_again(state)
    for rule in names:
        move = next(move for move in state.moves if move.rule.rule is rule)
        state = State(state, Move(move.rule, move.match), state.value)
        assert explorer.open_again(state)
    return explorer, state.path


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        ([SwapSummands, FoldBatchNormIntoConvolution], [FoldBatchNormIntoConvolution]),
        ([FoldBatchNormIntoConvolution, SwapSummands], [FoldBatchNormIntoConvolution]),
        ([SwapSummands], []),
    ],
)
def test_moves_that_do_not_pay_are_left_out(taken: list[type[Rule]], left: list[type[Rule]]) -> None:
    graph = tower(1, (4,))
    explorer, path = _path(graph.copy(), taken)
    rules = [*RULES, SwapSummands]
    order = sorted(graph.network)
    moves = written(path, order, {rule: number for number, rule in enumerate(rules)})
    kept = without_idle_moves(moves, graph, order, rules, explorer.roofline, explorer.value, False)
    assert [rules[move.rule] for move in kept] == left


def test_moves_that_make_one_possible_that_pays_stay() -> None:
    names = [RULES[move.rule] for move in found_recipe().moves]
    assert names == [FoldBatchNormIntoConvolution, FoldBatchNormIntoConvolution, EnlargeKernels, AddConvolutionsOfOneInput]
