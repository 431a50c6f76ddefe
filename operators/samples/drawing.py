"""What the rows of samples are drawn with: cases (an operator and its operands) from Hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st

from operators.operator import Operator, TensorType

FLOATS = ("float64", "float32", "bfloat16", "float16")
WIDE = ("float64", "float32")
INTEGERS = ("int64", "int32", "int8", "uint8")


@dataclass
class Case:
    """An operator and operands for it: tensors, Python numbers (weak scalars), or None."""

    operator: Operator
    operands: list[Any]

    def __repr__(self) -> str:
        shown = [
            f"{str(o.dtype).removeprefix('torch.')}{list(o.shape)}={o.tolist()}" if isinstance(o, torch.Tensor) else repr(o)
            for o in self.operands
        ]
        return f"{self.operator} on {'; '.join(shown)}"


@dataclass
class Row:
    """How to draw cases for an operator, and what to hold it to."""

    draw: Callable[[Drawer], Case]
    exact: bool = True
    """On the drawn values (small multiples of 1/2) the arithmetic has no rounding, so results are equal."""
    gradient: bool = True
    """The operator declares a gradient."""
    undifferentiable: tuple[int, ...] = ()
    """Floating operands for which torch has no gradient."""
    empty_gradient: bool = True
    """The gradient is also compared when an operand is empty."""
    gradient_error: float = 1e-9
    """The relative error allowed against torch's gradient (wider where torch keeps a constant in single precision)."""
    random: bool = False
    """There is no meaning per element to compare with."""


class Drawer:
    """Draws sizes, tensors and choices for one case."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw

    def whole(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def size(self, low: int = 0, high: int = 3) -> int:
        """A size; 0, which leaves nothing to compare, half as often as others."""
        return int(self.pick([low, *range(low + 1, high + 1), *range(low + 1, high + 1)])) if low == 0 else self.whole(low, high)

    def shape(self, low: int = 0, high: int = 3, smallest: int = 0) -> tuple[int, ...]:
        return tuple(self.size(smallest) for _ in range(self.whole(low, high)))

    def pick(self, choices: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(choices)))

    def flag(self) -> bool:
        return bool(self.draw(st.booleans()))

    def axis(self, rank: int) -> int:
        return -self.whole(1, rank)

    def axes(self, rank: int) -> tuple[int, ...]:
        return tuple(axis for axis in range(-rank, 0) if self.flag())

    def tensor(self, shape: Sequence[int], dtype: str = "float64", low: int = -4, high: int = 4) -> torch.Tensor:
        """Multiples of 1/2 from low to high (floats), integers, or booleans; negative values only where the dtype has them."""
        generator = torch.Generator().manual_seed(self.whole(0, 9999))
        kind = getattr(torch, dtype)
        if dtype == "bool":
            return torch.randint(0, 2, tuple(shape), generator=generator).bool()
        if kind.is_floating_point:
            return (torch.randint(2 * low, 2 * high + 1, tuple(shape), generator=generator).double() / 2).to(kind)
        return torch.randint(max(low, 0) if dtype == "uint8" else low, high + 1, tuple(shape), generator=generator).to(kind)

    def broadcastable(self, count: int, smallest: int = 0) -> list[tuple[int, ...]]:
        """Shapes that broadcast: one shape with leading axes dropped and axes set to 1."""
        whole = self.shape(0, 3, smallest)
        shapes = []
        for _ in range(count):
            start = self.whole(0, len(whole))
            shapes.append(tuple(1 if self.flag() and self.flag() else size for size in whole[start:]))
        return shapes

    def number(self, dtype: str) -> Any:
        """A Python number of the dtype's kind or a lower one."""
        if dtype == "bool":
            return self.flag()
        return self.whole(-4, 4) if "int" in dtype or self.flag() else self.whole(-8, 8) / 2


class Elements:
    """An operand as `element` reads it: Python values at index tuples."""

    def __init__(self, value: Any) -> None:
        self.weak = not isinstance(value, torch.Tensor)
        self.type = type_of(value)
        self.shape, self.dtype, self.ndim = self.type.shape, self.type.dtype, self.type.ndim
        self.values = value if self.weak else value.detach().tolist()

    def __getitem__(self, index: Any) -> Any:
        index = index if isinstance(index, tuple) else (index,)
        if len(index) != len(self.shape):
            raise IndexError(f"index {index} into {self.type}")
        value = self.values
        for i, size in zip(index, self.shape):
            if not 0 <= i < size:
                raise IndexError(f"index {index} into {self.type}")
            value = value[i]
        return value


def type_of(value: Any) -> TensorType:
    """The type of a tensor, or of a Python number as a weak scalar."""
    if isinstance(value, torch.Tensor):
        return TensorType(tuple(value.shape), str(value.dtype).removeprefix("torch."))
    return TensorType((), "bool" if isinstance(value, bool) else "float32" if isinstance(value, float) else "int64", weak=True)
