"""Laying a pattern over a graph: operators over operators, variables over values, unknown sizes over sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from graphs.graph import Value
from operators.expressions import Expression, substitute
from operators.operator import TensorType
from operators.sources import Constant, Scalar
from rewrites.host import Host, same_content, same_number
from rewrites.patterns import Link, Node, Pattern, tensors
from rewrites.rule import Rule
from rewrites.unification import Unification, readable


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


class Place(NamedTuple):
    """Where a value is read: an operand of a node, or an output of the rule."""

    position: int
    reader: int | None = None

    def within(self, host: Host) -> str:
        if self.reader is None:
            return f"output {self.position}"
        return f"operand {self.position} of node {self.reader} ({type(host.operator(self.reader)).__name__})"


@dataclass
class State:
    """How far a pattern is laid over the graph."""

    goals: list[tuple[Value, Value | None, Place]]
    roots: list[tuple[int, Link | None]]
    nodes: dict[int, int] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    outputs: dict[int, Value] = field(default_factory=dict)
    unknowns: Unification = field(default_factory=Unification)

    def copy(self) -> State:
        return State(list(self.goals), list(self.roots), dict(self.nodes), dict(self.variables), dict(self.outputs), self.unknowns.copy())


class Overlay:
    """Lays one pattern over the graph from a root downwards, by depth-first search over the orders of commuting operands.

    A sketch compares operators and wiring only; an exact pattern also attributes, shapes and dtypes.
    """

    def __init__(self, rule: type[Rule], pattern: Pattern, host: Host, exactly: bool, near: list[NearMiss]) -> None:
        self.rule, self.pattern, self.host, self.exactly, self.near = rule, pattern, host, exactly, near

    def run(self, anchor: int, node: int) -> Iterator[State]:
        root = self.pattern.roots[anchor]
        first = State([], list(self.pattern.plan(anchor)))
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

    def _enter_root(self, state: State, position: int, value: Value) -> None:
        state.outputs[position] = value
        state.goals.append((self.pattern.roots[position], value, Place(position)))

    def _further_roots(self, state: State, position: int, link: Link | None) -> list[Value]:
        root = self.pattern.roots[position]
        kind = self.pattern.nodes[root.node].kind
        if link is None:
            found = {node for node in self.host.of_class(kind) if self.pattern.heights[position] or self._is_apart(state, node)}
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

    def _is_apart(self, state: State, node: int) -> bool:
        """Neither the node nor a root found before is computed from the other."""
        return all(self.host.apart(node, value.node) for value in state.outputs.values())

    def _image(self, state: State, value: Value) -> Any:
        name = self.pattern.variables.get(value.node)
        return state.variables.get(name) if name else Value(state.nodes[value.node], value.output)

    def _meet(self, state: State, wanted: Value, found: Value | None, place: Place, stack: list[State]) -> str | None:
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

    def _descend(self, state: State, node: Node, found: int, stack: list[State]) -> str | None:
        operands = self.host.operands(found)
        count = max(len(operands), len(node.operands))
        actual = (*operands, *(None,) * (count - len(operands)))
        orders = node.orders if not node.commutes or actual[0] != actual[1] else node.orders[:1]
        for order in orders[1:]:
            branch = state.copy()
            if self._open(branch, order, actual, found) is None:
                stack.append(branch)
        return self._open(state, orders[0], actual, found)

    def _open(self, state: State, order: tuple[Value | None, ...], actual: tuple[Value | None, ...], reader: int) -> str | None:
        for position in range(len(actual) - 1, -1, -1):
            wanted = order[position] if position < len(order) else None
            place = Place(position, reader)
            if wanted is not None:
                state.goals.append((wanted, actual[position], place))
            elif actual[position] is not None:
                return f"{place.within(self.host)} must be absent"
        return None

    def _compare(self, state: State, node: Node, found: Value) -> str | None:
        operator = self.host.operator(found.node)
        where = f"of node {found.node} ({node.kind.__name__})"
        if node.kind is Scalar:
            ((_, wanted),) = node.fields
            return self._compare_number(state, wanted, operator.value, found.node)  # type: ignore[attr-defined]
        if node.kind is Constant:
            self.host.contents_read += 1
            mine = self.pattern.graph.constants[dict(node.fields)["name"]]
            theirs = self.host.graph.constants[operator.name]  # type: ignore[attr-defined]
            return None if same_content(mine, theirs) else f"node {found.node} must hold the pattern's own tensor"
        if not self.exactly:
            return None
        for name, wanted in node.fields:
            actual = getattr(operator, name)
            if not _unify(state.unknowns, wanted, actual):
                return f"attribute {name} {where} must be {readable(known_part(state, wanted))}, got {actual}"
        others = self.host.graph.types(found.node)
        if len(others) != len(node.types):
            return f"node {found.node} ({node.kind.__name__}) must have {len(node.types)} outputs, got {len(others)}"
        for mine, other in zip(node.types, others, strict=True):
            if (other.dtype, other.ndim, other.weak) != (mine.dtype, mine.ndim, mine.weak):
                return f"node {found.node} ({node.kind.__name__}) must give {mine.dtype} of {mine.ndim} axes, got {other}"
        return None

    def _compare_number(self, state: State, wanted: Any, actual: Any, node: int) -> str | None:
        if isinstance(wanted, Expression):
            whole = isinstance(actual, Expression) or (not isinstance(actual, bool) and float(actual).is_integer())
            if not self.exactly or (whole and state.unknowns.equate(wanted, actual if isinstance(actual, Expression) else int(actual))):
                return None
        elif same_number(wanted, actual):
            return None
        return f"the number at node {node} must be {readable(known_part(state, wanted))}, got {actual}"

    def _bind(self, state: State, name: str, found: Value | None, place: Place) -> str | None:
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

    def _bind_shape(self, state: State, name: str, type: TensorType) -> str | None:
        variable = tensors(self.rule)[name]
        if dict(self.pattern.dtypes)[name] != type.dtype:
            return f"{name} must be {dict(self.pattern.dtypes)[name]}, got {type.dtype}"
        shape = self.pattern.shapes[name]
        if len(shape) != type.ndim:
            return f"{name} must have {len(shape)} axes, got {type.ndim}"
        for axis, (wanted, actual) in enumerate(zip(shape, type.shape, strict=True)):
            if not state.unknowns.equate(wanted, actual):
                return f"size {axis} of {variable.name} must be {readable(known_part(state, wanted))}, got {actual}"
        return None


def known_part(state: State, wanted: Any) -> Any:
    """A pattern's attribute or size with what is known of its unknowns."""
    if isinstance(wanted, tuple):
        return tuple(known_part(state, part) for part in wanted)
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
