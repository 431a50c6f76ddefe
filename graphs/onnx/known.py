"""Arithmetic on sizes: nodes whose outputs are functions of sizes alone are computed while reading, over symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import onnx
from onnx import helper

from graphs.onnx.bounds import at_least, at_most, is_positive
from graphs.onnx.types import dtype_of
from operators.expressions import Dim, Expression, divide_exactly, floor_divide, plain, remainder
from operators.formulas import equal

Rule = Callable[[onnx.NodeProto, int, Sequence[Any]], list[Any]]


class NotKnown(ValueError):
    """A node that is no function of sizes, or one that polynomials with floor quotients do not express."""


MOST = 1 << 12


def _elements(entry: Any) -> Any:
    if entry is None or entry.sizes is None:
        raise NotKnown
    return numpy.asarray(entry.sizes)


def _attribute(proto: onnx.NodeProto, name: str, otherwise: Any = None) -> Any:
    return next((helper.get_attribute_value(one) for one in proto.attribute if one.name == name), otherwise)


def _is_symbolic(*arrays: Any) -> bool:
    return any(array.dtype == object for array in arrays)


def _packed(elements: Any) -> Any:
    """An array of objects as one of numbers where all are numbers."""
    array = numpy.asarray(elements)
    if array.dtype == object and not any(isinstance(element, Expression) for element in array.reshape(-1)):
        kinds = {type(element) for element in array.reshape(-1)}
        return array.astype(bool if kinds == {bool} else numpy.int64)
    return array


MOST_TERMS, HIGHEST_DEGREE = 64, 16
"""Larger polynomials than these are no sizes that a model computes with."""


def _is_simple(element: Any) -> bool:
    if not isinstance(element, Expression):
        return not isinstance(element, int) or abs(element) < 2**63
    return len(element.terms) <= MOST_TERMS and all(len(monomial) <= HIGHEST_DEGREE for monomial in element.terms)


def _objects(elements: Sequence[Any], shape: Sequence[int]) -> Any:
    if not all(map(_is_simple, elements)):
        raise NotKnown
    array = numpy.empty(len(elements), dtype=object)
    array[:] = list(elements)
    return _packed(array.reshape(shape))


def _shape(proto: onnx.NodeProto, opset: int, inputs: Sequence[Any]) -> list[Any]:
    dims = list(_dims(inputs[0]))
    start, end = _attribute(proto, "start", 0), _attribute(proto, "end", len(dims))
    start = max(start + len(dims) if start < 0 else start, 0)
    end = max(end + len(dims) if end < 0 else end, 0)
    part = dims[start:end]
    return [_objects(part, [len(part)]) if part else numpy.zeros(0, numpy.int64)]


def _dims(entry: Any) -> tuple[Dim, ...]:
    from operators.foreign import UNTYPED

    if entry is None or entry.type.dtype == UNTYPED:
        raise NotKnown
    return tuple(entry.type.shape)


def _size(proto: onnx.NodeProto, opset: int, inputs: Sequence[Any]) -> list[Any]:
    total: Dim = 1
    for dim in _dims(inputs[0]):
        total = total * dim
    return [_objects([total], [])]


def _moving(change: Callable[..., Any]) -> Rule:
    """A rule that only moves elements about."""

    def rule(proto: onnx.NodeProto, opset: int, inputs: Sequence[Any]) -> list[Any]:
        try:
            return [_packed(change(proto, opset, *map(_elements, inputs)))]
        except (IndexError, TypeError, ValueError, OverflowError) as error:
            raise NotKnown from error

    return rule


def _gather(proto: onnx.NodeProto, opset: int, x: Any, positions: Any) -> Any:
    if _is_symbolic(positions):
        raise NotKnown
    return numpy.take(x, positions, axis=_attribute(proto, "axis", 0))


def _concat(proto: onnx.NodeProto, opset: int, *parts: Any) -> Any:
    if _is_symbolic(*parts):
        parts = tuple(part.astype(object) for part in parts)
    return numpy.concatenate(parts, axis=_attribute(proto, "axis"))


def _axes(proto: onnx.NodeProto, rest: Sequence[Any]) -> tuple[int, ...] | None:
    if rest:
        return tuple(int(axis) for axis in rest[0].reshape(-1))
    given = _attribute(proto, "axes")
    return None if given is None else tuple(given)


def _unsqueeze(proto: onnx.NodeProto, opset: int, x: Any, *rest: Any) -> Any:
    return numpy.expand_dims(x, _axes(proto, rest) or ())


def _squeeze(proto: onnx.NodeProto, opset: int, x: Any, *rest: Any) -> Any:
    return numpy.squeeze(x, _axes(proto, rest))


def _reshape(proto: onnx.NodeProto, opset: int, x: Any, size: Any) -> Any:
    wanted = [int(dim) for dim in size.reshape(-1)]
    if not _attribute(proto, "allowzero", 0):
        wanted = [x.shape[axis] if dim == 0 else dim for axis, dim in enumerate(wanted)]
    return x.reshape(wanted)


def _slice(proto: onnx.NodeProto, opset: int, x: Any, *rest: Any) -> Any:
    if _is_symbolic(*rest):
        raise NotKnown
    if opset < 10:
        starts, ends = _attribute(proto, "starts"), _attribute(proto, "ends")
        axes, steps = _attribute(proto, "axes", range(len(starts))), [1] * len(starts)
    else:
        starts, ends = rest[0].tolist(), rest[1].tolist()
        axes = rest[2].tolist() if len(rest) > 2 else range(len(starts))
        steps = rest[3].tolist() if len(rest) > 3 else [1] * len(starts)
    index: list[Any] = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 0 and end < -(2**31):
            end = None
        # A walk backwards that starts before the axis starts at its first element.
        index[axis] = slice(max(start, -x.shape[axis]) if step < 0 else start, end, step)
    return x[tuple(index)]


def _expand(proto: onnx.NodeProto, opset: int, x: Any, size: Any) -> Any:
    wanted = [int(dim) for dim in size.reshape(-1)]
    if numpy.prod(wanted) > MOST:
        raise NotKnown
    return x * numpy.ones(wanted, dtype=x.dtype if x.dtype != bool else bool)


def _transpose(proto: onnx.NodeProto, opset: int, x: Any) -> Any:
    return numpy.transpose(x, _attribute(proto, "perm"))


def _identity(proto: onnx.NodeProto, opset: int, x: Any) -> Any:
    return x


def _constant_of_shape(proto: onnx.NodeProto, opset: int, inputs: Sequence[Any]) -> list[Any]:
    size = _elements(inputs[0])
    if _is_symbolic(size) or numpy.prod([int(dim) for dim in size]) > MOST:
        raise NotKnown
    value = _attribute(proto, "value")
    content = numpy.zeros(1, numpy.float32) if value is None else onnx.numpy_helper.to_array(value)
    if content.dtype.kind not in "iub":
        raise NotKnown
    return [numpy.full([int(dim) for dim in size], content.reshape(-1)[0])]


def _pointwise(function: Callable[..., Any], numbers: Callable[..., Any]) -> Rule:
    """A rule element by element: `numbers` on arrays of numbers (they wrap and round as kernels do), `function` on sizes."""

    def rule(proto: onnx.NodeProto, opset: int, inputs: Sequence[Any]) -> list[Any]:
        arrays = [_operand(entry, inputs) for entry in inputs]
        if not _is_symbolic(*arrays):
            with numpy.errstate(all="ignore"):
                return [numpy.asarray(numbers(*arrays))]
        shaped = numpy.broadcast_arrays(*arrays)
        found = [function(*map(_plain, parts)) for parts in zip(*(array.reshape(-1) for array in shaped), strict=True)]
        return [_objects(found, shaped[0].shape)]

    return rule


def _operand(entry: Any, inputs: Sequence[Any]) -> Any:
    """The elements of an operand; a small tensor of floats counts beside one that is a function of sizes."""
    beside = any(one is not None and one.sizes is not None for one in inputs)
    if entry is not None and entry.sizes is None and beside and _is_few_floats(entry.tensor):
        return entry.tensor.numpy()
    return _elements(entry)


def _is_few_floats(tensor: Any) -> bool:
    few = tensor is not None and not isinstance(tensor, numpy.ndarray) and tensor.numel() <= 16
    return few and str(tensor.dtype) in ("torch.float32", "torch.float64")


def _plain(element: Any) -> Any:
    if isinstance(element, Expression):
        return plain(element)
    if isinstance(element, (float, numpy.floating)):
        raise NotKnown
    return element.item() if isinstance(element, numpy.generic) else element


def _divide_numbers(a: Any, b: Any) -> Any:
    if a.dtype.kind not in "iu":
        return a / b
    if not numpy.all(b):
        raise NotKnown
    floor, rest = numpy.divmod(a, b)
    return (floor + ((rest != 0) & ((a < 0) != (b < 0)))).astype(a.dtype)


def _divide_sizes(a: Dim, b: Dim) -> Dim:
    """ONNX divides towards zero: the floor of what is not negative, and any whole quotient."""
    if not isinstance(b, int) or b <= 0:
        raise NotKnown
    exact = divide_exactly(a, b)
    if exact is not None:
        return exact
    if not is_positive(a):
        raise NotKnown
    return floor_divide(a, b)


def _modulo(proto: onnx.NodeProto, opset: int, inputs: Sequence[Any]) -> list[Any]:
    """The remainder has the sign of the divisor, and with `fmod` that of the dividend."""
    of_dividend = bool(_attribute(proto, "fmod", 0))

    def of_sizes(a: Dim, b: Dim) -> Dim:
        if not isinstance(b, int) or b <= 0 or (of_dividend and not is_positive(a)):
            raise NotKnown
        return remainder(a, b)

    return _pointwise(of_sizes, numpy.fmod if of_dividend else numpy.mod)(proto, opset, inputs)


def _equal_sizes(a: Any, b: Any) -> bool:
    answer = equal(a, b)
    if isinstance(answer, bool):
        return answer
    if (isinstance(b, int) and b < 0 and is_positive(a)) or (isinstance(a, int) and a < 0 and is_positive(b)):
        return False
    raise NotKnown


def _where(proto: onnx.NodeProto, opset: int, inputs: Sequence[Any]) -> list[Any]:
    condition, a, b = map(_elements, inputs)
    if _is_symbolic(condition):
        raise NotKnown
    return [_packed(numpy.where(condition, a.astype(object), b.astype(object)))] if _is_symbolic(a, b) else [numpy.where(condition, a, b)]


def _cast(proto: onnx.NodeProto, opset: int, inputs: Sequence[Any]) -> list[Any]:
    (x,) = map(_elements, inputs)
    to = dtype_of(_attribute(proto, "to"))
    if _is_symbolic(x):
        # Sizes are well within the integers; what wraps them, or rounds them to floats, is left to run time.
        if to not in ("int64", "int32"):
            raise NotKnown
        return [x]
    if to not in ("int64", "int32", "float32", "float64", "bool") or (x.dtype.kind == "f" and not numpy.all(numpy.abs(x) < 2**31)):
        raise NotKnown
    return [x.astype(to)]


def _only_numbers(function: Callable[..., Any]) -> Rule:
    def rule(proto: onnx.NodeProto, opset: int, inputs: Sequence[Any]) -> list[Any]:
        arrays = list(map(_elements, inputs))
        if _is_symbolic(*arrays):
            raise NotKnown
        return [numpy.asarray(function(*arrays))]

    return rule


def _range(start: Any, stop: Any, step: Any) -> Any:
    if start.dtype.kind != "i" or step.item() == 0 or abs((stop.item() - start.item()) // step.item()) > MOST:
        raise NotKnown
    return numpy.arange(start.item(), stop.item(), step.item(), dtype=start.dtype)


def _reduction(function: Callable[[list[Any]], Any]) -> Rule:
    """A reduction of one axis to nothing, over sizes."""

    def rule(proto: onnx.NodeProto, opset: int, inputs: Sequence[Any]) -> list[Any]:
        x = _elements(inputs[0])
        if _attribute(proto, "noop_with_empty_axes", 0) and (len(inputs) < 2 or inputs[1] is None):
            return [x]
        if (
            x.ndim != 1
            or x.dtype.kind not in "iO"
            or (len(inputs) > 1 and inputs[1] is not None and _elements(inputs[1]).tolist() not in ([0], [-1]))
        ):
            raise NotKnown
        if (_attribute(proto, "axes") or [0])[0] not in (0, -1):
            raise NotKnown
        whole = function([_plain(element) for element in x])
        return [_objects([whole], [1] if _attribute(proto, "keepdims", 1) else [])]

    return rule


def _extreme(pick: Callable[[Any, Any], Any], numbers: Callable[..., Any]) -> Rule:
    def fold(first: Any, *rest: Any) -> Any:
        for one in rest:
            first = pick(first, one)
        return first

    def over_arrays(first: Any, *rest: Any) -> Any:
        for one in rest:
            first = numbers(first, one)
        return first

    return _pointwise(fold, over_arrays)


def _product(factors: list[Any]) -> Any:
    result: Any = 1
    for factor in factors:
        result = result * factor
    return result


def _refuse(*sizes: Any) -> Any:
    raise NotKnown


KNOWN: dict[str, Rule] = {
    "Shape": _shape,
    "Size": _size,
    "Gather": _moving(_gather),
    "Concat": _moving(_concat),
    "Unsqueeze": _moving(_unsqueeze),
    "Squeeze": _moving(_squeeze),
    "Reshape": _moving(_reshape),
    "Slice": _moving(_slice),
    "Expand": _moving(_expand),
    "Transpose": _moving(_transpose),
    "Identity": _moving(_identity),
    "ConstantOfShape": _constant_of_shape,
    "Add": _pointwise(lambda a, b: a + b, lambda a, b: a + b),
    "Sub": _pointwise(lambda a, b: a - b, lambda a, b: a - b),
    "Mul": _pointwise(lambda a, b: a * b, lambda a, b: a * b),
    "Div": _pointwise(_divide_sizes, _divide_numbers),
    "Mod": _modulo,
    "Sqrt": _pointwise(_refuse, numpy.sqrt),
    "Reciprocal": _pointwise(_refuse, lambda a: 1 / a),
    "Neg": _pointwise(lambda a: -a, numpy.negative),
    "Floor": _pointwise(_refuse, numpy.floor),
    "Ceil": _pointwise(_refuse, numpy.ceil),
    "Max": _extreme(at_least, numpy.maximum),
    "Min": _extreme(at_most, numpy.minimum),
    "Equal": _pointwise(_equal_sizes, lambda a, b: a == b),
    "Less": _pointwise(_refuse, lambda a, b: a < b),
    "Greater": _pointwise(_refuse, lambda a, b: a > b),
    "Not": _pointwise(_refuse, numpy.logical_not),
    "And": _pointwise(_refuse, numpy.logical_and),
    "Or": _pointwise(_refuse, numpy.logical_or),
    "Where": _where,
    "Cast": _cast,
    "Range": _only_numbers(_range),
    "ReduceProd": _reduction(_product),
    "ReduceSum": _reduction(sum),
}
"""The operators that are followed over sizes."""
