"""Smaller random models that fail in the same way: fewer results, statements and inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rewright.fuzzing.programs import Given, Program, renamed, values_in, without_dead

MOST_TRIES = 60
"""Programs that are tried; each is captured and optimised anew."""


def smallest(program: Program, fails: Callable[[Program], bool], most: int = MOST_TRIES) -> Program:
    """A program that fails as this one does and that no further cut tried makes smaller."""
    tries, shrinking = 0, True
    current = program
    while shrinking:
        shrinking = False
        for candidate in candidates(current):
            if tries >= most:
                return current
            tries += 1
            if fails(candidate):
                current, shrinking = candidate, True
                break
    return current


def candidates(program: Program) -> Iterator[Program]:
    """Smaller programs, the boldest cuts first."""
    size = _size(program)
    for candidate in _cuts(program):
        cleaned = without_dead(candidate)
        if _size(cleaned) < size:
            yield cleaned


def _size(program: Program) -> tuple[int, int, int, int, int]:
    modes = program.training + program.dynamic
    return len(program.statements), len(values_in(program.returned)), _depth(program.returned), len(program.inputs), modes


def _depth(form: Any) -> int:
    parts = form.values() if isinstance(form, dict) else form if isinstance(form, (tuple, list)) else ()
    return 1 + max(map(_depth, parts), default=0) if not isinstance(form, int) else 0


def _cuts(program: Program) -> Iterator[Program]:
    if program.training:
        yield replace(program, training=False)
    if program.dynamic:
        yield replace(program, dynamic=False)
    returned = list(dict.fromkeys(values_in(program.returned)))
    for number in returned:
        yield replace(program, returned=number)
    values = run(program)
    first = len(program.inputs)
    for number in range(first + len(program.statements) - 1, first - 1, -1):
        value = values.get(number)
        if isinstance(value, Tensor):
            if number not in returned or len(returned) > 1:
                yield as_input(program, number, value)
            for operand in program.statements[number - first].operands:
                other = values.get(operand)
                if isinstance(other, Tensor) and (other.shape, other.dtype) == (value.shape, value.dtype):
                    yield bypassed(program, number, operand)
    for number in range(first, first + len(program.statements)):
        if isinstance(values.get(number), Tensor) and number not in returned:
            yield replace(program, returned=number)


def run(program: Program) -> dict[int, Any]:
    """The program's values by number, as far as PyTorch computes them."""
    namespace: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    for line in program.imports:
        exec(line, namespace)
    namespace["self"] = program.module()
    values: dict[int, Any] = dict(enumerate(program.tensors()))
    with torch.no_grad():
        for number, statement in enumerate(program.statements, len(program.inputs)):
            namespace.update({f"v{k}": values[k] for k in statement.operands})
            exec(statement.code(number), namespace)
            values[number] = namespace[f"v{number}"]
    return values


def as_input(program: Program, number: int, value: Tensor) -> Program:
    """The program with a statement's result as one more input instead."""
    first = len(program.inputs)
    kind = "normal" if value.is_floating_point() else "bits"
    given = Given(tuple(value.shape), str(value.dtype).removeprefix("torch."), kind)
    count = first + len(program.statements)
    moved = {k: k if k < first else k + 1 for k in range(count)}
    moved[number] = first
    statements = tuple(replace(s, operands=tuple(moved[k] for k in s.operands)) for s in program.statements)
    return replace(program, inputs=(*program.inputs, given), statements=statements, returned=renamed(program.returned, moved))


def bypassed(program: Program, number: int, operand: int) -> Program:
    """The program with an operand of a statement read instead of its result."""
    moved = {k: k for k in range(len(program.inputs) + len(program.statements))} | {number: operand}
    statements = tuple(replace(s, operands=tuple(moved[k] for k in s.operands)) for s in program.statements)
    return replace(program, statements=statements, returned=renamed(program.returned, moved))


__all__ = ["MOST_TRIES", "as_input", "bypassed", "candidates", "run", "smallest"]
