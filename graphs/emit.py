"""Graphs back into PyTorch: a torch.fx.GraphModule, or an ExportedProgram."""

from __future__ import annotations

import operator as python_operator
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from torch.utils import _pytree as pytree

from graphs.evaluate import map_attributes
from graphs.graph import Graph, Value
from graphs.interface import Interface, Position, interface_of, linear_in
from graphs.record import Recorded, Recording
from graphs.sizes import number
from operators.expressions import Expression, Symbol, Variable
from operators.foreign import Foreign, run_foreign
from operators.opaque import Opaque
from operators.operator import Effect, Operator, TensorType
from operators.sources import Constant, Input, Scalar

_MEASURES = (getattr, torch.ops.aten.sym_size.int, python_operator.sub, python_operator.floordiv)

USUAL_SIZE = 24
"""What a symbolic size is taken to be in the examples that `run` is recorded on, where capture left no better number."""


class EmitError(ValueError):
    """A graph that cannot be written as a PyTorch module; the message names the node."""


def to_module(graph: Graph) -> torch.fx.GraphModule:
    """A module that computes the graph, called as the captured module is and returning what it returns.

    Weights that the graph still holds as they were are the same parameters under their old names; folded ones are new
    parameters. Buffers stay buffers, and those that the captured module updates are updated.
    Raises: EmitError naming the node that cannot be written.
    """
    return _Emission(graph).module()


def to_exported_program(graph: Graph) -> torch.export.ExportedProgram:
    """The graph as an exported program (`torch.export.save` writes it as `.pt2`); dynamic sizes stay dynamic."""
    interface = interface_of(graph)
    leaves: list[Any] = []
    dynamic: list[Any] = []
    for entry in interface.arguments:
        if isinstance(entry, Position):
            kind = graph.types(graph.inputs[entry.index])[0]
            leaves.append(example_tensor(kind, interface, "cpu"))
            dynamic.append({axis: torch.export.Dim.AUTO for axis, dim in enumerate(kind.shape) if isinstance(dim, Expression)} or None)
        else:
            leaves.append(entry)
            dynamic.append(None)
    arguments, named = pytree.tree_unflatten(leaves, interface.argument_structure)
    positional, by_name = pytree.tree_unflatten(dynamic, interface.argument_structure)
    shapes = dict(zip(_call_names(interface), [*positional, *by_name.values()], strict=True)) if any(dynamic) else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(to_module(graph), arguments, named, dynamic_shapes=shapes)


def example_tensor(kind: TensorType, interface: Interface, device: str) -> torch.Tensor:
    """A tensor of zeros of this type, symbolic sizes at their hints."""
    return torch.zeros(example_shape(kind, interface), dtype=getattr(torch, kind.dtype), device=device)


def example_shape(kind: TensorType, interface: Interface) -> tuple[int, ...]:
    """The shape with symbolic sizes at their hints."""
    return tuple(
        number(dim, {symbol: interface.hints.get(symbol, USUAL_SIZE) for symbol in dim.symbols}) if isinstance(dim, Expression) else dim
        for dim in kind.shape
    )


def _call_names(interface: Interface) -> list[str]:
    """A valid, distinct Python name per argument of the call."""
    names: list[str] = []
    for name in interface.argument_names:
        clean = name if name.isidentifier() else "arg"
        while clean in names:
            clean += "_"
        names.append(clean)
    return names


def check_sizes(tensor: torch.Tensor, name: str, expected: Sequence[int]) -> None:
    """Emitted modules call this on their inputs: a graph that was captured for one size would go wrong silently on another.

    Raises: ValueError naming the input when its shape is another one.
    """
    if isinstance(tensor, torch.fx.Proxy):  # a module that is read from a file is traced once more
        tensor.tracer.create_proxy("call_function", check_sizes, (tensor, name, tuple(expected)), {})
        return
    if tuple(tensor.shape) != tuple(expected):
        raise ValueError(f"input {name}: must be {list(expected)}, as captured, got {list(tensor.shape)}")


class _Emission:
    """One graph on its way to an fx module."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.interface = interface_of(graph)
        self.fx = torch.fx.Graph()
        self.known: dict[Value, Any] = {}
        self.attributes: dict[str, torch.fx.Node] = {}
        self.hints: dict[Symbol, int] = {
            symbol: self.interface.hints.get(symbol, USUAL_SIZE)
            for node in graph.inputs
            for dim in graph.types(node)[0].shape
            if isinstance(dim, Expression)
            for symbol in dim.symbols
        }

    def module(self) -> torch.fx.GraphModule:
        placeholders = self.inputs()
        sources = [node for node in placeholders if node is not None]
        first = next(iter([*sources, *self.constants()]), None)
        device = None if first is None else self.fx.call_function(getattr, (first, "device"))
        self.recording = Recording(self.fx, device, self.hints)
        self.sizes()
        self.check_inputs()
        for node in self.graph.topological_order():
            operator = self.graph.operator(node)
            if isinstance(operator, (Input, Constant)):
                continue
            try:
                self.apply(node, operator)
            except (TypeError, NotImplementedError, RuntimeError, LookupError) as error:
                raise EmitError(f"node {node} ({operator}): cannot be written as a torch call: {error}") from error
        self.updates(placeholders)
        self.fx.output(self.results())
        return self.finished()

    def inputs(self) -> list[torch.fx.Node | None]:
        """Placeholders for every leaf of the call; for each graph input, the node that gives it."""
        tensors: list[torch.fx.Node | None] = [None] * len(self.interface.arguments)
        for leaf, entry in enumerate(self.interface.arguments):
            if isinstance(entry, Position):
                node = self.graph.inputs[entry.index]
                tensors[leaf] = self.fx.placeholder(self.graph.operator(node).attributes["name"])
                self.know(Value(node), tensors[leaf])
            else:
                self.fx.placeholder(f"unused_{leaf}")
        for position, name in self.interface.state.items():
            self.know(Value(self.graph.inputs[position]), self.attribute(name))
        return tensors

    def constants(self) -> list[torch.fx.Node]:
        for node in self.graph.topological_order():
            operator = self.graph.operator(node)
            if isinstance(operator, Constant):
                self.know(Value(node), self.attribute(operator.name))
        return list(self.attributes.values())

    def attribute(self, name: str) -> torch.fx.Node:
        if name not in self.attributes:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.attributes[name] = self.fx.get_attr(name)
        return self.attributes[name]

    def know(self, value: Value, node: Any) -> None:
        kind = self.graph.type(value)
        example = torch.empty(example_shape(kind, self.interface), dtype=getattr(torch, kind.dtype), device="meta")
        self.known[value] = Recorded.of(node, example, kind.shape)

    def sizes(self) -> None:
        """A node for each symbol, computed from the first input of which it decides a size."""
        for node in self.graph.inputs:
            for axis, dim in enumerate(self.graph.types(node)[0].shape):
                solved = linear_in(dim)
                if solved is None or solved[0] in self.recording.symbols:
                    continue
                symbol, factor, offset = solved
                size = self.fx.call_function(torch.ops.aten.sym_size.int, (self.known[Value(node)].node, axis))
                if offset:
                    size = self.fx.call_function(python_operator.sub, (size, offset))
                if factor != 1:
                    size = self.fx.call_function(python_operator.floordiv, (size, factor))
                self.recording.symbols[symbol] = size

    def check_inputs(self) -> None:
        """Calls that refuse inputs of other sizes than those the graph was captured for."""
        for entry in self.interface.arguments:
            if isinstance(entry, Position):
                recorded = self.known[Value(self.graph.inputs[entry.index])]
                expected = tuple(self.recording.size(dim) for dim in recorded.sizes)
                self.fx.call_function(
                    check_sizes, (recorded.node, self.graph.operator(self.graph.inputs[entry.index]).attributes["name"], expected)
                )

    def apply(self, node: int, operator: Operator) -> None:
        operands = [None if operand is None else self.known[operand] for operand in self.graph.operands(node)]
        if isinstance(operator, Scalar) and isinstance(operator.value, Expression):
            self.known[Value(node)] = Variable(operator.value.terms)
            return
        if isinstance(operator, (Opaque, Foreign)):
            self.opaque(node, operator, operands)
            return
        if all(kind.weak for kind in self.graph.types(node)) and not any(isinstance(operand, Recorded) for operand in operands):
            self.known[Value(node)] = operator.run(*operands)
            return
        with self.recording:
            result = map_attributes(operator, _as_variable).run(*operands)
        parts = list(result) if isinstance(result, (tuple, list)) else [result]
        for output, part in enumerate(parts):
            value = Value(node, output)
            expected = example_shape(self.graph.type(value), self.interface)
            if tuple(part.example.shape) != expected or part.example.dtype != getattr(torch, self.graph.type(value).dtype):
                got = f"{part.example.dtype} {list(part.example.shape)}"
                raise EmitError(f"node {node} ({operator}): torch gives {got}, not {self.graph.type(value)}")
            self.know(value, part.node)

    def opaque(self, node: int, operator: Opaque | Foreign, operands: Sequence[Any]) -> None:
        target: Any
        if isinstance(operator, Opaque):
            target, arguments, named = operator.call(operands)
        else:
            target, arguments, named = run_foreign, (operator.node, operator.captured, operator.opsets, *operands), {}
        call = self.fx.call_function(target, tuple(self.recording.nodes(arguments)), self.recording.nodes(named))
        for output in range(len(self.graph.types(node))):
            part = self.fx.call_function(python_operator.getitem, (call, output)) if operator.multiple else call
            self.know(Value(node, output), part)

    def updates(self, placeholders: list[torch.fx.Node | None]) -> None:
        """Write back what the captured module writes into its buffers and arguments.

        Whatever else is a view of a tensor that is written to is copied first: it must keep the old values.
        """
        updates = self.interface.updates
        targets = {position for position, name in self.interface.state.items() if name in updates.values()}
        targets |= {entry.index for leaf, entry in enumerate(self.interface.arguments) if leaf in updates.values()}
        written = {self.graph.inputs[position] for position in targets}
        for value in dict.fromkeys(self.graph.outputs):
            if written and isinstance(self.known[value], Recorded) and viewed(self.graph, value) in written:
                self.known[value].node = self.fx.call_method("clone", (self.known[value].node,))
        for position, target in updates.items():
            destination = self.attribute(target) if isinstance(target, str) else placeholders[target]
            self.fx.call_function(torch.ops.aten.copy_.default, (destination, self.known[self.graph.outputs[position]].node))

    def results(self) -> list[Any]:
        leaves: list[Any] = []
        for entry in self.interface.results:
            if isinstance(entry, Position):
                known = self.known[self.graph.outputs[entry.index]]
                leaves.append(known.node if isinstance(known, Recorded) else known)
            else:
                leaves.append(self.recording.size(entry) if isinstance(entry, Expression) else entry)
        return leaves

    def finished(self) -> torch.fx.GraphModule:
        for node in reversed(list(self.fx.nodes)):
            if node.op == "call_function" and not node.users and node.target in _MEASURES:
                self.fx.erase_node(node)
        for node in [node for node in self.attributes.values() if not node.users]:
            self.fx.erase_node(node)
        names = _call_names(self.interface)
        self.fx.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, self.interface.argument_structure, self.interface.result_structure)))
        tensors = {**self.graph.constants, **self.interface.tensors}
        tensors.update(self.unused(tensors))
        named = [(name, tensor) for key, tensor in tensors.items() for name in self.interface.names.get(key, (key,))]
        rank = {name: position for position, name in enumerate(self.interface.persistent)}
        named.sort(key=lambda item: rank.get(item[0], len(rank)))
        root = torch.nn.Module()
        for name, tensor in named:
            place_tensor(root, name, tensor, name in rank)
        module = torch.fx.GraphModule(root, self.fx, "Rewritten")
        # fx copies what the graph reads, in the order of reading; this is all of it, in the order of the state dict.
        module._modules, module._parameters, module._buffers = root._modules, root._parameters, root._buffers
        module._non_persistent_buffers_set = root._non_persistent_buffers_set
        module.train(bool(self.interface.training))
        return module

    def unused(self, used: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors that the captured module has and never reads, but those of parts of which nothing else is left."""
        owners = {name.rpartition(".")[0] for name in used}
        before = {name.rpartition(".")[0] for name in self.interface.read}
        unused = self.interface.unused.items()
        return {name: tensor for name, tensor in unused if (owner := name.rpartition(".")[0]) in owners or owner not in before}


def viewed(graph: Graph, value: Value) -> int:
    """The node whose memory the value may share: the end of its chain of views."""
    node = value.node
    while graph.operator(node).effects & Effect.ALIASES and graph.operands(node)[0] is not None:
        operand = graph.operands(node)[0]
        assert operand is not None
        node = operand.node
    return node


def _as_variable(value: Any) -> Any:
    return Variable(value.terms) if isinstance(value, Expression) else value


def place_tensor(module: torch.nn.Module, name: str, tensor: torch.Tensor, persistent: bool) -> None:
    """Enter a parameter or a buffer under its dotted name, making the modules on the way."""
    *path, last = name.split(".")
    for part in path:
        if part not in module._modules:
            module.add_module(part, torch.nn.Module())
        child = module._modules[part]
        assert child is not None
        module = child
    for table in (module._parameters, module._buffers):
        table.pop(last, None)
    if isinstance(tensor, torch.nn.Parameter):
        module.register_parameter(last, tensor)
    else:
        module.register_buffer(last, tensor, persistent=persistent)


__all__ = ["EmitError", "check_sizes", "example_shape", "example_tensor", "place_tensor", "to_exported_program", "to_module"]
