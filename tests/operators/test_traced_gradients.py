"""Gradients are written with operators: traced on proxies they make graphs, which compute what they compute on tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given

from graphs.evaluate import evaluate
from graphs.graph import Graph
from graphs.trace import Proxy
from operators.operator import kind_of
from operators.samples.drawing import Case, type_of
from tests.operators.test_agreement import NAMES, ROWS, as_tuple, cases


@pytest.mark.parametrize("name", [name for name in NAMES if ROWS[name].gradient])
def test_gradients_trace(name: str) -> None:
    row = ROWS[name]

    @given(cases(name))
    def traces(case: Case) -> None:
        if not row.empty_gradient and any(isinstance(operand, torch.Tensor) and operand.numel() == 0 for operand in case.operands):
            return
        if not any(isinstance(operand, torch.Tensor) and operand.is_floating_point() for operand in case.operands):
            return
        graph, tensors = Graph(), []

        def proxy(label: str, value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            tensors.append(value)
            return Proxy(graph, graph.input(label, type_of(value)))

        results = [torch.ones_like(result) for result in as_tuple(case.operator.run(*case.operands)) if isinstance(result, torch.Tensor)]
        if not results or kind_of(type_of(results[0]).dtype) != "float":
            return
        weights = [proxy(f"gradient{position}", result) for position, result in enumerate(results)]
        operands = [proxy(f"operand{position}", operand) for position, operand in enumerate(case.operands)]
        try:
            found = case.operator.gradient(tuple(weights) if case.operator.multiple else weights[0], *operands)
        except NotImplementedError:
            return
        wanted = [position for position, one in enumerate(found) if isinstance(one, Proxy) and isinstance(operands[position], Proxy)]
        graph.outputs = [found[position].value for position in wanted]
        expected = case.operator.gradient(tuple(results) if case.operator.multiple else results[0], *case.operands)
        for position, traced in zip(wanted, evaluate(graph, tensors), strict=True):
            torch.testing.assert_close(traced, expected[position], equal_nan=True, check_dtype=False)

    traces()
