"""The whole optimiser on one random model: captured, optimised, emitted, and compared with eager PyTorch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from costs.kernels import computed_from_constants
from costs.roofline import Roofline
from graphs.capture import CaptureError, call_arguments, capture
from graphs.emit import to_module
from graphs.evaluate import run_module
from graphs.functional import AliasError
from graphs.graph import Graph
from graphs.interface import bind_sizes, interface_of
from graphs.load import LoadError, load_model
from graphs.structure import structural_hash
from rewright.certification import usable_rules
from rewright.fuzzing.comparing import Different, Reference, must_be_equal
from rewright.fuzzing.eager import Unsuitable, compare_module, run_eager
from rewright.fuzzing.matching import check_constants, check_match, values_of
from rewright.fuzzing.programs import Program
from rewright.fuzzing.rewriting import must_cost, rewrite, take_back
from rewright.optimization import optimize
from rewrites.apply import RewriteError
from rewrites.load import load_rules
from rewrites.match import find_all
from rewrites.rule import Rule
from search.check import NumericCheckError, drawing_from
from search.objective import Objective
from verifier.verdict import Status, Verdict

OBJECTIVES = ("time", "flops", "bytes", "memory", "kernels", "time=1,memory=0.5", "flops=1,kernels=1")
KERNELS = ("none", "inductor-like", "pointwise", "copies")
DEVICES = ("h100", "a100", "l4")
EXPANSIONS = 24
"""Graphs that one optimisation expands: small models have few more."""
STEPS = 4
"""Rewrites of one walk."""
JUDGED = 12
"""Matches that are held against their rules before each."""


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


def assumed(rule: type[Rule]) -> Verdict:
    """The verdict under which a rule is tried: whether it holds is what the comparison with eager PyTorch is about."""
    return Verdict(rule.__name__, Status.TESTED, reason="assumed while the optimiser is fuzzed", content=rule.content())


@cache
def rules(file: str = "") -> tuple[type[Rule], ...]:
    """The rules of a file, or the library, with their reverses, in order."""
    return tuple(usable_rules(load_rules(file) if file else None))


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
    behaviour = behaviour or Behaviour()
    module, inputs = program.module(), program.tensors()
    others = program.tensors(extra_rows=3) if program.dynamic else None
    setting = setting or Setting.of(program.seed)
    check_module(module, inputs, program.seed, walk, setting, behaviour, prefer, allowed, others)
    return behaviour


def check_module(
    module: torch.nn.Module,
    inputs: Sequence[Tensor],
    seed: int,
    walk: bool,
    setting: Setting,
    behaviour: Behaviour,
    prefer: Sequence[str] = (),
    allowed: Callable[[str], bool] | None = None,
    others: Sequence[Tensor] | None = None,
) -> None:
    """The same for a module and inputs of it; `others` are inputs of other sizes, where these may vary.

    Raises: as `check`.
    """
    eager = run_eager(module, inputs, seed)
    graph = captured(module, inputs, dynamic=others is not None)
    check_constants(graph)
    must_be_equal("capture", eager.results, _interpreted(graph, inputs, seed))
    compare_module("emit", to_module(graph), graph, eager, inputs, seed)
    if walk:
        after = walked(graph, inputs, seed, behaviour, prefer, rules(setting.file))
    else:
        after = optimised(graph, inputs, setting, seed, behaviour, allowed)
    emitted = to_module(after)
    compare_module("optimised", emitted, graph, eager, inputs, seed, after)
    if others is None or not _takes(graph, others):
        return
    try:
        elsewhere = run_eager(module, others, seed)
    except Unsuitable:
        return
    compare_module("optimised, at other sizes", emitted, graph, elsewhere, others, seed, after)


@cache
def given_model(name: str) -> tuple[torch.nn.Module, tuple[Tensor, ...]]:
    """The module that a MODEL argument names, with its example inputs.

    Raises: LoadError; also for a model that is no module called with tensors by position.
    """
    loaded = load_model(name)
    arguments, named = call_arguments(loaded.example_inputs)
    if loaded.module is None or named or not all(isinstance(x, Tensor) for x in arguments):
        raise LoadError(f"{name}: only a module that is called with tensors by position can be fuzzed")
    return loaded.module, arguments


def check_given(name: str, seed: int, behaviour: Behaviour) -> None:
    """A model of the user's, optimised for what the seed decides, or rewritten at random.

    Raises: as `check`.
    """
    module, inputs = given_model(name)
    check_module(module, inputs, seed, seed % 2 == 1, Setting.of(seed), behaviour)


def captured(module: torch.nn.Module, inputs: Sequence[Tensor], dynamic: bool = False) -> Graph:
    """The graph of the module; with `dynamic`, the first axis of every input varies.

    Raises: Unsuitable where torch.export refuses the module; CaptureError where the graph is what cannot be made.
    """
    varying = tuple({0: torch.export.Dim.AUTO} if x.dim() and x.shape[0] > 1 else None for x in inputs) if dynamic else None
    try:
        graph = capture(module, tuple(inputs), varying)
    except CaptureError as error:
        if "torch.export refuses it" in str(error) or isinstance(error.__cause__, AliasError):
            raise Unsuitable(str(error)) from error
        raise
    graph.validate()
    return graph


def _takes(graph: Graph, inputs: Sequence[Tensor]) -> bool:
    """The graph was captured for these sizes, too."""
    own = interface_of(graph)
    try:
        bind_sizes(graph, [tuple(x.shape) for x in own.leaves(tuple(inputs), {})])
    except ValueError:
        return False
    return True


def _interpreted(graph: Graph, inputs: Sequence[Tensor], seed: int) -> Any:
    """The graph's results where gradients are recorded, as eager PyTorch's are: its attention takes another kernel there."""
    given = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    with drawing_from(seed, given):
        results = run_module(graph, *given)
    return torch.utils._pytree.tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, results)


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

    try:
        result = optimize(
            graph, tuple(inputs), device=setting.device, objective=setting.objective, kernels=setting.kernels, budget=600.0,
            rules=[rule for rule in rules(setting.file) if allowed is None or allowed(rule.__name__)], expansions=EXPANSIONS,
            certified=certified, seed=seed,
        )  # fmt: skip
    except NumericCheckError as error:
        if Reference(graph, interface_of(graph).leaves(tuple(inputs), {}), seed).shaky:
            raise Unsuitable(f"one digit decides its results: {error}") from error
        raise
    behaviour.fired.update(step.rule for step in result.steps)
    result.graph.validate()
    roofline = Roofline(setting.device, setting.kernels, _sizes(graph))
    for what, stated, of in (("before", result.before, graph), ("after", result.after, result.graph)):
        must_cost(f"cost {what}", stated, roofline.cost(of))
        check_constants(of)
    value = Objective.of(setting.objective).value(result.before)
    if value(result.after) > value(result.before) * (1 + 1e-6):
        raise Different("cost", "worse", f"{setting.objective} must not grow, got {result.before} and {result.after}")
    for one, other in zip(result.steps, result.steps[1:], strict=False):
        must_cost(f"steps {one.rule} and {other.rule}", one.cost_after, other.cost_before)
    return result.graph


def _sizes(graph: Graph) -> dict[str, int]:
    return {symbol.name: size for symbol, size in interface_of(graph).hints.items()}


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
    current = graph.copy()
    current.remove_dead()
    for _ in range(STEPS):
        matches = [match for match in find_all(among, current) if not set(match.nodes) <= computed_from_constants(current)]
        if not matches:
            break
        names = sorted({match.rule.__name__ for match in matches})
        name = next((name for name in prefer if name in names), None) or chance.choice(names)
        prefer = ()
        match = chance.choice([match for match in matches if match.rule.__name__ == name])
        values = values_of(current, reference.inputs, seed)
        for other in (match, *chance.sample(matches, min(len(matches), JUDGED))):
            check_match(other, current, values)
        digest = structural_hash(current)
        try:
            applied = rewrite(match, current, reference, expected, roofline)
        except RewriteError:
            continue
        behaviour.fired[name] += 1
        if chance.random() < 0.25:
            take_back(match, current, applied, digest)
    return current


__all__ = [
    "Behaviour", "Different", "Setting", "Unsuitable", "assumed", "check", "check_given", "check_module", "given_model", "rules", "walked",
]  # fmt: skip
