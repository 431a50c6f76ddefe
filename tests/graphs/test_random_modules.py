"""Random modules go through capture, evaluation, files and emit unchanged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from hypothesis import given, settings

from graphs.capture import capture
from graphs.emit import to_module
from graphs.evaluate import run_module
from graphs.passes import simplify
from graphs.serialise import load, save
from graphs.structure import structural_hash
from operators.expressions import Expression
from tests.graphs.roundtrip import assert_same, round_trip
from tests.strategies import modules

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
torch.set_num_threads(1)


@settings(max_examples=10_000 if NIGHTLY else 200)
@given(modules())
def test_random_modules_round_trip_exactly(example: Any) -> None:
    module, inputs = example
    with torch.no_grad():
        graph, _ = round_trip(module, inputs)
        assert_same(module(*inputs), run_module(graph, *inputs))


@settings(max_examples=1_000 if NIGHTLY else 40)
@given(modules())
def test_random_modules_round_trip_at_other_sizes(example: Any) -> None:
    module, inputs = example
    with torch.no_grad():
        graph = capture(module, inputs, (tuple({0: torch.export.Dim.AUTO} for _ in inputs),))
        graph.validate()
        emitted = to_module(graph)
        assert_same(module(*inputs), emitted(*inputs))
        sizes: dict[Any, int] = {}
        others = []
        for node, tensor in zip(graph.inputs, inputs, strict=True):
            rows = graph.types(node)[0].shape[0]
            if isinstance(rows, Expression):
                count = sizes.setdefault(rows, tensor.shape[0] + 3 + 2 * len(sizes))
                tensor = torch.cat([tensor] * 9)[:count]
            others.append(tensor)
        expected = module(*others)
        assert_same(expected, run_module(graph, *others))
        assert_same(expected, emitted(*others))


@settings(max_examples=1_000 if NIGHTLY else 20)
@given(modules())
def test_random_modules_survive_files_and_passes(tmp_path_factory: Any, example: Any) -> None:
    module, inputs = example
    path = Path(tmp_path_factory.mktemp("graph")) / "graph.json"
    with torch.no_grad():
        graph, _ = round_trip(module, inputs)
        save(graph, path)
        again = load(path)
        assert structural_hash(again) == structural_hash(graph)
        assert_same(module(*inputs), to_module(again)(*inputs))
        simpler = graph.copy()
        simplify(simpler)
        simpler.validate()
        assert len(simpler) <= len(graph)
        expected, found = module(*inputs), to_module(simpler)(*inputs)
        assert torch.utils._pytree.tree_structure(expected) == torch.utils._pytree.tree_structure(found)
