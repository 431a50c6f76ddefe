"""One rule: fresh random tests, its proof against plain evaluation, wrong variants that must not be proved, and its own application."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import torch

from costs.roofline import Roofline
from graphs.graph import Graph, Value
from graphs.structure import structural_hash
from graphs.trace import Proxy, RecordingFactories, TraceError, trace
from operators.operator import ShapeError, TensorType
from rewright.fuzzing.comparing import Different, Reference
from rewright.fuzzing.finding import Problem
from rewright.fuzzing.matching import check_constants, check_match, values_of
from rewright.fuzzing.rewriting import near, rewrite, take_back
from rewrites.apply import RewriteError
from rewrites.cases import Case, cases, speaks_of_sizes, trace_case
from rewrites.library import library
from rewrites.match import find_matches
from rewrites.ranks import speaks_of
from rewrites.rule import Rule
from verifier.gradients import TAIL as GRADIENT_TAIL
from verifier.gradients import compare_gradients
from verifier.instances import Instance, Space
from verifier.mutants import mutants, without_conditions
from verifier.proof.conditions import bounds_from
from verifier.proof.consistency import compare_normal_forms
from verifier.proof.prove import prove
from verifier.proof.refute import Refuter
from verifier.proof.rules import prove_case
from verifier.refuting import counterexample
from verifier.testing import Failure, run_tests
from verifier.values import ORDINARY, draw_number, draw_values
from verifier.verify import standard_of

PROOF_SECONDS = 4.0
"""A proof that takes longer is left."""
MUTANTS = 3
"""Wrong variants tried in one task."""
PLACES = 5
"""Instances on which a rule may fire in one task."""
MISSES = 2
"""Instances that meet all conditions of the rule but one."""
FIRES_NOWHERE = "fires nowhere on its own pattern"


def check_tests(rule: type[Rule], seed: int, examples: int) -> Problem | None:
    """The rule's random tests from this seed, and its gradients where it may be used in training."""
    space = Space(rule, seed)
    if not space.usable:
        return None
    report = run_tests(rule, space, standard_of(rule, space), examples, seed)
    failure = report.failure
    if failure is None and rule.trainable and report.examples:
        failure = compare_gradients(rule, space, examples, seed, float("inf")).failure
        if failure is not None:
            return _refuted(failure, seed, GRADIENT_TAIL)
    return None if failure is None else _refuted(failure, seed)


def _refuted(failure: Failure, seed: int, tail: str | None = None) -> Problem:
    found = counterexample(failure.instance, failure.difference, failure.examples, seed, tail)
    return Problem(f"{found.rule} is refuted: {found.kind}", f"{found.rule} is refuted\n{found}", found.script)


def check_proof(rule: type[Rule], seed: int, file: str = "") -> Problem | None:
    """A case of the rule as the prover sees it, and as plain evaluation does; then some wrong variants."""
    chance = random.Random(seed)
    traced = trace_case(rule, chance.choice(list(cases(rule))))
    bounds = [bound for condition in traced.value_conditions for bound in bounds_from(condition)]
    proof = prove_case(traced, timeout=PROOF_SECONDS)
    script = _script(
        f"{rule.__name__}: the proof against plain evaluation", f"check_proof(rule_named({rule.__name__!r}, {file!r}), {seed})"
    )
    found = compare_normal_forms(traced, proof, seed)
    if found.difference:
        return Problem("a normal form has another value than its elements", f"{rule.__name__}: {found.difference}", script)
    pairs = [("the rule itself", traced.replacement, proof)]
    for mutant in mutants(traced.replacement, MUTANTS, chance.randrange(10**6)):
        pairs.append((mutant.change, mutant.graph, prove(traced.pattern, mutant.graph, traced.facts, bounds, mutant.required, 2.0)))
    for change, graph, verdict in pairs:
        if not verdict.proved:
            continue
        model = Refuter(traced.pattern, graph, traced.facts, bounds, seed=seed).model(draws=12)
        if model is not None and not ("all sizes ≥ 1" in verdict.scope and 0 in model.sizes.values()):
            what = f"{rule.__name__}, {change}: PROVED, and plain evaluation differs {model}\n{traced.pattern}\n\n{graph}"
            return Problem("proved and wrong", what, script)
    return None


def _script(what: str, call: str) -> str:
    """Code that makes one of this module's checks again; exit status 1 when it still finds a problem."""
    lines = [f'"""{what}."""', "", "import sys", "from collections import Counter", ""]
    lines += ["from rewright.fuzzing.rules import check_firing, check_proof, rule_named", "", f"problem = {call}"]
    lines += ["print(problem.text if problem else 'no difference')", "sys.exit(problem is not None)", ""]
    return "\n".join(lines)


@cache
def _named(file: str) -> dict[str, type[Rule]]:
    from rewright.certification import usable_rules
    from rewrites.load import load_rules

    return {rule.__name__: rule for rule in usable_rules(load_rules(file) if file else None)}


def rule_named(name: str, file: str = "") -> type[Rule]:
    """The rule, or reverse of a rule, of this name: the file's, or the library's.

    Raises: KeyError.
    """
    return _named(file)[name]


def graph_of(instance: Instance, rule: type[Rule]) -> tuple[Graph, list[torch.Tensor]]:
    """The rule's pattern over inputs of these sizes, and tensors for them; what must be constant, or has a condition, is constant."""
    graph, inputs, arguments = Graph(), [], []
    spoken = {name for condition in rule.requires if not speaks_of_sizes(rule, condition) for name in condition.names}
    fixed = {v.name for v in rule.signature().tensors if v.weight} | spoken
    for name, value in instance.named.items():
        if not isinstance(value, torch.Tensor):
            arguments.append(value)
        elif name in fixed:
            arguments.append(Proxy(graph, graph.constant(name, value)))
        else:
            kind = TensorType(tuple(value.shape), str(value.dtype).removeprefix("torch."))
            arguments.append(Proxy(graph, graph.input(name, kind)))
            inputs.append(value)
    with RecordingFactories(graph):
        graph.outputs = trace(rule.pattern, arguments, graph)
    return graph, inputs


def check_firing(rule: type[Rule], seed: int, fired: Counter[str], file: str = "") -> Problem | None:
    """The rule on graphs of its own pattern and on graphs near to those: it fires, each match is one, and the outputs stay what they were.

    file: where the rule is from   That a rule of the library fires nowhere is a problem, too; some reverses fit few graphs.
    """
    script = _script(
        f"{rule.__name__} on graphs of its own pattern", f"check_firing(rule_named({rule.__name__!r}, {file!r}), {seed}, Counter())"
    )
    chance = random.Random(seed)
    matched = tried = 0
    for instance, whole in itertools.chain(_instances(rule, seed, chance), _misses(rule, seed, chance)):
        try:
            graph, inputs = graph_of(instance, rule)
        except (TraceError, ShapeError, RuntimeError, IndexError, ValueError):
            continue
        hosts = [(graph, inputs, True)]
        nearby = near(graph, inputs, chance)
        if nearby is not None:
            hosts.append((*nearby, False))
        for host, tensors, own in hosts:
            inner = chance.random() < 0.3
            if inner:
                _return_inner(host, chance)
            try:
                found = _fires(rule, host, tensors, seed, fired, own)
            except Different as error:
                text = f"{error}\nat {instance.sizes} {instance.attributes}\n{host}"
                return Problem(f"{rule.__name__} {_CAUSES.get(error.what, 'changes the outputs')}", text, script)
            if found is not None and own and whole and not inner and (found or _is_proved(instance)):
                tried += 1
                matched += found
    if rule in library() and tried >= 3 and not matched:
        return Problem(FIRES_NOWHERE, f"{rule.__name__} fires on none of {tried} graphs of its own pattern", script)
    return None


def _instances(rule: type[Rule], seed: int, chance: random.Random) -> Iterator[tuple[Instance, bool]]:
    """Instances of the rule, some of them changed; and whether each is as the rule has it."""
    space = Space(rule, seed)
    places = [place for place in space.places if all(place[1].values())]
    for ground, sizes in chance.sample(places, min(PLACES, len(places))):
        instance = space.build(ground, sizes, ORDINARY, space.families[0], chance.randrange(10**6))
        if instance is not None:
            whole = chance.random() < 0.5
            yield (instance if whole else _changed(instance, space, chance)), whole


def _misses(rule: type[Rule], seed: int, chance: random.Random) -> Iterator[tuple[Instance, bool]]:
    """Instances of the rule without one of its conditions, which they need not meet."""
    weaker = [other for _, other in without_conditions(rule)]
    if not weaker:
        return
    space = Space(chance.choice(weaker), seed, most_cases=4)
    places = [place for place in space.places if all(place[1].values())]
    for ground, sizes in chance.sample(places, min(MISSES, len(places))):
        instance = space.build(ground, sizes, ORDINARY, space.families[0], chance.randrange(10**6))
        if instance is not None:
            yield instance, False


def _is_proved(instance: Instance) -> bool:
    """The rule's proof speaks of tensors of so many dims; the matcher refuses others."""
    return speaks_of(instance.rule, Case(instance.case.stars, instance.case.choices))


def _fires(rule: type[Rule], graph: Graph, inputs: Sequence[torch.Tensor], seed: int, fired: Counter[str], stands: bool) -> bool | None:
    """Whether the rule matches, every match held against the rule, and applied and taken back; None where the graph does not run.

    stands: where one output is replaced, the replacement can stand in its place
    Raises: Different.
    """
    graph.remove_dead()
    before = Reference(graph, inputs, seed)
    try:
        expected = before.values()
    except (ShapeError, RuntimeError, IndexError, ValueError):
        return None  # positions may lie beyond a table, an epsilon may be negative
    except TypeError:
        if stands:
            raise
        return None  # a near graph may give a number where torch takes a tensor only
    check_constants(graph)
    found = list(itertools.islice(find_matches(rule, graph), 4))
    if not found:
        return False
    values, digest = values_of(graph, inputs, seed), structural_hash(graph)
    for match in found:
        check_match(match, graph, values)
        current = graph.copy()
        try:
            applied = rewrite(match, current, before, expected, Roofline("h100"))
        except RewriteError as error:
            if len(match.outputs) > 1 or not stands:
                continue
            raise Different(rule.__name__, "place", str(error)) from error
        fired[rule.__name__] += 1
        take_back(match, current, applied, digest)
    return True


_CAUSES = {
    "place": "matches where it cannot be applied", "undo": "cannot be taken back", "cost": "does not cost what the difference says",
    "condition": "matches against its conditions", "constant": "matches what is not constant", "free": "counts as constant what is not",
    "dtype": "changes or mixes dtypes",
}  # fmt: skip


def _changed(instance: Instance, space: Space, chance: random.Random) -> Instance:
    """The instance with numbers that a condition of the rule speaks of drawn anew, or with one tensor in another dtype."""
    spoken = [name for condition in space.value_conditions for name in condition.names]
    tensors, reals = dict(instance.tensors), dict(instance.reals)
    if spoken:
        for name in spoken:
            if name in tensors:
                dtype = str(tensors[name].dtype).removeprefix("torch.")
                tensors[name] = draw_values(ORDINARY, tensors[name].shape, dtype, chance.randrange(10**6))
            elif name in reals:
                reals[name] = draw_number(ORDINARY, chance)
    else:
        floating = [name for name, tensor in tensors.items() if tensor.is_floating_point()]
        if floating:
            name = chance.choice(floating)
            tensors[name] = tensors[name].float() if tensors[name].dtype == torch.float64 else tensors[name].double()
    return replace(instance, tensors=tensors, reals=reals, shared={})


def _return_inner(graph: Graph, chance: random.Random) -> None:
    """Return some value from within the graph as well, so that it must stay alive."""
    inner = [Value(node, k) for node in graph for k in range(len(graph.types(node))) if graph.operands(node)]
    inner = [value for value in inner if value not in graph.outputs and not graph.type(value).weak]
    if inner:
        graph.outputs = [*graph.outputs, chance.choice(inner)]


__all__ = ["FIRES_NOWHERE", "check_firing", "check_proof", "check_tests", "graph_of", "rule_named"]
