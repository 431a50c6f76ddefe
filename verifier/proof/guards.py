"""Guards: integer statements in conjunction, simplified at a glance (no solver).

The digit rule: where −S < B < S, the equality S·A + B = 0 holds just when A = 0 and B = 0; where 0 ≤ B < S, S·A + B ≥ 0 just when A ≥ 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import gcd

from operators.expressions import Atom, Dim, Expression, Symbol, divide_exactly, substitute
from operators.formulas import Comparison, Formula, Junction, Truth, at_least_zero, equal
from verifier.proof.knowledge import Index, current

Bounds = Mapping[Symbol, tuple[Dim | None, Dim | None]]


def conjuncts(formula: Truth) -> Iterator[Truth]:
    """The parts of a conjunction."""
    if isinstance(formula, Junction) and formula.connective == "and":
        for part in formula.formulas:
            yield from conjuncts(part)
    else:
        yield formula


def simplified(guards: Iterable[Truth]) -> frozenset[Formula] | None:
    """An equivalent smaller set of guards; None when they contradict one another plainly."""
    found = _simplified_once(guards)
    for _ in range(6):
        again = None if found is None else _simplified_once(found)
        if again == found:
            break
        found = again
    return found


def _simplified_once(guards: Iterable[Truth]) -> frozenset[Formula] | None:
    pending = [part for guard in guards for part in conjuncts(guard)]
    kept: dict[Formula, None] = {}
    bounds = bounds_of(part for part in pending if isinstance(part, Comparison))
    while pending:
        guard = pending.pop()
        if isinstance(guard, bool):
            if not guard:
                return None
            continue
        if not isinstance(guard, Comparison):
            kept[guard] = None
            continue
        parts = _digits_known(guard, bounds) or _reduced(guard)
        if parts == [guard]:
            kept[guard] = None
        else:
            pending.extend(part for formula in parts for part in conjuncts(formula))
    return _against_each_other(kept)


def _reduced(guard: Comparison) -> list[Truth]:
    value = guard.expression
    if guard.relation == "==":
        lead = min(value.terms.items(), key=lambda item: (-len(item[0]), tuple(a.key for a in item[0])))
        return [equal(-value, 0)] if lead[1] < 0 else [guard]
    common = 0
    for monomial, coefficient in value.terms.items():
        if monomial:
            common = gcd(common, coefficient)
    if common > 1:
        return [at_least_zero(Expression({m: c // common for m, c in value.terms.items() if c // common}).collapse())]
    knowledge = current()
    if knowledge.evidently_nonnegative(value):
        return [True]
    return [False] if knowledge.evidently_nonnegative(-value - 1) else [guard]


def _against_each_other(guards: dict[Formula, None]) -> frozenset[Formula] | None:
    kept = dict(guards)
    inequalities = [g for g in kept if isinstance(g, Comparison) and g.relation == ">="]
    lines: dict[frozenset[tuple[tuple[Atom, ...], int]], list[tuple[int, Comparison]]] = {}
    for guard in inequalities:
        linear = frozenset((m, c) for m, c in guard.expression.terms.items() if m)
        lines.setdefault(linear, []).append((guard.expression.terms.get((), 0), guard))
    for same in lines.values():
        for _, guard in sorted(same, key=lambda item: item[0])[1:]:
            kept.pop(guard)
    for linear, same in lines.items():
        opposite = lines.get(frozenset((m, -c) for m, c in linear))
        if opposite is None:
            continue
        constant, guard = min(same, key=lambda item: item[0])
        other_constant, other = min(opposite, key=lambda item: item[0])
        if constant + other_constant < 0:
            return None
        if constant + other_constant == 0 and guard in kept and other in kept:
            kept.pop(guard)
            kept.pop(other)
            for part in _reduced_equality(guard.expression):
                if part is False:
                    return None
                if isinstance(part, Formula):
                    kept[part] = None
    return frozenset(kept)


def _reduced_equality(value: Expression) -> list[Truth]:
    statement = equal(value, 0)
    return _reduced(statement) if isinstance(statement, Comparison) else [statement]


def is_contradiction(guards: frozenset[Formula]) -> bool:
    """Two of the guards are plainly opposites, or one lies plainly beyond another."""
    return simplified(guards) is None


def bounds_of(guards: Iterable[Comparison]) -> dict[Symbol, tuple[Dim | None, Dim | None]]:
    """Least and greatest values of index variables, from inequalities in which they stand alone with sizes."""
    found: dict[Symbol, tuple[Dim | None, Dim | None]] = {}
    for guard in guards:
        if guard.relation != ">=":
            continue
        indices = [m for m in guard.expression.terms if any(isinstance(a, Index) for a in m)]
        if len(indices) != 1 or len(indices[0]) != 1:
            continue
        (index,) = indices[0]
        coefficient = guard.expression.terms[indices[0]]
        rest = guard.expression - coefficient * Expression.of(index)
        if not isinstance(index, Index) or abs(coefficient) != 1 or (isinstance(rest, Expression) and index in rest.symbols):
            continue
        low, high = found.get(index, (None, None))
        if coefficient == 1 and low is None:
            low = -rest
        elif coefficient == -1 and high is None:
            high = rest
        found[index] = (low, high)
    return found


def index_parts(value: Dim) -> tuple[dict[Symbol, Dim], Dim] | None:
    """The value as Σ index · coefficient + rest, with no index in coefficients or rest; None when it is not of that form."""
    parts: dict[Symbol, Dim] = {}
    rest: Dim = 0
    for monomial, coefficient in Expression.of(value).terms.items():
        indices = [atom for atom in monomial if isinstance(atom, Index)]
        others = tuple(atom for atom in monomial if not isinstance(atom, Index))
        if any(isinstance(s, Index) for atom in others for part in atom.inner() for s in part.symbols):
            return None
        term = Expression({others: coefficient}).collapse()
        if not indices:
            rest = rest + term
        elif len(indices) == 1:
            parts[indices[0]] = parts.get(indices[0], 0) + term
        else:
            return None
    return parts, rest


def interval(value: Dim, bounds: Bounds) -> tuple[Dim, Dim] | None:
    """Least and greatest value over the bounds of the index variables; None when they are not known at a glance."""
    split = index_parts(value)
    if split is None:
        return None
    parts, rest = split
    knowledge = current()
    low: Dim = rest
    high: Dim = rest
    for index, coefficient in parts.items():
        least, greatest = bounds.get(index, (None, None))
        extent = knowledge.extents.get(index)
        if extent is not None:
            least = 0 if least is None else least
            greatest = extent - 1 if greatest is None else greatest
        if least is None or greatest is None:
            return None
        if knowledge.evidently_nonnegative(coefficient):
            low, high = low + coefficient * least, high + coefficient * greatest
        elif knowledge.evidently_nonnegative(-coefficient):
            low, high = low + coefficient * greatest, high + coefficient * least
        else:
            return None
    return low, high


def divided(value: Dim, radix: Dim) -> tuple[Dim, Dim] | None:
    """(A, B) with value = radix·A + B, taking into A what the radix divides; None when the value has no index parts."""
    split = index_parts(value)
    if split is None:
        return None
    parts, rest = split
    upper: Dim = 0
    lower: Dim = 0
    for index, coefficient in parts.items():
        quotient = divide_exactly(coefficient, radix)
        if quotient is None:
            lower = lower + coefficient * Expression.of(index)
        else:
            upper = upper + quotient * Expression.of(index)
    whole, left = _divided_rest(rest, radix)
    return upper + whole, lower + left


def _divided_rest(rest: Dim, radix: Dim) -> tuple[Dim, Dim]:
    exact = divide_exactly(rest, radix)
    if exact is not None:
        return exact, 0
    whole: Dim = 0
    left: Dim = 0
    for monomial, coefficient in Expression.of(rest).terms.items():
        term = Expression({monomial: coefficient}).collapse()
        quotient = divide_exactly(term, radix)
        whole, left = (whole + quotient, left) if quotient is not None else (whole, left + term)
    return whole, left


def _digits_known(guard: Comparison, bounds: Bounds) -> list[Truth]:
    memory = current().digits
    indices = [s for s in guard.expression.symbols if s in bounds]
    question = (guard, tuple((s, bounds[s]) for s in sorted(indices, key=str)))
    if question not in memory:
        memory[question] = _digits(guard, bounds)
    return memory[question]


def _digits(guard: Comparison, bounds: Bounds) -> list[Truth]:
    """The statement digit by digit where the digit rule applies, else nothing."""
    split = index_parts(guard.expression)
    if split is None or not split[0]:
        return []
    knowledge = current()
    radices: dict[Expression, None] = {}
    for coefficient in split[0].values():
        if isinstance(coefficient, Expression):
            sign = 1 if knowledge.evidently_nonnegative(coefficient) else -1
            radices[Expression.of(sign * coefficient)] = None
    for radix in sorted(radices, key=lambda r: (max(map(len, r.terms)), str(r))):
        parts = divided(guard.expression, radix)
        if parts is None:
            continue
        upper, lower = parts
        if isinstance(upper, int) and upper == 0:
            continue
        done = next((found for found in (_digit_by_digit(guard, radix, upper, lower, b) for b in (bounds, {})) if found), None)
        if done is not None:
            return done
    return []


def _digit_by_digit(guard: Comparison, radix: Dim, upper: Dim, lower: Dim, bounds: Bounds) -> list[Truth]:
    span = interval(lower, bounds)
    if span is None:
        return []
    low, high = span
    knowledge = current()
    if guard.relation == "==":
        if isinstance(lower, int) and lower == 0:
            return [equal(upper, 0)] if knowledge.evidently_positive(radix) else []
        if knowledge.evidently_nonnegative(radix + low - 1) and knowledge.evidently_nonnegative(radix - high - 1):
            return [equal(upper, 0), equal(lower, 0)]
    elif knowledge.evidently_nonnegative(low) and knowledge.evidently_nonnegative(radix - high - 1):
        if not (isinstance(lower, int) and lower == 0) or knowledge.evidently_positive(radix):
            return [at_least_zero(upper)]
    elif knowledge.evidently_nonnegative(radix + low) and knowledge.evidently_nonnegative(-high - 1):
        return [at_least_zero(upper - 1)]
    return []


__all__ = ["Bounds", "bounds_of", "conjuncts", "divided", "index_parts", "interval", "is_contradiction", "simplified", "substitute"]
