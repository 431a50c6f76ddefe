"""Indexing by tensors of positions while tracing: whole axes beside them, everything else refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphs.graph import Graph
from graphs.trace import Proxy, TraceError
from operators.expressions import symbol
from operators.operator import TensorType


def proxies() -> tuple[Proxy, Proxy]:
    graph = Graph()
    x = Proxy(graph, graph.input("x", TensorType((symbol("n"), 3, 4))))
    return x, Proxy(graph, graph.input("i", TensorType((symbol("k"),), "int64")))


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        (lambda x, i: x[i], ("k", 3, 4)),
        (lambda x, i: x[:, i], ("n", "k", 4)),
        (lambda x, i: x[..., i], ("n", 3, "k")),
        (lambda x, i: x[:, i, i], ("n", "k")),
        (lambda x, i: x[:, [0, 2]], ("n", 2, 4)),
    ],
)
def test_positions_beside_whole_axes(index: Callable[[Any, Any], Any], shape: tuple[Any, ...]) -> None:
    assert index(*proxies()).type.shape == tuple(symbol(size) if isinstance(size, str) else size for size in shape)


@pytest.mark.parametrize("index", [lambda x, i: x[None, i], lambda x, i: x[0, i], lambda x, i: x[1:, i], lambda x, i: x[i > 0]])
def test_other_forms_are_refused(index: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(TraceError):
        index(*proxies())
