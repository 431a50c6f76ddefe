"""The last word before a graph is handed out: both graphs run on the same drawn inputs.

In float64 they must agree to 1e-10, relative to each output's largest magnitude: the rules hold over the reals, so anything more is
a fault. (The new graph is run before its constants are folded: a folded float32 weight is rounded to float32.) In the model's own
dtypes the folded graph may be no further from the float64 result than `SLACK` times the old graph's own rounding error, plus a few
units in the last place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from graphs.evaluate import evaluate
from graphs.graph import Graph
from operators.expressions import Symbol, substitute
from operators.operator import TensorType, kind_of, torch_dtype
from operators.sources import Input

FLOAT64_BOUND = 1e-10
SLACK = 8.0
"""How many times the old graph's own rounding error the new one may be off; reordering a long sum can change it this much."""
UNITS = 64.0
"""How many units in the last place, relative to the largest magnitude, are always allowed."""


class NumericCheckError(AssertionError):
    """The optimised graph differs from the original; it is not handed out. Report the rules in the step list."""


class UncheckedError(ValueError):
    """A graph that cannot be run, so that its optimised form cannot be checked; the message says why."""


def draw_inputs(graph: Graph, seed: int = 0, sizes: Mapping[str, int] | None = None) -> list[torch.Tensor]:
    """One tensor per input: normal floats, integers 0 and 1 (valid as indices and masks), booleans."""
    numbers = {Symbol(name): number for name, number in (sizes or {}).items()}
    generator = torch.Generator().manual_seed(seed)
    tensors = []
    for node in graph.inputs:
        operator = graph.operator(node)
        if not isinstance(operator, Input):
            raise UncheckedError(f"node {node} ({operator}): must be an input")
        tensors.append(_draw(operator.type, numbers, generator))
    return tensors


def _draw(type: TensorType, numbers: Mapping[Any, int], generator: torch.Generator) -> torch.Tensor:
    shape = [substitute(dim, numbers) for dim in type.shape]
    unknown = [str(dim) for dim in shape if not isinstance(dim, int)]
    if unknown:
        raise UncheckedError(f"drawing inputs: symbolic sizes need numbers, got none for {', '.join(unknown)}")
    dtype = torch_dtype(type.dtype)
    if kind_of(type.dtype) == "float":
        return torch.randn(shape, generator=generator, dtype=torch.float32).to(dtype)  # type: ignore[arg-type]
    return torch.randint(0, 2, shape, generator=generator).to(dtype)  # type: ignore[arg-type]


def with_weights(graph: Graph, seed: int = 0) -> Graph:
    """The graph itself, or where constants are without data (on the meta device) one with drawn weights."""
    if not _is_without_data(graph):
        return graph
    result = graph.copy()
    for name, tensor in graph.constants.items():
        if tensor.is_meta:
            generator = torch.Generator().manual_seed(seed + sum(map(ord, name)))
            drawn = torch.rand(tensor.shape, generator=generator) * 0.1 + 0.01
            result.constants[name] = drawn.to(tensor.dtype)
    return result


def _is_without_data(graph: Graph) -> bool:
    return any(tensor.is_meta for tensor in graph.constants.values())


def compare(
    before: Graph,
    after: Graph,
    unfolded: Graph | None = None,
    inputs: Sequence[torch.Tensor] | None = None,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
) -> dict[str, float]:
    """The largest error of `after` against `before`, in float64 and in the graph's own dtypes, relative to each output's scale.

    unfolded: `after` with constants as they were in `before`, for the comparison in float64
    Raises: NumericCheckError when the errors are not those of rounding.
    """
    given = list(inputs) if inputs is not None else draw_inputs(before, seed, sizes)
    if unfolded is not None and _is_without_data(before):
        after = unfolded
    before, after, unfolded = with_weights(before, seed), with_weights(after, seed), with_weights(unfolded or after, seed)
    with torch.no_grad():
        exact, found = _values(before, given, seed, float64=True), _values(unfolded, given, seed, float64=True)
        wide = _largest(exact, found, "float64")
        if wide > FLOAT64_BOUND:
            raise NumericCheckError(f"the optimised graph differs from the original by {wide:.3g} in float64, more than {FLOAT64_BOUND:g}")
        native_before, native_after = _values(before, given, seed), _values(after, given, seed)
        _check_native(exact, native_before, native_after)
        native = _largest(native_before, native_after, "native")
    return {"float64": wide, "native": native}


def compare_native(
    before: Graph, after: Graph, inputs: Sequence[torch.Tensor] | None = None, seed: int = 0, sizes: Mapping[str, int] | None = None
) -> float:
    """The largest error of `after` in the graph's own dtypes alone, as `compare` finds it.

    Raises: NumericCheckError when it is not that of rounding.
    """
    given = list(inputs) if inputs is not None else draw_inputs(before, seed, sizes)
    before, after = with_weights(before, seed), with_weights(after, seed)
    with torch.no_grad():
        exact = _values(before, given, seed, float64=True)
        native_before, native_after = _values(before, given, seed), _values(after, given, seed)
        _check_native(exact, native_before, native_after)
    return _largest(native_before, native_after, "native")


def _values(graph: Graph, given: Sequence[torch.Tensor], seed: int, float64: bool = False) -> list[Any]:
    with drawing_from(seed, given):
        return evaluate(graph, given, float64=float64)


@contextmanager
def drawing_from(seed: int, given: Sequence[torch.Tensor]) -> Iterator[None]:
    """Random operators draw from the seed, so that what draws alike computes alike; PyTorch's generators are left as they were."""
    with torch.random.fork_rng(devices=sorted({tensor.get_device() for tensor in given if tensor.is_cuda})):
        torch.manual_seed(seed)
        yield


def _check_native(exact: Sequence[Any], before: Sequence[Any], after: Sequence[Any]) -> None:
    for position, (reference, old, new) in enumerate(zip(exact, before, after, strict=True)):
        if old.dtype != new.dtype or old.shape != new.shape:
            raise NumericCheckError(f"output {position} must be {old.dtype}{list(old.shape)}, got {new.dtype}{list(new.shape)}")
        if not old.is_floating_point():
            if not torch.equal(old, new):
                raise NumericCheckError(f"output {position} ({old.dtype}) must be equal, and is not")
            continue
        allowed = SLACK * relative_error(reference, old) + UNITS * torch.finfo(old.dtype).eps
        error = relative_error(reference, new)
        if not error <= allowed:
            raise NumericCheckError(f"output {position} is off by {error:.3g} in {old.dtype}, more than {allowed:.3g}")


def _largest(left: Sequence[Any], right: Sequence[Any], arithmetic: str) -> float:
    if len(left) != len(right):
        raise NumericCheckError(f"the optimised graph must have {len(left)} outputs, got {len(right)}")
    return max((relative_error(a, b) for a, b in zip(left, right, strict=True)), default=0.0)


def relative_error(reference: torch.Tensor, found: torch.Tensor) -> float:
    """The largest difference relative to the reference's largest finite magnitude; infinite where NaN or inf do not agree."""
    if reference.shape != found.shape:
        return float("inf")
    if not reference.numel():
        return 0.0
    if not reference.is_floating_point():
        return 0.0 if torch.equal(reference, found) else float("inf")
    wide, other = reference.double(), found.double()
    finite = wide.isfinite()
    if not torch.equal(finite, other.isfinite()) or not torch.equal(wide.isnan(), other.isnan()):
        return float("inf")
    if not torch.equal(wide[~finite & ~wide.isnan()], other[~finite & ~wide.isnan()]):
        return float("inf")
    scale = float(wide[finite].abs().max()) if finite.any() else 1.0
    difference = float((wide - other)[finite].abs().max()) if finite.any() else 0.0
    return difference / max(scale, torch.finfo(torch.float32).tiny)
