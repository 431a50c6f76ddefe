"""A sample of the ONNX project's own node tests: `python -m benchmarks.onnx_nodes` runs all of them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from benchmarks.onnx_nodes import cases, outcome
from benchmarks.onnx_variants import faults

EVERY = 12
"""Of the cases of one operator, one in so many is tried, and the first."""

UNDEFINED = 0.25
"""At most this part of the sample may be of operators that are not defined: a few of each of the rarest are in it."""


def test_cases_that_are_defined_give_what_onnx_expects_and_come_back() -> None:
    counted: dict[str, int] = {}
    tried, undefined, wrong = 0, 0, []
    for case in cases():
        first = case.model.graph.node[0].op_type if "_expanded" not in case.name else "written out"
        counted[first] = counted.get(first, -1) + 1
        if counted[first] % EVERY or (first == "written out" and counted[first] % (5 * EVERY)):
            continue
        found = outcome(case)
        tried += 1
        undefined += not found.defined
        if not found.verbatim.startswith("yes") and case.name not in RANDOM:
            wrong.append((case.name, "word for word", found.verbatim))
        if found.defined and (found.evaluated != "yes" or not found.anew.startswith("yes")):
            wrong.append((case.name, found.evaluated, found.anew))
    assert wrong == []
    assert tried > 200
    assert undefined < UNDEFINED * tried


def test_cases_are_read_in_other_forms_as_well() -> None:
    """Of each operator the first case and the last: inputs held in the file, one number in a tensor's place, symbolic sizes."""
    chosen: dict[str, dict[str, Any]] = {}
    for case in cases():
        if "_expanded" not in case.name:
            chosen.setdefault(case.model.graph.node[0].op_type, {"first": case})["last"] = case
    some = {case.name: case for found in chosen.values() for case in found.values()}
    assert len(some) > 200
    assert [(name, *found) for name, case in some.items() for found in faults(case)] == []


RANDOM = frozenset(["test_training_dropout_default", "test_bernoulli"])
"""What is drawn is another number each time."""
