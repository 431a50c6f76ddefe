"""Pointwise functions of analysis; integers become the default floating dtype."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from operators.meaning import apply, constant, divide
from operators.operator import operator
from operators.pointwise import Floating, reduce_to


class Function(Floating):
    """A floating function of one operand, named in `meaning.FUNCTIONS` as `function` unless `value` is overridden."""

    def value(self, *values: Any) -> Any:
        return apply(self.function, *values)


@operator(torch="exp", onnx="Exp")
class Exp(Function):
    """eˣ."""

    function: ClassVar[str] = "exp"

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad * x.exp(),)


@operator(torch="expm1")
class Expm1(Function):
    """eˣ − 1, without cancellation near 0."""

    function: ClassVar[str] = "expm1"

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad * x.exp(),)


@operator(torch="exp2")
class Exp2(Function):
    """2ˣ."""

    function: ClassVar[str] = "exp2"

    def value(self, *values: Any) -> Any:
        (x,) = values
        return apply("exp", x * constant(math.log(2.0)))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad * x.exp2() * math.log(2.0),)


@operator(torch="log", onnx="Log")
class Log(Function):
    """The natural logarithm."""

    function: ClassVar[str] = "log"

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad / x,)


@operator(torch="log1p")
class Log1p(Function):
    """log(1 + x), without cancellation near 0."""

    function: ClassVar[str] = "log1p"

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad / (1 + x),)


@operator(torch="logaddexp")
class LogAddExp(Floating):
    """log(eᵃ + eᵇ), broadcasting, without leaving the dtype's range on the way."""

    function: ClassVar[str] = "logaddexp"

    def value(self, *values: Any) -> Any:
        a, b = values
        return apply("log", apply("exp", a) + apply("exp", b))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        a, b = operands
        share = (a - b).sigmoid()
        return reduce_to(out_grad * share, a), reduce_to(out_grad * (1 - share), b)


@operator(torch="log2")
class Log2(Function):
    """The logarithm to base 2."""

    function: ClassVar[str] = "log2"

    def value(self, *values: Any) -> Any:
        (x,) = values
        return divide(apply("log", x), constant(math.log(2.0)))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad / (x * math.log(2.0)),)


@operator(torch="log10")
class Log10(Function):
    """The logarithm to base 10."""

    function: ClassVar[str] = "log10"

    def value(self, *values: Any) -> Any:
        (x,) = values
        return divide(apply("log", x), constant(math.log(10.0)))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad / (x * math.log(10.0)),)


@operator(torch="sqrt", onnx="Sqrt")
class Sqrt(Function):
    """The square root."""

    function: ClassVar[str] = "sqrt"

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad / (2 * x.sqrt()),)


@operator(torch="rsqrt")
class Rsqrt(Function):
    """1 / √x."""

    function: ClassVar[str] = "rsqrt"

    def value(self, *values: Any) -> Any:
        (x,) = values
        return divide(constant(1), apply("sqrt", x))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (-0.5 * out_grad * x.rsqrt() / x,)


@operator(torch="reciprocal", onnx="Reciprocal")
class Reciprocal(Function):
    """1 / x."""

    function: ClassVar[str] = "reciprocal"

    def value(self, *values: Any) -> Any:
        (x,) = values
        return divide(constant(1), x)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (-out_grad / (x * x),)


@operator(torch="sin", onnx="Sin")
class Sin(Function):
    """The sine of x radians."""

    function: ClassVar[str] = "sin"

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad * x.cos(),)


@operator(torch="cos", onnx="Cos")
class Cos(Function):
    """The cosine of x radians."""

    function: ClassVar[str] = "cos"

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (-out_grad * x.sin(),)


@operator(torch="tan", onnx="Tan")
class Tan(Function):
    """The tangent of x radians."""

    function: ClassVar[str] = "tan"

    def value(self, *values: Any) -> Any:
        (x,) = values
        return divide(apply("sin", x), apply("cos", x))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad / (x.cos() * x.cos()),)


@operator(torch="atan arctan", onnx="Atan")
class Atan(Function):
    """The angle in (−π/2, π/2) whose tangent is x."""

    function: ClassVar[str] = "atan"

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad / (1 + x * x),)


@operator(torch="erf", onnx="Erf")
class Erf(Function):
    """The error function."""

    function: ClassVar[str] = "erf"

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        (x,) = operands
        return (out_grad * (2 / math.sqrt(math.pi)) * (-x * x).exp(),)
