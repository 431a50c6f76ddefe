"""The mutation self-test: a mutant that plain evaluation shows to be wrong may not be proved.

Mutants are made of either side of a rule, and by leaving a condition out. Both sides run in float64 on a few instances of the rule; a
mutant whose outputs differ there is wrong, and the prover is asked all the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from graphs.evaluate import apply_operator, default_dtype, widened_operator
from graphs.graph import Graph, Value
from graphs.trace import TraceError
from operators.expressions import Symbol
from operators.formulas import Formula, Truth
from operators.operator import ShapeError
from operators.sources import Constant, Input
from rewrites.cases import Case, TracedCase, cases, trace_case
from rewrites.rule import Rule
from verifier.instances import Ground, Instance, Space
from verifier.mutants import Mutant, mutants, text, without_conditions
from verifier.proof.conditions import bounds_from
from verifier.proof.facts import attribute_facts, flattened, size_facts
from verifier.proof.prove import Proof, at_least_one, prove
from verifier.sizes import evaluator
from verifier.values import DISTINCT, ORDINARY, POSITIVE, SMALL

_PLACES = 6
_CASES = 4


@dataclass(frozen=True)
class Trial:
    """One mutant: `wrong` says how it was seen to be wrong (nothing where it was not), `proof` what the prover said."""

    rule: type[Rule]
    change: str
    wrong: str
    proof: Proof

    @property
    def proved_wrongly(self) -> bool:
        """It is wrong, and it is proved."""
        return bool(self.wrong) and self.proof.proved


@dataclass
class Bench:
    """One case of a rule, with instances on which its pattern has run."""

    rule: type[Rule]
    traced: TracedCase
    seed: int = 0
    runs: list[tuple[Instance, list[Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        space = Space(self.rule, self.seed)
        ground = Ground(self.rule, self.traced.case, self.seed)
        spoken_of = [*self.traced.facts, *self.traced.narrowed, *size_facts(self.traced.pattern), *attribute_facts(self.traced.pattern)]
        holds = [evaluator(fact) for fact in flattened(spoken_of)]
        inside = [sizes for sizes in ground.pool if all(hold(sizes) for hold in holds) and ground.shapes(sizes, 4000) is not None]
        larger = [sizes for sizes in inside if all(size >= 2 for size in sizes.values())] or inside
        chance = random.Random(self.seed)
        places = [*inside[:2], *chance.sample(larger, min(_PLACES - 2, len(larger))), *larger[:1] * 2]
        for position, sizes in enumerate(places):
            values = (ORDINARY, SMALL, DISTINCT, POSITIVE)[position % 4]
            instance = space.build(ground, sizes, values, space.families[0], self.seed + position)
            if instance is not None:
                try:
                    outputs = computed(self.traced.pattern, instance)
                except Uncallable:
                    continue
                if outputs is not None:
                    self.runs.append((instance, outputs))

    def fault(self, mutant: Graph, required: Sequence[Truth] = (), least: int = 0) -> str:
        """How a graph is seen to differ from the pattern at sizes of at least `least`; nothing where it is not."""
        for instance, expected in self.runs:
            if least and min(instance.sizes.values(), default=least) < least:
                continue
            where = ", ".join(f"{name} = {size}" for name, size in instance.sizes.items())
            if any(isinstance(statement, Formula) and not evaluator(statement)(instance.sizes) for statement in required):
                return f"is not well-formed at {where}"
            try:
                outputs = computed(mutant, instance)
            except Uncallable:
                continue
            if outputs is None:
                return f"raises at {where}"
            if len(outputs) != len(expected) or any(_differ(a, b) for a, b in zip(expected, outputs, strict=True)):
                return f"differs at {where}"
        return ""

    def tried(self, mutant: Mutant, seconds: float, seconds_when_wrong: float) -> Trial:
        """The mutant, tested and given to the prover."""
        traced = self.traced
        bounds = [bound for condition in traced.value_conditions for bound in bounds_from(condition)]
        wrong = self.fault(mutant.graph, mutant.required)
        filled = self.fault(mutant.graph, mutant.required, least=1) if wrong else ""
        facts: list[Truth] = [*traced.facts]
        if filled:  # what is proved for all sizes is proved for those of at least 1: one attempt is enough
            facts += at_least_one(flattened([*facts, *size_facts(traced.pattern), *attribute_facts(traced.pattern)]))
        proof = prove(traced.pattern, mutant.graph, facts, bounds, mutant.required, seconds_when_wrong if wrong else seconds)
        return Trial(self.rule, mutant.change, filled if proof.proved and "all sizes ≥ 1" in proof.scope else wrong, proof)


class Uncallable(Exception):
    """torch has no call of this form (a number in the place of a tensor), so that running tells nothing of the mutant."""


def computed(graph: Graph, instance: Instance) -> list[Any] | None:
    """What a graph computes of an instance, in float64 where it computes in floating point; nothing where torch refuses.

    Raises: Uncallable.
    """
    sizes = {Symbol(name): size for name, size in instance.sizes.items()}
    arguments = dict(zip(instance.rule.signature().names, instance.arguments(), strict=True))
    known: dict[Value, Any] = {}
    try:
        with default_dtype(torch.float64):
            for node in graph.topological_order():
                operator = graph.operator(node)
                if isinstance(operator, Input):
                    known[Value(node)] = arguments[operator.name]
                elif isinstance(operator, Constant):
                    tensor = graph.constants[operator.name]
                    known[Value(node)] = tensor.double() if tensor.is_floating_point() else tensor
                else:
                    operands = [None if operand is None else known[operand] for operand in graph.operands(node)]
                    known.update(apply_operator(node, widened_operator(operator), operands, sizes))
        return [known[value] for value in graph.outputs]
    except (TypeError, NotImplementedError) as error:
        raise Uncallable(str(error)) from error
    except (RuntimeError, IndexError, ValueError, ArithmeticError):
        return None  # sizes or positions that torch does not take


def _differ(expected: Any, found: Any) -> bool:
    """The outputs differ in shape, or at an element at which both are finite, by more than float64 rounds."""
    one, other = torch.as_tensor(expected), torch.as_tensor(found)
    if one.shape != other.shape:
        return True
    if one.dtype != other.dtype:
        return (one.dtype.is_floating_point, one.dtype == torch.bool) != (other.dtype.is_floating_point, other.dtype == torch.bool)
    if not one.dtype.is_floating_point:
        return bool((one != other).any())
    finite = one.isfinite() & other.isfinite()
    one, other = one[finite], other[finite]
    return bool(((one - other).abs() > 1e-6 * (1 + one.abs() + other.abs())).any())


def trials(rule: type[Rule], count: int, seed: int = 0, seconds: float = 3.0, seconds_when_wrong: float = 0.3) -> Iterator[Trial]:
    """About `count` different mutants of the rule: in a few of its cases, of either side, and without each condition."""
    chance = random.Random(seed)
    chosen = list(cases(rule))
    chosen = chance.sample(chosen, min(_CASES, len(chosen)))
    benches = [Bench(rule, trace_case(rule, case), seed) for case in chosen]
    benches = [bench for bench in benches if bench.runs] or benches
    done = 0
    for sentence, weaker in without_conditions(rule):
        trial = _without(sentence, weaker, chance, seconds, seconds_when_wrong)
        if trial is not None:
            done += 1
            yield trial
    sources = [(bench, graph) for bench in benches for graph in (bench.traced.replacement, bench.traced.pattern)]
    seen = [{text(bench.traced.pattern), text(bench.traced.replacement)} for bench, _ in sources]
    found: list[tuple[int, Graph]] = []

    def tried(position: int, graph: Graph, count: int) -> Iterator[Trial]:
        """Mutants of a graph that stands for a source's, none like one before."""
        for mutant in mutants(graph, count, chance.randrange(10**6)):
            if (look := text(mutant.graph)) not in seen[position]:
                seen[position].add(look)
                found.append((position, mutant.graph))
                yield sources[position][0].tried(mutant, seconds, seconds_when_wrong)

    first = done
    for position, (_, graph) in enumerate(sources):
        yield from tried(position, graph, -(-max(0, count - first - len(found)) // (len(sources) - position)))
    for position, graph in found:  # small graphs have few changes: two at once, or more; the list grows as it is read
        if first + len(found) >= count:
            break
        yield from tried(position, graph, 2)


def _without(sentence: str, weaker: type[Rule], chance: random.Random, seconds: float, seconds_when_wrong: float) -> Trial | None:
    """The rule without one of its conditions, in one of its cases."""
    found: list[Case] = list(cases(weaker))
    if not found:
        return None
    try:
        traced = trace_case(weaker, chance.choice(found))
    except (ShapeError, TraceError):
        return None
    mutant = Mutant(traced.replacement, traced.replacement_requires, f"without the condition “{sentence}”")
    return Bench(weaker, traced, chance.randrange(100)).tried(mutant, seconds, seconds_when_wrong)


__all__ = ["Bench", "Trial", "computed", "trials"]
