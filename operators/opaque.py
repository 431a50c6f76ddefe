"""Operators that nobody defined: kept with their identity and attributes, run by torch, and never looked into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from operators.expressions import Dim
from operators.operator import Effect, Operator, TensorType, operator


@dataclass(frozen=True)
class Slot:
    """Where operand number `position` stands among the arguments of an opaque call."""

    position: int

    def __str__(self) -> str:
        return f"${self.position}"

    __repr__ = __str__


@dataclass(frozen=True)
class Word:
    """An argument that is a value of torch (`dtype`, `layout`, `memory_format`, `device`), by name."""

    kind: str
    name: str

    def value(self) -> Any:
        """The torch value."""
        import torch

        return torch.device(self.name) if self.kind == "device" else getattr(torch, self.name)

    def __str__(self) -> str:
        return self.name


@operator()
class Opaque(Operator):
    """A call of torch that no operator stands for, as an uninterpreted function of its operands.

    `target` names the callable (`aten.sort.default`, or a dotted Python name); `arguments` and `named` are the call's
    arguments with a `Slot` for each operand; `results` are the types of its outputs, as torch gave them.
    """

    target: str
    arguments: tuple[Any, ...]
    named: tuple[tuple[str, Any], ...]
    results: tuple[TensorType, ...]
    several: bool = False
    """torch returns a tuple or list, even of one."""

    @property
    def multiple(self) -> bool:  # type: ignore[override]
        return self.several

    @property
    def effects(self) -> Effect:
        return opaque_effects(self.target)

    def outputs(self, *operands: TensorType) -> tuple[TensorType, ...]:
        return self.results

    def flops(self, *operands: TensorType) -> Dim:
        return 0

    def run(self, *tensors: Any) -> Any:
        target, arguments, named = self.call(tensors)
        result = target(*arguments, **named)
        return tuple(result) if self.several else result

    def call(self, operands: Sequence[Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """The callable with its arguments, operands filled in."""
        arguments = tuple(_filled(argument, operands) for argument in self.arguments)
        return find_target(self.target), arguments, {name: _filled(argument, operands) for name, argument in self.named}

    def __str__(self) -> str:
        inside = [str(argument) for argument in self.arguments] + [f"{name}={argument}" for name, argument in self.named]
        return f"Opaque:{self.target}({', '.join(inside)})"


def _filled(argument: Any, operands: Sequence[Any]) -> Any:
    if isinstance(argument, Slot):
        return operands[argument.position]
    if isinstance(argument, Word):
        return argument.value()
    if isinstance(argument, tuple):
        return [_filled(part, operands) for part in argument]
    return argument


def target_name(function: Any) -> str | None:
    """The name under which `find_target` finds the callable again; None when it has none."""
    import torch

    if isinstance(function, torch._ops.OpOverload):
        return f"{function.namespace}.{function._opname}.{function._overloadname}"
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if isinstance(module, str) and isinstance(name, str) and _looked_up(f"python:{module}:{name}") is function:
        return f"python:{module}:{name}"
    return None


def _looked_up(target: str) -> Any:
    import importlib

    _, module, name = target.split(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _is_harmless(target: str) -> bool:
    """A Python function that a file may name: arithmetic on sizes and numbers."""
    _, module, name = target.split(":")
    return module == "math" or (module == "_operator" and name in _ARITHMETIC) or (module == "torch" and name.startswith("sym_"))


_ARITHMETIC = frozenset(["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "abs", "eq", "ne", "lt", "le", "gt", "ge"])


@cache
def find_target(target: str) -> Any:
    """The callable of this name: an operator of `torch.ops`, or one of Python's or torch's own functions.

    Raises: LookupError when nothing of that name is registered (a custom operator whose library is not imported).
    """
    import torch

    if target.startswith("python:"):
        if not _is_harmless(target):
            raise LookupError(f"opaque operator {target}: of Python's own functions only arithmetic is called by name")
        return _looked_up(target)
    namespace, name, overload = target.split(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), name), overload)
    except AttributeError as error:
        raise LookupError(f"opaque operator {target}: not registered; import the library that defines it first") from error


@cache
def opaque_effects(target: str) -> Effect:
    """What torch's schema says of the callable; UNKNOWN outside torch's own operators, and for composite ones.

    A composite operator may draw random numbers, or hand an operand through, without its schema saying so.
    """
    import torch

    if not target.startswith(("aten.", "prims.")):
        return Effect.UNKNOWN
    function = find_target(target)
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(str(function._name), "CompositeImplicitAutograd")
    effects = Effect.UNKNOWN if function._schema.is_mutable or composite else Effect.PURE
    if torch.Tag.nondeterministic_seeded in function.tags:
        effects |= Effect.RANDOM
    if any(result.alias_info is not None for result in function._schema.returns):
        effects |= Effect.ALIASES
    return effects


def word_for(value: Any) -> Word | None:
    """The `Word` of a torch dtype, layout, memory format or device; None for anything else."""
    import torch

    if isinstance(value, torch.device):
        return Word("device", str(value))
    for kind in ("dtype", "layout", "memory_format"):
        if isinstance(value, getattr(torch, kind)):
            return Word(kind, str(value).removeprefix("torch."))
    return None


__all__ = ["Opaque", "Slot", "Word", "find_target", "opaque_effects", "target_name", "word_for"]
