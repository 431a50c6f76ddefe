"""Verifying many rules: what is asked, where the rules come from, the verdicts as entries of reports."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewright.reports import Entry

if TYPE_CHECKING:
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

    def changed(self, **options: Any) -> Request:
        """The request with these options, where they are given."""
        return replace(self, **{name: value for name, value in options.items() if value is not None})


@dataclass(frozen=True)
class Target:
    """One rule, and the words that load it again in another process: `FILE::RULE`."""

    rule: type[Rule]
    spec: str


def targets_of(specs: Sequence[str]) -> list[Target]:
    """The rules of every `FILE` or `FILE::RULE` in order; the library for none at all.

    Raises: RuleFileError for a file that cannot be used.
    """
    from rewrites.library import library
    from rewrites.load import load_rules

    if not specs:
        return [Target(rule, f"{inspect.getsourcefile(rule)}::{rule.__name__}") for rule in library()]
    found = []
    for spec in specs:
        file, _, name = spec.partition("::")
        for rule in load_rules(spec):
            found.append(Target(rule, spec if "," in name else f"{file}::{rule.__name__}"))
    return found


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


def place_of(rule: type[Rule]) -> tuple[str, int]:
    """The file (as seen from here) and line where a rule is written; no file for one that was made, not written."""
    try:
        file, line = inspect.getsourcefile(rule) or "", inspect.getsourcelines(rule)[1]
    except (OSError, TypeError):
        return "", 1
    here = Path.cwd()
    return (str(Path(file).relative_to(here)) if Path(file).is_relative_to(here) else file), line


def verify_all(targets: Sequence[Target], request: Request, jobs: int = 1) -> Iterator[Entry]:
    """The entries of all targets, in order, as they come.

    Stored verdicts answer at once; every other rule is verified in a process of its own, `jobs` at a time, so that one that never
    ends, eats memory or kills its process is an error of its own and keeps no other from its verdict.
    Raises: StoreError when the store cannot be used.
    """
    from verifier.isolation import verify_file_rules
    from verifier.store import Store

    store = Store() if request.stored else None
    options = {"examples": request.examples, "seed": request.seed}
    kept = {
        position: found for position, target in enumerate(targets) if store is not None and (found := _settled(store, target.rule, options))
    }
    specs = [target.spec for position, target in enumerate(targets) if position not in kept]
    fresh = verify_file_rules(specs, options | {"timeout": request.timeout, "store": str(store.path) if store is not None else None}, jobs)
    for position, target in enumerate(targets):
        yield entry_of(target.rule, kept[position] if position in kept else next(fresh))


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
