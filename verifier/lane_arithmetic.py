"""Arithmetic on lanes: what is exact on some operands, what is known of signs, and unknown functions for the rest."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

from graphs.graph import Value
from operators.arithmetic import Absolute, Add, Multiply, Negative
from operators.axes import without as without_axes
from operators.casts import Cast
from operators.comparison import Equal, LogicalAnd, LogicalNot, LogicalOr, Where
from operators.layout import Reshape
from operators.operator import Operator, TensorType, kind_of
from operators.reductions import Amax, Reduction
from operators.sources import Full
from verifier.bits import NotCovered
from verifier.lanes import EVERY, Lane, Making, type_name, wider
from verifier.proof.reductions import ROUNDING

_NOT_NEGATIVE = frozenset({"Exp", "Exp2", "Sigmoid", "Square"})
_BLIND_TO_ZEROS = frozenset({
    "Exp", "Exp2", "Expm1", "Sigmoid", "Tanh", "Sqrt", "Sin", "Cos", "Tan", "Atan", "Erf", "Log", "Log1p", "Log2", "Log10", "Floor",
    "Ceil", "Trunc", "Round", "Silu", "Gelu", "Softsign", "Mish",
})  # fmt: skip
"""Functions of one number that at −0 and +0 have one value, up to the sign of a zero, and that turn NaN into NaN."""


_NEGATED = re.compile(r"(?P<before>\w+\([^()]*\([^()]*\)[^()]*\)\()Negative\((?P<inside>.*)\)\.0:\w+(?P<after>\))$")
"""The text of an operator of one operand that is negated."""


class Arithmetic(Making):
    """Lanes of sums, products, quotients, and of operators of which nothing is known."""

    def computation(self, kept: Operator, plain: list[Any], types: tuple[TensorType, ...], text: str) -> list[Lane | Value]:
        """An operator of which only is known that equal operands give equal results."""
        if not kept.pointwise:
            negated = _NEGATED.match(text) if type_name(kept) in ("Sum", "Mean") else None
            if negated is not None:
                (lane,) = self.computation(kept, plain, types, negated["before"] + negated["inside"] + negated["after"])
                if isinstance(lane, Lane):
                    order = self.add(Negative(), lane.order, shape=types[0].shape)
                    return [replace(lane, order=order, bits=self.unknown(f"bits of {text}", types[0].shape))]
            if isinstance(kept, Reduction) and kept.keep:
                return [self.kept(kept, text, types[0])]
            return [self._opaque(f"{text}.{output}", t) for output, t in enumerate(types)]
        type = types[0]
        dtypes = ", ".join(source.dtype for p in plain if p is not None for source in [p[1]] if not source.weak)
        absent = "".join("-" if p is None else "x" for p in plain)
        name = f"bits of {kept} {absent} on {dtypes} to {type.dtype}"
        bits: list[Value] = []
        for p in plain:
            if p is not None:
                item = self.constant(float(self.numbers[p[0]])) if p[0] in self.numbers and kind_of(type.dtype) == "float" else p[0]
                bits.append(item.bits if isinstance(item, Lane) else item)
        weak = type.weak
        if kind_of(type.dtype) != "float":
            return [self.function(name, *bits, shape=type.shape, dtype=type.dtype)]
        fits = frozenset() if weak else wider(type.dtype)
        all_lanes = all(p is not None and (isinstance(p[0], Lane) or p[0] in self.numbers) for p in plain)
        operands = [self.lane(*p) for p in plain if p is not None] if all_lanes else []
        if type_name(kept) in ("Add", "Multiply") and len(operands) == 2:
            bits = [self.add(word, *bits, shape=type.shape) for word in (Add(), Multiply())]
        lane = self.computed(self.function(name, *bits, shape=type.shape), fits, weak)
        if type_name(kept) in _NOT_NEGATIVE:
            lane = self.computed(self.add(Absolute(), lane.bits, shape=type.shape), fits, weak)
            lane = replace(lane, order=self.add(Absolute(), lane.order, shape=type.shape))
        if not self.style.rounding or weak or not operands:
            return [lane]
        return [self._by_order(kept, name, operands, lane, type)]

    def _by_order(self, kept: Operator, name: str, operands: list[Lane], lane: Lane, type: TensorType) -> Lane:
        """The lane with its place in the order, and NaN, as functions of the operands' places: the signs of zeros have no influence."""
        word, shape = type_name(kept), type.shape
        if word == "Square":
            word, operands = "Multiply", operands * 2
        if word in ("Add", "Multiply"):
            orders = [self._computed_with(operand, type.dtype) for operand in operands]
            beside = any(operand.weak and type.dtype not in operand.fits for operand in operands)
            exact = self.add(Add() if word == "Add" else Multiply(), *orders, shape=shape)
            order = self.function(f"{ROUNDING}{type.dtype}{' beside a Python number' * beside}", exact, shape=shape)
            flags = [operand.nan for operand in operands]
            if not (any if word == "Add" else all)(operand.finite for operand in operands):
                undefined = self._undefined_sum(orders, exact, shape) if word == "Add" else self._undefined_product(orders, shape)
                flags.append(self.add(Cast(self.flag), undefined, shape=shape, dtype=self.flag) if self.style.pools else undefined)
            return replace(lane, order=order, nan=self.either(flags, shape))
        if word not in _BLIND_TO_ZEROS or len(operands) != 1 or operands[0].weak:
            return lane
        (operand,) = operands
        order = self.function(f"number: {name}", operand.order, shape=shape)
        if word in _NOT_NEGATIVE:
            order = self.add(Absolute(), order, shape=shape)
        special = self.function(f"NaN: {name}", operand.order, shape=shape, dtype=self.flag)
        return replace(lane, order=order, nan=self.either([operand.nan, special], shape))

    def _computed_with(self, lane: Lane, dtype: str) -> Value:
        """The place in the order of an operand of arithmetic; half-precision kernels compute with Python numbers in float32."""
        if dtype in lane.fits:
            return lane.order
        if not lane.weak:
            raise NotCovered("arithmetic on elements of another dtype")
        if lane.number is not None:
            return self.signed(self.unknown(f"{abs(lane.number)} beside {dtype}"), lane.number)
        self.rounded.add(f"beside {dtype}")
        if len(self.rounded) > 1:
            raise NotCovered("a real attribute rounded in two ways")
        return lane.order

    def _is_infinite(self, order: Value) -> Value:
        shape = self.shape(order)
        return self.add(Equal(), self.add(Absolute(), order, shape=shape), self.unknown("infinity"), shape=shape, dtype="bool")

    def _undefined_sum(self, orders: list[Value], exact: Value, shape: tuple[Any, ...]) -> Value:
        """Infinities of opposite signs are added."""
        opposite = self.add(Equal(), exact, self.scalar(0.0), shape=shape, dtype="bool")
        return self.add(LogicalAnd(), opposite, self._is_infinite(orders[0]), shape=shape, dtype="bool")

    def _undefined_product(self, orders: list[Value], shape: tuple[Any, ...]) -> Value:
        """Zero times an infinity."""
        ways = []
        for one, other in (orders, orders[::-1]):
            zero = self.add(Equal(), one, self.scalar(0.0), shape=self.shape(one), dtype="bool")
            ways.append(self.add(LogicalAnd(), zero, self._is_infinite(other), shape=shape, dtype="bool"))
        return self.add(LogicalOr(), *ways, shape=shape, dtype="bool")

    def kept(self, kept: Reduction, text: str, type: TensorType) -> Lane | Value:
        """A reduction that keeps its axes, as the one that does not, reshaped."""
        shape = without_axes(type.shape, kept.axes)
        plain = f"{replace(kept, keep=False)}{text.removeprefix(str(kept))}"  # type: ignore[type-var]
        found = self._opaque(f"{plain}.0", TensorType(shape, type.dtype))

        def reshaped(value: Value, dtype: str) -> Value:
            return self.add(Reshape(type.shape), value, shape=type.shape, dtype=dtype)

        if not isinstance(found, Lane):
            return reshaped(found, type.dtype)
        nan = None if found.nan is None else reshaped(found.nan, self.flag)
        return replace(found, order=reshaped(found.order, "float32"), bits=reshaped(found.bits, "float32"), nan=nan)

    def _opaque(self, text: str, type: TensorType) -> Lane | Value:
        if kind_of(type.dtype) != "float":
            return self.unknown(f"value of {text}", type.shape, type.dtype)
        return self.computed(self.unknown(f"bits of {text}", type.shape), wider(type.dtype))

    def _negative(self, kept: Operator, plain: list[Any], type: TensorType) -> Lane | Value | None:
        item, source = plain[0]
        lane = self.lane(item, source)
        number = None if lane.number is None else -lane.number
        parts = [self.add(Negative(), value, shape=type.shape) for value in (lane.order, lane.bits)]
        return replace(lane, order=parts[0], bits=parts[1], fits=lane.fits & EVERY, number=number, signs=None)

    def _absolute(self, kept: Operator, plain: list[Any], type: TensorType) -> Lane | Value | None:
        item, source = plain[0]
        lane = self.lane(item, source)
        number = None if lane.number is None else abs(lane.number)
        parts = [self.add(Absolute(), value, shape=type.shape) for value in (lane.order, lane.bits)]
        return replace(lane, order=parts[0], bits=parts[1], fits=lane.fits & EVERY, number=number, signs=None)

    def _same_as(self, operand: Any, type: TensorType) -> Lane | None:
        """The operand itself as the result, where it has its shape and dtype."""
        item, source = operand
        lane = self.lane(item, source)
        if tuple(source.shape) != tuple(type.shape) or (not lane.weak and type.dtype not in lane.fits) or lane.weak:
            return None
        return replace(lane, fits=lane.fits & EVERY)

    def _number(self, item: Any, source: TensorType) -> float | None:
        if isinstance(item, Lane):
            return item.number
        return float(self.numbers[item]) if item in self.numbers else None

    def _multiply(self, kept: Operator, plain: list[Any], type: TensorType) -> Lane | Value | None:
        for one, other in (plain, plain[::-1]):
            number = self._number(*other)
            if number in (1.0, -1.0):
                same = self._same_as(one, type)
                if same is not None:
                    return same if number == 1.0 else self._negative(kept, [(same, one[1])], type)
        for one, other in (plain, plain[::-1]):
            if isinstance(other[0], Lane) and isinstance(one[0], Lane) and other[0].signs is not None and not one[0].weak:
                return self._by_sign(one[0], other[0].signs, type)
        return None

    def _by_sign(self, lane: Lane, signs: tuple[Value, Value | None], type: TensorType) -> Lane | None:
        """x · 1, x · −1 and x · 0."""
        if type.dtype not in lane.fits:
            return None
        above, below = signs
        shape, zero = type.shape, self.scalar(0.0)
        order = zero
        elsewhere = self.add(LogicalNot(), above, shape=self.shape(above), dtype="bool")
        if below is not None:
            order = self.add(Where(), below, self.add(Negative(), lane.order, shape=self.shape(lane.order)), zero, shape=shape)
            opposite = self.add(LogicalNot(), below, shape=self.shape(below), dtype="bool")
            elsewhere = self.add(LogicalAnd(), elsewhere, opposite, shape=self.shape(above), dtype="bool")
        order = self.add(Where(), above, lane.order, order, shape=shape)
        flags = [lane.nan]
        if not lane.finite:
            undefined = self.add(LogicalAnd(), elsewhere, self._is_infinite(lane.order), shape=shape, dtype="bool")
            flags.append(self.add(Cast(self.flag), undefined, shape=shape, dtype=self.flag) if self.style.pools else undefined)
        truths = [truth for truth in signs if truth is not None]
        bits = self.function(f"bits by {len(truths)} signs", lane.bits, *truths, shape=shape)
        return Lane(order, bits, self.either(flags, shape), lane.fits & EVERY, finite=lane.finite)

    def _divide(self, kept: Operator, plain: list[Any], type: TensorType) -> Lane | Value | None:
        return self._multiply(kept, plain, type) if self._number(*plain[1]) in (1.0, -1.0) and isinstance(plain[0][0], Lane) else None

    def _power(self, kept: Operator, plain: list[Any], type: TensorType) -> Lane | Value | None:
        number = self._number(*plain[1])
        if number == 1.0:
            return self._same_as(plain[0], type)
        return self.full(Full(type.shape), self.constant(1.0), type.shape) if number == 0.0 else None

    def _add(self, kept: Operator, plain: list[Any], type: TensorType) -> Lane | Value | None:
        for one, other in (plain, plain[::-1]):
            number = self._number(*other)
            same = self._same_as(one, type) if number == 0.0 else None
            if number is not None and same is not None:
                if math.copysign(1.0, number) < 0:
                    return same
                return replace(same, bits=self.function("bits plus zero", same.bits, shape=type.shape), number=None)
        return None

    def _subtract(self, kept: Operator, plain: list[Any], type: TensorType) -> Lane | Value | None:
        """x − y is x + (−y)."""
        if not all(isinstance(item, Lane) or item in self.numbers for item, _ in plain):
            return None
        (_, source), lane = plain[1], self.lane(*plain[1])
        negated = self._negative(kept, [(lane, source)], replace(source, dtype="float32"))
        return (
            self._add(Add(), [plain[0], (negated, source)], type) or self.computation(Add(), [plain[0], (negated, source)], (type,), "")[0]
        )

    def _sum(self, kept: Operator, plain: list[Any], type: TensorType) -> Lane | Value | None:
        """A sum (mean, product) of one element; a sum may begin at +0."""
        (item, source) = plain[0]
        axes = kept.attributes["axes"]
        if not isinstance(item, Lane) or any(not (isinstance(source.shape[axis], int) and source.shape[axis] == 1) for axis in axes):
            return None
        if type.dtype not in item.fits:
            return None
        axes_kept = Amax(axes, kept.attributes["keep"])
        parts = [self.add(axes_kept, value, shape=type.shape) for value in (item.order, item.bits)]
        nan = None if item.nan is None else self.add(axes_kept, item.nan, shape=type.shape, dtype=self.flag)
        bits = parts[1] if type_name(kept) == "Product" else self.function("bits plus zero", parts[1], shape=type.shape)
        return Lane(parts[0], bits, nan, item.fits & EVERY)

    _mean = _product = _sum


__all__ = ["Arithmetic"]
