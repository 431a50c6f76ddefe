"""What pointwise operators share: broadcasting, promotion, conversion of operands, reduction of gradients."""

from __future__ import annotations

from typing import Any, ClassVar

from operators.expressions import Dim, Expression, Variable
from operators.meaning import convert
from operators.operator import (
    Operator,
    ShapeError,
    TensorType,
    Unsupported,
    broadcast,
    broadcast_index,
    kind_of,
    promote,
)

KINDS = ("bool", "int", "float", "complex")


def default_dtype() -> str:
    """PyTorch's current default floating dtype."""
    import torch

    return str(torch.get_default_dtype()).removeprefix("torch.")


def dtype_of(operand: Any) -> str:
    """The dtype's name of an operand of `bind`: a tensor, a proxy or a Python number."""
    if isinstance(operand, bool):
        return "bool"
    if isinstance(operand, float):
        return default_dtype()
    dtype = getattr(operand, "dtype", None)
    return "int64" if dtype is None else str(dtype).removeprefix("torch.")


def highest_kind(*dtypes: str) -> str:
    """The kind (`bool` < `int` < `float` < `complex`) that arithmetic between these dtypes happens in."""
    return max((kind_of(dtype) for dtype in dtypes), key=KINDS.index)


def to_kind(value: Any, dtype: str, kind: str) -> Any:
    """A value of `dtype` converted when it is of a lower kind."""
    if kind_of(dtype) == kind:
        return value
    return convert(value, dtype, {"bool": "bool", "int": "int64", "float": "float64", "complex": "complex128"}[kind])


def refuse(who: Any, **arguments: Any) -> None:
    """Raise Unsupported for any argument of a torch call that is given and not covered."""
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise Unsupported(f"{who.__name__}: argument {name}={value} is not covered")


def concrete(value: Any) -> Any:
    """An attribute for torch's kernel, in which every size is a number (or a `Variable`, while the call is being recorded).

    Raises: ShapeError naming a size that is symbolic.
    """
    if isinstance(value, Expression) and not isinstance(value, Variable):
        raise ShapeError(f"a kernel runs on numbers only, got the size {value}")
    return tuple(concrete(item) for item in value) if isinstance(value, (tuple, list)) else value


def same_dtype(who: Operator, *operands: Any) -> str:
    """The one dtype of the operands that are there.

    Raises: ShapeError naming the operands when their dtypes differ.
    """
    given = [operand for operand in operands if operand is not None]
    if any(operand.dtype != given[0].dtype for operand in given):
        raise ShapeError(f"{type(who).__name__}: operands must have one dtype, got {' and '.join(map(str, given))}")
    return str(given[0].dtype)


def floating(who: Operator, x: Any) -> str:
    """The dtype of x, which must be floating.

    Raises: ShapeError when it is not.
    """
    if kind_of(x.dtype) != "float":
        raise ShapeError(f"{type(who).__name__}: x must be floating, got {x}")
    return str(x.dtype)


def reduce_to(gradient: Any, operand: Any) -> Any:
    """The gradient summed over the axes along which `operand` was broadcast; None for a Python number."""
    shape = getattr(operand, "shape", None)
    if shape is None or getattr(operand, "weak", False) is True:
        return None
    extra = gradient.ndim - len(shape)
    if extra:
        gradient = gradient.sum(tuple(range(extra)))
    stretched = tuple(axis for axis, size in enumerate(shape) if _is_one(size) and not _is_one(gradient.shape[axis]))
    return gradient.sum(stretched, keepdim=True) if stretched else gradient


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def call(name: str, *operands: Any) -> Any:
    """torch's function of this name; on Python numbers only, its result as a Python number."""
    import torch

    function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
    if any(isinstance(operand, torch.Tensor) for operand in operands):
        if name in _TENSORS_ONLY:
            operands = tuple(_beside(operand, operands) for operand in operands)
        elif name in _COMMUTING and not isinstance(operands[0], torch.Tensor):
            operands = operands[::-1]
        return function(*operands)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # 1 / 6 of two whole numbers is Python's
    try:
        return function(*map(torch.tensor, operands)).item()
    finally:
        torch.set_default_dtype(before)


_COMMUTING = {"add", "mul"}
"""As Python does for `number * tensor`: a number in the second place is used as it is, in the first it is rounded to the tensor's dtype."""

_TENSORS_ONLY = {"maximum", "minimum", "logical_and", "logical_or", "logical_xor", "atan2", "logaddexp", "prelu"}


def _beside(operand: Any, operands: tuple[Any, ...]) -> Any:
    """A Python number as the tensor that promotes among the operands as the number would."""
    import torch

    if isinstance(operand, torch.Tensor):
        return operand
    other = next(tensor for tensor in operands if isinstance(tensor, torch.Tensor))
    return torch.tensor(operand, dtype=torch.result_type(other, operand))


class Pointwise(Operator):
    """An operator whose output element is `value` of the operands' elements at the same (broadcast) index."""

    pointwise: ClassVar[bool] = True
    function: ClassVar[str] = ""
    """The name of torch's kernel in `torch` or `torch.nn.functional`."""

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        return broadcast(self, *(operand.shape for operand in operands if operand is not None))

    def weak(self, *operands: TensorType) -> bool:
        return all(operand is None or operand.weak for operand in operands)

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        kind = self.kind(*(operand.dtype for operand in operands if operand is not None))
        values = [None if o is None else to_kind(o[broadcast_index(at, o.shape)], o.dtype, kind) for o in operands]
        return self.value_on_bools(*values) if kind == "bool" else self.value(*values)

    def kind(self, *dtypes: str) -> str:
        """The kind in which the values are combined."""
        return highest_kind(*dtypes)

    def value(self, *values: Any) -> Any:
        """The meaning, on the values at one index."""
        raise NotImplementedError(f"{type(self).__name__} has no meaning on values")

    def value_on_bools(self, *values: Any) -> Any:
        """The meaning when every operand is boolean."""
        raise ShapeError(f"{type(self).__name__}: operands must not all be bool")

    def run(self, *tensors: Any) -> Any:
        return call(self.function, *tensors)


class Floating(Pointwise):
    """A pointwise operator that computes in floating point: integers become the default dtype."""

    def dtype(self, *operands: TensorType) -> str:
        dtype = promote(*(operand for operand in operands if operand is not None))
        return dtype if kind_of(dtype) in ("float", "complex") else default_dtype()

    def kind(self, *dtypes: str) -> str:
        return highest_kind("float32", *dtypes)


class Truth(Pointwise):
    """A pointwise operator whose result is boolean."""

    def dtype(self, *operands: TensorType) -> str:
        return "bool"
