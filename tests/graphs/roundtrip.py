"""What a round trip must keep: values bit for bit, structure, dtypes, weights and their names."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.utils import _pytree as pytree

from graphs.capture import call_arguments, capture
from graphs.emit import to_module
from graphs.graph import Graph


def assert_same(expected: Any, found: Any) -> None:
    """Equal structure, dtypes, shapes and bits (NaN equals NaN)."""
    left, right = pytree.tree_flatten(expected), pytree.tree_flatten(found)
    assert left[1] == right[1]
    for a, b in zip(left[0], right[0], strict=True):
        if not isinstance(a, torch.Tensor):
            assert type(a) is type(b) and a == b
            continue
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert torch.equal(a.isnan(), b.isnan())
        assert torch.equal(a.nan_to_num(), b.nan_to_num()), f"largest difference {(a.double() - b.double()).abs().max()}"


def round_trip(module: torch.nn.Module, inputs: Any, dynamic_shapes: Any = None, again: Any = ()) -> tuple[Graph, torch.fx.GraphModule]:
    """Capture, validate, emit, and hold the emitted module against the original on the inputs and on `again`."""
    reference = copy.deepcopy(module)
    graph = capture(module, inputs, dynamic_shapes)
    graph.validate()
    emitted = to_module(graph)
    assert list(emitted.state_dict()) == list(module.state_dict())
    own = dict(module.named_parameters(remove_duplicate=False))
    assert all(own[name] is tensor for name, tensor in emitted.named_parameters(remove_duplicate=False))
    for given in (inputs, *again):
        arguments, named = call_arguments(given)
        copies = copy.deepcopy((arguments, named))
        torch.manual_seed(0)
        expected = reference(*arguments, **named)
        torch.manual_seed(0)
        found = emitted(*copies[0], **copies[1])
        assert_same(expected, found)
        assert_same((arguments, named), copies)
        assert_same(dict(reference.state_dict()), dict(emitted.state_dict()))
    return graph, emitted
