"""Gradients as graphs: what they compute is what torch's autograd computes, and they are proved equal only where they are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from graphs.evaluate import evaluate
from graphs.gradients import gradient_graph
from operators.operator import collecting_obligations
from rewrites import Rule
from rewrites.cases import cases, trace_case
from verifier.backward import gradients_proved
from verifier.gradients import cotangent, product_of


def law(left: Callable[..., Any], right: Callable[..., Any]) -> type[Rule]:
    def pattern(x: Float[Tensor, "m k"], y: Float[Tensor, "k n"]):
        return left(x, y)

    def replacement(x, y):
        return right(x, y)

    return type(
        "Law", (Rule,), {"__doc__": "A law.", "source": "a test", "trainable": True, "pattern": pattern, "replacement": replacement}
    )


SIDES: list[Callable[..., Any]] = [
    lambda x, y: x @ y,
    lambda x, y: torch.softmax(x @ y, -1) * 2.0,
    lambda x, y: (torch.tanh(x) @ y, torch.sigmoid(y).sum(0)),
    lambda x, y: torch.cat([x, x * 3.0], 0) @ torch.exp(y),
    lambda x, y: F.layer_norm(x, (x.shape[-1],)) @ y.detach() + y.mean(),
]


@pytest.mark.parametrize("side", SIDES)
def test_computes_what_autograd_computes(side: Callable[..., Any]) -> None:
    rule = law(side, side)
    traced = trace_case(rule, next(iter(cases(rule))), dtypes={"x": "float64", "y": "float64"})
    with collecting_obligations():
        graph = gradient_graph(traced.pattern)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    y = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    expected = product_of(side, (side,))(x, y)
    outputs = side(x, y)
    cotangents = [cotangent(output) for output in (outputs if isinstance(outputs, tuple) else (outputs,))]
    found = evaluate(graph, [x, y, *cotangents])
    for a, b in zip(found, expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("left", "right", "holds"),
    [
        (lambda x, y: (x * 2.0) @ y, lambda x, y: (x @ y) * 2.0, True),
        (lambda x, y: x @ y, lambda x, y: (y.transpose(0, 1) @ x.transpose(0, 1)).transpose(0, 1), True),
        (lambda x, y: (x * x) @ y, lambda x, y: (x * x.detach()) @ y, False),
        (lambda x, y: x @ y, lambda x, y: (x @ y) * 2.0, False),
        (lambda x, y: x @ y, lambda x, y: x @ y.detach(), False),
    ],
)
def test_proved_only_where_they_are_equal(left: Callable[..., Any], right: Callable[..., Any], holds: bool) -> None:
    assert gradients_proved(law(left, right), {}, time.monotonic() + 20) is holds
