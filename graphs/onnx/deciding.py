"""Branches of an If that the rest of the model decides: one after which it cannot run is not taken where it runs.

What `torch.onnx` makes of `x.squeeze(1)` for a symbolic size is an If between three axes and two. Where an LSTM or a convolution reads
its output, only one of the two runs at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

import onnx

from graphs.onnx.errors import OnnxError
from graphs.onnx.reader import Reader
from graphs.onnx.subgraphs import needed_nodes
from operators.foreign import UNTYPED

DECIDED = "decided"
"""The key in a graph's metadata under which it is said, in sentences, which branches were decided so."""
MOST = 16
"""The most nodes whose branches are tried: each is read through twice."""


def read_running(model: onnx.ModelProto, known: Mapping[str, Any] | None = None, whole: Collection[str] = ()) -> Reader:
    """A reader that has read the model, with every branch decided that can be; it computes the same wherever the model runs.

    Raises: OnnxError.
    """
    needed = needed_nodes(model.graph)
    best = Reader(model, known, whole)
    best.read()
    for number in [number for number in best.undecided if number in needed][:MOST]:
        if number not in best.undecided or not _has_unknown_rank(best, model.graph.node[number]):
            continue
        readers = [Reader(model, known, whole, best.choices | {number: branch}) for branch in (True, False)]
        running = [reader for reader in readers if _can_run(reader, needed)]
        if len(running) == 1 and running[0].graph.outputs:
            (best,) = running
    best.graph.metadata[DECIDED] = tuple(
        f"{best.where(number)}: the {'then' if branch else 'else'} branch is taken, as the model cannot run after the other"
        for number, branch in best.choices.items()
    )
    return best


def _has_unknown_rank(reader: Reader, node: onnx.NodeProto) -> bool:
    return any(reader.entries[name].type.dtype == UNTYPED for name in node.output if name)


def _can_run(reader: Reader, needed: set[int]) -> bool:
    """Nothing that the outputs need is known to fail."""
    with suppress(OnnxError):  # what the reader does not take may run all the same: only `failing` counts
        reader.read()
    return not needed & set(reader.failing)


__all__ = ["DECIDED", "read_running"]
