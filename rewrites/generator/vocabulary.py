"""The operations that take part in discovery: their kernel modulo a prime, and how they are written in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rewrites.generator.world import World, inverse, reduced

Kernel = Callable[..., Tensor]


@dataclass(frozen=True)
class Operation:
    """One operation: its operands' ranks (None for any), its kernel in a world, and its text.

    `text` is a format string over the operands' texts (`{0}`, `{1}`) and the attributes' names; `attributes` gives the value with
    which it is evaluated, and
    `open` those that may become variables of a rule.
    """

    name: str
    ranks: tuple[int | None, ...]
    kernel: Callable[..., Tensor]
    text: str
    commutative: bool = False
    attributes: tuple[tuple[str, Any], ...] = ()
    open: tuple[str, ...] = ()
    weight: int | None = None
    """The position of an operand that must be a weight."""
    activation: int | None = None
    """The position of an operand that may not be made of weights alone."""

    @property
    def family(self) -> str:
        """The name under which the command line knows it."""
        return self.name.split("_")[0]


def _same_shape(a: Tensor, b: Tensor) -> None:
    if a.shape != b.shape:
        raise ValueError("shapes differ")


def _pointwise(function: Callable[[Tensor, Tensor], Tensor]) -> Kernel:
    def kernel(world: World, a: Tensor, b: Tensor) -> Tensor:
        _same_shape(a, b)
        return reduced(function(a, b))

    return kernel


def _named(name: str) -> Kernel:
    return lambda world, x: world.function(name, x)


def _convolution(stride: int, padding: int, groups: int) -> Kernel:
    return lambda world, x, w: reduced(F.conv2d(x, w, None, stride, padding, 1, groups))


def _convolution_operation(name: str, kernel: int, padding: int, groups: int) -> Operation:
    return Operation(
        name,
        (4, 4),
        _convolution(1, padding, groups),
        "F.conv2d({0}, {1}, None, {stride}, {padding}, 1, {groups})",
        attributes=(("kernel", kernel), ("stride", 1), ("padding", padding), ("groups", groups)),
        open=("groups", "stride"),
        weight=1,
        activation=0,
    )


def _split(axis: int, part: int) -> Kernel:
    def kernel(world: World, x: Tensor) -> Tensor:
        if x.shape[axis] % 2 or x.shape[axis] < 4:
            raise ValueError("not a concatenation")
        return x.chunk(2, axis)[part]

    return kernel


def _average(world: World, x: Tensor) -> Tensor:
    return reduced(F.avg_pool2d(x, 3, 1, 1, divisor_override=1) * inverse(9))


def _normalise(world: World, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    if not scale.shape == shift.shape == x.shape[1:2]:
        raise ValueError("one factor per channel")
    return reduced(reduced(x * scale[:, None, None]) + shift[:, None, None])


def _enlarge(world: World, w: Tensor) -> Tensor:
    return F.pad(w, (1, 1, 1, 1))


def _scale_rows(world: World, w: Tensor, scale: Tensor) -> Tensor:
    if scale.shape != w.shape[:1]:
        raise ValueError("one factor per output channel")
    return reduced(w * scale[:, None, None, None])


def _add_channel(world: World, x: Tensor, shift: Tensor) -> Tensor:
    if shift.shape != x.shape[1:2]:
        raise ValueError("one summand per channel")
    return reduced(x + shift[:, None, None])


def _scaled(number: int) -> Kernel:
    return lambda world, x: reduced(x * number)


def _identity(world: World, x: Tensor) -> Tensor:
    return torch.eye(x.shape[-1], dtype=torch.float64)


_OPERATIONS = (
    Operation("matmul", (2, 2), lambda world, a, b: reduced(a @ b), "torch.matmul({0}, {1})"),
    Operation("add", (None, None), _pointwise(torch.add), "{0} + {1}", commutative=True),
    Operation("mul", (None, None), _pointwise(torch.mul), "{0} * {1}", commutative=True),
    Operation("scale", (None,), _scaled(7), "{factor} * {0}", attributes=(("factor", 7.0),), open=("factor",)),
    Operation("relu", (None,), lambda world, x: world.relu(x), "torch.relu({0})"),
    Operation("transpose", (2,), lambda world, x: x.t(), "{0}.t()"),
    Operation("concat_0_2", (2, 2), lambda world, a, b: torch.cat([a, b], 0), "torch.cat([{0}, {1}], 0)"),
    Operation("concat_1_2", (2, 2), lambda world, a, b: torch.cat([a, b], 1), "torch.cat([{0}, {1}], 1)"),
    Operation("concat_0_4", (4, 4), lambda world, a, b: torch.cat([a, b], 0), "torch.cat([{0}, {1}], 0)"),
    Operation("concat_1_4", (4, 4), lambda world, a, b: torch.cat([a, b], 1), "torch.cat([{0}, {1}], 1)"),
    Operation("split_0_2_first", (2,), _split(0, 0), "torch.split({0}, [{sizes}], 0)[0]", attributes=(("sizes", 0),)),
    Operation("split_0_2_second", (2,), _split(0, 1), "torch.split({0}, [{sizes}], 0)[1]", attributes=(("sizes", 0),)),
    Operation("split_1_2_first", (2,), _split(1, 0), "torch.split({0}, [{sizes}], 1)[0]", attributes=(("sizes", 1),)),
    Operation("split_1_2_second", (2,), _split(1, 1), "torch.split({0}, [{sizes}], 1)[1]", attributes=(("sizes", 1),)),
    Operation("split_0_4_first", (4,), _split(0, 0), "torch.split({0}, [{sizes}], 0)[0]", attributes=(("sizes", 0),)),
    Operation("split_0_4_second", (4,), _split(0, 1), "torch.split({0}, [{sizes}], 0)[1]", attributes=(("sizes", 0),)),
    Operation("split_1_4_first", (4,), _split(1, 0), "torch.split({0}, [{sizes}], 1)[0]", attributes=(("sizes", 1),)),
    Operation("split_1_4_second", (4,), _split(1, 1), "torch.split({0}, [{sizes}], 1)[1]", attributes=(("sizes", 1),)),
    _convolution_operation("conv_3", kernel=3, padding=1, groups=1),
    _convolution_operation("conv_1", kernel=1, padding=0, groups=1),
    _convolution_operation("conv_3_grouped", kernel=3, padding=1, groups=2),
    Operation("average_pool", (4,), _average, "F.avg_pool2d({0}, 3, 1, 1)", activation=0),
    Operation("max_pool", (4,), lambda world, x: world.largest_of_window(x, 3, 1, 1), "F.max_pool2d({0}, 3, 1, 1)", activation=0),
    Operation("identity", (2,), _identity, "torch.eye({0}.shape[-1])"),
    Operation("ones", (None,), lambda world, x: torch.ones_like(x), "torch.ones_like({0})"),
    Operation("zeros", (None,), lambda world, x: torch.zeros_like(x), "torch.zeros_like({0})"),
    Operation("norm", (4, 1, 1), _normalise, "{0} * {1}[:, None, None] + {2}[:, None, None]"),
    Operation("enlarge", (4,), _enlarge, "F.pad({0}, (1, 1, 1, 1))"),
    Operation("scalerows", (4, 1), _scale_rows, "{0} * {1}[:, None, None, None]"),
    Operation("addchannel", (4, 1), _add_channel, "{0} + {1}[:, None, None]"),
    Operation("sigmoid", (None,), _named("sigmoid"), "torch.sigmoid({0})"),
    Operation("tanh", (None,), _named("tanh"), "torch.tanh({0})"),
    Operation("exp", (None,), _named("exp"), "torch.exp({0})"),
)  # fmt: skip

OPERATIONS: dict[str, Operation] = {operation.name: operation for operation in _OPERATIONS}
"""Every operation by name."""

DEFAULT = ("matmul", "conv", "add", "mul", "scale", "relu", "transpose", "concat", "split", "average", "max", "identity", "ones", "zeros")
"""The families that take part unless others are named."""


def chosen(families: Iterable[str]) -> list[Operation]:
    """The operations of the named families.

    Raises: ValueError naming a family that there is not, and those there are.
    """
    known = sorted({operation.family for operation in _OPERATIONS})
    wanted = list(families)
    for family in wanted:
        if family not in known:
            raise ValueError(f"operators: must be among {', '.join(known)}, got {family}")
    return [operation for operation in _OPERATIONS if operation.family in wanted]


@dataclass(frozen=True)
class Source:
    """An input of the enumeration: its sort (the letter of its name), its shape in a world, whether it is a weight."""

    name: str
    shape: Callable[[World], tuple[int, ...]]
    weight: bool = False
    annotation: str = ""


def sources(activations: int = 3, weights: int = 2, *, channelwise: bool = False) -> list[Source]:
    """The inputs: matrices `m`, images `x`, kernels `w` (3x3), `v` (1x1), `g` (grouped), and channel vectors `s` where wanted."""
    found = [Source(f"m{i}", lambda world: (world.matrix, world.matrix)) for i in range(activations)]
    found += [Source(f"x{i}", lambda world: (world.samples, world.channels, world.height, world.width)) for i in range(activations)]
    for i in range(weights):
        found.append(Source(f"w{i}", lambda world: (world.channels, world.channels, 3, 3), weight=True))
        found.append(Source(f"v{i}", lambda world: (world.channels, world.channels, 1, 1), weight=True))
        found.append(Source(f"g{i}", lambda world: (world.channels, world.channels // 2, 3, 3), weight=True))
        if channelwise:
            found.append(Source(f"s{i}", lambda world: (world.channels,), weight=True))
    return found
