"""`compare(before, after)`: whether two models are the same function, whatever optimised the one into the other."""

from __future__ import annotations

import os
from typing import Any

from graphs.graph import Graph
from verifier.equivalence.comparing import Equal, compare_graphs
from verifier.equivalence.result import Comparison

SIDES = "a .onnx or .pt2 file, file.py:factory, an exported program, a graph, or a pair of a module and its example inputs"


class SideError(ValueError):
    """One side of a comparison that is no model; the message says which forms there are."""


def compare(before: Any, after: Any, *, timeout: float = 120.0, seed: int = 0, equality: Equal = "float", examples: int = 20) -> Comparison:
    """Whether two models are the same function: proved, tested, or refuted with an input.

    A side is a path (`.onnx`, `.pt2`), `file.py:factory`, an `ExportedProgram`, a `Graph`, an `onnx.ModelProto`, or a pair of an
    `nn.Module` and its example inputs. With equality "real", NaN and infinities may differ. `timeout` is in seconds.
    Raises: SideError; what loading and capturing raise; AlignmentError when inputs or outputs cannot be paired; CannotRunError.
    """
    return compare_graphs(graph_of(before), graph_of(after), timeout=timeout, seed=seed, equality=equality, examples=examples)


def graph_of(side: Any) -> Graph:
    """One side as a graph.

    Raises: SideError; OnnxError, LoadError, CaptureError.
    """
    import torch

    if isinstance(side, Graph):
        return side
    if isinstance(side, (str, os.PathLike)):
        return _named(os.fspath(side))
    if isinstance(side, torch.export.ExportedProgram):
        from graphs.capture import from_exported_program

        return from_exported_program(side)
    if isinstance(side, tuple) and len(side) == 2 and isinstance(side[0], torch.nn.Module):
        from graphs.capture import capture

        return capture(side[0], side[1])
    if type(side).__name__ == "ModelProto":
        from graphs.onnx import read

        return read(side)
    raise SideError(f"compare: a side must be {SIDES}, got {type(side).__name__}")


def _named(name: str) -> Graph:
    if name.endswith(".onnx"):
        from graphs.onnx import load

        return load(name)
    from graphs.load import load_model

    return load_model(name).capture()


__all__ = ["SIDES", "SideError", "compare", "graph_of"]
