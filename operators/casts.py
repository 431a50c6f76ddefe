"""Changes of dtype, and the operators that return their operand as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from operators.expressions import Dim
from operators.meaning import convert
from operators.operator import Operator, TensorType, Unsupported, alias, kind_of, operator, torch_dtype
from operators.pointwise import Pointwise, dtype_of, refuse

Bound = tuple[Operator, Sequence[Any]]


@operator(torch="_to_copy", onnx="Cast")
class Cast(Pointwise):
    """x in the dtype `to`: floats are truncated towards zero to integers, which wrap; a number is true when it is not 0."""

    to: str

    def dtype(self, *operands: TensorType) -> str:
        return self.to

    def weak(self, *operands: TensorType) -> bool:
        return False

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        (x,) = operands
        return convert(x[at], x.dtype, self.to)

    def run(self, *tensors: Any) -> Any:
        import torch

        (x,) = tensors
        return x.to(torch_dtype(self.to)) if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=torch_dtype(self.to))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        if kind_of(dtype_of(operands[0])) != "float" or kind_of(self.to) != "float":
            return (None,)
        return (out_grad.to(torch_dtype(dtype_of(operands[0]))),)

    @classmethod
    def bind(cls, input: Any, *, dtype: Any = None, memory_format: Any = None, **layout: Any) -> Bound:
        refuse(cls, non_blocking=layout.get("non_blocking"))
        operator, operands = cast(input, dtype)
        return (Copy(layout_name(memory_format, "preserve_format")), operands) if isinstance(operator, Identity) else (operator, operands)


def cast(x: Any, dtype: Any) -> Bound:
    """`x` in `dtype` (a torch dtype or its name): a `Cast`, or an `Identity` when x has it already or dtype is None."""
    name = dtype_of(x) if dtype is None else str(dtype).removeprefix("torch.")
    return (Identity(), [x]) if name == dtype_of(x) and not isinstance(x, (bool, int, float)) else (Cast(name), [x])


@alias("to to_dtype type_as")
def _to(input: Any, *args: Any, **named: Any) -> Bound:
    import torch

    dtype = named.pop("dtype", None)
    for argument in args:
        if isinstance(argument, torch.dtype):
            dtype = argument
        elif hasattr(argument, "shape") and hasattr(argument, "dtype"):
            dtype = argument.dtype
    other = named.pop("other", None)
    return cast(input, dtype if other is None else other.dtype)


def _declare_cast(method: str, dtype: str) -> None:
    @alias(method)
    def bind(input: Any, **layout: Any) -> Bound:
        return cast(input, dtype)


for _method, _dtype in (
    ("float", "float32"), ("double", "float64"), ("half", "float16"), ("bfloat16", "bfloat16"), ("long", "int64"), ("int", "int32"),
    ("short", "int16"), ("char", "int8"), ("byte", "uint8"), ("bool", "bool"),
):  # fmt: skip
    _declare_cast(_method, _dtype)


class Unchanged(Operator):
    """An operator that returns the elements of x as they are."""

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        return operands[0].shape

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        return operands[0][at]

    def flops(self, *operands: TensorType) -> Dim:
        return 0

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (out_grad,)


@operator(torch="alias positive", onnx="Identity")
class Identity(Unchanged):
    """x itself."""

    aliases: ClassVar[bool] = True

    def weak(self, *operands: TensorType) -> bool:
        return operands[0].weak

    def run(self, *tensors: Any) -> Any:
        return tensors[0]


def layout_name(memory_format: Any, usual: str) -> str:
    """The name of a torch memory format."""
    return usual if memory_format is None else str(memory_format).removeprefix("torch.")


@operator(torch="clone lift_fresh_copy")
class Copy(Unchanged):
    """x in memory of its own, laid out as `layout` says (a torch memory format)."""

    layout: str = "preserve_format"

    def run(self, *tensors: Any) -> Any:
        import torch

        return tensors[0].clone(memory_format=getattr(torch, self.layout))

    @classmethod
    def bind(cls, input: Any, *, memory_format: Any = None) -> Bound:
        return cls(layout_name(memory_format, "preserve_format")), [input]


@operator(torch="contiguous")
class Contiguous(Unchanged):
    """x, copied when it is not laid out as `layout` says (a torch memory format)."""

    layout: str = "contiguous_format"
    aliases: ClassVar[bool] = True

    def run(self, *tensors: Any) -> Any:
        import torch

        return tensors[0].contiguous(memory_format=getattr(torch, self.layout))

    @classmethod
    def bind(cls, input: Any, *, memory_format: Any = None) -> Bound:
        return cls(layout_name(memory_format, "contiguous_format")), [input]


@operator(torch="detach")
class Detach(Unchanged):
    """x, through which no gradient flows."""

    aliases: ClassVar[bool] = True

    def run(self, *tensors: Any) -> Any:
        return tensors[0].detach()

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (None,)


@alias("cpu cuda")
def _move(input: Any, *args: Any, **named: Any) -> Bound:
    raise Unsupported("moving a tensor between devices is not covered")
