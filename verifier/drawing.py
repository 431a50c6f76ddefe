"""Which cases of a rule are tested: those of the proof, further ways to broadcast, and more dims than are proved."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from operators.expressions import Dim, symbol
from rewrites.cases import Case, cases, size_facts
from rewrites.code import functions_of, reads_rank
from rewrites.rule import Rule


def drawn_cases(rule: type[Rule]) -> Iterator[Case]:
    """The proof's cases, and further ways to broadcast."""
    seen = set()
    for case in [*cases(rule, ranks=(1, 2, 0)), *_broadcasts(rule), *_of_many_dims(rule)]:
        if case not in seen:
            seen.add(case)
            yield case


def _of_many_dims(rule: type[Rule]) -> Iterator[Case]:
    """Cases of more dims than are proved: of 3 and 5, and where a function may ask for the rank, next to the numbers in its code."""
    signature = rule.signature()
    if not signature.stars:
        return
    counts = {3, 5}
    if reads_rank(rule):
        numbers = {n for function in functions_of(rule) for n in function.__code__.co_consts if type(n) is int and 2 <= n <= 12}
        counts |= {4, 6} | {n + step for n in numbers for step in (-1, 0, 1)}
    for count in sorted(counts):
        dims: dict[str, tuple[Dim, ...]] = {name: tuple(symbol(f"{name}_{i}") for i in range(count)) for name in signature.stars}
        if any(star.broadcastable for star in signature.stars.values()):
            dims = {name: tuple(symbol(f"size_{i}") for i in range(count)) for name in signature.stars}
        for choices in itertools.islice(signature.choices(dims), 2):
            case = Case(tuple(dims.items()), tuple(choices.items()))
            if all(fact is not False for fact in size_facts(rule, case)):
                yield case


def _broadcasts(rule: type[Rule]) -> Iterator[Case]:
    signature = rule.signature()
    loose = [star.name for star in signature.stars.values() if star.broadcastable]
    named = [star.name for star in signature.stars.values() if not star.broadcastable]
    if not loose:
        return
    a, b, c = symbol("size"), symbol("size_0"), symbol("size_1")
    rows: list[tuple[tuple[Dim, ...], ...]] = [
        ((b, c), (c,)),
        ((c,), (b, c)),
        ((b, c), (b, 1)),
        ((1, c), (b, 1)),
        ((b, 1), (1, c)),
        ((a,), (a,)),
    ]
    for row in rows:
        stars = {name: row[position % 2] for position, name in enumerate(loose)} | {name: (symbol(f"{name}_0"),) for name in named}
        for choices in signature.choices(stars):
            case = Case(tuple(stars.items()), tuple(choices.items()))
            if all(fact is not False for fact in size_facts(rule, case)):
                yield case
                break


__all__ = ["drawn_cases"]
