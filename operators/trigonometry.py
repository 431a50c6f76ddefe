"""Inverse trigonometric functions, hyperbolic ones and their inverses."""

from __future__ import annotations

from typing import Any, ClassVar

from operators.functions import Function
from operators.meaning import apply, constant, divide
from operators.operator import operator


@operator(torch="asin arcsin", onnx="Asin")
class Asin(Function):
    """The angle in [−π/2, π/2] whose sine is x."""

    function: ClassVar[str] = "asin"

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad * (1 - x * x).rsqrt(),)


@operator(torch="acos arccos", onnx="Acos")
class Acos(Function):
    """The angle in [0, π] whose cosine is x."""

    function: ClassVar[str] = "acos"

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (-out_grad * (1 - x * x).rsqrt(),)


@operator(torch="sinh", onnx="Sinh")
class Sinh(Function):
    """(eˣ − e⁻ˣ) / 2."""

    function: ClassVar[str] = "sinh"

    def value(self, *values: Any) -> Any:
        (x,) = values
        return divide(apply("exp", x) - apply("exp", -x), constant(2))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad * x.cosh(),)


@operator(torch="cosh", onnx="Cosh")
class Cosh(Function):
    """(eˣ + e⁻ˣ) / 2."""

    function: ClassVar[str] = "cosh"

    def value(self, *values: Any) -> Any:
        (x,) = values
        return divide(apply("exp", x) + apply("exp", -x), constant(2))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad * x.sinh(),)


@operator(torch="asinh arcsinh", onnx="Asinh")
class Asinh(Function):
    """The number whose hyperbolic sine is x."""

    function: ClassVar[str] = "asinh"

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad * (x * x + 1).rsqrt(),)


@operator(torch="acosh arccosh", onnx="Acosh")
class Acosh(Function):
    """The number at least 0 whose hyperbolic cosine is x."""

    function: ClassVar[str] = "acosh"

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad * (x * x - 1).rsqrt(),)


@operator(torch="atanh arctanh", onnx="Atanh")
class Atanh(Function):
    """The number whose hyperbolic tangent is x."""

    function: ClassVar[str] = "atanh"

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad / (1 - x * x),)
