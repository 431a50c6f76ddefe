"""The operations that take part in discovery: their kernel modulo a prime, and how they are written in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from rewrites.generator import kernels
from rewrites.generator.kernels import Kernel
from rewrites.generator.world import World


@dataclass(frozen=True)
class Operation:
    """One operation: its operands' ranks (None for any), its kernel in a world, and its text.

    `kernel` runs on stacks of terms: every operand has one more axis in front, along which the terms lie.
    `text` is a format string over the operands' texts (`{0}`, `{1}`) and the attributes' names; `attributes` gives the value with which it
    is evaluated, and `open` those that may become variables of a rule.
    """

    name: str
    ranks: tuple[int | None, ...]
    kernel: Kernel
    text: str
    commutative: bool = False
    attributes: tuple[tuple[str, Any], ...] = ()
    open: tuple[str, ...] = ()
    word: str = ""
    """How the names of laws call it; the family when empty."""
    weights: tuple[int, ...] = ()
    """The positions of operands that must be weights."""
    activation: int | None = None
    """The position of an operand that may not be made of weights alone."""
    constant: bool = False
    """Its value depends on the operand's shape alone; applied to inputs only, which have every shape that matters."""
    declared: bool = False
    """Made from what operators/ declares (see `declared`), not written here."""
    inputs: str = ""
    """For each operand a dot, or the sort of input that it must be; a capital where it may also be computed."""

    @property
    def family(self) -> str:
        """The name under which the command line knows it."""
        return self.name.split("_")[0]


def _convolution(name: str, word: str, size: int, padding: int, groups: int | None = 1, *, bias: bool = False) -> Operation:
    last = "{2}" if bias else "None"
    count = "{0}.shape[1]" if groups is None else "{groups}"
    make = kernels.biased_convolution if bias else kernels.convolution
    kernel = kernels.depthwise_convolution(size, 1, padding) if groups is None else make(size, 1, padding, groups)
    return Operation(
        name,
        (4, 4, 1) if bias else (4, 4),
        kernel,
        f"F.conv2d({{0}}, {{1}}, {last}, {{stride}}, {{padding}}, {{dilation}}, {count})",
        attributes=(("kernel", size), ("stride", 1), ("padding", padding), ("dilation", 1), ("groups", groups)),
        open=("stride", "padding", "dilation") + (() if groups is None else ("groups",)),
        word=word,
        weights=(1, 2) if bias else (1,),
        activation=0,
        inputs="..B" if bias else "",
    )


def _concat(axis: int, rank: int, word: str) -> Operation:
    text = f"torch.cat([{{0}}, {{1}}], {axis - rank})"
    return Operation(f"concat_{axis}_{rank}", (rank, rank), kernels.concat(axis), text, word=f"Concat{word}")


def _split(axis: int, rank: int, part: int, word: str) -> Operation:
    text = f"torch.split({{0}}, [{{sizes}}], {axis - rank})[{part}]"
    name = f"split_{axis}_{rank}_{('first', 'second')[part]}"
    return Operation(
        name, (rank,), kernels.split(axis, part), text, attributes=(("sizes", axis),), word=("First", "Second")[part] + f"Of{word}"
    )


def _pool(name: str, kernel: Kernel, function: str, word: str) -> Operation:
    text = f"F.{function}({{0}}, {{window}}, {{pool_stride}}, {{pool_padding}})"
    attributes = (("window", 3), ("pool_stride", 1), ("pool_padding", 1))
    return Operation(
        name, (4,), kernel, text, attributes=attributes, open=("window", "pool_stride", "pool_padding"), word=word, activation=0
    )


_PLACES = ((0, 2, "Rows"), (1, 2, "Columns"), (0, 4, "Batch"), (1, 4, "Channels"))
_EYE = "torch.eye({0}.shape[0], dtype={0}.dtype)[:, :, None, None]"

_OPERATIONS = (
    Operation("matmul", (2, 2), kernels.product, "torch.matmul({0}, {1})", word="MatMul"),
    Operation("add", (None, None), kernels.pointwise(torch.add), "{0} + {1}", commutative=True),
    Operation("mul", (None, None), kernels.pointwise(torch.mul), "{0} * {1}", commutative=True, word="Product"),
    Operation("scale", (None,), kernels.scaled(7), "{factor} * {0}", attributes=(("factor", 7.0),), open=("factor",)),
    Operation("relu", (None,), lambda world, x: world.relu(x), "torch.relu({0})"),
    Operation("transpose", (2,), lambda world, x: x.mT, "{0}.mT"),
    *(_concat(axis, rank, word) for axis, rank, word in (*_PLACES, (0, 1, "Vectors"))),
    *(_split(axis, rank, part, word) for axis, rank, word in _PLACES for part in (0, 1)),
    _convolution("conv_3", "Convolution", 3, 1),
    _convolution("conv_1", "PointConvolution", 1, 0),
    _convolution("conv_3_grouped", "GroupedConvolution", 3, 1, 2),
    _pool("average_pool", kernels.average, "avg_pool2d", "AveragePool"),
    _pool("max_pool", kernels.largest, "max_pool2d", "MaxPool"),
    Operation("identity", (2,), kernels.identity, "torch.eye({0}.shape[-1], dtype={0}.dtype)", constant=True),
    Operation("ones", (None,), lambda world, x: torch.ones_like(x), "torch.ones_like({0})", constant=True),
    Operation("zeros", (None,), lambda world, x: torch.zeros_like(x), "torch.zeros_like({0})", constant=True),
    Operation("centre", (4,), kernels.identity_kernel, f"F.pad({_EYE}, (1, 1, 1, 1))", constant=True, word="IdentityKernel"),
    Operation("mean", (4,), kernels.averaging_kernel, f"{_EYE} * torch.ones_like({{0}}) / 9", constant=True, word="AveragingKernel"),
    _convolution("depthwise", "DepthwiseConvolution", 3, 1, None),
    _convolution("biased_3", "BiasedConvolution", 3, 1, bias=True),
    _convolution("biased_1", "BiasedPointConvolution", 1, 0, bias=True),
    Operation("norm", (4, 1, 1), kernels.normalise, "{0} * {1}[:, None, None] + {2}[:, None, None]", weights=(1, 2)),
    Operation("enlarge", (4,), kernels.enlarge, "F.pad({0}, (1, 1, 1, 1))", weights=(0,)),
    Operation("scalerows", (4, 1), kernels.scale_rows, "{0} * {1}[:, None, None, None]", word="ScaledRows",
              weights=(0, 1), inputs=".S"),
    Operation("addchannel", (4, 1), kernels.add_channel, "{0} + {1}[:, None, None]", word="ChannelSum", activation=0),
    Operation("batchnorm", (4, 1, 1, 1, 1), kernels.batch_norm, "F.batch_norm({0}, {1}, {2}, {3}, {4}, False, 0.1, {eps})",
              attributes=(("eps", 1e-5),), open=("eps",), word="BatchNorm", weights=(1, 2, 3, 4), activation=0, inputs=".ersz"),
    Operation("batchnorm_factor", (1, 1), kernels.norm_factor, "{0} * torch.rsqrt({1} + {eps})",
              attributes=(("eps", 1e-5),), open=("eps",), word="NormFactor", inputs="sr"),
    Operation("batchnorm_shift", (1, 1, 1), kernels.norm_shift, "{0} - {1} * {2}", word="NormShift", inputs="ze."),
    Operation("sigmoid", (None,), kernels.named("sigmoid"), "torch.sigmoid({0})"),
    Operation("tanh", (None,), kernels.named("tanh"), "torch.tanh({0})"),
    Operation("exp", (None,), kernels.named("exp"), "torch.exp({0})"),
)  # fmt: skip

OPERATIONS: dict[str, Operation] = {operation.name: operation for operation in _OPERATIONS}
"""Every operation by name; those that are declared in operators/ join when they are chosen."""

DEFAULT = ("matmul", "conv", "add", "mul", "scale", "relu", "transpose", "concat", "split", "average", "max", "identity", "ones", "zeros",
           "centre", "mean")  # fmt: skip
"""The families that take part unless others are named: eleven, and constants (identities, ones, zeros, averaging kernel)."""


def chosen(families: Iterable[str]) -> list[Operation]:
    """The operations of the named families, and the forms of the named operators of operators/ (`Softmax`, `softmax`).

    Raises: ValueError naming what there is not, or what cannot take part and why.
    """
    known = sorted({operation.family for operation in _OPERATIONS})
    wanted = list(families)
    found = [operation for operation in _OPERATIONS if operation.family in wanted]
    for family in dict.fromkeys(wanted):
        if family not in known:
            from rewrites.generator.declared import declared

            forms = declared(family)
            if not forms:
                raise ValueError(f"operators: must be among {', '.join(known)}, or an operator of docs/operators.md, got {family}")
            OPERATIONS.update((form.name, form) for form in forms)
            found += forms
    return found


@dataclass(frozen=True)
class Source:
    """An input of the enumeration: its sort (the letter of its name), its shape in a world, whether it is a weight."""

    name: str
    shape: Callable[[World], tuple[int, ...]]
    weight: bool = False


_SORTS = (
    Source("m", lambda world: (world.matrix, world.matrix)),
    Source("x", lambda world: (world.samples, world.channels, world.height, world.width)),
    Source("w", lambda world: (world.channels, world.channels, 3, 3), weight=True),
    Source("v", lambda world: (world.channels, world.channels, 1, 1), weight=True),
    Source("g", lambda world: (world.channels, world.channels // 2, 3, 3), weight=True),
    Source("d", lambda world: (world.channels, 1, 3, 3), weight=True),
    *(Source(sort, lambda world: (world.channels,), weight=True) for sort in "serbz"),
    Source("u", lambda world: (world.matrix,), weight=True),
    Source("q", lambda world: (world.samples, world.channels, world.width)),
    Source("k", lambda world: (world.channels, world.channels, 3), weight=True),
)
SORTS: dict[str, Source] = {sort.name: sort for sort in _SORTS}
"""Every sort of input: matrices `m`, images `x`, kernels `w` (3x3), `v` (1x1), `g` (two groups), `d` (one channel each), channel
vectors `s` (factors), `e` (means), `r` (variances), `b` and `z` (shifts), vectors `u` as long as a matrix is wide,
sequences `q`, and their kernels `k`."""


def sources(activations: int = 4, weights: int = 2, sorts: Iterable[str] = "mxwvg") -> list[Source]:
    """So many inputs of each of the sorts."""
    chosen_sorts = [SORTS[sort] for sort in sorts]
    return [replace(s, name=f"{s.name}{i}") for s in chosen_sorts for i in range(weights if s.weight else activations)]


def sorts_for(operations: Sequence[Operation]) -> str:
    """The sorts of input that the operations read: matrices where an operation wants rank 2, or none wants another rank."""
    names = {operation.name for operation in operations}
    ranks = {rank for operation in operations for rank in operation.ranks if rank is not None}
    found = "m" if 2 in ranks or not ranks else ""
    if 4 in ranks:
        found += "x"
    if names & {"conv_3", "biased_3", "centre", "mean"}:
        found += "w"
    if names & {"conv_1", "biased_1", "enlarge"}:
        found += "v"
    if "conv_3_grouped" in names:
        found += "g"
    if "depthwise" in names:
        found += "d"
    if names & {"norm", "scalerows", "addchannel", "batchnorm"}:
        found += "s"
    vectors = [operation for operation in operations if operation.declared and 1 in operation.ranks]
    if any(not {3, 4} & set(operation.ranks) for operation in vectors):
        found += "u"
    if 3 in ranks:
        found += "q" + "k" * any(operation.ranks.count(3) > 1 for operation in operations)
    biased = names & {"biased_3", "biased_1"} or any({3, 4} & set(operation.ranks) for operation in vectors)
    return found + ("erz" if "batchnorm" in names else "") + ("b" if biased else "")
