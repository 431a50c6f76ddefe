"""Reductions of a value over one index that stay as they are: products over a range, positions of extremes."""

from __future__ import annotations

from operators.expressions import Dim, Expression, substitute
from verifier.proof.knowledge import Index, current
from verifier.proof.terms import Factor, Substitution, Value


class Binder(Factor):
    """A named reduction of a value over one index: `product`, or the `position` of an extreme."""

    def __init__(self, name: str, index: Index, extent: Dim, value: Value) -> None:
        stem = "s" * (value.height + 2)  # one more than the sums in the value have
        named = Index(f"{stem}₁")
        fresh = current().fresh("k")
        inner = value.relabelled({index: Expression.of(fresh)}).relabelled({fresh: Expression.of(named)})
        self.name, self.index, self.extent, self.value = name, named, extent, inner.canonical()
        self.key = f"{name}({named} < {extent}: {self.value.key})"
        size = extent.symbols if isinstance(extent, Expression) else set()
        self.free = frozenset((self.value.free - {named}) | size)
        self.height = 2 + self.value.height

    def parts(self) -> tuple[Value, ...]:
        return (self.value,)

    def replaced(self, values: Substitution) -> Value:
        fresh = current().fresh("k")
        inner = self.value.relabelled({self.index: Expression.of(fresh)}).replaced(values)
        return Value.of(Binder(self.name, fresh, substitute(self.extent, values), inner))

    def relabelled(self, names: Substitution) -> Binder:
        return Binder(self.name, self.index, substitute(self.extent, names), self.value.relabelled(names))
