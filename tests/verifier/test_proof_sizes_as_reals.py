"""Sizes are combined with Python's fractions, as numbers of the traced function."""

from __future__ import annotations

import pytest
import torch

from graphs.capture import capture
from graphs.emit import to_module
from rewrites.apply import apply
from rewrites.match import find_matches
from tests.verifier.laws_of_functions import law_of, proof_of

RIGHT = {
    "half of a size": (lambda x: (x - 0.5).sum(1), lambda x: x.sum(1) - 0.5 * x.shape[1]),
    "a size less one": (lambda x: (x[:, 1:] + 3.0).sum(1), lambda x: x[:, 1:].sum(1) + 3.0 * (x.shape[1] - 1)),
    "a size halved": (lambda x: x * x.shape[1] / 2, lambda x: x * (x.shape[1] / 2)),
    "from a fraction": (lambda x: x * 0.5 - x * x.shape[1], lambda x: x * (0.5 - x.shape[1])),
}
WRONG = {
    "half of another size": (lambda x: (x - 0.5).sum(1), lambda x: x.sum(1) - 0.5 * x.shape[0]),
    "a size too many": (lambda x: (x[:, 1:] + 3.0).sum(1), lambda x: x[:, 1:].sum(1) + 3.0 * x.shape[1]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_sizes_are_real_numbers_beside_fractions(name: str) -> None:
    assert proof_of(("n m+1",), *RIGHT[name]).proved


@pytest.mark.parametrize("name", WRONG)
def test_other_sizes_are_other_numbers(name: str) -> None:
    assert not proof_of(("n m+1",), *WRONG[name]).proved


def test_such_a_rule_is_applied() -> None:
    class Shifted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x - 0.5).sum(1)

    x = torch.randn(3, 5, dtype=torch.float64)
    graph = capture(Shifted(), (x,))
    (match,) = find_matches(law_of(("n m",), *RIGHT["half of a size"]), graph)
    rewritten = apply(match, graph).graph
    assert str(rewritten) != str(graph)
    torch.testing.assert_close(to_module(rewritten)(x), Shifted()(x))


def test_outside_a_trace_a_size_and_a_fraction_are_not_combined() -> None:
    from operators.expressions import Variable, symbol

    with pytest.raises(TypeError):
        0.5 * Variable(symbol("n").terms)
