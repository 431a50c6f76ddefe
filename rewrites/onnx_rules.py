"""Rules of onnxscript's rewriter (`RewriteRule`, `RewriteRuleSet`, `RewriteRuleClassBase`) under the names of a file.

Their pattern is a graph of ONNX operators, their check and rewrite Python over one model: they are applied by onnxscript itself, and are
no rules that rewright's own matcher could use.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from types import CodeType
from typing import Any, ClassVar

from rewrites.rule import Rule
from rewrites.signature import Signature


class OnnxRule(Rule):
    """A rule, or a set of rules, of onnxscript's rewriter."""

    source = "a rule of onnxscript's rewriter"
    given: ClassVar[Any] = None
    """The `RewriteRule` or `RewriteRuleSet` itself."""

    def __init_subclass__(cls, **options: Any) -> None:
        # What a rule of ours must have, such a rule has not: its pattern is no function of tensors.
        object.__init_subclass__(**options)

    @classmethod
    def signature(cls) -> Signature:
        """No variables: what the pattern's operands are is drawn for each model."""
        return Signature()

    @classmethod
    def content(cls) -> str:
        """A hash of the source of pattern, check and rewrite (their classes' included), and of onnxscript's version."""
        pieces = [_version()]
        for rule in parts_of(cls):
            functions = (rule._condition_function, rule._replacement_pattern._function)
            # Unnamed values are printed with their addresses, which change from run to run.
            pieces += [re.sub(r"anonymous:\d+", "anonymous", str(rule._target_pattern)), *map(_text, functions)]
            owner = getattr(functions[1], "__self__", None)
            pieces += [_text(kind) for kind in type(owner).__mro__ if owner is not None and kind.__module__ != "builtins"]
        return hashlib.sha256("\n".join(pieces).encode()).hexdigest()

    @classmethod
    def apply_to(cls, model: Any) -> int:
        """Apply the rule to an onnx_ir model, in place; how often it fired."""
        return int(cls.given.apply_to_model(model))

    @staticmethod
    def pattern() -> None:
        """The pattern is a graph of ONNX operators, in `given`."""

    @staticmethod
    def replacement() -> None:
        """As `pattern`."""


def _version() -> str:
    try:
        return version("onnxscript")
    except PackageNotFoundError:
        return ""


def _text(item: Any) -> str:
    """The source of a function or class; where there is none at hand, its name and code."""
    try:
        return inspect.getsource(item)
    except (OSError, TypeError):
        code = getattr(item, "__code__", None)
        return f"{type(item).__name__}" if code is None else f"{item.__qualname__}{_code(code)}"


def _code(code: CodeType) -> str:
    constants = [_code(constant) if isinstance(constant, CodeType) else repr(constant) for constant in code.co_consts]
    return f"{code.co_code.hex()}{constants}{code.co_names}"


def parts_of(rule: type[OnnxRule]) -> list[Any]:
    """The single rules of which it consists."""
    given = rule.given
    return list(given.rules) if hasattr(given, "rules") else [given]


def is_onnx_rule(value: Any) -> bool:
    """The value is a rule, or a set of them, of onnxscript's rewriter."""
    names = {f"{kind.__module__}.{kind.__name__}" for kind in type(value).__mro__}
    return any(name.startswith("onnxscript.rewriter") and name.endswith((".RewriteRule", ".RewriteRuleSet")) for name in names)


def onnx_rules_of(values: dict[str, Any]) -> Iterator[tuple[str, type[OnnxRule]]]:
    """The rules among named values, in order."""
    for name, value in values.items():
        if is_onnx_rule(value):
            yield name, onnx_rule(name, value)


def onnx_rule(name: str, value: Any) -> type[OnnxRule]:
    """The rule under this name."""
    owner = getattr(getattr(getattr(value, "_replacement_pattern", None), "_function", None), "__self__", None)
    words = inspect.getdoc(type(owner)) if owner is not None else None
    statement = (words or f"What {name} matches computes the same after it.").strip()
    return type(name, (OnnxRule,), {"__doc__": statement, "given": value, "__module__": __name__})


__all__ = ["OnnxRule", "is_onnx_rule", "onnx_rule", "onnx_rules_of", "parts_of"]
