"""Verifying many rules: what is asked, where the rules come from, the verdicts as entries of reports."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from rewright.reports import Entry

if TYPE_CHECKING:
    from rewrites.load import Misdefined
    from rewrites.rule import Rule
    from verifier.store import Store
    from verifier.verdict import Verdict


@dataclass(frozen=True)
class Request:
    """How to verify: how many examples, how many seconds at most, from which seed, and whether stored verdicts count."""

    examples: int = 100
    timeout: float = 60.0
    seed: int = 0
    stored: bool = True
    suggest: bool = False
    """For a refuted rule, look for the condition that it lacks."""

    def changed(self, **options: Any) -> Request:
        """The request with these options, where they are given."""
        return replace(self, **{name: value for name, value in options.items() if value is not None})


@dataclass(frozen=True)
class Target:
    """One rule, and the words that load it again in another process: `FILE::RULE`."""

    rule: type[Rule] | Misdefined
    spec: str


def targets_of(specs: Sequence[str]) -> list[Target]:
    """The rules of every `FILE` or `FILE::RULE` in order; the library for none at all.

    Raises: RuleFileError for a file that cannot be used.
    """
    from rewrites.library import library
    from rewrites.load import Misdefined, read_rules

    if not specs:
        return [Target(rule, f"{inspect.getsourcefile(rule)}::{rule.__name__}") for rule in library()]
    found = []
    for spec in specs:
        file, _, name = spec.partition("::")
        rules = read_rules(spec)
        pair = "," in name and len(rules) == 1
        names = [rule.name if isinstance(rule, Misdefined) else rule.__name__ for rule in rules]
        found += [Target(rule, spec if pair else f"{file}::{own}") for own, rule in zip(names, rules, strict=True)]
    return found


def certificate_of(rule: type[Rule], request: Request) -> Verdict:
    """The verdict under which an optimisation uses the rule, or does not: a stored one of whatever status, or a fresh one.

    Raises: StoreError when the store cannot be used.
    """
    from verifier.store import Store

    store = Store()
    found = store.certificate(rule) or store.find(rule, {"examples": request.examples, "seed": request.seed})
    return found or verdict_of(rule, request)


def verdict_of(rule: type[Rule], request: Request) -> Verdict:
    """The stored verdict of exactly this content, or a fresh one, which is then stored.

    Raises: StoreError when the store cannot be used.
    """
    from verifier.store import Store
    from verifier.verify import verify

    store = Store() if request.stored else None
    return verify(rule, examples=request.examples, timeout=request.timeout, seed=request.seed, store=store)


def entry_of(rule: type[Rule], verdict: Verdict) -> Entry:
    """A verdict as reports need it."""
    return Entry(verdict.to_json(), str(verdict), *place_of(rule))


def entry_of_misdefined(found: Misdefined) -> Entry:
    """What stands as a rule and makes none is an error of its own: it keeps no other rule from its verdict."""
    from verifier.verdict import Status, Verdict

    file = _seen_from_here(found.file)
    verdict = Verdict(found.name, Status.ERROR, f"{found.sentence} ({file}, line {found.line})")
    return Entry(verdict.to_json(), str(verdict), file, found.line)


def place_of(rule: type[Rule]) -> tuple[str, int]:
    """The file (as seen from here) and line where a rule is written; no file for one that was made, not written."""
    file = getattr(sys.modules.get(rule.__module__), "__file__", None)
    if file is None or not Path(file).is_file():
        return "", 1
    return _seen_from_here(file), _lines_of(file).get(rule.__name__, 1)


def _seen_from_here(file: str) -> str:
    here, path = Path.cwd(), Path(file)
    return str(path.relative_to(here)) if path.is_relative_to(here) else file


@cache
def _lines_of(file: str) -> dict[str, int]:
    """The line of every class and function of a file, read off its compiled code: its syntax tree takes four times as long."""
    codes = [compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)]
    lines: dict[str, int] = {}
    while codes:
        within = [constant for constant in codes.pop().co_consts if isinstance(constant, CodeType)]
        lines = {code.co_name: code.co_firstlineno for code in within} | lines
        codes += within
    return lines


def verify_all(targets: Sequence[Target], request: Request, jobs: int = 1, executor: Executor | None = None) -> Iterator[Entry]:
    """The entries of all targets, in order, as they come.

    Stored verdicts answer at once; every other rule is verified in a process of its own, `jobs` at a time, so that one that never
    ends, eats memory or kills its process is an error of its own and keeps no other from its verdict. An `executor`, such as a
    cluster's, takes the place of the jobs: it reads the rule files under the same paths, and its verdicts are stored here.
    Raises: StoreError when the store cannot be used.
    """
    from rewrites.load import Misdefined
    from verifier.isolation import verify_file_rules
    from verifier.store import Store

    store = Store() if request.stored else None
    options = {"examples": request.examples, "seed": request.seed}
    kept: dict[int, Verdict] = {}
    specs = []
    for position, target in enumerate(targets):
        if isinstance(target.rule, Misdefined):
            continue
        if store is not None and (found := _settled(store, target.rule, options)):
            kept[position] = found
        else:
            specs.append(target.spec)
    path = str(store.path) if store is not None and executor is None else None
    fresh = verify_file_rules(specs, options | {"timeout": request.timeout, "store": path}, jobs, executor)
    for position, target in enumerate(targets):
        if isinstance(target.rule, Misdefined):
            yield entry_of_misdefined(target.rule)
            continue
        verdict = kept[position] if position in kept else next(fresh)
        if executor is not None and store is not None and position not in kept and verdict.status.value != "ERROR":
            store.keep(target.rule, verdict, options)
        entry = entry_of(target.rule, verdict)
        yield with_suggestion(entry, target, request) if request.suggest else entry


REAL_KINDS = frozenset({"error", "shape", "value"})
"""What a condition on sizes, attributes or elements can mend; rounding and effects are for the rule to declare."""
SUGGESTION_SECONDS = 20.0


def with_suggestion(entry: Entry, target: Target, request: Request) -> Entry:
    """The entry of a refuted rule with the condition under which it is proved, where one is found in time."""
    from verifier.isolation import IsolationError, isolated

    found = entry.verdict["counterexample"]
    if entry.status != "REFUTED" or found is None or found["kind"] not in REAL_KINDS:
        return entry
    seconds = min(request.timeout, SUGGESTION_SECONDS)
    try:
        words = isolated(_suggestion, target.spec, seconds, seconds=seconds + 2.0)
    except IsolationError:
        # The rule has its verdict; that no condition was found in time takes nothing from it.
        return entry
    if not words:
        return entry
    head, _, rest = entry.text.partition("\n")
    return replace(entry, verdict=entry.verdict | {"suggestion": words}, text=f"{head}\n  {words}\n{rest}")


def _suggestion(spec: str, seconds: float) -> str:
    from rewrites.load import load_rules
    from verifier.suggest import suggest

    (rule,) = load_rules(spec)
    return str(suggest(rule, seconds) or "")


def _settled(store: Store, rule: type[Rule], options: Mapping[str, Any]) -> Verdict | None:
    """The stored verdict, unless it is one that more time might settle."""
    found = store.find(rule, options)
    return None if found is None or found.status.value == "UNDECIDED" else found


def verify_pair(
    pattern: Callable[..., Any], replacement: Callable[..., Any], example_inputs: Sequence[Any], name: str | None = None, **options: Any
) -> Verdict:
    """Prove or refute that two functions compute the same, as given to torch.compile's pattern matcher.

    The sizes of the example tensors are generalised to all sizes; numbers and booleans to attributes. `options` are those of `verify`.
    Raises: RuleDefinitionError for functions that make no rule.
    """
    from rewrites.pairs import rule_from_pair
    from verifier.verify import verify

    return verify(rule_from_pair(pattern, replacement, example_inputs, name), **options)
