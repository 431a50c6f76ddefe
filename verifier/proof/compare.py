"""Whether two values are equal at every index: terms grouped under bijections of bound indices, each group checked by Z3.

Terms whose factors are equal under an invertible integer map of bound indices are sums over the same index points; the group
is zero when Σ coefficient · [guards] is zero at every point. A map counts only with its inverse, checked by composition.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from operators.expressions import Atom, Dim, Expression, divide_exactly, substitute
from operators.formulas import Comparison, Formula, Truth, all_of, any_of, equal, negate
from operators.predicates import substitute_formula
from verifier.proof import pointwise
from verifier.proof.binders import Binder
from verifier.proof.guards import Bounds, bounds_of, conjuncts, index_parts, simplified
from verifier.proof.knowledge import Index, SplitNeeded, current
from verifier.proof.matching import Map, equations_between, limit_solutions, solutions
from verifier.proof.readable import map_text
from verifier.proof.reductions import Alternative, Largest
from verifier.proof.summands import without_zero_sums
from verifier.proof.terms import Data, Factor, Function, Product, Read, Size, Value, sorted_factors

Guards = frozenset[Formula]
NONE: Guards = frozenset()


@dataclass
class Unmatched:
    """Terms that no others cancel."""

    terms: list[tuple[Product, Fraction]] = field(default_factory=list)


@dataclass
class Comparison_:
    """One comparison in progress; `maps` keeps the index maps that were used, `unmatched` what failed at the top."""

    maps: list[str] = field(default_factory=list)
    unmatched: list[tuple[Product, Fraction]] = field(default_factory=list)
    depth: int = 0
    _known: dict[tuple[str, str, Guards], bool] = field(default_factory=dict)

    def equal(self, left: Value, right: Value, guards: Guards = NONE) -> bool:
        """left = right wherever the guards hold, for all sizes and all tensors."""
        if left.terms == right.terms:
            return True
        question = (left.key, right.key, guards)
        if question not in self._known:
            if self.depth > 12:
                return False
            self.depth += 1
            self._known[question] = self.is_zero(left - right, guards)
            self.depth -= 1
        return self._known[question]

    def is_zero(self, difference: Value, guards: Guards = NONE) -> bool:
        """The value is zero wherever the guards hold."""
        top = self.depth == 1
        rest = self._cancel(difference, guards)
        joined = with_opposite_guards(rest)
        if joined is not None and not self._cancel(joined, guards).terms:
            rest = Value({})
        if any(product.bound for product in rest.terms):
            rest = without_zero_sums(rest, guards)
        if top:
            self.unmatched = list(rest.terms.items())
        return not rest.terms or pointwise.is_zero(rest, guards, self)

    def _cancel(self, difference: Value, guards: Guards) -> Value:
        """What is left when groups of terms that sum to zero are taken away."""
        pending = [(p, c) for p, c in Value(dict(difference.canonical().terms)).terms.items()]
        buckets: dict[tuple[Any, ...], list[tuple[Product, Fraction]]] = {}
        for product, coefficient in pending:
            product = product.renamed()
            buckets.setdefault(_signature(product), []).append((product, coefficient))
        left: dict[Product, Fraction] = {}
        for _, terms in sorted(buckets.items(), key=lambda item: repr(item[0])):
            for product, coefficient in self._cancel_bucket(terms, guards):
                left[product] = left.get(product, Fraction(0)) + coefficient
        return Value({p: c for p, c in left.items() if c})

    def _cancel_bucket(self, terms: list[tuple[Product, Fraction]], guards: Guards) -> list[tuple[Product, Fraction]]:
        left: list[tuple[Product, Fraction]] = []
        pending = list(terms)
        while pending:
            lead, *others = pending
            group = [(lead[0].guards, numeric_part(lead[0]), lead[1])]
            pending, members, notes = [], [lead], []
            for product, coefficient in others:
                found = self._map_onto(lead[0], product, guards)
                if found is None:
                    pending.append((product, coefficient))
                    continue
                mapped, numbers = _mapped(product, found)
                members.append((product, coefficient))
                if mapped is not None:
                    group.append((mapped, numbers, coefficient))
                    if found:
                        notes.append(map_text(product, {a: str(b) for a, b in found.items() if isinstance(a, Index)}))
            if group_is_zero(group, guards):
                self.maps.extend(notes)
            else:
                left.extend(members)
        return left

    def _map_onto(self, lead: Product, other: Product, guards: Guards) -> Map | None:
        """A bijection from other's bound indices to lead's under which their factors are equal where other's guards hold."""
        current().check_time()
        if len(lead.bound) != len(other.bound):
            return None
        mine, theirs = core(lead), core(other)
        for pairs in pairings(mine, theirs):
            equations = [e for a, b in pairs for e in equations_between(a, b)]
            for found in solutions(equations, lead, other):
                mapped, _ = _mapped(other, found)
                if mapped is None:
                    return found
                if all(self.factors_equal(a, b, found, mapped | guards) for a, b in pairs):
                    return found
        return None

    def factors_equal(self, mine: Factor, theirs: Factor, found: Map, guards: Guards) -> bool:
        """The factor equals the other one under the map, where the guards hold."""
        if mine == theirs and not (theirs.free & found.keys()):
            return True
        if isinstance(mine, Read) and isinstance(theirs, Read):
            moved = [substitute(dim, found) for dim in theirs.index]
            return mine.tensor == theirs.tensor and all(self.same_index(a, b, guards) for a, b in zip(mine.index, moved, strict=True))
        moved_value = theirs.replaced(found)
        other = moved_value.factor
        if other is None or type(other) is not type(mine):
            return self.equal(Value.of(mine), moved_value, guards)
        return self.same_factor(mine, other, guards)

    def same_factor(self, mine: Factor, other: Factor, guards: Guards) -> bool:
        """Two factors over the same indices are equal where the guards hold."""
        if mine == other:
            return True
        if isinstance(mine, Read) and isinstance(other, Read):
            return mine.tensor == other.tensor and all(self.same_index(a, b, guards) for a, b in zip(mine.index, other.index, strict=True))
        if isinstance(mine, Function) and isinstance(other, Function):
            alike = mine.name == other.name and len(mine.arguments) == len(other.arguments)
            return alike and all(self.equal(a, b, guards) for a, b in zip(mine.arguments, other.arguments, strict=True))
        if isinstance(mine, Largest) and isinstance(other, Largest):
            return self.covers(mine, other, guards) and self.covers(other, mine, guards)
        if isinstance(mine, Binder) and isinstance(other, Binder):
            fresh = Expression.of(current().fresh("k"))
            one, two = (b.value.relabelled({b.index: fresh}) for b in (mine, other))
            return mine.name == other.name and self.same_index(mine.extent, other.extent, guards) and self.equal(one, two, guards)
        if isinstance(mine, Size) and isinstance(other, Size):
            return self.same_index(Expression.of(mine.atom), Expression.of(other.atom), guards)
        return False

    def same_index(self, one: Dim, other: Dim, guards: Guards) -> bool:
        """Two index expressions are equal where the guards hold."""
        difference = one - other
        if isinstance(difference, int):
            return difference == 0
        computed = tuple([a for a in Expression.of(dim).atoms if isinstance(a, Data)] for dim in (one, other))
        if len(computed[0]) == 1 and len(computed[1]) == 1 and computed[0] != computed[1]:
            (a,), (b,) = computed
            return self.equal(a.value, b.value, guards) and self.same_index(one, substitute(other, {b: Expression.of(a)}), guards)
        return current().proves(equal(one, other), guards)

    def covers(self, larger: Largest, smaller: Largest, guards: Guards) -> bool:
        """Every value in the one set is a value in the other."""
        return all(self._covered(a, larger, guards) for a in smaller.alternatives)

    def _covered(self, one: Alternative, whole: Largest, guards: Guards) -> bool:
        a = one.apart()
        return any(self._covered_by(a, whole, guards, at_limits) for at_limits in (False, True))

    def _covered_by(self, a: Alternative, whole: Largest, guards: Guards, at_limits: bool) -> bool:
        """The value is among the whole's wherever a's guards hold: by one choice of indices, or by several in turn."""
        ways: list[Truth] = []
        for b in whole.alternatives:
            other = b.apart()
            for found in self._choices(a, other, at_limits):
                moved = all_of(*(substitute_formula(g, found) for g in other.guards))
                if moved is False:
                    continue
                given = a.guards | guards | frozenset(part for part in conjuncts(moved) if isinstance(part, Formula))
                if self._is_same_value(a.value, other.value.replaced(found), given):
                    if moved is True or current().proves(moved, a.guards | guards, linear=True):
                        return True
                    ways.append(moved)
        return bool(ways) and current().proves(any_of(*ways), a.guards | guards)

    def _is_same_value(self, one: Value, other: Value, guards: Guards) -> bool:
        """Two values are equal where the guards hold; elements that are read are compared by their indices alone."""
        if isinstance(one.factor, Read) and isinstance(other.factor, Read):
            return self.same_factor(one.factor, other.factor, guards)
        return self.equal(one, other, guards)

    def _choices(self, a: Alternative, other: Alternative, at_limits: bool) -> Iterator[dict[Atom, Dim]]:
        """Choices of the other alternative's indices, as expressions in a's, under which the values may be equal."""
        if not other.bound:
            yield from () if at_limits else ({},)
            return
        lead = Product(a.bound, a.guards, sorted_factors({Function("value", (a.value,), lambda v: v): 1}))
        moved = Product(other.bound, other.guards, sorted_factors({Function("value", (other.value,), lambda v: v): 1}))
        equations = [e for x, y in zip(lead.factors, moved.factors, strict=True) for e in equations_between(x[0], y[0])]
        yield from limit_solutions(equations, moved) if at_limits else solutions(equations, lead, moved, bijective=False)


def with_opposite_guards(value: Value) -> Value | None:
    """The value with P − P·[g] written as P·[not g] where there are such pairs, so that P counts only where it must; else nothing."""
    left, joined = dict(value.terms), False
    for wide, coefficient in list(value.terms.items()):
        for narrow, other in list(left.items()):
            extra = narrow.guards - wide.guards
            alike = narrow.bound == wide.bound and narrow.factors == wide.factors and wide.guards < narrow.guards and len(extra) == 1
            opposite = negate(next(iter(extra))) if alike and other == -coefficient and wide in left else None
            if isinstance(opposite, Formula):
                del left[wide], left[narrow]
                one = Product(wide.bound, wide.guards | {opposite}, wide.factors)
                left[one] = left.get(one, Fraction(0)) + coefficient
                joined = True
                break
    return Value({product: coefficient for product, coefficient in left.items() if coefficient}) if joined else None


def missing_split(unmatched: list[tuple[Product, Fraction]]) -> SplitNeeded | None:
    """A bound index that one term reads with as a whole and another in digits: the split that makes the terms alike."""
    scopes = [scope for product, _ in unmatched for scope in _scopes(product)]
    for one, other in itertools.permutations(scopes[:40], 2):
        if one.tensor == other.tensor and len(one.bound) < len(other.bound):
            for a, b in zip(one.index, other.index):
                needed = _split_between(a, b, one.limits, one.bound, other.bound)
                if needed is not None:
                    return needed
    return None


@dataclass(frozen=True)
class _Scope:
    """An element that is read, with the indices bound around it and their limits."""

    tensor: str
    index: tuple[Dim, ...]
    bound: set[Index]
    limits: Bounds


def _scopes(product: Product, bound: frozenset[Index] = frozenset(), guards: Guards = NONE) -> Iterator[_Scope]:
    """Every element read in the product, inside sums and maxima as well."""
    names, known = bound | set(product.bound), guards | product.guards
    limits = bounds_of(g for g in known if isinstance(g, Comparison))
    for factor, _ in product.factors:
        if isinstance(factor, Read):
            yield _Scope(factor.tensor, factor.index, set(names), limits)
        elif isinstance(factor, Largest):
            for a in factor.alternatives:
                for inner in a.value.terms:
                    yield from _scopes(inner, names | set(a.bound), known | a.guards)
        else:
            for part in factor.parts():
                for inner in part.terms:
                    yield from _scopes(inner, names, known)


def _split_between(whole: Dim, digits: Dim, bounds: Bounds, mine: set[Index], theirs: set[Index]) -> SplitNeeded | None:
    if not isinstance(whole, Expression) or not isinstance(digits, Expression):
        return None
    for index in sorted(whole.symbols & mine, key=str):
        low, high = bounds.get(index, (None, None))
        if whole.terms.get((index,)) not in (1, -1) or high is None or not isinstance(low, int) or low != 0:
            continue
        parts = index_parts(digits)
        inner = {i: c for i, c in parts[0].items() if i in theirs} if parts else {}
        extent = high + 1
        for coefficient in inner.values():
            if len(inner) < 2 or (isinstance(coefficient, int) and coefficient == 1) or Expression.of(extent) in current().splits:
                continue
            numbers = isinstance(extent, int) and isinstance(coefficient, int)
            proper = 1 < coefficient < extent if numbers else not isinstance(extent - coefficient, int)
            if divide_exactly(extent, coefficient) is not None and proper:
                return SplitNeeded(extent, coefficient)
    return None


def numeric_part(product: Product) -> tuple[tuple[Factor, int], ...]:
    """The factors that are sizes, or functions of sizes alone: they count as the term's coefficient."""
    return tuple((f, n) for f, n in product.factors if is_numeric(f))


def is_numeric(factor: Factor) -> bool:
    """A size, or a quotient by sizes."""
    if isinstance(factor, Size):
        return not isinstance(factor.atom, Data)
    return (
        isinstance(factor, Function)
        and factor.name == "inverse"
        and all(not p.bound and not p.guards and all(is_numeric(f) for f, _ in p.factors) for p in factor.arguments[0].terms)
    )


def core(product: Product) -> list[Factor]:
    """The factors that are not numeric, each as often as its power says."""
    return [f for f, n in product.factors if not is_numeric(f) for _ in range(n)]


def _signature(product: Product) -> tuple[Any, ...]:
    return (len(product.bound), tuple(sorted(map(head, core(product)))))


def head(factor: Factor) -> str:
    """What equal factors have in common whatever their indices are."""
    if isinstance(factor, Read):
        return f"read {factor.tensor}"
    if isinstance(factor, (Function, Binder)):
        return factor.name
    return type(factor).__name__


def pairings(mine: list[Factor], theirs: list[Factor], most: int = 24) -> Iterator[list[tuple[Factor, Factor]]]:
    """Ways to pair factors with the same head."""

    def extend(position: int, left: list[Factor], done: list[tuple[Factor, Factor]]) -> Iterator[list[tuple[Factor, Factor]]]:
        if position == len(mine):
            yield done
            return
        seen: set[Factor] = set()
        candidates = sorted(left, key=lambda f: f != mine[position])
        for candidate in candidates:
            if head(candidate) != head(mine[position]) or candidate in seen:
                continue
            seen.add(candidate)
            rest = list(left)
            rest.remove(candidate)
            yield from extend(position + 1, rest, [*done, (mine[position], candidate)])

    yield from itertools.islice(extend(0, list(theirs), []), most)


def _mapped(product: Product, found: Map) -> tuple[Guards | None, tuple[tuple[Factor, int], ...]]:
    moved = simplified(substitute_formula(guard, found) for guard in product.guards)
    numbers: list[tuple[Factor, int]] = []
    if moved is None:
        return None, ()
    for factor, power in numeric_part(product):
        value = factor.replaced(found) if factor.free & found.keys() else Value.of(factor)
        numbers.append((Function("number", (value,), lambda v: v), power) if value.factor is None else (value.factor, power))
    return moved, tuple(numbers)


def group_is_zero(group: list[tuple[Guards, tuple[tuple[Factor, int], ...], Fraction]], guards: Guards) -> bool:
    """Σ coefficient · numbers · [guards] is zero at every index point at which the given guards hold."""
    sums: dict[tuple[Guards, tuple[tuple[Factor, int], ...]], Fraction] = {}
    for own, numbers, coefficient in group:
        key = (own, tuple(sorted(numbers, key=lambda item: item[0].key)))
        sums[key] = sums.get(key, Fraction(0)) + coefficient
    left = {key: number for key, number in sums.items() if number}
    if not left:
        return True
    same: dict[tuple[tuple[Factor, int], ...], list[tuple[Guards, Fraction]]] = {}
    for (own, numbers), coefficient in left.items():
        same.setdefault(numbers, []).append((own, coefficient))
    if all(_counts_cancel(terms, guards) for terms in same.values()):
        return True
    return len(same) > 1 and pointwise.group_is_zero(left, guards)


def _counts_cancel(terms: list[tuple[Guards, Fraction]], guards: Guards) -> bool:
    common = frozenset.intersection(*(own for own, _ in terms))

    def statements(t: Any) -> list[Any]:
        z3 = t.z3
        parts = []
        denominator = 1
        for _, coefficient in terms:
            denominator = denominator * coefficient.denominator
        for own, coefficient in terms:
            condition = z3.And([t.formula(g) for g in own - common]) if own - common else z3.BoolVal(True)
            parts.append(z3.If(condition, z3.IntVal(int(coefficient * denominator)), z3.IntVal(0)))
        return [t.formula(g) for g in common | guards] + [z3.Sum(parts) != 0]

    return current().solver.unsatisfiable(statements)


__all__ = ["Comparison_", "group_is_zero"]
