"""Test data for pointwise operators, casts, activations and sources: one row per operator (see `operators.samples`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import operators.activations as activations
import operators.arithmetic as arithmetic
import operators.casts as casts
import operators.comparison as comparison
import operators.constants as constants
import operators.functions as functions
import operators.fused as fused
import operators.parametric as parametric
import operators.random as random
import operators.sources as sources
import operators.trigonometry as trigonometry
from operators.operator import Operator
from operators.samples.drawing import FLOATS, INTEGERS, WIDE, Case, Drawer, Row

EVERY = (*FLOATS, *INTEGERS, "bool")
SIGNED = (*FLOATS, "int64", "int32", "int8", "bool")
"""Where unsigned operands beside signed ones would wrap before the operator looks at them."""
NUMBERS = (*FLOATS, *INTEGERS)

WITHOUT_A_ROW = {
    "Input": "an input of a graph computes nothing",
    "Constant": "a tensor that a graph holds computes nothing",
    "Opaque": "an operator that nobody defined has no meaning",
    "Foreign": "an operator of another format, computed by its own reference, has no meaning here",
}


def unary(operator: Operator, dtypes: Sequence[str], low: int = -4, high: int = 4, scalars: bool = True) -> Callable[[Drawer], Case]:
    """One tensor (or now and then a Python number)."""

    def draw(d: Drawer) -> Case:
        dtype = d.pick(dtypes)
        if scalars and d.whole(0, 7) == 0:
            return Case(operator, [float(d.whole(max(low, -3), high))])
        return Case(operator, [d.tensor(d.shape(), dtype, low, high)])

    return draw


def binary(
    operator: Operator, dtypes: Sequence[str], low: int = -4, high: int = 4, mixed: bool = True, bools: bool = True
) -> Callable[[Drawer], Case]:
    """Two tensors that broadcast, of the same or of different dtypes, or one of them a Python number."""

    def draw(d: Drawer) -> Case:
        first, second = d.broadcastable(2)
        dtype = d.pick(dtypes)
        other = d.pick(dtypes) if mixed and d.flag() else dtype
        if not bools and dtype == other == "bool":
            other = "int64"
        a, b = d.tensor(first, dtype), d.tensor(second, other, low, high)
        if d.whole(0, 3) == 0 and (bools or dtype != "bool"):
            number = float(d.whole(max(low, 1), high)) if "float" in dtype else d.whole(max(low, 1), high)
            return Case(operator, [a, number if dtype != "bool" or not bools else d.flag()])
        return Case(operator, [a, b])

    return draw


def divisors(operator: Operator) -> Callable[[Drawer], Case]:
    """Two tensors of numbers, the second without zeros."""

    def draw(d: Drawer) -> Case:
        first, second = d.broadcastable(2)
        dtype = d.pick((*WIDE, "int64", "int32", "int8"))
        b = d.tensor(second, dtype, 1, 4)
        return Case(operator, [d.tensor(first, dtype), -b if d.flag() else b])

    return draw


ROWS: dict[str, Row] = {
    "Add": Row(binary(arithmetic.Add(), EVERY)),
    "Subtract": Row(binary(arithmetic.Subtract(), NUMBERS)),
    "Multiply": Row(binary(arithmetic.Multiply(), EVERY)),
    "Divide": Row(binary(arithmetic.Divide(), (*WIDE, "int64"), low=1), exact=False),
    "FloorDivide": Row(divisors(arithmetic.FloorDivide()), gradient=False),
    "TruncDivide": Row(divisors(arithmetic.TruncDivide()), gradient=False),
    "Remainder": Row(divisors(arithmetic.Remainder()), gradient=False),
    "TruncRemainder": Row(divisors(arithmetic.TruncRemainder()), gradient=False),
    "Square": Row(unary(arithmetic.Square(), NUMBERS)),
    "Negative": Row(unary(arithmetic.Negative(), (*FLOATS, "int64", "int8"))),
    "Absolute": Row(unary(arithmetic.Absolute(), NUMBERS)),
    "Sign": Row(unary(arithmetic.Sign(), NUMBERS)),
    "Floor": Row(unary(arithmetic.Floor(), NUMBERS)),
    "Ceil": Row(unary(arithmetic.Ceil(), NUMBERS)),
    "Trunc": Row(unary(arithmetic.Trunc(), NUMBERS)),
    "Round": Row(unary(arithmetic.Round(), NUMBERS)),
    "Maximum": Row(binary(arithmetic.Maximum(), SIGNED)),
    "Minimum": Row(binary(arithmetic.Minimum(), SIGNED)),
}


def _power(d: Drawer) -> Case:
    first, second = d.broadcastable(2)
    if d.flag():
        return Case(arithmetic.Power(), [d.tensor(first, d.pick(WIDE), 1, 3), d.pick((2, 3, 0.5, 1.5, -1, -2))])
    if d.flag():
        return Case(arithmetic.Power(), [d.tensor(first, "int64"), d.tensor(second, "int64", 0, 3)])
    base: Any = d.tensor(first, d.pick(WIDE), 1, 3) if d.flag() else 2.0
    return Case(arithmetic.Power(), [base, d.tensor(second, d.pick(WIDE), -3, 3)])


def _clamp(d: Drawer) -> Case:
    dtype = d.pick((*FLOATS, "int64"))
    low, high = (d.number(dtype) if d.flag() else None for _ in range(2))
    if low is None and high is None:
        low = 0
    return Case(arithmetic.Clamp(), [d.tensor(d.shape(), dtype), low, high])


def _add_scaled(d: Drawer) -> Case:
    first, second = d.broadcastable(2)
    dtype = d.pick(("float64", "float32", "int64", "int32"))
    alpha = d.pick((2, 3, -1) if "int" in dtype else (2.0, 0.5, -1.0, 2))
    return Case(arithmetic.AddScaled(), [d.tensor(first, dtype), d.tensor(second, dtype), alpha])


def _of_three(operator: Operator) -> Callable[[Drawer], Case]:
    """Three tensors of one dtype that broadcast, or two and a number, and where the operator has four operands a number."""

    def draw(d: Drawer) -> Case:
        dtype = d.pick(FLOATS)
        tensors = [d.tensor(shape, dtype) for shape in d.broadcastable(3)]
        if isinstance(operator, fused.AddProduct):
            return Case(operator, [*tensors, d.pick((1, 2, -0.5))])
        if isinstance(operator, fused.AddQuotient):
            return Case(operator, [*tensors[:2], tensors[2].abs() + 1, d.pick((1, 2, -0.5))])
        return Case(operator, [*tensors[:2], d.pick((0, 0.25, 0.75, 2.0))] if d.flag() else tensors)

    return draw


def _inside_one(operator: Operator) -> Callable[[Drawer], Case]:
    """One tensor of multiples of 1/4 from −1/2 to 1/2: at −1 and 1 these functions have no finite gradient."""
    return lambda d: Case(operator, [d.tensor(d.shape(), d.pick(FLOATS), -1, 1) / 2])


ROWS |= {"Power": Row(_power, exact=False), "Clamp": Row(_clamp), "AddScaled": Row(_add_scaled)}

for _operator in (fused.AddProduct(), fused.AddQuotient(), fused.Lerp()):
    ROWS[type(_operator).__name__] = Row(_of_three(_operator), exact=False)
ROWS["LogAddExp"] = Row(binary(functions.LogAddExp(), FLOATS), exact=False)
for _name in ("Exp", "Expm1", "Exp2", "Sin", "Cos", "Tan", "Atan", "Erf"):
    ROWS[_name] = Row(unary(getattr(functions, _name)(), (*FLOATS, "int64", "bool")), exact=False)
for _name in ("Asin", "Acos", "Atanh"):
    ROWS[_name] = Row(_inside_one(getattr(trigonometry, _name)()), exact=False)
for _name in ("Sinh", "Cosh", "Asinh"):
    ROWS[_name] = Row(unary(getattr(trigonometry, _name)(), (*FLOATS, "int64", "bool")), exact=False)
ROWS["Acosh"] = Row(unary(trigonometry.Acosh(), (*FLOATS, "int64"), low=2), exact=False)
for _name in ("Log", "Log1p", "Log2", "Log10", "Sqrt", "Rsqrt", "Reciprocal"):
    ROWS[_name] = Row(unary(getattr(functions, _name)(), (*FLOATS, "int64"), low=1), exact=False)
for _name in ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr", "LogicalXor"):
    ROWS[_name] = Row(binary(getattr(comparison, _name)(), SIGNED), gradient=False)
for _name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    ROWS[_name] = Row(binary(getattr(comparison, _name)(), (*INTEGERS, "bool"), mixed=False), gradient=False)
ROWS["BitwiseNot"] = Row(unary(comparison.BitwiseNot(), (*INTEGERS, "bool"), scalars=False), gradient=False)
ROWS["LogicalNot"] = Row(unary(comparison.LogicalNot(), EVERY), gradient=False)
ROWS["IsNaN"] = Row(unary(comparison.IsNaN(), NUMBERS), gradient=False)


def _where(d: Drawer) -> Case:
    condition, a, b = d.broadcastable(3)
    dtype, other = d.pick(EVERY), d.pick(EVERY)
    second = d.number(dtype) if d.whole(0, 3) == 0 else d.tensor(b, other)
    return Case(comparison.Where(), [d.tensor(condition, "bool"), d.tensor(a, dtype), second])


def _cast(d: Drawer) -> Case:
    source, target = d.pick(EVERY), d.pick(EVERY)
    return Case(casts.Cast(target), [d.tensor(d.shape(), source, 0 if target == "uint8" and "float" in source else -4)])


ROWS |= {
    "Where": Row(_where),
    "Cast": Row(_cast),
    "Identity": Row(unary(casts.Identity(), EVERY)),
    "Detach": Row(unary(casts.Detach(), EVERY, scalars=False)),
    "Relu": Row(unary(activations.Relu(), NUMBERS)),
    "Relu6": Row(unary(activations.Relu6(), FLOATS, high=8, scalars=False)),
}
for _name in ("Sigmoid", "Tanh"):
    ROWS[_name] = Row(unary(getattr(activations, _name)(), (*FLOATS, "int64", "bool")), exact=False)
for _name in ("Silu", "Selu", "Mish", "Hardsigmoid", "Hardswish", "Softsign", "LogSigmoid"):
    ROWS[_name] = Row(unary(getattr(activations, _name)(), FLOATS, scalars=False), exact=False)
ROWS["Hardsigmoid"].gradient_error = 1e-7


def with_numbers(operator: Operator, *numbers: float, exact: bool = False) -> Row:
    """A floating tensor, then the given scalars (each now and then negated or doubled)."""

    def draw(d: Drawer) -> Case:
        return Case(operator, [d.tensor(d.shape(), d.pick(FLOATS)), *(number * d.pick((1, 2)) for number in numbers)])

    return Row(draw, exact=exact)


def _gelu(d: Drawer) -> Case:
    return Case(activations.Gelu(d.pick(("none", "tanh"))), [d.tensor(d.shape(), d.pick(FLOATS))])


def _prelu(d: Drawer) -> Case:
    shape, dtype = d.shape(0, 3, 1), d.pick(WIDE)
    channels = shape[1] if len(shape) > 1 else 1
    return Case(parametric.PRelu(), [d.tensor(shape, dtype), d.tensor((d.pick((1, channels)),), dtype)])


def _glu(d: Drawer) -> Case:
    shape = list(d.shape(1, 3))
    axis = d.axis(len(shape))
    shape[axis] *= 2
    return Case(activations.Glu(axis), [d.tensor(shape, d.pick(WIDE))])


def _dropout(d: Drawer) -> Case:
    return Case(random.Dropout(False), [d.tensor(d.shape(), d.pick(FLOATS)), 0.5])


ROWS |= {
    "LeakyRelu": with_numbers(parametric.LeakyRelu(), 0.25, exact=True),
    "Elu": with_numbers(parametric.Elu(), 1.0, 1.0, 1.0),
    "Softplus": with_numbers(parametric.Softplus(), 1.0, 3.0),
    "Gelu": Row(_gelu, exact=False),
    "PRelu": Row(_prelu),
    "Glu": Row(_glu, exact=False),
    "Dropout": Row(_dropout),
    "Uniform": Row(lambda d: Case(random.Uniform(d.shape(), d.pick(WIDE)), []), random=True, gradient=False),
    "Normal": Row(lambda d: Case(random.Normal(d.shape(), d.pick(WIDE)), []), random=True, gradient=False),
    "Scalar": Row(lambda d: Case(sources.Scalar(d.number(d.pick(("bool", "int64", "float32")))), []), gradient=False),
    "Full": Row(lambda d: Case(sources.Full(d.shape(), d.pick(EVERY)), [d.whole(0, 4) / 2 if d.flag() else d.whole(0, 4)])),
    "Arange": Row(
        lambda d: Case(constants.Arange(d.whole(-3, 0), d.whole(0, 4), d.whole(1, 3), d.pick(("int64", "int32", "float32"))), [])
    ),
    "Eye": Row(lambda d: Case(constants.Eye(d.size(), d.size(), d.pick(EVERY)), [])),
}
