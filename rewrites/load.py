"""Rules from files: Python files with `Rule` classes, pairs or bare functions, and TASO's JSON. A rule file is code and runs as you."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from rewrites.onnx_rules import is_onnx_rule, onnx_rules_of
from rewrites.rule import Rule, misdefined_told_to
from rewrites.signature import RuleDefinitionError
from rewrites.taso import TasoError, load_taso


class RuleFileError(ValueError):
    """A file from which rules cannot be had; the message is one sentence with file, line and what to mend."""


@dataclass(frozen=True)
class Misdefined:
    """What stands in a rule file as a rule and makes none: where, and why in one sentence."""

    name: str
    file: str
    line: int
    sentence: str


def load_rules(spec: str) -> list[type[Rule]]:
    """The rules of `FILE` in the file's order, or those named: `FILE::RULE` or `FILE::RULE,RULE`.

    FILE is a Python file with `Rule` classes, with pairs given to torch.compile's `register_replacement`, with tuples
    `(pattern, replacement, example_inputs)` or rules of onnxscript's rewriter at its top level; or a TASO
    collection (`.json`), whose rules go by `Taso17` or `17`.
    `FILE::PATTERN,REPLACEMENT` takes two functions, the first annotated as a rule's pattern is.
    Raises: RuleFileError with one sentence.
    """
    rules = []
    for found in read_rules(spec):
        if isinstance(found, Misdefined):
            raise RuleFileError(f"{found.file}:{found.line}: {found.name}: {found.sentence}")
        rules.append(found)
    return rules


def read_rules(spec: str) -> list[type[Rule] | Misdefined]:
    """As `load_rules`, with what is misdefined among the rules instead of raised.

    Raises: RuleFileError with one sentence, where the file as a whole cannot be used.
    """
    file, separator, name = spec.partition("::")
    path = Path(file)
    if not path.is_file():
        raise RuleFileError(f"{file}: no such file" if not path.exists() else f"{file}: is not a file")
    if path.suffix == ".json":
        try:
            rules = load_taso(path)
        except TasoError as error:
            raise RuleFileError(str(error)) from error
        numbered = {rule.__name__.removeprefix("Taso"): rule for rule in rules}
        return [*rules] if not separator else [_named(file, part.strip().removeprefix("Taso"), numbered) for part in name.split(",")]
    if path.suffix != ".py":
        raise RuleFileError(f"{file}: rules are read from .py and .json files")
    source = _run(path)
    names = [part.strip() for part in name.split(",")]
    if len(names) > 1 and not all(_is_rule(found) or is_onnx_rule(found) for found in map(vars(source.module).get, names)):
        return [_from_functions(file, name, source.module)]
    found = _rules_of(file, source)
    if not separator:
        if not found:
            raise RuleFileError(f"{file}: holds no class derived from rewrites.Rule and no pair of functions")
        return found
    imported = {key: value for key, value in vars(source.module).items() if _is_rule(value)}
    known = imported | {one.name if isinstance(one, Misdefined) else one.__name__: one for one in found}
    return [_named(file, part, known) for part in names]


def _is_rule(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Rule) and value is not Rule


Found = TypeVar("Found")


def _named(file: str, name: str, rules: dict[str, Found]) -> Found:
    if name not in rules:
        known = ", ".join(list(rules)[:8]) + (", …" if len(rules) > 8 else "")
        raise RuleFileError(f"{file}: has no rule {name}" + (f"; it has {known}" if rules else ""))
    return rules[name]


def _said(name: str, error: RuleDefinitionError) -> str:
    return str(error).removeprefix(f"{name}: ")


@dataclass(frozen=True)
class _Source:
    """A file that has run: its module, what it gave to `register_replacement`, and its classes that make no rule."""

    module: ModuleType
    registered: list[tuple[Any, ...]]
    misdefined: dict[type[Rule], Misdefined]


def _run(path: Path) -> _Source:
    """The file, run.

    Raises: RuleFileError naming the line at which it does not parse or raises.
    """
    resolved = path.resolve()
    name = f"rules_{path.stem}_{hashlib.sha256(str(resolved).encode()).hexdigest()[:8]}"
    specification = importlib.util.spec_from_file_location(name, resolved)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    misdefined: dict[type[Rule], Misdefined] = {}

    def note(rule: type[Rule], error: RuleDefinitionError) -> None:
        if rule.__module__ != name:
            raise error
        misdefined[rule] = Misdefined(rule.__name__, str(path), _line(traceback.extract_stack(), path), _said(rule.__name__, error))

    sys.modules[name] = module
    folder = str(resolved.parent)
    added = folder not in sys.path
    if added:
        sys.path.append(folder)
    try:
        text = resolved.read_text()
        with _recording(text) as registered, misdefined_told_to(note):
            exec(compile(text, str(path), "exec"), module.__dict__)
    except SyntaxError as error:
        where = error.filename or str(path)
        raise RuleFileError(f"{where}:{error.lineno}: does not parse: {error.msg}") from error
    except RuleDefinitionError as error:
        raise RuleFileError(f"{path}:{_line(traceback.extract_tb(error.__traceback__), path)}: {error}") from error
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        said = " ".join(str(error).split())
        line = _line(traceback.extract_tb(error.__traceback__), path)
        raise RuleFileError(f"{path}:{line}: raised {type(error).__name__}{': ' + said if said else ''}") from error
    finally:
        if added:
            sys.path.remove(folder)
    return _Source(module, registered, misdefined)


def _line(frames: traceback.StackSummary, path: Path) -> int:
    """The innermost line of the file among the frames."""
    lines = [frame.lineno or 0 for frame in frames if frame.filename == str(path)]
    return lines[-1] if lines else 1


@contextmanager
def _recording(source: str) -> Iterator[list[tuple[Any, ...]]]:
    """Record calls of torch.compile's `register_replacement` instead of making them, where the source speaks of it."""
    calls: list[tuple[Any, ...]] = []
    if "register_replacement" not in source:
        yield calls
        return
    from torch._inductor import pattern_matcher

    def record(search_fn: Any, replace_fn: Any, example_inputs: Any, *rest: Any, **named: Any) -> bool:
        calls.append((search_fn, replace_fn, tuple(example_inputs)))
        return True

    before = pattern_matcher.register_replacement
    pattern_matcher.register_replacement = record
    try:
        yield calls
    finally:
        pattern_matcher.register_replacement = before


def _rules_of(file: str, source: _Source) -> list[type[Rule] | Misdefined]:
    found: list[type[Rule] | Misdefined] = []
    pairs: list[tuple[str | None, tuple[Any, ...]]] = []
    for name, value in vars(source.module).items():
        if _is_rule(value) and value.__module__ == source.module.__name__:
            found.append(source.misdefined.get(value, value))
        elif _is_pair(value):
            pairs.append((name, value))
        elif isinstance(value, list) and value and all(map(_is_pair, value)):
            pairs += [(None, pair) for pair in value]
    found += [rule for _, rule in onnx_rules_of(vars(source.module))]
    pairs += [(None, pair) for pair in source.registered]
    unnamed = [pair[0].__name__ for name, pair in pairs if name is None and hasattr(pair[0], "__name__")]
    for position, (given, pair) in enumerate(pairs):
        own = getattr(pair[0], "__name__", "<lambda>")
        numbered = f"Pair{position + 1}" if own == "<lambda>" or unnamed.count(own) > 1 else None
        found.append(_from_pair(file, given or numbered, *pair))
    return list(dict.fromkeys(found))


def _is_pair(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 3:
        return False
    return callable(value[0]) and callable(value[1]) and isinstance(value[2], (tuple, list))


def _from_pair(
    file: str, name: str | None, pattern: Callable[..., Any], replacement: Callable[..., Any], examples: Any
) -> type[Rule] | Misdefined:
    from rewrites.pairs import rule_from_pair

    try:
        return rule_from_pair(pattern, replacement, examples, name)
    except RuleDefinitionError as error:
        own = name or str(getattr(pattern, "__name__", "Pair"))
        return Misdefined(own, file, getattr(getattr(pattern, "__code__", None), "co_firstlineno", 1), _said(own, error))


def _from_functions(file: str, names: str, module: ModuleType) -> type[Rule]:
    parts = [part.strip() for part in names.split(",")]
    if len(parts) != 2:
        raise RuleFileError(f"{file}: two functions are needed, as {file}::PATTERN,REPLACEMENT, got {names}")
    for part in parts:
        if not callable(getattr(module, part, None)):
            raise RuleFileError(f"{file}: has no function {part}")
        if _is_rule(getattr(module, part)):
            raise RuleFileError(f"{file}: {names} must be two functions or rules alone, got the rule {part}")
    pattern, replacement = (getattr(module, part) for part in parts)
    body = {
        "__doc__": f"What {parts[0]} computes, {parts[1]} computes.",
        "__module__": module.__name__,
        "source": f"{file}, given as two functions",
        "pattern": staticmethod(pattern),
        "replacement": staticmethod(replacement),
    }
    try:
        return type(parts[0], (Rule,), body)
    except RuleDefinitionError as error:
        raise RuleFileError(f"{file}: {error}") from error


__all__ = ["Misdefined", "RuleFileError", "load_rules", "read_rules"]
