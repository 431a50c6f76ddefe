"""Models that an onnxscript pattern matches: its nodes with drawn operands, attributes, ranks and element types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from verifier.onnx_rules.operands import FLOATS, Draw, Operand, propose

_NEARLY = 0.2
OPSETS = (18, 20, 17, 13, 21, 22, 11, 9)


class NoInstance(ValueError):
    """A draw that is no valid model; the next one may be."""


class Unsupported(ValueError):
    """A pattern of which no model can be made here; the message says which part."""


@dataclass
class Building:
    """One model being built from a pattern."""

    draw: Draw
    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: dict[str, Operand] = field(default_factory=dict)
    initializers: dict[str, onnx.TensorProto] = field(default_factory=dict)
    operands: dict[str, Operand] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    """The name of the value that stands for each pattern value."""
    choices: dict[int, Any] = field(default_factory=dict)

    def fresh(self, stem: str) -> str:
        """A new name."""
        return f"{stem}_{len(self.operands)}"


def instances(pattern: Any, draw: Draw, count: int) -> Iterator[onnx.ModelProto]:
    """Valid models that contain the pattern, drawn one after the other; sizes are numbers.

    Raises: Unsupported.
    """
    for position in range(count):
        building = Building(draw, OPSETS[position % len(OPSETS)])
        try:
            yield _model(pattern, building)
        except NoInstance:
            continue


def _model(pattern: Any, building: Building) -> onnx.ModelProto:
    outputs = [_place(output, building) for output in pattern.outputs]
    values = []
    for name in outputs:
        kind = building.operands[name]
        values.append(helper.make_tensor_value_info(name, kind.dtype, kind.shape))
    inputs = [helper.make_tensor_value_info(name, kind.dtype, kind.shape) for name, kind in building.inputs.items()]
    if any(name in building.inputs or name in building.initializers for name in outputs):
        raise NoInstance
    graph = helper.make_graph(building.nodes, "instance", inputs, values, initializer=list(building.initializers.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", building.opset)], ir_version=10)
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, shape_inference.InferenceError) as error:
        raise NoInstance from error
    return model


def _place(value: Any, building: Building) -> str:
    """The name of the pattern value's operand, made where it is not yet.

    Raises: NoInstance, Unsupported.
    """
    value = _chosen(value, building)
    found = building.names.get(id(value))
    if found is not None:
        return found
    producer = value.producer()
    if producer is None:
        raise NoInstance  # a variable that no operator reads has no type
    _node(producer, building)
    return building.names[id(value)]


def _chosen(value: Any, building: Building) -> Any:
    """For alternatives, the one chosen in this model."""
    if not hasattr(value, "_values") and not hasattr(value, "_op_to_pattern"):
        return value
    if id(value) not in building.choices:
        alternatives = list(value._values) if hasattr(value, "_values") else [found[-1] for found in value._op_to_pattern.values()]
        building.choices[id(value)] = building.draw.chance.choice(alternatives)
    return _chosen(building.choices[id(value)], building)


def _node(pattern: Any, building: Building) -> None:
    name = pattern.op_type
    if name is None or not isinstance(name, str):
        raise Unsupported("its pattern leaves the operator open")
    known: list[Operand | None] = []
    names: list[str | None] = []
    values = [None if value is None else _chosen(value, building) for value in pattern.inputs]
    for value in values:
        if value is not None and value.producer() is not None:
            _place(value, building)
        names.append(building.names.get(id(value)) if value is not None else None)
        known.append(building.operands[names[-1]] if names[-1] is not None else _literal(value, building.draw))
    usual = building.draw.chance.choice((*FLOATS, TensorProto.INT64, TensorProto.INT32))
    known = [_typed(operand, known, usual) for operand in known]
    fixed = {key: found._value for key, found in pattern.attributes.items() if hasattr(found, "_value")}
    fixed = {key: value.value if hasattr(value, "as_int") else value for key, value in fixed.items()}
    wanted, drawn = propose(name, known, fixed, building.draw)
    if len(wanted) > len(values) and pattern.allow_other_inputs is False:
        wanted = wanted[: len(values)]
    schema = _schema(pattern, building)
    attributes = {key: value for key, value in drawn.items() if key in schema.attributes and _is_open(key, pattern)} | fixed
    inputs = []
    for position, operand in enumerate(wanted):
        given = names[position] if position < len(names) else None
        if given is None and position < len(values) and values[position] is None:
            inputs.append("")
        elif given is not None:
            inputs.append(given)
        else:
            if operand is None:
                raise NoInstance
            inputs.append(_source(operand, building))
            if position < len(values):
                building.names[id(values[position])] = inputs[-1]
    _emit(pattern, name, inputs, attributes, schema, building)


def _literal(value: Any, draw: Draw) -> Operand | None:
    """The operand that a constant of the pattern is, of any rank if it is one number; its element type is that of its neighbours."""
    if value is None or type(value).__name__ != "Constant":
        return None
    content = numpy.array(value.value)
    if content.ndim:
        return Operand(
            TensorProto.INT64 if numpy.issubdtype(content.dtype, numpy.integer) else TensorProto.FLOAT, content.shape, content, True
        )
    content = content.reshape(draw.chance.choice(((), (), (1,), (1, 1))))
    if draw.chance.random() < _NEARLY and hasattr(value, "_abs_tol"):
        # The pattern takes numbers that are close to its own, such as an epsilon of 1e-10 for 0.
        content = content * (1 + 0.5 * value._rel_tol) + 0.01 * value._abs_tol
    return Operand(TensorProto.UNDEFINED, content.shape, content, True)


def _typed(operand: Operand | None, known: list[Operand | None], usual: int) -> Operand | None:
    if operand is None or operand.dtype != TensorProto.UNDEFINED:
        return operand
    others = [other.dtype for other in known if other is not None and other.dtype != TensorProto.UNDEFINED]
    whole = numpy.issubdtype(operand.content.dtype, numpy.integer)
    dtype = others[0] if others else usual if whole or usual in FLOATS else TensorProto.FLOAT
    return Operand(dtype, operand.shape, operand.content, True)


def _is_open(name: str, pattern: Any) -> bool:
    """The pattern lets the attribute be what it may."""
    return name in pattern.attributes or pattern.allow_other_attributes is not False


def _schema(pattern: Any, building: Building) -> Any:
    try:
        return onnx.defs.get_schema(pattern.op_type, building.opset, "")
    except onnx.defs.SchemaError as error:
        if not onnx.defs.has(pattern.op_type):
            raise Unsupported(f"{pattern.op_type} is no operator of ONNX's own") from error
        raise NoInstance from error


def _emit(pattern: Any, name: str, inputs: list[str], attributes: Mapping[str, Any], schema: Any, building: Building) -> None:
    outputs = []
    for position, output in enumerate(pattern.outputs):
        building.names[id(output)] = building.fresh(f"out{position}")
        outputs.append(building.names[id(output)])
        building.operands[outputs[-1]] = Operand(TensorProto.UNDEFINED, ())
    given = {key: _tensor(value, key) if isinstance(value, Operand) else value for key, value in attributes.items()}
    node = helper.make_node(name, inputs, outputs, **given)
    types = {n: helper.make_tensor_type_proto(building.operands[n].dtype, building.operands[n].shape) for n in inputs if n}
    data = {n: building.initializers[n] for n in inputs if n in building.initializers}
    opsets = [helper.make_opsetid("", building.opset)]
    try:
        inferred = shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=opsets)
    except (shape_inference.InferenceError, RuntimeError, onnx.checker.ValidationError) as error:
        raise NoInstance from error
    for output in outputs:
        kind = inferred[output].tensor_type if output in inferred else None
        if kind is None or not kind.HasField("shape") or any(not dim.HasField("dim_value") for dim in kind.shape.dim):
            raise NoInstance
        building.operands[output] = Operand(kind.elem_type, tuple(dim.dim_value for dim in kind.shape.dim))
    building.nodes.append(node)


def _source(operand: Operand, building: Building) -> str:
    """An input or initialiser of this type."""
    if operand.content is not None or operand.constant:
        name = building.fresh("w")
        building.initializers[name] = _tensor(operand, name, building)
    else:
        name = building.fresh("x")
        building.inputs[name] = operand
    building.operands[name] = operand
    return name


def _tensor(operand: Operand, name: str, building: Building | None = None) -> onnx.TensorProto:
    kind = helper.tensor_dtype_to_np_dtype(operand.dtype)
    if operand.content is not None:
        return numpy_helper.from_array(numpy.asarray(operand.content).astype(kind).reshape(operand.shape), name)
    assert building is not None
    generator = numpy.random.default_rng(building.draw.chance.randrange(1 << 30))
    if numpy.issubdtype(kind, numpy.floating):
        return numpy_helper.from_array(generator.normal(size=operand.shape).astype(kind), name)
    return numpy_helper.from_array(generator.integers(0, 5, size=operand.shape).astype(kind), name)


def with_symbols(model: onnx.ModelProto, draw: Draw) -> onnx.ModelProto | None:
    """The model with some sizes of its inputs as symbols, one for each number, where ONNX accepts it so; None elsewhere."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    chosen: dict[int, str] = {}
    everywhere = draw.chance.random() < 0.5
    for value in result.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_value != 1 and (axis == 0 or everywhere):
                chosen.setdefault(dim.dim_value, f"n{dim.dim_value}")
    for value in result.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value in chosen:
                dim.dim_param = chosen[dim.dim_value]
    if not chosen:
        return None
    for value in result.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        inferred = shape_inference.infer_shapes(result, check_type=True, strict_mode=True, data_prop=True)
        onnx.checker.check_model(inferred)
    except (onnx.checker.ValidationError, shape_inference.InferenceError):
        return None
    return inferred


__all__ = ["NoInstance", "Unsupported", "instances", "with_symbols"]
