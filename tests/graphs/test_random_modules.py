"""Random modules go through capture, evaluation, files and emit unchanged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from hypothesis import given, settings

from graphs.emit import to_module
from graphs.evaluate import run_module
from graphs.passes import simplify
from graphs.serialise import load, save
from graphs.structure import structural_hash
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
        wide = graph.copy()
        simplify(wide)
        wide.validate()
        expected, found = module(*inputs), to_module(wide)(*inputs)
        assert torch.utils._pytree.tree_structure(expected) == torch.utils._pytree.tree_structure(found)
