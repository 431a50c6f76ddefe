"""Factors with bound indices of their own: maxima as guarded sets, products over a range, positions of extremes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from operators.expressions import Atom, Dim, Expression, Symbol
from operators.formulas import Comparison, Formula, Truth, all_of, any_of, formula_symbols, negate
from operators.predicates import substitute_formula
from verifier.proof.guards import simplified
from verifier.proof.knowledge import SUBSCRIPTS, Index, current
from verifier.proof.normalise import by_cases, one_point
from verifier.proof.terms import (
    INDEX_NAME,
    Factor,
    Function,
    Rebuild,
    Substitution,
    Value,
    mask,
)  # fmt: skip


@dataclass(frozen=True)
class Alternative:
    """The values that `value` takes over the bound indices where the guards hold."""

    bound: tuple[Index, ...]
    guards: frozenset[Formula]
    value: Value

    @cached_property
    def key(self) -> str:
        head = f"{','.join(map(str, self.bound))} " + "".join(f"[{g}]" for g in sorted(map(str, self.guards)))
        return f"{head}{self.value.key}"

    @cached_property
    def free(self) -> frozenset[Symbol]:
        found = set(self.value.free)
        for guard in self.guards:
            found |= formula_symbols(guard)
        return frozenset(found - set(self.bound))

    @cached_property
    def mentioned(self) -> frozenset[Symbol]:
        return self.free | set(self.bound)

    def renamed(self, names: dict[Index, Index]) -> Alternative:
        """The same alternative under other (fresh) names of its bound indices."""
        values: dict[Atom, Dim] = {old: Expression.of(new) for old, new in names.items()}
        guards = frozenset(g for g in (substitute_formula(guard, values) for guard in self.guards) if isinstance(g, Formula))
        return Alternative(tuple(names.get(b, b) for b in self.bound), guards, self.value.relabelled(values).canonical())

    def apart(self) -> Alternative:
        """The same alternative under fresh names."""
        return self.renamed({old: current().fresh("k") for old in self.bound}) if self.bound else self

    def canonical(self) -> Alternative:
        """The same alternative with bound indices named by their order."""
        if not self.bound:
            return Alternative((), self.guards, self.value.canonical())
        names = {str(index) for index in self.bound}
        texts = [self.value.canonical().key, *sorted(map(str, self.guards), key=lambda t: mask(t, names))]
        order = dict.fromkeys(name for text in texts for name in INDEX_NAME.findall(text) if name in names)
        stem = "s" * (self.value.height + 2)  # one more than the sums in the value have
        fresh = self.apart()
        positions = dict(zip(map(str, self.bound), fresh.bound, strict=True))
        wanted = {positions[name]: Index(f"{stem}{str(i + 1).translate(SUBSCRIPTS)}") for i, name in enumerate(order)}
        done = fresh.renamed(wanted)
        return Alternative(tuple(wanted.values()), done.guards, done.value)


class Largest(Factor):
    """The maximum of the values of the alternatives; −∞ over nothing."""

    def __init__(self, alternatives: Iterable[Alternative]) -> None:
        unique = {a.key: a for a in (alternative.canonical() for alternative in alternatives)}
        self.alternatives = tuple(unique[key] for key in sorted(unique))
        self.key = f"max{{{'; '.join(a.key for a in self.alternatives)}}}"
        self.free = frozenset(s for a in self.alternatives for s in a.free)
        self.height = 2 + max((a.value.height for a in self.alternatives), default=0)

    def parts(self) -> tuple[Value, ...]:
        return tuple(a.value for a in self.alternatives)

    def replaced(self, values: Substitution) -> Value:
        changed = []
        for alternative in self.alternatives:
            a = alternative.apart()
            guards = [substitute_formula(guard, values) for guard in a.guards]
            if any(guard is False for guard in guards):
                continue
            kept = frozenset(g for g in guards if isinstance(g, Formula))
            changed.append(Alternative(a.bound, kept, a.value.replaced(values)))
        return largest(changed)

    def relabelled(self, names: Substitution) -> Largest:
        changed = []
        for a in self.alternatives:
            guards = frozenset(g for g in (substitute_formula(guard, names) for guard in a.guards) if isinstance(g, Formula))
            changed.append(Alternative(a.bound, guards, a.value.relabelled(names)))
        return Largest(changed)


INFINITY = "∞"


def infinity() -> Value:
    """+∞, as a factor of its own."""
    return Value.of(Function(INFINITY, (), infinity))


def is_minus_infinity(value: Value) -> bool:
    """−∞ plus something finite, whatever the indices are."""
    infinite = [(product, coefficient) for product, coefficient in value.terms.items() if INFINITY in product.key]
    if not infinite:
        return False
    for product, coefficient in infinite:
        if product.bound or product.guards or coefficient > 0 or len(product.factors) != 1:
            return False
        factor, _ = product.factors[0]
        if not isinstance(factor, Function) or factor.name != INFINITY:
            return False
    return True


def largest(alternatives: Sequence[Alternative]) -> Value:
    """The maximum over the alternatives in normal form."""
    indices = [a.bound for a in alternatives]
    if any(indices):
        return _gathered(alternatives)

    def gather(*values: Value) -> Value:
        return _gathered([Alternative((), a.guards, value) for a, value in zip(alternatives, values, strict=True)])

    return by_cases([a.value for a in alternatives], gather)


def _gathered(alternatives: Iterable[Alternative]) -> Value:
    pending = list(alternatives)
    kept: list[Alternative] = []
    rounds = 0
    while pending:
        rounds += 1
        a = pending.pop()
        guards = simplified(a.guards)
        if guards is None or is_minus_infinity(a.value):
            continue
        a = Alternative(a.bound, guards, a.value)
        pinned = one_point(a.bound, guards)
        if pinned is not None:
            index, value = pinned
            changed = [substitute_formula(guard, {index: value}) for guard in guards]
            if not any(guard is False for guard in changed):
                left = frozenset(g for g in changed if isinstance(g, Formula))
                pending.append(Alternative(tuple(b for b in a.bound if b != index), left, a.value.replaced({index: value})))
            continue
        split = _split(a) if rounds < 200 else None
        if split is not None:
            pending.extend(split)
            continue
        flat = _flattened(a)
        if flat is not None:
            pending.extend(flat)
            continue
        kept.append(_without_idle_indices(a))
    unique = list({a.canonical().key: a.canonical() for a in kept}.values())
    return _with_outer_guards(_undominated(unique))


def _undominated(alternatives: list[Alternative]) -> list[Alternative]:
    """The alternatives without those that another, which is always there, exceeds by a number."""
    always = [a for a in alternatives if not a.bound and not a.guards]
    if len(always) < 2:
        return alternatives

    def exceeded(a: Alternative) -> bool:
        differences = ((other.value - a.value).number for other in always if other is not a)
        return any(difference is not None and difference > 0 for difference in differences)

    return [a for a in alternatives if a.bound or a.guards or not exceeded(a)]


def _with_outer_guards(alternatives: list[Alternative]) -> Value:
    """Guards that no alternative's index occurs in are cases of the whole maximum."""
    for a in alternatives:
        outer = sorted((g for g in a.guards if not formula_symbols(g) & set(a.bound)), key=str)
        if outer and len(alternatives) > 1:
            return _case_of(alternatives, outer[0])
    return _pulled_out(alternatives)


def _case_of(alternatives: list[Alternative], guard: Formula) -> Value:
    from verifier.proof.normalise import unless, where

    opposite = negate(guard)
    yes, no = [], []
    for a in alternatives:
        if guard in a.guards:
            yes.append(Alternative(a.bound, a.guards - {guard}, a.value))
        elif opposite in a.guards:
            no.append(Alternative(a.bound, a.guards - {opposite} if isinstance(opposite, Formula) else a.guards, a.value))
        else:
            yes.append(a)
            no.append(a)
    return where(guard, _with_outer_guards(yes)) + unless(guard, _with_outer_guards(no))


def _split(a: Alternative) -> list[Alternative] | None:
    """The alternative by cases of a guard inside its value."""
    for product in a.value.terms:
        outer = sorted((g for g in product.guards if not formula_symbols(g) & set(product.bound)), key=str)
        if outer:
            from verifier.proof.normalise import _assume, _deny

            unit = frozenset([outer[0]])
            opposite = negate(outer[0])
            return [
                Alternative(a.bound, a.guards | unit, _assume(a.value, unit)),
                Alternative(a.bound, a.guards | ({opposite} if isinstance(opposite, Formula) else set()), _deny(a.value, unit)),
            ]
    return None


def _flattened(a: Alternative) -> list[Alternative] | None:
    """max(…, c + q·max(S)) as max(…, c + q·s for s in S), where q is a positive number."""
    for product, coefficient in a.value.terms.items():
        if product.bound or product.guards or len(product.factors) != 1 or coefficient <= 0:
            continue
        factor, power = product.factors[0]
        if isinstance(factor, Largest) and power == 1:
            rest = a.value - Value({product: coefficient})
            result = []
            for alternative in factor.alternatives:
                inner = alternative.apart()
                result.append(Alternative((*a.bound, *inner.bound), a.guards | inner.guards, rest + inner.value.scaled(coefficient)))
            return result
    return None


def _without_idle_indices(a: Alternative) -> Alternative:
    """Drop bound indices that the value does not mention, where values of them exist that satisfy their guards."""
    idle = [index for index in a.bound if index not in a.value.free]
    about = frozenset(g for g in a.guards if formula_symbols(g) & set(idle))
    if not idle or any(formula_symbols(g) & (set(a.bound) - set(idle)) for g in about):
        return a
    if is_inhabited(idle, about, a.guards - about):
        return Alternative(tuple(b for b in a.bound if b not in idle), a.guards - about, a.value)
    return a


def is_inhabited(indices: Sequence[Index], about: Iterable[Formula], given: Iterable[Formula] = ()) -> bool:
    """Values of the indices exist that satisfy the guards: one of the limits of each index is tried, or two in turn."""
    guards, known = list(about), tuple(given)
    if any(len(formula_symbols(g) & set(indices)) > 1 for g in guards):
        return False
    fixed = [g for g in guards if not formula_symbols(g) & set(indices)]
    if not all(current().proves(g, known, linear=True) for g in fixed):
        return False
    return all(_has_value(index, [g for g in guards if index in formula_symbols(g)], known) for index in indices)


def _has_value(index: Index, guards: list[Formula], given: tuple[Formula, ...]) -> bool:
    limits: list[Dim] = []
    for guard in guards:
        coefficient = guard.expression.terms.get((index,), 0) if isinstance(guard, Comparison) else 0
        if isinstance(guard, Comparison) and abs(coefficient) == 1:
            rest = guard.expression - coefficient * Expression.of(index)
            if not isinstance(rest, Expression) or index not in rest.symbols:
                limits.append(-rest if coefficient == 1 else rest)
    candidates = list(dict.fromkeys([*limits, 0, 1]))
    ways = [all_of(*(substitute_formula(guard, {index: choice}) for guard in guards)) for choice in candidates]
    return current().proves(any_of(*ways), given, linear=True)


def _mentions(dim: Dim, indices: Iterable[Symbol]) -> bool:
    return isinstance(dim, Expression) and bool(dim.symbols & set(indices))


def _pulled_out(alternatives: list[Alternative]) -> Value:
    """A common addend, number and positive factor in front of the maximum."""
    if not alternatives:
        return -infinity()
    if len(alternatives) == 1 and not alternatives[0].bound and not alternatives[0].guards:
        return alternatives[0].value
    from verifier.proof.content import common_addend, common_content
    from verifier.proof.signs import factor_is_nonnegative, factor_is_positive

    bound = {index for a in alternatives for index in a.bound}
    addend = common_addend([a.value for a in alternatives], bound)
    if addend.terms:
        outside = Value({product.renamed(): coefficient for product, coefficient in addend.terms.items()})
        return outside + _pulled_out([Alternative(a.bound, a.guards, a.value - addend) for a in alternatives])
    for sign in (1, -1):
        signed = [Alternative(a.bound, a.guards, a.value.scaled(Fraction(sign))) for a in alternatives]
        monotone = _common_function(signed)
        if monotone is not None:
            inner = [
                Alternative(a.bound, a.guards, a.value.factor.arguments[0].scaled(Fraction(sign)))
                for a in signed
                if isinstance(a.value.factor, Function)
            ]
            result: Value = monotone(_with_outer_guards(inner).scaled(Fraction(sign)))
            return result.scaled(Fraction(sign))
    rounded = _common_rounding(alternatives)
    if rounded is not None:
        return rounded
    dual = _minimum_inside(alternatives)
    if dual is not None:
        return dual
    certain = any(is_inhabited(a.bound, a.guards) for a in alternatives if all(formula_symbols(g) & set(a.bound) for g in a.guards))
    content = common_content([a.value for a in alternatives], bound, factor_is_nonnegative if certain else factor_is_positive)
    if content.is_one:
        return Value.of(Largest(alternatives))
    rest = [Alternative(a.bound, a.guards, content.taken_out_of(a.value)) for a in alternatives]
    return content.value() * _gathered(rest)


def _minimum_inside(alternatives: list[Alternative]) -> Value | None:
    """max(a, min over i of xᵢ) as min over i of max(a, xᵢ), over a set that is not empty."""
    if any(a.bound or a.guards for a in alternatives) or len(alternatives) < 2:
        return None
    for a in alternatives:
        for product, coefficient in a.value.terms.items():
            factor = Value.of(product).factor
            if coefficient >= 0 or not isinstance(factor, Largest) or not all(x.bound for x in factor.alternatives):
                continue
            if not any(is_inhabited(x.bound, x.guards) for x in factor.alternatives):
                continue
            rest = a.value - Value({product: coefficient})
            others = [other for other in alternatives if other is not a]
            inside = []
            for one in factor.alternatives:
                x = one.apart()
                value = largest([*others, Alternative((), frozenset(), rest + x.value.scaled(coefficient))])
                inside.append(Alternative(x.bound, x.guards, -value))
            return -largest(inside)
    return None


ROUNDING = "rounding to "
"""How the names begin of functions that increase (not strictly) and of which f(−x) = −f(x)."""


def _common_rounding(alternatives: Sequence[Alternative]) -> Value | None:
    """max ±f(xᵢ) as f(max ±xᵢ), where f is one rounding and 0 is f(0), over a set that is not empty."""
    found: dict[str, Function] = {}
    inner = []
    for a in alternatives:
        factor = a.value.factor or (-a.value).factor
        if isinstance(factor, Function) and factor.name.startswith(ROUNDING):
            found[factor.name] = factor
            argument = factor.arguments[0]
            inner.append(Alternative(a.bound, a.guards, argument if a.value.factor is not None else -argument))
        elif not a.value.terms:
            inner.append(a)
        else:
            return None
    if len(found) != 1:
        return None
    if not any(is_inhabited(a.bound, a.guards) for a in alternatives if all(formula_symbols(g) & set(a.bound) for g in a.guards)):
        return None
    (function,) = found.values()
    result: Value = function.rebuild(_with_outer_guards(inner))
    return result


_INCREASING = frozenset({"exp", "log", "sqrt", "sigmoid", "atan", "floor", "trunc", "round"})


def _common_function(alternatives: Sequence[Alternative]) -> Rebuild | None:
    """The increasing function of which every alternative is a value: max f(x) = f(max x) over a set that is not empty."""
    factors = [a.value.factor for a in alternatives]
    if not all(isinstance(f, Function) and f.name in _INCREASING for f in factors) or len({getattr(f, "name", "") for f in factors}) != 1:
        return None
    if not any(is_inhabited(a.bound, a.guards) for a in alternatives if all(formula_symbols(g) & set(a.bound) for g in a.guards)):
        return None
    (first, *_) = factors
    return first.rebuild if isinstance(first, Function) else None


def largest_over(index: Index, limits: Iterable[Truth], value: Value) -> Value:
    """The maximum of the value over the index within its limits."""
    guards = frozenset(g for g in limits if isinstance(g, Formula))
    if any(g is False for g in limits):
        return -infinity()
    return by_cases_apart(index, value, lambda v: _gathered([Alternative((index,), guards, v)]))


def by_cases_apart(index: Index, value: Value, function: object) -> Value:
    """function(value) with guards that do not mention the index taken out by case splits."""
    from collections.abc import Callable
    from typing import cast

    call = cast("Callable[[Value], Value]", function)
    outer = [
        g
        for product in value.terms
        for g in sorted(product.guards, key=str)
        if not formula_symbols(g) & set(product.bound) and index not in formula_symbols(g)
    ]
    if not outer:
        return call(value)
    from verifier.proof.normalise import _assume, _deny, unless, where

    unit = frozenset([outer[0]])
    return where(outer[0], by_cases_apart(index, _assume(value, unit), function)) + unless(
        outer[0], by_cases_apart(index, _deny(value, unit), function)
    )
