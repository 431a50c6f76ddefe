"""What a rule is: two plain PyTorch functions with the same signature, conditions, and how equal the two are."""

from __future__ import annotations

import dis
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property, partial
from types import CodeType, FunctionType, ModuleType
from typing import Any, ClassVar, TypeVar, cast

from rewrites.signature import RealVariable, RuleDefinitionError, Signature, TensorVariable


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
    requires_reversed: ClassVar[Sequence[Requires]] = ()
    """Conditions needed besides from right to left: from left to right, the pattern's own operators refuse what breaks them."""
    settles: ClassVar[bool] = False
    """From left to right the rule never makes a graph worse, on any device: it is applied wherever it matches, before any search."""
    tried: ClassVar[bool] = False
    """The rule pays in some runtimes only: where whole models are measured, the model with the rule applied throughout is one of them."""
    pattern: ClassVar[Callable[..., Any]]
    replacement: ClassVar[Callable[..., Any]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for side in ("pattern", "replacement"):
            function = cls.__dict__.get(side)
            if callable(function) and not isinstance(function, staticmethod):
                setattr(cls, side, staticmethod(function))
        try:
            _check(cls)
        except RuleDefinitionError as error:
            note = _note.get()
            if note is None:
                raise
            note(cls, error)

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
        pieces = [str(cls.signature()), str(cls.equality), str(cls.trainable), code_of(cls.pattern), code_of(cls.replacement)]
        pieces += [condition.sentence + code_of(condition.predicate) for condition in (*cls.requires, *cls.requires_reversed)]
        pieces += ["bidirectional"] * cls.bidirectional
        return hashlib.sha256("\n".join(pieces).encode()).hexdigest()


_note: ContextVar[Callable[[type[Rule], RuleDefinitionError], None] | None] = ContextVar("note", default=None)


@contextmanager
def misdefined_told_to(note: Callable[[type[Rule], RuleDefinitionError], None]) -> Iterator[None]:
    """In the block, a subclass that makes no rule is told to `note` instead of raising, so that what follows it is still defined."""
    before = _note.set(note)
    try:
        yield
    finally:
        _note.reset(before)


Function = TypeVar("Function", bound=Callable[..., Any])


def remembered(function: Function) -> Function:
    """`functools.cache` for functions of rules, with the function's own type."""
    return cast(Function, cache(function))


@remembered
def _signature(rule: type[Rule]) -> Signature:
    return Signature.of(rule.__name__, rule.pattern)


def code_of(function: Callable[..., Any]) -> str:
    """Everything a function computes from: byte code, constants, closures, defaults, and the globals and helpers it uses."""
    seen: set[int] = set()

    def describe(value: Any) -> str:
        if isinstance(value, CodeType):
            return f"{value.co_code.hex()}{value.co_names}{value.co_varnames}{[describe(constant) for constant in value.co_consts]}"
        if isinstance(value, (tuple, list)):
            return f"{type(value).__name__}{[describe(part) for part in value]}"
        if isinstance(value, (set, frozenset)):
            return f"{type(value).__name__}{sorted(describe(part) for part in value)}"
        if isinstance(value, Mapping):
            return f"{type(value).__name__}{[(describe(key), describe(part)) for key, part in value.items()]}"
        if isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
            return repr(value)
        if isinstance(value, partial):
            return f"partial{describe(value.func)}{describe(value.args)}{describe(value.keywords)}"
        if isinstance(getattr(value, "__code__", None), CodeType):
            return describe_function(value)
        if hasattr(value, "tolist") and not isinstance(value, type):
            return f"{type(value).__name__}{value.dtype}{value.tolist()}"
        return f"{type(value).__module__}.{getattr(value, '__qualname__', None) or type(value).__qualname__}{_torch_constant(value)}"

    def describe_function(value: Any) -> str:
        if id(value) in seen or _is_library(value.__module__):
            return f"{value.__module__}.{value.__qualname__}"
        seen.add(id(value))
        cells = [describe(cell.cell_contents) for cell in value.__closure__ or ()]
        names = _names(value.__code__)
        used = {name: value.__globals__[name] for name in names if name in value.__globals__}
        for module in [part for part in used.values() if isinstance(part, ModuleType) and not _is_library(part.__name__)]:
            used |= {f"{module.__name__}.{name}": vars(module)[name] for name in names if name in vars(module)}
        return describe((value.__code__, cells, value.__defaults__, value.__kwdefaults__, list(used.items())))

    return describe(function)


def _torch_constant(value: Any) -> str:
    return repr(value) if type(value).__module__ == "torch" else ""


def _is_library(module: str | None) -> bool:
    """The module is PyTorch's or the standard library's: certificates name their versions instead."""
    return (module or "").partition(".")[0] in {"torch", *sys.stdlib_module_names}


def _names(code: CodeType) -> list[str]:
    """The names of globals and attributes that the code uses, functions inside it included."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= dict.fromkeys(_names(constant))
    return list(names)


_LOADS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "STORE_FAST_LOAD_FAST")
"""Instructions that read a local variable, whatever Python's version joins them with."""


def _loads(code: CodeType) -> set[str]:
    loads = [i.argval for i in dis.get_instructions(code) if i.opname.startswith(_LOADS)]
    names = {str(name) for value in loads for name in (value if isinstance(value, tuple) else (value,))}
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
    codes = [side.__code__ for side in (rule.pattern, rule.replacement) if isinstance(side, FunctionType)]
    if len(codes) == 2 and all(code.co_varnames[: code.co_argcount] == left for code in codes):
        read_anew = _loads(codes[1]) - _loads(codes[0])
        unbound = [name for name in left if name in read_anew]
        if unbound:
            raise RuleDefinitionError(f"{name}: the replacement uses {', '.join(unbound)}, which the pattern does not bind")
    if rule.requires_reversed and not rule.bidirectional:
        raise RuleDefinitionError(f"{name}: requires_reversed is for rules with bidirectional = True")
    conditions = [*rule.requires, *rule.requires_reversed]
    for stated in conditions:
        if not isinstance(stated, Requires):
            raise RuleDefinitionError(f'{name}: requires must hold Requires("a sentence", lambda …: …), got {stated!r}')
    known = set(signature.names) | set(signature.symbols)
    valued = {variable.name for variable in signature.variables if isinstance(variable, (TensorVariable, RealVariable))}
    for condition in conditions:
        for unknown in [n for n in condition.names if n not in known]:
            raise RuleDefinitionError(
                f'{name}: the condition "{condition.sentence}" speaks of {unknown}, which is neither a dim nor a parameter'
            )
        for unclear in [n for n in condition.names if n in signature.symbols and n in valued]:
            raise RuleDefinitionError(
                f'{name}: the condition "{condition.sentence}" speaks of {unclear}, which is both a dim and a parameter'
            )
