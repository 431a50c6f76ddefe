"""Pointwise arithmetic. Floored, truncated and true division are different operators, as are the two remainders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from operators.expressions import Dim, product
from operators.meaning import apply, divide
from operators.operator import Applied, Operator, ShapeError, TensorType, Unsupported, alias, kind_of, operator, promote
from operators.pointwise import KINDS, Floating, Pointwise, dtype_of, highest_kind, reduce_to, refuse

Bound = tuple[Operator, Sequence[Any]]


@operator(torch="add __radd__", onnx="Add")
class Add(Pointwise):
    """a + b, broadcasting; `or` on booleans."""

    commutative: ClassVar[bool] = True
    function: ClassVar[str] = "add"

    def value(self, *values: Any) -> Any:
        a, b = values
        return a + b

    def value_on_bools(self, *values: Any) -> Any:
        return apply("or", *values)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        a, b = operands
        return reduce_to(out_grad, a), reduce_to(out_grad, b)

    @classmethod
    def bind(cls, input: Any, other: Any, alpha: Any = 1, *, out: Any = None) -> Bound:
        refuse(cls, out=out)
        return (cls(), [input, other]) if is_one(alpha) else (AddScaled(), [input, other, alpha])


def is_one(alpha: Any) -> bool:
    """The factor is the number 1."""
    return isinstance(alpha, (int, float)) and not isinstance(alpha, bool) and alpha == 1


@operator()
class AddScaled(Pointwise):
    """a + alpha · b, broadcasting, as one operation: torch's kernel may round once where a product and a sum round twice.

    a: [*s]   b: [*s]   alpha: []   ->   [*s]
    """

    def dtype(self, *operands: TensorType) -> str:
        a, b, alpha = operands
        result = promote(a, b)
        if KINDS.index(kind_of(alpha.dtype)) > KINDS.index(kind_of(result)):
            raise ShapeError(f"AddScaled: alpha must be of the operands' kind, got {alpha.dtype} for {a} and {b}")
        return result

    def kind(self, *dtypes: str) -> str:
        return highest_kind(*dtypes[:2])

    def weak(self, *operands: TensorType) -> bool:
        return all(operand.weak for operand in operands[:2])

    def value(self, *values: Any) -> Any:
        a, b, alpha = values
        return a + alpha * b

    def flops(self, *operands: TensorType) -> Dim:
        return 2 * product(self.shape(*operands))

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        a, b, alpha = operands
        return reduce_to(out_grad, a), reduce_to(out_grad * alpha, b), None

    def run(self, *tensors: Any) -> Any:
        import torch

        a, b, alpha = tensors
        return torch.add(a, b, alpha=alpha)


def negated(alpha: Any) -> Any:
    """−alpha, for a number or an operand of `bind`."""
    return -alpha if isinstance(alpha, (int, float)) else Applied(Negative(), [alpha])


@operator(torch="sub subtract __rsub__", onnx="Sub")
class Subtract(Pointwise):
    """a − b, broadcasting."""

    function: ClassVar[str] = "sub"

    def value(self, *values: Any) -> Any:
        a, b = values
        return a - b

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        a, b = operands
        return reduce_to(out_grad, a), reduce_to(-out_grad, b)

    @classmethod
    def bind(cls, input: Any, other: Any, alpha: Any = 1, *, out: Any = None) -> Bound:
        refuse(cls, out=out)
        return (cls(), [input, other]) if is_one(alpha) else (AddScaled(), [input, other, negated(alpha)])


@alias("rsub")
def _reversed_subtract(input: Any, other: Any, alpha: Any = 1) -> Bound:
    return Subtract.bind(other, input, alpha)


@operator(torch="mul multiply __rmul__", onnx="Mul")
class Multiply(Pointwise):
    """a · b, broadcasting; `and` on booleans."""

    commutative: ClassVar[bool] = True
    function: ClassVar[str] = "mul"

    def value(self, *values: Any) -> Any:
        a, b = values
        return a * b

    def value_on_bools(self, *values: Any) -> Any:
        return apply("and", *values)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        a, b = operands
        return reduce_to(out_grad * b, a), reduce_to(out_grad * a, b)


@operator(torch="div divide true_divide truediv __rtruediv__ __rdiv__", onnx="Div")
class Divide(Floating):
    """a / b over the reals, broadcasting; integers become the default floating dtype."""

    function: ClassVar[str] = "div"

    def value(self, *values: Any) -> Any:
        return divide(*values)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        a, b = operands
        return reduce_to(out_grad / b, a), reduce_to(-out_grad * a / (b * b), b)

    @classmethod
    def bind(cls, input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Bound:
        refuse(cls, out=out)
        if rounding_mode == "floor":
            return FloorDivide(), [input, other]
        if rounding_mode == "trunc":
            return TruncDivide(), [input, other]
        return cls(), [input, other]


@operator(torch="floor_divide floordiv __rfloordiv__")
class FloorDivide(Pointwise):
    """⌊a / b⌋, broadcasting; integers stay integers."""

    function: ClassVar[str] = "floor_divide"

    def value(self, *values: Any) -> Any:
        return apply("floor_divide", *values)


@operator()
class TruncDivide(Pointwise):
    """a / b rounded towards zero, broadcasting; integers stay integers."""

    def value(self, *values: Any) -> Any:
        return apply("trunc_divide", *values)

    def run(self, *tensors: Any) -> Any:
        import torch

        a, b = tensors
        if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
            return torch.div(a, b, rounding_mode="trunc")
        return torch.div(torch.tensor(a), torch.tensor(b), rounding_mode="trunc").item()


@operator(torch="remainder mod __rmod__")
class Remainder(Pointwise):
    """a − b·⌊a / b⌋: the sign of the divisor (Python's %)."""

    function: ClassVar[str] = "remainder"

    def value(self, *values: Any) -> Any:
        return apply("remainder", *values)


@operator(torch="fmod", onnx="Mod")
class TruncRemainder(Pointwise):
    """a − b·trunc(a / b): the sign of the dividend (C's %)."""

    function: ClassVar[str] = "fmod"

    def value(self, *values: Any) -> Any:
        return apply("trunc_remainder", *values)


@operator(torch="pow power __rpow__", onnx="Pow")
class Power(Pointwise):
    """aᵇ, broadcasting."""

    function: ClassVar[str] = "pow"

    def dtype(self, *operands: TensorType) -> str:
        dtype = promote(*operands)
        if kind_of(dtype) == "bool":
            raise ShapeError(f"Power: operands must not all be bool, got {' and '.join(map(str, operands))}")
        return dtype

    def value(self, *values: Any) -> Any:
        return apply("power", *values)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        a, b = operands
        by_base = None if isinstance(a, (int, float)) else reduce_to(out_grad * b * a ** (b - 1), a)
        if isinstance(b, (int, float)):
            return by_base, None
        logarithm = math.log(a) if isinstance(a, (int, float)) else torch.log(a)
        return by_base, reduce_to(out_grad * a**b * logarithm, b)

    @classmethod
    def bind(cls, input: Any, exponent: Any, *, out: Any = None, **named: Any) -> Bound:
        refuse(cls, out=out, **named)
        whole = isinstance(exponent, int) and not isinstance(exponent, bool)
        float_two = isinstance(exponent, float) and kind_of(dtype_of(input)) == "float"
        if (whole or float_two) and exponent == 2 and kind_of(dtype_of(input)) != "bool":
            return Square(), [input]
        return cls(), [input, exponent]


class Unary(Pointwise):
    """A pointwise operator of one operand that keeps its dtype."""

    def dtype(self, *operands: TensorType) -> str:
        (x,) = operands
        if kind_of(x.dtype) == "bool":
            raise ShapeError(f"{type(self).__name__}: x must not be bool, got {x}")
        return x.dtype


@operator(torch="square")
class Square(Unary):
    """x²."""

    function: ClassVar[str] = "square"

    def value(self, *values: Any) -> Any:
        (x,) = values
        return x * x

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (out_grad * 2 * operands[0],)


@operator(torch="neg negative", onnx="Neg")
class Negative(Unary):
    """−x."""

    function: ClassVar[str] = "neg"

    def value(self, *values: Any) -> Any:
        return -values[0]

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (-out_grad,)


@operator(torch="abs absolute", onnx="Abs")
class Absolute(Unary):
    """|x|."""

    function: ClassVar[str] = "abs"

    def value(self, *values: Any) -> Any:
        return apply("abs", *values)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (out_grad * operands[0].sign(),)


@operator(torch="sign sgn", onnx="Sign")
class Sign(Unary):
    """−1, 0 or 1 as x is negative, zero or positive."""

    function: ClassVar[str] = "sign"

    def value(self, *values: Any) -> Any:
        return apply("sign", *values)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (out_grad * 0.0,)


class Step(Unary):
    """A rounding: piecewise constant, so its gradient is zero."""

    def value(self, *values: Any) -> Any:
        return apply(self.function, *values)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        return (out_grad * 0.0,)


@operator(torch="floor", onnx="Floor")
class Floor(Step):
    """The largest integer that is not above x."""

    function: ClassVar[str] = "floor"


@operator(torch="ceil", onnx="Ceil")
class Ceil(Step):
    """The smallest integer that is not below x."""

    function: ClassVar[str] = "ceil"


@operator(torch="trunc fix", onnx="Trunc")
class Trunc(Step):
    """x without its fraction."""

    function: ClassVar[str] = "trunc"


@operator(torch="round", onnx="Round")
class Round(Step):
    """The nearest integer, halves to even."""

    function: ClassVar[str] = "round"

    @classmethod
    def bind(cls, input: Any, *, decimals: int = 0, out: Any = None) -> Bound:
        refuse(cls, out=out)
        if decimals:
            raise Unsupported(f"Round: argument decimals={decimals} is not covered")
        return cls(), [input]


class Minmax(Pointwise):
    """The larger or the smaller of two; NaN wins."""

    commutative: ClassVar[bool] = True

    def value(self, *values: Any) -> Any:
        return apply(self.function, *values)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        a, b = operands
        wins = a > b if self.function == "maximum" else a < b
        share = torch.where(a == b, 0.5, torch.where(wins, 1.0, 0.0))
        return reduce_to(out_grad * share, a), reduce_to(out_grad * (1 - share), b)


@operator(torch="maximum", onnx="Max")
class Maximum(Minmax):
    """The larger of a and b; `or` on booleans; NaN wins."""

    function: ClassVar[str] = "maximum"

    def value_on_bools(self, *values: Any) -> Any:
        return apply("or", *values)


@operator(torch="minimum", onnx="Min")
class Minimum(Minmax):
    """The smaller of a and b; `and` on booleans; NaN wins."""

    function: ClassVar[str] = "minimum"

    def value_on_bools(self, *values: Any) -> Any:
        return apply("and", *values)


@operator(torch="clamp clip clamp_min", onnx="Clip")
class Clamp(Pointwise):
    """x no smaller than `low` and then no larger than `high`; either may be absent.

    x: [*s]   low: []   high: []   ->   [*s]
    """

    def value(self, *values: Any) -> Any:
        x, low, high = values
        if low is not None:
            x = apply("maximum", x, low)
        return x if high is None else apply("minimum", x, high)

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.clamp(*tensors)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        x, low, high = operands
        within = x == x
        if low is not None:
            within = within & (x >= low)
        if high is not None:
            within = within & (x <= high)
        return torch.where(within, out_grad, 0.0), None, None

    @classmethod
    def bind(cls, input: Any, min: Any = None, max: Any = None, *, out: Any = None) -> Bound:
        refuse(cls, out=out)
        if min is None and max is None:
            raise Unsupported("Clamp: at least one bound must be given")
        return cls(), [input, min, max]


@alias("clamp_max")
def _clamp_max(input: Any, max: Any) -> Bound:
    return Clamp(), [input, None, max]


@alias("hardtanh")
def _hardtanh(input: Any, min_val: Any = -1.0, max_val: Any = 1.0, inplace: bool = False) -> Bound:
    refuse(Clamp, inplace=inplace)
    return Clamp(), [input, min_val, max_val]
