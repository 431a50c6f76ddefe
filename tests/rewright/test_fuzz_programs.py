"""Every statement of the fuzzer's random models applies to whatever value stands there, does nothing, or is refused by PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewright.fuzzing.programs import Builder, Impossible
from rewright.fuzzing.steps import CALM, STEPS

SHAPES = {"scalar": (), "empty": (0, 3), "one row": (1, 4), "image": (1, 2, 4, 4), "large": (8, 4, 16, 16), "five dims": (1, 2, 1, 2, 3)}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("step", dict.fromkeys(STEPS + CALM), ids=lambda step: step.__name__)
@given(data=st.data())
def test_a_step_takes_any_value(step: Callable[[Builder], None], shape: str, dtype: str, data: st.DataObject) -> None:
    builder = Builder(data.draw)
    builder.given(*SHAPES[shape], dtype=dtype, kind="normal" if "float" in dtype else "whole")
    with suppress(Impossible):
        step(builder)
    assert len(builder.values) == 1 + len(builder.statements)
