"""Arithmetic of the normal form: products of sums, one-point sums, counting, substitution, case splits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from operators.expressions import Atom, Dim, Expression, Symbol
from operators.formulas import Comparison, Formula, Junction, Negation, Truth, at_least_zero, formula_symbols, negate
from operators.predicates import substitute_formula
from verifier.proof.guards import conjuncts, simplified
from verifier.proof.knowledge import Index, current
from verifier.proof.terms import Factor, Product, Substitution, Value, as_value, sorted_factors


def multiply(left: Value, right: Value) -> Value:
    """The product of two sums, distributed; x · (1/x) = 1 for a sum x ≠ 0."""
    for one, other in ((left, right), (right, left)):
        cancelled = _cancelled(one, other)
        if cancelled is not None:
            return cancelled
    result: dict[Product, Fraction] = {}
    for p, a in left.terms.items():
        for q, b in right.terms.items():
            apart = p.renamed() if set(p.bound) & q.free else p
            if set(q.bound) & (set(apart.bound) | apart.mentioned):
                q = q.renamed()
            joined = assemble((*apart.bound, *q.bound), [*apart.guards, *q.guards], [*apart.factors, *q.factors])
            accumulate(result, joined, a * b)
    return Value(result)


def _cancelled(one: Value, other: Value) -> Value | None:
    """other with 1/one taken out of its only product, where it stands there and one ≠ 0 is known."""
    from verifier.proof.laws import cancels
    from verifier.proof.terms import Function

    if other.single is None or one.factor is not None or one.number is not None:
        return None
    product, coefficient = other.single
    for factor, power in product.factors:
        if isinstance(factor, Function) and factor.name == "inverse" and not factor.free & set(product.bound):
            if factor.arguments[0].key != one.canonical().key or not cancels(one, product.guards):
                continue
            factors = {f: n for f, n in product.factors if f != factor} | ({factor: power - 1} if power > 1 else {})
            return Value({Product(product.bound, product.guards, sorted_factors(factors)): coefficient})
    return None


def accumulate(result: dict[Product, Fraction], value: Value, number: Fraction) -> None:
    """Add number · value into the sum being built."""
    for product, coefficient in value.terms.items():
        total = result.get(product, Fraction(0)) + coefficient * number
        if total:
            result[product] = total
        else:
            result.pop(product, None)


def assemble(bound: Sequence[Index], guards: Iterable[Truth], factors: Iterable[tuple[Factor, int]]) -> Value:
    """Σ over bound of Π [guard] · Π factor^power in normal form."""
    from verifier.proof.laws import combine

    current().check_time()
    kept = simplified(guards)
    if kept is None:
        return Value({})
    powers, others = combine(factors, kept)
    if powers is None:
        return Value({})
    if not others:
        return _summed(tuple(bound), kept, powers)
    return _bound_over(tuple(bound), kept, powers, others)


def _bound_over(bound: tuple[Index, ...], guards: Iterable[Truth], powers: dict[Factor, int], others: Iterable[Value]) -> Value:
    """Σ over bound of Π [guard] · Π factor^power · Π others: multiplied out before anything is summed."""
    inner = Value({Product((), frozenset(), sorted_factors(powers)): Fraction(1)})
    for other in others:
        inner = multiply(inner, other)
    given = list(guards)
    taken = set(bound) | {s for guard in given for s in formula_symbols(guard)}
    result: dict[Product, Fraction] = {}
    for product, coefficient in inner.terms.items():
        if set(product.bound) & taken:
            product = product.renamed()
        accumulate(result, assemble((*bound, *product.bound), [*given, *product.guards], product.factors), coefficient)
    return Value(result)


def _summed(bound: tuple[Index, ...], guards: frozenset[Formula], powers: dict[Factor, int]) -> Value:
    if not bound:
        return Value({Product((), guards, sorted_factors(powers)): Fraction(1)})
    pinned = one_point(bound, guards)
    if pinned is not None:
        index, value = pinned
        rest = tuple(b for b in bound if b != index)
        return _with_replacement(rest, guards, powers, {index: value})
    counted = _counted(bound, guards, powers)
    if counted is not None:
        return counted
    order = tuple(sorted(bound, key=str))
    return Value({Product(order, guards, sorted_factors(powers)): Fraction(1)})


def one_point(bound: Sequence[Index], guards: Iterable[Formula]) -> tuple[Index, Dim] | None:
    """A bound index that an equality fixes, with its value."""
    equalities = [g.expression for g in guards if isinstance(g, Comparison) and g.relation == "=="]
    for expression in sorted(equalities, key=str):
        for index in bound:
            coefficient = expression.terms.get((index,), 0)
            if abs(coefficient) != 1:
                continue
            rest = expression - coefficient * Expression.of(index)
            if isinstance(rest, int) or index not in rest.symbols:
                return index, -rest if coefficient == 1 else rest
    return None


def _with_replacement(bound: tuple[Index, ...], guards: frozenset[Formula], powers: dict[Factor, int], values: Substitution) -> Value:
    new_guards = [substitute_formula(guard, values) for guard in guards]
    if any(guard is False for guard in new_guards):
        return Value({})
    plain: list[tuple[Factor, int]] = []
    changed: list[tuple[Value, int]] = []
    for factor, power in powers.items():
        if not factor.free & values.keys():
            plain.append((factor, power))
            continue
        value = factor.replaced(values)
        if value.factor is not None:
            plain.append((value.factor, power))
        else:
            changed.append((value, power))
    if not changed:
        return assemble(bound, new_guards, plain)
    merged: dict[Factor, int] = {}
    for factor, power in plain:
        merged[factor] = merged.get(factor, 0) + power
    return _bound_over(bound, new_guards, merged, [value for value, power in changed for _ in range(power)])


def _counted(bound: tuple[Index, ...], guards: frozenset[Formula], powers: dict[Factor, int]) -> Value | None:
    """The sum with an index that no factor mentions counted out; None when there is none that can be."""
    used = {s for factor in powers for s in factor.free}
    for index in bound:
        if index in used:
            continue
        about = [guard for guard in guards if index in formula_symbols(guard)]
        limits = _limits(index, about)
        if limits is None:
            continue
        lows, highs = limits
        others = guards - set(about)
        rest = tuple(b for b in bound if b != index)
        lows = _sharpest(lows, 1, guards - set(about))
        highs = _sharpest(highs, -1, guards - set(about))
        if len(lows) > 1 or len(highs) > 1:
            continue
        (_, low), (_, high) = lows[0], highs[0]
        count = high - low + 1
        result = Value({})
        extra: list[Truth] = [] if current().evidently_nonnegative(count) else [at_least_zero(count)]
        for product, coefficient in as_value(count).terms.items():
            merged = dict(powers)
            for factor, power in product.factors:
                merged[factor] = merged.get(factor, 0) + power
            result = result + assemble(rest, [*others, *extra], merged.items()).scaled(coefficient)
        return result
    return None


Limit = tuple[Formula, Dim]


def _sharpest(limits: list[Limit], sign: int, given: Iterable[Formula]) -> list[Limit]:
    """The limit that implies the others, if one is known to; else all of them."""
    if len(limits) == 1:
        return limits
    for limit in limits:
        if all(current().proves(at_least_zero(sign * (limit[1] - other[1])), given, linear=True) for other in limits):
            return [limit]
    return limits


def _limits(index: Index, about: list[Formula]) -> tuple[list[Limit], list[Limit]] | None:
    lows: list[Limit] = []
    highs: list[Limit] = []
    for guard in about:
        if not isinstance(guard, Comparison) or guard.relation != ">=":
            return None
        coefficient = guard.expression.terms.get((index,), 0)
        rest = guard.expression - coefficient * Expression.of(index)
        if abs(coefficient) != 1 or (isinstance(rest, Expression) and index in rest.symbols):
            return None
        (lows if coefficient == 1 else highs).append((guard, -rest if coefficient == 1 else rest))
    order = [sorted(limits, key=lambda limit: str(limit[1])) for limits in (lows, highs)]
    return (order[0], order[1]) if lows and highs else None


def replaced(value: Value, values: Substitution) -> Value:
    """The value with symbols replaced by integer expressions."""
    names = frozenset(values)
    if not value.free & names:
        return value
    inside = {s for dim in values.values() if isinstance(dim, Expression) for s in dim.symbols}
    result: dict[Product, Fraction] = {}
    for product, coefficient in value.terms.items():
        if not product.free & names:
            accumulate(result, Value.of(product), coefficient)
            continue
        if inside & set(product.bound) or names & set(product.bound):
            product = product.renamed()
        wanted: dict[Atom, Dim] = {name: dim for name, dim in values.items() if name in product.free}
        accumulate(result, _with_replacement(product.bound, product.guards, dict(product.factors), wanted), coefficient)
    return Value(result)


def summed_over(index: Index, limits: Iterable[Truth], value: Value) -> Value:
    """Σ of the value over the index within its limits."""
    result: dict[Product, Fraction] = {}
    for product, coefficient in value.terms.items():
        accumulate(result, assemble((*product.bound, index), [*product.guards, *limits], product.factors), coefficient)
    return Value(result)


def where(condition: Truth, value: Value) -> Value:
    """[condition] · value."""
    if isinstance(condition, bool):
        return value if condition else Value({})
    if isinstance(condition, Junction) and condition.connective == "or":
        rest = value
        for part in condition.formulas:
            rest = unless(part, rest)
        return value - rest
    if isinstance(condition, Negation):
        return unless(condition.formula, value)
    for inner in conjuncts(condition):
        if isinstance(inner, Junction):
            value = where(inner, value)
    simple = [part for part in conjuncts(condition) if not isinstance(part, Junction)]
    result: dict[Product, Fraction] = {}
    free = formula_symbols(condition)
    for product, coefficient in value.terms.items():
        if free & set(product.bound):
            product = product.renamed()
        accumulate(result, assemble(product.bound, [*product.guards, *simple], product.factors), coefficient)
    return Value(result)


def unless(condition: Truth, value: Value) -> Value:
    """[not condition] · value."""
    if isinstance(condition, Comparison) and condition.relation == ">=":
        return where(negate(condition), value)
    return value - where(condition, value)


Case = tuple[tuple[Value, ...], "Callable[[Value], Value]"]


def by_cases(arguments: Sequence[Value], function: Callable[..., Value], most: int = 16) -> Value:
    """function(*arguments), with guards (and truths) of the arguments that no sum binds taken out by case splits."""
    return _by_cases(tuple(arguments), function, [most])


def _by_cases(arguments: tuple[Value, ...], function: Callable[..., Value], budget: list[int]) -> Value:
    unit = _splitting_unit(arguments)
    if unit is None or budget[0] <= 0:
        return function(*arguments)
    budget[0] -= 1
    if isinstance(unit, frozenset):
        condition: Truth = Junction("and", tuple(sorted(unit, key=str))) if len(unit) > 1 else next(iter(unit))
        yes = _by_cases(tuple(_assume(a, unit) for a in arguments), function, budget)
        no = _by_cases(tuple(_deny(a, unit) for a in arguments), function, budget)
        return no + where(condition, yes - no) if len(unit) > 1 else where(condition, yes) + unless(condition, no)
    yes = _by_cases(tuple(set_truth(a, unit, True) for a in arguments), function, budget)
    no = _by_cases(tuple(set_truth(a, unit, False) for a in arguments), function, budget)
    return no + multiply(Value.of(unit), yes - no)


def _outer(product: Product) -> frozenset[Formula]:
    bound = set(product.bound)
    return frozenset(g for g in product.guards if not formula_symbols(g) & bound)


def _splitting_unit(arguments: tuple[Value, ...]) -> frozenset[Formula] | Factor | None:
    units = {_outer(product) for argument in arguments for product in argument.terms}
    found = sorted((u for u in units if u), key=lambda u: (len(u), sorted(map(str, u))))
    if found:
        return found[0]
    truths = {
        factor
        for argument in arguments
        for product in argument.terms
        for factor, _ in product.factors
        if factor.idempotent and not factor.free & set(product.bound)
    }
    return min(truths, key=lambda f: (f.height, f.key)) if truths else None


def _assume(value: Value, unit: frozenset[Formula]) -> Value:
    result: dict[Product, Fraction] = {}
    for product, coefficient in value.terms.items():
        together = simplified([*product.guards, *unit])
        if together is None:
            continue
        guards = frozenset(g for g in product.guards if g not in unit and not any(_implies(u, g) for u in unit))
        accumulate(result, Value.of(Product(product.bound, guards, product.factors)), coefficient)
    return Value(result)


def _implies(known: Formula, guard: Formula) -> bool:
    if not isinstance(known, Comparison) or not isinstance(guard, Comparison) or known.relation != ">=" or guard.relation != ">=":
        return False
    return current().evidently_nonnegative(guard.expression - known.expression)


def _deny(value: Value, unit: frozenset[Formula]) -> Value:
    opposite: set[Truth] = set()
    if len(unit) == 1:
        (only,) = unit
        if isinstance(only, Comparison) and only.relation == ">=":
            opposite = set(conjuncts(negate(only)))
    result: dict[Product, Fraction] = {}
    for product, coefficient in value.terms.items():
        if unit <= product.guards:
            continue
        guards = frozenset(g for g in product.guards if g not in opposite)
        accumulate(result, Value.of(Product(product.bound, guards, product.factors)), coefficient)
    return Value(result)


def set_truth(value: Value, truth: Factor, holds: bool) -> Value:
    """The value where a factor that is 0 or 1 is 1 (`holds`), or 0."""
    result: dict[Product, Fraction] = {}
    for product, coefficient in value.terms.items():
        factors = tuple((f, n) for f, n in product.factors if f != truth)
        if len(factors) != len(product.factors) and not holds:
            continue
        accumulate(result, Value.of(Product(product.bound, product.guards, factors)), coefficient)
    return Value(result)


def free_symbols(values: Iterable[Value]) -> frozenset[Symbol]:
    """Every symbol that the values mention."""
    return frozenset(s for value in values for s in value.free)
