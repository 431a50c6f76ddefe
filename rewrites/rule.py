"""What a rule is: two plain PyTorch functions with the same signature, conditions, and how equal the two are."""

from __future__ import annotations

import dis
import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from types import CodeType
from typing import Any, ClassVar, TypeVar, cast

from rewrites.signature import RuleDefinitionError, Signature


class Change(Enum):
    """What a rule that holds over the reals may change in floating point, besides rounding."""

    SIGNED_ZERO = "signed zero"
    NAN_INF = "NaN/inf"
    OVERFLOW = "overflow range"


@dataclass(frozen=True)
class Equality:
    """How equal both sides are: bit for bit, or over the reals with rounding and the named changes."""

    bitwise: bool
    changes: frozenset[Change] = frozenset()

    REAL: ClassVar[Equality]
    BITWISE: ClassVar[Equality]

    def allowing(self, *changes: Change) -> Equality:
        """The same equality, with further changes declared."""
        return Equality(self.bitwise, self.changes | set(changes))

    def __str__(self) -> str:
        if self.bitwise and not self.changes:
            return "bitwise"
        names = sorted(change.value for change in self.changes)
        return ", ".join((["bitwise but for"] if self.bitwise else ["real"]) + names)


Equality.REAL = Equality(bitwise=False)
Equality.BITWISE = Equality(bitwise=True)


@dataclass(frozen=True)
class Requires:
    """A condition of a rule: one sentence, and one predicate over the rule's dims, attributes or tensors.

    The predicate's parameters name what it speaks of: dims and integer attributes (then it is a statement about sizes), or
    real attributes and tensors (then it must hold for every element).
    """

    sentence: str
    predicate: Callable[..., Any]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.predicate).parameters)


class Rule:
    """A rewrite rule: subclasses state a law in their docstring and give `source`, `pattern` and `replacement`.

    Raises (when the subclass is defined): RuleDefinitionError with one sentence.
    """

    source: ClassVar[str] = ""
    equality: ClassVar[Equality] = Equality.REAL
    requires: ClassVar[Sequence[Requires]] = ()
    trainable: ClassVar[bool] = False
    """Both sides have the same gradients, so the rule may be used in training."""
    bidirectional: ClassVar[bool] = False
    """The search may use the rule from right to left as well."""
    pattern: ClassVar[Callable[..., Any]]
    replacement: ClassVar[Callable[..., Any]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for side in ("pattern", "replacement"):
            function = cls.__dict__.get(side)
            if callable(function) and not isinstance(function, staticmethod):
                setattr(cls, side, staticmethod(function))
        _check(cls)

    @classmethod
    def statement(cls) -> str:
        """The law in one sentence: the first paragraph of the docstring."""
        return " ".join(inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].split())

    @classmethod
    def signature(cls) -> Signature:
        """The rule's variables."""
        return _signature(cls)

    @classmethod
    def content(cls) -> str:
        """A hash of everything that decides the verdict: both functions, signature, conditions, equality."""
        pieces = [str(cls.signature()), str(cls.equality), str(cls.trainable), _code(cls.pattern), _code(cls.replacement)]
        pieces += [condition.sentence + _code(condition.predicate) for condition in cls.requires]
        return hashlib.sha256("\n".join(pieces).encode()).hexdigest()


Function = TypeVar("Function", bound=Callable[..., Any])


def remembered(function: Function) -> Function:
    """`functools.cache` for functions of rules, with the function's own type."""
    return cast(Function, cache(function))


@remembered
def _signature(rule: type[Rule]) -> Signature:
    return Signature.of(rule.__name__, rule.pattern)


def _code(function: Callable[..., Any]) -> str:
    """Everything a function computes from: byte code, constants, names, closures, defaults and the globals it calls."""
    seen: set[int] = set()

    def describe(value: Any) -> str:
        if isinstance(value, CodeType):
            inner = [describe(constant) for constant in value.co_consts]
            return f"{value.co_code.hex()}{value.co_names}{value.co_varnames}{inner}"
        code = getattr(value, "__code__", None)
        if code is None or id(value) in seen:
            return (
                repr(value)
                if isinstance(value, (int, float, str, bool, tuple, type(None)))
                else getattr(value, "__qualname__", str(type(value)))
            )
        seen.add(id(value))
        cells = [describe(cell.cell_contents) for cell in value.__closure__ or ()]
        used = [f"{name}={describe(value.__globals__[name])}" for name in code.co_names if name in value.__globals__]
        return f"{describe(code)}{cells}{value.__defaults__}{used}"

    return describe(function)


def _loads(code: CodeType) -> set[str]:
    names = {str(i.argval) for i in dis.get_instructions(code) if i.opname in ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _loads(constant)
    return names


def _check(rule: type[Rule]) -> None:
    name = rule.__name__
    if not (rule.__dict__.get("__doc__") or "").strip():
        raise RuleDefinitionError(f"{name}: a rule needs a docstring that states its law in one sentence")
    if not rule.source:
        raise RuleDefinitionError(f"{name}: a rule needs a `source` (a paper and section, a specification, or who derived it)")
    for side in ("pattern", "replacement"):
        if not callable(getattr(rule, side, None)):
            raise RuleDefinitionError(f"{name}: a rule needs a function named {side}")
    left = tuple(inspect.signature(rule.pattern).parameters)
    right = tuple(inspect.signature(rule.replacement).parameters)
    if left != right:
        raise RuleDefinitionError(
            f"{name}: pattern and replacement must have the same parameters, got ({', '.join(left)}) and ({', '.join(right)})"
        )
    signature = rule.signature()
    code = getattr(rule.replacement, "__code__", None), getattr(rule.pattern, "__code__", None)
    if code[0] is not None and code[1] is not None:
        unbound = [v for v in left if v in _loads(code[0]) and v not in _loads(code[1])]
        if unbound:
            raise RuleDefinitionError(f"{name}: the replacement uses {', '.join(unbound)}, which the pattern does not bind")
    known = set(signature.names) | set(signature.symbols)
    for condition in rule.requires:
        for unknown in [n for n in condition.names if n not in known]:
            raise RuleDefinitionError(
                f'{name}: the condition "{condition.sentence}" speaks of {unknown}, which is neither a dim nor a parameter'
            )
