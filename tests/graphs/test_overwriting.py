"""Modules that write into tensors: captured without opaque nodes, with the same results and gradients as in eager mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from graphs.capture import capture
from graphs.emit import to_module
from operators.opaque import Opaque

Write = Callable[[Tensor, Tensor], object]

WRITES: dict[str, Write] = {
    "a row": lambda z, y: z.__setitem__(0, y[0]),
    "the last row, counted from the end": lambda z, y: z.select(0, -1).copy_(y[1]),
    "a column": lambda z, y: z.__setitem__((slice(None), 1), y[:, 0]),
    "some rows": lambda z, y: z[1:3].copy_(y[1:3]),
    "one row over all": lambda z, y: z.copy_(y[0]),
    "another dtype": lambda z, y: z.copy_(y.double()),
    "a column that is added to": lambda z, y: z[:, 1].add_(y[:, 1]),
    "a number into a row": lambda z, y: z.__setitem__(0, 2.5),
    "a number into a column": lambda z, y: z[:, 1].fill_(-1),
    "an element into a column": lambda z, y: z[:, 1].fill_(y[0, 0]),
    "a number everywhere": lambda z, y: z.fill_(0.5),
    "an element everywhere": lambda z, y: z.fill_(y[1, 2]),
    "zero": lambda z, y: z[1:3].zero_(),
    "everything": lambda z, y: z[0:4].copy_(y),
}
FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "slice_scatter": lambda x, y: torch.slice_scatter(x, y[:2], 0, 1, 3),
    "slice_scatter to the end": lambda x, y: torch.slice_scatter(x, y[:2], 0, -2),
    "select_scatter": lambda x, y: torch.select_scatter(x, y[0], 0, -2),
}


class Module(nn.Module):
    """A function of two tensors as a module."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.function(x, y)


def written(write: Write) -> Callable[[Tensor, Tensor], Tensor]:
    """The function that writes into a copy of its first argument."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        z = x.clone()
        write(z, y)
        return z

    return function


CASES = {**{name: written(write) for name, write in WRITES.items()}, **FUNCTIONS}


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_is_captured(name: str) -> None:
    module = Module(CASES[name])
    x, y = torch.randn(4, 5), torch.randn(4, 5)
    graph = capture(module, (x, y))
    assert not any(isinstance(graph.operator(node), Opaque) for node in graph)
    emitted = to_module(graph)
    assert torch.equal(emitted(x, y), module(x, y))
    gradients = []
    for run in (module, emitted):
        leaves = [tensor.clone().requires_grad_() for tensor in (x, y)]
        gradients.append(
            torch.autograd.grad(run(*leaves).square().sum() + leaves[0].sum(), leaves, allow_unused=True, materialize_grads=True)
        )
    for expected, found in zip(*gradients, strict=True):
        assert torch.equal(expected, found)


def test_a_step_stays_opaque_and_right() -> None:
    module = Module(lambda x, y: torch.slice_scatter(x, y[:2], 0, 0, 4, 2))
    x, y = torch.randn(4, 5), torch.randn(4, 5)
    assert torch.equal(to_module(capture(module, (x, y)))(x, y), module(x, y))
