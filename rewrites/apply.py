"""Applying a rule at a match: the replacement is traced over the real graph, the outputs replaced, what is dead removed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from graphs.graph import Graph, Value
from graphs.trace import Proxy, TraceError, trace
from operators.operator import ShapeError, TensorType, collecting_obligations
from operators.sources import Constant, Full, Input
from rewrites.conditions import comparable
from rewrites.match import Absent, Match
from rewrites.memory import Memory, is_impure
from rewrites.signature import RealVariable, TensorVariable
from rewrites.template import Template, question, template_of


class RewriteError(ValueError):
    """A rewrite that cannot be made at this place; the message names rule, node and what differs. The graph is as it was."""


@dataclass
class Applied:
    """What a rewrite did to a graph; `undo` takes it back (for the in-place form, the last rewrite first)."""

    graph: Graph
    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    rewired: tuple[int, ...] = ()
    """Nodes that stay and read another operand than before."""
    _journal: _Journal | None = field(default=None, repr=False)

    @property
    def touched(self) -> tuple[int, ...]:
        """Where new matches may be found: the nodes added and those whose operands changed."""
        return self.added + self.rewired

    def undo(self) -> None:
        """Take the rewrite back; rewrites made after it must have been taken back before."""
        if self._journal is None:
            raise RewriteError("this rewrite was taken back already")
        self._journal.restore()
        self._journal = None


class _Journal:
    """What must be put back to have the graph as it was."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.start = graph._next
        self.outputs = list(graph.outputs)
        self.constants: dict[str, Any] = dict(graph.constants)
        self.rerouted: list[tuple[Value, Value, int, int]] = []
        self.removed: list[tuple[int, dict[str, Any], list[tuple[int, tuple[int, int]]]]] = []

    def reroute(self, old: Value, new: Value) -> None:
        for user, output, position in self.graph.users(old.node):
            if output == old.output:
                self.rerouted.append((old, new, user, position))
        self.graph.replace_uses(old, new)

    def remove(self, node: int) -> None:
        network = self.graph.network
        operands = [(producer, key) for producer, keys in network._pred[node].items() for key in keys]
        self.removed.append((node, dict(network.nodes[node]), operands))
        self.graph.remove(node)

    def restore(self) -> None:
        network = self.graph.network
        for node, data, _ in self.removed:
            network.add_node(node, **data)
        for node, _, operands in self.removed:
            for producer, key in operands:
                network.add_edge(producer, node, key=key)
        for old, new, user, position in reversed(self.rerouted):
            network.remove_edge(new.node, user, key=(new.output, position))
            network.add_edge(old.node, user, key=(old.output, position))
        network.remove_nodes_from([node for node in network if node >= self.start])
        self.graph.outputs = self.outputs
        self.graph.constants = self.constants
        self.graph._next = self.start


def apply(match: Match, graph: Graph) -> Applied:
    """The graph after the rewrite, as a copy; `graph` stays as it is.

    Raises: RewriteError when the replacement cannot stand at this place.
    """
    return apply_in_place(match, graph.copy())


def apply_in_place(match: Match, graph: Graph) -> Applied:
    """Rewrite the graph itself; `.undo()` of the result takes it back.

    Raises: RewriteError when the replacement cannot stand at this place; the graph is then as it was.
    """
    _check_stands(match, graph)
    journal = _Journal(graph)
    try:
        values = _replacement(match, graph)
        _check(match, graph, values, journal.start)
        added = [node for node in range(journal.start, graph._next) if node in graph.network]
        for old, new in zip(match.outputs, values, strict=True):
            if old != new:
                journal.reroute(old, new)
        removed = _remove_dead(match, graph, journal, added)
    except (ShapeError, TraceError) as error:
        journal.restore()
        raise RewriteError(f"{match}: the replacement cannot stand here: {error}") from error
    except BaseException:
        journal.restore()
        raise
    kept = tuple(node for node in added if node in graph.network)
    rewired = tuple(sorted({user for _, _, user, _ in journal.rerouted if user in graph.network}))
    return Applied(graph, kept, tuple(node for node in removed if node < journal.start), rewired, journal)


def _check_stands(match: Match, graph: Graph) -> None:
    """A match may be older than the graph's last changes: what it covers must still be there, and no cycle may come of it."""
    values = [value for value in match.bindings.values() if isinstance(value, Value)]
    gone = next((node for node in (*match.nodes, *(value.node for value in values)) if node not in graph.network), None)
    if gone is not None:
        raise RewriteError(f"{match}: node {gone} is no longer in the graph")
    if len(match.outputs) > 1 and _reaches(graph, {value.node for value in values}, {output.node for output in match.outputs}):
        raise RewriteError(f"{match}: one output now depends on another outside the match, so that replacing both would make a cycle")


def _reaches(graph: Graph, nodes: set[int], sources: set[int]) -> bool:
    """Some of the nodes is one of the sources, or computed from it."""
    pending, seen = list(nodes), set(nodes)
    while pending:
        node = pending.pop()
        if node in sources:
            return True
        fresh = [producer for producer in graph.network._pred[node] if producer not in seen]
        seen.update(fresh)
        pending.extend(fresh)
    return False


_TEMPLATES: Memory[Template] = Memory()


def _replacement(match: Match, graph: Graph) -> list[Value]:
    asked = question(match, graph)
    template = _TEMPLATES.find(asked)
    if template is not None:
        return template.stand(match, graph)
    start = graph._next
    values = _traced_replacement(match, graph)
    template = template_of(match, graph, start, values)
    if template is not None:
        _TEMPLATES.keep(asked, template)
    return values


def _traced_replacement(match: Match, graph: Graph) -> list[Value]:
    # What stays open for symbolic sizes follows from the pattern's own obligations: the verifier proves that of every rule.
    with collecting_obligations():
        arguments: list[Any] = []
        for variable in match.rule.signature().variables:
            bound = match.bindings[variable.name]
            if isinstance(variable, (TensorVariable, RealVariable)):
                arguments.append(Proxy(graph, _absent(bound, graph) if isinstance(bound, Absent) else bound))
            else:
                arguments.append(comparable(bound))
        try:
            return trace(match.rule.replacement, arguments, graph)
        except (ShapeError, TraceError):
            raise
        except Exception as error:
            raise TraceError(f"the replacement raises {type(error).__name__}: {' '.join(str(error).split())}") from error


def _absent(absent: Absent, graph: Graph) -> Value:
    return graph.add(Full(absent.type.shape, absent.type.dtype), graph.scalar(absent.number))


def _check(match: Match, graph: Graph, values: list[Value], start: int) -> None:
    if len(values) != len(match.outputs):
        raise RewriteError(f"{match}: the replacement gives {len(values)} outputs, the pattern {len(match.outputs)}")
    for position, (old, new) in enumerate(zip(match.outputs, values, strict=True)):
        before, after = graph.type(old), graph.type(new)
        if before != after and not _restated(graph, new, before, start):
            raise RewriteError(f"{match}: output {position} must stay {before}, the replacement gives {after}")


def _restated(graph: Graph, new: Value, before: TensorType, start: int) -> bool:
    """Symbolic sizes that the replacement writes in other words are written as before; False when a type is another one.

    The verifier proves of every rule that both sides have one shape where the pattern's operators take their operands at all: of images
    joined along their channels, one may have the height 8·a and another 2·b, which are then equal.
    """
    after = graph.type(new)
    if new.node < start or (before.dtype, before.ndim, before.weak) != (after.dtype, after.ndim, after.weak):
        return False
    if any(a != b and isinstance(a, int) and isinstance(b, int) for a, b in zip(before.shape, after.shape, strict=True)):
        return False
    types = list(graph.types(new.node))
    types[new.output] = before
    graph.network.nodes[new.node]["types"] = tuple(types)
    return True


def _remove_dead(match: Match, graph: Graph, journal: _Journal, added: list[int]) -> list[int]:
    """Remove what nobody reads any more: of the replaced nodes and what only they needed, and of the nodes added."""
    pending = sorted({value.node for value in match.outputs} | set(match.nodes) | set(added), reverse=True)
    pending += [value.node for value in match.bindings.values() if isinstance(value, Value)]
    returned = {value.node for value in graph.outputs}
    removed: list[int] = []
    impure = 0
    while pending:
        node = pending.pop()
        if node not in graph.network or node in returned or graph.is_read(node):
            continue
        operator = graph.operator(node)
        if isinstance(operator, Input):
            continue
        if is_impure(operator):
            if node >= journal.start or node not in match.nodes:
                raise RewriteError(f"{match}: the rewrite would drop node {node} ({operator}: {operator.effects})")
            impure += 1
        pending.extend(sorted(set(graph.network.predecessors(node))))
        journal.remove(node)
        removed.append(node)
    new = sum(1 for node in added if node in graph.network and is_impure(graph.operator(node)))
    if impure != new:
        raise RewriteError(f"{match}: the rewrite removes {impure} random, buffer-updating or unknown operators and adds {new}")
    _forget_constants(graph, journal, removed)
    return removed


def _forget_constants(graph: Graph, journal: _Journal, removed: list[int]) -> None:
    names = {data["operator"].name for _, data, _ in journal.removed if isinstance(data["operator"], Constant)}
    if names:
        names -= {operator.name for node in graph.network if isinstance(operator := graph.operator(node), Constant)}
        graph.constants = {name: tensor for name, tensor in graph.constants.items() if name not in names}


__all__ = ["Applied", "RewriteError", "apply", "apply_in_place"]
