"""Which operators run together as one kernel: the grouping policies.

* `none`: one kernel per operator, as PyTorch runs it in eager mode; views are free.
* `copies`: as `none`, but every slice, permutation and expansion copies its data, a kernel of its own (reshapes are free).
* `pointwise`: adjacent pointwise operators of one shape fuse, and a reduction absorbs pointwise producers that only it reads.
* `epilogues`: as `none`, but relu, sigmoid or tanh of a convolution's or product's result, where nothing else reads that, is part of its
  kernel, as in cuDNN's fused kernels and in TASO's operators with an activation.
* `inductor-like`: as `pointwise`, and a pointwise operator also fuses with producers of a smaller, broadcast shape and behind a
  reduction; concatenation and padding are pointwise.

Free under every policy: inputs, constants, numbers, whatever is computed from constants alone (it is folded before the model
runs), and dropout outside training. A view of a view reads the memory of its base.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from graphs.graph import Graph, Value
from operators.operator import Effect, Operator
from operators.sources import Input


@dataclass(frozen=True)
class Policy:
    """How operators are grouped into kernels.

    copies: views copy their data   fuses: adjacent pointwise operators are one kernel
    broadcasts: fusion reaches over broadcasting, behind reductions and through concatenation
    epilogues: an activation is part of the kernel of the convolution or product whose result it alone reads
    """

    name: str
    copies: bool = False
    fuses: bool = False
    broadcasts: bool = False
    epilogues: bool = False

    @property
    def additive(self) -> bool:
        """Every kernel is one operator, so that the cost of a graph is the sum of its operators' costs."""
        return not self.fuses and not self.epilogues


POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("none"),
        Policy("copies", copies=True),
        Policy("epilogues", epilogues=True),
        Policy("pointwise", fuses=True),
        Policy("inductor-like", fuses=True, broadcasts=True),
    )
}
"""Every policy by name."""


class UnknownPolicyError(ValueError):
    """A kernel policy without a definition; the message lists the names there are."""


def policy(name: str | Policy) -> Policy:
    """The policy of this name.

    Raises: UnknownPolicyError naming the policies there are.
    """
    if isinstance(name, Policy):
        return name
    if name not in POLICIES:
        raise UnknownPolicyError(f"kernels: must be one of {', '.join(POLICIES)}, got {name}")
    return POLICIES[name]


class Kernel(NamedTuple):
    """The nodes that run together, in topological order."""

    nodes: tuple[int, ...]


REDUCING_FAMILIES = frozenset(
    f"operators.{family}" for family in ("extremes", "losses", "normalisation", "reductions", "softmax", "spreads")
)
"""Modules of operators whose elements each fold a range of the operand's elements in one pass over memory."""


CONTRACTIONS = frozenset({"Conv1d", "Conv2d", "Conv3d", "Linear", "MatMul", "AddMatMul"})
ACTIVATIONS = frozenset({"Relu", "Sigmoid", "Tanh"})
"""What `epilogues` joins: an activation behind a contraction."""


def reduces(kind: type[Operator]) -> bool:
    """The operator folds ranges of its operand, so that fusing compilers absorb its pointwise producers."""
    return kind.__module__ in REDUCING_FAMILIES


def is_view(operator: Operator) -> bool:
    """The operator moves no data: its output is a view of its first operand (dropout outside training is its operand)."""
    return type(operator).aliases or (type(operator).__name__ == "Dropout" and Effect.RANDOM not in operator.effects)


def copies(operator: Operator, policy: Policy) -> bool:
    """The view is a kernel of its own under this policy."""
    return policy.copies and type(operator).__name__ not in ("Reshape", "Dropout", "Detach", "Identity")


def computed_from_constants(graph: Graph, order: Iterable[int] | None = None) -> set[int]:
    """The nodes whose value is known before the model runs: constants, numbers, and pure functions of them."""
    known: set[int] = set()
    network = graph.network
    for node in graph.topological_order() if order is None else order:
        operator = network.nodes[node]["operator"]
        if isinstance(operator, Input) or not is_repeatable(operator):
            continue
        if all(producer in known for producer in network.pred[node]):
            known.add(node)
    return known


def _is_plain(operator: Operator) -> bool:
    """The operator's class declares no effects of its own; a quick answer for most operators."""
    return type(operator).effects is Operator.effects


def is_repeatable(operator: Operator) -> bool:
    """The operator gives the same value each time, and does nothing else."""
    return _is_plain(operator) or not operator.effects & (Effect.RANDOM | Effect.UPDATES_BUFFER | Effect.UNKNOWN)


def live_nodes(graph: Graph) -> set[int]:
    """The nodes that some output needs, and those that act on more than their outputs."""
    pending = [value.node for value in graph.outputs]
    pending += [node for node, data in graph.network.nodes(data=True) if not _is_removable(data["operator"])]
    live: set[int] = set()
    predecessors = graph.network.pred
    while pending:
        node = pending.pop()
        if node not in live:
            live.add(node)
            pending.extend(predecessors[node])
    return live


def _is_removable(operator: Operator) -> bool:
    return _is_plain(operator) or not operator.effects & (Effect.UPDATES_BUFFER | Effect.UNKNOWN)


class Grouping:
    """A graph's kernels under a policy: `kernels` in topological order, with what is free and what is a view.

    operands: the operands of every live node   free: nodes known before the model runs   views: nodes that move no data
    """

    def __init__(self, graph: Graph, policy: Policy) -> None:
        self.graph = graph
        self.policy = policy
        live = live_nodes(graph)
        self.order = [node for node in graph.topological_order() if node in live]
        self.free = computed_from_constants(graph, self.order)
        self.operands: dict[int, tuple[Value, ...]] = {n: tuple(v for v in graph.operands(n) if v is not None) for n in self.order}
        self.views = {node for node in self.order if is_view(graph.operator(node)) and not copies(graph.operator(node), policy)}
        resting = self.free | self.views | set(graph.inputs)
        running = [node for node in self.order if node not in resting]
        self.users: dict[int, list[int]] = {node: [] for node in self.order}
        for node in self.order:
            for value in self.operands[node]:
                self.users[value.node].append(node)
        self.returned = {value.node for value in graph.outputs}
        if not policy.additive:
            self.kernels = _Fusion(self, running).kernels()
        else:
            self.kernels = [Kernel((node,)) for node in running]

    def base(self, value: Value) -> Value:
        """The value whose memory this one is a view of."""
        while value.node in self.views and value.node not in self.free:
            value = self.operands[value.node][0]
        return value


class _Fusion:
    """Greedy grouping in topological order; a node joins its producers' group unless that closes a cycle."""

    def __init__(self, grouping: Grouping, running: list[int]) -> None:
        self.grouping = grouping
        self.running = running
        self.position = {node: position for position, node in enumerate(grouping.order)}
        self.group_of: dict[int, int] = {}
        self.members: dict[int, list[int]] = {}

    def kernels(self) -> list[Kernel]:
        for node in self.running:
            self.group_of[node] = node
            self.members[node] = [node]
            for producer in self._producers(node):
                if self._may_join(producer, node):
                    self._join(self.group_of[producer], self.group_of[node])
        ordered = sorted(self.members.values(), key=lambda nodes: self.position[nodes[-1]])
        return [Kernel(tuple(nodes)) for nodes in ordered]

    def _producers(self, node: int) -> list[int]:
        grouping = self.grouping
        bases = (grouping.base(value) for value in grouping.operands[node])
        return [value.node for value in dict.fromkeys(bases) if value.node in self.group_of]

    def _is_pointwise(self, node: int) -> bool:
        kind = type(self.grouping.graph.operator(node))
        return kind.pointwise or (self.grouping.policy.broadcasts and kind.__name__ in ("Cat", "Pad", "Stack"))

    def _may_join(self, producer: int, node: int) -> bool:
        grouping, graph = self.grouping, self.grouping.graph
        above, below = self.group_of[producer], self.group_of[node]
        if above == below:
            return False
        shape, source = graph.types(node)[0].shape, graph.types(producer)[0].shape
        if not grouping.policy.fuses:
            names = type(graph.operator(producer)).__name__, type(graph.operator(node)).__name__
            fits = names[0] in CONTRACTIONS and names[1] in ACTIVATIONS and len(self.members[above]) == 1 and shape == source
            return fits and self._is_read_only_by(above, node)
        if self._is_pointwise(node):
            if self._is_pointwise(producer):
                fits = shape == source or grouping.policy.broadcasts
            else:
                fits = grouping.policy.broadcasts and reduces(type(graph.operator(producer))) and shape == source
        elif reduces(type(graph.operator(node))):
            fits = all(self._is_pointwise(member) for member in self.members[above]) and self._is_read_only_by(above, node)
        else:
            fits = False
        return fits and not self._reaches_around(above, below)

    def _is_read_only_by(self, group: int, node: int) -> bool:
        inside = {*self.members[group], node}
        for member in self.members[group]:
            if member in self.grouping.returned:
                return False
            pending = list(self.grouping.users[member])
            while pending:
                user = pending.pop()
                if user in self.grouping.views:
                    if user in self.grouping.returned:
                        return False
                    pending.extend(self.grouping.users[user])
                elif user not in inside:
                    return False
        return True

    def _reaches_around(self, above: int, below: int) -> bool:
        """Some path leads from the upper group through another kernel into the lower one, so that joining closes a cycle."""
        first = self.position[self.members[above][0]]
        pending = [group for group in self._read_by(below) if group != above]
        seen: set[int] = set()
        while pending:
            group = pending.pop()
            if group == above:
                return True
            if group not in seen and self.position[self.members[group][-1]] > first:
                seen.add(group)
                pending.extend(self._read_by(group))
        return False

    def _read_by(self, group: int) -> set[int]:
        """The other groups whose results the group reads."""
        bases = {self.grouping.base(value).node for member in self.members[group] for value in self.grouping.operands[member]}
        return {self.group_of[node] for node in bases if node in self.group_of} - {group}

    def _join(self, above: int, below: int) -> None:
        members = sorted(self.members.pop(above) + self.members.pop(below), key=self.position.__getitem__)
        name = members[-1]
        self.members[name] = members
        for member in members:
            self.group_of[member] = name


def sizes_of(values: Mapping[str, int] | None) -> dict[Any, int]:
    """Numbers for symbolic sizes, by symbol."""
    from operators.expressions import Symbol

    return {Symbol(name): number for name, number in (values or {}).items()}
