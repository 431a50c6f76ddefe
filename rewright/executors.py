"""Where many tasks run: here, in local processes, or on a Dask cluster. Everything takes a `concurrent.futures.Executor`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager


class ClusterError(RuntimeError):
    """The cluster cannot be used; the message says which address and why."""


@contextmanager
def executor(jobs: int = 1, cluster: str | None = None) -> Iterator[Executor | None]:
    """Local processes, so many; the workers of the Dask cluster whose scheduler has this address; None for one process, this one.

    Workers of a cluster need this distribution, and rule files under the same paths.
    Raises: ClusterError.
    """
    if cluster is not None:
        with _cluster(cluster) as found:
            yield found
        return
    if jobs == 1:
        yield None
        return
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(os.getpid(),))
    try:
        yield pool
    finally:
        from search.workers import end

        end(pool)


@contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError as error:
        raise ClusterError("--cluster: the extra `cluster` must be installed (pip install 'rewright[cluster]')") from error
    try:
        client = Client(address, timeout="10s", set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ClusterError(f"{address}: no Dask scheduler answers there: {error}") from error
    with client:
        yield client.get_executor(pure=False, retries=3)  # type: ignore[no-untyped-call]


def workers(cluster: str) -> int:
    """How many tasks the cluster runs at a time.

    Raises: ClusterError.
    """
    with _cluster(cluster) as found:
        return max(1, sum(found._client.ncores().values()))  # type: ignore[attr-defined]


def _begin(parent: int) -> None:
    import torch

    from search.workers import follow

    torch.set_num_threads(1)
    follow(parent)


__all__ = ["ClusterError", "executor", "workers"]
