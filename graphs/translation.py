"""Exported programs node by node into graphs: declared operators where there are any, opaque nodes elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import getitem
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from graphs.functional import NotFunctional, in_place_owners, writes
from graphs.graph import Graph, Value
from graphs.interface import Interface, Position
from graphs.sizes import UnknownSize, from_sympy, number, shape_of, size_of
from graphs.trace import Proxy, TraceError, as_value
from operators.casts import Detach
from operators.expressions import Expression, Symbol
from operators.formulas import equal
from operators.layout import Expand
from operators.opaque import Opaque, Slot, target_name, word_for
from operators.operator import ShapeError, TensorType, Unsupported, collecting_obligations, operator_for


class CaptureError(ValueError):
    """A module that cannot be captured; the message gives the reason and the user's line, which is what to change."""


_SKIPPED = ("_assert", "sym_constrain_range", "_guards_fn")
"""Guards and assertions: no operators, they have no output."""


_OUTPUTS = {
    "_native_batch_norm_legit_functional": {0: 0, 3: 1, 4: 2},
    "_native_batch_norm_legit_no_training": {0: 0},
}
"""Where torch's operator has other outputs than ours: which of ours each of them is."""


class Translation:
    """One pass over an exported program's nodes."""

    def __init__(self, program: torch.export.ExportedProgram, module: torch.nn.Module | None) -> None:
        self.program = program
        self.module = module
        self.graph = Graph()
        self.known: dict[torch.fx.Node, Any] = {}
        self.tensors = _tensors_of(program, module)
        self.hints: dict[Symbol, int] = {}
        self.unused: dict[str, Any] = {}
        self.regions: list[torch.fx.GraphModule] = [program.graph_module]
        self.training = module is not None and module.training

    def graph_of_program(self) -> Graph:
        signature = self.program.graph_signature
        self.owners = in_place_owners(self.program.graph)
        updated = {spec.target for spec in signature.output_specs if spec.kind == OutputKind.BUFFER_MUTATION}
        nodes = list(self.program.graph.nodes)
        placeholders = [node for node in nodes if node.op == "placeholder"]
        arguments: list[Any] = []
        argument_names: list[str] = []
        state: list[tuple[torch.fx.Node, str]] = []
        for node, spec in zip(placeholders, signature.input_specs, strict=True):
            if spec.kind == InputKind.USER_INPUT:
                arguments.append(self.argument(node, spec))
                argument_names.append(node.name)
            elif spec.target in updated:
                state.append((node, str(spec.target)))
            elif not node.users:
                self.unused[str(spec.target)] = self.tensors[str(spec.target)]
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                self.known[node] = self.graph.constant(str(spec.target), self.tensors[str(spec.target)])
            else:
                raise CaptureError(f"{node.name}: inputs of kind {spec.kind.name.lower()} are not covered")
        states = {}
        for node, name in state:
            states[len(self.graph.inputs)] = name
            self.known[node] = self.graph.input(name, self.type_of(node.meta["val"], node))
        self.body(nodes)
        self.finish(nodes[-1], arguments, states)
        return self.graph

    def body(self, nodes: Sequence[torch.fx.Node]) -> None:
        """Translate every call, in order."""
        for node in nodes:
            if node.op == "call_function":
                self.call(node)
                owner = self.owners.get(node)
                if owner is not None:
                    names = [name for name, other in self.owners.items() if other is owner and name in self.known]
                    self.known.update(dict.fromkeys([*names, owner], self.known[node]))
            elif node.op not in ("placeholder", "output", "get_attr") and not node.name.startswith(_SKIPPED):
                raise CaptureError(f"{node.name}: a {node.op} of {node.target} is not covered")

    def inlined(self, node: torch.fx.Node) -> None:
        """A region under no_grad, or one in which autocast is off, as if its calls stood in the graph itself.

        In training mode what a no_grad region gives is detached; in eval mode gradients do not count.
        """
        name = str(node.target)
        skip = {"wrap_with_set_grad_enabled": 2, "wrap_with_autocast": 5}.get(name)
        if skip is None:
            raise CaptureError(f"{node.name}: control flow ({node.target}) is not covered{line_of(node)}")
        if name == "wrap_with_autocast" and node.args[2] is not False:
            raise NotFunctional(f"{node.name} casts on its own")
        attribute = node.args[skip - 1]
        assert isinstance(attribute, torch.fx.Node)
        region = getattr(self.regions[-1], str(attribute.target))
        if in_place_owners(region.graph):
            raise NotFunctional(f"{node.name} writes to tensors")
        inner = list(region.graph.nodes)
        given = [self.known[argument] if isinstance(argument, torch.fx.Node) else argument for argument in node.args[skip:]]
        self.known.update(zip([part for part in inner if part.op == "placeholder"], given, strict=True))
        self.regions.append(region)
        self.body(inner)
        self.regions.pop()
        returned = inner[-1].args[0]
        parts = returned if isinstance(returned, (tuple, list)) else [returned]
        results = [self.known[part] if isinstance(part, torch.fx.Node) else part for part in parts]
        if self.training and name == "wrap_with_set_grad_enabled" and node.args[0] is False:
            results = [self.graph.add(Detach(), part) if isinstance(part, Value) else part for part in results]
        self.known[node] = results if isinstance(returned, (tuple, list)) else results[0]

    def finish(self, output: torch.fx.Node, arguments: list[Any], states: dict[int, str]) -> None:
        returned = output.args[0]
        assert isinstance(returned, (tuple, list))
        results: list[Any] = []
        updates: dict[int, str | int] = {}
        later: list[tuple[Any, str | int]] = []
        user_inputs = list(self.program.graph_signature.user_inputs)
        for item, spec in zip(returned, self.program.graph_signature.output_specs, strict=True):
            known = self.known[item] if isinstance(item, torch.fx.Node) else item
            if spec.kind == OutputKind.USER_OUTPUT:
                results.append(self.output(known) if isinstance(known, Value) else known)
            elif spec.kind == OutputKind.BUFFER_MUTATION:
                later.append((known, str(spec.target)))
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                later.append((known, user_inputs.index(spec.target)))
            else:
                raise CaptureError(f"an output of kind {spec.kind.name.lower()} is not covered")
        for known, target in later:
            updates[self.output(known).index] = target
        names, persistent = _names_of(self.tensors, self.program, self.module)
        call = self.program.call_spec
        assert call.in_spec is not None and call.out_spec is not None
        self.graph.metadata["interface"] = Interface(
            tuple(_argument_names(call.in_spec, self.program)),
            tuple(arguments),
            call.in_spec,
            tuple(results),
            call.out_spec,
            state=states,
            tensors={name: self.tensors[name] for name in states.values()},
            updates=updates,
            names=names,
            persistent=persistent,
            hints=self.hints,
            ranges=_ranges(self.program),
            training=self.training,
            unused=self.unused,
            read=frozenset(self.graph.constants),
        )

    def output(self, value: Value) -> Position:
        self.graph.outputs.append(value)
        return Position(len(self.graph.outputs) - 1)

    def argument(self, node: torch.fx.Node, spec: Any) -> Any:
        meta = node.meta.get("val")
        if isinstance(meta, torch.Tensor):
            for dim in meta.shape:
                if isinstance(dim, torch.SymInt):
                    self.note_hint(dim)
            self.known[node] = self.graph.input(node.name, self.type_of(meta, node))
            return Position(len(self.graph.inputs) - 1)
        if isinstance(meta, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise CaptureError(f"{node.name}: a number as a dynamic input is not covered; pass a tensor, or leave it static")
        self.known[node] = spec.arg.value
        return spec.arg.value

    def note_hint(self, dim: torch.SymInt) -> None:
        value = size_of(dim)
        if isinstance(value, Expression):
            for free in dim.node.expr.free_symbols:
                hint = self.shape_environment(dim).backed_var_to_val.get(free)
                if hint is not None:
                    self.hints[Symbol(str(free))] = int(hint)

    @staticmethod
    def shape_environment(dim: torch.SymInt) -> Any:
        return dim.node.shape_env

    def type_of(self, meta: Any, node: torch.fx.Node) -> TensorType:
        try:
            if isinstance(meta, torch.Tensor):
                if meta.layout != torch.strided:
                    raise CaptureError(f"{node.name}: a tensor of layout {meta.layout} is not covered")
                return TensorType(shape_of(meta), str(meta.dtype).removeprefix("torch."))
        except UnknownSize as error:
            raise CaptureError(f"{node.name}: {error}{line_of(node)}") from error
        kinds = ((bool, torch.SymBool), "bool"), ((int, torch.SymInt), "int64"), ((float, torch.SymFloat), "float32")
        for classes, kind in kinds:
            if isinstance(meta, classes):
                return TensorType((), kind, weak=True)
        raise CaptureError(f"{node.name}: an output of type {type(meta).__name__} is not covered{line_of(node)}")

    def call(self, node: torch.fx.Node) -> None:
        target, meta = node.target, node.meta.get("val")
        if target is getitem and isinstance(self.known.get(node.args[0]), (tuple, list)):  # type: ignore[arg-type]
            self.known[node] = self.known[node.args[0]][node.args[1]]  # type: ignore[index]
            return
        if getattr(target, "__name__", "").startswith(_SKIPPED):
            return
        if isinstance(meta, (int, float, bool, torch.SymInt)):
            try:
                self.known[node] = size_of(meta) if isinstance(meta, torch.SymInt) else meta
                return
            except UnknownSize as error:
                raise CaptureError(f"{node.name}: {error}{line_of(node)}") from error
        if isinstance(target, torch._ops.HigherOrderOperator):
            self.inlined(node)
            return
        several = isinstance(meta, (tuple, list))
        types = [None if part is None else self.type_of(part, node) for part in (meta if isinstance(meta, (tuple, list)) else [meta])]
        known = self.defined(node, types) or self.broadcast(node, types) or self.opaque(node, types, several)
        self.known[node] = known if several else known[0]

    def defined(self, node: torch.fx.Node, types: Sequence[TensorType | None]) -> list[Value | None] | None:
        """The node's outputs by a declared operator; None when there is none for this form of call."""
        assert callable(node.target)
        declared = operator_for(node.target)
        if declared is None or not str(node.target).startswith(("aten.", "<built-in")):
            return None
        before = self.graph.mark()
        try:
            operator, operands = declared.bind(*self.proxied(node.args), **self.proxied(node.kwargs))
            values = [as_value(self.graph, operand) for operand in operands]
            with collecting_obligations():
                value = self.graph.add(operator, *values)
        except (Unsupported, TraceError, ShapeError):
            self.graph.undo_to(before)
            return None
        found = self.graph.types(value.node)
        positions = _OUTPUTS.get(getattr(node.target, "_opname", ""), {k: k for k in range(len(found))})
        read = self.outputs_read(node) if isinstance(node.meta.get("val"), (tuple, list)) else {0}
        if all(k in positions and positions[k] < len(found) and self.agrees(found[positions[k]], types[k]) for k in read):
            return [Value(value.node, positions[k]) if k in positions else None for k in range(len(types))]
        self.graph.undo_to(before)
        return None

    def broadcast(self, node: torch.fx.Node, types: Sequence[TensorType | None]) -> list[Value | None] | None:
        """What `broadcast_tensors` gives: each tensor, expanded where it has another shape."""
        if getattr(node.target, "_opname", "") != "broadcast_tensors":
            return None
        tensors = [self.known[tensor] for tensor in node.args[0]]  # type: ignore[index, union-attr]
        shapes = [kind.shape for kind in types if kind is not None]
        return [
            tensor if self.graph.type(tensor).shape == shape else self.graph.add(Expand(shape), tensor)
            for tensor, shape in zip(tensors, shapes, strict=True)
        ]

    def outputs_read(self, node: torch.fx.Node) -> set[int]:
        """Which outputs of a node of several are used."""
        return {user.args[1] if user.target is getitem else -1 for user in node.users if user.users or user.op == "output"}  # type: ignore[misc]

    def agrees(self, found: TensorType, expected: TensorType | None) -> bool:
        """The operator's own type is torch's."""
        if expected is None or found.dtype != expected.dtype or len(found.shape) != len(expected.shape):
            return False
        if found.weak != expected.weak:
            return False
        pairs = zip(found.shape, expected.shape, strict=True)
        return all(equal(left, right) is True or number(left, self.hints) == number(right, self.hints) for left, right in pairs)

    def opaque(self, node: torch.fx.Node, types: Sequence[TensorType | None], several: bool) -> list[Value | None]:
        assert callable(node.target)
        if writes(node.target):
            raise NotFunctional(f"{node.name} writes, and no operator stands for it")
        name = target_name(node.target)
        if name is None:
            raise CaptureError(f"{node.name}: {node.target} has no name to find it by{line_of(node)}")
        if any(kind is None for kind in types):
            raise CaptureError(f"{node.name}: {node.target} with an absent output is not covered{line_of(node)}")
        operands: list[Value] = []
        arguments = tuple(self.template(argument, operands, node) for argument in node.args)
        named = tuple((key, self.template(argument, operands, node)) for key, argument in node.kwargs.items())
        operator = Opaque(name, arguments, named, tuple(kind for kind in types if kind is not None), several)
        value = self.graph.add(operator, *operands)
        return [Value(value.node, k) for k in range(len(types))]

    def template(self, argument: Any, operands: list[Value], node: torch.fx.Node) -> Any:
        if isinstance(argument, torch.fx.Node):
            argument = self.known[argument]
        if isinstance(argument, Value):
            operands.append(argument)
            return Slot(len(operands) - 1)
        if isinstance(argument, (tuple, list)):
            return tuple(self.template(part, operands, node) for part in argument)
        if argument is None or isinstance(argument, (bool, int, float, str, Expression)):
            return argument
        word = word_for(argument)
        if word is None:
            raise CaptureError(f"{node.name}: an argument of type {type(argument).__name__} is not covered{line_of(node)}")
        return word

    def proxied(self, arguments: Any) -> Any:
        """The arguments of an fx node for `bind`: tensors as proxies."""

        def convert(argument: Any) -> Any:
            if isinstance(argument, torch.fx.Node):
                argument = self.known[argument]
            return Proxy(self.graph, argument) if isinstance(argument, Value) else argument

        return torch.fx.node.map_aggregate(arguments, convert)


def line_of(node: torch.fx.Node) -> str:
    """Where in the user's code an fx node comes from, in brackets."""
    lines = [line.strip() for line in str(node.meta.get("stack_trace") or "").splitlines()]
    places = [(line, lines[k + 1] if k + 1 < len(lines) else "") for k, line in enumerate(lines) if line.startswith("File ")]
    own = [place for place in places if "site-packages" not in place[0]] or places
    return f" (at {own[-1][0].removeprefix('File ')}: {own[-1][1]})" if own else ""


def _tensors_of(program: torch.export.ExportedProgram, module: torch.nn.Module | None) -> dict[str, Any]:
    """Every parameter, buffer and lifted constant by name."""
    tensors: dict[str, Any] = dict(program.constants)
    tensors.update(program.state_dict)
    if module is not None:
        own = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
        tensors.update({name: tensor for name, tensor in own.items() if name in tensors})
    return tensors


def _names_of(
    tensors: Mapping[str, Any], program: torch.export.ExportedProgram, module: torch.nn.Module | None
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """The names of each tensor that has several, and the names that the state dict holds."""
    by_tensor: dict[int, list[str]] = {}
    for name, tensor in tensors.items():
        by_tensor.setdefault(id(tensor), []).append(name)
    return {name: tuple(names) for names in by_tensor.values() if len(names) > 1 for name in names}, tuple(
        program.state_dict if module is None else module.state_dict()
    )


def _argument_names(structure: pytree.TreeSpec, program: torch.export.ExportedProgram) -> list[str]:
    """A Python name per argument of the module's call (not per leaf)."""
    positional = structure.child(0).num_children
    signature = program.module_call_graph[0].signature
    known = list(signature.forward_arg_names or []) if signature is not None else []
    names = known[:positional] if len(known) >= positional else [f"arg_{k}" for k in range(positional)]
    return [*names, *structure.child(1).context]


def _ranges(program: torch.export.ExportedProgram) -> dict[Symbol, tuple[int, int | None]]:
    """The bounds of each symbolic size."""
    ranges: dict[Symbol, tuple[int, int | None]] = {}
    for name, bounds in program.range_constraints.items():
        size = from_sympy(name) if not str(name).startswith("u") else 0
        if isinstance(size, Expression):
            upper = bounds.upper
            ranges[Symbol(str(name))] = (int(bounds.lower), int(upper) if upper.is_Integer and upper < 2**60 else None)
    return ranges
