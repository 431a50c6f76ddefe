"""An ONNX model made faster in ONNX Runtime: what rules lead to is timed there, kernel by kernel and then as whole models.

What pays depends on the runtime: which operators it fuses, in which layouts it keeps images. So the model as rules settle it, that
with further rules applied throughout, and what a search by measured kernels finds run beside one another, and the fastest is handed
out; the model that came in, where nothing is faster than it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from costs.devices import PROCESSOR
from costs.kernels import computed_from_constants
from costs.measured import Measured
from costs.onnxruntime import OnnxRuntime
from costs.roofline import Cost, Roofline
from costs.runtimes import MeasuringError, processor
from costs.timing import Comparison, interleaved
from graphs.canonical import align_weights, name_numbers
from graphs.graph import Graph
from graphs.interface import interface_of
from graphs.onnx import OnnxError, example_inputs, load, to_model
from graphs.onnx.annotation import with_shapes
from graphs.onnx.deciding import DECIDED
from graphs.onnx.joining import with_joined_padding
from graphs.passes import fold_constants, merge_common_subexpressions, remove_identities, simplify
from operators.expressions import Symbol
from rewright.certification import Certification, relevant, usable_rules
from rewright.onnx_candidates import Candidate, as_timed, is_new_view, made_possible, overall
from rewright.onnx_checking import errors_between, errors_in_runtime
from rewright.optimization import Result
from rewright.speed import Speed
from rewrites.rule import Rule
from search.certified import Admitted, Waited, admit
from search.result import Step
from search.searching import Progress, search
from search.settling import literals, settle

if TYPE_CHECKING:
    from verifier.verdict import Verdict

BETTER = 1.01
"""How many times as fast a candidate must be to take the place of another."""
SECONDS_FOR_A_RACE = 1.5
SECONDS_FOR_THE_LAST_RACE = 6.0
USUAL_SIZES = (None, 224, 320, 64, 48, 256, 640, 128, 32, 512, 16, 8, 1)
"""Numbers tried for symbolic sizes other than the first axis of an input, until the model runs; None is each size's own hint."""


class SizesError(ValueError):
    """The model does not run on inputs that can be drawn, at the sizes given or the usual ones; name the symbolic sizes that it takes."""


@dataclass
class OnnxResult(Result):
    """An optimised ONNX model: `model` is what is handed out, `candidates` what was timed on the way (the name, and how many times
    as fast as the model that came in, by the number of threads)."""

    candidates: Sequence[tuple[str, Mapping[int, float]]] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Without a step as well, where constants, sizes and branches alone were folded: then the result was run beside the original."""
        return super().changed or "onnxruntime" in self.max_error

    def as_dict(self) -> dict[str, Any]:
        found = super().as_dict()
        found["measured"] = dict(self.measured)
        found["sizes"] = dict(self.sizes)
        found["assumed"] = list(self.assumed)
        found["candidates"] = [{"name": name, "ratio": {str(n): r for n, r in ratios.items()}} for name, ratios in self.candidates]
        return found


def optimize_onnx(
    model: Graph | str | os.PathLike[str],
    *,
    sizes: Mapping[str, int] | None = None,
    threads: Sequence[int] | None = None,
    budget: float = 60.0,
    rules: Iterable[type[Rule]] | None = None,
    require_proof: bool = False,
    allow_slower: bool = False,
    seed: int = 0,
    certified: Callable[[type[Rule]], Verdict] | None = None,
    progress: Callable[[Progress], None] | None = None,
    on_rule: Callable[[str], None] = lambda name: None,
    on_candidate: Callable[[str], None] = lambda name: None,
) -> OnnxResult:
    """The fastest form of an ONNX model, a file or a graph read from one, in ONNX Runtime on this machine.

    sizes: numbers for symbolic sizes, at which it is timed; the usual ones, if left out   threads: the numbers of threads to time it
    with; one and all cores   budget: seconds of rewriting, searching and timing   allow_slower: hand out the settled model unmeasured
    Raises: OnnxError, SizesError, NumericCheckError, MeasuringError.
    """
    original = as_timed(model if isinstance(model, Graph) else load(model))
    return _Optimisation(
        original, sizes, threads, budget, rules, require_proof, allow_slower, seed, certified, progress, on_rule, on_candidate
    ).result()


class _Optimisation:
    def __init__(
        self,
        original: Graph,
        sizes: Mapping[str, int] | None,
        threads: Sequence[int] | None,
        budget: float,
        rules: Iterable[type[Rule]] | None,
        require_proof: bool,
        allow_slower: bool,
        seed: int,
        certified: Callable[[type[Rule]], Verdict] | None,
        progress: Callable[[Progress], None] | None,
        on_rule: Callable[[str], None],
        on_candidate: Callable[[str], None],
    ) -> None:
        self.started = time.perf_counter()
        self.original = original
        self.budget = budget
        self.seed = seed
        self.allow_slower = allow_slower
        self.progress, self.on_candidate = progress, on_candidate
        self.runtimes = {count: OnnxRuntime(count) for count in threads or sorted({1, os.cpu_count() or 1})}
        self.base = to_model(original)
        self.sizes, self.inputs = self._sized(sizes)
        self.certification = Certification(certified or _verdict, require_proof, on_rule)
        chosen, self.unusable = relevant(usable_rules(rules), original)
        self.waited = Waited()
        self.rules, self.refused = admit(chosen, self.certification, self.waited)
        self.roofline = Roofline("cpu", "none", self.sizes)
        self.guide = Roofline(PROCESSOR, "copies", self.sizes)  # the rates of "cpu" are PyTorch's, whose views are copies here
        self.prepared = self._prepared()
        self.before = self.roofline.cost(original)
        self.timed: list[tuple[str, Mapping[int, float]]] = []
        self.complete = True
        self.began = time.perf_counter()

    def elapsed(self) -> float:
        """Seconds since the model and the rules were read, without those in which rules were verified."""
        return time.perf_counter() - self.began - self.waited.seconds

    def out_of_time(self) -> bool:
        return self.elapsed() > self.budget

    def _sized(self, given: Mapping[str, int] | None) -> tuple[dict[str, int], list[torch.Tensor]]:
        """Numbers for the symbolic sizes at which the model runs, and inputs of these sizes."""
        for node in self.original.inputs:
            kind = self.original.types(node)[0]
            if not hasattr(torch, kind.dtype):
                name = self.original.operator(node).attributes["name"]
                raise SizesError(f"input {name}: must be a tensor of numbers of a known rank, for the model to be timed, got {kind.dtype}")
        hints = {symbol.name: size for symbol, size in interface_of(self.original).hints.items()}
        first = {
            dim.name
            for node in self.original.inputs
            for dim in self.original.types(node)[0].shape[:1]
            for dim in (getattr(dim, "symbols", None) or ())
            if isinstance(dim, Symbol)
        }
        runtime = next(iter(self.runtimes.values()))
        reason = ""
        for usual in (None,) if given or not hints else USUAL_SIZES:
            sizes = {name: 1 if name in first else (usual or hint) for name, hint in hints.items()} | dict(given or {})
            inputs = example_inputs(self.original, sizes, self.seed)
            try:
                runtime.call(self.base, inputs)
            except MeasuringError as error:
                reason = str(error)
                continue
            return sizes, inputs
        raise SizesError(f"the model must run at {', '.join(f'{n}={s}' for n, s in sizes.items()) or 'its sizes'}, got: {reason}")

    def _prepared(self) -> Graph:
        """The graph in the form that rules are written for; it computes the same bits."""
        graph = self.original.copy()
        graph.remove_dead()
        remove_identities(graph)
        merge_common_subexpressions(graph)
        name_numbers(graph, literals(self.rules))
        align_weights(graph, computed_from_constants(graph))
        return graph

    def result(self) -> OnnxResult:
        """Make candidates, time them, and hand out the fastest."""
        plain = Candidate("the model as it is", self.original, self.prepared, [], self.base)
        settled = self._settled(plain, "settled")
        best = plain
        if settled is None:
            folded = self._candidate("constants, sizes and known branches folded", self.prepared.copy(), [])
            best = folded if folded is not None and self._is_faster(folded, plain) else plain
        elif self._is_faster(settled, plain) or settled.times:
            best = settled
        best = self._with_further_rules(best)
        best = self._searched(best)
        if not self.allow_slower:
            best = self._without_rules(best)
        return self._decided(self._with_shapes(best), plain)

    def _settled(
        self, start: Candidate, name: str, tried: Sequence[type[Rule]] = (), omitted: Sequence[type[Rule]] = ()
    ) -> Candidate | None:
        """What settling makes of the prepared graph, or of a candidate with further rules, one after another; None when nothing changes."""
        graph = start.unfolded.copy()
        cost = self.roofline.cost(graph)
        steps = list(start.steps)
        done = 0

        def price(changed: Graph, settled: Any) -> None:
            nonlocal cost, done
            after = self.roofline.cost(changed)
            new = settled.steps[done:]
            for position, (rule, place, certificate) in enumerate(new):
                steps.append(Step(rule, place, cost, after if position == len(new) - 1 else cost, False, certificate))
            cost, done = after, len(settled.steps)

        alone: list[tuple[type[Rule], ...]] = [(rule,) for rule in tried]
        for further in alone or [()]:
            done = 0
            settled = settle(graph, self.rules, self.out_of_time, omitted, further, self.guide, price)
            self.complete = self.complete and settled.complete
        if len(steps) == len(start.steps):
            return None
        return self._candidate(name, graph, steps)

    def _candidate(self, name: str, graph: Graph, steps: list[Step]) -> Candidate | None:
        """The graph as a model; None, and why, when ONNX has no words for something in it."""
        self.on_candidate(name)
        graph.remove_dead()
        folded = graph.copy()
        simplify(folded)
        fold_constants(folded, lambda node: is_new_view(folded, node))
        try:
            model = to_model(folded, fold_sizes=True)
        except OnnxError as error:
            self.unusable.append(f"{name}: {error}")
            return None
        return Candidate(name, folded, graph, steps, with_joined_padding(model))

    def _with_further_rules(self, best: Candidate) -> Candidate:
        """Apply each rule marked `tried` throughout, and keep it where the whole is faster, if need be with another after it."""
        for entry in self.rules:
            if not entry.rule.tried or self.elapsed() > 0.6 * self.budget:
                continue
            candidate = self._settled(best, f"with {entry.rule.__name__}", tried=(entry.rule,))
            if candidate is None:
                continue
            if self._is_faster(candidate, best):
                best = candidate
                continue
            for rule in made_possible(self.rules, best, candidate):
                followed = self._settled(candidate, f"{candidate.name}, then {rule.__name__}", tried=(rule,))
                if followed is not None and self._is_faster(followed, best):
                    best = followed
                    break
        return best

    def _without_rules(self, best: Candidate) -> Candidate:
        """Leave out each rule that settling used in turn, and keep to it where the whole is faster."""
        kinds = {step.rule for step in best.steps}
        for entry in self._admitted(kinds):
            if not entry.rule.settles or self.out_of_time():
                continue
            start = Candidate("", self.original, self.prepared, [], self.base)
            tried = tuple(other.rule for other in self._admitted(kinds) if other.rule.tried)
            candidate = self._settled(start, f"without {entry.rule.__name__}", tried, (entry.rule,))
            if candidate is not None and self._is_faster(candidate, best, at_least=1.03):
                best = candidate
        return best

    def _with_shapes(self, best: Candidate) -> Candidate:
        """Declare the shapes of all values where sizes are symbolic, if the runtime makes something of it."""
        if not self.sizes:
            return best
        try:
            told = with_shapes(best.model)
        except OnnxError as error:  # such as shapes that the model declares wrongly
            self.unusable.append(f"{best.name}, with shapes: {error}")
            return best
        candidate = replace(best, name=f"{best.name}, with shapes", model=told, times={})
        return candidate if self._is_faster(candidate, best) else best

    def _admitted(self, names: Iterable[str]) -> list[Admitted]:
        wanted = set(names)
        return [entry for entry in self.rules if entry.rule.__name__ in wanted]

    def _searched(self, best: Candidate) -> Candidate:
        """What a search by kernels measured in the runtime finds from here."""
        left = 0.8 * self.budget - self.elapsed()
        if left < 1.0:
            return best
        runtime = list(self.runtimes.values())[-1]
        pricing = Measured(runtime, "cpu", self.sizes, cold=False)
        rules = [entry.rule for entry in self.rules]
        found = search(
            best.unfolded,
            rules,
            self.certification,
            device="cpu",
            kernels="none",
            objective="time",
            seconds=left,
            seed=self.seed,
            sizes=self.sizes,
            check=False,
            progress=self.progress,
            pricing=pricing,
        )
        if not found.steps:
            return best
        unfolded = found.unfolded if found.unfolded is not None else found.graph
        candidate = self._candidate("searched by measured kernels", unfolded.copy(), [*best.steps, *found.steps])
        return candidate if candidate is not None and self._is_faster(candidate, best) else best

    def _is_faster(self, candidate: Candidate, than: Candidate, at_least: float = BETTER) -> bool:
        """The candidate is at least so many times as fast, over all numbers of threads, and slower with none."""
        try:
            ratios = self._raced(candidate, than, SECONDS_FOR_A_RACE)
        except MeasuringError as error:
            self.unusable.append(f"{candidate.name}: {error}")
            return False
        known = {count: ratio.ratio * than.times.get(count, 1.0) for count, ratio in ratios.items()}
        candidate.times.update(known)
        self.timed.append((candidate.name, known))
        return overall(ratios) > at_least and not any(found.is_slower for found in ratios.values())

    def _raced(self, candidate: Candidate, than: Candidate, seconds: float) -> dict[int, Comparison]:
        found = {}
        for count, runtime in self.runtimes.items():
            calls = [runtime.call(one.model, self.inputs) for one in (than, candidate)]
            first, second = interleaved(calls, seconds / len(self.runtimes), fewest=5, most=101, clock=runtime.clock())
            found[count] = Comparison.of(first, second)
        return found

    def _decided(self, best: Candidate, plain: Candidate) -> OnnxResult:
        """Time the best candidate beside the model that came in once more, for longer, and decide."""
        if best.model is self.base:
            return self._handed_out(plain, None, "not handed out: nothing that was timed is faster than what came in")
        ratios = self._raced(best, plain, SECONDS_FOR_THE_LAST_RACE)
        self.timed.append((f"{best.name}, at last", {count: found.ratio for count, found in ratios.items()}))
        slower = any(found.is_slower for found in ratios.values()) or overall(ratios) < BETTER
        said = "; ".join(
            f"{found.ratio:.2f}x with {count} thread{'s' * (count > 1)} ({found.before * 1e3:.2f} -> {found.after * 1e3:.2f} ms)"
            for count, found in ratios.items()
        )
        if slower and not self.allow_slower:
            return self._handed_out(plain, ratios, f"not handed out, what came in is as fast: {said} in onnxruntime")
        return self._handed_out(best, ratios, f"handed out: {said} in onnxruntime")

    def _errors(self, best: Candidate) -> dict[str, float]:
        """The largest differences from the original; see docs/json.md.

        Raises: NumericCheckError.
        """
        errors = errors_between(self.original, self.prepared, best.graph, best.unfolded, self.inputs, self.seed, self.sizes)
        runtime = next(iter(self.runtimes.values()))
        return errors | errors_in_runtime(self.original, self.base, best.model, runtime, self.inputs)

    def _handed_out(self, best: Candidate, ratios: Mapping[int, Comparison] | None, note: str) -> OnnxResult:
        changed = best.model is not self.base
        errors = self._errors(best) if changed else {"float64": 0.0, "native": 0.0}
        after = self.roofline.cost(best.graph)
        speed, measured = None, {}
        before: Cost = self.before
        if ratios is not None:
            count, found = list(ratios.items())[-1]
            machine = f"{processor()}, {count} threads, onnxruntime {self.runtimes[count].versions()['onnxruntime']}"
            speed = Speed("onnxruntime", machine, found.before, found.after, found.ratio, found.low, found.high, 0, found.is_slower)
            measured = {
                str(n): {"before": one.before, "after": one.after, "ratio": one.ratio, "low": one.low, "high": one.high}
                for n, one in ratios.items()
            }
            before = replace(before, time=found.before)
            after = replace(after, time=found.after if changed else found.before)
        used = {step.rule for step in best.steps}
        return OnnxResult(
            module=None,  # type: ignore[arg-type]
            graph=best.graph,
            original=self.original,
            before=before,
            after=after,
            steps=best.steps,
            max_error=errors,
            seconds=time.perf_counter() - self.started,
            device="cpu",
            objective="time",
            kernels="none",
            certificates={rule: verdict for rule, verdict in self.certification.verdicts.items() if rule in used},
            refused=[*self.unusable, *map(str, self.refused)],
            complete=self.complete,
            runtime="onnxruntime",
            speed=speed,
            speed_note=note,
            model=best.model,
            candidates=self.timed,
            sizes=self.sizes,
            measured=measured,
            assumed=self.original.metadata.get(DECIDED, ()) if changed else (),
        )


def _verdict(rule: type[Rule]) -> Verdict:
    from rewright.verification import Request, certificate_of

    return certificate_of(rule, Request())


__all__ = ["Candidate", "OnnxResult", "SizesError", "optimize_onnx"]
