"""ONNX's element types and shapes, and ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from graphs.onnx.errors import OnnxError
from operators.arrays import to_numpy, to_torch
from operators.expressions import Dim, Expression, symbol
from operators.foreign import UNTYPED
from operators.operator import TensorType

DTYPES: dict[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    TensorProto.FLOAT8E5M2: "float8_e5m2",
    TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    TensorProto.FLOAT8E8M0: "float8_e8m0fnu",
    TensorProto.INT8: "int8",
    TensorProto.INT16: "int16",
    TensorProto.INT32: "int32",
    TensorProto.INT64: "int64",
    TensorProto.UINT8: "uint8",
    TensorProto.UINT16: "uint16",
    TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64",
    TensorProto.BOOL: "bool",
    TensorProto.COMPLEX64: "complex64",
    TensorProto.COMPLEX128: "complex128",
}
"""Our dtype of each ONNX element type that torch computes with."""

ELEMENT_TYPES = {name: number for number, name in DTYPES.items()}
"""The ONNX element type of each of our dtypes."""


def dtype_of(element_type: int) -> str:
    """Our name of an ONNX element type; one that torch has no numbers for (text, int4, …) gets ONNX's name, in lower case."""
    known = DTYPES.get(element_type)
    return known if known is not None else str(TensorProto.DataType.Name(element_type)).lower()


def tensor_of(proto: TensorProto) -> Any:
    """The torch tensor of an initialiser; a numpy array where torch has no such dtype."""
    if proto.data_type == TensorProto.STRING:
        return numpy_helper.to_array(proto)
    return to_torch(numpy_helper.to_array(proto))


def dense(proto: onnx.SparseTensorProto) -> Any:
    """The torch tensor of a sparse initialiser."""
    values = numpy_helper.to_array(proto.values)
    positions = numpy_helper.to_array(proto.indices)
    shape = tuple(proto.dims)
    result = numpy.zeros(shape, values.dtype)
    if positions.ndim == 1:
        result.reshape(-1)[positions] = values
    else:
        result[tuple(positions.T)] = values
    return to_torch(result)


def proto_of(name: str, tensor: torch.Tensor) -> TensorProto:
    """The initialiser of this name that holds a tensor."""
    return numpy_helper.from_array(to_numpy(tensor.contiguous()), name)


ANONYMOUS = frozenset(["", "?", "-1", "None", "unk"])
"""What exporters write for a size without a name; two of them are two sizes."""


def clean(name: str) -> str:
    """A name of a size as a word."""
    word = re.sub(r"\W+", "_", name).strip("_")
    return word if word and not word[0].isdigit() else f"size_{word}"


def type_of(proto: onnx.TypeProto, fresh: Callable[[int], Dim], named: Callable[[str], Dim]) -> TensorType:
    """Our type of an ONNX type; `fresh` gives the size of an axis without a name, `named` the size of a name."""
    kind = proto.WhichOneof("value")
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return TensorType((), UNTYPED)
    tensor = getattr(proto, kind)
    if not tensor.HasField("shape"):
        return TensorType((), UNTYPED)
    shape: list[Dim] = []
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            shape.append(dim.dim_value)
        elif dim.dim_param in ANONYMOUS:
            shape.append(fresh(axis))
        else:
            shape.append(named(dim.dim_param))
    return TensorType(tuple(shape), dtype_of(tensor.elem_type))


def value_info(name: str, kind: TensorType, names: dict[Dim, str] | None = None) -> onnx.ValueInfoProto:
    """The declaration of a value of our type; sizes that are no plain symbol are named by their text."""
    if kind.dtype == UNTYPED:
        return onnx.ValueInfoProto(name=name, type=onnx.TypeProto())
    dims = [dim if isinstance(dim, int) else (names or {}).get(dim, str(dim)) for dim in kind.shape]
    return onnx.helper.make_tensor_value_info(name, ELEMENT_TYPES[kind.dtype], dims)


def size_symbol(name: str) -> Expression:
    """The symbol of a size."""
    return symbol(name)


def numpy_dtype(array: numpy.ndarray) -> str:
    """Our name of an array's dtype."""
    return "string" if array.dtype.kind in "OUS" else array.dtype.name


def constant_of(proto: onnx.NodeProto) -> Any:
    """The tensor of a `Constant` node; a numpy array where torch has no such dtype.

    Raises: OnnxError when it has no value.
    """
    for attribute in proto.attribute:
        content = helper.get_attribute_value(attribute)
        if attribute.name == "value":
            return tensor_of(content)
        if attribute.name == "sparse_value":
            return dense(content)
        if attribute.name in ("value_float", "value_floats"):
            return torch.tensor(content, dtype=torch.float32)
        if attribute.name in ("value_int", "value_ints"):
            return torch.tensor(content, dtype=torch.int64)
        if attribute.name in ("value_string", "value_strings"):
            return numpy.array(content, dtype=object)
    raise OnnxError("Constant: must have a value, got none")
