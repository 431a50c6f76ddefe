"""Values in readable mathematics."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from operators.expressions import Expression
from operators.formulas import Comparison, Formula
from verifier.proof.binders import Binder
from verifier.proof.guards import bounds_of
from verifier.proof.knowledge import Index
from verifier.proof.reductions import Alternative, Largest
from verifier.proof.terms import Factor, Function, Product, Read, Value


def value_text(value: Value) -> str:
    """A value as mathematics."""
    ordered = sorted(value.terms.items(), key=lambda term: (len(term[0].key), term[0].key))
    parts = [_term_text(product, coefficient) for product, coefficient in ordered]
    text = " ".join(("− " if negative else "+ ") + body for body, negative in parts)
    return text.removeprefix("+ ") if parts else "0"


def _term_text(product: Product, coefficient: Fraction) -> tuple[str, bool]:
    pieces = [] if abs(coefficient) == 1 and not product.is_number else [str(abs(coefficient))]
    head, guards = _binder_text("Σ", product.bound, product.guards)
    pieces += guards
    pieces += [factor_text(factor) + (_superscript(power) if power != 1 else "") for factor, power in product.factors]
    return f"{head}{'·'.join(pieces) or '1'}", coefficient < 0


def _superscript(power: int) -> str:
    return str(power).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))


def _binder_text(sign: str, bound: Iterable[Index], guards: Iterable[Formula]) -> tuple[str, list[str]]:
    """The sum's indices with their ranges, and the guards that are no ranges as Iverson brackets."""
    indices = list(bound)
    left = sorted(guards, key=str)
    limits = bounds_of(g for g in left if isinstance(g, Comparison))
    shown = []
    for index in indices:
        low, high = limits.get(index, (None, None))
        if low is None or high is None:
            shown.append(str(index))
            continue
        shown.append(f"{low} ≤ {index} < {high + 1}")
        used = [Expression.of(index) - low, high - Expression.of(index)]
        left = [g for g in left if not (isinstance(g, Comparison) and g.relation == ">=" and g.expression in used)]
    return (f"{sign}[{', '.join(shown)}] " if indices else ""), [f"[{guard}]" for guard in left]


def map_text(product: Product, found: dict[Index, str]) -> str:
    """Which elements a sum reads, and where its indices go."""
    tensors = dict.fromkeys(factor.tensor for factor, _ in product.factors if isinstance(factor, Read))
    return f"the sum over {', '.join(tensors)}: " + ", ".join(f"{index} ↦ {image}" for index, image in found.items())


def factor_text(factor: Factor) -> str:
    """A factor as mathematics."""
    if isinstance(factor, Read):
        return factor.key if factor.index else factor.tensor
    if isinstance(factor, Largest):
        return f"max{{{', '.join(_alternative_text(a) for a in factor.alternatives)}}}"
    if isinstance(factor, Binder):
        return f"{factor.name}[{factor.index} < {factor.extent}]({value_text(factor.value)})"
    if isinstance(factor, Function):
        inside = [value_text(argument) for argument in factor.arguments]
        if factor.name == "above":
            return f"[{inside[0]} > 0]"
        if factor.name == "zero":
            return f"[{inside[0]} = 0]"
        if factor.name == "inverse":
            return f"1/({inside[0]})"
        return f"{factor.name}({', '.join(inside)})" if inside else factor.name
    return factor.key


def _alternative_text(alternative: Alternative) -> str:
    head, guards = _binder_text("over ", alternative.bound, alternative.guards)
    return f"{head}{''.join(guards)}{value_text(alternative.value)}"
