"""Capturing PyTorch modules as graphs, through torch.export."""

from __future__ import annotations

import contextlib
import io
import linecache
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from graphs.functional import AliasError, NotFunctional, detach_regions, prepare
from graphs.graph import Graph
from graphs.translation import CaptureError, Translation, line_of


def capture(module: torch.nn.Module, example_inputs: Any, dynamic_shapes: Any = None) -> Graph:
    """The graph of a module: weights as constants under their names, buffers that it updates as inputs.

    `example_inputs` is a tuple of positional arguments, a mapping of named ones, or a pair (tuple, dict) of both;
    `dynamic_shapes` is torch.export's. Use a batch of at least 2 where the batch is dynamic.
    Raises: CaptureError when torch.export refuses the module.
    """
    arguments, named = call_arguments(example_inputs)
    try:
        # On refusal torch prints the graph so far; the reason says more.
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            program = torch.export.export(module, arguments, named, dynamic_shapes=dynamic_shapes)
    except Exception as error:
        raise CaptureError(f"{type(module).__name__}: torch.export refuses it: {reason_of(error)}") from error
    return from_exported_program(program, module)


def call_arguments(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and named arguments from the forms `capture` takes."""
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    if isinstance(example_inputs, (tuple, list)):
        parts = tuple(example_inputs)
        if len(parts) == 2 and isinstance(parts[0], tuple) and isinstance(parts[1], dict) and all(isinstance(key, str) for key in parts[1]):
            return parts[0], dict(parts[1])
        return parts, {}
    return (example_inputs,), {}


def reason_of(error: BaseException) -> str:
    """An exception from inside torch as one sentence: its first line and the innermost line of the user's own code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_library(frame.filename)]
    if not frames:
        return reason
    frame = frames[-1]
    code = (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()
    return f"{reason} (at {frame.filename}:{frame.lineno}: {code})"


def _is_library(path: str) -> bool:
    here = str(Path(__file__).resolve().parent)
    return path.startswith((here, "<")) or any(f"{part}site-packages" in path for part in ("/", "\\")) or "/lib/python3" in path


def from_exported_program(program: torch.export.ExportedProgram, module: torch.nn.Module | None = None) -> Graph:
    """The graph of an exported program; tensors are taken from the module, where given, so that they stay the same objects.

    Raises: CaptureError for a program with parts that no graph can hold (control flow, data-dependent sizes).
    """
    try:
        return Translation(program, module).graph_of_program()
    except NotFunctional:
        try:
            prepare(program.graph)
        except AliasError as error:
            raise CaptureError(f"{error.node.name}: {error}{line_of(error.node)}") from error
        if module is not None and module.training:
            detach_regions(program.graph)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            functional = program.run_decompositions(decomp_table={})
        return Translation(functional, module).graph_of_program()


__all__ = ["CaptureError", "call_arguments", "capture", "from_exported_program", "reason_of"]
