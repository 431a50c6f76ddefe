"""Two ways to compute the same, compared: what rounding cannot explain is a difference.

Rounding is told from a wrong value by disturbing the reference: it is run some times with relative noise, far above its own rounding, on
every operand that an operator reads. Where a step, a branch or a cancellation makes the result depend on the last digits, the noise
shows it; a difference counts where it is larger than what noise does there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from graphs.evaluate import evaluate
from graphs.graph import Graph
from search.check import drawing_from, relative_error

NOISE = 2.0**-40
"""Relative noise on operands in float64: 2^12 units in the last place, more than the rounding of sums of any size drawn here."""
UNITS = {torch.float32: 64.0, torch.bfloat16: 4.0, torch.float16: 4.0}
"""Relative noise in coarser dtypes, in units in the last place of each."""
RUNS = 6
SHAKY, SHAKY_IN_COARSE_DTYPES = 2.0**-34, 0.1
"""How far, relative to a result's largest number, noise moves one on which nothing can be said (64 times the noise, in float64)."""
SLACK = 8.0
"""How many times the largest effect of the noise a difference may be."""


class Different(AssertionError):
    """Two results that must agree and do not; `stage` is where, `what` the kind of difference."""

    def __init__(self, stage: str, what: str, detail: str) -> None:
        super().__init__(f"{stage}: {what}: {detail}")
        self.stage, self.what, self.detail = stage, what, detail


def leaves(values: Any) -> list[Any]:
    """The leaves of a result."""
    return list(pytree.tree_leaves(values))


def must_be_equal(stage: str, expected: Any, found: Any) -> None:
    """Equal structure, dtypes, shapes and bits (NaN equals NaN).

    Raises: Different.
    """
    left, right = pytree.tree_flatten(expected), pytree.tree_flatten(found)
    if left[1] != right[1]:
        raise Different(stage, "structure", f"must be {left[1]}, got {right[1]}")
    for position, (a, b) in enumerate(zip(left[0], right[0], strict=True)):
        if not isinstance(a, Tensor):
            if type(a) is not type(b) or a != b:
                raise Different(stage, "value", f"result {position} must be {a!r}, got {b!r}")
            continue
        must_be_alike(stage, position, a, b)
        if not bool(((a == b) | ((a != a) & (b != b))).all()):
            raise Different(stage, "value", f"result {position} must be equal, {_worst(a, b)}")


def must_be_alike(stage: str, position: int, expected: Tensor, found: Any) -> None:
    """A tensor of the same dtype and shape.

    Raises: Different.
    """
    if not isinstance(found, Tensor) or expected.dtype != found.dtype:
        raise Different(stage, "dtype", f"result {position} must be {expected.dtype}, got {getattr(found, 'dtype', type(found).__name__)}")
    if expected.shape != found.shape:
        raise Different(stage, "shape", f"result {position} must be {list(expected.shape)}, got {list(found.shape)}")


def _worst(a: Tensor, b: Tensor) -> str:
    unequal = ~((a == b) | ((a != a) & (b != b)))
    at = tuple(int(i) for i in unequal.nonzero()[0])
    return f"differs first at {list(at)}: {a[at].item()} and {b[at].item()}"


@dataclass
class Reference:
    """A graph's results on inputs, with and without noise.

    seed: decides random operators and the noise
    """

    graph: Graph
    inputs: Sequence[Any]
    seed: int = 0
    _noisy: list[list[Any]] = field(default_factory=list)
    _real: bool | None = None

    def values(self, reading: Callable[[Any], Any] | None = None) -> list[Any]:
        """The outputs of the graph."""
        with drawing_from(self.seed, [x for x in self.inputs if isinstance(x, Tensor)]), torch.no_grad():
            if reading is None:
                return evaluate(self.graph, self.inputs)
            return evaluate(self.graph, self.inputs, reading=reading)

    @property
    def real(self) -> bool:
        """Every number that an operator reads or that comes out is finite: what holds over the reals need not hold beyond them."""
        if self._real is None:
            seen: list[bool] = []

            def reading(value: Any) -> Any:
                seen.append(_is_finite(value))
                return value

            self._real = all(map(_is_finite, self.values(reading))) and all(seen)
        return self._real

    @property
    def shaky(self) -> bool:
        """The last digits decide: noise on operands moves a result by much more than itself, or numbers are not finite."""
        if not self.real:
            return True
        pairs = [(a, run[position]) for position, a in enumerate(self.values()) for run in self.noisy() if isinstance(a, Tensor)]
        return any(relative_error(a, b) > (SHAKY if a.dtype == torch.float64 else SHAKY_IN_COARSE_DTYPES) for a, b in pairs)

    def noisy(self) -> list[list[Any]]:
        """The outputs of some disturbed runs."""
        if not self._noisy:
            for run in range(RUNS):
                generator = torch.Generator().manual_seed(self.seed * 97 + run)
                self._noisy.append(self.values(partial(disturbed, generator=generator)))
        return self._noisy


def _is_finite(value: Any) -> bool:
    return not isinstance(value, Tensor) or not value.is_floating_point() or bool(value.isfinite().all())


def disturbed(value: Any, generator: torch.Generator) -> Any:
    """A floating tensor with every element moved a little, relative to itself; anything else as it is."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    level = UNITS[value.dtype] * torch.finfo(value.dtype).eps if value.dtype in UNITS else NOISE
    noise = torch.rand(value.shape, generator=generator, dtype=torch.float64) * 2 - 1
    return (value.double() * (1 + level * noise)).to(value.dtype)


def must_agree(stage: str, reference: Reference, expected: Sequence[Any], found: Sequence[Any], other: Reference | None = None) -> None:
    """`found` is `expected` up to what rounding can do, where all numbers on the way are finite.

    other: the graph that gave `found`, whose own rounding counts as well (it may cancel where the reference does not)
    Raises: Different.
    """
    if len(expected) != len(found):
        raise Different(stage, "structure", f"{len(expected)} results are expected, got {len(found)}")
    for position, (a, b) in enumerate(zip(expected, found, strict=True)):
        if not isinstance(a, Tensor):
            if a != b:
                raise Different(stage, "value", f"result {position} must be {a!r}, got {b!r}")
            continue
        must_be_alike(stage, position, a, b)
        if bool(((a == b) | ((a != a) & (b != b))).all()) or not reference.real:
            continue
        problem = unexplained(a, b, [run[position] for run in reference.noisy()])
        if problem and other is not None and other.real:
            problem = unexplained_by_both(a, b, [run[position] for run in reference.noisy()], [run[position] for run in other.noisy()])
        if problem:
            raise Different(stage, "value", f"result {position} {problem}")


def unexplained_by_both(expected: Tensor, found: Tensor, noisy: Sequence[Tensor], noisy_found: Sequence[Tensor]) -> str:
    """As `unexplained`, where what noise does to the side that was found counts as well: it may cancel where the other does not."""
    return unexplained(expected, found, [*noisy, *(expected.double() + (run.double() - found.double()) for run in noisy_found)])


def unexplained(expected: Tensor, found: Tensor, noisy: Sequence[Tensor]) -> str:
    """What noise does not explain of the difference between two tensors, in words; empty where it explains all."""
    a, b = expected.double(), found.double()
    runs = torch.stack([run.double() for run in noisy])
    same = (a == b) | ((a != a) & (b != b))
    finite = a.isfinite() & b.isfinite()
    shaky = ~runs.isfinite().all(0) & runs.isfinite().any(0) | (runs.isfinite().all(0) & ~a.isfinite())
    shaky |= ~a.isfinite() & ((runs != a) & ~((runs != runs) & (a != a))).any(0)
    moved = (runs - a).nan_to_num(0.0, 0.0, 0.0).abs().amax(0)
    own = torch.finfo(expected.dtype).eps if expected.is_floating_point() else 0.0
    scale = a[a.isfinite()].abs().max() if bool(a.isfinite().any()) else torch.tensor(0.0, dtype=torch.float64)
    largest = moved.max() if moved.numel() else scale * 0
    allowed = SLACK * moved + 4 * own * a.nan_to_num(0.0, 0.0, 0.0).abs() + 0.01 * largest + 2.0**-48 * scale
    wrong = ~same & ~shaky & ~(finite & ((a - b).abs() <= allowed))
    if not bool(wrong.any()):
        return ""
    at = tuple(int(i) for i in wrong.nonzero()[0])
    return f"must be {a[at].item():.17g} at {list(at)}, got {b[at].item():.17g} (noise moves it by {moved[at].item():.2g})"


__all__ = [
    "RUNS", "Different", "Reference", "disturbed", "leaves", "must_agree", "must_be_alike", "must_be_equal", "unexplained",
    "unexplained_by_both",
]  # fmt: skip
