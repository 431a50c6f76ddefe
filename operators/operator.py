"""What one operator is: the base class, its declaration, and the table from torch's functions to operators."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Flag, auto
from typing import Any, ClassVar, TypeVar, dataclass_transform

from operators.binding import Alias, Applied, Unsupported, alias, enter, guarded, mutates, operator_for, torch_aliases, torch_name
from operators.expressions import Dim, Expression, plain
from operators.formulas import Truth, all_of, any_of, equal


class ShapeError(ValueError):
    """Operands whose shapes or dtypes an operator does not take; the message names both and the requirement."""


@dataclass(frozen=True)
class TensorType:
    """Shape and dtype of a tensor; `weak` marks a Python scalar, which promotes by kind only (PyTorch's rule)."""

    shape: tuple[Dim, ...]
    dtype: str = "float32"
    weak: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


class Effect(Flag):
    """What an operator does besides computing its outputs from its operands; several join by `|`."""

    PURE = 0
    RANDOM = auto()
    BATCH_STATISTICS = auto()
    UPDATES_BUFFER = auto()
    ALIASES = auto()
    UNKNOWN = auto()

    def __str__(self) -> str:
        words = {
            Effect.RANDOM: "draws random numbers",
            Effect.BATCH_STATISTICS: "mixes the samples of a batch",
            Effect.UPDATES_BUFFER: "updates a buffer",
            Effect.ALIASES: "returns a view of an operand",
            Effect.UNKNOWN: "unknown",
        }
        return ", ".join(words[effect] for effect in self) or "pure"


class Operator:
    """One operator with its attributes as fields; subclasses are frozen dataclasses made by `@operator`.

    `shape`, `dtype`, `flops` take the operands' `TensorType`s; `element` takes operands with `.shape`, `.dtype` and
    `[index tuple]`; an absent optional operand is None. Axes are counted from the end: −1 is the last.
    """

    commutative: ClassVar[bool] = False
    """The first two operands may be exchanged."""
    pointwise: ClassVar[bool] = False
    """Each output element depends on the elements of the (broadcast) operands at the same index only."""
    multiple: ClassVar[bool] = False
    """torch returns a tuple of outputs (even of one)."""
    aliases: ClassVar[bool] = False
    """The output is a view of the first operand in PyTorch."""
    from_the_end: ClassVar[bool] = False
    """Negative positions count from the end."""

    @property
    def ignored(self) -> tuple[int, ...]:
        """Numbers among the positions that are passed over."""
        return ()

    absent: ClassVar[dict[int, float]] = {}
    """Optional operands by position, with the number that stands for an absent one (a convolution's bias: 0)."""
    torch_names: ClassVar[tuple[str, ...]] = ()
    onnx_name: ClassVar[str | None] = None

    @property
    def effects(self) -> Effect:
        """What the operator does besides computing its outputs; may depend on the attributes (a batch norm's `training`)."""
        return Effect.ALIASES if self.aliases else Effect.PURE

    def effects_on(self, *operands: Any) -> Effect:
        """The effects on these operands (None where one is absent): a batch norm without running statistics updates none."""
        return self.effects

    def outputs(self, *operands: Any) -> tuple[TensorType, ...]:
        """The types of all outputs; the one output of `shape` and `dtype` unless overridden."""
        return (TensorType(tuple(self.shape(*operands)), self.dtype(*operands), self.weak(*operands)),)

    def shape(self, *operands: Any) -> tuple[Dim, ...]:
        raise NotImplementedError(f"{type(self).__name__} has no shape")

    def dtype(self, *operands: Any) -> str:
        """The result's dtype; PyTorch's promotion of the operands unless overridden."""
        return promote(*(operand for operand in operands if operand is not None))

    def weak(self, *operands: Any) -> bool:
        return False

    def element(self, at: tuple[Any, ...], *operands: Any, **which: Any) -> Any:
        """One element of output number `output` (a keyword, 0 unless given): `at` is its index; operands are indexed by tuples."""
        raise NotImplementedError(f"{type(self).__name__} has no meaning per element")

    def positions(self, *operands: Any) -> dict[int, Dim]:
        """Of operands that hold positions, by number: how many positions there are."""
        return {}

    def flops(self, *operands: Any) -> Dim:
        """Floating-point operations; a multiply-add counts 2; one per output element unless overridden."""
        from operators.expressions import product

        return product(self.outputs(*operands)[0].shape)

    def run(self, *tensors: Any) -> Any:
        """The operator on torch tensors by torch's own kernel (a tuple for several outputs)."""
        raise NotImplementedError(f"{type(self).__name__} has no torch kernel")

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        """The vector-Jacobian product: one entry (or None) per operand, written with torch functions."""
        raise NotImplementedError(f"{type(self).__name__} has no gradient")

    @classmethod
    def bind(cls, *args: Any, **kwargs: Any) -> tuple[Operator, Sequence[Any]]:
        """The operator and its operands for a torch call with these arguments.

        Operands have `.shape`, `.ndim` and `.dtype` (a string), or are Python numbers. Among the operands returned there
        may be an `Applied`: an operator on operands to compute first.
        Raises: Unsupported for a form of the call that the operator does not cover.
        """
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        if kwargs.pop("out", None) is not None:
            raise Unsupported(f"{cls.__name__}: out= is not covered")
        names = ("input", "self", "other", "mat2")
        args = (*args, *(kwargs.pop(name) for name in names if name in kwargs))
        if fields or kwargs:
            raise Unsupported(f"{cls.__name__}: no binding for {', '.join(kwargs) or 'attributes'}")
        return cls(), args

    @property
    def attributes(self) -> dict[str, Any]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={value}" for name, value in self.attributes.items())
        return type(self).__name__ + (f"({inside})" if inside else "")


OPERATORS: dict[str, type[Operator]] = {}
"""Every declared operator by class name."""

T = TypeVar("T", bound=type[Operator])


@dataclass_transform(frozen_default=True)
def operator(torch: str = "", onnx: str | None = None) -> Callable[[T], T]:
    """Declare an operator: freeze it as a dataclass and enter it under the names torch has for it.

    `torch` lists names separated by blanks; each stands for `torch.NAME`, `torch.nn.functional.NAME`, `torch.Tensor.NAME`
    and every overload of `torch.ops.aten.NAME`; `bind` tells the forms apart. `functional.NAME` stands for
    `torch.nn.functional.NAME` alone, where another function of that name does something else.
    """

    def declare(cls: T) -> T:
        declared: T = dataclass(frozen=True, repr=False)(cls)  # type: ignore[assignment]
        declared.bind = classmethod(guarded(declared.bind.__func__))  # type: ignore[assignment, attr-defined]
        declared.torch_names = tuple(torch.split())
        declared.onnx_name = onnx
        OPERATORS[declared.__name__] = declared
        for name in declared.torch_names:
            enter(name, declared)
        return declared

    return declare


def require(who: Any, condition: Truth, message: str) -> None:
    """Raise ShapeError unless the condition holds; when it cannot be known for symbolic sizes, note it as an obligation.

    Obligations go to the innermost `collecting_obligations` block; outside any block an unknown condition is an error.
    """
    if condition is True:
        return
    if condition is False:
        raise ShapeError(f"{type(who).__name__ if not isinstance(who, str) else who}: {message}")
    if not _obligations:
        raise ShapeError(f"{type(who).__name__ if not isinstance(who, str) else who}: {message} (not known for symbolic sizes)")
    _obligations[-1].append(condition)


_obligations: list[list[Truth]] = []


class collecting_obligations:
    """`with collecting_obligations() as found:` gathers what shape rules require of symbolic sizes."""

    def __enter__(self) -> list[Truth]:
        _obligations.append([])
        return _obligations[-1]

    def __exit__(self, *exception: object) -> None:
        _obligations.pop()


_units: list[set[Expression]] = []


class collecting_units:
    """`with collecting_units() as found:` gathers the symbolic sizes for which 1 is a case of its own (a size that may broadcast)."""

    def __enter__(self) -> set[Expression]:
        _units.append(set())
        return _units[-1]

    def __exit__(self, *exception: object) -> None:
        _units.pop()


def note_units(*sizes: Dim) -> None:
    """Note that a call means something else when one of these sizes is 1; the case at hand is that it is not."""
    if _units:
        _units[-1].update(plain(size) for size in sizes if isinstance(size, Expression))


_narrowings: list[list[Truth]] = []


class collecting_narrowings:
    """`with collecting_narrowings() as found:` gathers what symbolic sizes are taken to satisfy although torch accepts others."""

    def __enter__(self) -> list[Truth]:
        _narrowings.append([])
        return _narrowings[-1]

    def __exit__(self, *exception: object) -> None:
        _narrowings.pop()


def note_narrowing(statement: Truth) -> None:
    """Note that a call is taken to satisfy the statement, although torch gives it a meaning elsewhere (a slice's ends are clamped)."""
    if _narrowings and not isinstance(statement, bool):
        _narrowings[-1].append(statement)


_ones: list[frozenset[Expression]] = []


@contextmanager
def taken_as_one(sizes: Iterable[Expression]) -> Iterator[None]:
    """Inside the block these sizes are known to be 1: nodes that are made have 1 in their shapes instead."""
    _ones.append(frozenset(sizes))
    try:
        yield
    finally:
        _ones.pop()


def with_ones(type: TensorType) -> TensorType:
    """The type with 1 for the sizes that are taken as 1."""
    if not _ones or not _ones[-1]:
        return type
    shape = tuple(1 if isinstance(dim, Expression) and plain(dim) in _ones[-1] else dim for dim in type.shape)
    return replace(type, shape=shape)


def is_known_equal(left: Dim, right: Dim) -> bool:
    """The two dims are the same number or the same polynomial."""
    return equal(plain(left), plain(right)) is True


def broadcast(who: Any, *shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The common shape by PyTorch's broadcasting, aligned from the right.

    Symbolic sizes that are not known to be 1 are required to be equal (see `require`); that they may be 1 is noted (`note_units`).
    Raises: ShapeError naming both shapes.
    """
    rank = max(map(len, shapes), default=0)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        size: Dim = 1
        for shape in shapes:
            if -axis > len(shape):
                continue
            dim = shape[axis]
            if is_known_equal(dim, 1):
                continue
            if is_known_equal(size, 1):
                size = dim
            elif not is_known_equal(size, dim):
                names = " and ".join(f"[{', '.join(map(str, s))}]" for s in shapes)
                note_units(size, dim)
                require(who, equal(size, dim), f"shapes must broadcast at axis {axis}, got {names}")
        result.append(size)
    return tuple(result)


def broadcast_index(at: Sequence[Any], shape: Sequence[Dim]) -> tuple[Any, ...]:
    """The index into an operand of `shape` that broadcasting reads for output index `at`."""
    if not shape:
        return ()
    return tuple(0 if is_known_equal(size, 1) else i for i, size in zip(at[-len(shape) :], shape, strict=True))


_KINDS = ("bool", "int", "float", "complex")


def kind_of(dtype: str) -> str:
    """`bool`, `int`, `float` or `complex`."""
    if dtype == "bool":
        return "bool"
    if "int" in dtype:
        return "int"
    return "complex" if dtype.startswith("complex") else "float"


def promote(*operands: TensorType) -> str:
    """The common dtype by PyTorch's type promotion: weak scalars < zero-dim tensors < tensors, each only within its kind."""
    import torch

    groups: list[list[Any]] = [[], [], []]
    for operand in operands:
        rank = 0 if operand.weak else 1 if not operand.shape else 2
        groups[rank].append(getattr(torch, operand.dtype))
    joined = [_join_dtypes(group) for group in groups]
    result = joined[2]
    for lower in (joined[1], joined[0]):
        if result is None:
            result = lower
        elif lower is not None and _KINDS.index(kind_of(_name(lower))) > _KINDS.index(kind_of(_name(result))):
            weak = lower is joined[0] and lower is not joined[1]
            result = torch.get_default_dtype() if weak and kind_of(_name(lower)) == "float" else lower
    if result is None:
        raise ShapeError("promotion needs at least one operand")
    return _name(result)


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _join_dtypes(dtypes: list[Any]) -> Any:
    import torch

    result = None
    for dtype in dtypes:
        result = dtype if result is None else torch.promote_types(result, dtype)
    return result


def torch_dtype(name: str) -> Any:
    """The torch dtype of this name."""
    import torch

    return getattr(torch, name)


def canonical_axis(axis: int, rank: int, who: str = "axis") -> int:
    """The axis counted from the end (−1 the last).

    Raises: ShapeError when the axis is outside [−rank, rank).
    """
    span = max(rank, 1)
    if not -span <= axis < span:
        raise ShapeError(f"{who}: axis must be in [{-span}, {span}), got {axis}")
    return axis - span if axis >= 0 else axis


def pair(value: Any) -> tuple[Any, Any]:
    """A torch argument that is one number or two, as two."""
    if isinstance(value, (tuple, list)):
        if len(value) == 1:
            return value[0], value[0]
        return value[0], value[1]
    return value, value


__all__ = [
    "OPERATORS",
    "Alias",
    "Applied",
    "Effect",
    "Operator",
    "ShapeError",
    "TensorType",
    "Unsupported",
    "alias",
    "all_of",
    "any_of",
    "broadcast",
    "broadcast_index",
    "canonical_axis",
    "collecting_obligations",
    "is_known_equal",
    "kind_of",
    "mutates",
    "operator",
    "operator_for",
    "pair",
    "promote",
    "require",
    "torch_aliases",
    "torch_dtype",
    "torch_name",
]
