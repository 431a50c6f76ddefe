"""Graphs as ONNX models: what no rule touched word for word, everything else in one spelling per operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import onnx
from onnx import helper, numpy_helper

from graphs.graph import Graph, Value
from graphs.onnx.errors import OnnxError
from graphs.onnx.files import order_of
from graphs.onnx.foreign import is_declared
from graphs.onnx.ordering import in_old_order
from graphs.onnx.origin import NODE_KEY, Group, Origin, origin_of
from graphs.onnx.subgraphs import all_nodes, captured_names, rename_captured
from graphs.onnx.surviving import surviving_groups
from graphs.onnx.types import ELEMENT_TYPES, proto_of, value_info
from graphs.onnx.writing.registry import Spelling, spelled
from operators.expressions import Dim, Expression
from operators.foreign import Foreign
from operators.sources import Constant, Input, Scalar

DEFAULT_OPSET = 21
"""The operator set of a model that was not read from ONNX."""


class _NotWordForWord(Exception):
    """A node of the original model cannot stand as it is."""


class Writer:
    """One graph on its way to a model."""

    def __init__(self, graph: Graph, fold_sizes: bool = False, opset: int | None = None) -> None:
        self.graph = graph
        self.fold_sizes = fold_sizes
        self.origin: Origin | None = origin_of(graph)
        self.original: onnx.GraphProto | None = None if self.origin is None else self.origin.model.graph
        self.nodes: list[onnx.NodeProto] = []
        self.numbers: dict[int, int] = {}
        self.initialisers: dict[str, onnx.TensorProto] = {}
        self.names: dict[Value, str] = {}
        self.values: dict[str, Value] = {}
        self.claimed: set[str] = set()
        self.hidden_done: set[int] = set()
        self.taken = self._taken()
        self.surviving: dict[int, dict[str, Value]] = {}
        self.number_of: dict[int, int] = {}
        self.members: dict[int, list[int]] = {}
        self.written: set[int] = set()
        self.sizes_known: dict[Dim, str] = {}
        self.opsets = self._opsets()
        self.opset = self.opsets.setdefault("", opset or DEFAULT_OPSET)

    def _opsets(self) -> dict[str, int]:
        """The operator sets of the model it was read from, or those that its foreign nodes are written in."""
        if self.origin is not None:
            return {one.domain if one.domain != "ai.onnx" else "": one.version for one in self.origin.model.opset_import}
        operators = [self.graph.operator(node) for node in self.graph]
        return {domain: version for one in operators if isinstance(one, Foreign) for domain, version in one.opsets}

    def model(self) -> onnx.ModelProto:
        """The model.

        Raises: OnnxError for an operator that ONNX has no word for.
        """
        self.surviving, self.members = surviving_groups(self.graph, self.origin)
        if self.fold_sizes and self.original is not None:
            for number in [number for number in self.surviving if self.original.node[number].op_type == "If" and self._is_decided(number)]:
                del self.surviving[number], self.members[number]  # only the branch that is taken is written
        self.number_of = {node: number for number, nodes in self.members.items() for node in nodes}
        self._claim()
        outputs = self._outputs()
        self.nodes = in_old_order(self.nodes, self.numbers)
        graph = self._graph(outputs)
        order = order_of(graph)
        nodes = [graph.node[number] for number in order]
        del graph.node[:]
        graph.node.extend(nodes)
        return self._wrapped(graph)

    def _taken(self) -> set[str]:
        names = {str(self.graph.operator(node).attributes["name"]) for node in self.graph.inputs} | set(self.graph.constants)
        if self.original is not None:
            names |= {name for node in self.original.node for one in all_nodes(node) for name in (*one.input, *one.output)}
            names |= {tensor.name for tensor in self.original.initializer} | {
                info.name for info in (*self.original.input, *self.original.output)
            }
        return names

    def fresh(self, name: str) -> str:
        """A name that nothing has."""
        number, result = 0, name
        while result in self.taken:
            number += 1
            result = f"{name}_{number}"
        self.taken.add(result)
        return result

    def _claim(self) -> None:
        """Decide the name of every value that has one in the original model."""
        for node in self.graph.inputs:
            self._name(Value(node), str(self.graph.operator(node).attributes["name"]))
        for node, data in self.graph.network.nodes(data=True):
            if isinstance(data["operator"], Constant):
                self._name(Value(node), data["operator"].name)
        if self.origin is None or self.original is None:
            return
        finals = dict(zip(self._output_names(), self.graph.outputs, strict=True))
        for number in self.surviving:
            for name, inside in self.origin.groups[number].outputs:
                value = Value(self.place(number, inside.slot), inside.output)
                if finals.get(name, value) == value:
                    self._name(value, name)
        for name, value in finals.items():
            self._name(value, name)
        for reads in self.surviving.values():
            for name, value in reads.items():
                self._name(value, name)

    def _name(self, value: Value, name: str) -> None:
        if value not in self.names and name not in self.claimed:
            self.names[value] = name
            self.values[name] = value
            self.claimed.add(name)

    def _output_names(self) -> list[str]:
        if self.original is not None:
            return [output.name for output in self.original.output]
        if len(self.graph.outputs) == 1:
            return ["output"]
        return [f"output_{position}" for position in range(len(self.graph.outputs))]

    def _outputs(self) -> list[str]:
        names = self._output_names()
        for value, name in zip(self.graph.outputs, names, strict=True):
            found = self.name(value)
            if found != name:
                self.claimed.add(name)
                self.nodes.append(helper.make_node("Identity", [found], [name]))
        return names

    def name(self, value: Value) -> str:
        """The name of a value, whose nodes are written first."""
        pending = [value]
        while pending:
            current = pending[-1]
            if current.node in self.written:
                pending.pop()
                continue
            needed = [one for one in self._needs(current.node) if one.node not in self.written]
            if needed:
                pending.extend(needed)
                continue
            # What cannot stand word for word after all is not written yet, and comes round again.
            self._write(current.node)
        return self.names[value]

    def _needs(self, node: int) -> list[Value]:
        """What must be written before a node."""
        number = self.number_of.get(node)
        if number is not None:
            return list(self.surviving[number].values())
        return [
            operand
            for operand in self.graph.operands(node)
            if operand is not None and not isinstance(self.graph.operator(operand.node), Scalar)
        ]

    def _group(self, number: int) -> Group:
        assert self.origin is not None
        return self.origin.groups[number]

    def _write(self, node: int) -> None:
        number = self.number_of.get(node)
        operator = self.graph.operator(node)
        if isinstance(operator, Input):
            self.written.add(node)
        elif isinstance(operator, Constant):
            self._write_constant(operator.name)
            self.written.add(node)
        elif number is not None:
            try:
                self._write_original(number)
            except _NotWordForWord:
                for one in self.members.pop(number):
                    del self.number_of[one]
                del self.surviving[number]
                return
            self.written.update(self.members[number])
        else:
            self._spell(node)
            self.written.add(node)

    def _write_constant(self, name: str) -> None:
        if name in self.initialisers:
            return
        tensor = self.graph.constants[name]
        if self.origin is not None and self.original is not None and self.origin.tensors.get(name) is tensor:
            if name in self.origin.producers and not (self.fold_sizes and name in self.origin.sizes) and self._writes(name):
                return
            known = {one.name: one for one in self.original.initializer}
            if name in known:
                self.initialisers[name] = known[name]
                return
        self.initialisers[name] = proto_of(name, tensor)

    def _writes(self, name: str) -> bool:
        """Write the nodes of the original model that compute a name, if all that they read is still there."""
        assert self.origin is not None
        try:
            self._hidden(self.origin.producers[name])
        except _NotWordForWord:
            return False
        return True

    def _write_original(self, number: int) -> None:
        """Write a node of the original model as it is, but for names that changed.

        Raises: _NotWordForWord when something it reads is no longer there.
        """
        assert self.original is not None
        reads = self.surviving[number]
        proto = onnx.NodeProto()
        proto.CopyFrom(self.original.node[number])
        changed = {name: self.names[value] for name, value in reads.items()}
        for name in (*proto.input, *captured_names(proto)):
            if name and name not in reads:
                self._available(name)
        proto.input[:] = [changed.get(name, name) for name in proto.input]
        rename_captured(proto, changed)
        outputs = {name: Value(self.place(number, inside.slot), inside.output) for name, inside in self._group(number).outputs}
        for position, name in enumerate(proto.output):
            if name in outputs:
                proto.output[position] = self.names.setdefault(outputs[name], self.fresh(name))
        self.nodes.append(proto)
        self.numbers[id(proto)] = number

    def _is_decided(self, number: int) -> bool:
        """The node If is not the one node that stands for it: a branch of it is."""
        operators = [self.graph.operator(node) for node in self.members[number]]
        return not (len(operators) == 1 and isinstance(operators[0], Foreign) and operators[0].name == "If")

    def place(self, number: int, slot: int) -> int:
        """Our node in this slot of a surviving group."""
        return next(node for node in self.members[number] if self.graph.network.nodes[node][NODE_KEY][1] == slot)

    def _available(self, name: str) -> None:
        """Write what computes a name that no node of ours stands for: sizes, constants.

        Raises: _NotWordForWord.
        """
        assert self.origin is not None
        assert self.original is not None
        if name in self.origin.bound or (name in self.origin.tensors and name not in self.origin.producers):
            self._tensor_named(name)
            return
        if self.fold_sizes and name in self.origin.sizes:
            array = numpy.asarray(self.origin.sizes[name])
            if array.dtype == object:
                raise _NotWordForWord
            self.initialisers.setdefault(name, numpy_helper.from_array(array, name))
            self.claimed.add(name)
            return
        number = self.origin.producers.get(name)
        value = self.values.get(name)
        if value is not None:
            self.name(value)
        elif number is None or number in self.origin.groups:
            raise _NotWordForWord
        else:
            self._hidden(number)

    def _tensor_named(self, name: str) -> None:
        assert self.original is not None
        assert self.origin is not None
        known = next((one for one in self.original.initializer if one.name == name), None)
        tensor: Any = self.origin.bound.get(name, self.origin.tensors.get(name))
        self.initialisers.setdefault(name, known if known is not None else proto_of(name, tensor))

    def _hidden(self, number: int) -> None:
        """Write a node of the original model that no node of ours stands for, and what it reads."""
        if number in self.hidden_done:
            return
        assert self.original is not None
        proto = self.original.node[number]
        for name in (*proto.input, *captured_names(proto)):
            if name:
                self._available(name)
        self.hidden_done.add(number)
        self.nodes.append(proto)
        self.numbers[id(proto)] = number

    def _spell(self, node: int) -> None:
        operator = self.graph.operator(node)
        if isinstance(operator, Foreign):
            self._spell_foreign(node, operator)
            return
        if isinstance(operator, Scalar):
            return
        spelling = Spelling(self, node)
        results = spelled(operator)(spelling)
        for one in spelling.nodes:
            if not is_declared(one.op_type, "", {"": self.opset}):
                raise OnnxError(f"{operator}: needs an opset in which there is {one.op_type}, the model has {self.opset}")
        parts = list(results) if isinstance(results, (tuple, list)) else [results]
        for output, result in enumerate(parts):
            value = Value(node, output)
            if result is None:
                continue
            self.names.setdefault(value, self.fresh(f"{type(operator).__name__}_{node}" + (f"_{output}" if output else "")))
            spelling.rename(result, self.names[value])
        self.nodes.extend(spelling.nodes)

    def _spell_foreign(self, node: int, operator: Foreign) -> None:
        from operators.foreign import node_of

        proto = node_of(operator.node)
        operands = [self._operand(operand) for operand in self.graph.operands(node)]
        own = operands[: len(operands) - len(operator.captured)]
        proto.input[:] = [name if given else "" for name, given in zip(own, proto.input, strict=True)]
        rename_captured(proto, dict(zip(operator.captured, operands[len(own) :], strict=True)))
        for output, name in enumerate(proto.output):
            if name:
                value = Value(node, output)
                proto.output[output] = self.names.setdefault(value, self.fresh(f"{proto.op_type}_{node}_{output}"))
        self.nodes.append(proto)

    def _operand(self, operand: Value | None) -> str:
        if operand is None:
            return ""
        operator = self.graph.operator(operand.node)
        if isinstance(operator, Scalar):
            kind = self.graph.type(operand)
            return self.number(operator.value, kind.dtype)
        return self.names[operand]

    def number(self, value: Any, dtype: str) -> str:
        """The name of an initialiser that holds a number."""
        import torch

        if isinstance(value, Expression):
            raise OnnxError(f"the number {value} cannot be written as a constant")
        tensor = torch.tensor(value, dtype=getattr(torch, dtype))
        return self.initialiser(f"{value}_{dtype}", proto_of("", tensor))

    def initialiser(self, name: str, proto: onnx.TensorProto) -> str:
        """The name of an initialiser with this content."""
        key = f"rewright/{name}"
        if key not in self.initialisers:
            held = onnx.TensorProto()
            held.CopyFrom(proto)
            held.name = key
            self.initialisers[key] = held
            self.taken.add(key)
        return key

    def _graph(self, outputs: Sequence[str]) -> onnx.GraphProto:
        graph = onnx.GraphProto()
        if self.original is None:
            graph.name = "graph"
            for node in self.graph.inputs:
                graph.input.append(value_info(str(self.graph.operator(node).attributes["name"]), self.graph.types(node)[0]))
            for value, name in zip(self.graph.outputs, outputs, strict=True):
                graph.output.append(value_info(name, self.graph.type(value)))
        else:
            graph.name, graph.doc_string = self.original.name, self.original.doc_string
            graph.metadata_props.extend(self.original.metadata_props)
            known = {tensor.name for tensor in self.original.initializer}
            graph.input.extend(info for info in self.original.input if info.name not in known or info.name in self.initialisers)
            assert self.origin is not None
            for name in [info.name for info in graph.input]:
                if name in self.origin.bound:
                    self.initialisers.pop(name, None)
                    self.nodes.append(helper.make_node("Constant", [], [name], value=proto_of(name, self.origin.bound[name])))
            kept = [info for info in graph.input if info.name not in self.origin.bound]
            del graph.input[:]
            graph.input.extend(kept)
            graph.output.extend(self.original.output)
            for info, value in zip(graph.output, self.graph.outputs, strict=True):
                kind = self.graph.type(value)
                if info.type.HasField("tensor_type") and not info.type.tensor_type.HasField("shape") and kind.dtype in ELEMENT_TYPES:
                    info.type.CopyFrom(value_info(info.name, kind).type)
        graph.node.extend(self.nodes)
        ranks = {} if self.original is None else {tensor.name: rank for rank, tensor in enumerate(self.original.initializer)}
        graph.initializer.extend(sorted(self.initialisers.values(), key=lambda tensor: ranks.get(tensor.name, len(ranks))))
        if self.original is not None:
            made = {name for node in self.nodes for name in node.output} - set(outputs)
            graph.value_info.extend(info for info in self.original.value_info if info.name in made)
        return graph

    def _wrapped(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        model = onnx.ModelProto()
        if self.origin is None:
            model.ir_version = 10
            model.producer_name = "rewright"
            model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in sorted(self.opsets.items()))
        else:
            source = self.origin.model
            for field in ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string"):
                setattr(model, field, getattr(source, field))
            if set(self.initialisers) - {info.name for info in graph.input}:  # before version 4 every initialiser is an input too
                model.ir_version = max(model.ir_version, 4)
            model.opset_import.extend(source.opset_import)
            model.metadata_props.extend(source.metadata_props)
            if not any(one.domain in ("", "ai.onnx") for one in model.opset_import) and any(node.domain == "" for node in graph.node):
                model.opset_import.append(helper.make_opsetid("", self.opset))
        model.graph.CopyFrom(graph)
        return model


__all__ = ["DEFAULT_OPSET", "Writer"]
