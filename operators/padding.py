"""Enlarging a tensor along its last axes, in every mode of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operators.axes import replaced
from operators.expressions import Dim, plain
from operators.formulas import all_of, at_least_zero
from operators.meaning import when, within
from operators.operator import Operator, TensorType, alias, is_known_equal, operator, require
from operators.pointwise import concrete, highest_kind, to_kind

Bound = tuple[Operator, Sequence[Any]]


@operator(torch="pad", onnx="Pad")
class Pad(Operator):
    """x enlarged along its last axes: `padding` holds (before, after) for the last axis first, as in torch.

    `mode` says what the new elements are: `value` (constant; negative padding cuts), the nearest element (replicate), the
    mirror image without the edge (reflect), or the other end (circular).

    x: [*s, d]   value: [] (constant only)   ->   [*s, before + d + after]
    """

    padding: tuple[Dim, ...]
    mode: str = "constant"

    def pair(self, axis: int) -> tuple[Dim, Dim]:
        """(before, after) of an axis counted from the end."""
        position = 2 * (-axis - 1)
        return (self.padding[position], self.padding[position + 1]) if position < len(self.padding) else (0, 0)

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        x = operands[0]
        require(
            self,
            len(self.padding) % 2 == 0 and len(self.padding) <= 2 * x.ndim,
            f"padding must be pairs for axes of x, got {self.padding} for {x}",
        )
        if self.mode == "constant":
            require(self, len(operands) > 1 and operands[1] is not None, "padding with a constant needs the constant, got none")
        else:
            padded = len(self.padding) // 2
            require(
                self,
                padded in (1, 2, 3) and x.ndim in (padded + 1, padded + 2),
                f"{padded} padded axes need 1 or 2 more before them, got {x}",
            )
        result = []
        for axis in range(-x.ndim, 0):
            size, (before, after) = x.shape[axis], self.pair(axis)
            require(self, at_least_zero(size + before + after), f"no axis may end below 0, got {size} padded by {before} and {after}")
            if self.mode == "constant":
                require(
                    self,
                    all_of(at_least_zero(size + before), at_least_zero(size + after)),
                    f"padding may not cut off more than x, got {before}, {after} for {size}",
                )
            elif -axis * 2 <= len(self.padding):
                slack = {"reflect": size - 1, "circular": size}.get(self.mode)
                require(
                    self, all_of(at_least_zero(before), at_least_zero(after)), f"padding must not be negative, got {before} and {after}"
                )
                if slack is None:
                    require(self, at_least_zero(size - 1), f"replicated axes must not be empty, got {x}")
                else:
                    require(
                        self,
                        all_of(at_least_zero(slack - before), at_least_zero(slack - after)),
                        f"padding must be at most {slack}, got {before} and {after}",
                    )
            result.append(size + before + after)
        return tuple(result)

    def dtype(self, *operands: TensorType) -> str:
        return operands[0].dtype

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        x = operands[0]
        shifted = tuple(i - self.pair(axis)[0] for axis, i in zip(range(-len(at), 0), at, strict=True))
        if self.mode == "constant":
            padded = [position for position in range(len(at)) if 2 * (len(at) - position) <= len(self.padding)]
            there = all_of(*(within(shifted[position], x.shape[position]) for position in padded))
            return when(there, lambda: x[shifted], lambda: to_kind(operands[1][()], operands[1].dtype, highest_kind(x.dtype)))
        return self._fold(x, shifted, 0)

    def _fold(self, x: Any, index: tuple[Any, ...], position: int) -> Any:
        """The element at an index that may lie outside, brought inside axis by axis."""
        if position == len(index):
            return x[index]
        axis = position - len(index)
        if all(is_known_equal(amount, 0) for amount in self.pair(axis)):
            return self._fold(x, index, position + 1)
        i, size = index[position], x.shape[position]
        below, above = {
            "replicate": (0, size - 1),
            "reflect": (-i, 2 * (size - 1) - i),
            "circular": (i + size, i - size),
        }[self.mode]

        def go(j: Any) -> Any:
            return self._fold(x, replaced(index, axis, j), position + 1)

        return when(at_least_zero(-i - 1), lambda: go(below), lambda: when(at_least_zero(i - size), lambda: go(above), lambda: go(i)))

    def flops(self, *operands: TensorType) -> Dim:
        return 0

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        if self.mode == "constant":
            return F.pad(tensors[0], concrete(self.padding), value=tensors[1])
        return F.pad(tensors[0], concrete(self.padding), mode=self.mode)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch.nn.functional as F

        if self.mode != "constant":
            raise NotImplementedError(f"Pad: no gradient for mode {self.mode}")
        return F.pad(out_grad, tuple(-amount for amount in self.padding)), None

    @classmethod
    def bind(cls, input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Bound:
        padding = plain(tuple(pad))
        if mode == "constant":
            return cls(padding, mode), [input, 0.0 if value is None else value]
        return cls(padding, mode), [input]


@alias("constant_pad_nd")
def _constant_pad(input: Any, pad: Any, value: Any = 0) -> Bound:
    return Pad.bind(input, pad, "constant", value)


def _declare_pad(names: str, mode: str) -> None:
    @alias(names)
    def bind(input: Any, padding: Any) -> Bound:
        return Pad.bind(input, padding, mode)


for _mode, _names in (("reflect", "reflection_pad"), ("replicate", "replication_pad")):
    _declare_pad(" ".join(f"{_names}{rank}d" for rank in (1, 2, 3)), _mode)
