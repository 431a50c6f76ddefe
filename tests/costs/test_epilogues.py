"""The policy `epilogues`: an activation inside the kernel of the convolution whose result it alone reads."""

from __future__ import annotations

import torch

from costs import cost
from graphs.graph import Graph, Value
from operators.arithmetic import Add
from operators.operator import OPERATORS, TensorType


def convolution(read_twice: bool, activation: str = "Relu") -> Graph:
    """A 1x1 convolution and an activation of it; `read_twice`, the convolution's own result is returned as well."""
    graph = Graph()
    x = graph.input("x", TensorType((1, 8, 16, 16)))
    weight = graph.constant("weight", torch.ones(8, 8, 1, 1))
    y = graph.add(OPERATORS["Conv2d"]((1, 1), (0, 0), (1, 1), 1), x, weight)
    z = graph.add(OPERATORS[activation](), y)
    graph.outputs = [z, y] if read_twice else [z]
    return graph


def test_an_activation_is_part_of_the_kernel_before_it() -> None:
    graph = convolution(read_twice=False)
    apart, joined = cost(graph, "a100", "none"), cost(graph, "a100", "epilogues")
    assert (apart.kernels, joined.kernels) == (2, 1)
    assert joined.flops == apart.flops
    assert apart.bytes - joined.bytes == 2 * 8 * 16 * 16 * 4, "the convolution's result is neither written nor read"


def test_what_something_else_reads_stays_a_kernel() -> None:
    assert cost(convolution(read_twice=True), "a100", "epilogues").kernels == 2
    assert cost(convolution(read_twice=False, activation="Exp"), "a100", "epilogues").kernels == 2


def test_a_sum_is_no_epilogue() -> None:
    graph = convolution(read_twice=False)
    (relu,) = graph.outputs
    graph.outputs = [graph.add(Add(), relu, Value(graph.inputs[0]))]
    assert cost(graph, "a100", "epilogues").kernels == 2
