"""Rules by the operator that their patterns end in, so that around a change only those are tried that may fit there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from operators.operator import Operator
from rewrites.host import Host
from rewrites.match import Match, matches_from
from rewrites.patterns import Pattern, sketches
from rewrites.rule import Rule, remembered


@remembered
def kinds_of(rule: type[Rule]) -> tuple[frozenset[type[Operator]], ...]:
    """The operators of the rule's pattern, for each form of it."""
    return tuple({frozenset(node.kind for node in pattern.nodes.values()) for pattern in sketches(rule) if not pattern.forbidden})


class _Entry(NamedTuple):
    """One root of one form of a rule's pattern; entries of one rule in the order in which `find_matches` tries them."""

    rule: int
    form: int
    anchor: int
    sketch: Pattern


class Index:
    """Finds the matches of several rules at once.

    rules: in the order in which their matches are given
    """

    def __init__(self, rules: Sequence[type[Rule]]) -> None:
        self.rules = rules
        self._entries: list[tuple[frozenset[type[Operator]], list[_Entry]]] = []
        for number, rule in enumerate(rules):
            for form, sketch in enumerate(sketches(rule)):
                if not sketch.forbidden:
                    kinds = frozenset(node.kind for node in sketch.nodes.values())
                    self._entries.append((kinds, [_Entry(number, form, anchor, sketch) for anchor in range(len(sketch.roots))]))
        self._fitting: dict[frozenset[type[Operator]], dict[int, dict[type[Operator], list[_Entry]]]] = {}

    def find(self, host: Host, around: Collection[int], present: frozenset[type[Operator]]) -> Iterator[tuple[int, Match]]:
        """The matches that cover one of the nodes, each with the number of its rule, as `find_matches` gives them rule by rule.

        present: the graph's operators, or more of them
        """
        near = frozenset(around)
        places: list[tuple[int, int, int, int, Pattern]] = []
        for height, by_kind in self._for(present).items():
            for kind, nodes in host.near(near, height).items():
                for rule, form, anchor, sketch in by_kind.get(kind, ()):
                    places.extend((rule, form, anchor, node, sketch) for node in nodes)
        places.sort(key=lambda place: place[:4])
        seen = set()
        for rule, _, anchor, node, sketch in places:
            for match in matches_from(self.rules[rule], sketch, host, anchor, node):
                if not near.isdisjoint(match.nodes) and match.key not in seen:
                    seen.add(match.key)
                    yield rule, match

    def _for(self, present: frozenset[type[Operator]]) -> dict[int, dict[type[Operator], list[_Entry]]]:
        """The entries whose operators are all present, by the height of the root and its operator."""
        found = self._fitting.get(present)
        if found is None:
            found = self._fitting[present] = {}
            for kinds, entries in self._entries:
                if kinds <= present:
                    for entry in entries:
                        root = entry.sketch.nodes[entry.sketch.roots[entry.anchor].node].kind
                        found.setdefault(entry.sketch.heights[entry.anchor], {}).setdefault(root, []).append(entry)
        return found


@lru_cache(maxsize=8)
def index_of(rules: tuple[type[Rule], ...]) -> Index:
    """The index of these rules, made once."""
    return Index(rules)
