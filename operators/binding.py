"""From torch's functions to operators: the table of names, aliases, and which calls write in place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from operators.operator import Operator


class Unsupported(NotImplementedError):
    """A form of a torch call that its operator does not cover; capture keeps the call as an opaque node."""


@dataclass(frozen=True)
class Applied:
    """An operand that is itself computed: output `output` of `operator` on `operands` (which may hold further ones)."""

    operator: Operator
    operands: Sequence[Any]
    output: int = 0


@dataclass(frozen=True)
class Alias:
    """Names in torch for what is written with other operators; `bind` gives the last operator and its operands."""

    torch_names: tuple[str, ...]
    bind: Callable[..., tuple[Operator, Sequence[Any]]]


_BY_TORCH_NAME: dict[str, type[Operator] | Alias] = {}


Binding = TypeVar("Binding", bound="Callable[..., tuple[Operator, Sequence[Any]]]")


def alias(torch: str) -> Callable[[Binding], Binding]:
    """Enter a `bind` function under names of torch that have no operator of their own (`flatten`, `rsub`, …)."""

    def declare(bind: Binding) -> Binding:
        entry = Alias(tuple(torch.split()), guarded(bind))
        for name in entry.torch_names:
            enter(name, entry)
        return bind

    return declare


def guarded(bind: Callable[..., Any]) -> Callable[..., Any]:
    """`bind` that refuses as Unsupported what its signature does not take, and tensors placed on a device other than the CPU.

    (Operators have no device: a graph runs where its inputs are. A call that names another device is kept as it is.)
    """
    signature = inspect.signature(bind)

    @functools.wraps(bind)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise Unsupported(f"arguments that are not covered: {error}") from error
        for argument in (*args, kwargs.get("device")):
            if type(argument).__name__ == "device" and argument.type != "cpu":
                raise Unsupported(f"placing a tensor on {argument} is not covered")
        return bind(*args, **kwargs)

    return checked


def torch_aliases() -> dict[str, Alias]:
    """The aliases by torch name."""
    return {name: entry for name, entry in _BY_TORCH_NAME.items() if isinstance(entry, Alias)}


def enter(name: str, entry: type[Operator] | Alias) -> None:
    if name in _BY_TORCH_NAME:
        raise ValueError(f"operators: torch name {name} is declared twice, by {_BY_TORCH_NAME[name]} and {entry}")
    _BY_TORCH_NAME[name] = entry


def torch_name(function: Any) -> str:
    """The bare name of a torch callable: of a function, a method, a property's getter or an aten overload."""
    packet = getattr(function, "overloadpacket", None)
    name = packet.__name__ if packet is not None else getattr(function, "__name__", "")
    if name == "__get__":
        name = getattr(getattr(function, "__self__", None), "__name__", "")
    return str(name)


def mutates(function: Any) -> bool:
    """The torch callable writes into its first argument (`add_`, `__iadd__`); `operator_for` gives its functional operator."""
    name = torch_name(function)
    return (name.endswith("_") and not name.endswith("__")) or (name.startswith("__i") and name[3:] in _IN_PLACE_DUNDERS)


_IN_PLACE_DUNDERS = ("add__", "sub__", "mul__", "truediv__", "div__", "floordiv__", "mod__", "pow__", "and__", "or__", "xor__", "matmul__")


def operator_for(function: Any) -> type[Operator] | Alias | None:
    """What binds calls of a torch callable (function, method or aten overload), if declared: has `bind(*args, **kwargs)`.

    In-place forms get the functional operator (see `mutates`): right where the caller goes on with the result.
    """
    name = torch_name(function)
    candidates = [name]
    if getattr(function, "__module__", None) == "torch.nn.functional":
        candidates.insert(0, f"functional.{name}")
    if name.startswith("__") and name.endswith("__"):
        candidates += [name.strip("_")]
        if mutates(function):
            candidates += ["__" + name[3:], name[3:].strip("_")]
    elif mutates(function):
        candidates += [name[:-1]]
    return next((_BY_TORCH_NAME[candidate] for candidate in candidates if candidate in _BY_TORCH_NAME), None)
