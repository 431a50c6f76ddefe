"""A random model as eager PyTorch runs it, and an emitted module held against it: results, state, gradients, mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphs.evaluate import evaluate
from graphs.graph import Graph
from graphs.interface import interface_of
from rewright.fuzzing.comparing import RUNS, Different, Reference, leaves, must_be_alike, must_be_equal, unexplained, unexplained_by_both
from search.check import drawing_from


class Unsuitable(Exception):
    """A model that says nothing about the optimiser: torch.export or eager PyTorch refuses it."""


@dataclass
class Eager:
    """What the module as written does: results, the state it leaves, and gradients of its floating inputs."""

    results: Any
    state: dict[str, Tensor]
    gradients: list[Tensor | None]


def run_eager(module: torch.nn.Module, inputs: Sequence[Tensor], seed: int) -> Eager:
    """The module on copies of the inputs, forwards and backwards; its buffers are put back.

    Raises: Unsuitable when PyTorch refuses it.
    """
    given = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    with state_kept(module):
        try:
            with drawing_from(seed, given):
                results = module(*given)
        except (RuntimeError, IndexError, ValueError) as error:
            raise Unsuitable(f"eager PyTorch refuses it: {error}") from error
        state = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
        gradients = gradients_of(results, given, seed)
    detached = torch.utils._pytree.tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, results)
    return Eager(detached, state, gradients)


@contextmanager
def state_kept(module: torch.nn.Module) -> Iterator[None]:
    """Whatever the block does to the module's buffers and weights is taken back."""
    before = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, tensor in module.state_dict(keep_vars=True).items():
                tensor.copy_(before[name])


def gradients_of(results: Any, inputs: Sequence[Tensor], seed: int) -> list[Tensor | None]:
    """Gradients of a sum of the results, weighted by drawn numbers, for the floating inputs."""
    generator = torch.Generator().manual_seed(seed + 7)
    total: Any = 0.0
    for result in leaves(results):
        if isinstance(result, Tensor):
            # Drawn for every result, so that one which is a constant on one side only leaves the others' weights alone.
            weight = torch.randint(1, 4, result.shape, generator=generator)
            if result.requires_grad:
                total = total + (result * weight.to(result.dtype)).sum().double()
    wanted = [x for x in inputs if x.requires_grad]
    if not isinstance(total, Tensor) or not wanted:
        return [None] * len(wanted)
    return list(torch.autograd.grad(total, wanted, allow_unused=True))


def compare_module(
    stage: str, module: torch.nn.Module, graph: Graph, eager: Eager, inputs: Sequence[Tensor], seed: int, rewritten: Graph | None = None
) -> None:
    """An emitted module gives what the original gives: results, the state it leaves, gradients.

    rewritten: the graph it was emitted from, where that is another than the original's `graph`: then it may round in other ways
    Raises: Different.
    """
    given = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    with state_kept(module):
        with drawing_from(seed, given):
            results = module(*given)
        _compare_state(stage, eager, module, exact=rewritten is None)
        gradients = gradients_of(results, given, seed)
    for position, (before, after) in enumerate(zip(inputs, given, strict=True)):
        must_be_equal(f"{stage}, input {position} after the call", before, after.detach())
    detached = torch.utils._pytree.tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, results)
    reference, other = (Reference(g, interface_of(g).leaves(tuple(inputs), {}), seed) for g in (graph, rewritten or graph))
    if rewritten is None:
        must_be_equal(stage, eager.results, detached)
    else:
        left, right = torch.utils._pytree.tree_structure(eager.results), torch.utils._pytree.tree_structure(detached)
        if left != right:
            raise Different(stage, "structure", f"must be {left}, got {right}")
        _native_agree(stage, reference, other, eager.results, detached)
    if module.training != bool(interface_of(graph).training):
        raise Different(stage, "mode", f"must be {'training' if interface_of(graph).training else 'eval'}")
    if reference.real:
        _compare_gradients(stage, (graph, rewritten or graph), inputs, seed, eager.gradients, gradients)


def _native_agree(stage: str, reference: Reference, other: Reference, expected: Any, found: Any) -> None:
    """Results in the model's own dtypes; both graphs' outputs are the results and the state, the results in their order."""
    places, elsewhere = ([e.index for e in interface_of(r.graph).results if hasattr(e, "index")] for r in (reference, other))
    pairs = [(a, b) for a, b in zip(leaves(expected), leaves(found), strict=True) if isinstance(a, Tensor)]
    if len(places) != len(pairs):
        raise Different(stage, "structure", f"{len(places)} tensors are returned, got {len(pairs)}")
    for position, ((a, b), place, its) in enumerate(zip(pairs, places, elsewhere, strict=True)):
        must_be_alike(stage, position, a, b)
        if not bool(((a == b) | ((a != a) & (b != b))).all()) and reference.real:
            problem = unexplained(a, b, [run[place] for run in reference.noisy()])
            if problem and other.real:
                problem = unexplained_by_both(a, b, [run[place] for run in reference.noisy()], [run[its] for run in other.noisy()])
            if problem:
                raise Different(stage, "value", f"result {position} {problem}")


def _compare_state(stage: str, eager: Eager, module: torch.nn.Module, exact: bool) -> None:
    """Buffers after the call; weights that were folded away or made are no longer to be compared."""
    found = module.state_dict()
    for name, expected in eager.state.items():
        if name not in found:
            if exact:
                raise Different(stage, "state", f"{name} is missing")
            continue
        after = found[name]
        same = expected.shape == after.shape and expected.dtype == after.dtype
        error = 0.0 if exact or not expected.is_floating_point() else 64 * torch.finfo(expected.dtype).eps
        if not same or not torch.allclose(expected, after, rtol=error, atol=error, equal_nan=True):
            raise Different(stage, "effects", f"{name} after the call must be {expected.tolist()}, got {after.tolist()}")


def _compare_gradients(
    stage: str, graphs: tuple[Graph, Graph], inputs: Sequence[Tensor], seed: int, expected: Sequence[Tensor | None],
    found: Sequence[Tensor | None],
) -> None:  # fmt: skip
    """Gradients of the floating inputs, up to what noise on every operand of either graph does to them."""
    noisy: dict[int, list[list[Tensor | None]]] = {}

    def runs(side: int, position: int, like: Tensor) -> list[Tensor]:
        if side not in noisy:
            noisy[side] = [_noisy_gradients(graphs[side], inputs, seed, run) for run in range(RUNS)]
        return [torch.zeros_like(like) if (moved := run[position]) is None else moved for run in noisy[side]]

    for position, (a, b) in enumerate(zip(expected, found, strict=True)):
        if a is None and b is None:
            continue
        shape = a if a is not None else b
        assert shape is not None
        a, b = (torch.zeros_like(shape) if x is None else x for x in (a, b))
        must_be_alike(f"{stage}, gradient", position, a, b)
        if torch.equal(a, b) or not bool(a.isfinite().all()):
            continue
        problem = unexplained(a, b, runs(0, position, a))
        if problem:
            problem = unexplained_by_both(a, b, runs(0, position, a), runs(1, position, a))
        if problem:
            raise Different(f"{stage}, gradient", "gradient", f"of input {position} {problem}")


def _noisy_gradients(graph: Graph, inputs: Sequence[Tensor], seed: int, run: int) -> list[Tensor | None]:
    """Gradients of the graph with noise on its operands, zeros included: at a kink each run may choose its own side."""
    generator = torch.Generator().manual_seed(seed * 89 + run)
    given = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]

    def reading(value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        level = 2.0**-20 if value.dtype == torch.float64 else 16 * torch.finfo(value.dtype).eps
        noise = torch.rand(value.shape, generator=generator, dtype=torch.float64) * 2 - 1
        more = torch.rand(value.shape, generator=generator, dtype=torch.float64) * 2 - 1
        return value * (1 + level * noise).to(value.dtype) + (level * 2.0**-10 * more).to(value.dtype)

    interface = interface_of(graph)
    with drawing_from(seed, given):
        outputs = evaluate(graph, interface.leaves(tuple(given), {}), reading=reading)
    results = [outputs[entry.index] for entry in interface.results if hasattr(entry, "index")]
    return gradients_of(results, given, seed)


__all__ = ["Eager", "Unsuitable", "compare_module", "run_eager"]
