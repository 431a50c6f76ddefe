"""What the Python functions of a rule reach: other functions, names, and objects that may change from call to call."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, GeneratorType, ModuleType
from typing import Any

from rewrites.rule import Rule

_CHANGING_MODULES = frozenset({"random", "time", "datetime", "secrets", "uuid", "os", "sys", "inspect", "gc", "threading"})
"""Modules whose functions answer otherwise from call to call, or by who calls."""
_MOST = 400
"""Objects that are looked at, at most."""


def functions_of(rule: type[Rule]) -> tuple[FunctionType, ...]:
    """The rule's two functions, its predicates, and every function of the user's that they reach."""
    found: dict[int, FunctionType] = {}
    pending: list[Any] = [rule.pattern, rule.replacement, *(condition.predicate for condition in rule.requires)]
    while pending and len(found) < _MOST:
        value = pending.pop()
        if isinstance(value, partial):
            pending += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, FunctionType) and id(value) not in found and not _is_library(value.__module__):
            found[id(value)] = value
            pending += [content for _, content in _around(value)]
        elif isinstance(getattr(value, "__func__", None), FunctionType):
            pending.append(value.__func__)
    return tuple(found.values())


def reads_rank(rule: type[Rule]) -> bool:
    """A function of the rule may ask how many axes a tensor has."""
    return any({"ndim", "dim", "len", "ndimension"} & set(_names(function.__code__)) for function in functions_of(rule))


def changing(rule: type[Rule]) -> str | None:
    """What a function of the rule writes or reads that may change from call to call; None where nothing is found."""
    for function in functions_of(rule):
        for code in _codes(function.__code__):
            outer = set(function.__code__.co_freevars) if code is function.__code__ else set()
            for instruction in dis.get_instructions(code):
                word = instruction.opname
                if word.startswith(("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR")):
                    return f"{function.__qualname__} writes {instruction.argval}"
                if word.startswith("STORE_DEREF") and instruction.argval in outer:
                    return f"{function.__qualname__} writes {instruction.argval}"
        for name, value in _around(function):
            module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if isinstance(module, str) and module.partition(".")[0] in _CHANGING_MODULES:
                return f"{function.__qualname__} uses {name}"
            if isinstance(value, GeneratorType) or (hasattr(value, "__next__") and not isinstance(value, type)):
                return f"{function.__qualname__} uses {name}, which gives something else each time"
    return None


def snapshot(rule: type[Rule]) -> str:
    """Everything that the rule's functions reach and that can change, as text: another text later says that a call changed it."""
    seen: set[int] = set()

    def describe(value: Any) -> str:
        if isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
            return repr(value)
        if id(value) in seen or len(seen) > _MOST:
            return "…"
        if isinstance(value, (list, tuple, set, frozenset)):
            seen.add(id(value))
            parts = [describe(part) for part in value]
            return f"{type(value).__name__}{sorted(parts) if isinstance(value, (set, frozenset)) else parts}"
        if isinstance(value, Mapping):
            seen.add(id(value))
            return f"{type(value).__name__}{[(describe(key), describe(part)) for key, part in value.items()]}"
        if hasattr(value, "tolist") and hasattr(value, "dtype") and not isinstance(value, type):
            return str(value.tolist())
        owner = value.__module__ if isinstance(getattr(value, "__module__", None), str) else type(value).__module__
        if _is_library(owner) or isinstance(value, (ModuleType, CodeType)):
            return type(value).__name__
        seen.add(id(value))
        return f"{type(value).__name__}{[(name, describe(part)) for name, part in list(getattr(value, '__dict__', {}).items())]}"

    return "\n".join(
        f"{name} = {describe(value)}" for function in functions_of(rule) for name, value in [("", function), *_around(function)]
    )


def _around(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function reads besides its arguments: closure, defaults, globals, attributes of the user's modules."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the cell is not filled yet
            continue
    yield from (("a default", value) for value in function.__defaults__ or ())
    yield from (function.__kwdefaults__ or {}).items()
    names = _names(function.__code__)
    for name in names:
        if name in function.__globals__:
            value = function.__globals__[name]
            yield name, value
            if isinstance(value, ModuleType) and not _is_library(value.__name__):
                yield from ((f"{name}.{inner}", vars(value)[inner]) for inner in names if inner in vars(value))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _names(code: CodeType) -> list[str]:
    return list(dict.fromkeys(name for part in _codes(code) for name in part.co_names))


def _is_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in {"torch", *sys.stdlib_module_names}


__all__ = ["changing", "functions_of", "reads_rank", "snapshot"]
