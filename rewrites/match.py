"""Finding where a rule applies in a graph, and saying why it does not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from graphs.graph import Graph, Value
from operators.expressions import Dim, Expression, Symbol
from operators.operator import TensorType, kind_of
from rewrites.cases import Case, dtype_of
from rewrites.conditions import failed_condition
from rewrites.host import Host
from rewrites.memory import Memory
from rewrites.overlay import NearMiss, Overlay, State, known_part
from rewrites.patterns import Partner, Pattern, exact, sketches, tensors
from rewrites.rule import Rule, remembered
from rewrites.signature import IntegerVariable, Star
from rewrites.unification import Unknown


@dataclass(frozen=True)
class Absent:
    """Stands for an operand that the graph leaves out: a tensor of one number."""

    number: float
    type: TensorType


class _Image(Protocol):
    """From nodes to nodes."""

    def __getitem__(self, node: int, /) -> int: ...


@dataclass(frozen=True)
class Match:
    """A place where a rule applies.

    `bindings` gives each parameter of the rule: a value of the graph (or `Absent`) for tensors and real attributes, numbers or
    symbolic sizes for the others; `dims` gives each named size. `nodes` are the operators covered by the pattern; `kept` those
    of them that stay alive after the rewrite, because something else reads them; `outputs` the values to be replaced.
    """

    rule: type[Rule]
    case: Case
    bindings: dict[str, Any]
    dims: dict[str, Dim]
    nodes: tuple[int, ...]
    outputs: tuple[Value, ...]
    kept: tuple[int, ...] = ()
    dtypes: tuple[tuple[str, str], ...] = ()

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Equal for matches that would do the same."""
        return self.rule, self.case, tuple(self.bindings.items()), tuple(sorted(self.dims.items())), self.outputs

    def moved(self, image: _Image) -> Match:
        """The match with another node in the place of each; none of the nodes is kept."""
        bindings = {n: Value(image[bound.node], bound.output) if isinstance(bound, Value) else bound for n, bound in self.bindings.items()}
        nodes = tuple(sorted(image[node] for node in self.nodes))
        outputs = tuple(Value(image[value.node], value.output) for value in self.outputs)
        return Match(self.rule, self.case, bindings, self.dims, nodes, outputs, (), self.dtypes)

    def __str__(self) -> str:
        return f"{self.rule.__name__} at {', '.join(str(value.node) for value in self.outputs)}"


def find_matches(rule: type[Rule], graph: Graph | Host, around: Collection[int] | None = None) -> Iterator[Match]:
    """Every place where the rule applies, in a fixed order; with `around`, those that cover one of these nodes.

    The graph may not change while matches are drawn; after a change, the matches that are new cover a node that was added or
    whose operands changed.
    Raises: TraceError when the rule's functions cannot be traced; ConditionError when a condition's predicate raises.
    """
    host = graph if isinstance(graph, Host) else Host(graph)
    near = None if around is None else frozenset(around)
    seen: set[Any] = set()
    for sketch in sketches(rule):
        if sketch.forbidden:
            continue
        for anchor, node in _candidates(sketch, host, near):
            for match in matches_from(rule, sketch, host, anchor, node):
                if near is not None and near.isdisjoint(match.nodes):
                    continue
                if match.key not in seen:
                    seen.add(match.key)
                    yield match


def find_all(rules: Iterable[type[Rule]], graph: Graph, around: Collection[int] | None = None) -> Iterator[Match]:
    """The matches of several rules; faster than one call for each, as the graph is indexed once."""
    host = Host(graph)
    near = None if around is None else frozenset(around)
    for rule in rules:
        yield from find_matches(rule, host, near)


def explain(rule: type[Rule], graph: Graph) -> list[NearMiss]:
    """For each node of the kind that the pattern ends in and at which the rule does not apply, the first thing that failed.

    Of several ways to lay the pattern over the graph, the one that got farthest speaks.
    """
    host = Host(graph)
    patterns = sketches(rule)
    if not patterns:
        return [NearMiss(rule, None, 0, "no choice of its attributes and ranks satisfies its own conditions")]
    failures: dict[int, list[NearMiss]] = {}
    matched: set[int] = set()
    for sketch in patterns:
        if sketch.forbidden:
            return [NearMiss(rule, None, 0, sketch.forbidden)]
        for anchor, node in _candidates(sketch, host, None):
            near: list[NearMiss] = []
            if any(True for _ in _matches_at(rule, sketch, host, anchor, node, near)):
                matched.add(node)
            failures.setdefault(node, []).extend(near)
    if not failures:
        kinds = sorted({sketch.nodes[sketch.roots[0].node].kind.__name__ for sketch in patterns})
        return [NearMiss(rule, None, 0, f"the graph has no {' or '.join(kinds)}")]
    return [max(near, key=lambda miss: miss.reached) for node, near in sorted(failures.items()) if node not in matched and near]


def _candidates(pattern: Pattern, host: Host, around: frozenset[int] | None) -> Iterator[tuple[int, int]]:
    """Which root of the pattern may stand at which node."""
    if around is None:
        for node in host.of_class(pattern.nodes[pattern.roots[0].node].kind):
            yield 0, node
        return
    for anchor, root in enumerate(pattern.roots):
        kind = pattern.nodes[root.node].kind
        for node in host.near(around, pattern.heights[anchor]).get(kind, ()):
            yield anchor, node


def _meets_demands(pattern: Pattern, host: Host, anchor: int, node: int) -> bool:
    """The operators at the node's operands are those of the pattern: a quick look before the pattern is laid over the graph."""
    demands = pattern.demands[anchor]
    if demands:
        operands = host.operands(node)
        for positions, kind in demands:
            standing = (operands[position] for position in positions if position < len(operands))
            if not any(value is not None and type(host.operator(value.node)) is kind for value in standing):
                return False
    partner = pattern.partner(anchor) if len(pattern.roots) > 1 else None
    return partner is None or _has_partner(partner, host, node)


def _has_partner(partner: Partner, host: Host, node: int) -> bool:
    """Something stands beside the node that a further root of the pattern may be found from."""
    if not partner.positions:
        return any(other != node and host.apart(node, other) for other in host.of_class(partner.kind))
    operands = host.operands(node)
    read = [value for value in (operands[position] for position in partner.positions if position < len(operands)) if value is not None]
    readers = {user for value in read for user in host.graph.network._adj[value.node]}
    return any(type(host.operator(user)) is partner.kind and not (partner.another and user == node) for user in readers)


_KNOWN: Memory[tuple[Match, ...]] = Memory()
"""Matches by sketch and form of the place; their nodes are numbered in the form's order."""


def matches_from(rule: type[Rule], sketch: Pattern, host: Host, anchor: int, node: int) -> Iterable[Match]:
    """The matches of a sketch with the root `anchor` at the node, from memory where they depend on what is below the node only."""
    if not _meets_demands(sketch, host, anchor, node):
        return ()
    if len(sketch.roots) > 1 or sketch.impure:
        return _matches_at(rule, sketch, host, anchor, node, [])
    form, places = host.form(node, sketch.heights[0])
    known = _KNOWN.find((sketch, form))
    if known is not None:
        return (_with_kept(match.moved(places), host) for match in known)
    read = host.contents_read
    matches = list(_matches_at(rule, sketch, host, anchor, node, []))
    if host.contents_read == read:
        number = {place: position for position, place in enumerate(places)}
        _KNOWN.keep((sketch, form), tuple(match.moved(number) for match in matches))
    return matches


def _matches_at(rule: type[Rule], sketch: Pattern, host: Host, anchor: int, node: int, near: list[NearMiss]) -> Iterator[Match]:
    """The matches with the root `anchor` at the node; what fails is noted in `near`."""
    tried: set[Any] = set()
    for rough in Overlay(rule, sketch, host, False, near).run(anchor, node):
        fitted = _fit(rule, rough, host)
        if isinstance(fitted, str):
            near.append(NearMiss(rule, node, len(rough.nodes), fitted))
            continue
        stars, dtypes = fitted
        key = (tuple(stars.items()), tuple(dtypes.items()))
        if key in tried:
            continue
        tried.add(key)
        patterns = list(exact(rule, sketch, stars, dtypes))
        if not patterns:
            near.append(NearMiss(rule, node, len(rough.nodes), "its conditions or operators do not admit these ranks and dtypes"))
        for pattern in patterns:
            if pattern.forbidden:
                near.append(NearMiss(rule, node, len(rough.nodes), pattern.forbidden))
                continue
            for state in Overlay(rule, pattern, host, True, near).run(anchor, node):
                match = _finish(rule, pattern, host, state)
                if isinstance(match, Match):
                    yield match
                else:
                    near.append(NearMiss(rule, node, 2 * len(pattern.nodes), match))


def _fit(rule: type[Rule], state: State, host: Host) -> tuple[dict[str, tuple[Dim, ...]], dict[str, str]] | str:
    """The variadic dims and dtypes under which the tensors found can be the rule's; or why there are none."""
    stars: dict[str, tuple[Dim, ...]] = {}
    dtypes: dict[str, str] = {}
    families: dict[str, tuple[str, str]] = {}
    for name, variable in tensors(rule).items():
        value = state.variables.get(name)
        if not isinstance(value, Value):
            continue
        type = host.type(value)
        if type.weak:
            return f"{name} must be a tensor, got the Python number of node {value.node}"
        strange = kind_of(type.dtype) == "complex" and not variable.kind.startswith("complex")
        if strange or (variable.dtypes and type.dtype not in variable.dtypes):
            return f"{name} must be {variable.kind}, got {type.dtype}"
        family = families.setdefault(variable.kind, (name, type.dtype))
        if family[1] != type.dtype:
            return f"{family[0]} and {name} must have one dtype, got {family[1]} and {type.dtype}"
        dtypes[name] = type.dtype
        count = type.ndim - sum(not isinstance(dim, Star) for dim in variable.dims)
        if count < 0 or (count and not variable.stars):
            return f"{name} must have {len(variable.dims)} axes, got {type.ndim}"
        for position, dim in enumerate(variable.dims):
            if isinstance(dim, Star):
                sizes = type.shape[position : position + count]
                ones = tuple(dim.broadcastable and isinstance(size, int) and size == 1 for size in sizes)
                found = tuple(1 if one else Expression.of(Symbol(f"{dim.name}_{i}")) for i, one in enumerate(ones))
                if stars.setdefault(dim.name, found) != found:
                    return f"{dim} must be the same dims everywhere, got {len(found)} and {len(stars[dim.name])} of them"
    for name, variable in tensors(rule).items():
        if name not in dtypes:
            dtypes[name] = families.get(variable.kind, (name, dtype_of(variable)))[1]
    missing = [star for star in rule.signature().stars if star not in stars]
    if missing:
        return f"*{missing[0]} is not determined by the tensors found"
    return {name: stars[name] for name in rule.signature().stars}, {name: dtypes[name] for name in tensors(rule)}


def _finish(rule: type[Rule], pattern: Pattern, host: Host, state: State) -> Match | str:
    """The match, when sizes, conditions, roots and effects agree; otherwise what does not."""
    reason = state.unknowns.settle()
    if reason is not None:
        return reason
    dims = {atom.name: value for atom, value in state.unknowns.values.items() if isinstance(atom, Unknown)}
    negative = next((name for name in _sizes(rule) if _below_zero(dims.get(name, 0))), None)
    if negative is not None:
        return f"{negative} is a size, and would have to be {dims[negative]}"
    bindings: dict[str, Any] = dict(pattern.case.choices)
    for variable in rule.signature().variables:
        name = variable.name
        if isinstance(variable, IntegerVariable):
            missing = [symbol.name for symbol in variable.symbols if symbol.name not in dims]
            if missing:
                return f"{missing[0]} is not determined by the operators found"
            numbers = tuple(dims[symbol.name] for symbol in variable.symbols)
            bindings[name] = numbers if variable.length else numbers[0]
        elif name in state.variables:
            bound = state.variables[name]
            if not isinstance(bound, Value):
                shape = tuple(known_part(state, dim) for dim in pattern.shapes[name])
                if any(isinstance(symbol, Unknown) for dim in shape if isinstance(dim, Expression) for symbol in dim.symbols):
                    return f"{name} is absent, and its size is not determined"
                bound = Absent(bound, TensorType(shape, dict(pattern.dtypes)[name]))
            bindings[name] = bound
        elif name not in bindings:
            return f"{name} is not bound by the pattern"
    outputs = tuple(state.outputs[position] for position in range(len(pattern.roots)))
    nodes = tuple(sorted(set(state.nodes.values())))
    match = Match(rule, pattern.case, {n: bindings[n] for n in rule.signature().names}, dims, nodes, outputs, (), pattern.dtypes)
    return _safe(pattern, host, match, state) or failed_condition(match, host) or _with_kept(match, host)


@remembered
def _sizes(rule: type[Rule]) -> tuple[str, ...]:
    """The names that stand for sizes in tensors' shapes, and are no attributes."""
    attributes = {symbol.name for v in rule.signature().variables if isinstance(v, IntegerVariable) for symbol in v.symbols}
    return tuple(name for name in rule.signature().symbols if name not in attributes)


def _below_zero(size: Dim) -> bool:
    return isinstance(size, int) and size < 0


def _safe(pattern: Pattern, host: Host, match: Match, state: State) -> str | None:
    """Why the outputs may not be replaced, if so: one tensor twice, a cycle, a random operator that something else reads."""
    distinct = {pattern.roots[position]: value for position, value in state.outputs.items()}
    if len(set(distinct.values())) < len(distinct):
        return "two outputs of the pattern are one tensor of the graph"
    if len(distinct) > 1:
        operands = {value.node for value in match.bindings.values() if isinstance(value, Value)}
        if any(host.depends(node, output.node) for node in operands for output in match.outputs):
            return "one output depends on another outside the pattern, so that replacing both would make a cycle"
    if pattern.impure:
        impure = [node for node in match.nodes if type(host.operator(node)) in pattern.impure]
        if len(impure) < pattern.impure.total():
            return f"node {impure[0]} ({host.operator(impure[0])}) stands for two operators of the pattern and may not be repeated"
        kept = set(_kept(match, host))
        for node in impure:
            if node in kept:
                reads = len(host.graph.users(node)) + sum(value.node == node for value in host.graph.outputs)
                return f"node {node} ({host.operator(node)}) is used elsewhere ({reads} uses) and may not be repeated"
    return None


def _kept(match: Match, host: Host) -> list[int]:
    """The matched nodes that something outside the match still reads once the outputs are replaced."""
    inside = set(match.nodes)
    kept = set(inside)
    network = host.graph.network
    replaced = set(match.outputs)
    returned = {value.node for value in host.graph.outputs if value not in replaced}
    fresh = True
    while fresh:
        fresh = False
        for node in sorted(kept - returned):
            readers = network._adj[node].items()
            if all((user in inside - kept) or all((node, output) in replaced for output, _ in keys) for user, keys in readers):
                kept.remove(node)
                fresh = True
    return sorted(kept)


def _with_kept(match: Match, host: Host) -> Match:
    kept = tuple(_kept(match, host))
    return Match(match.rule, match.case, match.bindings, match.dims, match.nodes, match.outputs, kept, match.dtypes)
