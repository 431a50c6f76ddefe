"""Two graphs as one over the same inputs: inputs and outputs aligned by name or else by position, symbolic sizes under one name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphs.graph import Graph, Value
from graphs.interface import interface_of
from graphs.onnx.origin import NODE_KEY, origin_of
from graphs.structure import node_digest, node_digests
from operators.expressions import Atom, Dim, Expression, Symbol, plain, substitute
from operators.foreign import UNTYPED, Foreign
from operators.formulas import Formula, Truth, at_least_zero, equal, formula_symbols
from operators.operator import Effect, ShapeError, TensorType, collecting_narrowings, collecting_obligations
from operators.sources import Constant, Input
from verifier.equivalence.one_form import in_one_form
from verifier.proof.facts import with_sizes

UNPAIRED = "·after"
"""What the name of a size ends in that AFTER alone is known to have."""


class AlignmentError(ValueError):
    """Two graphs of which it is not clear which input or output of one is which of the other; the message names them."""


@dataclass(frozen=True)
class OutputPair:
    """One output of both sides."""

    name: str
    before: Value
    after: Value


@dataclass
class Joined:
    """Both sides in one graph; nodes of `before` come first, inputs are shared.

    `facts` is what BEFORE's operators require of symbolic sizes, `owed` what each of AFTER's nodes requires; `obstacles` says in
    sentences how the two sides' signatures differ (a dtype, a size, a number of outputs), each with its kind.
    """

    graph: Graph
    before: frozenset[int]
    after: frozenset[int]
    outputs: list[OutputPair] = field(default_factory=list)
    facts: list[Truth] = field(default_factory=list)
    owed: dict[int, list[Truth]] = field(default_factory=dict)
    hints: dict[Symbol, int] = field(default_factory=dict)
    obstacles: list[tuple[str, str]] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)
    """How each node is called in its own graph, for messages."""

    @property
    def symbols(self) -> list[Symbol]:
        """The symbolic sizes of the inputs."""
        dims = [dim for node in self.graph.inputs for dim in self.graph.types(node)[0].shape]
        return sorted({s for dim in dims if isinstance(dim, Expression) for s in dim.symbols}, key=str)


def joined(before: Graph, after: Graph) -> Joined:
    """Both graphs in one.

    Raises: AlignmentError when inputs or outputs cannot be paired, or a side draws random numbers.
    """
    for side, graph in (("BEFORE", before), ("AFTER", after)):
        _refuse_randomness(side, graph)
    before, after = in_one_form(before), in_one_form(after)
    pairs = _paired_inputs(before, after)
    result = Joined(before.copy(), frozenset(before.network), frozenset())
    graph = result.graph
    result.labels = {node: label(before, node) for node in before.network}
    sizes = _sizes(before, after, pairs, result)
    placed: dict[int, int] = {theirs: ours for ours, theirs in pairs}
    names = {id(tensor): name for name, tensor in graph.constants.items()}
    added = []
    twins = _Twins(graph)
    for node in after.topological_order():
        if node in placed:
            continue
        sizes |= {atom: dim for atom, dim in twins.sizes(after, node, placed).items() if str(sizes.get(atom)).endswith(UNPAIRED)}
        operator = with_sizes(after.operator(node), sizes)
        if isinstance(operator, Constant):
            tensor = after.constants[operator.name]
            name = names.get(id(tensor)) or _fresh(graph, operator.name)
            names[id(tensor)] = name
            placed[node] = graph.constant(name, tensor).node
        else:
            operands = [None if v is None else Value(placed[v.node], v.output) for v in after.operands(node)]
            placed[node] = graph.add(operator, *operands, types=with_sizes(after.types(node), sizes)).node
        added.append(placed[node])
        twins.see(placed[node])
        result.labels.setdefault(placed[node], label(after, node))
    result.after = frozenset(placed.values())
    always = [node for node in before.topological_order() if node not in before.metadata.get("in branches", ())]
    result.facts = [*_ranges(before), *(fact for node in always for fact in _obligations(graph, node))]
    result.owed = {node: owed for node in dict.fromkeys(added) if (owed := _obligations(graph, node))}
    result.hints = {s: n for s, n in interface_of(before).hints.items() if s in result.symbols}
    result.outputs = _paired_outputs(before, after, placed, result)
    graph.outputs = [value for pair in result.outputs for value in (pair.before, pair.after)]
    _compare_types(result)
    return result


class _Twins:
    """Foreign nodes that both sides have, on operands computed by the same operators: what sizes depend on data there is the same."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.digests = node_digests(graph)
        self.positions = {node: position for position, node in enumerate(graph.inputs)}
        self.known: dict[Any, int] = {}
        for node in graph.topological_order():
            operator = graph.operator(node)
            if isinstance(operator, Foreign):
                self.known.setdefault(self._key(operator, graph.operands(node)), node)

    def _key(self, operator: Foreign, operands: Sequence[Value | None]) -> Any:
        read = tuple(None if value is None else (self.digests[value.node], value.output) for value in operands)
        return operator.node, operator.captured, operator.opsets, read

    def see(self, node: int) -> None:
        """A node has been added to the graph."""
        self.digests[node] = node_digest(self.graph, node, self.digests, self.positions)

    def sizes(self, after: Graph, node: int, placed: Mapping[int, int]) -> dict[Atom, Dim]:
        """The sizes that a foreign node of AFTER's has under names of its own, by its twin's."""
        operator = after.operator(node)
        if not isinstance(operator, Foreign) or not operator.known:
            return {}
        operands = [None if value is None else Value(placed[value.node], value.output) for value in after.operands(node)]
        twin = self.known.get(self._key(operator, operands))
        if twin is None:
            return {}
        pairs = zip(after.types(node), self.graph.types(twin), strict=True)
        dims = [pair for theirs, ours in pairs for pair in zip(theirs.shape, ours.shape, strict=theirs.ndim == ours.ndim)]
        return {alone: ours for theirs, ours in dims if isinstance(theirs, Expression) and (alone := _alone(theirs)) is not None}


def label(graph: Graph, node: int) -> str:
    """The node's operator, with the name it has in the ONNX file it came from."""
    operator = graph.operator(node)
    text = f"input {operator.name}" if isinstance(operator, Input) else str(operator).partition("(")[0]
    origin, place = origin_of(graph), graph.network.nodes[node].get(NODE_KEY)
    if origin is None or place is None:
        return text
    proto = origin.model.graph.node[place[0]]
    return f"{text} of {proto.op_type} {proto.name or next(iter(proto.output), '')}"


def update_obstacle(before: Graph, after: Graph) -> tuple[str, str] | None:
    """That one side updates buffers which the other does not, if it is so."""
    ours, theirs = (sorted(map(str, interface_of(graph).updates.values())) for graph in (before, after))
    if ours == theirs:
        return None
    words = [f"{side} updates {', '.join(names) or 'nothing'}" for side, names in (("BEFORE", ours), ("AFTER", theirs))]
    return "update", " and ".join(words)


def _refuse_randomness(side: str, graph: Graph) -> None:
    for node in graph.topological_order():
        if graph.operator(node).effects & Effect.RANDOM:
            raise AlignmentError(f"{side}: must not draw random numbers, got {label(graph, node)}; put the model in evaluation mode")


def input_names(graph: Graph) -> list[str]:
    """The names of the inputs, in order."""
    return [str(graph.operator(node).attributes["name"]) for node in graph.inputs]


def _paired_inputs(before: Graph, after: Graph) -> list[tuple[int, int]]:
    """Pairs of input nodes: by name where the names are the same, else by position where there are as many."""
    ours, theirs = input_names(before), input_names(after)
    if set(ours) == set(theirs) and len(set(ours)) == len(ours):
        return [(node, after.inputs[theirs.index(name)]) for name, node in zip(ours, before.inputs, strict=True)]
    if len(ours) != len(theirs):
        raise AlignmentError(f"inputs: both sides must take the same ones, got {_listed(ours)} before and {_listed(theirs)} after")
    if set(ours) & set(theirs):
        raise AlignmentError(f"inputs: names must agree or none may, got {_listed(ours)} before and {_listed(theirs)} after")
    return list(zip(before.inputs, after.inputs, strict=True))


def _listed(names: Sequence[str]) -> str:
    return f"({', '.join(names)})"


def _sizes(before: Graph, after: Graph, pairs: Sequence[tuple[int, int]], result: Joined) -> dict[Atom, Dim]:
    """AFTER's symbolic sizes in BEFORE's, from the shapes of the inputs; what AFTER asks for besides is an obstacle."""
    sizes: dict[Atom, Dim] = {}
    dims: list[tuple[str, Dim, Dim]] = []
    for ours, theirs in pairs:
        name, mine, other = str(before.operator(ours).attributes["name"]), before.types(ours)[0], after.types(theirs)[0]
        if mine.dtype != other.dtype:
            result.obstacles.append(("dtype", f"input {name} must be {mine.dtype} before and {other.dtype} after"))
        if mine.ndim != other.ndim:
            result.obstacles.append(("shape", f"input {name} has {mine.ndim} axes before and {other.ndim} after"))
            continue
        dims += [(name, plain(a), plain(b)) for a, b in zip(mine.shape, other.shape, strict=True)]
    for _, mine_dim, other_dim in dims:
        if isinstance(other_dim, Expression) and (alone := _alone(other_dim)) is not None:
            sizes.setdefault(alone, mine_dim)
    for name, mine_dim, other_dim in dims:
        wanted = substitute(other_dim, sizes)
        if equal(wanted, mine_dim) is not True:
            result.obstacles.append(("size", f"input {name} may have size {mine_dim} before and must have {wanted} after"))
    for unknown in _own_symbols(after) - sizes.keys():
        assert isinstance(unknown, Symbol)
        sizes[unknown] = Expression.of(Symbol(f"{unknown.name}{UNPAIRED}"))
    return sizes


def _alone(dim: Expression) -> Symbol | None:
    (first, *rest) = dim.terms.items()
    monomial, coefficient = first
    if rest or coefficient != 1 or len(monomial) != 1 or not isinstance(monomial[0], Symbol):
        return None
    return monomial[0]


def _own_symbols(graph: Graph) -> set[Atom]:
    dims = [dim for node in graph.network for type in graph.types(node) for dim in type.shape]
    return {s for dim in dims if isinstance(dim, Expression) for s in dim.symbols}


def _fresh(graph: Graph, name: str) -> str:
    result, number = name, 1
    while result in graph.constants:
        number += 1
        result = f"{name}·{number}"
    return result


def _obligations(graph: Graph, node: int) -> list[Truth]:
    """What the node's operator requires of symbolic sizes, and what its type takes for granted of them (that slices lie within an axis)."""
    types = [None if operand is None else graph.type(operand) for operand in graph.operands(node)]
    if not any(_is_symbolic(type) for type in (*types, *graph.types(node)) if type is not None):
        return []
    with collecting_obligations() as found, collecting_narrowings() as narrowed:
        try:
            graph.operator(node).outputs(*types)
        except (NotImplementedError, ShapeError):
            return []  # sizes known better than the operator's own rule gives them: the types as they stand count
    return [fact for fact in (*found, *narrowed) if isinstance(fact, Formula)]


def _ranges(graph: Graph) -> Iterator[Truth]:
    """The ranges that the graph was captured for."""
    for size, (low, high) in interface_of(graph).ranges.items():
        limits = [at_least_zero(Expression.of(size) - low)] if low > 0 else []
        limits += [at_least_zero(high - Expression.of(size))] if high is not None else []
        yield from (fact for fact in limits if isinstance(fact, Formula))


def _is_symbolic(type: TensorType) -> bool:
    return any(isinstance(dim, Expression) for dim in type.shape)


def output_names(graph: Graph) -> list[str]:
    """The names of the outputs: those of the file it came from, else numbers; a buffer that is written back by its name."""
    origin = origin_of(graph)
    if origin is not None:
        return [str(output.name) for output in origin.model.graph.output]
    updates = interface_of(graph).updates
    return [f"the update of {updates[i]}" if i in updates else str(i) for i in range(len(graph.outputs))]


def _paired_outputs(before: Graph, after: Graph, placed: dict[int, int], result: Joined) -> list[OutputPair]:
    ours, theirs = output_names(before), output_names(after)
    values = [Value(placed[v.node], v.output) for v in after.outputs]
    if set(ours) == set(theirs) and len(set(ours)) == len(ours):
        if ours != theirs:
            result.obstacles.append(("order of outputs", f"the outputs are {_listed(ours)} before and {_listed(theirs)} after"))
        by_name = dict(zip(theirs, values, strict=True))
        return [OutputPair(name, value, by_name[name]) for name, value in zip(ours, before.outputs, strict=True)]
    if len(ours) != len(theirs):
        words = f"the outputs are {_listed(ours)} before and {_listed(theirs)} after"
        result.obstacles.append(("number of outputs", words))
        common = [name for name in ours if name in theirs]
        by_name = dict(zip(theirs, values, strict=True))
        return [OutputPair(name, before.outputs[ours.index(name)], by_name[name]) for name in common]
    return [OutputPair(name, a, b) for name, a, b in zip(ours, before.outputs, values, strict=True)]


def _compare_types(result: Joined) -> None:
    for pair in result.outputs:
        ours, theirs = result.graph.type(pair.before), result.graph.type(pair.after)
        if UNTYPED in (ours.dtype, theirs.dtype):
            continue  # a type that is not known is no difference
        if ours.dtype != theirs.dtype:
            result.obstacles.append(("dtype", f"output {pair.name} is {ours.dtype} before and {theirs.dtype} after"))
        if ours.ndim != theirs.ndim:
            result.obstacles.append(("shape", f"output {pair.name} is {ours} before and {theirs} after"))


def symbols_of(facts: Sequence[Truth]) -> Iterator[Symbol]:
    """Every symbol of the statements."""
    for fact in facts:
        if isinstance(fact, Formula):
            yield from formula_symbols(fact)


__all__ = ["AlignmentError", "Joined", "OutputPair", "joined", "label", "update_obstacle"]
