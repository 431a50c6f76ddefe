"""From a model to a faster model: capture, search under certified rules, emit, compare with the original, report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from costs.devices import Device
from costs.devices import device as find_device
from costs.kernels import Policy
from costs.kernels import policy as find_policy
from costs.measured import Measured, is_cold
from costs.roofline import Cost
from costs.runtimes import Runtime
from costs.runtimes import runtime as find_runtime
from graphs.capture import CaptureError, call_arguments, capture, from_exported_program
from graphs.emit import to_module
from graphs.evaluate import run_module
from graphs.graph import Graph
from graphs.interface import bind_sizes, interface_of
from rewright.certification import Certification, relevant, usable_rules
from rewright.layouts import LAW
from rewright.measuring import search_by_measurement
from rewright.speed import Speed
from rewright.timed import Timed
from rewrites.rule import Rule
from search.check import UNITS, drawing_from, relative_error
from search.objective import Objective
from search.result import SearchResult, Step
from search.searching import Progress, search
from verifier.verdict import Verdict


class EmissionDiffersError(AssertionError):
    """A module as captured or emitted does not compute what its graph does; nothing is handed out. Please report the model."""


@dataclass
class Result:
    """An optimised model and the evidence for it.

    `module` is called as the original is; `graph` what it computes, `original` what the model computed. `before` and `after` are
    costs on `device`; `steps` what was applied, each under a certificate (`certificates` has the verdicts by rule name).
    `module` and `graph` are what came in where the clock said that the optimised ones are slower: `speed` has the figures, `speed_note`
    says what was decided, or why nothing was timed. `profile` has both modules' kernels and times, if asked for.
    `max_error` is the largest difference from the original on the example inputs, relative to each output's largest magnitude, in float64
    and in the model's own dtypes. `seconds` is what everything took.
    """

    module: torch.nn.Module
    graph: Graph
    original: Graph
    before: Cost
    after: Cost
    steps: Sequence[Step]
    max_error: Mapping[str, float]
    seconds: float
    device: str
    objective: str
    kernels: str
    certificates: Mapping[str, Verdict] = field(default_factory=dict)
    refused: Sequence[str] = ()
    complete: bool = True
    runtime: str | None = None
    speed: Speed | None = None
    speed_note: str = ""
    profile: Mapping[str, Any] | None = None
    model: Any = None
    """The ONNX model that is handed out, where it was timed in ONNX Runtime."""
    assumed: Sequence[str] = ()
    """What holds wherever the original runs and was made use of, in sentences."""

    @property
    def gain(self) -> float:
        """How many times less the objective is: 2.0 is half."""
        start = Objective.of(self.objective).value(self.before)
        return start(self.before) / start(self.after) if start(self.after) else 1.0

    def figure(self, cost: Cost) -> float:
        """The objective's figure of a cost; for a mix, its value relative to the graph at the start."""
        weights = Objective.of(self.objective).weights
        return float(getattr(cost, weights[0][0])) if len(weights) == 1 else Objective.of(self.objective).value(self.before)(cost)

    @property
    def changed(self) -> bool:
        """What is handed out is another model than what came in."""
        return bool(self.steps)

    def as_dict(self) -> dict[str, Any]:
        """The result as docs/json.md describes it."""
        steps = [
            {
                "rule": step.rule,
                "place": step.place,
                "cost_before": self.figure(step.cost_before),
                "cost_after": self.figure(step.cost_after),
                "regression": step.regression,
                "certificate": step.certificate,
            }
            for step in self.steps
        ]
        return {
            "before": self.before.as_dict(),
            "after": self.after.as_dict(),
            "steps": steps,
            "max_error": dict(self.max_error),
            "seconds": self.seconds,
            "device": self.device,
            "objective": self.objective,
            "kernels": self.kernels,
            "complete": self.complete,
            "runtime": self.runtime,
            "speed": None if self.speed is None else self.speed.as_dict(),
            "speed_note": self.speed_note,
            "profile": self.profile,
        }

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write an HTML page: figures, steps with their evidence, and both graphs."""
        from rewright.files import write_whole
        from rewright.pages import page

        write_whole(path, page(self))

    def __repr__(self) -> str:
        return (
            f"Result({self.objective} x{self.gain:.2f} on {self.device}: {self.before} -> {self.after}; "
            f"{len(self.steps)} steps, largest error {self.max_error.get('float64', 0.0):.1e} in float64)"
        )


def optimize(
    module: torch.nn.Module | torch.export.ExportedProgram | Graph,
    example_inputs: Any = None,
    *,
    device: str | Device | None = None,
    objective: str | Mapping[str, float] = "time",
    kernels: str | Policy | None = None,
    then: str | Runtime | None = None,
    time_here: bool = True,
    allow_slower: bool = False,
    profile: bool = False,
    budget: float = 60.0,
    expansions: int = 300,
    rules: Iterable[type[Rule]] | None = None,
    require_proof: bool = False,
    dynamic_shapes: Any = None,
    seed: int = 0,
    certified: Callable[[type[Rule]], Verdict] | None = None,
    progress: Callable[[Progress], None] | None = None,
    on_rule: Callable[[str], None] = lambda name: None,
    jobs: int = 1,
    executor: Executor | None = None,
    resume: bool = False,
) -> Result:
    """The best equivalent of a model that verified rules lead to.

    module: an `nn.Module` with example inputs (a tuple, a dict of named ones, or a pair of both), an exported program, or a graph
    device: h100, if left out, or this machine where the objective is measured
    objective: `time`, `flops`, `bytes`, `memory`, `kernels` or a mix such as `time=1,memory=0.2`; `measured` is the time of kernels
    measured on this machine   budget: seconds of search
    kernels: how operators share kernels; as `then` has it, and inductor-like, if both are left out
    then: what runs the result here, `eager` or `inductor`: decides the kernels, what is measured, and in what the result is timed
    time_here: time the result beside what came in, where this machine is the one optimised for
    allow_slower: hand out the result although it is slower here than what came in   profile: count kernels and time both modules
    expansions: graphs expanded for each distinct part of the model at most
    rules: instead of the library   require_proof: use no rule that is only tested, or proved up to a size
    certified: the verdict of a rule, instead of the stored one or a fresh verification
    jobs: processes that search parts of the model at the same time, or an `executor` for them; the result is the same for any number
    resume: keep parts that were searched in the user's cache, and take those found there
    progress: hears how far the search is   on_rule: hears the name of each rule whose evidence is looked up or made
    Raises: CaptureError for a model that torch.export refuses; NumericCheckError, EmissionDiffersError rather than hand out
    something that computes another function.
    """
    started = time.perf_counter()
    # Names that mean nothing are said before a long capture.
    aim = Objective.of(objective)
    runtime = None if then is None else find_runtime(then)
    device = find_device(device or ("cpu" if aim.measured else "h100"))
    kernels = find_policy(kernels or _usual_kernels(runtime, aim))
    original, runnable = _captured(module, example_inputs, dynamic_shapes)
    inputs, sizes = _example(original, example_inputs)
    certification = Certification(certified or _verdict, require_proof, on_rule)
    usable = usable_rules(rules)
    chosen, unusable = relevant(usable, original)
    limits: dict[str, Any] = {
        "expansions": expansions,
        "seed": seed,
        "sizes": sizes,
        "inputs": inputs,
        "progress": progress,
        "jobs": jobs,
        "executor": executor,
        "store": True if resume else None,
    }
    if aim.measured:
        pricing = Measured(runtime or "eager", device, sizes, cold=is_cold(original, sizes), kernels=kernels)
        found = search_by_measurement(original, chosen, certification, pricing, aim, budget, **limits)
    else:
        found = search(original, chosen, certification, device, kernels, aim, budget, **limits)
    emitted = to_module(found.graph)
    if runnable is not None and example_inputs is not None:
        _check_ends(runnable, emitted, original, found, example_inputs)
    result = Result(
        module=emitted,
        graph=found.graph,
        original=original,
        before=found.before,
        after=found.after,
        steps=found.steps,
        max_error=found.max_error or {"float64": 0.0, "native": 0.0},
        seconds=time.perf_counter() - started,
        device=device.name,
        objective=str(aim),
        kernels=kernels.name,
        certificates={rule: verdict for rule, verdict in certification.verdicts.items() if rule in {step.rule for step in found.steps}},
        refused=[*unusable, *map(str, found.refused)],
        complete=found.complete,
        runtime=None if runtime is None else runtime.name,
    )
    if time_here:
        timed = Timed(result, runnable, example_inputs, device, inputs, sizes)
        timed.settle(partial(certification, LAW) if LAW in usable else None, allow_slower, profile)
    else:
        result.speed_note = "no speed was measured, as asked"
    if any(step.rule == LAW.__name__ for step in result.steps):
        result.certificates = {**result.certificates, LAW.__name__: certification.verdicts[LAW.__name__]}
    result.seconds = time.perf_counter() - started
    return result


def _usual_kernels(runtime: Runtime | None, aim: Objective) -> str | Policy:
    """As the runtime groups operators; kernels are measured in eager mode where none is named."""
    if runtime is not None:
        return runtime.policy
    return "none" if aim.measured else "inductor-like"


def _captured(module: Any, example_inputs: Any, dynamic_shapes: Any) -> tuple[Graph, torch.nn.Module | None]:
    """The graph, and the module that computes it where there is one."""
    if isinstance(module, Graph):
        return module, None
    if isinstance(module, torch.export.ExportedProgram):
        return from_exported_program(module), module.module()
    if example_inputs is None:
        raise CaptureError(f"{type(module).__name__}: example inputs are needed to capture a module, got none")
    return capture(module, example_inputs, dynamic_shapes), module


def _example(graph: Graph, example_inputs: Any) -> tuple[list[torch.Tensor] | None, dict[str, int]]:
    """The graph's inputs in order and the numbers of its symbolic sizes: from the example, or from capture's hints."""
    interface = interface_of(graph)
    if example_inputs is None:
        return None, {symbol.name: size for symbol, size in interface.hints.items()}
    arguments, named = call_arguments(example_inputs)
    inputs = interface.leaves(arguments, named)
    return inputs, {symbol.name: size for symbol, size in bind_sizes(graph, [tuple(tensor.shape) for tensor in inputs]).items()}


def _check_ends(module: torch.nn.Module, emitted: torch.nn.Module, original: Graph, found: SearchResult, example_inputs: Any) -> None:
    """Capture and emission themselves: the module as written agrees with its graph, and so does the emitted one.

    A model in training mode is left out: running it would update its buffers and draw random numbers.
    """
    if module.training or interface_of(original).state:
        return
    arguments, named = call_arguments(example_inputs)
    with torch.no_grad():
        for what, side, graph in (("captured", module, original), ("emitted", emitted, found.graph)):
            values, expected = (_tensors(call, arguments, named) for call in (side, partial(run_module, graph)))
            if len(values) != len(expected):
                raise EmissionDiffersError(f"the {what} module must have {len(expected)} outputs, got {len(values)}")
            for position, (value, wanted) in enumerate(zip(values, expected, strict=True)):
                allowed = UNITS * torch.finfo(value.dtype).eps if value.is_floating_point() else 0.0
                if value.dtype != wanted.dtype or not relative_error(wanted, value) <= allowed:
                    raise EmissionDiffersError(f"output {position} of the {what} module is off by {relative_error(wanted, value):.3g}")


def _tensors(call: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> list[torch.Tensor]:
    with drawing_from(0, [leaf for leaf in pytree.tree_leaves((arguments, named)) if isinstance(leaf, torch.Tensor)]):
        return [leaf for leaf in pytree.tree_leaves(call(*arguments, **named)) if isinstance(leaf, torch.Tensor)]


def _verdict(rule: type[Rule]) -> Verdict:
    from rewright.verification import Request, certificate_of

    return certificate_of(rule, Request())
