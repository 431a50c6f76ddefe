"""Arithmetic on lanes: what is exact on some operands, what is known of signs, and unknown functions for the rest."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from graphs.graph import Value
from operators.arithmetic import Absolute, Add, Multiply, Negative, Sign
from operators.operator import Operator, TensorType, kind_of
from operators.reductions import Amax
from operators.sources import Full
from verifier.lanes import EVERY, Lane, Making, type_name, wider

_NOT_NEGATIVE = frozenset({"Exp", "Exp2", "Sigmoid", "Square"})


class Arithmetic(Making):
    """Lanes of sums, products, quotients, and of operators of which nothing is known."""

    def computation(self, kept: Operator, plain: list[Any], types: tuple[TensorType, ...], text: str) -> list[Lane | Value]:
        """An operator of which only is known that equal operands give equal results."""
        if not kept.pointwise:
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
        if type_name(kept) in ("Add", "Multiply", "Divide") and all_lanes and len(bits) == 2:
            return [self._arithmetic(type_name(kept), name, bits[0], bits[1], type, fits, weak)]
        result = self.function(name, *bits, shape=type.shape)
        if type_name(kept) in _NOT_NEGATIVE:
            lane = self.computed(self.add(Absolute(), result, shape=type.shape), fits, weak)
            return [replace(lane, order=self.add(Absolute(), lane.order, shape=type.shape))]
        return [self.computed(result, fits, weak)]

    def _opaque(self, text: str, type: TensorType) -> Lane | Value:
        if kind_of(type.dtype) != "float":
            return self.unknown(f"value of {text}", type.shape, type.dtype)
        return self.computed(self.unknown(f"bits of {text}", type.shape), wider(type.dtype))

    def _arithmetic(self, word: str, name: str, a: Value, b: Value, type: TensorType, fits: frozenset[str], weak: bool) -> Lane:
        """A sum, product or quotient: sums and products do not depend on the order of their operands (a and b follow from a + b and ab)."""
        shape = type.shape
        if not self.style.signs:
            if word == "Divide":
                return self.computed(self.function(name, a, b, shape=shape), fits, weak)
            both = self.add(Add(), a, b, shape=shape), self.add(Multiply(), a, b, shape=shape)
            return self.computed(self.function(name, *both, shape=shape), fits, weak)
        if word == "Add":
            both = self.add(Add(), a, b, shape=shape), self.add(Multiply(), a, b, shape=shape)
            bits = self.function(name, *both, shape=shape)
            size = self.add(Absolute(), both[0], shape=shape)
            sign = self.add(Sign(), both[0], shape=shape)
            number = self.function(f"number of {name}", size, both[1], shape=shape)
            nan = self.function(f"NaN of {name}", size, both[1], shape=shape, dtype=self.flag)
            return Lane(self.add(Multiply(), sign, number, shape=shape), bits, nan, fits, weak=weak)
        sizes = [self.add(Absolute(), v, shape=self.shape(v)) for v in (a, b)]
        signs = [self.add(Sign(), v, shape=self.shape(v)) for v in (a, b)]
        if word == "Multiply":
            sizes = [self.add(kept, *sizes, shape=shape) for kept in (Add(), Multiply())]
        size = self.add(Absolute(), self.function(name, *sizes, shape=shape), shape=shape)
        sign = self.add(Multiply(), *signs, shape=shape)
        lane = self.computed(size, fits, weak)
        number = self.add(Absolute(), lane.order, shape=shape)
        return replace(lane, bits=self.add(Multiply(), sign, size, shape=shape), order=self.add(Multiply(), sign, number, shape=shape))

    def _negative(self, kept: Operator, plain: list[Any], type: TensorType) -> Lane | Value | None:
        item, source = plain[0]
        lane = self.lane(item, source)
        number = None if lane.number is None else -lane.number
        parts = [self.add(Negative(), value, shape=type.shape) for value in (lane.order, lane.bits)]
        return replace(lane, order=parts[0], bits=parts[1], fits=lane.fits & EVERY, number=number)

    def _absolute(self, kept: Operator, plain: list[Any], type: TensorType) -> Lane | Value | None:
        item, source = plain[0]
        lane = self.lane(item, source)
        number = None if lane.number is None else abs(lane.number)
        parts = [self.add(Absolute(), value, shape=type.shape) for value in (lane.order, lane.bits)]
        return replace(lane, order=parts[0], bits=parts[1], fits=lane.fits & EVERY, number=number)

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
        return None

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
