"""Finding where a rule applies in a graph, and saying why it does not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from graphs.graph import Graph, Value
from operators.expressions import Dim, Expression, Symbol, substitute
from operators.operator import TensorType
from operators.sources import Constant, Scalar
from rewrites.cases import Case, dtype_of
from rewrites.conditions import failed_condition
from rewrites.host import Host, same_content, same_number
from rewrites.patterns import Link, Node, Pattern, exact, sketches, tensors
from rewrites.rule import Rule
from rewrites.signature import IntegerVariable, Star
from rewrites.unification import Unification, Unknown, readable


@dataclass(frozen=True)
class Absent:
    """Stands for an operand that the graph leaves out: a tensor of one number."""

    number: float
    type: TensorType


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

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for matches that would do the same."""
        return self.rule, self.case, tuple(self.bindings.items()), tuple(sorted(self.dims.items())), self.outputs

    def __str__(self) -> str:
        return f"{self.rule.__name__} at {', '.join(str(value.node) for value in self.outputs)}"


@dataclass(frozen=True)
class NearMiss:
    """Why a rule does not apply at a node: what failed after `reached` of its operators were found."""

    rule: type[Rule]
    node: int | None
    reached: int
    reason: str

    def __str__(self) -> str:
        place = "" if self.node is None else f" at node {self.node}"
        return f"{self.rule.__name__}{place}: {self.reason}"


def find_matches(rule: type[Rule], graph: Graph | Host, around: Collection[int] | None = None) -> Iterator[Match]:
    """Every place where the rule applies, in a fixed order; with `around`, those that cover one of these nodes.

    The graph may not change while matches are drawn; after a change, the matches that are new cover a node that was added or
    whose operands changed.
    Raises: TraceError when the rule's functions cannot be traced; ConditionError when a condition's predicate raises.
    """
    host = graph if isinstance(graph, Host) else Host(graph)
    seen: set[Any] = set()
    for sketch in sketches(rule):
        if sketch.forbidden:
            continue
        for anchor, node in _candidates(sketch, host, around):
            for match in _matches_at(rule, sketch, host, anchor, node, []):
                if around is not None and not set(around) & set(match.nodes):
                    continue
                if match.key not in seen:
                    seen.add(match.key)
                    yield match


def find_all(rules: Iterable[type[Rule]], graph: Graph, around: Collection[int] | None = None) -> Iterator[Match]:
    """The matches of several rules; faster than one call for each, as the graph is indexed once."""
    host = Host(graph)
    for rule in rules:
        yield from find_matches(rule, host, around)


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


def _candidates(pattern: Pattern, host: Host, around: Collection[int] | None) -> Iterator[tuple[int, int]]:
    """Which root of the pattern may stand at which node."""
    if around is None:
        for node in host.of_class(pattern.nodes[pattern.roots[0].node].kind):
            yield 0, node
        return
    for anchor, root in enumerate(pattern.roots):
        kind = pattern.nodes[root.node].kind
        for node in sorted(host.near(around, pattern.heights[anchor])):
            if type(host.operator(node)) is kind:
                yield anchor, node


def _matches_at(rule: type[Rule], sketch: Pattern, host: Host, anchor: int, node: int, near: list[NearMiss]) -> Iterator[Match]:
    """The matches with the root `anchor` at the node; what fails is noted in `near`."""
    tried: set[Any] = set()
    for rough in _Search(rule, sketch, host, False, near).run(anchor, node):
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
            for state in _Search(rule, pattern, host, True, near).run(anchor, node):
                match = _finish(rule, pattern, host, state)
                if isinstance(match, Match):
                    yield match
                else:
                    near.append(NearMiss(rule, node, 2 * len(pattern.nodes), match))


def _fit(rule: type[Rule], state: _State, host: Host) -> tuple[dict[str, tuple[Dim, ...]], dict[str, str]] | str:
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
        if variable.dtypes and type.dtype not in variable.dtypes:
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


class _Place(NamedTuple):
    """Where a value is read: an operand of a node, or an output of the rule."""

    position: int
    reader: int | None = None

    def within(self, host: Host) -> str:
        if self.reader is None:
            return f"output {self.position}"
        return f"operand {self.position} of node {self.reader} ({type(host.operator(self.reader)).__name__})"


@dataclass
class _State:
    """How far a pattern is laid over the graph."""

    goals: list[tuple[Value, Value | None, _Place]]
    roots: list[tuple[int, Link | None]]
    nodes: dict[int, int] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    outputs: dict[int, Value] = field(default_factory=dict)
    unknowns: Unification = field(default_factory=Unification)

    def copy(self) -> _State:
        return _State(list(self.goals), list(self.roots), dict(self.nodes), dict(self.variables), dict(self.outputs), self.unknowns.copy())


class _Search:
    """Lays one pattern over the graph from a root downwards, by depth-first search over the orders of commuting operands.

    A sketch compares operators and wiring only; an exact pattern also attributes, shapes and dtypes.
    """

    def __init__(self, rule: type[Rule], pattern: Pattern, host: Host, exactly: bool, near: list[NearMiss]) -> None:
        self.rule, self.pattern, self.host, self.exactly, self.near = rule, pattern, host, exactly, near

    def run(self, anchor: int, node: int) -> Iterator[_State]:
        root = self.pattern.roots[anchor]
        first = _State([], list(self.pattern.plan(anchor)))
        self._enter_root(first, anchor, Value(node, root.output))
        stack = [first]
        while stack:
            state = stack.pop()
            reason: str | None = None
            while reason is None and state.goals:
                reason = self._meet(state, *state.goals.pop(), stack)
            if reason is not None:
                self.near.append(NearMiss(self.rule, node, len(state.nodes) + len(self.pattern.nodes) * self.exactly, reason))
            elif state.roots:
                position, link = state.roots.pop(0)
                further = self._further_roots(state, position, link)
                if not further:
                    kind = self.pattern.nodes[self.pattern.roots[position].node].kind.__name__
                    reason = f"output {position} needs a {kind} over the same operands"
                    self.near.append(NearMiss(self.rule, node, len(state.nodes), reason))
                for value in reversed(further):
                    branch = state.copy()
                    self._enter_root(branch, position, value)
                    stack.append(branch)
            else:
                yield state

    def _enter_root(self, state: _State, position: int, value: Value) -> None:
        state.outputs[position] = value
        state.goals.append((self.pattern.roots[position], value, _Place(position)))

    def _further_roots(self, state: _State, position: int, link: Link | None) -> list[Value]:
        root = self.pattern.roots[position]
        kind = self.pattern.nodes[root.node].kind
        if link is None:
            found = set(self.host.of_class(kind))
        elif not link.readers:
            return [Value(state.nodes[root.node], root.output)]
        else:
            start = self._image(state, link.start)
            values = {start} if isinstance(start, Value) else set()
            found = set()
            for reader in link.readers:
                wanted = self.pattern.nodes[reader].kind
                found = {user for value in values for user, _ in self.host.users(value) if type(self.host.operator(user)) is wanted}
                outputs = range(len(self.pattern.nodes[reader].types))
                values = {Value(node, output) for node in found for output in outputs}
        taken = set(state.outputs.values())
        return [value for value in (Value(node, root.output) for node in sorted(found)) if value not in taken]

    def _image(self, state: _State, value: Value) -> Any:
        name = self.pattern.variables.get(value.node)
        return state.variables.get(name) if name else Value(state.nodes[value.node], value.output)

    def _meet(self, state: _State, wanted: Value, found: Value | None, place: _Place, stack: list[_State]) -> str | None:
        """Lay one value of the pattern over one of the graph; what is wrong, if anything."""
        name = self.pattern.variables.get(wanted.node)
        if name is not None:
            return self._bind(state, name, found, place)
        node = self.pattern.nodes[wanted.node]
        if found is None:
            return f"{place.within(self.host)} must be {node.kind.__name__}, but is absent"
        operator = self.host.operator(found.node)
        if type(operator) is not node.kind:
            return f"{place.within(self.host)} must be {node.kind.__name__}, got node {found.node} ({type(operator).__name__})"
        if found.output != wanted.output:
            return f"{place.within(self.host)} must be output {wanted.output} of node {found.node}, got output {found.output}"
        if node.number in state.nodes:
            before = Value(state.nodes[node.number], wanted.output)
            return None if self.host.same(before, found) else f"{place.within(self.host)} must be node {before.node}, got node {found.node}"
        reason = self._compare(state, node, found)
        if reason is not None:
            return reason
        state.nodes[node.number] = found.node
        return self._descend(state, node, found.node, stack)

    def _descend(self, state: _State, node: Node, found: int, stack: list[_State]) -> str | None:
        operands = self.host.operands(found)
        count = max(len(operands), len(node.operands))
        actual = (*operands, *(None,) * (count - len(operands)))
        orders = node.orders if not node.commutes or actual[0] != actual[1] else node.orders[:1]
        for order in orders[1:]:
            branch = state.copy()
            if self._open(branch, order, actual, found) is None:
                stack.append(branch)
        return self._open(state, orders[0], actual, found)

    def _open(self, state: _State, order: tuple[Value | None, ...], actual: tuple[Value | None, ...], reader: int) -> str | None:
        for position in range(len(actual) - 1, -1, -1):
            wanted = order[position] if position < len(order) else None
            place = _Place(position, reader)
            if wanted is not None:
                state.goals.append((wanted, actual[position], place))
            elif actual[position] is not None:
                return f"{place.within(self.host)} must be absent"
        return None

    def _compare(self, state: _State, node: Node, found: Value) -> str | None:
        operator = self.host.operator(found.node)
        where = f"of node {found.node} ({node.kind.__name__})"
        if node.kind is Scalar:
            ((_, wanted),) = node.fields
            return self._compare_number(state, wanted, operator.value, found.node)  # type: ignore[attr-defined]
        if node.kind is Constant:
            mine = self.pattern.traced.pattern.constants[dict(node.fields)["name"]]
            theirs = self.host.graph.constants[operator.name]  # type: ignore[attr-defined]
            return None if same_content(mine, theirs) else f"node {found.node} must hold the pattern's own tensor"
        if not self.exactly:
            return None
        for name, wanted in node.fields:
            actual = getattr(operator, name)
            if not _unify(state.unknowns, wanted, actual):
                return f"attribute {name} {where} must be {readable(_known(state, wanted))}, got {actual}"
        others = self.host.graph.types(found.node)
        if len(others) != len(node.types):
            return f"node {found.node} ({node.kind.__name__}) must have {len(node.types)} outputs, got {len(others)}"
        for mine, other in zip(node.types, others, strict=True):
            if (other.dtype, other.ndim, other.weak) != (mine.dtype, mine.ndim, mine.weak):
                return f"node {found.node} ({node.kind.__name__}) must give {mine.dtype} of {mine.ndim} axes, got {other}"
        return None

    def _compare_number(self, state: _State, wanted: Any, actual: Any, node: int) -> str | None:
        if isinstance(wanted, Expression):
            whole = isinstance(actual, Expression) or (not isinstance(actual, bool) and float(actual).is_integer())
            if not self.exactly or (whole and state.unknowns.equate(wanted, actual if isinstance(actual, Expression) else int(actual))):
                return None
        elif same_number(wanted, actual):
            return None
        return f"the number at node {node} must be {readable(_known(state, wanted))}, got {actual}"

    def _bind(self, state: _State, name: str, found: Value | None, place: _Place) -> str | None:
        variable = tensors(self.rule).get(name)
        if found is None:
            number = None if place.reader is None else self.host.operator(place.reader).absent.get(place.position)
            if variable is None or number is None:
                return f"{place.within(self.host)} must be {name}, but is absent"
            before = state.variables.setdefault(name, number)
            if isinstance(before, Value) or not same_number(before, number):
                return f"{name} must be one tensor, but {place.within(self.host)} is absent"
            return None
        if name in state.variables:
            known = state.variables[name]
            if isinstance(known, Value) and self.host.same(known, found):
                return None
            return f"{name} must be one tensor, got {known} and {found}"
        type = self.host.type(found)
        if variable is None and not (type.weak and type.dtype != "bool"):
            return f"{place.within(self.host)} must be a Python number ({name}), got {type}"
        if variable is not None:
            if variable.weight and not self.host.is_constant(found):
                return f"{name} must be a constant, got node {found.node} ({self.host.operator(found.node)}), which depends on an input"
            if self.exactly:
                reason = self._bind_shape(state, name, type)
                if reason is not None:
                    return reason
        state.variables[name] = found
        return None

    def _bind_shape(self, state: _State, name: str, type: TensorType) -> str | None:
        variable = tensors(self.rule)[name]
        if dict(self.pattern.dtypes)[name] != type.dtype:
            return f"{name} must be {dict(self.pattern.dtypes)[name]}, got {type.dtype}"
        shape = self.pattern.shapes[name]
        if len(shape) != type.ndim:
            return f"{name} must have {len(shape)} axes, got {type.ndim}"
        for axis, (wanted, actual) in enumerate(zip(shape, type.shape, strict=True)):
            if not state.unknowns.equate(wanted, actual):
                return f"size {axis} of {variable.name} must be {readable(_known(state, wanted))}, got {actual}"
        return None


def _known(state: _State, wanted: Any) -> Any:
    if isinstance(wanted, tuple):
        return tuple(_known(state, part) for part in wanted)
    return substitute(wanted, state.unknowns.values) if isinstance(wanted, Expression) else wanted


def _unify(unknowns: Unification, wanted: Any, actual: Any) -> bool:
    """Let an attribute of the pattern be that of the graph."""
    if isinstance(wanted, tuple):
        if not isinstance(actual, tuple) or len(wanted) != len(actual):
            return False
        return all(_unify(unknowns, *pair) for pair in zip(wanted, actual, strict=True))
    if isinstance(wanted, Expression):
        return isinstance(actual, (int, Expression)) and not isinstance(actual, bool) and unknowns.equate(wanted, actual)
    if isinstance(wanted, bool) != isinstance(actual, bool):
        return False
    return bool(wanted == actual)


def _finish(rule: type[Rule], pattern: Pattern, host: Host, state: _State) -> Match | str:
    """The match, when sizes, conditions, roots and effects agree; otherwise what does not."""
    reason = state.unknowns.settle()
    if reason is not None:
        return reason
    dims = {atom.name: value for atom, value in state.unknowns.values.items() if isinstance(atom, Unknown)}
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
                shape = tuple(_known(state, dim) for dim in pattern.shapes[name])
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


def _safe(pattern: Pattern, host: Host, match: Match, state: _State) -> str | None:
    """Why the outputs may not be replaced, if so: one tensor twice, a cycle, a random operator that something else reads."""
    distinct = {pattern.roots[position]: value for position, value in state.outputs.items()}
    if len(set(distinct.values())) < len(distinct):
        return "two outputs of the pattern are one tensor of the graph"
    if len(distinct) > 1:
        operands = {value.node for value in match.bindings.values() if isinstance(value, Value)}
        if host.reaches({value.node for value in match.outputs}, operands):
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
    dead: set[int] = set()
    network = host.graph.network
    replaced = set(match.outputs)
    for node in sorted(match.nodes, key=host.depth, reverse=True):
        read = any(user not in dead and Value(node, output) not in replaced for _, user, (output, _) in network.out_edges(node, keys=True))
        returned = any(value.node == node and value not in replaced for value in host.graph.outputs)
        if not read and not returned:
            dead.add(node)
    return [node for node in match.nodes if node not in dead]


def _with_kept(match: Match, host: Host) -> Match:
    kept = tuple(_kept(match, host))
    return Match(match.rule, match.case, match.bindings, match.dims, match.nodes, match.outputs, kept, match.dtypes)
