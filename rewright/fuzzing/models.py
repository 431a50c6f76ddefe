"""The whole optimiser on one random model: captured, optimised, emitted, and compared with eager PyTorch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import networkx as nx
import torch
from torch import Tensor

from costs.difference import Prices, changed, free_after
from costs.kernels import computed_from_constants
from costs.roofline import Cost, Roofline
from graphs.capture import CaptureError, capture
from graphs.emit import to_module
from graphs.evaluate import evaluate
from graphs.functional import AliasError
from graphs.graph import Graph
from graphs.interface import interface_of
from graphs.structure import structural_hash
from rewright.certification import usable_rules
from rewright.fuzzing.comparing import Different, Reference, leaves, must_agree, must_be_alike, must_be_equal, unexplained
from rewright.fuzzing.programs import Program
from rewright.optimization import optimize
from rewrites.apply import RewriteError
from rewrites.load import load_rules
from rewrites.match import find_all
from rewrites.rule import Rule
from search.check import drawing_from
from search.objective import Objective
from search.sharing import apply_shared
from verifier.verdict import Status, Verdict

OBJECTIVES = ("time", "flops", "bytes", "memory", "kernels", "time=1,memory=0.5", "flops=1,kernels=1")
KERNELS = ("none", "inductor-like", "pointwise", "copies")
DEVICES = ("h100", "a100", "l4")
EXPANSIONS = 24
"""Graphs that one optimisation expands: small models have few more."""
STEPS = 4
"""Rewrites of one walk."""


class Unsuitable(Exception):
    """A model that says nothing about the optimiser: torch.export or eager PyTorch refuses it."""


@dataclass(frozen=True)
class Setting:
    """How a model is optimised: objective, kernels, device, and the file of rules that takes the library's place."""

    objective: str = "time"
    kernels: str = "none"
    device: str = "h100"
    file: str = ""

    @staticmethod
    def of(seed: int, file: str = "") -> Setting:
        """The setting that a seed decides."""
        chance = random.Random(seed)
        return Setting(chance.choice(OBJECTIVES), chance.choice(KERNELS), chance.choice(DEVICES), file)


@dataclass
class Behaviour:
    """What one check exercised: how often each rule was applied, and the rules of the last optimisation in order."""

    fired: Counter[str] = field(default_factory=Counter)
    last: list[str] = field(default_factory=list)


@dataclass
class Eager:
    """What the module as written does: results, the state it leaves, and gradients of its floating inputs."""

    results: Any
    state: dict[str, Tensor]
    gradients: list[Tensor | None]


def assumed(rule: type[Rule]) -> Verdict:
    """The verdict under which a rule is tried: whether it holds is what the comparison with eager PyTorch is about."""
    return Verdict(rule.__name__, Status.TESTED, reason="assumed while the optimiser is fuzzed", content=rule.content())


@cache
def rules(file: str = "") -> tuple[type[Rule], ...]:
    """The rules of a file, or the library, with their reverses, in order."""
    return tuple(usable_rules(load_rules(file) if file else None))


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
        if isinstance(result, Tensor) and result.requires_grad:
            weight = torch.randint(1, 4, result.shape, generator=generator).to(result.dtype)
            total = total + (result * weight).sum().double()
    wanted = [x for x in inputs if x.requires_grad]
    if not isinstance(total, Tensor) or not wanted:
        return [None] * len(wanted)
    return list(torch.autograd.grad(total, wanted, allow_unused=True))


def check(
    program: Program,
    walk: bool = False,
    setting: Setting | None = None,
    behaviour: Behaviour | None = None,
    prefer: Sequence[str] = (),
    allowed: Callable[[str], bool] | None = None,
) -> Behaviour:
    """Capture, emit, optimise (or rewrite at random, first by a preferred rule), and compare with eager PyTorch.

    allowed: which rules may be used, by name
    Raises: Different for what differs; Unsuitable for a model that says nothing; whatever the optimiser raises.
    """
    seed, behaviour = program.seed, behaviour or Behaviour()
    module, inputs = program.module(), program.tensors()
    eager = run_eager(module, inputs, seed)
    graph = captured(program, module, inputs)
    must_be_equal("capture", eager.results, _interpreted(graph, inputs, seed))
    compare_module("emit", to_module(graph), graph, eager, inputs, seed, exact=True)
    setting = setting or Setting.of(seed)
    if walk:
        after = walked(graph, inputs, seed, behaviour, prefer, rules(setting.file))
    else:
        after = optimised(graph, inputs, setting, seed, behaviour, allowed)
    emitted = to_module(after)
    compare_module("optimised", emitted, graph, eager, inputs, seed)
    if program.dynamic:
        others = program.tensors(extra_rows=3)
        try:
            elsewhere = run_eager(module, others, seed)
        except Unsuitable:
            return behaviour
        if not _takes(graph, others):
            return behaviour
        compare_module("optimised, at other sizes", emitted, graph, elsewhere, others, seed)
    return behaviour


def captured(program: Program, module: torch.nn.Module, inputs: Sequence[Tensor]) -> Graph:
    """The graph of the module.

    Raises: Unsuitable where torch.export refuses the module; CaptureError where the graph is what cannot be made.
    """
    dynamic = tuple({0: torch.export.Dim.AUTO} if x.dim() and x.shape[0] > 1 else None for x in inputs) if program.dynamic else None
    try:
        graph = capture(module, tuple(inputs), dynamic)
    except CaptureError as error:
        if "torch.export refuses it" in str(error) or isinstance(error.__cause__, AliasError):
            raise Unsuitable(str(error)) from error
        raise
    graph.validate()
    return graph


def _takes(graph: Graph, inputs: Sequence[Tensor]) -> bool:
    """The graph was captured for these sizes, too."""
    from graphs.interface import bind_sizes

    own = interface_of(graph)
    try:
        bind_sizes(graph, [tuple(x.shape) for x in own.leaves(tuple(inputs), {})])
    except ValueError:
        return False
    return True


def _interpreted(graph: Graph, inputs: Sequence[Tensor], seed: int) -> Any:
    from graphs.evaluate import run_module

    with drawing_from(seed, inputs), torch.no_grad():
        return run_module(graph, *inputs)


def compare_module(
    stage: str, module: torch.nn.Module, graph: Graph, eager: Eager, inputs: Sequence[Tensor], seed: int, exact: bool = False
) -> None:
    """An emitted module gives what the original gives: results, the state it leaves, gradients.

    Raises: Different.
    """
    given = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    with state_kept(module):
        with drawing_from(seed, given):
            results = module(*given)
        _compare_state(stage, eager, module, exact)
        gradients = gradients_of(results, given, seed)
    for position, (before, after) in enumerate(zip(inputs, given, strict=True)):
        must_be_equal(f"{stage}, input {position} after the call", before, after.detach())
    detached = torch.utils._pytree.tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, results)
    reference = Reference(graph, interface_of(graph).leaves(tuple(inputs), {}), seed)
    if exact:
        must_be_equal(stage, eager.results, detached)
    else:
        left, right = torch.utils._pytree.tree_structure(eager.results), torch.utils._pytree.tree_structure(detached)
        if left != right:
            raise Different(stage, "structure", f"must be {left}, got {right}")
        _native_agree(stage, reference, eager.results, detached)
    if module.training != bool(interface_of(graph).training):
        raise Different(stage, "mode", f"must be {'training' if interface_of(graph).training else 'eval'}")
    if reference.real:
        _compare_gradients(stage, graph, inputs, seed, eager.gradients, gradients)


def _native_agree(stage: str, reference: Reference, expected: Any, found: Any) -> None:
    """Results in the model's own dtypes; the reference's outputs are the results and the state, the results in their order."""
    interface = interface_of(reference.graph)
    places = [entry.index for entry in interface.results if hasattr(entry, "index")]
    pairs = [(a, b) for a, b in zip(leaves(expected), leaves(found), strict=True) if isinstance(a, Tensor)]
    if len(places) != len(pairs):
        raise Different(stage, "structure", f"{len(places)} tensors are returned, got {len(pairs)}")
    for position, ((a, b), place) in enumerate(zip(pairs, places, strict=True)):
        must_be_alike(stage, position, a, b)
        if not bool(((a == b) | ((a != a) & (b != b))).all()) and reference.real:
            problem = unexplained(a, b, [run[place] for run in reference.noisy()])
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
    stage: str, graph: Graph, inputs: Sequence[Tensor], seed: int, expected: Sequence[Tensor | None], found: Sequence[Tensor | None]
) -> None:
    """Gradients of the floating inputs, up to what noise on every operand does to them."""
    noisy: list[list[Tensor | None]] = []
    for position, (a, b) in enumerate(zip(expected, found, strict=True)):
        if a is None and b is None:
            continue
        shape = a if a is not None else b
        assert shape is not None
        a, b = (torch.zeros_like(shape) if x is None else x for x in (a, b))
        must_be_alike(f"{stage}, gradient", position, a, b)
        if torch.equal(a, b) or not bool(a.isfinite().all()):
            continue
        noisy = noisy or [_noisy_gradients(graph, inputs, seed, run) for run in range(6)]
        runs = [torch.zeros_like(a) if run[position] is None else run[position] for run in noisy]
        problem = unexplained(a, b, [run for run in runs if run is not None])
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


def optimised(
    graph: Graph,
    inputs: Sequence[Tensor],
    setting: Setting,
    seed: int,
    behaviour: Behaviour,
    allowed: Callable[[str], bool] | None = None,
) -> Graph:
    """The graph that the optimiser makes of it; the figures that it gives are those of the graphs.

    Raises: Different where figures are wrong; whatever the optimiser raises.
    """
    used = behaviour.last = []

    def certified(rule: type[Rule]) -> Verdict:
        used.append(rule.__name__)
        return assumed(rule)

    result = optimize(
        graph, tuple(inputs), device=setting.device, objective=setting.objective, kernels=setting.kernels, budget=600.0,
        rules=[rule for rule in rules(setting.file) if allowed is None or allowed(rule.__name__)], expansions=EXPANSIONS,
        certified=certified, seed=seed,
    )  # fmt: skip
    behaviour.fired.update(step.rule for step in result.steps)
    result.graph.validate()
    roofline = Roofline(setting.device, setting.kernels, _sizes(graph))
    for what, stated, of in (("before", result.before, graph), ("after", result.after, result.graph)):
        _must_cost(f"cost {what}", stated, roofline.cost(of))
        _must_be_free(of)
    value = Objective.of(setting.objective).value(result.before)
    if value(result.after) > value(result.before) * (1 + 1e-6):
        raise Different("cost", "worse", f"{setting.objective} must not grow, got {result.before} and {result.after}")
    for one, other in zip(result.steps, result.steps[1:], strict=False):
        _must_cost(f"steps {one.rule} and {other.rule}", one.cost_after, other.cost_before)
    return result.graph


def _sizes(graph: Graph) -> dict[str, int]:
    return {symbol.name: size for symbol, size in interface_of(graph).hints.items()}


def _must_be_free(graph: Graph) -> None:
    """What counts as known before the model runs depends on no input."""
    for node in graph.inputs:
        dependent = nx.descendants(graph.network, node) & computed_from_constants(graph)
        if dependent:
            number = min(dependent)
            raise Different("cost", "free", f"node {number} ({graph.operator(number)}) depends on input {node}")


def _must_cost(stage: str, stated: Cost, own: Cost, memory: bool = True) -> None:
    for figure in ("time", "flops", "bytes", "kernels", *(("memory",) if memory else ())):
        a, b = getattr(stated, figure), getattr(own, figure)
        if abs(a - b) > 1e-6 * max(abs(a), abs(b)) + 1e-15:
            raise Different(stage, "cost", f"{figure} must be {b}, got {a}")


def walked(
    graph: Graph, inputs: Sequence[Tensor], seed: int, behaviour: Behaviour, prefer: Sequence[str], among: Sequence[type[Rule]]
) -> Graph:
    """The graph after some rewrites chosen at random, each of which kept the outputs, the price by difference, and can be taken back.

    Raises: Different naming the rule at whose step something differs.
    """
    chance = random.Random(seed)
    reference = Reference(graph, interface_of(graph).leaves(tuple(inputs), {}), seed)
    expected = reference.values()
    roofline = Roofline("h100", "none", _sizes(graph))
    prices, current = Prices(roofline), graph.copy()
    current.remove_dead()
    for _ in range(STEPS):
        matches = [match for match in find_all(among, current) if not set(match.nodes) <= computed_from_constants(current)]
        if not matches:
            break
        names = sorted({match.rule.__name__ for match in matches})
        name = next((name for name in prefer if name in names), None) or chance.choice(names)
        prefer = ()
        match = chance.choice([match for match in matches if match.rule.__name__ == name])
        before, cost, free = structural_hash(current), roofline.cost(current, memory=False), computed_from_constants(current)
        old = current.copy()
        try:
            applied = apply_shared(match, current)
        except RewriteError:
            continue
        behaviour.fired[name] += 1
        current.validate()
        after = free_after(current, free, applied.added, applied.rewired)
        if after is not None:
            affected = prices.affected(current, applied.added, applied.rewired)
            new = prices.total(current, (*applied.added, *affected), after)
            stated = changed(cost, prices.total(old, (*applied.removed, *affected), free), new)
            _must_cost(f"{name}, cost by difference", stated, roofline.cost(current, memory=False), memory=False)
        must_agree(name, reference, expected, Reference(current, reference.inputs, seed).values())
        if chance.random() < 0.25:
            applied.undo()
            if structural_hash(current) != before:
                raise Different(name, "undo", "taking the rewrite back must give the graph as it was")
    return current


__all__ = ["Behaviour", "Different", "Setting", "Unsuitable", "assumed", "check", "rules", "walked"]
